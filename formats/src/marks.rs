//! What a parser searches text for, by where in the answer it is.
//!
//! A start of thoughts within the answer is text about tags, so it counts at the beginning only, and after a call.

use crate::format::{Format, Syntax};
use crate::reasoning::ReasoningFormat;

#[derive(Debug)]
pub(crate) struct Marks {
    format: &'static Format,
    bare: Vec<&'static Syntax>,
    pub openers: Vec<&'static str>,
    /// At the beginning of the answer; at that of a stretch of it; and within one.
    pub first: List,
    pub fresh: List,
    pub later: List,
    pub thoughts: List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Think,
    EndThink,
    /// Belongs to no text.
    Drop,
    Calls,
}

#[derive(Debug, Default)]
pub(crate) struct List {
    pub texts: Vec<&'static str>,
    pub marks: Vec<Mark>,
}

impl List {
    fn of(parts: &[(&[&'static str], Mark)]) -> Self {
        let mut list = Self::default();
        for (texts, mark) in parts {
            for text in texts.iter().filter(|text| !text.is_empty()) {
                list.texts.push(text);
                list.marks.push(*mark);
            }
        }
        list
    }
}

impl Marks {
    pub fn new(
        format: &'static Format,
        reasoning: &'static ReasoningFormat,
        parse_tools: bool,
        in_thoughts: bool,
    ) -> Self {
        let bare = format.syntaxes.iter().filter(|syntax| parse_tools && syntax.is_bare()).collect();
        let mut openers: Vec<_> = format.openers().map(|(opener, _)| opener).filter(|_| parse_tools).collect();
        openers.sort_unstable();
        openers.dedup();
        let (start, end): (&[&str], &[&str]) = (&[reasoning.start], &[reasoning.end]);
        let around = [(reasoning.around_answer, Mark::Drop), (openers.as_slice(), Mark::Calls)];
        let fresh = [(start, Mark::Think), around[0], around[1]];
        // A model that may think says that it will not by ending thoughts that never began.
        let skips = if in_thoughts { &[] } else { end };
        let first = [fresh.as_slice(), &[(skips, Mark::EndThink)]].concat();
        let later = if reasoning.anywhere { fresh.as_slice() } else { &around };
        let inner = if format.ends_reasoning { openers.as_slice() } else { &[] };
        let thoughts = [(end, Mark::EndThink), (start, Mark::Think), (inner, Mark::Calls)];
        let [first, fresh, later, thoughts] = [first.as_slice(), &fresh, later, &thoughts].map(List::of);
        Self { format, bare, openers, first, fresh, later, thoughts }
    }

    /// Whether calls without a marker may begin with this character.
    pub fn may_start_bare(&self, c: char) -> bool {
        !c.is_whitespace() && self.bare.iter().any(|syntax| syntax.may_start(c.encode_utf8(&mut [0; 4])))
    }

    /// The syntaxes that `opener` begins, or those that nothing does.
    pub fn syntaxes(&self, opener: Option<&str>) -> Vec<&'static Syntax> {
        match opener {
            Some(opener) => {
                self.format.openers().filter(|(text, _)| *text == opener).map(|(_, syntax)| syntax).collect()
            }
            None => self.bare.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    /// The matcher relies on it.
    #[test]
    fn no_marker_begins_another() {
        for format in crate::all() {
            let marks = Marks::new(format, format.reasoning(), true, false);
            for list in [&marks.first, &marks.thoughts] {
                let begins = |(at, text): (usize, &&str)| {
                    list.texts
                        .iter()
                        .enumerate()
                        .any(|(other, longer)| other != at && longer != text && longer.starts_with(*text))
                };
                assert!(!list.texts.iter().enumerate().any(begins), "{}: {:?}", format.name, list.texts);
            }
        }
    }
}
