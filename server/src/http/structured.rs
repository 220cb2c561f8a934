//! What a request says an answer must be, in the words of OpenAI, llama-server and vLLM, as one grammar.

use llguidance::Matcher;
use serde_json::{Value, json};
use taper_openapi::sampling::SamplingFields;
use taper_openapi::structured::{ResponseFormat, ResponseFormatKind, StructuredOutputs};

use super::error::ApiError;
use super::service::Service;
use crate::grammar::Grammar;

/// A grammar, and the field that asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedGrammar {
    pub field: &'static str,
    pub grammar: Grammar,
}

impl AskedGrammar {
    /// Compiles it; the mistakes are the client's.
    pub fn matcher(&self, service: &Service) -> Result<Matcher, ApiError> {
        let Self { field, grammar } = self;
        let refused = |error| ApiError::invalid_param(*field, format!("`{field}`: {error}"));
        service.grammars.matcher(grammar).map_err(refused)
    }

    /// As a JSON schema, if it is one.
    pub fn schema(&self) -> Option<Value> {
        match &self.grammar {
            Grammar::JsonObject => Some(json!({ "type": "object" })),
            Grammar::JsonSchema(schema) => Some(schema.clone()),
            Grammar::Regex(_) | Grammar::Choice(_) | Grammar::Lark(_) | Grammar::Gbnf(_) => None,
        }
    }
}

/// The grammar of a request; `None` where any text will do.
pub fn grammar(fields: &SamplingFields) -> Result<Option<AskedGrammar>, ApiError> {
    let asked = [
        ("response_format", fields.response_format.as_ref().map(of_response_format).transpose()?.flatten()),
        ("structured_outputs", fields.structured_outputs.as_ref().map(of_structured_outputs).transpose()?.flatten()),
        ("json_schema", fields.json_schema.as_ref().map(|schema| of_schema("json_schema", schema)).transpose()?),
        ("grammar", fields.grammar.as_deref().map(of_grammar)),
        ("guided_regex", fields.guided_regex.clone().map(Grammar::Regex)),
        ("guided_choice", fields.guided_choice.clone().map(Grammar::Choice)),
    ];
    let mut asked = asked.into_iter().filter_map(|(field, grammar)| Some(AskedGrammar { field, grammar: grammar? }));
    match (asked.next(), asked.next()) {
        (Some(first), Some(second)) => {
            let message = format!("`{}` and `{}` exclude each other; give one of them", first.field, second.field);
            Err(ApiError::invalid_param(second.field, message))
        }
        (first, _) => Ok(first),
    }
}

fn of_response_format(format: &ResponseFormat) -> Result<Option<Grammar>, ApiError> {
    const FIELD: &str = "response_format";
    let inner = format.json_schema.as_ref().and_then(|format| format.schema.as_ref());
    match (format.kind, inner.or(format.schema.as_ref())) {
        (ResponseFormatKind::Text, _) => Ok(None),
        (ResponseFormatKind::JsonObject, None) => Ok(Some(Grammar::JsonObject)),
        (_, Some(schema)) => of_schema(FIELD, schema).map(Some),
        (ResponseFormatKind::JsonSchema, None) => {
            Err(ApiError::invalid_param(FIELD, "`response_format.json_schema.schema` is missing"))
        }
    }
}

fn of_structured_outputs(outputs: &StructuredOutputs) -> Result<Option<Grammar>, ApiError> {
    const FIELD: &str = "structured_outputs";
    let StructuredOutputs { json, json_object, regex, choice, grammar } = outputs;
    let asked = [
        json.as_ref().map(|schema| of_schema(FIELD, schema)).transpose()?,
        (*json_object == Some(true)).then_some(Grammar::JsonObject),
        regex.clone().map(Grammar::Regex),
        choice.clone().map(Grammar::Choice),
        grammar.as_deref().map(of_grammar),
    ];
    let mut asked = asked.into_iter().flatten();
    let first = asked.next();
    match asked.next() {
        None => Ok(first),
        Some(_) => Err(ApiError::invalid_param(FIELD, "`structured_outputs` has several fields; give one of them")),
    }
}

/// A schema is an object or a boolean, or text that is one.
fn of_schema(field: &'static str, schema: &Value) -> Result<Grammar, ApiError> {
    let parsed = match schema {
        Value::String(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
        schema => Ok(schema.clone()),
    };
    match parsed {
        Ok(schema @ (Value::Object(_) | Value::Bool(_))) => Ok(Grammar::JsonSchema(schema)),
        Ok(_) => Err(ApiError::invalid_param(field, format!("`{field}`: a JSON schema is an object"))),
        Err(error) => Err(ApiError::invalid_param(field, format!("`{field}`: the schema is not JSON: {error}"))),
    }
}

/// GBNF has `::=`, llguidance's grammars a header; what has neither is llguidance's without it.
fn of_grammar(text: &str) -> Grammar {
    if text.trim_start().starts_with("%llguidance") || !text.contains("::=") {
        Grammar::Lark(text.to_owned())
    } else {
        Grammar::Gbnf(text.to_owned())
    }
}
