//! What a format is: data that says how calls are written.

use crate::reasoning::ReasoningFormat;
use crate::shapes::{Json, Named, Params, Pythonic};

/// How the models of a family write tool calls.
#[derive(Debug)]
pub struct Format {
    /// The name, which is vLLM's name of its tool parser where there is one.
    pub name: &'static str,
    /// Families whose models write so.
    pub families: &'static str,
    /// How identifiers of calls look that this family's templates take back.
    pub ids: IdStyle,
    /// The thoughts' tags, where the template does not show them.
    pub(crate) reasoning: &'static ReasoningFormat,
    /// Ways to write calls. All are read, the first is the one that grammars force.
    pub(crate) syntaxes: &'static [Syntax],
    /// Parts of the markers that may be special tokens.
    pub(crate) tokens: &'static [&'static str],
    /// A call ends thoughts that were not closed. Only where markers are special tokens, which thoughts do not mention.
    pub(crate) ends_reasoning: bool,
    /// A template that holds all strings of one of these lists is of this format.
    pub(crate) signs: &'static [&'static [&'static str]],
}

/// How identifiers of calls look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdStyle {
    /// Any text will do.
    Any,
    /// Nine letters or digits; Mistral's templates refuse others.
    NineAlphanumeric,
    /// `functions.name:0`, numbered through the conversation.
    Kimi,
}

/// A shape with its data.
#[derive(Debug)]
pub(crate) enum Syntax {
    Json(Json),
    Named(Named),
    Params(Params),
    Pythonic(Pythonic),
    Harmony,
}

impl Format {
    /// Strings that may be special tokens of the vocabulary and must stay visible in the text given to the parser.
    ///
    /// The tags of thoughts are not among them: [`ReasoningFormat::markers`].
    pub fn markers(&self) -> &[&'static str] {
        self.tokens
    }

    /// The tags of thoughts where the template does not show them.
    pub fn reasoning(&self) -> &'static ReasoningFormat {
        self.reasoning
    }

    /// Whether the format is that of gpt-oss, where headers take the place of tags.
    pub(crate) fn is_harmony(&self) -> bool {
        matches!(self.syntaxes, [Syntax::Harmony])
    }

    /// What begins calls, with the syntax it begins.
    pub(crate) fn openers(&'static self) -> impl Iterator<Item = (&'static str, &'static Syntax)> {
        self.syntaxes.iter().flat_map(|syntax| syntax.openers().into_iter().map(move |opener| (opener, syntax)))
    }
}

impl Default for Format {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Format {
    /// For the data of formats, which name only what differs.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        families: "",
        ids: IdStyle::Any,
        reasoning: &crate::reasoning::THINK,
        syntaxes: &[],
        tokens: &[],
        ends_reasoning: false,
        signs: &[],
    };
}
