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
