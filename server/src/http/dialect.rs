//! How the served model writes thoughts and tool calls: found once from its chat template, then used for every chat.
//!
//! [`Dialect`] belongs to the model. [`Reading`] is how the answers to one request are read: [`Reader`] takes one of them
//! apart as it comes.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use taper_formats::{self as formats, Format, GrammarOptions, IdStyle, Options, Parser, Piece, ReasoningFormat, Tool};
use uuid::Uuid;

use super::error::ApiError;
use super::tools::Toolbox;
use crate::grammar::{Budget, Grammar, Thoughts};
use crate::text::{ChatTemplate, EncodeOptions, Tokenizer};

/// The chat format of a model.
#[derive(Debug, Clone)]
pub struct Dialect {
    pub format: &'static Format,
    pub reasoning: &'static ReasoningFormat,
    /// The template writes tools out, for calls that are read. Otherwise the system message explains them.
    pub knows_tools: bool,
    /// Control tokens that mark thoughts and calls, and so are text to the parser.
    markers: Arc<HashSet<u32>>,
}

/// A name that no format has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {name:?}; it must be one of {known}")]
pub struct UnknownFormat {
    setting: &'static str,
    name: String,
    known: String,
}

impl Dialect {
    /// That of `template`; `tool_call_parser` and `reasoning_parser` are the user's own choices, by name.
    pub fn new(
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        tool_call_parser: Option<&str>,
        reasoning_parser: Option<&str>,
    ) -> Result<Self, UnknownFormat> {
        let source = template.sources();
        let detected = formats::detect(&source);
        let format = match tool_call_parser {
            None => detected.format,
            Some(name) => formats::by_name(name).ok_or_else(|| UnknownFormat {
                setting: "--tool-call-parser",
                name: name.to_owned(),
                known: formats::all().iter().map(|format| format.name).collect::<Vec<_>>().join(", "),
            })?,
        };
        let reasoning = match reasoning_parser {
            None => detected.reasoning,
            Some(name) => formats::reasoning_by_name(name).ok_or_else(|| UnknownFormat {
                setting: "--reasoning-parser",
                name: name.to_owned(),
                known: formats::reasoning_names().collect::<Vec<_>>().join(", "),
            })?,
        };
        let names = [format.markers(), &reasoning.markers()].concat();
        let is_marker = |id: &u32| {
            let bytes = tokenizer.token_bytes(*id);
            tokenizer.is_special(*id) && names.iter().any(|name| name.as_bytes() == bytes)
        };
        let markers = Arc::new((0..tokenizer.vocab_size() as u32).filter(is_marker).collect());
        let is_unread = tool_call_parser.is_none() && detected.unread.is_some();
        if let Some(families) = detected.unread.filter(|_| is_unread) {
            tracing::warn!("tool calls as {families} writes them are not read; the model is asked for others in words");
        }
        Ok(Self { format, reasoning, knows_tools: source.contains("tools") && !is_unread, markers })
    }

    /// How the answers to a chat are read. `None`: as they are, since there is nothing to tell apart.
    pub fn reading(
        &self,
        toolbox: Option<&Toolbox>,
        starts_in_reasoning: bool,
        parse_reasoning: bool,
    ) -> Option<Reading> {
        let parse_reasoning = parse_reasoning && self.reasoning.is_some();
        if toolbox.is_none() && !parse_reasoning {
            return None;
        }
        let options = Options { starts_in_reasoning, parse_tools: toolbox.is_some(), parse_reasoning };
        let tools = toolbox.map(|toolbox| toolbox.tools.clone()).unwrap_or_default();
        Some(Reading { dialect: self.clone(), tools: tools.into(), options })
    }

    /// The grammar of calls, or of an answer that follows the schema `answer`. `None` where the model is free to write what it
    /// likes. `is_after_thoughts`: it begins after them, so that they can have a budget; else they are part of it.
    pub fn call_grammar(
        &self,
        toolbox: &Toolbox,
        answer: Option<&Value>,
        starts_in_reasoning: bool,
        is_after_thoughts: bool,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Grammar>, ApiError> {
        if !toolbox.is_forced() && !toolbox.is_strict() && answer.is_none() {
            return Ok(None);
        }
        let thoughts = match (self.reasoning.is_some(), is_after_thoughts, starts_in_reasoning) {
            (false, ..) => formats::Thoughts::None,
            (_, true, _) => formats::Thoughts::Before(self.reasoning),
            (_, _, true) => formats::Thoughts::Opened(self.reasoning),
            (_, _, false) => formats::Thoughts::MayCome(self.reasoning),
        };
        let token = |name: &str| self.markers.iter().copied().find(|id| tokenizer.token_bytes(*id) == name.as_bytes());
        let (choice, parallel) = (toolbox.choice.clone(), toolbox.parallel);
        let options = GrammarOptions { choice, parallel, thoughts, answer, token: &token };
        match formats::call_grammar(self.format, &toolbox.tools, &options) {
            Ok(lark) => Ok(Some(Grammar::Lark(lark))),
            Err(error) => Err(ApiError::invalid_param("tools", error.to_string())),
        }
    }

    /// The thoughts that a constraint must let pass before an answer or a call, and what closes them when their budget is spent.
    pub fn thoughts(
        &self,
        is_open: bool,
        budget: ThoughtBudget,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Thoughts>, ApiError> {
        if !self.reasoning.is_some() {
            return Ok(None);
        }
        let close = format!("{}{}", budget.message, self.reasoning.end);
        let budget = budget.closed_by(&close, tokenizer)?;
        let start = (!is_open).then(|| self.reasoning.start.trim_end().to_owned());
        Ok(Some(Thoughts { start, ends: vec![self.reasoning.end.to_owned()], budget }))
    }

    /// The same before an answer that must have a form. In harmony all that comes before the channel of answers is none.
    pub fn thoughts_before_form(
        &self,
        is_open: bool,
        budget: ThoughtBudget,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Thoughts>, ApiError> {
        let Some(begin) = self.reasoning.before_answer.first() else {
            return self.thoughts(is_open, budget, tokenizer);
        };
        let close = match budget.tokens {
            // Nothing has begun that is to be ended.
            Some(0) if !is_open => (*begin).to_owned(),
            _ => format!("{}{}{}{begin}", budget.message, self.reasoning.end, self.reasoning.before_call),
        };
        let budget = budget.closed_by(&close, tokenizer)?;
        let ends = self.reasoning.before_answer.iter().map(|begin| (*begin).to_owned()).collect();
        Ok(Some(Thoughts { start: None, ends, budget }))
    }
}

/// How much may be thought, as a request or a setting says it.
#[derive(Debug, Clone, Copy)]
pub struct ThoughtBudget<'a> {
    /// `None`: as much as it takes.
    pub tokens: Option<usize>,
    /// The last thought, where there was not enough.
    pub message: &'a str,
}

impl ThoughtBudget<'_> {
    fn closed_by(self, close: &str, tokenizer: &Tokenizer) -> Result<Option<Budget>, ApiError> {
        let options = EncodeOptions { add_special: false, parse_special: true };
        let budget = |tokens| Ok(Budget { tokens, close: tokenizer.encode(close, options)? });
        self.tokens.map(budget).transpose()
    }
}

/// How the answers to one request are read.
#[derive(Debug, Clone)]
pub struct Reading {
    dialect: Dialect,
    tools: Arc<[Tool]>,
    options: Options,
}

impl Reading {
    /// Control tokens that must be seen.
    pub fn markers(&self) -> &Arc<HashSet<u32>> {
        &self.dialect.markers
    }

    /// A reader of one answer.
    pub fn reader(&self) -> Reader {
        let Self { dialect, tools, options } = self;
        Reader {
            parser: Some(Parser::new(dialect.format, dialect.reasoning, tools, *options)),
            ids: dialect.format.ids,
            num_reasoning_tokens: 0,
            has_called: false,
        }
    }
}

/// Takes one answer apart.
#[derive(Debug)]
pub struct Reader {
    /// `None` once the answer is over.
    parser: Option<Parser>,
    ids: IdStyle,
    num_reasoning_tokens: u64,
    has_called: bool,
}

impl Reader {
    /// What the text of one more token holds.
    pub fn push_token(&mut self, text: &str) -> Vec<Piece> {
        let was_in_thoughts = self.is_in_thoughts();
        let pieces = self.push(text);
        // The tags are counted as thoughts.
        self.num_reasoning_tokens += u64::from(was_in_thoughts || self.is_in_thoughts());
        pieces
    }

    /// What more text holds.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        let mut pieces = self.parser.as_mut().map(|parser| parser.push(text)).unwrap_or_default();
        self.note(&mut pieces);
        pieces
    }

    /// What was held back, once no text follows.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = self.parser.take().map(Parser::finish).unwrap_or_default();
        self.note(&mut pieces);
        pieces
    }

    pub fn num_reasoning_tokens(&self) -> u64 {
        self.num_reasoning_tokens
    }

    /// Whether a whole call has come.
    pub fn has_called(&self) -> bool {
        self.has_called
    }

    fn note(&mut self, pieces: &mut [Piece]) {
        for piece in pieces {
            match piece {
                Piece::CallBegin { id, name, index } => {
                    let own = id.take().filter(|id| !id.is_empty());
                    *id = Some(own.unwrap_or_else(|| new_id(self.ids, name, *index)));
                }
                Piece::CallEnd { .. } => self.has_called = true,
                Piece::Text(_) | Piece::Reasoning(_) | Piece::Malformed { .. } | Piece::Arguments { .. } => {}
            }
        }
    }

    fn is_in_thoughts(&self) -> bool {
        self.parser.as_ref().is_some_and(Parser::is_in_thoughts)
    }
}

/// An identifier that the family's template takes back.
fn new_id(style: IdStyle, name: &str, index: usize) -> String {
    let random = Uuid::new_v4().simple().to_string();
    match style {
        IdStyle::Any => format!("call_{}", &random[..24]),
        IdStyle::NineAlphanumeric => random[..9].to_owned(),
        IdStyle::Kimi => format!("functions.{name}:{index}"),
    }
}
