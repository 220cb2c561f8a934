use candle_rocm::Context;
use half::{bf16, f16};
use taper_kernels::Dtype;
use taper_kernels::cast::{Cast, cast};

use super::copy::places;
use super::data::{Random, output, run};

/// A number as its type holds it.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i64),
    Float(f32),
}

pub fn check(context: &Context) {
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            let same_bits = (from, to) == (Dtype::U32, Dtype::I32) || (from, to) == (Dtype::I32, Dtype::U32);
            if from != to && !same_bits {
                one(context, from, to, &[1543], &[1], 0);
                one(context, from, to, &[1543], &[1], 1);
                one(context, from, to, &[31, 43], &[1, 31], 0);
            }
        }
    }
}

fn one(context: &Context, from: Dtype, to: Dtype, shape: &[usize], strides: &[usize], first: usize) {
    let places = places(shape, strides, first);
    let count = places.len() + first;
    let mut random = Random(6);
    let source: Vec<Number> = (0..count).map(|i| interesting(from, i, &mut random)).collect();
    let bytes: Vec<u8> = source.iter().flat_map(|number| bytes_of(from, *number)).collect();
    let x = context.upload(&bytes).unwrap();
    let y = output(context, places.len() * to.size() as usize);
    let x = x.ptr().offset(first as u64 * from.size());
    run(context, &cast(&Cast { from, to, shape, strides, x, y: y.buffer.ptr() }).unwrap());
    let got = y.bytes();
    for (i, (got, place)) in got.chunks_exact(to.size() as usize).zip(places).enumerate() {
        let want = bytes_of(to, source[place]);
        let both_nan = to.is_float() && is_nan(to, got) && is_nan(to, &want);
        assert!(got == want || both_nan, "{from} to {to}, element {i}: {:?} gave {got:02x?}", source[place]);
    }
}

/// Limits of both kinds of types first, then anything.
fn interesting(dtype: Dtype, i: usize, random: &mut Random) -> Number {
    if dtype.is_float() {
        const FLOATS: [f32; 18] = [
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.5,
            -1.5,
            254.9,
            255.9,
            256.0,
            -0.99,
            32767.5,
            -32769.0,
            2147483648.0,
            4294967296.0,
            9.3e18,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        let any = random.unit() * 2f32.powi(random.below(70) as i32 - 5);
        let value = FLOATS.get(i).copied().unwrap_or(any);
        // As the type holds it.
        return Number::Float(match dtype {
            Dtype::F16 => f16::from_f32(value).into(),
            Dtype::Bf16 => bf16::from_f32(value).into(),
            _ => value,
        });
    }
    const INTS: [i64; 12] = [0, 1, -1, 127, 128, 255, 256, 32767, 65535, i32::MAX as i64, i64::MAX, i64::MIN];
    let any = random.next() as i64 >> random.below(63);
    let value = INTS.get(i).copied().unwrap_or(any);
    Number::Int(match dtype {
        Dtype::U8 => (value as u8).into(),
        Dtype::U32 => (value as u32).into(),
        Dtype::I16 => (value as i16).into(),
        Dtype::I32 => (value as i32).into(),
        _ => value,
    })
}

/// Converted as Rust converts; integers to 16-bit floats by way of f32, as the kernel says.
fn bytes_of(dtype: Dtype, number: Number) -> Vec<u8> {
    let float = match number {
        Number::Int(x) => x as f32,
        Number::Float(x) => x,
    };
    match (dtype, number) {
        (Dtype::F32, _) => float.to_le_bytes().to_vec(),
        (Dtype::F16, _) => f16::from_f32(float).to_le_bytes().to_vec(),
        (Dtype::Bf16, _) => bf16::from_f32(float).to_le_bytes().to_vec(),
        (Dtype::U8, Number::Float(x)) => (x as u8).to_le_bytes().to_vec(),
        (Dtype::U32, Number::Float(x)) => (x as u32).to_le_bytes().to_vec(),
        (Dtype::I16, Number::Float(x)) => (x as i16).to_le_bytes().to_vec(),
        (Dtype::I32, Number::Float(x)) => (x as i32).to_le_bytes().to_vec(),
        (Dtype::I64, Number::Float(x)) => (x as i64).to_le_bytes().to_vec(),
        (_, Number::Int(x)) => x.to_le_bytes()[..dtype.size() as usize].to_vec(),
    }
}

fn is_nan(dtype: Dtype, bytes: &[u8]) -> bool {
    super::data::decode(dtype, bytes)[0].is_nan()
}
