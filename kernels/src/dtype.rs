//! The types of elements that kernels know.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    U8,
    U32,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
}

impl Dtype {
    pub const ALL: [Self; 8] = [Self::U8, Self::U32, Self::I16, Self::I32, Self::I64, Self::F16, Self::Bf16, Self::F32];

    /// As kernels are named.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U32 => "u32",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }

    /// In bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::I64 => 8,
        }
    }

    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
