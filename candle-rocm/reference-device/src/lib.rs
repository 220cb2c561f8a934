//! Two devices for Candle over plain memory of the CPU. They are what the tests of the open device run on, and examples for
//! whoever writes a real one:
//!
//! - [`Minimal`] implements what a device must, and nothing else: every operation is a round trip over Candle's CPU backend, so its
//!   numbers are Candle's own, bit by bit. A new device starts like this.
//! - [`Reference`] computes a good part of the operations itself, over memory of its own that is poisoned before it is written and
//!   after it is freed, and takes some custom ops by name. Every call is counted, and any operation can be made to fail. What it
//!   leaves out, or has for some types of elements only, shows how own code and round trips live side by side.

mod arithmetic;
mod device;
mod fused;
mod memory;
mod minimal;
mod quantized;
mod storage;

pub use device::Reference;
pub use minimal::Minimal;
pub use quantized::ReferenceQStorage;
pub use storage::ReferenceStorage;
