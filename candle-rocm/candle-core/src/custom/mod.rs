//! A device that lives in another crate: the traits it implements, and what they do by default.
//!
//! A device must hold memory and move it; nothing else is required. Whatever a device does not implement is right from the
//! start and slow: the operands are copied to the CPU, Candle's own CPU code computes there, and the result is copied back.
//! Each such detour is a [round trip](RoundTrips): it is counted, the first one of each operation is a warning, and under the
//! strict switch it is an error instead. So a device can be written operation by operation, and a program can insist that
//! none is missing.
//!
//! ```text
//! Device::Custom(Arc<dyn CustomDevice>)     makes storages, moves memory, draws random numbers, takes custom ops
//! Storage::Custom(Box<dyn CustomStorage>)   the elements of a tensor, and the operations on them
//! QStorage::Custom(Box<dyn CustomQStorage>) quantised blocks, and the products with them
//! ```

mod device;
mod ops;
mod quantized;
mod round_trip;
mod storage;
mod transfer;

use crate::{Device, Layout, Result, StridedIndex, Tensor};
use std::sync::Arc;

pub use device::{cpu_storage_as_bytes, cpu_storage_from_bytes, CustomDevice};
pub use ops::{binary_name, cpu_binary, cpu_unary, reduce_name, unary_name};
pub use quantized::CustomQStorage;
pub use round_trip::{fwd_via_cpu, inplace_via_cpu, via_cpu, RoundTrips};
pub use storage::{Copy2d, CustomStorage};

pub(crate) use device::{meet, storage_from_slice};
pub(crate) use ops::{binary_op, unary_op};
pub(crate) use transfer::transfer;

/// What an operation on a device returns: new elements on the same device.
pub type BoxedStorage = Box<dyn CustomStorage>;

/// An operand of a custom op: elements, and where among them the tensor lies. Layouts may be strided and offset.
pub type Operand<'a> = (&'a dyn CustomStorage, &'a Layout);

/// What a custom op was made with, so that a device that knows the op by name can run it.
#[derive(Debug, Default)]
pub struct Params<'a> {
    /// Numbers and switches (0 or 1), in an order that the op documents.
    pub numbers: Vec<f64>,
    /// Tensors that the op carries besides its operands.
    pub tensors: Vec<&'a Tensor>,
}

impl Params<'_> {
    /// Parameters that are all numbers.
    pub fn numbers<const N: usize>(numbers: [f64; N]) -> Self {
        Self { numbers: numbers.into(), tensors: vec![] }
    }
}

impl Device {
    /// A device from another crate.
    pub fn new_custom(device: impl CustomDevice) -> Self {
        Self::Custom(Arc::new(device))
    }

    /// Whether this is a device from another crate.
    pub fn is_custom(&self) -> bool {
        matches!(self, Self::Custom(_))
    }

    /// The device from another crate that this is, or an error that says what it is instead.
    pub fn as_custom_device(&self) -> Result<&Arc<dyn CustomDevice>> {
        match self {
            Self::Custom(device) => Ok(device),
            other => bail!("expected a device from another crate, got {:?}", other.location()),
        }
    }
}

impl Layout {
    /// Where among the elements of a storage those of this layout lie, in the layout's order.
    pub fn offsets(&self) -> StridedIndex<'_> {
        self.strided_index()
    }
}

/// Reads of the parameters of a convolution, whose fields are Candle's own.
macro_rules! readable {
    ($($params:ident { $($field:ident)* })*) => {
        $(impl crate::conv::$params {
            $(
                #[doc = concat!("`", stringify!($field), "`, counted in elements.")]
                pub fn $field(&self) -> usize {
                    self.$field
                }
            )*
        })*
    };
}
readable! {
    ParamsConv1D { b_size l_in c_out c_in k_size padding stride dilation }
    ParamsConvTranspose1D { b_size l_in c_out c_in k_size padding output_padding stride dilation }
    ParamsConv2D { b_size i_h i_w k_h k_w c_out c_in padding stride dilation }
    ParamsConvTranspose2D { b_size i_h i_w k_h k_w c_out c_in padding output_padding stride dilation }
}
