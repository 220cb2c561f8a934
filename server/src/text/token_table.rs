//! The tokens of a vocabulary as the bytes they stand for, with their kinds.
//!
//! Every tokenizer ends up in this one table, whatever its file format: decoding is then a concatenation of byte
//! strings. All bytes share one buffer, since a vocabulary of 262,144 tokens is ordinary.

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Stands for text that the vocabulary cannot express.
    Unknown,
    /// Steers the model and is no text: begin, end, turn markers.
    Control,
    /// Text that is always one token, found before any merging.
    UserDefined,
    /// A free place in the vocabulary.
    Unused,
    /// One raw byte, for text that has no piece of its own.
    Byte,
}

impl TokenKind {
    /// The kind for a number of GGUF's `tokenizer.ggml.token_type` (which are SentencePiece's).
    pub(super) fn from_gguf(number: i32) -> Self {
        match number {
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Normal,
        }
    }
}

/// Bytes and kind of every token, by id.
#[derive(Debug, Default)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    /// `ends[id]` is where token `id` ends in `bytes`.
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
}

impl TokenTable {
    pub(super) fn with_capacity(num_tokens: usize) -> Self {
        Self { bytes: Vec::new(), ends: Vec::with_capacity(num_tokens), kinds: Vec::with_capacity(num_tokens) }
    }

    /// Appends the token with the next id.
    ///
    /// # Panics
    /// When the vocabulary passes 4 GiB, which no readable file holds (its reader refuses that).
    pub(super) fn push(&mut self, bytes: &[u8], kind: TokenKind) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(u32::try_from(self.bytes.len()).expect("a vocabulary is smaller than 4 GiB"));
        self.kinds.push(kind);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of token `id`; empty for an id outside the vocabulary.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// The kind of token `id`; unused for an id outside the vocabulary.
    pub(super) fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        0..self.len() as u32
    }

    /// Gives back what growing the buffers reserved too much.
    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }
}
