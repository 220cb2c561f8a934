//! What a user means by a model's name: a file, a directory, or a repository on the Hub.
//!
//! Whatever exists on disk wins. Else a name may be spelled as other tools do: `owner/name`, `owner/name:Q4_K_M`
//! (Ollama, llama.cpp), `owner/name@revision`, `hf.co/owner/name`, or an address copied from the browser.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// A file or directory that exists.
    Path(PathBuf),
    Hub(HubName),
}

/// A model on the Hub. The parts are checked: `owner`, `name` and `file` are safe to make paths of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HubName {
    pub owner: String,
    pub name: String,
    /// Branch, tag or commit. `None`: `main`.
    pub revision: Option<String>,
    /// The quantisation, as typed (`Q4_K_M`, `q8_0`). `None`: the usual choice.
    pub quant: Option<String>,
    /// One GGUF file of the repository, with its folders.
    pub file: Option<String>,
}

/// Why a name means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the model's name is empty; name a file, a directory, or owner/name on the Hugging Face Hub")]
    Empty,
    #[error(
        "there is no file or directory {0:?}, and a name on the Hugging Face Hub it is not either: those are owner/name"
    )]
    NoSuchFile(String),
    #[error(
        "{0:?} is no file or directory here, no alias of the settings file, and no name on the Hugging Face Hub: \
         those have two parts, as in Qwen/Qwen3-0.6B-GGUF"
    )]
    BareWord(String),
    #[error(
        "{0:?}: plain addresses are not supported; name a file, a directory, owner/name, or an address of a model on the \
         Hugging Face Hub such as https://huggingface.co/owner/name"
    )]
    PlainUrl(String),
    #[error("{0:?} is an address of a {1}, not of a model")]
    NotAModel(String, &'static str),
    #[error("{0:?} leads to a file that no model is read from; name the repository, or one of its .gguf files")]
    NotAModelFile(String),
    #[error("{text:?} has a revision already, and {given} says {revision:?}; give one of them")]
    TwoRevisions { text: String, given: String, revision: String },
    #[error("{text:?}: {part:?} cannot be part of a name on the Hugging Face Hub: {rule}")]
    Part { text: String, part: String, rule: &'static str },
}

const RULE_ID: &str = "owner and name have 1 to 96 letters, digits, `-`, `_` or `.`, no `--` or `..`, and neither begin \
                       nor end with `-` or `.`";
const RULE_REVISION: &str = "a revision is a branch, a tag or a commit, without spaces, `..` or any of ~^:?*[\\";
const RULE_TAG: &str = "after the colon stands a quantisation such as Q4_K_M, or the name of a .gguf file";
const RULE_ADDRESS: &str = "after owner/name an address goes on with /tree/REVISION, /blob/REVISION/FILE or \
                            /resolve/REVISION/FILE";

impl ModelName {
    /// What `text` means here: looks at the disk, and at `HF_ENDPOINT` for addresses of a mirror of the Hub.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let path = expand_home(text);
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        // A link that leads nowhere is a file of the user's as well, and opening it says what is wrong with it.
        if path.symlink_metadata().is_ok() {
            return Ok(Self::Path(path));
        }
        HubName::parse(text, std::env::var("HF_ENDPOINT").ok().as_deref()).map(Self::Hub)
    }
}

/// The text that `text` stands for: an alias's, unless a file has that name.
pub fn without_alias<'a>(text: &'a str, aliases: &'a BTreeMap<String, String>) -> &'a str {
    match aliases.get(text) {
        Some(model) if !Path::new(text).exists() => model,
        _ => text,
    }
}

impl HubName {
    /// The same model at `revision`, which must not contradict one that the name has. `given`: how the user said it.
    pub fn at(self, revision: &str, given: &str) -> Result<Self, NameError> {
        let (text, given, revision) = (self.to_string(), given.to_owned(), revision.to_owned());
        match &self.revision {
            Some(own) if *own != revision => Err(NameError::TwoRevisions { text, given, revision }),
            _ if !is_revision(&revision) => Err(NameError::Part { text, part: revision, rule: RULE_REVISION }),
            _ => Ok(Self { revision: Some(revision), ..self }),
        }
    }

    /// Reads a name on the Hub; `endpoint` is the address of a mirror, whose addresses count as the Hub's own.
    pub fn parse(text: &str, endpoint: Option<&str>) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(rest) = text.strip_prefix("hf://") {
            return Self::after_host(text, rest);
        }
        if text.contains("://") {
            let rest = of_hub(text, endpoint).ok_or_else(|| NameError::PlainUrl(text.to_owned()))?;
            return Self::after_host(text, rest);
        }
        if let Some(rest) = HOSTS.iter().find_map(|host| text.strip_prefix(host)?.strip_prefix('/')) {
            return Self::after_host(text, rest);
        }
        if is_path(text) {
            return Err(NameError::NoSuchFile(text.to_owned()));
        }
        match head(text).matches('/').count() {
            0 => Err(NameError::BareWord(text.to_owned())),
            1 => Self::short(text, text),
            _ => Err(NameError::NoSuchFile(text.to_owned())),
        }
    }

    /// `owner/name[@revision][:tag]`, or an address without its host.
    fn after_host(text: &str, rest: &str) -> Result<Self, NameError> {
        let rest = rest.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        for (folder, kind) in [("datasets/", "data set"), ("spaces/", "space")] {
            if rest.starts_with(folder) {
                return Err(NameError::NotAModel(text.to_owned(), kind));
            }
        }
        let rest = rest.strip_prefix("models/").unwrap_or(rest);
        if head(rest).matches('/').count() > 1 { Self::address(text, rest) } else { Self::short(text, rest) }
    }

    /// `owner/name/tree/REVISION`, `owner/name/blob/REVISION/FILE` and the like.
    fn address(text: &str, rest: &str) -> Result<Self, NameError> {
        let wrong = |part: &str, rule| NameError::Part { text: text.to_owned(), part: part.to_owned(), rule };
        let parts: Vec<String> = rest.split('/').map(decoded).collect();
        let (Some(owner), Some(name)) = (parts.first(), parts.get(1)) else { return Err(wrong(rest, RULE_ID)) };
        let repository = Self::short(text, &format!("{owner}/{name}"))?;
        // The Hub's own references (`refs/pr/7`) are three parts of the address.
        let of_hub = parts.get(3).is_some_and(|part| part == "refs") && parts.len() >= 6;
        let end = if of_hub { 6 } else { 4 };
        let revision = parts.get(3..end).ok_or_else(|| wrong(rest, RULE_ADDRESS))?.join("/");
        if !is_revision(&revision) {
            return Err(wrong(&revision, RULE_REVISION));
        }
        let file = parts[end..].join("/");
        let named = Self { revision: Some(revision), ..repository };
        match parts[2].as_str() {
            "tree" => Ok(named),
            "blob" | "resolve" | "raw" if is_gguf_file(&file) => Ok(Self { file: Some(file), ..named }),
            // One shard is not a model, and all of them have one address.
            "blob" | "resolve" | "raw" if file.ends_with(".safetensors") && !file.contains('/') => Ok(named),
            "blob" | "resolve" | "raw" => Err(NameError::NotAModelFile(text.to_owned())),
            other => Err(wrong(other, RULE_ADDRESS)),
        }
    }

    /// `owner/name[@revision][:tag]`.
    fn short(text: &str, short: &str) -> Result<Self, NameError> {
        let wrong = |part: &str, rule| NameError::Part { text: text.to_owned(), part: part.to_owned(), rule };
        let id = head(short);
        let (owner, name) = id.split_once('/').ok_or_else(|| wrong(id, RULE_ID))?;
        if let Some(part) = [owner, name].into_iter().find(|part| !is_id(part)) {
            return Err(wrong(part, RULE_ID));
        }
        let rest = &short[id.len()..];
        let (revision, tag) = match rest.strip_prefix('@') {
            Some(rest) => {
                rest.split_once(':').map_or((Some(rest), None), |(revision, tag)| (Some(revision), Some(tag)))
            }
            None => (None, rest.strip_prefix(':')),
        };
        if let Some(revision) = revision.filter(|revision| !is_revision(revision)) {
            return Err(wrong(revision, RULE_REVISION));
        }
        let file = tag.filter(|tag| is_gguf_file(tag));
        // Ollama's tag for "the usual choice".
        let quant = tag.filter(|tag| file.is_none() && *tag != "latest");
        if let Some(tag) = quant.filter(|tag| !is_tag(tag)) {
            return Err(wrong(tag, RULE_TAG));
        }
        let [owner, name] = [owner, name].map(str::to_owned);
        let [revision, quant, file] = [revision, quant, file].map(|part| part.map(str::to_owned));
        Ok(Self { owner, name, revision, quant, file })
    }

    /// `owner/name`, without revision and quantisation.
    pub fn id(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The revision asked for, or the Hub's default.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bare, such a name would be taken for a file's.
        let scheme = if is_path(&self.id()) { "hf://" } else { "" };
        write!(f, "{scheme}{}/{}", self.owner, self.name)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match self.file.as_ref().or(self.quant.as_ref()) {
            Some(tag) => write!(f, ":{tag}"),
            None => Ok(()),
        }
    }
}

impl FromStr for HubName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text, None)
    }
}

const HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

/// What follows the host in an address of the Hub or its mirror.
fn of_hub<'a>(text: &'a str, endpoint: Option<&str>) -> Option<&'a str> {
    let without_scheme = |url: &'a str| url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let mirror = endpoint.map(|url| url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/'));
    let rest = without_scheme(text)?;
    HOSTS
        .into_iter()
        .chain(mirror)
        .filter(|host| !host.is_empty())
        .find_map(|host| rest.strip_prefix(host)?.strip_prefix('/'))
}

/// `owner/name` of a short name: what stands before its revision and its tag.
fn head(text: &str) -> &str {
    text.split(['@', ':']).next().unwrap_or_default()
}

/// Whether `text` looks like a path, so that "no such file" is what to say.
fn is_path(text: &str) -> bool {
    let weights = [".gguf", ".safetensors"].iter().any(|extension| text.ends_with(extension));
    text.starts_with(['/', '.', '~']) || text.contains('\\') || (weights && !text.contains(':'))
}

fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        // A shell does this for arguments, but not for a settings file.
        (Some(rest), Some(home)) => home.join(rest),
        _ => Path::new(text).to_owned(),
    }
}

fn is_id(part: &str) -> bool {
    let all = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=96).contains(&part.len())
        && part.chars().all(all)
        && !part.contains("--")
        && !part.contains("..")
        && !part.starts_with(['-', '.'])
        && !part.ends_with(['-', '.'])
}

/// Whether `text` can be a branch, a tag or a commit, and a path below `refs/`.
pub(super) fn is_revision(text: &str) -> bool {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    text.len() <= 250
        && !text.contains(forbidden)
        && !text.contains("..")
        && !text.starts_with('-')
        && text.split('/').all(part)
}

fn is_tag(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_gguf_file(text: &str) -> bool {
    text.to_ascii_lowercase().ends_with(".gguf") && is_file(text)
}

/// Whether `text` is a relative path that stays below where it begins, on every system.
pub(crate) fn is_file(text: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    text.len() <= 1024 && !text.contains(|c: char| c.is_control() || c == '\\' || c == ':') && text.split('/').all(part)
}

/// `%2F` and the like as the bytes they stand for; what is not such an escape stays.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, others @ ..] = rest {
        let escape = others.get(..2).filter(|_| *first == b'%');
        let byte = escape.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
