//! GPU kernels and how they are launched.
//!
//! `hip/*.hip` is the source of all kernels, for AMD and NVIDIA alike; [`images`] holds what was built from it.
//! Beside each file stands the module of the same name, whose functions check shapes and return [`Launch`] values: a
//! name, a geometry and arguments, which a driver executes as they are. A driver first checks a launch against the
//! kernel's [`Metadata`], read from the image it loaded. Nothing here touches a device.

mod args;
pub mod attention;
pub mod binary;
pub mod cast;
pub mod copy;
mod dtype;
mod error;
pub mod gemm;
#[cfg(feature = "images")]
pub mod images;
pub mod index;
mod launch;
pub mod matmul;
pub mod metadata;
pub mod norm;
pub mod occupancy;
pub mod quant;
pub mod reduce;
mod shape;
pub mod softmax;
mod strided;
pub mod unary;

pub use args::{Args, DevicePtr, MAX_ARGS};
pub use dtype::Dtype;
pub use error::{LaunchError, ShapeError};
pub use launch::Launch;
pub use metadata::{Kernel, Metadata, MetadataError};
