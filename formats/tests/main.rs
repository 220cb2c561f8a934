//! Behaviour of the formats: recorded answers at every cut, laws on any text, detection.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod detection;
mod grammar;
mod laws;
mod recorded;
mod rules;
mod support;
