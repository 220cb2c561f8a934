//! Quantised weights on a device from another crate, and what Candle computes with them.

use super::round_trip::leave;
use super::{fwd_via_cpu, BoxedStorage, CustomDevice, CustomStorage};
use crate::quantized::{GgmlDType, QStorage, QTensor, QuantizedType};
use crate::{CpuStorage, CustomOp1, DType, Layout, Result, Shape};
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Quantised blocks on a device from another crate, in the format of GGUF files.
pub trait CustomQStorage: Any + Debug + Send + Sync {
    /// The format of the blocks.
    fn dtype(&self) -> GgmlDType;

    /// The device that holds the blocks.
    fn device(&self) -> Arc<dyn CustomDevice>;

    /// The size of all blocks.
    fn storage_size_in_bytes(&self) -> usize;

    /// The blocks as they lie in a file, at any alignment.
    fn data(&self) -> Result<Cow<'_, [u8]>>;

    /// Overwrites all blocks.
    fn write_data(&mut self, data: &[u8]) -> Result<()>;

    /// `x`, `[.., k]`, by these weights transposed: `[.., n]`, where `shape` is `[n, k]`.
    fn fwd(&self, shape: &Shape, x: &dyn CustomStorage, layout: &Layout) -> Result<(BoxedStorage, Shape)> {
        fwd_via_cpu("qmatmul", [x], |[x]| {
            let weights = QStorage::Cpu(blocks_on_cpu(self.dtype(), &self.data()?));
            QTensor::new(weights, shape.clone())?.cpu_fwd(x, layout)
        })
    }

    /// The weights in f32.
    fn dequantize(&self, elem_count: usize) -> Result<BoxedStorage> {
        self.device().round_trip("dequantize")?;
        let weights = blocks_on_cpu(self.dtype(), &self.data()?).dequantize(elem_count)?;
        self.device().storage_from_cpu_storage_owned(weights)
    }

    /// The weights in f16.
    fn dequantize_f16(&self, elem_count: usize) -> Result<BoxedStorage> {
        self.dequantize(elem_count)?.to_dtype(&Layout::contiguous(elem_count), DType::F16)
    }

    /// Overwrites the blocks with the f32 elements of `src`, quantised.
    fn quantize(&mut self, src: &dyn CustomStorage) -> Result<()> {
        let copy = leave(src, "quantize")?;
        self.quantize_onto(&copy)
    }

    /// The same, where `weights`, `[n_per_row]`, say how much each column counts.
    fn quantize_imatrix(&mut self, src: &dyn CustomStorage, weights: &[f32], n_per_row: usize) -> Result<()> {
        let copy = leave(src, "quantize_imatrix")?;
        self.quantize_imatrix_onto(&copy, weights, n_per_row)
    }

    /// [`Self::quantize`] of elements on the CPU, where Candle's callers expect it to be computed: it counts as no round trip.
    fn quantize_onto(&mut self, src: &CpuStorage) -> Result<()> {
        let src = src.as_slice::<f32>()?;
        let mut blocks = self.dtype().cpu_zeros(src.len());
        blocks.from_float(src);
        self.write_data(bytes_of(blocks.as_ref()))
    }

    /// [`Self::quantize_imatrix`] of elements on the CPU, likewise.
    fn quantize_imatrix_onto(&mut self, src: &CpuStorage, weights: &[f32], n_per_row: usize) -> Result<()> {
        let src = src.as_slice::<f32>()?;
        let mut blocks = self.dtype().cpu_zeros(src.len());
        blocks.from_float_imatrix(src, weights, n_per_row);
        self.write_data(bytes_of(blocks.as_ref()))
    }

    /// The rows, of `hidden` elements, that `ids` (u32) names, in f32. These weights are `[rows, hidden]`.
    fn embedding(&self, rows: usize, hidden: usize, ids: &dyn CustomStorage, l: &Layout) -> Result<BoxedStorage> {
        let ids = leave(ids, "qembedding")?;
        let ids = &ids.as_slice::<u32>()?[l.start_offset()..l.start_offset() + l.shape().elem_count()];
        let chosen = blocks_on_cpu(self.dtype(), &self.data()?).embedding(ids, rows, hidden)?;
        self.device().storage_from_cpu_storage_owned(chosen)
    }

    /// A mixture of experts: these weights are `[experts, n, k]`; `x` is `[tokens, chosen or 1, k]` in f32, `ids`
    /// `[tokens, chosen]` in u32, both contiguous; the result is `[tokens, chosen, n]` in f32.
    fn indexed_moe_forward(
        &self,
        shape: &Shape,
        x: &dyn CustomStorage,
        xl: &Layout,
        ids: &dyn CustomStorage,
        idl: &Layout,
    ) -> Result<(BoxedStorage, Shape)> {
        fwd_via_cpu("indexed_moe_forward", [x, ids], |[x, ids]| {
            moe_on_cpu(self.dtype(), &self.data()?, shape, (x, xl), (ids, idl))
        })
    }

    /// The address of the blocks in the memory of the device.
    fn device_ptr(&self) -> Result<*const u8> {
        bail!("{} gives out no addresses of quantised weights", self.device().name())
    }
}

impl dyn CustomQStorage {
    /// The blocks as their own type.
    pub fn downcast_ref<T: CustomQStorage>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Whether `x` is on the device of these blocks.
    pub(crate) fn meets(&self, x: &dyn CustomStorage) -> bool {
        self.device().same_device(x.device().as_ref())
    }
}

/// [`CustomQStorage::indexed_moe_forward`], which Candle's CPU backend lacks: one row of `x` by one expert at a time.
fn moe_on_cpu(
    dtype: GgmlDType,
    blocks: &[u8],
    shape: &Shape,
    (x, xl): (&CpuStorage, &Layout),
    (ids, idl): (&CpuStorage, &Layout),
) -> Result<(CpuStorage, Shape)> {
    let (experts, n, k) = shape.dims3()?;
    let (tokens, rows, width) = xl.shape().dims3()?;
    let (ids_tokens, chosen) = idl.shape().dims2()?;
    if width != k || ids_tokens != tokens || (rows != 1 && rows != chosen) {
        bail!("indexed_moe_forward: weights {shape:?} do not fit input {:?} and ids {:?}", xl.shape(), idl.shape())
    }
    let (Some((x_start, x_end)), Some((ids_start, ids_end))) = (xl.contiguous_offsets(), idl.contiguous_offsets())
    else {
        bail!("indexed_moe_forward: input and ids must be contiguous, not {xl:?} and {idl:?}")
    };
    let (x, ids) = (&x.as_slice::<f32>()?[x_start..x_end], &ids.as_slice::<u32>()?[ids_start..ids_end]);
    // Without experts, or with experts of no rows, there is nothing to take apart.
    let expert_bytes = blocks.len() / experts.max(1);
    let mut result = vec![0f32; tokens * chosen * n];
    for (pair, (&expert, row)) in ids.iter().zip(result.chunks_exact_mut(n.max(1))).enumerate() {
        let expert = expert as usize;
        if expert >= experts {
            bail!("indexed_moe_forward: expert {expert} of {experts}")
        }
        let from = if rows == 1 { pair / chosen } else { pair };
        let weights = blocks_on_cpu(dtype, &blocks[expert * expert_bytes..(expert + 1) * expert_bytes]);
        weights.matmul_t((1, k, n), &x[from * k..(from + 1) * k], row)?;
    }
    Ok((CpuStorage::F32(result), (tokens, chosen, n).into()))
}

/// Blocks as Candle's CPU code takes them. It panics where they are not aligned, as those of a device may be.
fn blocks_on_cpu(dtype: GgmlDType, blocks: &[u8]) -> Box<dyn QuantizedType> {
    const ALIGNMENT: usize = std::mem::align_of::<u64>();
    if blocks.as_ptr().align_offset(ALIGNMENT) == 0 {
        return dtype.from_data(Cow::Borrowed(blocks));
    }
    let mut words = vec![0u64; blocks.len().div_ceil(ALIGNMENT)];
    let copy = &mut words.as_mut_bytes()[..blocks.len()];
    copy.copy_from_slice(blocks);
    dtype.from_data(Cow::Borrowed(copy))
}

fn bytes_of(blocks: &dyn QuantizedType) -> &[u8] {
    // SAFETY: blocks are plain old data without padding, and this is the memory they say they own.
    unsafe { std::slice::from_raw_parts(blocks.as_ptr(), blocks.storage_size_in_bytes()) }
}
