use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::reduce::{Reduce, Reduction, reduce};

use super::data::{FLOATS, Random, assert_close, input, output, rounding, run};

const SHAPES: [(usize, usize); 6] = [(5, 1), (17, 33), (3, 1000), (2, 1025), (2, 5001), (1, 12288)];

pub fn check(context: &Context) {
    for dtype in FLOATS {
        for (rows, n) in SHAPES {
            values(context, dtype, rows, n);
            places(context, dtype, rows, n);
        }
    }
    nan_is_never_the_place_of_the_maximum(context);
}

pub fn values(context: &Context, dtype: Dtype, rows: usize, n: usize) {
    let x = input(context, dtype, &Random(3).units(rows * n));
    let fold = |start: f64, join: fn(f64, f64) -> f64| -> Vec<f64> {
        x.values.chunks(n).map(|row| row.iter().copied().fold(start, join)).collect()
    };
    let magnitude: Vec<f64> = x.values.chunks(n).map(|row| row.iter().map(|x| x.abs()).sum()).collect();
    let cases = [
        (Reduction::Sum, fold(0.0, |a, b| a + b)),
        (Reduction::Max, fold(f64::NEG_INFINITY, f64::max)),
        (Reduction::Min, fold(f64::INFINITY, f64::min)),
    ];
    for (reduction, want) in cases {
        let y = output(context, rows * dtype.size() as usize);
        run_one(context, reduction, dtype, (rows, n), &x.buffer, &y.buffer);
        // Sums lose up to a rounding an addition, of which a lane makes n / 32 or fewer.
        let exact = reduction != Reduction::Sum;
        let bound = |i: usize| if exact { 0.0 } else { want[i].abs() * 1.01 * rounding(dtype) + magnitude[i] * 2e-6 };
        assert_close(&format!("{reduction:?} {dtype} [{rows}, {n}]"), &y.values(dtype), &want, bound);
    }
}

fn places(context: &Context, dtype: Dtype, rows: usize, n: usize) {
    let mut values = Random(4).units(rows * n);
    // Ties: the first of them counts.
    for row in 0..rows {
        for at in [n / 3, n / 2, n - 1] {
            values[row * n + at] = 2.0;
        }
    }
    let x = input(context, dtype, &values);
    assert_eq!(argmax(context, dtype, (rows, n), &x.buffer), vec![(n / 3) as u32; rows], "{dtype} [{rows}, {n}]");
}

fn nan_is_never_the_place_of_the_maximum(context: &Context) {
    let mut values = vec![f32::NEG_INFINITY; 1100];
    values[0] = f32::NAN;
    let x = input(context, Dtype::F32, &values);
    assert_eq!(argmax(context, Dtype::F32, (1, 1100), &x.buffer), [1]);
    assert_eq!(argmax(context, Dtype::F32, (1, 1), &x.buffer), [u32::MAX]);
}

fn argmax(context: &Context, dtype: Dtype, shape: (usize, usize), x: &candle_rocm::Buffer) -> Vec<u32> {
    let y = output(context, shape.0 * 4);
    run_one(context, Reduction::ArgMax, dtype, shape, x, &y.buffer);
    y.bytes().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn run_one(
    context: &Context,
    reduction: Reduction,
    dtype: Dtype,
    (rows, n): (usize, usize),
    x: &candle_rocm::Buffer,
    y: &candle_rocm::Buffer,
) {
    let (rows, n) = (rows as u32, n as u32);
    run(context, &reduce(&Reduce { reduction, dtype, rows, n, x: x.ptr(), y: y.ptr() }).unwrap());
}
