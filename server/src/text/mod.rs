//! Text on both sides of the engine, which itself sees token ids only.
//!
//! Into it: [`ChatTemplate`] writes a conversation as a prompt, [`Tokenizer`] turns text into ids. Out of it:
//! [`Detokenizer`] turns ids into text that never splits a character, [`StopMatcher`] ends it at a stop string.

mod bpe;
mod detokenizer;
mod gguf_vocab;
mod guard;
mod library;
mod output;
mod pipeline;
mod pretokenizers;
mod special_tokens;
mod spm;
mod stop;
mod template;
mod template_python;
mod template_rewrite;
mod template_room;
mod template_source;
mod token_table;
mod tokenizer;
mod tokenizer_check;

pub use detokenizer::Detokenizer;
pub use output::{Output, OutputStep};
pub use special_tokens::SpecialTokens;
pub use stop::{StopMatcher, StopStep};
pub use template::{ChatInput, ChatTemplate, TemplateError, TemplateLimits};
pub use template_source::TemplateSources;
pub use tokenizer::{DecodeOptions, EncodeOptions, Tokenizer, TokenizerError};

use taper_models::weights::file::{self, MAX_CONFIG_BYTES};

/// Reads a JSON file of at most [`MAX_CONFIG_BYTES`]; `None` if there is none. The error is text for a message that names
/// the path.
fn json_file(path: &std::path::Path) -> Result<Option<serde_json::Value>, String> {
    match file::read(path, MAX_CONFIG_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| error.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
