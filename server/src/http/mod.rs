//! The HTTP side: OpenAI's API over the engine.

pub mod bind;
pub mod cors;
pub mod error;
pub mod forwarded;
pub mod prefix;
