use candle_rocm::{Buffer, Context};
use half::f16;
use taper_kernels::Dtype;
use taper_kernels::quant::{Format, Matvec, Quantize, matvec, quantize};

use super::data::{FLOATS, Random, assert_close, decode, input, output, rounding, run};

pub fn check(context: &Context) {
    for dtype in FLOATS {
        activations(context, dtype, 32 * 77);
    }
    extreme_activations(context);
    for (tokens, rows, dtype) in
        [(1, 37, Dtype::F32), (1, 16, Dtype::F16), (2, 5, Dtype::Bf16), (3, 33, Dtype::F16), (8, 35, Dtype::F32)]
    {
        product(context, Format::Q8_0, dtype, tokens, rows, 32 * 33);
        product(context, Format::Q4K, dtype, tokens, rows, 256 * 5);
    }
    product(context, Format::Q8_0, Dtype::F32, 1, 3, 32);
    product(context, Format::Q4K, Dtype::F32, 1, 3, 256);
}

/// Bytes and scales, as on the device.
struct Quantized {
    q: Buffer,
    d: Buffer,
    /// `d * q`
    values: Vec<f64>,
}

fn quantized(context: &Context, dtype: Dtype, x: &Buffer, count: usize) -> Quantized {
    let (q, d) = (output(context, count), output(context, count / 32 * 4));
    let (q_ptr, d_ptr) = (q.buffer.ptr(), d.buffer.ptr());
    run(context, &quantize(&Quantize { dtype, count: count as u32, x: x.ptr(), q: q_ptr, d: d_ptr }).unwrap());
    let scales = d.values(Dtype::F32);
    let values = q.bytes().iter().enumerate().map(|(i, q)| f64::from(*q as i8) * scales[i / 32]).collect();
    Quantized { q: q.buffer, d: d.buffer, values }
}

/// The largest value of a group becomes 127 steps, and every other one the nearest step.
fn activations(context: &Context, dtype: Dtype, count: usize) {
    let mut random = Random(8);
    let mut values: Vec<f32> = random.units(count).iter().map(|x| x * 50.0).collect();
    values[32..64].fill(0.0);
    let x = input(context, dtype, &values);
    let quantized = quantized(context, dtype, &x.buffer, count);
    let steps: Vec<f64> = x.values.chunks(32).map(|g| g.iter().fold(0f64, |a, b| a.max(b.abs())) / 127.0).collect();
    let bound = |i: usize| steps[i / 32] * (0.5 + 1e-4);
    assert_close(&format!("quantize {dtype}"), &quantized.values, &x.values, bound);
}

/// Groups that are too small for a scale become zero; a group with a NaN or an infinity is NaN.
fn extreme_activations(context: &Context) {
    let mut values = vec![0.5f32; 32 * 4];
    values[..32].fill(1e-38);
    values[40] = f32::NAN;
    values[70] = f32::NEG_INFINITY;
    let x = input(context, Dtype::F32, &values);
    let quantized = quantized(context, Dtype::F32, &x.buffer, values.len());
    assert!(quantized.values[..32].iter().all(|x| x.abs() < 2e-38), "tiny: {:?}", &quantized.values[..32]);
    assert!(quantized.values[32..64].iter().all(|x| x.is_nan()), "NaN: {:?}", &quantized.values[32..64]);
    assert!(quantized.values[64..96].iter().any(|x| x.is_nan()), "infinity: {:?}", &quantized.values[64..96]);
    assert!(quantized.values[96..].iter().all(|x| (x - 0.5).abs() < 1e-6), "{:?}", &quantized.values[96..]);
}

pub fn product(context: &Context, format: Format, dtype: Dtype, tokens: usize, rows: usize, k: usize) {
    let mut random = Random(9);
    let x = input(context, Dtype::F32, &random.units(tokens * k));
    let x = quantized(context, Dtype::F32, &x.buffer, tokens * k);
    let blocks = blocks(format, rows * k / format.block_values() as usize, &mut random);
    let weights: Vec<f64> =
        blocks.chunks(format.block_bytes() as usize).flat_map(|block| dequantized(format, block)).collect();
    let w = context.upload(&blocks).unwrap();
    let y = output(context, tokens * rows * dtype.size() as usize);
    let launch = matvec(&Matvec {
        format,
        dtype,
        rows: rows as u32,
        k: k as u32,
        tokens: tokens as u32,
        w: w.ptr(),
        q: x.q.ptr(),
        d: x.d.ptr(),
        y: y.buffer.ptr(),
    });
    run(context, &launch.unwrap());

    let (mut want, mut size) = (Vec::new(), Vec::new());
    for x in x.values.chunks(k) {
        for w in weights.chunks(k) {
            want.push(x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>());
            size.push(x.iter().zip(w).map(|(x, w)| (x * w).abs()).sum::<f64>());
        }
    }
    // Products of bytes are exact; scales and sums are f32. In Q4_K the minimum is taken off at the end.
    let bound = |i: usize| want[i].abs() * 1.01 * rounding(dtype) + size[i] * 4e-6;
    let name = format!("{format:?} {dtype} {tokens} x {rows} x {k}");
    assert_close(&name, &y.values(dtype), &want, bound);
}

/// Any bytes are weights, but for the scales, which must be of a usual size.
pub fn blocks(format: Format, count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = random.bytes(count * format.block_bytes() as usize);
    for block in bytes.chunks_mut(format.block_bytes() as usize) {
        let scales = if format == Format::Q8_0 { 1 } else { 2 };
        for at in 0..scales {
            let scale = f16::from_f32(random.unit() * 0.01);
            block[2 * at..2 * at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}

/// As the format's description says, number by number.
fn dequantized(format: Format, block: &[u8]) -> Vec<f64> {
    let half = |at: usize| decode(Dtype::F16, &block[at..at + 2])[0];
    match format {
        Format::Q8_0 => block[2..].iter().map(|q| half(0) * f64::from(*q as i8)).collect(),
        Format::Q4K => {
            let (scales, q) = (&block[4..16], &block[16..]);
            let weight = |i: usize| {
                let (scale, minimum) = scale_and_minimum(scales, i / 32);
                let byte = q[i / 64 * 32 + i % 32];
                let nibble = if (i / 32).is_multiple_of(2) { byte & 15 } else { byte >> 4 };
                half(0) * f64::from(scale) * f64::from(nibble) - half(2) * f64::from(minimum)
            };
            (0..256).map(weight).collect()
        }
    }
}

fn scale_and_minimum(bytes: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (bytes[group] & 63, bytes[group + 4] & 63);
    }
    let scale = bytes[group + 4] & 15 | (bytes[group - 4] >> 6) << 4;
    let minimum = bytes[group + 4] >> 4 | (bytes[group] >> 6) << 4;
    (scale, minimum)
}
