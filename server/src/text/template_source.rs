//! Where a checkpoint keeps its chat templates, and the special tokens they write.
//!
//! GGUF: `tokenizer.chat_template` and named variants. Directory: `chat_template.jinja`, then the `chat_template` of
//! `chat_template.json` or `tokenizer_config.json`, a string or a list of `{name, template}`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::json_file;
use super::template::{DEFAULT, TemplateError};
use super::tokenizer::Tokenizer;
use crate::files::text_of;
use taper_models::weights::file::{self, MAX_CONFIG_BYTES};
use taper_models::weights::gguf::{Array, Gguf, GgufError};

/// Templates by name, and the special tokens by the names templates use (`bos_token`, `eos_token`, ...).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TemplateSources {
    pub templates: BTreeMap<String, String>,
    pub special_tokens: Vec<(String, String)>,
}

impl TemplateSources {
    /// The templates in a GGUF header; `tokenizer` is the one of the same file.
    ///
    /// # Errors
    /// When a key has the wrong type.
    pub fn from_gguf(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        const KEY: &str = "tokenizer.chat_template";
        let failed = |error: GgufError| TemplateError::Source(error.to_string());
        let mut sources = Self { special_tokens: begin_and_end(tokenizer), ..Self::default() };
        if let Some(template) = gguf.str(KEY).map_err(failed)? {
            sources.templates.insert(DEFAULT.to_owned(), template.to_owned());
        }
        if let Some(Array::String(names)) = gguf.array("tokenizer.chat_templates").map_err(failed)? {
            for name in names.iter().map(String::from_utf8_lossy) {
                if let Some(template) = gguf.str(&format!("{KEY}.{name}")).map_err(failed)? {
                    sources.templates.insert(name.into_owned(), template.to_owned());
                }
            }
        }
        Ok(sources)
    }

    /// The templates of a checkpoint directory; `tokenizer` is the one of the same directory.
    ///
    /// # Errors
    /// When a file cannot be read or is not valid JSON.
    pub fn from_dir(dir: &Path, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        let config = config(dir, "tokenizer_config.json")?;
        let mut special_tokens = begin_and_end(tokenizer);
        special_tokens.extend(other_special_tokens(&config));
        let mut sources = Self { special_tokens, ..Self::default() };
        let path = dir.join("chat_template.jinja");
        match file::read(&path, MAX_CONFIG_BYTES).and_then(text_of) {
            Ok(template) => drop(sources.templates.insert(DEFAULT.to_owned(), template)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                sources.add_json(&config["chat_template"]);
                sources.add_json(&self::config(dir, "chat_template.json")?["chat_template"]);
            }
            Err(error) => return Err(TemplateError::Source(format!("{}: {error}", path.display()))),
        }
        Ok(sources)
    }

    /// A single template, say one given on the command line.
    pub fn from_text(template: String, tokenizer: &Tokenizer) -> Self {
        let templates = BTreeMap::from([(DEFAULT.to_owned(), template)]);
        Self { templates, special_tokens: begin_and_end(tokenizer) }
    }

    fn add_json(&mut self, template: &Value) {
        match template {
            Value::String(template) => drop(self.templates.insert(DEFAULT.to_owned(), template.clone())),
            Value::Array(named) => {
                for entry in named {
                    if let (Some(name), Some(template)) = (entry["name"].as_str(), entry["template"].as_str()) {
                        self.templates.insert(name.to_owned(), template.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
}

fn config(dir: &Path, name: &str) -> Result<Value, TemplateError> {
    let path = dir.join(name);
    let config = json_file(&path).map_err(|what| TemplateError::Source(format!("{}: {what}", path.display())))?;
    Ok(config.unwrap_or_default())
}

fn begin_and_end(tokenizer: &Tokenizer) -> Vec<(String, String)> {
    let special = tokenizer.special_tokens();
    let text = |id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned();
    let named = [("bos_token", special.bos), ("eos_token", special.eos)];
    named.into_iter().filter_map(|(name, id)| Some((name.to_owned(), text(id?)))).collect()
}

/// The remaining tokens that `transformers` shows to templates.
fn other_special_tokens(config: &Value) -> Vec<(String, String)> {
    let text = |token: &Value| token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned);
    let names = ["unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
    names.into_iter().filter_map(|name| Some((name.to_owned(), text(&config[name])?))).collect()
}
