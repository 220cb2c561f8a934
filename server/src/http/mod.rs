//! The HTTP side: OpenAI's API over the engine.

pub mod error;
