//! The chat formats of model families: how reasoning and tool calls look in a model's text.
//!
//! [`detect`] finds the format of a chat template, [`Parser`] takes a model's text apart as it streams, and
//! [`call_grammar`] writes the grammar that forces a call. Nothing here knows tokens, HTTP or the engine.
//!
//! A format is a short file in `families/` with data for one of five shapes (`shapes/`): objects of JSON, a name
//! followed by JSON, parameters in tags, Python calls, and the channels of gpt-oss.

#![forbid(unsafe_code)]

mod detect;
mod families;
mod format;
mod grammar;
mod marker;
mod marks;
mod parser;
mod piece;
mod prose;
mod reasoning;
mod shapes;
mod tool;
mod value;
mod word;

pub use detect::{Detected, detect};
pub use families::{all, by_name, instructions};
pub use format::{Format, IdStyle};
pub use grammar::{Choice, GrammarError, GrammarOptions, Thoughts, call_grammar};
pub use parser::{Options, Parser};
pub use piece::Piece;
pub use reasoning::{ReasoningFormat, by_name as reasoning_by_name};
pub use tool::Tool;
