//! The simulator, tested through its C interface with code objects that clang makes when a test runs.

mod faults;
mod instructions;
mod interface;
mod kernels;
mod support;
