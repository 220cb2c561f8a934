//! What a `tokenizer.json` may hold, checked before the `tokenizers` library sees it.
//!
//! The library takes such a file as its own: it allocates what a header in it claims, panics where parts contradict each
//! other, and lets rules multiply a text without end. Everything that is refused here is far beyond published files.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use taper_models::weights::file::{brief, brief_message};

/// Ids that a vocabulary may use; published ones end at 262,144.
const MAX_IDS: u64 = 1 << 22;
/// Normalizers, pre-tokenizers and the like, all together.
const MAX_PARTS: usize = 100;
/// How deep lists of them may nest.
const MAX_DEPTH: usize = 8;
/// What a rule may put in place of one character.
const MAX_REPLACEMENT_BYTES: usize = 64;
const MAX_EXPRESSION_BYTES: usize = 16 << 10;
/// Tokens that are put around each text.
const MAX_AROUND_TEXT: usize = 256;
/// Longer pieces and words make the search for the best split quadratic.
const MAX_PIECE_BYTES: usize = 4096;

/// Says what in the file is out of bounds.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut num_parts = 0;
    for (name, part) in [
        ("normalizer", &file.normalizer),
        ("pre_tokenizer", &file.pre_tokenizer),
        ("post_processor", &file.post_processor),
        ("decoder", &file.decoder),
    ] {
        check_part(part, 0, &mut num_parts).map_err(|what| format!("{name}: {what}"))?;
    }
    match file.model.max_input_chars_per_word {
        Some(chars) if chars > MAX_PIECE_BYTES as u64 => Err(format!(
            "model: words of up to {chars} characters are asked for, at most {MAX_PIECE_BYTES} are possible"
        )),
        _ => Ok(()),
    }
}

/// The parts that are looked at; the rest is the library's to refuse.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "vocab")]
    _vocab: Vocab,
    max_input_chars_per_word: Option<u64>,
}

/// A vocabulary in either form, which is only looked at in passing.
struct Vocab;

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a vocabulary: ids by token, or a list of tokens with scores")
    }

    /// Ids by token.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
        let mut taken = Vec::new();
        while let Some(token) = map.next_key::<String>()? {
            let id: Value = map.next_value()?;
            let Some(index) = id.as_u64().filter(|id| *id < MAX_IDS).map(|id| id as usize) else {
                let (token, id) = (brief(token), brief_message(id));
                return Err(A::Error::custom(format!(
                    "token {token} has the id {id}, ids go from 0 to {}",
                    MAX_IDS - 1
                )));
            };
            if taken.len() <= index {
                taken.resize(index + 1, false);
            }
            if std::mem::replace(&mut taken[index], true) {
                return Err(A::Error::custom(format!("token {} has the id {index}, as another one has", brief(token))));
            }
        }
        Ok(Vocab)
    }

    /// Tokens with scores; the place is the id.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
        let mut count = 0;
        while let Some((token, _score)) = seq.next_element::<(String, f64)>()? {
            count += 1;
            if token.len() > MAX_PIECE_BYTES {
                return Err(A::Error::custom(format!(
                    "a token has {} bytes, at most {MAX_PIECE_BYTES} are possible",
                    token.len()
                )));
            }
            if count > MAX_IDS {
                return Err(A::Error::custom(format!("there are more than {MAX_IDS} tokens")));
            }
        }
        Ok(Vocab)
    }
}

/// Checks a part and those in it. Parts are known by their fields, since the library takes some without a type.
fn check_part(part: &Value, depth: usize, num_parts: &mut usize) -> Result<(), String> {
    let Some(fields) = part.as_object() else { return Ok(()) };
    *num_parts += 1;
    if *num_parts > MAX_PARTS || depth > MAX_DEPTH {
        return Err(format!("it has more than {MAX_PARTS} parts, or they nest more than {MAX_DEPTH} deep"));
    }
    for list in ["normalizers", "pretokenizers", "processors", "decoders"] {
        for part in part[list].as_array().into_iter().flatten() {
            check_part(part, depth + 1, num_parts)?;
        }
    }
    for field in ["content", "prepend", "replacement"] {
        if let Some(text) = part[field].as_str().filter(|text| text.len() > MAX_REPLACEMENT_BYTES) {
            return Err(format!("{field:?} has {} bytes, at most {MAX_REPLACEMENT_BYTES} are possible", text.len()));
        }
    }
    if let Some(expression) = part["pattern"]["Regex"].as_str().filter(|text| text.len() > MAX_EXPRESSION_BYTES) {
        let len = expression.len();
        return Err(format!("a regular expression has {len} bytes, at most {MAX_EXPRESSION_BYTES} are possible"));
    }
    if part["length"] == 0 {
        return Err("words of length 0 are asked for".to_owned());
    }
    if let Some(charsmap) = fields.get("precompiled_charsmap") {
        check_charsmap(charsmap)?;
    }
    check_around_text(part)
}

/// SentencePiece's table of replacements: the length of a search tree, the tree, and texts that end in a zero byte. The
/// library reserves the length before it looks at the rest.
fn check_charsmap(charsmap: &Value) -> Result<(), String> {
    let what = |why: &str| format!("\"precompiled_charsmap\" is unusable: {why}");
    let text = charsmap.as_str().ok_or_else(|| what("it is no text"))?;
    let bytes = STANDARD.decode(text).map_err(|error| what(&error.to_string()))?;
    let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return Err(what("it is too short")) };
    let len = u32::from_le_bytes(*len) as usize;
    let Some(texts) = rest.get(len..) else {
        return Err(what(&format!("it claims a tree of {len} bytes and has {}", rest.len())));
    };
    match texts.split(|byte| *byte == 0).map(<[u8]>::len).max() {
        Some(longest) if longest > MAX_REPLACEMENT_BYTES => {
            Err(what(&format!("it has a replacement of {longest} bytes, at most {MAX_REPLACEMENT_BYTES} are possible")))
        }
        _ => Ok(()),
    }
}

/// How many tokens a template puts around a text: each of its pieces may stand for a list.
fn check_around_text(part: &Value) -> Result<(), String> {
    let pieces = match &part["single"] {
        Value::Array(pieces) => pieces.len(),
        Value::String(pieces) => pieces.split_whitespace().count(),
        _ => return Ok(()),
    };
    let tokens = part["special_tokens"].as_object().into_iter().flatten();
    let longest = tokens.filter_map(|(_, token)| Some(token["ids"].as_array()?.len())).max().unwrap_or(1);
    if pieces.saturating_mul(longest) > MAX_AROUND_TEXT {
        return Err(format!(
            "{pieces} pieces of up to {longest} tokens are put around a text, at most {MAX_AROUND_TEXT} in all"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(file: &str) -> String {
        check(file.as_bytes()).expect_err(file)
    }

    #[test]
    fn ids_are_bounded_and_occur_once() {
        let vocab = |ids: &str| format!(r#"{{"model": {{"type": "BPE", "vocab": {{{ids}}}}}}}"#);
        assert_eq!(check(vocab(r#""a": 0, "b": 5"#).as_bytes()), Ok(()));
        assert!(refused(&vocab(r#""a": 4294967295"#)).starts_with(r#"token "a" has the id 4294967295, ids go from 0"#));
        assert!(refused(&vocab(r#""a": -1"#)).starts_with(r#"token "a" has the id -1, "#));
        assert!(refused(&vocab(r#""a": 1, "b": 1"#)).starts_with(r#"token "b" has the id 1, as another one has"#));
    }

    #[test]
    fn rules_that_multiply_a_text_are_refused() {
        let with = |parts: &str| format!(r#"{{{parts}, "model": {{"vocab": {{}}}}}}"#);
        let replace =
            |content: &str| format!(r#"{{"type": "Replace", "pattern": {{"String": "a"}}, "content": "{content}"}}"#);
        assert_eq!(check(with(&format!(r#""normalizer": {}"#, replace("bb"))).as_bytes()), Ok(()));
        let long = refused(&with(&format!(r#""normalizer": {}"#, replace(&"b".repeat(65)))));
        assert_eq!(long, r#"normalizer: "content" has 65 bytes, at most 64 are possible"#);
        let many = vec![replace("b"); 100].join(",");
        let many = refused(&with(&format!(r#""normalizer": {{"type": "Sequence", "normalizers": [{many}]}}"#)));
        assert!(many.contains("more than 100 parts"), "{many}");
    }

    #[test]
    fn a_table_that_claims_more_than_it_has_is_refused() {
        let charsmap = STANDARD.encode([0xff, 0xff, 0xff, 0xff, 0, 0]);
        let part = serde_json::json!({ "type": "Precompiled", "precompiled_charsmap": charsmap });
        let file = serde_json::json!({ "normalizer": part, "model": { "vocab": {} } }).to_string();
        assert!(refused(&file).ends_with("it claims a tree of 4294967295 bytes and has 2"));
    }

    #[test]
    fn a_template_puts_few_tokens_around_a_text() {
        let ids: Vec<u32> = (0..300).collect();
        let template = serde_json::json!({
            "type": "TemplateProcessing", "single": [{ "SpecialToken": { "id": "x", "type_id": 0 } }],
            "special_tokens": { "x": { "id": "x", "ids": ids, "tokens": [] } },
        });
        let file = serde_json::json!({ "post_processor": template, "model": { "vocab": {} } }).to_string();
        assert!(refused(&file).starts_with("post_processor: 1 pieces of up to 300 tokens"));
    }
}
