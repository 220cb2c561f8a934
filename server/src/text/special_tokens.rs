//! The tokens with a role: begin and end of a text, and those after which generation stops.
//!
//! Files name one end token, yet chat models end a turn with another. As llama.cpp does, well-known names of end
//! tokens are looked up in the vocabulary, so that a file which forgets to name its end token still stops.

use super::token_table::{TokenKind, TokenTable};

/// Special ids of a tokenizer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpecialTokens {
    /// Begin of text.
    pub bos: Option<u32>,
    /// End of text.
    pub eos: Option<u32>,
    /// End of a turn, where it differs from `eos`.
    pub eot: Option<u32>,
    /// Put before a text that is encoded with special tokens (usually `bos` or nothing).
    pub prefix: Vec<u32>,
    /// Put after a text that is encoded with special tokens (usually nothing).
    pub suffix: Vec<u32>,
    /// Every token after which generation stops, in ascending order.
    pub end_of_generation: Vec<u32>,
}

/// Names that end a turn, in order of preference for [`SpecialTokens::eot`].
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Further names after which generation stops: end of message, tool calls, padding, the next file or repository.
const OTHER_ENDS: &[&str] = &[
    "<|eom_id|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|tool_response>",
    "</s>",
    "<eos>",
    "[EOS]",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

impl SpecialTokens {
    /// Fills in `eot` and `end_of_generation` from what the file named and from the well-known names.
    pub(super) fn complete(mut self, tokens: &TokenTable) -> Self {
        let named = known_ends(tokens);
        self.eot = self.eot.or(named.first().filter(|(rank, _)| *rank < END_OF_TURN.len()).map(|&(_, id)| id));
        let mut ends = std::mem::take(&mut self.end_of_generation);
        ends.extend(self.eos.into_iter().chain(self.eot));
        ends.extend(named.into_iter().map(|(_, id)| id));
        ends.sort_unstable();
        ends.dedup();
        drop_inner_end_of_message(tokens, &mut ends);
        self.end_of_generation = ends;
        self
    }
}

/// The tokens with a well-known name, each with the name's place in [`END_OF_TURN`] then [`OTHER_ENDS`], ascending.
fn known_ends(tokens: &TokenTable) -> Vec<(usize, u32)> {
    let mut found: Vec<(usize, u32)> = tokens
        .ids()
        // All names start with one of these; most of a large vocabulary does not.
        .filter(|&id| matches!(tokens.bytes(id).first(), Some(b'<' | b'[' | b'_')))
        .filter_map(|id| Some((end_rank(tokens.bytes(id), tokens.kind(id))?, id)))
        .collect();
    found.sort_unstable();
    found
}

/// Where `token` stands among the known names, if it is a marker: names that could be ordinary text (`</s>` strikes
/// text through in HTML) count only as control tokens.
fn end_rank(token: &[u8], kind: TokenKind) -> Option<usize> {
    let rank = name_rank(token)?;
    (kind == TokenKind::Control || is_unmistakable(token)).then_some(rank)
}

/// Whether `piece` is an end token by its name alone. Converters forget to flag such tokens now and then.
pub(super) fn is_end_by_name(piece: &[u8]) -> bool {
    piece.starts_with(b"<") && is_unmistakable(piece) && name_rank(piece).is_some()
}

fn name_rank(token: &[u8]) -> Option<usize> {
    END_OF_TURN.iter().chain(OTHER_ENDS).position(|name| name.as_bytes() == token)
}

fn is_unmistakable(name: &[u8]) -> bool {
    name.contains(&b'|') || name == b"<end_of_turn>"
}

/// In the harmony format (`<|return|>`, `<|call|>`) and its like, `<|end|>` closes a message within a turn.
fn drop_inner_end_of_message(tokens: &TokenTable, ends: &mut Vec<u32>) {
    let has = |name: &str| ends.iter().any(|&id| tokens.bytes(id) == name.as_bytes());
    let turn_closes_otherwise = (has("<|call|>") || has("<|calls|>")) && (has("<|return|>") || has("<|flush|>"));
    if turn_closes_otherwise {
        ends.retain(|&id| tokens.bytes(id) != b"<|end|>");
    }
}
