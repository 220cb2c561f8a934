//! Reading tensors that are views of wider ones: rows lie apart, each row is contiguous.

use candle_core::{CpuStorage, Layout, Result, bail};

/// A `[rows, width]` view of f32 storage.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    data: &'a [f32],
    /// Elements from one row's start to the next.
    stride: usize,
    pub(crate) count: usize,
    pub(crate) width: usize,
}

impl<'a> Rows<'a> {
    /// Takes `layout` as rows over its first dimension; the rest must be contiguous.
    pub(crate) fn new(storage: &'a CpuStorage, layout: &Layout, op: &'static str) -> Result<Self> {
        let (start, stride, count, width) = row_geometry(layout, op)?;
        let data = match storage {
            CpuStorage::F32(data) => &data[start..],
            other => {
                bail!("{op}: f32 activations expected, got {:?}", candle_core::backend::BackendStorage::dtype(other))
            }
        };
        Ok(Self { data, stride, count, width })
    }

    /// Row `index`. `[width]`
    pub(crate) fn row(&self, index: usize) -> &'a [f32] {
        &self.data[index * self.stride..][..self.width]
    }
}

/// `(start, stride, count, width)` of a layout whose dimensions after the first are contiguous.
pub(crate) fn row_geometry(layout: &Layout, op: &'static str) -> Result<(usize, usize, usize, usize)> {
    let dims = layout.dims();
    let (Some(&count), strides) = (dims.first(), layout.stride()) else {
        bail!("{op}: a tensor without dimensions");
    };
    let mut expected = 1;
    for (&dim, &stride) in dims[1..].iter().zip(&strides[1..]).rev() {
        if dim != 1 && stride != expected {
            bail!("{op}: rows of {layout:?} are not contiguous");
        }
        expected *= dim;
    }
    let stride = if count == 1 { expected } else { strides[0] };
    Ok((layout.start_offset(), stride, count, expected))
}
