//! The markers that may stand between calls and after them, with white space around.

use crate::marker::Matcher;

#[derive(Debug, Default)]
pub(crate) struct Between(Matcher);

/// What a character did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// White space, or part of a marker.
    Nothing,
    /// The marker at this place in the list.
    Marker(usize),
    /// Something else.
    Other(String),
}

impl Between {
    /// Adds a character. Empty markers are never found.
    pub fn feed(&mut self, c: char, markers: &[&str]) -> Found {
        if self.0.is_empty() && c.is_whitespace() && !markers.iter().any(|marker| marker.starts_with(c)) {
            return Found::Nothing;
        }
        let mut free = String::new();
        if let Some(hit) = self.0.feed(c, markers, &mut free).filter(|_| free.trim().is_empty()) {
            return Found::Marker(hit);
        }
        if free.trim().is_empty() {
            return Found::Nothing;
        }
        free.push_str(&self.0.release());
        Found::Other(free)
    }
}
