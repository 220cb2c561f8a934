use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::norm::{Residual, RmsNorm, rms_norm};

use super::data::{FLOATS, Random, assert_close, encode, input, output, rounding, run, smallest};

const EPS: f32 = 1e-5;
/// Waves and blocks; rows that are read in wide pieces and one by one; rows that fit into registers and that do not.
const SHAPES: [(usize, usize); 9] =
    [(1, 1), (5, 127), (9, 128), (3, 1000), (2, 1032), (2, 4096), (2, 1027), (2, 8208), (1, 9001)];

pub fn check(context: &Context) {
    for dtype in FLOATS {
        for (rows, n) in SHAPES {
            one(context, dtype, rows, n, false);
            one(context, dtype, rows, n, true);
        }
    }
}

pub fn one(context: &Context, dtype: Dtype, rows: usize, n: usize, with_residual: bool) {
    let mut random = Random(1);
    let bytes = rows * n * dtype.size() as usize;
    let x = input(context, dtype, &random.units(rows * n));
    let residual = input(context, dtype, &random.units(rows * n));
    let weight = input(context, dtype, &random.units(n));
    let (y, sum) = (output(context, bytes), output(context, bytes));
    let launch = rms_norm(&RmsNorm {
        dtype,
        rows: rows as u32,
        n: n as u32,
        eps: EPS,
        x: x.buffer.ptr(),
        weight: weight.buffer.ptr(),
        y: y.buffer.ptr(),
        residual: with_residual.then(|| Residual { residual: residual.buffer.ptr(), sum: sum.buffer.ptr() }),
    });
    run(context, &launch.unwrap());

    let name = format!("rms_norm {dtype} [{rows}, {n}] residual {with_residual}");
    let mut normalised = x.values.clone();
    if with_residual {
        let sums: Vec<f32> = x.values.iter().zip(&residual.values).map(|(a, b)| *a as f32 + *b as f32).collect();
        assert_eq!(sum.bytes(), encode(dtype, &sums), "{name}: the sum is rounded once");
        normalised = sum.values(dtype);
    }
    let mut want = Vec::new();
    for row in normalised.chunks(n) {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / n as f64;
        want.extend(row.iter().zip(&weight.values).map(|(x, w)| x / (mean + f64::from(EPS)).sqrt() * w));
    }
    // One rounding of the result; before it, f32 sums of positive values and three f32 products.
    assert_close(&name, &y.values(dtype), &want, |i| want[i].abs() * (1.01 * rounding(dtype) + 2e-6) + smallest(dtype));
}
