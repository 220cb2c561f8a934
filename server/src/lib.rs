//! Taper's server: the engine that batches requests, the text around it, and what the command line needs of both.

pub mod capacity;
pub mod engine;
pub mod runner;
pub mod settings;
