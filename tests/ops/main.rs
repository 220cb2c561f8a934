//! Tier `ops`: every fused op against its reference in plain Candle ops, at odd shapes, on views, over poisoned memory.

mod activation;
mod attention;
mod kv_write;
mod norm;
mod quant;
mod rope;

use candle_core::{Device, Tensor};

/// Numbers between -1 and 1 that repeat nothing: a different one for every `seed` and index.
fn noise(seed: u64, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count as u64)
        .map(|i| {
            let mut x = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed.wrapping_mul(0xD1B5_4A32_D192_ED03);
            x ^= x >> 31;
            x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x ^= x >> 27;
            (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Asserts that `found` is `expected` within `tolerance`, and names the worst element.
fn assert_close(what: &str, found: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(found.dims(), expected.dims(), "{what}: shape");
    let flat =
        |t: &Tensor| t.to_dtype(candle_core::DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let mut worst = (0.0, 0, 0.0, 0.0);
    for (index, (f, e)) in flat(found).into_iter().zip(flat(expected)).enumerate() {
        let difference = if f == e { 0.0 } else { (f - e).abs() };
        if difference.is_nan() || difference > worst.0 {
            worst = (if difference.is_nan() { f32::INFINITY } else { difference }, index, f, e);
        }
    }
    assert!(
        worst.0 <= tolerance,
        "{what}: element {} is {}, expected {} (tolerance {tolerance})",
        worst.1,
        worst.2,
        worst.3
    );
}

/// `inner` inside a wider tensor of NaN, as a view with the same values: what a kernel must not read is poison, and
/// rows are not contiguous.
fn poisoned_view(inner: &Tensor) -> Tensor {
    let mut dims = inner.dims().to_vec();
    dims[1] += 3;
    let wide = (Tensor::zeros(dims, inner.dtype(), inner.device()).unwrap() + f64::NAN).unwrap();
    let count = inner.dim(1).unwrap();
    let rest = wide.narrow(1, 0, 2).unwrap();
    let tail = wide.narrow(1, 0, 1).unwrap();
    Tensor::cat(&[&rest, inner, &tail], 1).unwrap().narrow(1, 2, count).unwrap()
}
