//! Models by name: what a name means, where downloaded files lie, which of them make a model. Knows no network.

pub mod cache;
pub mod gguf_names;
pub mod models;
pub mod name;
pub mod remove;
pub mod resolve;
pub mod scan;
pub mod select;

#[cfg(test)]
mod tests;
