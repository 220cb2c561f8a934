//! From what a request asks for to a matcher: compiled once, kept for the next request that asks for the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use super::gbnf::{self, GbnfError};
use super::schema;
use super::vocabulary::vocabulary;
use crate::text::Tokenizer;

/// Compiled grammars that are kept. One of an agent's tools takes some hundred kilobytes.
const MAX_CACHED: usize = 32;
/// As text. A larger one is a mistake, or an attempt.
const MAX_BYTES: usize = 1 << 20;

/// Each takes one or two kilobytes, and every answer that runs has its own.
const MAX_LEXER_STATES: usize = 50_000;

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Grammar {
    /// Any JSON object.
    JsonObject,
    /// JSON that this schema allows.
    JsonSchema(Value),
    /// Text that the regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A grammar of llama.cpp.
    Gbnf(String),
    /// A grammar of llguidance: a variant of Lark's.
    Lark(String),
}

/// Why a grammar cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    #[error("it has {bytes} bytes; at most {MAX_BYTES} are taken")]
    TooLarge { bytes: usize },
    #[error("the schema is not supported at {pointer:?}: {why}")]
    Schema { pointer: String, why: String },
    #[error("the regular expression cannot be used: {0}")]
    Regex(String),
    #[error("there is nothing to choose from")]
    NoChoice,
    #[error("the grammar cannot be used: {0}")]
    Gbnf(#[from] GbnfError),
    #[error("the grammar cannot be used: {0}")]
    Lark(String),
    #[error("the model's vocabulary has no end token, so no constrained answer could end")]
    NoEndToken,
}

/// Compiles grammars for one vocabulary.
pub struct Grammars {
    factory: Option<ParserFactory>,
    /// Most recently used first.
    cache: Mutex<VecDeque<(Grammar, Matcher)>>,
}

impl Grammars {
    /// For the vocabulary of `tokenizer`, in which `end_tokens` end an answer, and a model with `num_logits` logits.
    ///
    /// # Errors
    /// When llguidance does not take the vocabulary; the message is its own.
    pub fn new(tokenizer: &Arc<Tokenizer>, end_tokens: &[u32], num_logits: usize) -> Result<Self, String> {
        let factory = vocabulary(tokenizer, end_tokens, num_logits).map(|vocabulary| {
            let mut factory = ParserFactory::new_simple(&vocabulary).map_err(|error| error.to_string())?;
            factory.quiet();
            factory.limits_mut().verbose_errors = false;
            factory.limits_mut().max_lexer_states = MAX_LEXER_STATES;
            Ok::<_, String>(factory)
        });
        Ok(Self { factory: factory.transpose()?, cache: Mutex::default() })
    }

    /// A matcher at its beginning. May take seconds for a large schema, so not for the engine's thread or an async one.
    pub fn matcher(&self, grammar: &Grammar) -> Result<Matcher, GrammarError> {
        if let Some(matcher) = self.cached(grammar) {
            return Ok(matcher);
        }
        let matcher = self.compile(grammar)?;
        let kept = matcher.deep_clone();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push_front((grammar.clone(), kept));
        cache.truncate(MAX_CACHED);
        Ok(matcher)
    }

    fn cached(&self, grammar: &Grammar) -> Option<Matcher> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let place = cache.iter().position(|(kept, _)| kept == grammar)?;
        let entry = cache.remove(place)?;
        let matcher = entry.1.deep_clone();
        cache.push_front(entry);
        Some(matcher)
    }

    fn compile(&self, grammar: &Grammar) -> Result<Matcher, GrammarError> {
        let bytes = grammar.size();
        if bytes > MAX_BYTES {
            return Err(GrammarError::TooLarge { bytes });
        }
        let factory = self.factory.as_ref().ok_or(GrammarError::NoEndToken)?;
        match grammar {
            Grammar::JsonObject => of_schema(factory, &json!({ "type": "object" })),
            Grammar::JsonSchema(schema) => of_schema(factory, schema),
            Grammar::Regex(regex) => matcher(factory, TopLevelGrammar::from_regex(regex)).map_err(GrammarError::Regex),
            Grammar::Choice(texts) if texts.is_empty() => Err(GrammarError::NoChoice),
            Grammar::Choice(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| Value::from(text.as_str()).to_string()).collect();
                of_lark(factory, format!("start: {}", texts.join(" | ")))
            }
            Grammar::Gbnf(text) => of_lark(factory, gbnf::to_lark(text)?),
            Grammar::Lark(text) => of_lark(factory, text.clone()),
        }
    }
}

fn of_lark(factory: &ParserFactory, lark: String) -> Result<Matcher, GrammarError> {
    matcher(factory, TopLevelGrammar::from_lark(lark)).map_err(GrammarError::Lark)
}

fn of_schema(factory: &ParserFactory, schema: &Value) -> Result<Matcher, GrammarError> {
    let compile = |schema: Value| matcher(factory, TopLevelGrammar::from_json_schema(compact(schema)));
    compile(schema.clone()).map_err(|why| {
        let (pointer, why) = schema::blame(schema, why, |part| compile(part).err());
        GrammarError::Schema { pointer, why }
    })
}

/// A matcher at its beginning; the error is llguidance's, in one line.
fn matcher(factory: &ParserFactory, grammar: TopLevelGrammar) -> Result<Matcher, String> {
    let mut matcher = Matcher::new(factory.create_parser(grammar));
    // The first mask finds what is wrong with a lexer.
    match matcher.compute_mask_or_eos() {
        Ok(_) => Ok(matcher),
        Err(error) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

impl Grammar {
    /// Bytes of its text.
    fn size(&self) -> usize {
        match self {
            Self::JsonObject => 0,
            Self::JsonSchema(schema) => schema.to_string().len(),
            Self::Regex(text) | Self::Gbnf(text) | Self::Lark(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(String::len).sum(),
        }
    }
}

/// One space after commas and colons, as models mostly write JSON, and none elsewhere: small models would go on with
/// spaces and line ends forever. A schema may say otherwise in its own `x-guidance`.
fn compact(mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        fields
            .entry("x-guidance")
            .or_insert_with(|| json!({ "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": " }));
    }
    schema
}
