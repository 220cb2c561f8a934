//! How the bytes of a request become its type: a mistake is told with the name of its field, and fields that the type
//! does not have are kept, so that the server can name what it ignores.

use serde::de::{Deserialize, DeserializeOwned};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::unknown;
use crate::values::whole;

/// Fields that a request has and its type does not, in the order they were sent.
pub type Unknown = Map<String, Value>;

/// What is wrong with a body before any of its values is judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body is not valid JSON: {0}")]
    NotJson(String),
    #[error("the body must be a JSON object; it is {0}")]
    NotAnObject(&'static str),
    #[error("`{0}` is missing")]
    Missing(String),
    #[error("`{0}` was given twice, under two names; give it once")]
    Twice(String),
    #[error("`{path}`: {message}")]
    Field { path: String, message: String },
}

impl BodyError {
    /// The field to blame, as `messages[0].role`, for the `param` of the error response.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::NotJson(_) | Self::NotAnObject(_) => None,
            Self::Missing(path) | Self::Twice(path) | Self::Field { path, .. } => Some(path),
        }
    }
}

/// A request body, to be read by [`parse`].
pub trait Body: DeserializeOwned + ToSchema {
    /// The fields that were sent and are not of the API: accepted, without effect. Those within other fields are named by
    /// their paths, as `tools[0].function`, and null.
    fn unknown(&self) -> &Unknown;

    /// The same, for [`parse`].
    fn unknown_mut(&mut self) -> &mut Unknown;

    /// Checks the part that is flattened into this type. serde forgets the names of flattened fields, so that their
    /// mistakes must be found before the whole is read.
    fn check_flattened(_body: &Value) -> Result<(), BodyError> {
        Ok(())
    }
}

/// Reads a request. `null` stands for a field that is absent; of a field given twice the last counts.
pub fn parse<T: Body>(bytes: &[u8]) -> Result<T, BodyError> {
    let mut body = serde_json::from_slice(bytes).map_err(|error| BodyError::NotJson(error.to_string()))?;
    let Value::Object(fields) = &mut body else { return Err(BodyError::NotAnObject(kind(&body))) };
    fields.retain(|_, value| !value.is_null());
    fields.values_mut().for_each(write_whole_numbers_as_integers);
    let nested = unknown::nested(&T::name(), fields);
    T::check_flattened(&body)?;
    let mut body: T = read(body)?;
    body.unknown_mut().extend(nested.into_iter().map(|path| (path, Value::Null)));
    Ok(body)
}

/// Deserialises with the path of the field to blame.
pub(crate) fn read<'de, T: Deserialize<'de>>(
    body: impl serde::Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, BodyError> {
    serde_path_to_error::deserialize(body).map_err(|error| {
        let path = Some(error.path().to_string()).filter(|path| path != ".");
        let message = error.into_inner().to_string();
        let within = |field: &str| path.iter().map(String::as_str).chain([field]).collect::<Vec<_>>().join(".");
        // serde tells these two with the field in the message instead of in the path.
        if let Some(field) = quoted(&message, "missing field ") {
            return BodyError::Missing(within(field));
        }
        if let Some(field) = quoted(&message, "duplicate field ") {
            return BodyError::Twice(within(field));
        }
        BodyError::Field { path: path.unwrap_or_default(), message: shortened(message) }
    })
}

/// serde repeats the whole value that it did not expect, however long.
fn shortened(mut message: String) -> String {
    const LONGEST: usize = 300;
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST));
        message.push('…');
    }
    message
}

/// The word in backticks that follows `start` and ends the message.
fn quoted<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.strip_prefix('`')?.strip_suffix('`')
}

/// So that serde takes them for the integers that they are.
fn write_whole_numbers_as_integers(value: &mut Value) {
    if let Some(integer) = value.as_f64().filter(|_| value.is_f64()).and_then(whole) {
        *value = integer.into();
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
