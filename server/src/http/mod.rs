//! The HTTP side: OpenAI's API over the engine.

pub mod bind;
pub mod error;
pub mod prefix;
