//! Calls as calls of Python: `[f(a=1), g(b='x')]`.

use super::between::{Between, Found};
use super::{Calls, Step};
use crate::tool::Kind;
use crate::value::{self, Fed, PYTHON, Value};

#[derive(Debug)]
pub(crate) struct Pythonic {
    /// What begins calls.
    pub open: &'static [&'static str],
    /// What ends them; empty where the closing bracket does.
    pub close: &'static str,
    /// Calls may begin with the answer, without a marker.
    pub bare: bool,
    /// Calls are in a list. Otherwise each has its line.
    pub brackets: bool,
}

/// Longer than any name.
const MAX_NAME: usize = 512;

#[derive(Debug)]
enum At {
    Start,
    Name(String),
    /// Before a parameter, or the end of the call.
    Key(String),
    Value(Value),
    /// After a value.
    Next,
    Between(Between),
}

#[derive(Debug)]
pub(crate) struct Machine {
    pythonic: &'static Pythonic,
    /// Nothing opened the list, so nothing closes it.
    bare: bool,
    at: At,
    in_list: bool,
    num_keys: usize,
    kind: Kind,
    /// The value at hand, where it waits for its end.
    held: Option<String>,
    /// The value as it was written, where it may have to be a string.
    written: String,
}

impl Machine {
    pub fn new(pythonic: &'static Pythonic, bare: bool) -> Self {
        let at = At::Start;
        Self {
            pythonic,
            bare,
            at,
            in_list: false,
            num_keys: 0,
            kind: Kind::Unknown,
            held: None,
            written: String::new(),
        }
    }

    fn start(&mut self, c: char) -> Step {
        match c {
            '[' if !self.in_list => self.in_list = true,
            ']' if self.in_list => return self.close_list(),
            _ if c.is_whitespace() => {}
            _ if is_name(c) && (self.in_list || !self.pythonic.brackets) => self.at = At::Name(c.to_string()),
            _ => return Step::Bad("a call was expected"),
        }
        Step::Go
    }

    fn close_list(&mut self) -> Step {
        self.in_list = false;
        self.at = At::Between(Between::default());
        if self.pythonic.close.is_empty() || self.bare { Step::Done } else { Step::Go }
    }

    fn name(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Name(name) = &mut self.at else { return Step::Go };
        match c {
            '(' if calls.begin(name.trim(), None) => {
                self.num_keys = 0;
                self.at = At::Key(String::new());
            }
            '(' => return Step::Bad("no tool has this name"),
            _ if (is_name(c) || c == ' ') && name.len() < MAX_NAME => name.push(c),
            _ => return Step::Bad("a name is no call"),
        }
        Step::Go
    }

    fn key(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Key(key) = &mut self.at else { return Step::Go };
        match c {
            ')' if key.is_empty() => return self.end(calls),
            '=' if !key.is_empty() => {
                let (key, lead) = (key.trim().to_owned(), if self.num_keys == 0 { "{" } else { "," });
                calls.arguments(&format!("{lead}{}:", value::quoted(&key)));
                self.num_keys += 1;
                self.kind = calls.kind(&key);
                self.held = None;
                self.written.clear();
                self.at = At::Value(Value::new(&PYTHON));
            }
            _ if c.is_whitespace() && key.is_empty() => {}
            _ if (is_name(c) || c == ' ') && key.len() < MAX_NAME => key.push(c),
            _ => return Step::Bad("an argument has no name"),
        }
        Step::Go
    }

    fn value(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Value(value) = &mut self.at else { return Step::Go };
        if self.written.is_empty() && c.is_whitespace() {
            return Step::Go;
        }
        // A number for a string parameter is a string without its quotes.
        if self.written.is_empty() && self.kind == Kind::Text && !matches!(c, '"' | '\'') {
            self.held = Some(String::new());
        }
        let mut json = String::new();
        let fed = value.feed(c, &mut json);
        if self.held.is_some() || self.written.is_empty() {
            self.written.push(c);
        }
        match fed {
            Fed::Bad(why) => return Step::Bad(why),
            Fed::More => self.send(&json, calls),
            Fed::Done => self.whole(&json, self.written.len(), calls),
            Fed::Before => {
                self.whole(&json, self.written.len() - c.len_utf8().min(self.written.len()), calls);
                return self.next(c, calls);
            }
        }
        Step::Go
    }

    fn send(&mut self, json: &str, calls: &mut Calls) {
        match &mut self.held {
            Some(held) => held.push_str(json),
            None => calls.arguments(json),
        }
    }

    fn whole(&mut self, json: &str, num_bytes_written: usize, calls: &mut Calls) {
        match &self.held {
            Some(held) if held.is_empty() && json == "null" => calls.arguments(json),
            Some(_) => calls.arguments(&value::quoted(self.written[..num_bytes_written].trim())),
            None => calls.arguments(json),
        }
        self.at = At::Next;
    }

    fn next(&mut self, c: char, calls: &mut Calls) -> Step {
        match c {
            ',' => self.at = At::Key(String::new()),
            ')' => return self.end(calls),
            _ if c.is_whitespace() => {}
            _ => return Step::Bad("a comma or a closing bracket was expected"),
        }
        Step::Go
    }

    fn end(&mut self, calls: &mut Calls) -> Step {
        calls.arguments(if self.num_keys == 0 { "{}" } else { "}" });
        calls.end();
        self.at = At::Between(Between::default());
        Step::Go
    }

    fn between(&mut self, found: Found) -> Step {
        match found {
            Found::Nothing | Found::Marker(0) => Step::Go,
            Found::Marker(1) if self.in_list => self.close_list(),
            Found::Marker(2) => Step::Done,
            Found::Other(text) if text.starts_with(is_name) && (self.in_list || !self.pythonic.brackets) => {
                self.at = At::Name(text);
                Step::Go
            }
            _ => Step::Bad("something other than a call follows a call"),
        }
    }
}

impl super::Machine for Machine {
    fn feed(&mut self, c: char, calls: &mut Calls) -> Step {
        match &mut self.at {
            At::Start => self.start(c),
            At::Name(_) => self.name(c, calls),
            At::Key(_) => self.key(c, calls),
            At::Value(_) => self.value(c, calls),
            At::Next => self.next(c, calls),
            At::Between(between) => {
                let found = between.feed(c, &[",", "]", self.pythonic.close]);
                self.between(found)
            }
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.at, At::Between(_))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}
