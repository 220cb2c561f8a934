//! The settings file: TOML whose keys are the long flags, and one table, `[aliases]`, with names for models.
//!
//! A file may serve every subcommand, so it may hold settings that the current one does not take. A key that no
//! subcommand knows is an error: a misspelt setting must not go unnoticed.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Value;

use super::error::SettingsError;
use super::table::table;
use crate::files::read_text;

/// What a settings file holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Values by key, each as the texts that the command line would have been given.
    pub values: BTreeMap<String, Vec<String>>,
    /// Paths and names on the Hub by alias.
    pub aliases: BTreeMap<String, String>,
}

const ALIASES: &str = "aliases";

/// Reads the file at `path`.
pub(super) fn read(path: &Path) -> Result<Contents, SettingsError> {
    let text = read_text(path).map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    let mut table: toml::Table =
        text.parse().map_err(|source| SettingsError::Toml { path: path.to_owned(), source: Box::new(source) })?;
    let aliases = table.remove(ALIASES).map(|value| aliases(path, value)).transpose()?.unwrap_or_default();
    let values = table.into_iter().map(|(key, value)| Ok((known(path, &key)?, texts(path, &key, value)?)));
    Ok(Contents { values: values.collect::<Result<_, SettingsError>>()?, aliases })
}

fn aliases(path: &Path, value: Value) -> Result<BTreeMap<String, String>, SettingsError> {
    let wrong = |alias: String, why| SettingsError::Alias { path: path.to_owned(), alias, why };
    let Value::Table(table) = value else {
        return Err(wrong(String::new(), "aliases stand in a table: [aliases], then small = \"owner/name:Q4_K_M\""));
    };
    let names: Vec<String> = table.keys().cloned().collect();
    let one = |(alias, model)| match model {
        Value::String(model) if names.contains(&model) => {
            Err(wrong(alias, "it stands for another alias, not for a model"))
        }
        Value::String(model) if !model.is_empty() && !alias.is_empty() => Ok((alias, model)),
        _ => Err(wrong(alias, "it must be a path, or a name on the Hugging Face Hub, in quotes")),
    };
    table.into_iter().map(one).collect()
}

fn known(path: &Path, key: &str) -> Result<String, SettingsError> {
    if table().any(|setting| setting.name == key) {
        return Ok(key.to_owned());
    }
    let nearest = table()
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
