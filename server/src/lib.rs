//! Taper's server: the engine that batches requests, the text around it, and how both are started.

#![forbid(unsafe_code)]

pub mod breakers;
pub mod capacity;
pub mod engine;
pub mod files;
pub mod grammar;
pub mod http;
#[cfg(feature = "hub")]
pub mod hub;
pub mod loading;
pub mod runner;
pub mod settings;
pub mod store;
pub mod text;
