//! Geometry of `hip/attention.hip`: attention of one new token a sequence over a paged KV cache.

use crate::shape::{check_aligned, check_dim, check_dtype, check_multiple};
use crate::{Args, DevicePtr, Dtype, Launch, ShapeError};

const OP: &str = "attention";
const BLOCK: u32 = 128;
/// Query heads that one block takes, at most.
const MAX_HEADS_OF_BLOCK: u32 = 8;
/// Fewer tokens are not worth a split of their own: all four waves of a block should have some loads.
const FEWEST_TOKENS_OF_SPLIT: u32 = 256;
const MAX_SPLITS: u32 = 64;

/// Head sizes that there are kernels for.
pub const HEAD_DIMS: [u32; 4] = [64, 96, 128, 256];

/// One new token of each sequence. All tensors are contiguous; q, keys, values and out are aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Decode {
    /// Of q, keys, values and out: f16 or bf16.
    pub dtype: Dtype,
    pub sequences: u32,
    /// Query heads, a multiple of `kv_heads`.
    pub heads: u32,
    pub kv_heads: u32,
    /// One of [`HEAD_DIMS`].
    pub head_dim: u32,
    /// Tokens of a block: a power of two.
    pub block_size: u32,
    /// Entries of a sequence's row in the table.
    pub table_width: u32,
    /// Only the last so many tokens count.
    pub window: Option<u32>,
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Parts of each sequence's tokens that different blocks take, from [`splits`].
    pub splits: u32,
    /// `[sequences, heads, head_dim]`
    pub q: DevicePtr,
    /// `[num_blocks, kv_heads, block_size, head_dim]`
    pub keys: DevicePtr,
    /// As `keys`.
    pub values: DevicePtr,
    /// `[sequences, table_width]` of u32.
    pub table: DevicePtr,
    /// `[sequences]` of u32: tokens in the cache with the new one; 0 gives zeros.
    pub lengths: DevicePtr,
    /// `[sequences, heads, head_dim]`
    pub out: DevicePtr,
    /// [`Decode::partial_bytes`] bytes; unused with one split.
    pub partial: DevicePtr,
}

impl Decode {
    /// Bytes of workspace that more than one split needs.
    #[must_use]
    pub fn partial_bytes(&self) -> u64 {
        let parts = u64::from(self.sequences) * u64::from(self.heads) * u64::from(self.splits);
        if self.splits == 1 { 0 } else { parts * u64::from(self.head_dim + 2) * 4 }
    }

    fn group(&self) -> u32 {
        self.heads / self.kv_heads
    }

    fn heads_of_block(&self) -> u32 {
        self.group().next_power_of_two().min(MAX_HEADS_OF_BLOCK)
    }
}

/// How many splits fill a device of `num_processors` (as it reports them) when the longest sequence has `longest`
/// tokens.
#[must_use]
pub fn splits(sequences: u32, kv_heads: u32, longest: u32, num_processors: u32) -> u32 {
    // Four blocks of four waves for each processor keep enough loads under way.
    let wanted = (4 * num_processors).div_ceil((sequences * kv_heads).max(1));
    wanted.min(longest.div_ceil(FEWEST_TOKENS_OF_SPLIT)).clamp(1, MAX_SPLITS)
}

/// `out = softmax(scale * q * keys^T) * values` for each sequence and head: one launch, and a second that joins splits.
pub fn decode(decode: &Decode) -> Result<(Launch, Option<Launch>), ShapeError> {
    check(decode)?;
    let group_tiles = decode.group().div_ceil(decode.heads_of_block());
    let pointers = [decode.q, decode.keys, decode.values, decode.table, decode.lengths, decode.out, decode.partial];
    let args = pointers.into_iter().fold(Args::new(), Args::ptr);
    let first = Launch {
        module: "attention",
        kernel: format!("attention_decode_{}_{}_{}", decode.dtype, decode.head_dim, decode.heads_of_block()),
        grid: [decode.kv_heads * group_tiles, decode.splits, decode.sequences],
        block: BLOCK,
        lds: 0,
        args: args.words(&shape_words(decode)),
    };
    Ok((first, (decode.splits > 1).then(|| join(decode))))
}

/// The structure `Shape` of the kernel.
fn shape_words(decode: &Decode) -> [u32; 7] {
    [
        decode.heads,
        decode.kv_heads,
        decode.block_size.trailing_zeros(),
        decode.table_width,
        decode.window.unwrap_or(u32::MAX),
        decode.splits,
        (decode.scale * std::f32::consts::LOG2_E).to_bits(),
    ]
}

fn join(decode: &Decode) -> Launch {
    Launch {
        module: "attention",
        kernel: format!("attention_join_{}", decode.dtype),
        grid: [decode.sequences * decode.heads, 1, 1],
        block: BLOCK,
        lds: 0,
        args: Args::new().ptr(decode.partial).ptr(decode.out).u32(decode.splits).u32(decode.head_dim),
    }
}

fn check(decode: &Decode) -> Result<(), ShapeError> {
    check_dtype(OP, decode.dtype, &[Dtype::F16, Dtype::Bf16])?;
    check_dim(OP, "sequences", decode.sequences)?;
    check_dim(OP, "kv_heads", decode.kv_heads)?;
    check_dim(OP, "table_width", decode.table_width)?;
    check_multiple(OP, "heads", decode.heads, (decode.kv_heads, "it must be a multiple of kv_heads"))?;
    let refuse = |what, value: u32, rule| Err(ShapeError::Value { op: OP, what, value: value.into(), rule });
    if !HEAD_DIMS.contains(&decode.head_dim) {
        return refuse("head_dim", decode.head_dim, "it must be 64, 96, 128 or 256");
    }
    if !decode.block_size.is_power_of_two() {
        return refuse("block_size", decode.block_size, "it must be a power of two");
    }
    if decode.window == Some(0) {
        return refuse("window", 0, "it must be at least 1");
    }
    if decode.splits == 0 || decode.splits > MAX_SPLITS {
        return refuse("splits", decode.splits, "it must be 1 to 64");
    }
    // Both are sides of a grid.
    let tiles = u64::from(decode.kv_heads) * u64::from(decode.group().div_ceil(decode.heads_of_block()));
    for (what, side) in
        [("sequences * heads", u64::from(decode.sequences) * u64::from(decode.heads)), ("kv_heads * tiles", tiles)]
    {
        check_dim(OP, what, u32::try_from(side).unwrap_or(u32::MAX))?;
    }
    if decode.splits > 1 && decode.partial == DevicePtr::NULL {
        return refuse("partial", 0, "with more than one split it must be memory of partial_bytes()");
    }
    let aligned = [("q", decode.q), ("keys", decode.keys), ("values", decode.values), ("out", decode.out)];
    check_aligned(OP, 16, &aligned)?;
    check_aligned(OP, 4, &[("table", decode.table), ("lengths", decode.lengths), ("partial", decode.partial)])
}
