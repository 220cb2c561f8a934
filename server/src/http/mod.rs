//! The HTTP side: OpenAI's API over the engine.

mod access_log;
pub mod bind;
pub mod cors;
pub mod error;
pub mod forwarded;
mod headers;
pub mod hosts;
pub mod keys;
pub mod layer;
pub mod prefix;
mod refusals;
pub mod request_id;
