//! Geometry of `hip/quant.hip`: activations to bytes, and products of quantised weights with up to eight rows of them.

use crate::shape::{check_aligned, check_dim, check_dtype, check_multiple};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const BLOCK: u32 = 256;
const WAVES: u32 = BLOCK / 32;
const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];
/// Rows of activations that one launch takes.
pub const MAX_TOKENS: u32 = 8;

/// Rows of f32, f16 or bf16 to bytes with an f32 scale for every 32: `x = d * q`.
#[derive(Clone, Copy, Debug)]
pub struct Quantize {
    pub dtype: Dtype,
    /// Number of values; rows must be multiples of 32, so this is one, too.
    pub count: u32,
    /// `[count]`, aligned to 16 bytes.
    pub x: DevicePtr,
    /// `[count]` of i8, aligned to 16 bytes.
    pub q: DevicePtr,
    /// `[count / 32]` of f32.
    pub d: DevicePtr,
}

/// Activations as the products take them.
pub fn quantize(quantize: &Quantize) -> Result<Launch, ShapeError> {
    const OP: &str = "quantize";
    let Quantize { dtype, count, x, q, d } = *quantize;
    check_dtype(OP, dtype, &FLOATS)?;
    check_multiple(OP, "count", count, (32, "it must be a multiple of 32"))?;
    check_aligned(OP, 16, &[("x", x), ("q", q)])?;
    check_aligned(OP, 4, &[("d", d)])?;
    Ok(Launch {
        module: "quant",
        kernel: format!("quantize_{dtype}"),
        grid: [count.div_ceil(BLOCK * 8), 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(x).ptr(q).ptr(d).u32(count),
    })
}

/// How weights are stored, as in GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Q8_0,
    Q4K,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4K => "q4_k",
        }
    }

    /// Weights of a block.
    #[must_use]
    pub fn block_values(self) -> u32 {
        match self {
            Self::Q8_0 => 32,
            Self::Q4K => 256,
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(self) -> u32 {
        match self {
            Self::Q8_0 => 34,
            Self::Q4K => 144,
        }
    }
}

/// `y = x * w^T` for a few rows of x.
#[derive(Clone, Copy, Debug)]
pub struct Matvec {
    pub format: Format,
    /// Of `y`: f32, f16 or bf16.
    pub dtype: Dtype,
    /// Rows of weights, that is, values of a row of `y`.
    pub rows: u32,
    /// Weights in a row: a multiple of the format's block.
    pub k: u32,
    /// Rows of activations: 1 to [`MAX_TOKENS`].
    pub tokens: u32,
    /// `[rows, k]` in blocks, aligned to 16 bytes.
    pub w: DevicePtr,
    /// `[tokens, k]` of i8, from [`quantize`], aligned to 16 bytes.
    pub q: DevicePtr,
    /// `[tokens, k / 32]` of f32, from [`quantize`].
    pub d: DevicePtr,
    /// `[tokens, rows]`
    pub y: DevicePtr,
}

/// The product, with the kernel for the next power of two of tokens.
pub fn matvec(matvec: &Matvec) -> Result<Launch, ShapeError> {
    const OP: &str = "quantised matvec";
    let Matvec { format, dtype, rows, k, tokens, w, q, d, y } = *matvec;
    check_dtype(OP, dtype, &FLOATS)?;
    check_dim(OP, "rows", rows)?;
    check_multiple(OP, "k", k, (format.block_values(), "it must be a multiple of the format's block"))?;
    if tokens == 0 || tokens > MAX_TOKENS {
        return Err(ShapeError::Value { op: OP, what: "tokens", value: tokens.into(), rule: "it must be 1 to 8" });
    }
    check_aligned(OP, 16, &[("w", w), ("q", q)])?;
    check_aligned(OP, 4, &[("d", d)])?;
    check_aligned(OP, dtype.size(), &[("y", y)])?;
    let tokens_of_kernel = tokens.next_power_of_two();
    let rows_per_wave = if tokens_of_kernel <= 2 { 2 } else { 4 };
    Ok(Launch {
        module: "quant",
        kernel: format!("{}_matvec_{tokens_of_kernel}_{dtype}", format.name()),
        grid: [rows.div_ceil(WAVES * rows_per_wave), 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(w).ptr(q).ptr(d).ptr(y).u32(rows).u32(k).u32(tokens),
    })
}
