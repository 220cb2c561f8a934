//! Behaviour of the formats: recorded answers at every cut, laws on any text, detection.

mod laws;
mod recorded;
mod rules;
mod support;
