//! Takes a model's text apart as it streams: thoughts, answer, calls.
//!
//! The parser advances by one character, so pieces say the same however the text is cut. It is linear in the text, and
//! keeps no more of it than what has no piece yet.

use crate::format::{Format, Syntax};
use crate::marker::Matcher;
use crate::marks::{Mark, Marks};
use crate::piece::Piece;
use crate::prose::Prose;
use crate::reasoning::{self, ReasoningFormat};
use crate::shapes::{Calls, Harmony, Machine, Step};
use crate::tool::Tool;

/// What the text holds and what of it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The prompt opened thoughts: [`ReasoningFormat::starts_in_reasoning`].
    pub starts_in_reasoning: bool,
    /// Calls become pieces. Otherwise they stay text, as they do where there are no tools.
    pub parse_tools: bool,
    /// Thoughts become pieces. Otherwise they stay text, with their tags.
    pub parse_reasoning: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { starts_in_reasoning: false, parse_tools: true, parse_reasoning: true }
    }
}

/// A parser of one answer.
///
/// - What is marked as a call and cannot be read, or names no tool, is [`Piece::Malformed`] with its text. Without a
///   marker (Llama's bare JSON) it is [`Piece::Text`].
/// - A call that breaks off has no [`Piece::CallEnd`], and its arguments stay as they are.
/// - A call that breaks a rule after its beginning was given out has no end either, and the rest is malformed.
/// - Newlines around tags belong to the template and to no piece.
#[derive(Debug)]
pub struct Parser {
    marks: Marks,
    calls: Calls,
    state: State,
    /// Something other than thoughts came.
    answered: bool,
}

#[derive(Debug)]
enum State {
    Text {
        prose: Prose,
        matcher: Matcher,
    },
    Thoughts {
        prose: Prose,
        matcher: Matcher,
    },
    /// After an opener that begins several syntaxes: the text until it is clear which.
    Choice {
        opener: Option<&'static str>,
        seen: String,
    },
    Calls {
        machine: Box<dyn Machine>,
        syntax: &'static Syntax,
        bare: bool,
    },
    /// A section of calls that cannot be read, up to its end.
    Malformed {
        why: &'static str,
        matcher: Matcher,
        closers: Vec<&'static str>,
    },
    Harmony(Harmony),
}

impl State {
    fn text(prose: Prose) -> Self {
        Self::Text { prose, matcher: Matcher::default() }
    }
}

impl Parser {
    /// A parser of one answer of a model of `format` that may call `tools`.
    pub fn new(format: &'static Format, reasoning: &'static ReasoningFormat, tools: &[Tool], options: Options) -> Self {
        let parse_tools = options.parse_tools && !tools.is_empty();
        let in_thoughts = options.starts_in_reasoning && options.parse_reasoning;
        let state = if format.is_harmony() {
            State::Harmony(Harmony::new(options.starts_in_reasoning, parse_tools, options.parse_reasoning))
        } else if in_thoughts {
            State::Thoughts { prose: Prose::after_marker(), matcher: Matcher::default() }
        } else {
            State::text(Prose::default())
        };
        let reasoning = if options.parse_reasoning { reasoning } else { &reasoning::NONE };
        let marks = Marks::new(format, reasoning, parse_tools, in_thoughts);
        Self { marks, calls: Calls::new(tools), state, answered: false }
    }

    /// Adds text, and gives out what became certain.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        text.chars().for_each(|c| self.feed(c));
        self.calls.pieces.take()
    }

    /// Whether what comes next is a thought, for all that is known.
    pub fn is_in_thoughts(&self) -> bool {
        match &self.state {
            State::Thoughts { .. } => true,
            State::Harmony(harmony) => harmony.is_in_thoughts(),
            _ => false,
        }
    }

    /// The answer is over: what was held back.
    pub fn finish(mut self) -> Vec<Piece> {
        let calls = &mut self.calls;
        match self.state {
            State::Text { mut prose, mut matcher } => calls.pieces.text(&rest(&mut prose, &mut matcher)),
            State::Thoughts { mut prose, mut matcher } => calls.pieces.reasoning(&rest(&mut prose, &mut matcher)),
            State::Choice { opener, .. } => unfinished(opener.is_none(), calls),
            State::Calls { machine, .. } if calls.is_open() || machine.is_whole() => {}
            State::Calls { bare, .. } => unfinished(bare, calls),
            State::Malformed { why, .. } => calls.malformed(why),
            State::Harmony(harmony) => harmony.finish(calls),
        }
        calls.pieces.take()
    }

    fn feed(&mut self, c: char) {
        match &mut self.state {
            State::Text { .. } => self.text(c),
            State::Thoughts { .. } => self.thoughts(c),
            State::Harmony(harmony) => harmony.feed(c, &mut self.calls),
            State::Choice { seen, .. } => {
                self.calls.raw.push(c);
                seen.push(c);
                if !c.is_whitespace() {
                    self.choose();
                }
            }
            State::Calls { machine, .. } => {
                self.calls.raw.push(c);
                let step = machine.feed(c, &mut self.calls);
                self.step(step, c);
            }
            State::Malformed { matcher, closers, .. } => {
                self.calls.raw.push(c);
                let openers = &self.marks.openers;
                let hit = matcher.feed(c, &[closers.as_slice(), openers].concat(), &mut String::new());
                let opener = hit.map(|hit| hit.checked_sub(closers.len()).map(|opener| openers[opener]));
                self.end_malformed(opener);
            }
        }
    }

    fn text(&mut self, c: char) {
        let State::Text { prose, matcher } = &mut self.state else { return };
        let marks = match prose.started() {
            true => &self.marks.later,
            false if self.answered => &self.marks.fresh,
            false => &self.marks.first,
        };
        if !self.answered && !prose.started() && matcher.is_empty() && self.marks.may_start_bare(c) {
            self.calls.raw = prose.before_marker();
            return self.open(None, Some(c));
        }
        let (mut free, mut out) = (String::new(), String::new());
        let hit = matcher.feed(c, &marks.texts, &mut free);
        free.chars().for_each(|c| prose.feed(c, &mut out));
        self.answered |= prose.started();
        self.calls.pieces.text(&out);
        let Some(hit) = hit else { return };
        let (mark, space) = (marks.marks[hit], prose.before_marker());
        match mark {
            Mark::Think => self.state = State::Thoughts { prose: Prose::after_marker(), matcher: Matcher::default() },
            Mark::EndThink | Mark::Drop => self.state = State::text(Prose::after_marker()),
            Mark::Calls => {
                let opener = marks.texts[hit];
                self.calls.raw = [space.as_str(), opener].concat();
                self.open(Some(opener), None);
            }
        }
    }

    fn thoughts(&mut self, c: char) {
        let State::Thoughts { prose, matcher } = &mut self.state else { return };
        let marks = &self.marks.thoughts;
        let (mut free, mut out) = (String::new(), String::new());
        let hit = matcher.feed(c, &marks.texts, &mut free);
        free.chars().for_each(|c| prose.feed(c, &mut out));
        self.calls.pieces.reasoning(&out);
        let Some(hit) = hit else { return };
        match marks.marks[hit] {
            // Said again by a model whose template had said it.
            Mark::Think if !prose.started() => {}
            Mark::Think => {
                prose.finish(&mut out);
                let again = marks.texts[hit];
                self.calls.pieces.reasoning(again);
            }
            Mark::EndThink | Mark::Drop => self.state = State::text(Prose::after_marker()),
            Mark::Calls => {
                let opener = marks.texts[hit];
                self.calls.raw = opener.to_owned();
                self.open(Some(opener), None);
            }
        }
    }

    /// Calls begin, with a marker or with the first character of the answer.
    fn open(&mut self, opener: Option<&'static str>, first: Option<char>) {
        self.answered = true;
        self.state = State::Choice { opener, seen: String::new() };
        match first {
            Some(c) => self.feed(c),
            None => self.choose(),
        }
    }

    /// Takes the syntax that the text so far is of, once only one is left.
    fn choose(&mut self) {
        let State::Choice { opener, seen } = &self.state else { return };
        let (opener, seen) = (*opener, seen.clone());
        let start: String = seen.chars().filter(|c| !c.is_whitespace()).take(2).collect();
        let all = self.marks.syntaxes(opener);
        let fitting: Vec<_> = all.iter().filter(|syntax| start.is_empty() || syntax.may_start(&start)).collect();
        match fitting.as_slice() {
            [syntax] if all.len() == 1 || !start.is_empty() => self.begin(syntax, opener, &seen),
            [syntax, ..] if start.chars().count() == 2 => self.begin(syntax, opener, &seen),
            [] => self.begin(all[0], opener, &seen),
            _ => {}
        }
    }

    fn begin(&mut self, syntax: &'static Syntax, opener: Option<&'static str>, seen: &str) {
        let mut machine = syntax.machine(opener);
        for c in seen.chars() {
            // Two characters cannot end anything.
            if let Step::Bad(why) = machine.feed(c, &mut self.calls) {
                self.state = State::Calls { machine, syntax, bare: opener.is_none() };
                return self.step(Step::Bad(why), c);
            }
        }
        self.state = State::Calls { machine, syntax, bare: opener.is_none() };
    }

    fn step(&mut self, step: Step, c: char) {
        match step {
            Step::Go => {}
            Step::Done => self.leave(""),
            Step::Leave(rest) => self.leave(&rest),
            Step::Bad(why) => self.bad(why, c),
        }
    }

    /// Calls are over, and `rest` came after them.
    fn leave(&mut self, rest: &str) {
        self.calls.raw.clear();
        self.state = State::text(Prose::after_marker());
        rest.chars().for_each(|c| self.feed(c));
    }

    /// What was taken for calls is none from here on, as `c` showed.
    fn bad(&mut self, why: &'static str, c: char) {
        let State::Calls { syntax, bare, .. } = &self.state else { return };
        let closers = syntax.closers();
        let was_open = self.calls.is_open();
        self.calls.abandon();
        if *bare && !was_open {
            self.state = State::text(Prose::default());
            let raw = std::mem::take(&mut self.calls.raw);
            return raw.chars().for_each(|c| self.feed(c));
        }
        let is_over = closers.is_empty() || closers.iter().any(|closer| self.calls.raw.ends_with(closer));
        let mut matcher = Matcher::default();
        matcher.feed(c, &[closers.as_slice(), &self.marks.openers].concat(), &mut String::new());
        self.state = State::Malformed { why, matcher, closers };
        if is_over {
            self.end_malformed(Some(None));
        }
    }

    /// A section that cannot be read is over, if `end` says so: by its closer, or by an opener of the next one.
    fn end_malformed(&mut self, end: Option<Option<&'static str>>) {
        let (State::Malformed { why, .. }, Some(opener)) = (&self.state, end) else { return };
        let why = *why;
        let length = self.calls.raw.len() - opener.map_or(0, str::len);
        self.calls.raw.truncate(length);
        self.calls.malformed(why);
        self.state = State::text(Prose::default());
        if opener.is_some() {
            self.calls.raw = opener.unwrap_or_default().to_owned();
            self.open(opener, None);
        }
    }
}

/// What is left of a stretch at the end of the answer.
fn rest(prose: &mut Prose, matcher: &mut Matcher) -> String {
    let mut out = String::new();
    matcher.release().chars().for_each(|c| prose.feed(c, &mut out));
    prose.finish(&mut out);
    out
}

/// The answer ended where calls had begun and none was named.
fn unfinished(bare: bool, calls: &mut Calls) {
    if bare {
        let text = std::mem::take(&mut calls.raw);
        calls.pieces.text(&text);
    } else {
        calls.malformed("the answer ended before a call was whole");
    }
}
