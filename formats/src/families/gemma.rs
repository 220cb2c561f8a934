//! Gemma: a name and a dictionary with bare keys, and quotes of its own.

use crate::format::{Format, Syntax};
use crate::reasoning;
use crate::shapes::{Bit, Header, Named};
use crate::value::{Dialect, Language};

static GEMMA4_VALUES: Dialect =
    Dialect { language: Language::Gemma, quotes: &["<|\"|>", "\""], escapes: false, bare_strings: true };
static FUNCTIONGEMMA_VALUES: Dialect =
    Dialect { language: Language::Gemma, quotes: &["<escape>"], escapes: false, bare_strings: true };

pub(crate) static GEMMA4: Format = Format {
    name: "gemma4",
    families: "Gemma 4",
    reasoning: &reasoning::GEMMA4,
    syntaxes: &[Syntax::Named(Named {
        call: "<|tool_call>",
        header: |text| Header::name(text.strip_prefix("call:")?),
        before_name: &[Bit::Text("call:")],
        dialect: &GEMMA4_VALUES,
        call_end: "<tool_call|>",
        ..Named::DEFAULT
    })],
    tokens: &["<|tool_call>", "<tool_call|>", "<|\"|>"],
    ends_reasoning: true,
    signs: &[&["<|tool_call>", "<tool_call|>"]],
    ..Format::DEFAULT
};

pub(crate) static FUNCTIONGEMMA: Format = Format {
    name: "functiongemma",
    families: "FunctionGemma",
    reasoning: &reasoning::NONE,
    syntaxes: &[Syntax::Named(Named {
        call: "<start_function_call>",
        header: |text| Header::name(text.strip_prefix("call:")?),
        before_name: &[Bit::Text("call:")],
        dialect: &FUNCTIONGEMMA_VALUES,
        call_end: "<end_function_call>",
        ..Named::DEFAULT
    })],
    tokens: &["<start_function_call>", "<end_function_call>", "<escape>"],
    signs: &[&["<start_function_call>"]],
    ..Format::DEFAULT
};
