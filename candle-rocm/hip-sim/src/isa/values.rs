//! Which Rust types do lanes hold? Each says how it lies in a register, so that an instruction is a plain closure on values.

use super::operands::Kind;
use half::f16;

/// A value of 32 bits or less in a vector register.
pub trait Value: Copy {
    const KIND: Kind;
    fn from_register(bits: u32) -> Self;
    fn to_register(self) -> u32;
}

macro_rules! value {
    ($type:ty, $kind:ident, |$bits:ident| $from:expr, |$value:ident| $to:expr) => {
        impl Value for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_register($bits: u32) -> Self {
                $from
            }
            #[inline(always)]
            fn to_register(self) -> u32 {
                let $value = self;
                $to
            }
        }
    };
}

value!(u32, B32, |bits| bits, |value| value);
value!(i32, B32, |bits| bits as i32, |value| value as u32);
value!(f32, F32, |bits| f32::from_bits(bits), |value| value.to_bits());
value!(u16, B16, |bits| bits as u16, |value| u32::from(value));
value!(i16, B16, |bits| bits as i16, |value| u32::from(value as u16));
value!(f16, F16, |bits| f16::from_bits(bits as u16), |value| u32::from(value.to_bits()));
value!(bool, Mask, |bits| bits != 0, |value| u32::from(value));

/// A value of 32 or 64 bits, for instructions where at least one operand is 64 bits wide.
pub trait WideValue: Copy {
    const KIND: Kind;
    fn from_bits64(bits: u64) -> Self;
    fn to_bits64(self) -> u64;
}

macro_rules! wide_value {
    ($type:ty, $kind:ident, |$bits:ident| $from:expr, |$value:ident| $to:expr) => {
        impl WideValue for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_bits64($bits: u64) -> Self {
                $from
            }
            #[inline(always)]
            fn to_bits64(self) -> u64 {
                let $value = self;
                $to
            }
        }
    };
}

wide_value!(u32, B32, |bits| bits as u32, |value| u64::from(value));
wide_value!(i32, B32, |bits| bits as i32, |value| u64::from(value as u32));
wide_value!(f32, F32, |bits| f32::from_bits(bits as u32), |value| u64::from(value.to_bits()));
wide_value!(f16, F16, |bits| f16::from_bits(bits as u16), |value| u64::from(value.to_bits()));
wide_value!(u64, B64, |bits| bits, |value| value);
wide_value!(i64, B64, |bits| bits as i64, |value| value as u64);
wide_value!(f64, F64, |bits| f64::from_bits(bits), |value| value.to_bits());
