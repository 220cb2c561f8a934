//! How thoughts are marked.

/// The tags between which a model thinks.
#[derive(Debug, PartialEq, Eq)]
pub struct ReasoningFormat {
    /// A short name.
    pub name: &'static str,
    /// What begins thoughts; empty where a model has none.
    pub start: &'static str,
    /// What ends them. A server that cuts thoughts short writes this, and a grammar starts after it.
    pub end: &'static str,
    /// Thoughts may begin after text, and not only at the beginning of the answer or after a call.
    pub anywhere: bool,
    /// What is put around the answer, and belongs to no text.
    pub around_answer: &'static [&'static str],
    /// What stands between the end of thoughts and a call, but for white space.
    pub before_call: &'static str,
    /// What an answer begins with that is neither a thought nor a call, in any of these ways; a form that it must have begins
    /// behind that. None where it begins with its text.
    pub before_answer: &'static [&'static str],
    /// The special tokens of these strings, where they are not special tokens as a whole.
    pub tokens: &'static [&'static str],
}

impl ReasoningFormat {
    const fn tags(name: &'static str, start: &'static str, end: &'static str) -> Self {
        Self { name, start, end, anywhere: false, around_answer: &[], before_call: "", before_answer: &[], tokens: &[] }
    }

    /// Whether this model thinks.
    pub fn is_some(&self) -> bool {
        !self.start.is_empty()
    }

    /// Whether the answer to this prompt begins within thoughts, since the template opened them. The end of the prompt is
    /// enough.
    pub fn starts_in_reasoning(&self, prompt_tail: &str) -> bool {
        // Only white space may follow: an earlier turn or a user's text may hold an unclosed tag, too.
        self.is_some() && prompt_tail.trim_end().ends_with(self.start.trim_end())
    }

    /// Whether an answer that was begun for the model (`partial`, all of it) breaks off within thoughts.
    pub fn leaves_open(&self, partial: &str) -> bool {
        let start = partial.rfind(self.start).filter(|_| self.is_some());
        start.is_some_and(|start| !partial[start..].contains(self.end))
    }

    /// Whether a chat template holds these tags.
    fn shown_in(&self, template: &str) -> bool {
        // Templates write line breaks in their own ways.
        let ours = [self.start.trim(), self.end].into_iter().all(|tag| template.contains(tag));
        ours && self.around_answer.first().is_none_or(|tag| template.contains(tag))
    }

    /// Strings that may be special tokens of the vocabulary and must stay visible in the text given to the parser.
    pub fn markers(&self) -> Vec<&'static str> {
        if !self.tokens.is_empty() {
            return self.tokens.to_vec();
        }
        let mut markers = [&[self.start, self.end], self.around_answer].concat();
        markers.retain(|marker| !marker.is_empty());
        markers
    }
}

/// A model that does not think.
pub(crate) static NONE: ReasoningFormat = ReasoningFormat::tags("none", "", "");
pub(crate) static THINK: ReasoningFormat = ReasoningFormat::tags("think", "<think>", "</think>");
static THINKING: ReasoningFormat = ReasoningFormat::tags("thinking", "<thinking>", "</thinking>");
static REASONING: ReasoningFormat = ReasoningFormat::tags("reasoning", "<reasoning>", "</reasoning>");
static MINIMAX_M3: ReasoningFormat = ReasoningFormat::tags("minimax_m3", "<mm:think>", "</mm:think>");
pub(crate) static SEED: ReasoningFormat = ReasoningFormat::tags("seed", "<seed:think>", "</seed:think>");
pub(crate) static HY3: ReasoningFormat = ReasoningFormat::tags("hy3", "<think:opensource>", "</think:opensource>");
pub(crate) static MISTRAL: ReasoningFormat = ReasoningFormat::tags("mistral", "[THINK]", "[/THINK]");
pub(crate) static APERTUS: ReasoningFormat = ReasoningFormat::tags("apertus", "<|inner_prefix|>", "<|inner_suffix|>");
/// Granite 3.3, whose answers have tags, too.
static GRANITE_TAGS: ReasoningFormat = ReasoningFormat {
    around_answer: &["<response>", "</response>"],
    ..ReasoningFormat::tags("granite_tags", "<think>", "</think>")
};
/// Granite 3.2.
pub(crate) static GRANITE: ReasoningFormat =
    ReasoningFormat::tags("granite", "Here is my thought process:", "Here is my response:");
pub(crate) static APRIEL: ReasoningFormat = ReasoningFormat {
    around_answer: &["[END FINAL RESPONSE]"],
    ..ReasoningFormat::tags("apriel", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]")
};
pub(crate) static COHERE: ReasoningFormat = ReasoningFormat {
    anywhere: true,
    around_answer: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    ..ReasoningFormat::tags("cohere", "<|START_THINKING|>", "<|END_THINKING|>")
};
pub(crate) static GEMMA4: ReasoningFormat = ReasoningFormat {
    anywhere: true,
    tokens: &["<|channel>", "<channel|>"],
    ..ReasoningFormat::tags("gemma4", "<|channel>thought\n", "<channel|>")
};
pub(crate) static HARMONY: ReasoningFormat = ReasoningFormat {
    anywhere: true,
    before_call: "<|start|>assistant",
    before_answer: &[
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>final json<|message|>",
    ],
    tokens: &["<|start|>", "<|channel|>", "<|message|>", "<|end|>"],
    ..ReasoningFormat::tags("harmony", "<|channel|>analysis<|message|>", "<|end|>")
};
pub(crate) static KIMI_K3: ReasoningFormat = ReasoningFormat {
    anywhere: true,
    around_answer: &["<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"],
    before_call: "<|open|>response<|sep|><|close|>response<|sep|>",
    tokens: &["<|open|>", "<|close|>", "<|sep|>"],
    ..ReasoningFormat::tags("kimi_k3", "<|open|>think<|sep|>", "<|close|>think<|sep|>")
};
pub(crate) static SOLAR: ReasoningFormat = ReasoningFormat {
    anywhere: true,
    around_answer: &["<|begin|>assistant", "<|content|>", "<|end|>"],
    before_call: "<|begin|>assistant",
    tokens: &["<|begin|>", "<|content|>", "<|think|>", "<|end|>"],
    ..ReasoningFormat::tags("solar", "<|think|>", "<|end|>")
};

/// The special ones first: a template has the tags of the first whose strings it holds.
static ALL: [&ReasoningFormat; 17] = [
    &HARMONY,
    &KIMI_K3,
    &SOLAR,
    &GEMMA4,
    &COHERE,
    &APERTUS,
    &SEED,
    &HY3,
    &MINIMAX_M3,
    &MISTRAL,
    &APRIEL,
    &GRANITE,
    &GRANITE_TAGS,
    &THINK,
    &THINKING,
    &REASONING,
    &NONE,
];

/// The names of all tags.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().map(|tags| tags.name)
}

/// The tags of this name.
pub fn by_name(name: &str) -> Option<&'static ReasoningFormat> {
    ALL.into_iter().find(|tags| tags.name == name)
}

/// The tags that a template holds, or those that its format has without showing them.
pub(crate) fn detect(template: &str, format: &crate::Format) -> &'static ReasoningFormat {
    if template.contains(format.reasoning.end) && format.reasoning.is_some() {
        return format.reasoning;
    }
    ALL.into_iter().find(|tags| tags.is_some() && tags.shown_in(template)).unwrap_or(format.reasoning)
}
