use candle_rocm::{Buffer, Context};
use taper_kernels::norm::{Residual, RmsNorm, rms_norm};
use taper_kernels::{DevicePtr, Dtype};

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
    for (rows, n) in SHAPES {
        in_place(context, rows, n);
    }
}

/// y = x; and sum = residual, sum = x, whose bits are those of separate tensors.
fn in_place(context: &Context, rows: usize, n: usize) {
    let mut random = Random(14);
    let (x, residual) = (random.units(rows * n), random.units(rows * n));
    let weight = input(context, Dtype::F16, &random.units(n));
    let bytes = 2 * rows * n;
    let run_norm = |x: DevicePtr, y: DevicePtr, residual: Option<Residual>| {
        let (rows, n, weight) = (rows as u32, n as u32, weight.buffer.ptr());
        run(context, &rms_norm(&RmsNorm { dtype: Dtype::F16, rows, n, eps: EPS, x, weight, y, residual }).unwrap());
    };
    let fresh = || (input(context, Dtype::F16, &x).buffer, input(context, Dtype::F16, &residual).buffer);
    let (y, sum) = (output(context, bytes), output(context, bytes));

    let (x, _) = fresh();
    run_norm(x.ptr(), y.buffer.ptr(), None);
    let apart = y.bytes();
    run_norm(x.ptr(), x.ptr(), None);
    assert_eq!(x.download().unwrap(), apart, "rms_norm [{rows}, {n}] with y = x");

    let (x, residual) = fresh();
    let place = |residual: &Buffer, sum: &Buffer| Some(Residual { residual: residual.ptr(), sum: sum.ptr() });
    run_norm(x.ptr(), y.buffer.ptr(), place(&residual, &sum.buffer));
    let apart = (sum.bytes(), y.bytes());
    run_norm(x.ptr(), y.buffer.ptr(), place(&residual, &residual));
    assert_eq!((residual.download().unwrap(), y.bytes()), apart, "rms_norm [{rows}, {n}] with sum = residual");
    let (x, residual) = fresh();
    run_norm(x.ptr(), y.buffer.ptr(), place(&residual, &x));
    assert_eq!((x.download().unwrap(), y.bytes()), apart, "rms_norm [{rows}, {n}] with sum = x");
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
