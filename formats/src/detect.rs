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
    /// The families, if the template writes calls in a way that is not read: then the model is to be asked for calls in words,
    /// as one whose template knows no tools.
    pub unread: Option<&'static str>,
}

/// Families whose way is not read, and a string of their templates.
const UNREAD: [(&str, &str); 3] = [
    // Elements within elements.
    ("MiniMax M3", "]<]minimax[>["),
    // Recipients in headers.
    ("Muse", "<|start|>assistant to=self<|message|>"),
    // `>>>name`, which the prompt begins.
    ("Functionary 3.2", ">>>${recipient}"),
];

/// Finds the format by the strings in a chat template. A template that shows none is of the last format, which asks for
/// calls in words.
pub fn detect(template: &str) -> Detected {
    let holds = |signs: &&[&str]| signs.iter().all(|sign| template.contains(sign));
    let of = |format: &&&Format| format.signs.iter().any(&holds);
    let (formats, plain) = (families::all(), families::all().last().expect("there is a fallback"));
    let unread = UNREAD.iter().find(|(_, sign)| template.contains(sign)).map(|(families, _)| *families);
    let format = formats.iter().find(of).filter(|_| unread.is_none()).unwrap_or(plain);
    Detected { format, reasoning: reasoning::detect(template, format), unread }
}
