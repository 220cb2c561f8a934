//! The simulator, tested through its C interface with code objects that clang makes when a test runs.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(clippy::needless_range_loop)] // A lane's number indexes inputs and results at once.

mod conformance;
mod faults;
mod instructions;
mod interface;
mod kernels;
mod memory;
mod shipped;
mod streams;
mod support;
