//! Data for checks: random numbers, tensors on a device, and the comparison with what is expected.

use candle_rocm::{Buffer, Context};
use half::{bf16, f16};
use taper_kernels::{Dtype, Launch};

/// What fresh outputs hold, and what must still stand behind them. As a float of any type it is a NaN, and not the one
/// that arithmetic gives.
const POISON: u8 = 0xff;
const GUARD_BYTES: usize = 64;

/// A small generator (splitmix64): the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    pub fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

pub const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// Rounded to the type.
pub fn encode(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    match dtype {
        Dtype::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::Bf16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        other => panic!("{other} is no float"),
    }
}

pub fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()).collect(),
        Dtype::F16 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).into()).collect(),
        Dtype::Bf16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).into()).collect(),
        other => panic!("{other} is no float"),
    }
}

/// Half of the distance between neighbours, relative to a value: the error of one rounding.
pub fn rounding(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 2f64.powi(-24),
        Dtype::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

/// Below this, values of the type are not rounded relative to their size.
pub fn smallest(dtype: Dtype) -> f64 {
    if dtype == Dtype::F16 { 2f64.powi(-25) } else { 1e-37 }
}

/// A tensor on the device, and what it holds.
pub struct Input {
    pub buffer: Buffer,
    pub values: Vec<f64>,
}

pub fn input(context: &Context, dtype: Dtype, values: &[f32]) -> Input {
    let bytes = encode(dtype, values);
    Input { buffer: context.upload(&bytes).unwrap(), values: decode(dtype, &bytes) }
}

pub fn input_u32(context: &Context, values: &[u32]) -> Buffer {
    context.upload(&values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()).unwrap()
}

/// Poisoned memory with a guard behind it.
pub struct Output {
    pub buffer: Buffer,
    bytes: usize,
}

pub fn output(context: &Context, bytes: usize) -> Output {
    let buffer = context.alloc(bytes + GUARD_BYTES).unwrap();
    buffer.fill(POISON).unwrap();
    Output { buffer, bytes }
}

impl Output {
    pub fn bytes(&self) -> Vec<u8> {
        let mut content = self.buffer.download().unwrap();
        assert!(content[self.bytes..].iter().all(|byte| *byte == POISON), "written behind the end of an output");
        content.truncate(self.bytes);
        content
    }

    pub fn values(&self, dtype: Dtype) -> Vec<f64> {
        let bytes = self.bytes();
        let unwritten = bytes.chunks(dtype.size() as usize).position(|value| value.iter().all(|byte| *byte == POISON));
        assert_eq!(unwritten, None, "a value of an output was not written");
        decode(dtype, &bytes)
    }
}

/// Runs a launch to its end.
pub fn run(context: &Context, launch: &Launch) {
    let stream = context.stream();
    // SAFETY: checks make launches of buffers that they hold until the wait below.
    unsafe { stream.launch(launch) }.unwrap_or_else(|error| panic!("{}: {error}", launch.kernel));
    stream.synchronize().unwrap_or_else(|error| panic!("{}: {error}", launch.kernel));
}

/// Every value within its own bound; says which is worst. NaN and infinities must be equal.
#[track_caller]
pub fn assert_close(what: &str, got: &[f64], want: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let excess = |i: usize| {
        let (got, want) = (got[i], want[i]);
        if got == want || (got.is_nan() && want.is_nan()) { 0.0 } else { (got - want).abs() / bound(i) }
    };
    // A NaN on one side only gives NaN, which no comparison would find.
    let worst = (0..got.len()).max_by(|&a, &b| excess(a).total_cmp(&excess(b)));
    if let Some(i) = worst {
        let (got, want, bound, times) = (got[i], want[i], bound(i), excess(i));
        assert!(times <= 1.0, "{what}: value {i} is {got}, not {want}: {times:.2} times the bound of {bound:.3e}");
    }
}
