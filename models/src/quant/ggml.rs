//! ggml's tensor types: number, name, block geometry, and whether Candle computes with them.

use candle_core::quantized::GgmlDType;

/// A ggml tensor type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GgmlType {
    /// Its number in GGUF files.
    pub id: u32,
    pub name: &'static str,
    /// Elements per block.
    pub block_size: usize,
    /// Bytes per block.
    pub block_bytes: usize,
    /// Candle's type, if it has one.
    pub dtype: Option<GgmlDType>,
}

const fn ty(id: u32, name: &'static str, block_size: usize, block_bytes: usize, dtype: Option<GgmlDType>) -> GgmlType {
    GgmlType { id, name, block_size, block_bytes, dtype }
}

/// Sizes from ggml's `ggml-common.h`. Types without a Candle type are known, so that they can be named, but not loaded.
static TYPES: &[GgmlType] = &[
    ty(0, "F32", 1, 4, Some(GgmlDType::F32)),
    ty(1, "F16", 1, 2, Some(GgmlDType::F16)),
    ty(2, "Q4_0", 32, 18, Some(GgmlDType::Q4_0)),
    ty(3, "Q4_1", 32, 20, Some(GgmlDType::Q4_1)),
    ty(6, "Q5_0", 32, 22, Some(GgmlDType::Q5_0)),
    ty(7, "Q5_1", 32, 24, Some(GgmlDType::Q5_1)),
    ty(8, "Q8_0", 32, 34, Some(GgmlDType::Q8_0)),
    ty(9, "Q8_1", 32, 36, Some(GgmlDType::Q8_1)),
    ty(10, "Q2_K", 256, 84, Some(GgmlDType::Q2K)),
    ty(11, "Q3_K", 256, 110, Some(GgmlDType::Q3K)),
    ty(12, "Q4_K", 256, 144, Some(GgmlDType::Q4K)),
    ty(13, "Q5_K", 256, 176, Some(GgmlDType::Q5K)),
    ty(14, "Q6_K", 256, 210, Some(GgmlDType::Q6K)),
    ty(15, "Q8_K", 256, 292, Some(GgmlDType::Q8K)),
    ty(16, "IQ2_XXS", 256, 66, None),
    ty(17, "IQ2_XS", 256, 74, None),
    ty(18, "IQ3_XXS", 256, 98, None),
    ty(19, "IQ1_S", 256, 50, None),
    ty(20, "IQ4_NL", 32, 18, None),
    ty(21, "IQ3_S", 256, 110, None),
    ty(22, "IQ2_S", 256, 82, None),
    ty(23, "IQ4_XS", 256, 136, None),
    ty(24, "I8", 1, 1, None),
    ty(25, "I16", 1, 2, None),
    ty(26, "I32", 1, 4, None),
    ty(27, "I64", 1, 8, None),
    ty(28, "F64", 1, 8, None),
    ty(29, "IQ1_M", 256, 56, None),
    ty(30, "BF16", 1, 2, Some(GgmlDType::BF16)),
    ty(34, "TQ1_0", 256, 54, None),
    ty(35, "TQ2_0", 256, 66, None),
    ty(39, "MXFP4", 32, 17, None),
];

impl GgmlType {
    /// The type with number `id`.
    pub fn from_id(id: u32) -> Option<&'static GgmlType> {
        TYPES.iter().find(|ty| ty.id == id)
    }

    /// All known types.
    pub fn all() -> &'static [GgmlType] {
        TYPES
    }

    /// Bytes that a tensor of `shape` (row-major) takes, or `None` if its rows are not whole blocks, or there are more of
    /// them than can be counted.
    pub fn tensor_bytes(&self, shape: &[usize]) -> Option<u64> {
        let elements = shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim))?;
        let row = shape.last().copied().unwrap_or(1);
        let blocks = row.is_multiple_of(self.block_size).then_some((elements / self.block_size) as u64)?;
        blocks.checked_mul(self.block_bytes as u64)
    }
}
