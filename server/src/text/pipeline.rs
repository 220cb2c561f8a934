//! The `tokenizers` library's normalizers and pre-tokenizers, run step by step within bounds.
//!
//! The library takes a regular expression that gives up (its engine backtracks, and stops after a million steps) for one
//! that found nothing more, and drops a normalizer's error; a text would silently be cut otherwise than the model's was.
//! Nothing there bounds the time that a file's expressions take, nor how long rules make a text.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::utils::SysRegex;
use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, Offsets, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
    Result, SplitDelimiterBehavior,
};

/// What one text may take; the slowest published expressions pass a megabyte in under a second.
pub(super) const MAX_TIME: Duration = Duration::from_secs(20);
/// Matches between looks at the clock. Each takes at most the engine's million steps.
const MATCHES_PER_LOOK: usize = 64;
/// How much longer a text may become, besides a little for short ones.
const MAX_GROWTH: usize = 16;
const MIN_GROWTH_BYTES: usize = 4096;

/// The steps of one tokenizer.
pub(super) struct Pipeline {
    normal: Vec<NormalStep>,
    split: Vec<SplitStep>,
}

enum NormalStep {
    Library(NormalizerWrapper),
    Replace(Expression, String),
}

enum SplitStep {
    Library(PreTokenizerWrapper),
    Split { expression: Expression, behavior: SplitDelimiterBehavior, invert: bool },
}

impl Pipeline {
    pub(super) fn of(tokenizer: &tokenizers::Tokenizer) -> Result<Self> {
        let (mut normal, mut split) = (Vec::new(), Vec::new());
        if let Some(normalizer) = tokenizer.get_normalizer() {
            add_normalizer(normalizer, &mut normal)?;
        }
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            add_pre_tokenizer(pre_tokenizer, &mut split)?;
        }
        Ok(Self { normal, split })
    }

    /// The normalizers for one text, which remember what failed.
    pub(super) fn normalizer(&self, until: Instant) -> Bounded<'_> {
        Bounded { steps: &self.normal, until, failed: Mutex::new(None) }
    }

    /// Cuts `words` into smaller ones.
    pub(super) fn split(&self, words: &mut PreTokenizedString, until: Instant) -> Result<()> {
        for step in &self.split {
            match step {
                SplitStep::Library(pre_tokenizer) => pre_tokenizer.pre_tokenize(words)?,
                SplitStep::Split { expression, behavior, invert } => {
                    let search = Search { expression, until };
                    words.split(|_, word| match invert {
                        true => word.split(Invert(&search), *behavior),
                        false => word.split(&search, *behavior),
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn add_normalizer(normalizer: &NormalizerWrapper, steps: &mut Vec<NormalStep>) -> Result<()> {
    match normalizer {
        NormalizerWrapper::Sequence(sequence) => {
            sequence.as_ref().iter().try_for_each(|normalizer| add_normalizer(normalizer, steps))?;
        }
        NormalizerWrapper::Replace(replace) => {
            // The pattern itself is not to be seen from outside.
            steps.push(match &serde_json::to_value(replace)?["pattern"]["Regex"] {
                Value::String(regex) => NormalStep::Replace(Expression::new(regex)?, replace.content.clone()),
                _ => NormalStep::Library(normalizer.clone()),
            });
        }
        other => steps.push(NormalStep::Library(other.clone())),
    }
    Ok(())
}

fn add_pre_tokenizer(pre_tokenizer: &PreTokenizerWrapper, steps: &mut Vec<SplitStep>) -> Result<()> {
    use tokenizers::pre_tokenizers::split::SplitPattern;
    match pre_tokenizer {
        PreTokenizerWrapper::Sequence(sequence) => {
            sequence.as_ref().iter().try_for_each(|pre_tokenizer| add_pre_tokenizer(pre_tokenizer, steps))?;
        }
        PreTokenizerWrapper::Split(split) => steps.push(match &split.pattern {
            SplitPattern::Regex(regex) => {
                let expression = Expression::new(regex)?;
                SplitStep::Split { expression, behavior: split.behavior, invert: split.invert }
            }
            SplitPattern::String(_) => SplitStep::Library(pre_tokenizer.clone()),
        }),
        other => steps.push(SplitStep::Library(other.clone())),
    }
    Ok(())
}

/// The normalizers of a text. The library asks for a normalizer and takes no notice of its errors; they are kept here.
pub(super) struct Bounded<'a> {
    steps: &'a [NormalStep],
    until: Instant,
    failed: Mutex<Option<tokenizers::Error>>,
}

impl Bounded<'_> {
    /// What went wrong.
    pub(super) fn finish(self) -> Result<()> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn run(&self, text: &mut NormalizedString) -> Result<()> {
        let limit = text.get().len().saturating_mul(MAX_GROWTH) + MIN_GROWTH_BYTES;
        for step in self.steps {
            match step {
                NormalStep::Library(normalizer) => normalizer.normalize(text)?,
                NormalStep::Replace(expression, content) => {
                    text.replace(&Search { expression, until: self.until }, content)?;
                }
            }
            if text.get().len() > limit {
                return Err(format!("the tokenizer's rules make the text more than {MAX_GROWTH} times as long").into());
            }
        }
        Ok(())
    }
}

impl Normalizer for Bounded<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() {
            *failed = self.run(text).err();
        }
        Ok(())
    }
}

/// A regular expression of a file.
struct Expression {
    source: String,
    regex: SysRegex,
    /// For expressions that can give up: the same, or else any one character. Its matches cover every text to the end,
    /// unless it gives up; the library's iterator shows no difference otherwise.
    cover: Option<SysRegex>,
}

impl Expression {
    fn new(source: &str) -> Result<Self> {
        let cover = can_give_up(source).then(|| SysRegex::new(&format!("(?:{source})|(?s:.)"))).transpose()?;
        Ok(Self { source: source.to_owned(), regex: SysRegex::new(source)?, cover })
    }

    fn gave_up(&self) -> tokenizers::Error {
        let shown: String = self.source.chars().take(80).collect();
        format!("the tokenizer's regular expression {shown:?} takes too many steps on this text").into()
    }
}

/// Whether the engine may have to backtrack: what has none of these is matched in time linear in the text.
fn can_give_up(source: &str) -> bool {
    let after_backslash = |char: char| char.is_ascii_digit() || matches!(char, 'k' | 'g' | 'G' | 'K');
    ["(?=", "(?!", "(?<", "(?>", "(?(", "(?P", "++", "*+", "?+", "}+"].iter().any(|mark| source.contains(mark))
        || source.split('\\').skip(1).any(|rest| rest.starts_with(after_backslash))
}

/// An expression at work on one text.
struct Search<'a> {
    expression: &'a Expression,
    until: Instant,
}

impl Pattern for &Search<'_> {
    fn find_matches(&self, inside: &str) -> Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let mut pieces = Vec::new();
        let mut done = 0;
        for (count, (start, end)) in self.expression.regex.find_iter(inside).enumerate() {
            if count % MATCHES_PER_LOOK == MATCHES_PER_LOOK - 1 && Instant::now() >= self.until {
                return Err(self.expression.gave_up());
            }
            if done != start {
                pieces.push(((done, start), false));
            }
            pieces.push(((start, end), true));
            done = end;
        }
        if done != inside.len() {
            self.check_rest(&inside[done..])?;
            pieces.push(((done, inside.len()), false));
        }
        Ok(pieces)
    }
}

impl Search<'_> {
    /// Whether nothing was found in `rest` because there is nothing.
    fn check_rest(&self, rest: &str) -> Result<()> {
        let Some(cover) = &self.expression.cover else { return Ok(()) };
        let mut done = 0;
        for (count, (_, end)) in cover.find_iter(rest).enumerate() {
            if count % MATCHES_PER_LOOK == MATCHES_PER_LOOK - 1 && Instant::now() >= self.until {
                break;
            }
            done = end;
        }
        if done == rest.len() { Ok(()) } else { Err(self.expression.gave_up()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(source: &str, text: &str, time: Duration) -> Result<Vec<(Offsets, bool)>> {
        let expression = Expression::new(source)?;
        (&Search { expression: &expression, until: Instant::now() + time }).find_matches(text)
    }

    #[test]
    fn an_expression_that_gives_up_is_an_error() {
        let error = matches(r"(?:a|a)*(?=b)", &"a".repeat(40), MAX_TIME).unwrap_err().to_string();
        assert!(error.contains("takes too many steps"), "{error}");
    }

    #[test]
    fn a_text_without_a_match_is_one_piece() {
        assert_eq!(matches(r"x(?=y)", "abc", MAX_TIME).unwrap(), [((0, 3), false)]);
        assert_eq!(matches(r"b(?!y)", "abc", MAX_TIME).unwrap(), [((0, 1), false), ((1, 2), true), ((2, 3), false)]);
    }

    #[test]
    fn a_search_ends_when_its_time_is_up() {
        let error = matches(r"a", &"a".repeat(100), Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("takes too many steps"), "{error}");
    }
}
