//! What chat templates expect from Python: values printed as Python prints them, `tojson` as `json.dumps` writes it,
//! methods of strings and dictionaries, `raise_exception`, `strftime_now`.

use std::fmt::{self, Write as _};

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, escape_formatter};
use minijinja_contrib::pycompat;
use serde_json::Value as Json;

use super::template_room::{self, Text};

/// How deep a value may nest to be printed; the rendering thread's stack is the limit.
const MAX_DEPTH: usize = 128;

/// Wide indentation is a way to fill memory, not to write JSON.
const MAX_INDENT: usize = 16;

/// What a template passed to `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RaisedException(pub(super) String);

/// Adds all of it to an environment.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_formatter(print);
    environment.set_unknown_method_callback(|state, value, method, args| {
        template_room::check_method(state, value, method, args)?;
        pycompat::unknown_method_callback(state, value, method, args)
    });
    environment.add_filter("tojson", to_json);
    environment.add_filter("from_json", from_json);
    environment.add_filter("string", |state: &State, value: &Value| to_text(value).and_then(|text| spent(state, text)));
    environment.add_filter("trim", trim);
    environment.add_test("iterable", is_iterable);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(RaisedException(message)))
}

/// The current time (UTC) by a `strftime` pattern.
fn strftime_now(pattern: &str) -> Result<String, Error> {
    let mut text = String::new();
    match write!(text, "{}", chrono::Utc::now().format(pattern)) {
        Ok(()) => Ok(text),
        Err(fmt::Error) => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now({pattern:?}): unknown directive")))
        }
    }
}

/// Prints a value as Python's `str` does; strings and numbers are the same in both worlds.
fn print(output: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String => {
            template_room::check_text(state, value.as_str().map(str::len))?;
            escape_formatter(output, state, value)
        }
        ValueKind::Number | ValueKind::Undefined => escape_formatter(output, state, value),
        _ => Ok(output.write_str(&spent(state, to_text(value)?)?)?),
    }
}

/// `text`, counted.
fn spent(state: &State, text: String) -> Result<String, Error> {
    template_room::spend(state, text.len())?;
    Ok(text)
}

/// `str(value).strip(chars)`: of anything, since templates trim contents that are lists of parts.
fn trim(state: &State, value: &Value, chars: Option<&str>) -> Result<String, Error> {
    let text = spent(state, to_text(value)?)?;
    Ok(match chars {
        Some(chars) => text.trim_matches(|char| chars.contains(char)).to_owned(),
        None => text.trim().to_owned(),
    })
}

/// Whether a `for` loop takes the value. The engine would also take `none`, and templates ask this to find out.
fn is_iterable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

/// Python's `str(value)`.
fn to_text(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => {
            let mut text = Text::new();
            write_repr(&mut text, value, 0)?;
            Ok(text.0)
        }
    }
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth == MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("a value nests more than {MAX_DEPTH} deep")));
    }
    Ok(())
}

/// Python's `repr(value)`.
fn write_repr(out: &mut Text, value: &Value, depth: usize) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::None => out.put("None"),
        ValueKind::Bool => out.put(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => write_repr_of_text(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            out.put("[")?;
            for (place, item) in value.try_iter()?.enumerate() {
                out.put(if place > 0 { ", " } else { "" })?;
                write_repr(out, &item, depth + 1)?;
            }
            out.put("]")
        }
        ValueKind::Map => {
            out.put("{")?;
            for (place, key) in value.try_iter()?.enumerate() {
                out.put(if place > 0 { ", " } else { "" })?;
                write_repr(out, &key, depth + 1)?;
                out.put(": ")?;
                write_repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.put("}")
        }
        _ => out.put(&value.to_string()),
    }
}

/// Python prefers single quotes, unless only they would need escaping.
fn write_repr_of_text(out: &mut Text, text: &str) -> Result<(), Error> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for char in text.chars() {
        match char {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            char if char == quote => quoted.extend(['\\', char]),
            char if char.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(char))),
            char => quoted.push(char),
        }
    }
    quoted.push(quote);
    out.put(&quoted)
}

/// A value from its JSON text, as some templates want the arguments of tool calls.
fn from_json(text: &str) -> Result<Value, Error> {
    let json: Json = serde_json::from_str(text)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("from_json: {error}")))?;
    Ok(Value::from_serialize(json))
}

/// `json.dumps(value, ensure_ascii, indent, separators, sort_keys)` with the defaults `transformers` sets.
fn to_json(state: &State, value: &Value, ensure_ascii: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let ensure_ascii = match ensure_ascii {
        Some(given) => given,
        None => kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    let indent = kwargs.get::<Option<usize>>("indent")?;
    if indent.is_some_and(|indent| indent > MAX_INDENT) {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson indents by at most {MAX_INDENT} blanks")));
    }
    let (item, key) = match kwargs.get::<Option<Vec<String>>>("separators")?.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        // Python leaves no blank at the end of a line.
        _ if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        _ => (", ".to_owned(), ": ".to_owned()),
    };
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut writer = JsonWriter { out: Text::new(), ensure_ascii, indent, item, key, sort_keys };
    writer.value(value, 0)?;
    Ok(Value::from_safe_string(spent(state, writer.out.0)?))
}

struct JsonWriter {
    out: Text,
    ensure_ascii: bool,
    /// Blanks for each level, each item on a line of its own.
    indent: Option<usize>,
    /// What separates items, and a key from its value.
    item: String,
    key: String,
    sort_keys: bool,
}

impl JsonWriter {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        check_depth(depth)?;
        match value.kind() {
            ValueKind::Undefined | ValueKind::None => self.out.put("null"),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.items("[", "]", depth, &items, |writer, item| writer.value(item, depth + 1))
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.items("{", "}", depth, &keys, |writer, key| {
                    writer.text(&key.to_string())?;
                    writer.out.put(&writer.key)?;
                    writer.value(&value.get_item(key)?, depth + 1)
                })
            }
            ValueKind::Bool => self.out.put(if value.is_true() { "true" } else { "false" }),
            _ => self.out.put(&value.to_string()),
        }
    }

    fn items(
        &mut self,
        open: &str,
        close: &str,
        depth: usize,
        items: &[Value],
        mut write: impl FnMut(&mut Self, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.put(open)?;
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.out.put(&self.item)?;
            }
            self.new_line(depth + 1)?;
            write(self, item)?;
        }
        if !items.is_empty() {
            self.new_line(depth)?;
        }
        self.out.put(close)
    }

    fn new_line(&mut self, depth: usize) -> Result<(), Error> {
        match self.indent {
            Some(indent) => self.out.put(&format!("\n{}", " ".repeat(indent * depth))),
            None => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        let quoted = Json::from(text).to_string();
        if !self.ensure_ascii {
            return self.out.put(&quoted);
        }
        for char in quoted.chars() {
            if char.is_ascii() {
                self.out.put(char.encode_utf8(&mut [0; 4]))?;
                continue;
            }
            for unit in char.encode_utf16(&mut [0; 2]) {
                self.out.put(&format!("\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}
