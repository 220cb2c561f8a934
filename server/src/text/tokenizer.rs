//! Text to token ids and back, for whatever tokenizer the checkpoint came with.
//!
//! `Tokenizer` chooses the implementation from the files, and holds what all of them share: the bytes of every token
//! and the tokens with a role. It knows nothing of chat templates, sampling or streams.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::gguf_vocab::GgufVocab;
use super::guard::guarded;
use super::library::Library;
use super::special_tokens::SpecialTokens;
use super::spm::Spm;
use super::token_table::{TokenKind, TokenTable};
use super::{bpe, json_file, tokenizer_check};
use taper_models::weights::file::{self, brief, brief_message};
use taper_models::weights::gguf::{Gguf, GgufError};

/// Bytes of a `tokenizer.json` that are read; that of 262,144 tokens with their merges has 33 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Why a tokenizer could not be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("{path} has an unusable vocabulary: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error(
        "{path} has a tokenizer of the model {model:?}; supported are \"llama\" (SentencePiece), \"gpt2\" and \
         \"gemma4\" (BPE)"
    )]
    Model { path: PathBuf, model: String },
    #[error(
        "{path} names the pre-tokenizer {name:?} (tokenizer.ggml.pre), which is not supported; supported are \
         {supported}"
    )]
    PreTokenizer { path: PathBuf, name: String, supported: String },
    #[error(
        "{dir} has no tokenizer.json; it lies beside the weights where the model was published, or is written by \
         AutoTokenizer.from_pretrained(...).save_pretrained(...) of Python's transformers"
    )]
    Missing { dir: PathBuf },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is not valid: {what}")]
    Invalid { path: PathBuf, what: String },
    #[error(
        "{path}: the tokenizer has {tokens} tokens, but the model's embedding table {rows} rows: token {id} ({token}) has \
         none; tokenizer and weights do not belong together"
    )]
    BeyondTable { path: PathBuf, tokens: usize, rows: usize, id: u32, token: String },
    #[error("the tokenizer's decoder is not supported: {0}")]
    Decoder(String),
    #[error("the vocabulary's special tokens cannot be searched for: {0}")]
    Markers(String),
    #[error("the text could not be tokenized: {0}")]
    Encode(String),
}

impl TokenizerError {
    pub(super) fn damaged(gguf: &Gguf, what: String) -> Self {
        Self::Damaged { path: gguf.path.clone(), what }
    }
}

/// How text is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put around the text what the model expects there (usually a begin token in front).
    pub add_special: bool,
    /// Read control tokens spelt in the text as such. Only for text that is trusted not to forge turns.
    pub parse_special: bool,
}

/// How tokens are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Leave control tokens out.
    pub skip_special: bool,
    /// The tokens begin a text, rather than go on from one. Some vocabularies put a space before a text, which is
    /// then dropped again.
    pub starts_text: bool,
}

/// A checkpoint's tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    encoder: Encoder,
    tokens: TokenTable,
    special: SpecialTokens,
    strips_first_space: bool,
}

#[derive(Debug)]
enum Encoder {
    Spm(Box<Spm>),
    Library(Box<Library>),
}

impl Tokenizer {
    /// Loads the tokenizer of a checkpoint directory: `tokenizer.json`, with the special tokens that
    /// `tokenizer_config.json` or `special_tokens_map.json` name.
    ///
    /// # Errors
    /// When `tokenizer.json` is missing or not understood.
    pub fn from_dir(dir: &Path) -> Result<Self, TokenizerError> {
        let path = dir.join("tokenizer.json");
        let bytes = file::read(&path, MAX_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => TokenizerError::Missing { dir: dir.to_owned() },
            _ => TokenizerError::Io { path: path.clone(), source },
        })?;
        Self::from_json(&path, &bytes, named_token(dir, "bos_token")?, named_token(dir, "eos_token")?)
    }

    /// Builds the tokenizer of a `tokenizer.json` with this content, which errors call `path`. `bos` and `eos` are the
    /// spellings of the tokens that begin and end a text.
    ///
    /// # Errors
    /// When the content is not understood, or is out of all bounds.
    pub fn from_json(
        path: &Path,
        bytes: &[u8],
        bos: Option<String>,
        eos: Option<String>,
    ) -> Result<Self, TokenizerError> {
        let invalid = |what: String| TokenizerError::Invalid { path: path.to_owned(), what: brief_message(what) };
        tokenizer_check::check(bytes).map_err(invalid)?;
        let mut library = guarded(|| tokenizers::Tokenizer::from_bytes(bytes))
            .map_err(|panic| invalid(format!("its parts contradict each other ({panic})")))?
            .map_err(|error| invalid(error.to_string()))?;
        // Lengths are the engine's business: a prompt is never cut or padded silently.
        library.with_truncation(None).map_err(|error| invalid(error.to_string()))?;
        library.with_padding(None);
        let library = Library::new(library)?;
        let (prefix, suffix) = library.around_text().map_err(|error| invalid(error.to_string()))?;
        let bos = bos.and_then(|token| library.id(&token));
        let eos = eos.and_then(|token| library.id(&token));
        let (tokens, strips_first_space) = library.token_table().map_err(|error| invalid(error.to_string()))?;
        let special = SpecialTokens { bos, eos, prefix, suffix, ..SpecialTokens::default() }.complete(&tokens);
        Ok(Self { encoder: Encoder::Library(Box::new(library)), tokens, special, strips_first_space })
    }

    /// Builds the tokenizer described in a GGUF header.
    ///
    /// # Errors
    /// When the vocabulary is damaged, or of a kind that is not supported.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TokenizerError> {
        const MODEL: &str = "tokenizer.ggml.model";
        let vocab = GgufVocab::new(gguf)?;
        match gguf.require(MODEL, gguf.str(MODEL)?)? {
            "llama" => {
                let (spm, tokens) = Spm::from_gguf(&vocab)?;
                let strips_first_space = spm.add_space_prefix;
                let special = vocab.special_tokens(true)?.complete(&tokens);
                Ok(Self { encoder: Encoder::Spm(Box::new(spm)), tokens, special, strips_first_space })
            }
            "gpt2" => {
                let pre = bpe::pre_tokenizer(&vocab)?;
                Self::from_gguf_bpe(&vocab, bpe::byte_level(&vocab, pre)?, pre.add_bos)
            }
            "gemma4" => Self::from_gguf_bpe(&vocab, bpe::space_marked(&vocab)?, true),
            model => Err(TokenizerError::Model { path: gguf.path.clone(), model: model.to_owned() }),
        }
    }

    fn from_gguf_bpe(
        vocab: &GgufVocab,
        (library, tokens): (tokenizers::Tokenizer, TokenTable),
        add_bos: bool,
    ) -> Result<Self, TokenizerError> {
        let special = vocab.special_tokens(add_bos)?.complete(&tokens);
        let encoder = Encoder::Library(Box::new(Library::new(library)?));
        Ok(Self { encoder, tokens, special, strips_first_space: false })
    }

    /// The token ids of `text`.
    ///
    /// # Errors
    /// When the tokenizer of a `tokenizer.json` fails on the text, as one without a token for unknown words can.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        if options.add_special {
            ids.extend_from_slice(&self.special.prefix);
        }
        match &self.encoder {
            Encoder::Spm(spm) => spm.encode(&self.tokens, text, options.parse_special, &mut ids),
            Encoder::Library(library) => library.encode(text, options.parse_special, &mut ids)?,
        }
        if options.add_special {
            ids.extend_from_slice(&self.special.suffix);
        }
        Ok(ids)
    }

    /// The token ids of a rendered chat template: control tokens are parsed, and the begin token is there exactly
    /// once, whether the template wrote it or not.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_chat(&self, prompt: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = self.encode(prompt, EncodeOptions { add_special: false, parse_special: true })?;
        if !ids.starts_with(&self.special.prefix) {
            ids.splice(0..0, self.special.prefix.iter().copied());
        }
        Ok(ids)
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> String {
        let mut bytes = Vec::new();
        let mut at_start = options.starts_text;
        for &id in ids {
            bytes.extend_from_slice(self.shown_bytes(id, options.skip_special, &mut at_start));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What token `id` adds to a text. `at_start` says that nothing was shown yet, and is updated.
    pub(super) fn shown_bytes(&self, id: u32, skip_special: bool, at_start: &mut bool) -> &[u8] {
        if skip_special && self.is_special(id) {
            return &[];
        }
        let bytes = self.tokens.bytes(id);
        if bytes.is_empty() || !std::mem::take(at_start) || !self.strips_first_space {
            return bytes;
        }
        bytes.strip_prefix(b" ").unwrap_or(bytes)
    }

    /// The bytes token `id` stands for; control tokens are their names. Empty outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.tokens.bytes(id)
    }

    /// Number of token ids. The model's embedding may have more rows, for padding.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens with a role.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special
    }

    /// Checks that the model has an embedding for whatever text can become; `rows` is how many it has.
    ///
    /// Control tokens beyond the table are let pass: Gemma's text models come with the image token of the larger ones.
    /// Text that spells one of them is refused with its request.
    ///
    /// # Errors
    /// With both numbers, and the first token that has no embedding.
    pub fn check_fits(&self, rows: usize, path: &Path) -> Result<(), TokenizerError> {
        let around = self.special.prefix.iter().chain(&self.special.suffix).copied();
        let text = self
            .tokens
            .ids()
            .filter(|id| !matches!(self.tokens.kind(*id), TokenKind::Control | TokenKind::Unused | TokenKind::Unknown));
        match around.chain(text).find(|id| *id as usize >= rows) {
            None => Ok(()),
            Some(id) => {
                let token = brief(String::from_utf8_lossy(self.token_bytes(id)));
                let tokens = self.tokens.len();
                Err(TokenizerError::BeyondTable { path: path.to_owned(), tokens, rows, id, token })
            }
        }
    }

    /// Whether a text is given a begin token when encoded with special tokens.
    pub fn add_bos(&self) -> bool {
        self.special.bos.is_some_and(|bos| self.special.prefix.first() == Some(&bos))
    }

    /// Whether token `id` steers the model rather than being text.
    pub fn is_special(&self, id: u32) -> bool {
        matches!(self.tokens.kind(id), TokenKind::Control | TokenKind::Unknown)
    }

    /// Whether generation stops after token `id`.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.special.end_of_generation.binary_search(&id).is_ok()
    }
}

/// The spelling of the special token `key`: a string, or an object with its `content`.
fn named_token(dir: &Path, key: &str) -> Result<Option<String>, TokenizerError> {
    for name in ["tokenizer_config.json", "special_tokens_map.json"] {
        let path = dir.join(name);
        let config = json_file(&path).map_err(|what| TokenizerError::Invalid { path, what })?;
        let found = config.as_ref().and_then(|config| match &config[key] {
            Value::String(token) => Some(token),
            Value::Object(token) => match token.get("content") {
                Some(Value::String(content)) => Some(content),
                _ => None,
            },
            _ => None,
        });
        if let Some(token) = found {
            return Ok(Some(token.clone()));
        }
    }
    Ok(None)
}
