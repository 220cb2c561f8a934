//! Ends an answer that has fallen into a loop: the same tokens over and over, to the last one.
//!
//! The rule and its names are vLLM's `repetition_detection`: a pattern of `min_pattern_size` to `max_pattern_size` tokens
//! that stands `min_count` times in a row at the end of the output. A token costs one comparison per pattern size, whatever
//! the output is.

use super::sampling::RepetitionDetection;

/// Watches the output of one sequence.
#[derive(Debug)]
pub(super) struct RepetitionDetector {
    min_pattern_size: usize,
    /// Repetitions behind the first one.
    more: usize,
    /// By pattern size: how many of the last tokens, without a gap, equal the one that many tokens before them.
    runs: Vec<usize>,
}

impl RepetitionDetector {
    /// `None` where nothing is to be detected. Expects a valid rule.
    pub(super) fn new(rule: RepetitionDetection) -> Option<Self> {
        let RepetitionDetection { max_pattern_size, min_count, .. } = rule;
        let min_pattern_size = rule.min_pattern_size.max(1);
        let sizes = (max_pattern_size + 1).saturating_sub(min_pattern_size);
        (max_pattern_size > 0).then(|| Self { min_pattern_size, more: min_count - 1, runs: vec![0; sizes] })
    }

    /// Takes in the last token of `output`, which has grown by one; says whether the output now ends in a loop.
    pub(super) fn push(&mut self, output: &[u32]) -> bool {
        let Some((last, before)) = output.split_last() else { return false };
        let mut found = false;
        for (size, run) in (self.min_pattern_size..).zip(&mut self.runs) {
            let is_same = before.len().checked_sub(size).is_some_and(|index| before[index] == *last);
            *run = if is_same { *run + 1 } else { 0 };
            found |= *run >= size.saturating_mul(self.more);
        }
        found
    }
}
