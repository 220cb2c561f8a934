//! Calls as a name followed by the arguments as one value: `[TOOL_CALLS]name[ARGS]{..}` and its relatives.

use super::between::{Between, Found};
use super::{Calls, Step};
use crate::value::{Dialect, Fed, JSON, Value};

#[derive(Debug)]
pub(crate) struct Named {
    /// What begins a section of calls, in several spellings; empty where each call stands alone.
    pub open: &'static [&'static str],
    /// What ends the section.
    pub close: &'static str,
    /// That ends the answer, too, so the model's text may come without it.
    pub close_ends_answer: bool,
    /// What begins a call.
    pub call: &'static str,
    /// What stands between the name and the arguments; empty where their bracket does.
    pub arguments: &'static str,
    /// Reads what stands between `call` and `arguments`.
    pub header: fn(&str) -> Option<Header>,
    /// How grammars write it: what comes before the name and after it.
    pub before_name: &'static [Bit],
    pub after_name: &'static [Bit],
    pub dialect: &'static Dialect,
    /// What may follow the arguments before `call_end`.
    pub fence: &'static str,
    /// What ends a call; empty where the arguments do.
    pub call_end: &'static str,
    /// What a grammar puts between calls.
    pub separator: &'static str,
}

/// A part of what grammars write around a name.
#[derive(Debug)]
pub(crate) enum Bit {
    Text(&'static str),
    /// A regular expression.
    Pattern(&'static str),
    Optional(&'static [Bit]),
}

/// What comes before a call's arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub name: String,
    pub id: Option<String>,
}

impl Header {
    /// A header that is the name and nothing else.
    pub fn name(text: &str) -> Option<Self> {
        Some(Self { name: text.trim().to_owned(), id: None })
    }
}

impl Named {
    /// For the data of formats, which name only what differs.
    pub const DEFAULT: Self = Self {
        open: &[],
        close: "",
        close_ends_answer: false,
        call: "",
        arguments: "",
        header: Header::name,
        before_name: &[],
        after_name: &[],
        dialect: &JSON,
        fence: "",
        call_end: "",
        separator: "",
    };
}

/// Longer than any name with its identifier.
const MAX_HEADER: usize = 512;

#[derive(Debug)]
enum At {
    Header(String),
    /// White space before the arguments.
    Arguments,
    Value(Value),
    After(Between),
}

#[derive(Debug)]
pub(crate) struct Machine {
    named: &'static Named,
    in_section: bool,
    at: At,
}

impl Machine {
    pub fn new(named: &'static Named, opener: &str) -> Self {
        let in_section = named.open.contains(&opener);
        let at = if in_section && !named.call.is_empty() {
            At::After(Between::default())
        } else {
            At::Header(String::new())
        };
        Self { named, in_section, at }
    }

    fn header(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Header(header) = &mut self.at else { return Step::Go };
        header.push(c);
        let marker = if self.named.arguments.is_empty() { "{" } else { self.named.arguments };
        if let Some(text) = header.strip_suffix(marker) {
            let Some(Header { name, id }) = (self.named.header)(text) else { return Step::Bad("a call has no name") };
            return if calls.begin(&name, id) { self.arguments(c, calls) } else { Step::Bad("no tool has this name") };
        }
        let over = [self.named.call_end, self.named.close].iter().any(|end| !end.is_empty() && header.ends_with(end));
        if over || header.len() > MAX_HEADER { Step::Bad("a call has no arguments") } else { Step::Go }
    }

    fn arguments(&mut self, c: char, calls: &mut Calls) -> Step {
        self.at = At::Arguments;
        if self.named.arguments.is_empty() { self.begin_value(c, calls) } else { Step::Go }
    }

    fn begin_value(&mut self, c: char, calls: &mut Calls) -> Step {
        match c {
            '{' => self.at = At::Value(Value::new(self.named.dialect)),
            _ if c.is_whitespace() => return Step::Go,
            _ => return Step::Bad("the arguments of a call are no object"),
        }
        self.value(c, calls)
    }

    fn value(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Value(value) = &mut self.at else { return Step::Go };
        let mut delta = String::new();
        match value.feed(c, &mut delta) {
            Fed::More => calls.arguments(&delta),
            Fed::Bad(why) => return Step::Bad(why),
            Fed::Done | Fed::Before => return self.end(&delta, calls),
        }
        Step::Go
    }

    fn end(&mut self, delta: &str, calls: &mut Calls) -> Step {
        calls.arguments(delta);
        calls.end();
        self.at = At::After(Between::default());
        if self.named.call_end.is_empty() && self.named.fence.is_empty() && !self.in_section {
            Step::Done
        } else {
            Step::Go
        }
    }

    fn after(&mut self, found: Found) -> Step {
        match found {
            Found::Nothing | Found::Marker(0) => Step::Go,
            Found::Marker(1) if !self.named.close.is_empty() => Step::Go,
            Found::Marker(2) if self.in_section || self.named.close.is_empty() => {
                self.at = At::Header(String::new());
                Step::Go
            }
            Found::Marker(2) => Step::Leave(self.named.call.to_owned()),
            Found::Marker(_) => Step::Done,
            Found::Other(text) if !self.in_section => Step::Leave(text),
            Found::Other(_) => Step::Bad("something other than a call follows a call"),
        }
    }
}

impl super::Machine for Machine {
    fn feed(&mut self, c: char, calls: &mut Calls) -> Step {
        match &mut self.at {
            At::Header(_) => self.header(c, calls),
            At::Arguments => self.begin_value(c, calls),
            At::Value(_) => self.value(c, calls),
            At::After(between) => {
                let found =
                    between.feed(c, &[self.named.fence, self.named.call_end, self.named.call, self.named.close]);
                self.after(found)
            }
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.at, At::After(_))
    }
}
