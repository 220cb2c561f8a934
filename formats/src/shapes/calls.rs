//! What all machines write to: the calls of one answer, and the text that no piece has yet.

use crate::piece::{Piece, Pieces};
use crate::tool::{Kind, Tool};

#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub pieces: Pieces,
    /// The text since the last piece.
    pub raw: String,
    tools: Vec<Tool>,
    next: usize,
    /// The place of the tool that is being called.
    tool: Option<usize>,
}

impl Calls {
    pub fn new(tools: &[Tool]) -> Self {
        Self { tools: tools.to_vec(), ..Self::default() }
    }

    /// Begins a call, if there is such a tool.
    pub fn begin(&mut self, name: &str, id: Option<String>) -> bool {
        self.tool = self.tools.iter().position(|tool| tool.name == name);
        if self.tool.is_some() {
            self.pieces.push(Piece::CallBegin { index: self.next, id, name: name.to_owned() });
            self.next += 1;
            self.raw.clear();
        }
        self.tool.is_some()
    }

    pub fn arguments(&mut self, delta: &str) {
        if !delta.is_empty() {
            self.pieces.arguments(self.index(), delta);
            self.raw.clear();
        }
    }

    pub fn end(&mut self) {
        self.pieces.push(Piece::CallEnd { index: self.index() });
        self.raw.clear();
        self.tool = None;
    }

    /// Whether a call began and did not end.
    pub fn is_open(&self) -> bool {
        self.tool.is_some()
    }

    /// A call that began will not end.
    pub fn abandon(&mut self) {
        self.tool = None;
    }

    /// What the schema of the tool that is being called says of a parameter.
    pub fn kind(&self, parameter: &str) -> Kind {
        self.tool.map_or(Kind::Unknown, |tool| self.tools[tool].kind(parameter))
    }

    /// The text since the last piece, as one that is no call.
    pub fn malformed(&mut self, why: &str) {
        let text = std::mem::take(&mut self.raw);
        if !text.is_empty() {
            self.pieces.push(Piece::Malformed { text, why: why.to_owned() });
        }
    }

    fn index(&self) -> usize {
        self.next.saturating_sub(1)
    }
}
