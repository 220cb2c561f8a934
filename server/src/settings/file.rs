//! The settings file: TOML whose keys are the long flags, without tables.
//!
//! A file may serve every subcommand, so it may hold settings that the current one does not take. A key that no
//! subcommand knows is an error: a misspelt setting must not go unnoticed.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Value;

use super::error::SettingsError;
use super::table::TABLE;
use crate::files::read_text;

/// The file's values by key, each as the texts that the command line would have been given.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Vec<String>>, SettingsError> {
    let text = read_text(path).map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    let table: toml::Table =
        text.parse().map_err(|source| SettingsError::Toml { path: path.to_owned(), source: Box::new(source) })?;
    table.into_iter().map(|(key, value)| Ok((known(path, &key)?, texts(path, &key, value)?))).collect()
}

fn known(path: &Path, key: &str) -> Result<String, SettingsError> {
    if TABLE.iter().any(|setting| setting.name == key) {
        return Ok(key.to_owned());
    }
    let nearest = TABLE
        .iter()
        .map(|setting| setting.name)
        .min_by_key(|name| strsim::damerau_levenshtein(name, key))
        .expect("the table has rows");
    Err(SettingsError::UnknownKey { path: path.to_owned(), key: key.to_owned(), nearest })
}

fn texts(path: &Path, key: &str, value: Value) -> Result<Vec<String>, SettingsError> {
    let one = |value| {
        scalar(value).map_err(|found| SettingsError::NotAValue { path: path.to_owned(), key: key.to_owned(), found })
    };
    match value {
        Value::Array(values) => values.into_iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

fn scalar(value: Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(value) => Ok(value.to_string()),
        Value::Float(value) => Ok(value.to_string()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Datetime(_) => Err("a date"),
        Value::Array(_) => Err("an array in an array"),
        Value::Table(_) => Err("a table"),
    }
}
