//! The chat formats of model families: how reasoning and tool calls look in a model's text.
//!
//! [`detect`] finds the format of a chat template, [`Parser`] takes a model's text apart as it streams, and
//! [`call_grammar`] writes the grammar that forces a call. Nothing here knows tokens, HTTP or the engine.
//!
//! A format is a short file in `families/` with data for one of five shapes (`shapes/`): objects of JSON, a name
//! followed by JSON, parameters in tags, Python calls, and the channels of gpt-oss.
//!
//! ```
//! use taper_formats::{Options, Parser, Piece, Tool, detect};
//!
//! let found = detect("... respond with <tool_call> and </tool_call> around JSON ...");
//! let tools = [Tool { name: "add".to_owned(), ..Tool::default() }];
//! let mut parser = Parser::new(found.format, found.reasoning, &tools, Options::default());
//! let mut pieces = parser.push("Sure.\n<tool_");
//! pieces.extend(parser.push(r#"call>{"name": "add", "arguments": {"a": 1}}</tool_call>"#));
//! pieces.extend(parser.finish());
//! assert_eq!(pieces[0], Piece::Text("Sure.".to_owned()));
//! assert_eq!(pieces[2], Piece::Arguments { index: 0, delta: r#"{"a": 1}"#.to_owned() });
//! ```

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
pub use reasoning::{ReasoningFormat, by_name as reasoning_by_name, names as reasoning_names};
pub use tool::Tool;
