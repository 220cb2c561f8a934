//! Taper's HTTP API as types: what clients send and receive, and the OpenAPI 3.1 document made from these types.
//!
//! Requests are untrusted: their types accept any value of the right JSON type, so that the server can refuse it with
//! the rule and the value. The document states the rules. Nothing here knows the engine or an HTTP library.

#![forbid(unsafe_code)]

pub mod body;
pub mod chat;
pub mod completions;
mod document;
pub mod error;
pub mod logprobs;
pub mod models;
pub mod object;
pub mod props;
pub mod sampling;
mod schema;
pub mod status;
pub mod structured;
pub mod template;
pub mod tokenize;
mod unknown;
pub mod usage;
pub mod values;

pub use body::{Body, BodyError, parse};
pub use document::{document, document_at};
