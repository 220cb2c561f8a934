use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::matmul::{Matmul, Matrix, matmul};

use super::data::{FLOATS, Random, assert_close, input, output, rounding, run};

/// batch, m, n, k
const SHAPES: [[usize; 4]; 5] = [[1, 1, 1, 1], [1, 65, 3, 17], [3, 5, 130, 33], [2, 64, 64, 16], [1, 1, 100, 257]];

pub fn check(context: &Context) {
    for shape in SHAPES {
        for dtype in FLOATS {
            for transposed in [[false, false], [true, false], [false, true], [true, true]] {
                one(context, dtype, shape, transposed);
            }
        }
    }
}

/// Matrices in order or transposed; b is the same for the whole batch where a is transposed.
fn one(context: &Context, dtype: Dtype, [batch, m, n, k]: [usize; 4], [transposed_a, transposed_b]: [bool; 2]) {
    let mut random = Random(25);
    let (x, y) = (random.units(batch * m * k), random.units(batch * k * n));
    let (x, y) = (input(context, dtype, &x), input(context, dtype, &y));
    let strides = |transposed: bool, rows: usize, columns: usize| if transposed { (1, rows) } else { (columns, 1) };
    let (row_a, column_a) = strides(transposed_a, m, k);
    let (row_b, column_b) = strides(transposed_b, k, n);
    let batch_b = if transposed_a { 0 } else { k * n };
    let c = output(context, batch * m * n * dtype.size() as usize);
    let matrix = |ptr, row: usize, column: usize, batch: usize| Matrix {
        ptr,
        row: row as u64,
        column: column as u64,
        batch: batch as u64,
    };
    let launch = matmul(&Matmul {
        dtype,
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        a: matrix(x.buffer.ptr(), row_a, column_a, m * k),
        b: matrix(y.buffer.ptr(), row_b, column_b, batch_b),
        c: c.buffer.ptr(),
    });
    run(context, &launch.unwrap());
    let (mut want, mut size) = (Vec::new(), Vec::new());
    for index in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let product = |l: usize| {
                    x.values[index * m * k + i * row_a + l * column_a]
                        * y.values[index * batch_b + l * row_b + j * column_b]
                };
                want.push((0..k).map(product).sum::<f64>());
                size.push((0..k).map(|l| product(l).abs()).sum::<f64>());
            }
        }
    }
    // f32 sums of k products, each with its rounding.
    let bound = |i: usize| want[i].abs() * 1.01 * rounding(dtype) + size[i] * (k as f64).sqrt() * 2f64.powi(-23);
    assert_close(&format!("matmul {dtype} {batch} x {m} x {n} x {k}"), &c.values(dtype), &want, bound);
}
