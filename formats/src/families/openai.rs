//! gpt-oss: the harmony format, whose messages have channels and recipients.

use crate::format::{Format, Syntax};
use crate::reasoning;

pub(crate) static OPENAI: Format = Format {
    name: "openai",
    families: "gpt-oss",
    reasoning: &reasoning::HARMONY,
    syntaxes: &[Syntax::Harmony],
    tokens: &["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"],
    signs: &[&["<|channel|>", "<|message|>"]],
    ..Format::DEFAULT
};
