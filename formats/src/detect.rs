//! Which format a chat template is of.

use crate::families;
use crate::format::Format;
use crate::reasoning::{self, ReasoningFormat};

/// What a chat template shows.
#[derive(Debug, Clone, Copy)]
pub struct Detected {
    /// How calls are written.
    pub format: &'static Format,
    /// How thoughts are marked.
    pub reasoning: &'static ReasoningFormat,
}

/// Finds the format by the strings in a chat template. A template that shows none is of the last format, which asks for
/// calls in words.
pub fn detect(template: &str) -> Detected {
    let holds = |signs: &&[&str]| signs.iter().all(|sign| template.contains(sign));
    let of = |format: &&&Format| format.signs.iter().any(&holds);
    let formats = families::all();
    let format = formats.iter().find(of).unwrap_or(&formats[formats.len() - 1]);
    Detected { format, reasoning: reasoning::detect(template, format) }
}
