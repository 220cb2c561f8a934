//! One call as an object of JSON: its name, its arguments, perhaps an identifier, in any order.
//!
//! The name decides whether it is a call. Arguments that come after it stream, those before it wait.

use super::{Calls, Step};
use crate::value::{self, Fed, JSON, Value};

/// What the members of a call are called.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Keys of the name. None: the only key is the name, and its value the arguments.
    pub name: &'static [&'static str],
    pub arguments: &'static [&'static str],
    pub id: &'static [&'static str],
}

/// Members that may be beside them in an object that began without a marker.
const COMPANIONS: [&str; 5] = ["type", "function", "id", "index", "tool_call_id"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Name,
    Arguments,
    Id,
    /// An object that holds name and arguments, or the name itself.
    Function,
    Other,
}

#[derive(Debug)]
enum At {
    Open,
    /// Before a key, or the end of the object.
    Key,
    InKey(Value),
    Colon,
    Value,
    InValue(Value),
    Next,
}

#[derive(Debug)]
pub(crate) struct Call {
    keys: &'static Keys,
    bare: bool,
    at: At,
    member: Member,
    /// JSON of the key or value at hand, as far as it is not sent.
    json: String,
    /// Objects around the one at hand.
    num_outer: usize,
    begun: bool,
    id: Option<String>,
    /// The value at hand goes out as it comes.
    streams: bool,
    arguments: Arguments,
}

#[derive(Debug)]
enum Arguments {
    Missing,
    /// Whole, and waiting for the name.
    Held(String),
    Sent,
}

impl Call {
    pub fn new(keys: &'static Keys, bare: bool) -> Self {
        Self {
            keys,
            bare,
            at: At::Open,
            member: Member::Other,
            json: String::new(),
            num_outer: 0,
            begun: false,
            id: None,
            streams: false,
            arguments: Arguments::Missing,
        }
    }

    pub fn feed(&mut self, c: char, calls: &mut Calls) -> Step {
        match &mut self.at {
            At::InKey(value) => match value.feed(c, &mut self.json) {
                Fed::More => Step::Go,
                Fed::Done => self.key(calls),
                _ => Step::Bad("a call has a key that is no JSON"),
            },
            At::InValue(value) => {
                let fed = value.feed(c, &mut self.json);
                self.value(fed, c, calls)
            }
            _ if c.is_whitespace() => Step::Go,
            At::Open => self.expect(c == '{', At::Key),
            At::Key if c == '}' => self.close(calls),
            At::Key => self.begin_key(c),
            At::Colon => self.expect(c == ':', At::Value),
            At::Value => self.begin_value(c, calls),
            At::Next if c == '}' => self.close(calls),
            At::Next => self.expect(c == ',', At::Key),
        }
    }

    fn expect(&mut self, holds: bool, at: At) -> Step {
        self.at = at;
        if holds { Step::Go } else { Step::Bad("a call is no valid JSON") }
    }

    fn begin_key(&mut self, c: char) -> Step {
        let mut value = Value::new(&JSON);
        self.json.clear();
        let fed = value.feed(c, &mut self.json);
        self.expect(c == '"' && fed == Fed::More, At::InKey(value))
    }

    fn key(&mut self, calls: &mut Calls) -> Step {
        let Some(key) = self.string() else { return Step::Bad("a call has a key that is no JSON") };
        self.member = self.member_of(&key);
        self.at = At::Colon;
        if self.keys.name.is_empty() {
            return self.begin(&key, calls);
        }
        let strange = self.bare && self.member == Member::Other && !COMPANIONS.contains(&key.as_str());
        if strange { Step::Bad("an object is no call") } else { Step::Go }
    }

    fn member_of(&self, key: &str) -> Member {
        match key {
            _ if self.keys.name.is_empty() || self.keys.arguments.contains(&key) => Member::Arguments,
            _ if self.keys.name.contains(&key) => Member::Name,
            _ if self.keys.id.contains(&key) => Member::Id,
            "function" => Member::Function,
            _ => Member::Other,
        }
    }

    fn begin_value(&mut self, c: char, calls: &mut Calls) -> Step {
        if self.member == Member::Function && c == '{' {
            self.num_outer += 1;
            return self.expect(self.num_outer < 8, At::Key);
        }
        if self.member == Member::Arguments && !matches!(self.arguments, Arguments::Missing) {
            return Step::Bad("a call has its arguments twice");
        }
        self.streams = self.member == Member::Arguments && self.begun && c == '{';
        let mut value = Value::new(&JSON);
        self.json.clear();
        let fed = value.feed(c, &mut self.json);
        self.at = At::InValue(value);
        self.value(fed, c, calls)
    }

    fn value(&mut self, fed: Fed, c: char, calls: &mut Calls) -> Step {
        if let Fed::Bad(why) = fed {
            return Step::Bad(why);
        }
        if self.streams {
            calls.arguments(&self.json);
            self.json.clear();
        }
        if fed == Fed::More {
            return Step::Go;
        }
        self.at = At::Next;
        match self.whole(calls) {
            Step::Go if fed == Fed::Before => self.feed(c, calls),
            step => step,
        }
    }

    /// A value is whole.
    fn whole(&mut self, calls: &mut Calls) -> Step {
        match self.member {
            Member::Name | Member::Function => match self.string() {
                Some(name) => return self.begin(&name, calls),
                None => return Step::Bad("the name of a call is no string"),
            },
            Member::Id => self.id = self.string(),
            Member::Arguments if self.streams => self.arguments = Arguments::Sent,
            Member::Arguments => match object(&self.json) {
                Some(arguments) => self.arguments = Arguments::Held(arguments),
                None => return Step::Bad("the arguments of a call are no object"),
            },
            Member::Other => {}
        }
        self.streams = false;
        self.send_held(calls);
        Step::Go
    }

    fn begin(&mut self, name: &str, calls: &mut Calls) -> Step {
        if self.begun {
            return Step::Bad("a call has two names");
        }
        if !calls.begin(name, self.id.take()) {
            return Step::Bad("no tool has this name");
        }
        self.begun = true;
        self.send_held(calls);
        Step::Go
    }

    fn send_held(&mut self, calls: &mut Calls) {
        if let (true, Arguments::Held(arguments)) = (self.begun, &self.arguments) {
            calls.arguments(arguments);
            self.arguments = Arguments::Sent;
        }
    }

    fn close(&mut self, calls: &mut Calls) -> Step {
        if self.num_outer > 0 {
            self.num_outer -= 1;
            self.at = At::Next;
            return Step::Go;
        }
        if !self.begun {
            return Step::Bad("a call has no name");
        }
        if matches!(self.arguments, Arguments::Missing) {
            calls.arguments("{}");
        }
        calls.end();
        Step::Done
    }

    fn string(&self) -> Option<String> {
        serde_json::from_str(&self.json).ok()
    }
}

/// The object of arguments that were not written as one: none, or an object within a string.
fn object(json: &str) -> Option<String> {
    if json.starts_with('{') {
        return Some(json.to_owned());
    }
    match serde_json::from_str(json).ok()? {
        Some(text) if String::is_empty(&text) => Some("{}".to_owned()),
        Some(text) => value::whole(&JSON, &text).filter(|json| json.starts_with('{')),
        None => Some("{}".to_owned()),
    }
}
