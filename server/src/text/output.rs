//! From sampled tokens to the text of an answer: characters whole, nothing from a stop string on.

use super::{Detokenizer, StopMatcher, StopStep};

/// What one token adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputStep {
    /// Text to send now; often empty.
    pub text: String,
    /// The stop string that ended the answer, as a place in the matcher's list. The request is then to be cancelled.
    pub stopped_by: Option<usize>,
}

/// The text of one answer.
pub struct Output {
    detokenizer: Detokenizer,
    stop: StopMatcher,
    num_bytes: usize,
}

impl Output {
    /// An answer that `detokenizer` spells and that ends before the stop strings of `stop`.
    pub fn new(detokenizer: Detokenizer, stop: StopMatcher) -> Self {
        Self { detokenizer, stop, num_bytes: 0 }
    }

    /// Bytes of the text so far, whatever of it is held back.
    pub fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Adds a token.
    pub fn push(&mut self, token: u32) -> OutputStep {
        let text = self.detokenizer.push(token);
        self.num_bytes += text.len();
        OutputStep::of(self.stop.push(&text))
    }

    /// The rest, once no token follows: what was held back as a possible part of a character or of a stop string.
    pub fn finish(self) -> OutputStep {
        let Self { detokenizer, mut stop, .. } = self;
        let mut step = OutputStep::of(stop.push(&detokenizer.finish()));
        if step.stopped_by.is_none() {
            step.text.push_str(&stop.finish());
        }
        step
    }
}

impl OutputStep {
    fn of(step: StopStep) -> Self {
        match step {
            StopStep::Go(text) => Self { text, stopped_by: None },
            StopStep::Stop { text, stop } => Self { text, stopped_by: Some(stop) },
        }
    }
}
