use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::gemm::{Gemm, Kind, gemm};

use super::data::{Random, assert_close, input, output, rounding, run};

/// Matrices of a batch, rows, columns, inner values; and whether all of the batch share the second matrix.
pub type Case = (usize, usize, usize, usize, bool);

const CASES: [Case; 8] = [
    (1, 1, 1, 1, false),
    (1, 17, 33, 47, false),
    (1, 33, 65, 128, false),
    (2, 31, 70, 40, true),
    (3, 16, 16, 16, false),
    (1, 5, 129, 33, false),
    // Large tiles: enough of them, or they are not used.
    (20, 130, 70, 80, false),
    (40, 33, 100, 37, true),
];

pub fn check(context: &Context) {
    for case in CASES {
        floats(context, Kind::F16, Dtype::F16, case);
        floats(context, Kind::Bf16, Dtype::Bf16, case);
        bytes(context, case);
    }
}

pub fn floats(context: &Context, kind: Kind, dtype: Dtype, case: Case) {
    let (batch, m, n, k, shared) = case;
    let mut random = Random(10);
    let a = input(context, dtype, &random.units(batch * m * k));
    let b = input(context, dtype, &random.units(if shared { 1 } else { batch } * n * k));
    let c = output(context, batch * m * n * dtype.size() as usize);
    launch(context, kind, case, [a.buffer.ptr(), b.buffer.ptr(), c.buffer.ptr()]);
    let want = products(&a.values, &b.values, case, |a, b| a * b);
    let size = products(&a.values, &b.values, case, |a, b| (a * b).abs());
    // Products of 16-bit floats are exact in f32, sums are not; hardware may cut where it adds.
    let bound = |i: usize| want[i].abs() * 1.01 * rounding(dtype) + size[i] * 2e-6 + 1e-7;
    assert_close(&format!("gemm {kind:?} {case:?}"), &c.values(dtype), &want, bound);
}

fn bytes(context: &Context, case: Case) {
    let (batch, m, n, k, shared) = case;
    let mut random = Random(11);
    let a = random.bytes(batch * m * k);
    let b = random.bytes(if shared { 1 } else { batch } * n * k);
    let (a_buffer, b_buffer) = (context.upload(&a).unwrap(), context.upload(&b).unwrap());
    let c = output(context, batch * m * n * 4);
    launch(context, Kind::I8, case, [a_buffer.ptr(), b_buffer.ptr(), c.buffer.ptr()]);
    let signed = |bytes: &[u8]| -> Vec<f64> { bytes.iter().map(|x| f64::from(*x as i8)).collect() };
    let want = products(&signed(&a), &signed(&b), case, |a, b| a * b);
    let got: Vec<f64> =
        c.bytes().chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()).collect();
    assert!(got == want, "gemm i8 {case:?}");
}

fn launch(context: &Context, kind: Kind, case: Case, [a, b, c]: [taper_kernels::DevicePtr; 3]) {
    let (batch, m, n, k, shared) = case;
    let launch = gemm(&Gemm {
        kind,
        batch: batch as u32,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        a,
        stride_a: (m * k) as u64,
        b,
        stride_b: if shared { 0 } else { (n * k) as u64 },
        c,
        stride_c: (m * n) as u64,
    });
    run(context, &launch.unwrap());
}

/// Sums over k of `term`, for every matrix, row and column.
fn products(a: &[f64], b: &[f64], (batch, m, n, k, shared): Case, term: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut sums = Vec::with_capacity(batch * m * n);
    for i in 0..batch * m {
        let left = &a[i * k..][..k];
        let matrix = if shared { 0 } else { i / m };
        for j in 0..n {
            let right = &b[(matrix * n + j) * k..][..k];
            sums.push(left.iter().zip(right).map(|(a, b)| term(*a, *b)).sum());
        }
    }
    sums
}
