//! Counts the tokens in a window that slides over a growing sequence, at a constant cost per token.

use std::collections::HashMap;

/// Occurrences of each token among the last `width` tokens from `start` on.
#[derive(Debug, Clone)]
pub(super) struct RecentTokens {
    counts: HashMap<u32, u32>,
    start: usize,
    end: usize,
    width: usize,
}

impl RecentTokens {
    pub(super) fn new(start: usize, width: usize) -> Self {
        Self { counts: HashMap::new(), start, end: start, width }
    }

    /// Moves the window's end to the end of `tokens`, which only ever grows, and returns the counts.
    pub(super) fn advance(&mut self, tokens: &[u32]) -> &HashMap<u32, u32> {
        let start = self.start.max(tokens.len().saturating_sub(self.width));
        for token in &tokens[self.end.max(start)..] {
            *self.counts.entry(*token).or_insert(0) += 1;
        }
        for token in &tokens[self.start..start.min(self.end)] {
            let count = self.counts.get_mut(token).expect("it was counted when it entered the window");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(token);
            }
        }
        (self.start, self.end) = (start, tokens.len());
        &self.counts
    }
}
