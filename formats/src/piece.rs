//! What a parser gives out.

/// A part of a model's answer, in the order in which the model wrote it.
///
/// Of one call come a [`Piece::CallBegin`], any number of [`Piece::Arguments`], and a [`Piece::CallEnd`]. Without the end the
/// call is not whole, and its arguments are not valid JSON: the answer was cut off (say `length`, as OpenAI does), or a
/// [`Piece::Malformed`] follows with the text that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Thoughts, without their tags.
    Reasoning(String),
    /// The answer itself.
    Text(String),
    /// A call of a tool that is among the given ones.
    CallBegin {
        /// Which call of this answer it is, from 0.
        index: usize,
        /// The identifier that the model wrote, in formats that have one.
        id: Option<String>,
        /// The tool's name.
        name: String,
    },
    /// The next part of a call's arguments. All parts together are a JSON object.
    Arguments {
        /// Which call of this answer it is.
        index: usize,
        /// JSON text.
        delta: String,
    },
    /// The arguments are whole.
    CallEnd {
        /// Which call of this answer it is.
        index: usize,
    },
    /// What was marked as a call and is none. Show the text as part of the answer.
    Malformed {
        /// The text as the model wrote it, markers included, as far as no other piece has it.
        text: String,
        /// The reason.
        why: String,
    },
}

/// Pieces of one push, neighbours of one kind joined.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    pub fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.0)
    }

    pub fn push(&mut self, piece: Piece) {
        self.0.push(piece);
    }

    pub fn text(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.push_str(more),
            _ if more.is_empty() => {}
            _ => self.0.push(Piece::Text(more.to_owned())),
        }
    }

    pub fn reasoning(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(Piece::Reasoning(text)) => text.push_str(more),
            _ if more.is_empty() => {}
            _ => self.0.push(Piece::Reasoning(more.to_owned())),
        }
    }

    pub fn arguments(&mut self, index: usize, more: &str) {
        match self.0.last_mut() {
            Some(Piece::Arguments { index: last, delta }) if *last == index => delta.push_str(more),
            _ if more.is_empty() => {}
            _ => self.0.push(Piece::Arguments { index, delta: more.to_owned() }),
        }
    }
}
