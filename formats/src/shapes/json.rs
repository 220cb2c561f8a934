//! Calls as objects of JSON: one, several, or a list.
//!
//! However a family writes them, all three are read.

use super::between::{Between, Found};
use super::json_call::{Call, Keys};
use super::{Bit, Calls, Step};

#[derive(Debug)]
pub(crate) struct Json {
    /// What begins calls.
    pub open: &'static [&'static str],
    /// What ends them; empty where the JSON itself does.
    pub close: &'static str,
    /// Calls may begin with the answer, without a marker.
    pub bare: bool,
    pub keys: &'static Keys,
    /// How a grammar writes them.
    pub written: JsonWritten,
}

#[derive(Debug)]
pub(crate) struct JsonWritten {
    /// What stands within the markers, before and after the calls.
    pub around: (&'static str, &'static str),
    /// A section holds one call.
    pub one_call: bool,
    /// What stands between calls, or between sections of one call.
    pub separator: &'static str,
    /// Members before the name and after the arguments.
    pub before_name: &'static [Bit],
    pub after_arguments: &'static [Bit],
}

impl JsonWritten {
    /// One list.
    pub const LIST: Self =
        Self { around: ("[", "]"), one_call: false, separator: ", ", before_name: &[], after_arguments: &[] };
}

#[derive(Debug)]
enum At {
    Start,
    Object(Box<Call>),
    Between(Between),
}

#[derive(Debug)]
pub(crate) struct Machine {
    json: &'static Json,
    bare: bool,
    in_list: bool,
    at: At,
}

impl Machine {
    pub fn new(json: &'static Json, bare: bool) -> Self {
        Self { json, bare, in_list: false, at: At::Start }
    }

    fn start(&mut self, c: char, calls: &mut Calls) -> Step {
        match c {
            '[' if !self.in_list => self.in_list = true,
            ']' if self.in_list => return self.close_list(),
            '{' => return self.object(c, calls),
            _ if c.is_whitespace() => {}
            _ => return Step::Bad("an object of JSON was expected"),
        }
        Step::Go
    }

    fn object(&mut self, c: char, calls: &mut Calls) -> Step {
        let mut call = Call::new(self.json.keys, self.bare);
        let step = call.feed(c, calls);
        self.at = At::Object(Box::new(call));
        step
    }

    fn close_list(&mut self) -> Step {
        self.in_list = false;
        self.at = At::Between(Between::default());
        if self.json.close.is_empty() { Step::Done } else { Step::Go }
    }

    fn between(&mut self, found: Found, calls: &mut Calls) -> Step {
        match found {
            Found::Nothing => Step::Go,
            Found::Marker(0) => self.object('{', calls),
            Found::Marker(1) if self.in_list => self.close_list(),
            Found::Marker(2 | 3) => Step::Go,
            Found::Marker(4) => Step::Done,
            Found::Other(text) if self.json.close.is_empty() && !self.in_list => Step::Leave(text),
            _ => Step::Bad("something other than a call follows a call"),
        }
    }
}

impl super::Machine for Machine {
    fn feed(&mut self, c: char, calls: &mut Calls) -> Step {
        match &mut self.at {
            At::Start => self.start(c, calls),
            At::Object(call) => match call.feed(c, calls) {
                Step::Done => {
                    self.at = At::Between(Between::default());
                    Step::Go
                }
                step => step,
            },
            At::Between(between) => {
                let found = between.feed(c, &["{", "]", ",", ";", self.json.close]);
                self.between(found, calls)
            }
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.at, At::Between(_))
    }
}
