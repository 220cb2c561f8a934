//! SentencePiece BPE on a vocabulary with scores: GGUF's tokenizer model `llama` (Llama 2, Mistral, Gemma 1 to 3).
//!
//! The text starts as single characters; the adjacent pair whose concatenation is the best-scored piece is merged,
//! ties going to the leftmost, until none is a piece. Characters without a piece become byte tokens.
//! After Kudo & Richardson, "SentencePiece", 2018. Pieces are kept with spaces in place of the mark `▁`, so that text
//! is looked up as it stands, without a rewritten copy of the vocabulary.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;

use aho_corasick::{AhoCorasick, MatchKind};
use hashbrown::{DefaultHashBuilder, HashTable};

use super::gguf_vocab::GgufVocab;
use super::token_table::{TokenKind, TokenTable};
use super::tokenizer::TokenizerError;

const SPACE_MARK: &str = "▁";

/// What encodes text; the bytes of the pieces are in the [`TokenTable`] built with it.
#[derive(Debug)]
pub(super) struct Spm {
    scores: Vec<f32>,
    /// Ids by piece, hashed with `hasher`.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    max_piece_len: usize,
    /// The token for each byte of text that has no piece: its byte token, or the unknown token.
    byte_tokens: [u32; 256],
    /// Tokens found before any merging: user-defined ones, and with `parse_special` control tokens too.
    user_defined: Markers,
    all_markers: Markers,
    /// Whether text after a marker or at the start is preceded by a space.
    pub(super) add_space_prefix: bool,
    /// No piece has a space after another character, so merging never crosses the front of a space and each word can
    /// be merged by itself.
    words_are_independent: bool,
}

/// Literal tokens to find in a text, the longest at the leftmost place first.
#[derive(Debug)]
struct Markers {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Spm {
    /// Builds the encoder and the table of its tokens.
    pub(super) fn from_gguf(vocab: &GgufVocab) -> Result<(Self, TokenTable), TokenizerError> {
        let tokens = vocab.token_table(unmark_spaces);
        let scores = vocab.scores()?[..tokens.len()].to_vec();
        let hasher = DefaultHashBuilder::default();
        let index = index(&tokens, &hasher);
        let spm = Self {
            scores,
            index,
            hasher,
            max_piece_len: tokens.ids().map(|id| tokens.bytes(id).len()).max().unwrap_or(0),
            byte_tokens: byte_tokens(vocab, &tokens)?,
            user_defined: Markers::new(&tokens, |kind| kind == TokenKind::UserDefined)?,
            all_markers: Markers::new(&tokens, |kind| {
                matches!(kind, TokenKind::UserDefined | TokenKind::Control | TokenKind::Unknown)
            })?,
            add_space_prefix: vocab.gguf.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
            words_are_independent: !tokens
                .ids()
                .any(|id| is_mergeable(tokens.kind(id)) && has_inner_word_start(tokens.bytes(id))),
        };
        Ok((spm, tokens))
    }

    /// Appends the tokens of `text` to `ids`.
    pub(super) fn encode(&self, tokens: &TokenTable, text: &str, parse_special: bool, ids: &mut Vec<u32>) {
        let markers = if parse_special { &self.all_markers } else { &self.user_defined };
        let mut merger = Merger::new(self, tokens);
        let mut done = 0;
        for found in markers.automaton.find_iter(text) {
            self.encode_plain(&mut merger, &text[done..found.start()], ids);
            ids.push(markers.ids[found.pattern().as_usize()]);
            done = found.end();
        }
        self.encode_plain(&mut merger, &text[done..], ids);
    }

    /// Encodes text without markers. It follows the start or a marker: hence the space before it.
    fn encode_plain(&self, merger: &mut Merger, text: &str, ids: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let mut text = Cow::Borrowed(text);
        if text.contains(SPACE_MARK) {
            text = text.replace(SPACE_MARK, " ").into();
        }
        if self.add_space_prefix {
            text = format!(" {text}").into();
        }
        if !self.words_are_independent {
            return merger.merge(&text, ids);
        }
        let mut rest = text.as_ref();
        while !rest.is_empty() {
            let (word, tail) = rest.split_at(first_word_len(rest));
            merger.merge(word, ids);
            rest = tail;
        }
    }

    /// The id of the piece with these bytes.
    fn piece(&self, tokens: &TokenTable, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.max_piece_len {
            return None;
        }
        self.index.find(self.hasher.hash_one(bytes), |&id| tokens.bytes(id) == bytes).copied()
    }
}

/// Length of the leading spaces and of what follows them up to the next space.
fn first_word_len(text: &str) -> usize {
    let num_spaces = text.bytes().take_while(|&byte| byte == b' ').count();
    text[num_spaces..].find(' ').map_or(text.len(), |len| num_spaces + len)
}

/// Merges one stretch of text; its buffers are used again for the next.
struct Merger<'a> {
    spm: &'a Spm,
    tokens: &'a TokenTable,
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Candidate>,
}

/// A stretch of text that is one piece so far, linked to its neighbours by place in `Merger::symbols`.
struct Symbol {
    start: usize,
    /// 0 once merged into its left neighbour.
    len: usize,
    prev: usize,
    next: usize,
}

/// No neighbour.
const NONE: usize = usize::MAX;

/// Two neighbours that may merge. Ordered best first: highest score, then leftmost.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    score: Score,
    left: Reverse<usize>,
    right: usize,
    /// Length of both; differs from the symbols' when one of them has merged since.
    len: usize,
}

struct Score(f32);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl<'a> Merger<'a> {
    fn new(spm: &'a Spm, tokens: &'a TokenTable) -> Self {
        Self { spm, tokens, symbols: Vec::new(), queue: BinaryHeap::new() }
    }

    /// Appends the tokens of `text` to `ids`.
    fn merge(&mut self, text: &str, ids: &mut Vec<u32>) {
        self.split_characters(text);
        for right in 1..self.symbols.len() {
            self.consider(text, right - 1, right);
        }
        while let Some(best) = self.queue.pop() {
            self.apply(text, &best);
        }
        for symbol in self.symbols.iter().filter(|symbol| symbol.len > 0) {
            self.emit(&text.as_bytes()[symbol.start..][..symbol.len], ids);
        }
    }

    fn split_characters(&mut self, text: &str) {
        self.symbols.clear();
        for (place, (start, char)) in text.char_indices().enumerate() {
            let prev = place.checked_sub(1).unwrap_or(NONE);
            self.symbols.push(Symbol { start, len: char.len_utf8(), prev, next: place + 1 });
        }
        if let Some(last) = self.symbols.last_mut() {
            last.next = NONE;
        }
    }

    /// Queues a pair of neighbours if their concatenation is a piece.
    fn consider(&mut self, text: &str, left: usize, right: usize) {
        if left == NONE || right == NONE {
            return;
        }
        let len = self.symbols[left].len + self.symbols[right].len;
        let bytes = &text.as_bytes()[self.symbols[left].start..][..len];
        if let Some(id) = self.spm.piece(self.tokens, bytes) {
            let score = Score(self.spm.scores[id as usize]);
            self.queue.push(Candidate { score, left: Reverse(left), right, len });
        }
    }

    fn apply(&mut self, text: &str, &Candidate { left: Reverse(left), right, len, .. }: &Candidate) {
        let right_len = self.symbols[right].len;
        if self.symbols[left].len == 0 || right_len == 0 || self.symbols[left].len + right_len != len {
            return;
        }
        let next = self.symbols[right].next;
        self.symbols[right].len = 0;
        self.symbols[left].len = len;
        self.symbols[left].next = next;
        if next != NONE {
            self.symbols[next].prev = left;
        }
        self.consider(text, self.symbols[left].prev, left);
        self.consider(text, left, next);
    }

    /// Appends the token of a finished symbol, or the tokens of its bytes if it is no piece.
    fn emit(&self, bytes: &[u8], ids: &mut Vec<u32>) {
        match self.spm.piece(self.tokens, bytes) {
            Some(id) => ids.push(id),
            None => ids.extend(bytes.iter().map(|&byte| self.spm.byte_tokens[byte as usize])),
        }
    }
}

impl Markers {
    fn new(tokens: &TokenTable, wanted: impl Fn(TokenKind) -> bool) -> Result<Self, TokenizerError> {
        // An empty token would be found everywhere, one that is not UTF-8 in the middle of a character.
        let is_text = |bytes: &[u8]| !bytes.is_empty() && std::str::from_utf8(bytes).is_ok();
        let is_marker = |&id: &u32| wanted(tokens.kind(id)) && is_text(tokens.bytes(id));
        let ids: Vec<u32> = tokens.ids().filter(is_marker).collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(ids.iter().map(|&id| tokens.bytes(id)))
            .map_err(|error| TokenizerError::Markers(error.to_string()))?;
        Ok(Self { automaton, ids })
    }
}

/// `piece` with a space for each `▁`.
pub(super) fn unmark_spaces(piece: &[u8]) -> Cow<'_, [u8]> {
    let mark = SPACE_MARK.as_bytes();
    // Most pieces have at most the one in front.
    if !piece.windows(mark.len()).any(|window| window == mark) {
        return piece.into();
    }
    let mut bytes = Vec::with_capacity(piece.len());
    let mut rest = piece;
    while let [first, tail @ ..] = rest {
        match rest.strip_prefix(mark) {
            Some(tail) => {
                bytes.push(b' ');
                rest = tail;
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes.into()
}

/// Whether text can be merged into a token of this kind. Control tokens cannot be spelt out, as in SentencePiece.
fn is_mergeable(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused)
}

fn has_inner_word_start(piece: &[u8]) -> bool {
    piece.windows(2).any(|pair| pair[0] != b' ' && pair[1] == b' ')
}

/// Maps pieces to ids. Where two tokens have the same bytes the later wins.
fn index(tokens: &TokenTable, hasher: &DefaultHashBuilder) -> HashTable<u32> {
    let mut index = HashTable::with_capacity(tokens.len());
    let hash = |&id: &u32| hasher.hash_one(tokens.bytes(id));
    for id in tokens.ids().filter(|&id| is_mergeable(tokens.kind(id))) {
        let same_piece = |&other: &u32| tokens.bytes(other) == tokens.bytes(id);
        *index.entry(hash(&id), same_piece, hash).or_insert(id).get_mut() = id;
    }
    index
}

fn byte_tokens(vocab: &GgufVocab, tokens: &TokenTable) -> Result<[u32; 256], TokenizerError> {
    let mut found = [None; 256];
    for id in tokens.ids().filter(|&id| tokens.kind(id) == TokenKind::Byte) {
        found[tokens.bytes(id)[0] as usize] = Some(id);
    }
    let named = vocab.id("tokenizer.ggml.unknown_token_id")?;
    let unknown = named.or_else(|| tokens.ids().find(|&id| tokens.kind(id) == TokenKind::Unknown));
    let mut byte_tokens = [0; 256];
    for (byte, token) in byte_tokens.iter_mut().enumerate() {
        *token = found[byte].or(unknown).ok_or_else(|| {
            let what = format!("it has no token for the byte {byte:#04x} and none for unknown text");
            TokenizerError::damaged(vocab.gguf, what)
        })?;
    }
    Ok(byte_tokens)
}
