//! Stop strings in streamed text.
//!
//! Text comes in pieces that may cut a stop string anywhere, and what was sent cannot be taken back. So the end of the
//! text is held back as long as it may be the beginning of a stop string, and no longer. The stop string that is
//! complete first wins (of two complete at once the longer): so the result does not depend on how the text was cut.

/// Finds stop strings in one stream of text.
#[derive(Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
    include_stop: bool,
    /// The end of the text so far that may begin a stop string.
    pending: String,
}

/// What may be sent after a piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopStep {
    /// No stop string yet: send this (often empty).
    Go(String),
    /// A stop string was found: send this last text; nothing after it counts.
    Stop {
        text: String,
        /// The stop string, as a place in the list given to [`StopMatcher::new`].
        stop: usize,
    },
}

impl StopMatcher {
    /// A matcher for `stops`; empty strings match nothing. With `include_stop` the stop string itself is sent.
    pub fn new(stops: Vec<String>, include_stop: bool) -> Self {
        Self { stops, include_stop, pending: String::new() }
    }

    /// Takes the next piece of text. Not to be called again after [`StopStep::Stop`].
    pub fn push(&mut self, text: &str) -> StopStep {
        self.pending.push_str(text);
        match self.first_complete() {
            Some((start, end, stop)) => {
                let mut text = std::mem::take(&mut self.pending);
                text.truncate(if self.include_stop { end } else { start });
                StopStep::Stop { text, stop }
            }
            None => {
                let held = self.pending.split_off(self.pending.len() - self.held_len());
                StopStep::Go(std::mem::replace(&mut self.pending, held))
            }
        }
    }

    /// What was held back, when the text ends without a stop string.
    pub fn finish(self) -> String {
        self.pending
    }

    /// Start, end and number of the stop string that ends first, the longest of these.
    fn first_complete(&self) -> Option<(usize, usize, usize)> {
        let stops = self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        let found =
            stops.filter_map(|(number, stop)| self.pending.find(stop).map(|start| (start, start + stop.len(), number)));
        found.min_by_key(|&(start, end, _)| (end, start))
    }

    /// Length of the longest end of the text that is a beginning of a stop string.
    fn held_len(&self) -> usize {
        let bytes = self.pending.as_bytes();
        let held_for = |stop: &String| {
            let longest = stop.len().saturating_sub(1).min(bytes.len());
            // Both are UTF-8, so equal bytes begin and end at character boundaries.
            (1..=longest).rev().find(|&len| bytes.ends_with(&stop.as_bytes()[..len])).unwrap_or(0)
        };
        self.stops.iter().map(held_for).max().unwrap_or(0)
    }
}
