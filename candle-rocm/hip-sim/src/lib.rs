//! A stand-in for `libamdhip64.so`: loads real code objects for gfx11 and gfx12 and executes their instructions on a CPU,
//! so that a program's whole path to an AMD GPU runs where there is none. Stricter than hardware, and far slower.
//!
//! A launch goes `api::launch` -> `launch` -> `workgroup` -> the closures of `isa`; a module goes `api::module` ->
//! `program` -> `code_object`, `disassembler`, `isa`. See docs/hip-sim.md.
#![allow(clippy::needless_range_loop)] // A lane's number indexes several registers at once.

pub mod api;
mod asm;
mod code_object;
mod disassembler;
mod fault;
mod isa;
mod launch;
mod lds;
mod memory;
mod metadata;
mod options;
mod program;
mod simulator;
mod streams;
mod target;
mod touched;
mod wave;
mod workgroup;
