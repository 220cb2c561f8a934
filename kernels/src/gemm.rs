//! Geometry of `hip/gemm.hip`: matrix products by matrix instructions.

use crate::shape::{check_aligned, check_dim, check_grid_side};
use crate::{Args, DevicePtr, Launch, ShapeError};

const BLOCK: u32 = 256;
const LARGE: (u32, u32) = (128, 128);
const SMALL: (u32, u32) = (32, 64);
/// With fewer large tiles than this, most of a device would be idle: small tiles are used then. Two for each of the 20
/// processors of gfx1151.
const FEWEST_LARGE_TILES: u64 = 40;

/// The types of a and b, and of c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// f16 to f16, sums in f32.
    F16,
    /// bf16 to bf16, sums in f32.
    Bf16,
    /// i8 to i32.
    I8,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I8 => "i8",
        }
    }

    /// Bytes of an element of a and b.
    fn size(self) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Bytes of an element of c.
    fn size_of_c(self) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 4,
        }
    }
}

/// `c = a * b^T`. Matrices are contiguous; strides are the elements from one matrix of a batch to the next.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    pub kind: Kind,
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// `[batch, m, k]`
    pub a: DevicePtr,
    pub stride_a: u64,
    /// `[batch, n, k]`
    pub b: DevicePtr,
    pub stride_b: u64,
    /// `[batch, m, n]`
    pub c: DevicePtr,
    pub stride_c: u64,
}

/// The product of each pair of matrices.
pub fn gemm(gemm: &Gemm) -> Result<Launch, ShapeError> {
    const OP: &str = "gemm";
    for (what, value) in [("batch", gemm.batch), ("m", gemm.m), ("n", gemm.n), ("k", gemm.k)] {
        check_dim(OP, what, value)?;
    }
    check_aligned(OP, gemm.kind.size(), &[("a", gemm.a), ("b", gemm.b)])?;
    check_aligned(OP, gemm.kind.size_of_c(), &[("c", gemm.c)])?;
    let (size, tile) = tile(gemm);
    check_grid_side(OP, "batch", gemm.batch)?;
    check_grid_side(OP, "the number of tiles along m", gemm.m.div_ceil(tile.0))?;
    let odd = if is_aligned(gemm) { "" } else { "_odd" };
    let (blocks_m, blocks_n) = (gemm.m.div_ceil(tile.0), gemm.n.div_ceil(tile.1));
    let pointers = Args::new().ptr(gemm.a).ptr(gemm.b).ptr(gemm.c);
    Ok(Launch {
        module: "gemm",
        kernel: format!("gemm_{}_{size}{odd}", gemm.kind.name()),
        grid: [blocks_n, blocks_m, gemm.batch],
        block: BLOCK,
        lds: 0,
        args: pointers.u64(gemm.stride_a).u64(gemm.stride_b).u64(gemm.stride_c).u32(gemm.m).u32(gemm.n).u32(gemm.k),
    })
}

/// The tile that fills the device.
fn tile(gemm: &Gemm) -> (&'static str, (u32, u32)) {
    let large = u64::from(gemm.m.div_ceil(LARGE.0)) * u64::from(gemm.n.div_ceil(LARGE.1)) * u64::from(gemm.batch);
    if gemm.m > SMALL.0 && large >= FEWEST_LARGE_TILES { ("large", LARGE) } else { ("small", SMALL) }
}

/// Whether every row of a and b starts at a multiple of 16 bytes, so that it can be read in such pieces.
fn is_aligned(gemm: &Gemm) -> bool {
    let size = gemm.kind.size();
    let bytes = [u64::from(gemm.k), gemm.stride_a, gemm.stride_b].map(|elements| elements * size);
    let pointers = [gemm.a, gemm.b];
    bytes.iter().all(|bytes| bytes.is_multiple_of(16)) && pointers.iter().all(|pointer| pointer.is_aligned(16))
}
