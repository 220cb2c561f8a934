use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::softmax::{Softmax, softmax};

use super::data::{FLOATS, Random, assert_close, input, output, rounding, run, smallest};

const SHAPES: [(usize, usize); 7] = [(1, 1), (5, 33), (9, 128), (3, 1000), (2, 1025), (2, 4104), (1, 8211)];

pub fn check(context: &Context) {
    for dtype in FLOATS {
        for (rows, n) in SHAPES {
            one(context, dtype, rows, n);
        }
    }
    for (rows, n) in SHAPES {
        in_place(context, rows, n);
    }
    a_row_of_masked_values_is_nan_and_no_other(context);
}

fn in_place(context: &Context, rows: usize, n: usize) {
    let x = input(context, Dtype::Bf16, &Random(15).units(rows * n)).buffer;
    let y = output(context, 2 * rows * n);
    let (rows, n) = (rows as u32, n as u32);
    let launch = |y| softmax(&Softmax { dtype: Dtype::Bf16, rows, n, x: x.ptr(), y }).unwrap();
    run(context, &launch(y.buffer.ptr()));
    run(context, &launch(x.ptr()));
    assert_eq!(x.download().unwrap(), y.bytes(), "softmax [{rows}, {n}] with y = x");
}

fn a_row_of_masked_values_is_nan_and_no_other(context: &Context) {
    for n in [5, 1100] {
        let mut values = vec![1.0; 3 * n];
        values[n..2 * n].fill(f32::NEG_INFINITY);
        let (x, y) = (input(context, Dtype::F32, &values), output(context, 12 * n));
        let (x, y_ptr) = (x.buffer.ptr(), y.buffer.ptr());
        run(context, &softmax(&Softmax { dtype: Dtype::F32, rows: 3, n: n as u32, x, y: y_ptr }).unwrap());
        let mut want = vec![1.0 / n as f64; 3 * n];
        want[n..2 * n].fill(f64::NAN);
        assert_close("softmax of masked values", &y.values(Dtype::F32), &want, |_| 1e-6);
    }
}

pub fn one(context: &Context, dtype: Dtype, rows: usize, n: usize) {
    let mut random = Random(2);
    let mut values: Vec<f32> = random.units(rows * n).iter().map(|x| 20.0 * x).collect();
    // Masked values, among them all but one of a wave's first piece.
    for (i, value) in values.iter_mut().enumerate() {
        if n > 8 && i % n < 7 {
            *value = f32::NEG_INFINITY;
        }
    }
    let x = input(context, dtype, &values);
    let y = output(context, rows * n * dtype.size() as usize);
    let (x_ptr, y_ptr) = (x.buffer.ptr(), y.buffer.ptr());
    run(context, &softmax(&Softmax { dtype, rows: rows as u32, n: n as u32, x: x_ptr, y: y_ptr }).unwrap());

    let mut want = Vec::new();
    for row in x.values.chunks(n) {
        let highest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - highest).exp()).sum();
        want.extend(row.iter().map(|x| (x - highest).exp() / sum));
    }
    // The difference to the highest value, up to 40, is rounded in f32: an error of the result of 40 * 2^-24.
    let bound = |i: usize| want[i] * (1.01 * rounding(dtype) + 4e-6) + smallest(dtype);
    assert_close(&format!("softmax {dtype} [{rows}, {n}]"), &y.values(dtype), &want, bound);
}
