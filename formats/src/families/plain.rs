//! The fallback: Hermes' way, for models whose template does not know tools, asked for in words.

use super::hermes;
use crate::format::Format;
use crate::reasoning;

pub(crate) static PLAIN: Format = Format {
    name: "plain",
    families: "any other: SmolLM2, Gemma 2 and 3, Phi",
    reasoning: &reasoning::NONE,
    syntaxes: hermes::SYNTAXES,
    tokens: hermes::TOKENS,
    ..Format::DEFAULT
};
