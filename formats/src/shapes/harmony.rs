//! The channels of gpt-oss: every message says in its header whether it is a thought, an answer or a call.

use super::Calls;
use super::between::{Between, Found};
use crate::marker::Matcher;
use crate::value::{Fed, JSON, Value};

const HEADER_ENDS: &str = "<|message|>";
const BEGINS: [&str; 4] = ["<|channel|>", "<|start|>", HEADER_ENDS, "to="];
/// What ends a message. The last two begin the next one's header.
const ENDS: [&str; 5] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"];
const NUM_CLOSING_ENDS: usize = 3;
/// Longer than any header.
const MAX_HEADER: usize = 512;

#[derive(Debug)]
enum At {
    Header(String),
    Message {
        matcher: Matcher,
        body: Body,
    },
    /// Before the arguments.
    Call,
    Arguments(Value),
    AfterCall(Between),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Text,
    /// Text with its markers, since nobody wants them read.
    Raw,
    Thoughts,
    Malformed(&'static str),
}

#[derive(Debug)]
pub(crate) struct Harmony {
    at: At,
    parse_tools: bool,
    parse_reasoning: bool,
}

impl Harmony {
    pub fn new(in_thoughts: bool, parse_tools: bool, parse_reasoning: bool) -> Self {
        let body = if parse_reasoning { Body::Thoughts } else { Body::Raw };
        let at = if in_thoughts { message(body) } else { At::Header(String::new()) };
        Self { at, parse_tools, parse_reasoning }
    }

    pub fn is_in_thoughts(&self) -> bool {
        matches!(self.at, At::Message { body: Body::Thoughts, .. })
    }

    pub fn feed(&mut self, c: char, calls: &mut Calls) {
        calls.raw.push(c);
        match &mut self.at {
            At::Header(header) => {
                header.push(c);
                self.header(calls);
            }
            At::Message { .. } => self.message(c, calls),
            At::Call if c.is_whitespace() => {}
            At::Call if c != '{' => self.malformed("the arguments of a call are no object", c, calls),
            At::Call => {
                self.at = At::Arguments(Value::new(&JSON));
                self.arguments(c, calls);
            }
            At::Arguments(_) => self.arguments(c, calls),
            At::AfterCall(between) => match between.feed(c, &ENDS) {
                Found::Nothing => {}
                Found::Marker(end) => self.ended(end, calls),
                Found::Other(_) => self.malformed("something other than a message follows a call", c, calls),
            },
        }
    }

    fn header(&mut self, calls: &mut Calls) {
        let At::Header(header) = &self.at else { return };
        if header.ends_with(HEADER_ENDS) {
            self.begin(calls);
        } else if header.len() > MAX_HEADER {
            let text = std::mem::take(&mut calls.raw);
            calls.pieces.text(&text);
            self.at = message(Body::Text);
        } else if !may_be_header(header.trim_start()) {
            // A model that was not taught channels, or forgot them. A marker may begin with the last character.
            self.at = message(Body::Text);
            let text = std::mem::take(&mut calls.raw);
            text.chars().for_each(|c| self.feed(c, calls));
        }
    }

    fn begin(&mut self, calls: &mut Calls) {
        let At::Header(header) = &self.at else { return };
        let thoughts = after(header, "<|channel|>") == Some("analysis");
        let recipient = after(header, "to=").filter(|recipient| !recipient.is_empty()).map(str::to_owned);
        self.at = match recipient {
            Some(_) if !self.parse_tools => return self.raw(calls),
            Some(name) if calls.begin(name.strip_prefix("functions.").unwrap_or(&name), None) => At::Call,
            Some(_) => message(Body::Malformed("no tool has this name")),
            None if thoughts && !self.parse_reasoning => return self.raw(calls),
            None => message(if thoughts { Body::Thoughts } else { Body::Text }),
        };
    }

    fn raw(&mut self, calls: &mut Calls) {
        let text = std::mem::take(&mut calls.raw);
        calls.pieces.text(&text);
        self.at = message(Body::Raw);
    }

    fn message(&mut self, c: char, calls: &mut Calls) {
        let At::Message { matcher, body } = &mut self.at else { return };
        let mut free = String::new();
        let end = matcher.feed(c, &ENDS, &mut free);
        match body {
            Body::Text | Body::Raw => calls.pieces.text(&free),
            Body::Thoughts => calls.pieces.reasoning(&free),
            Body::Malformed(_) => {}
        }
        if let (Body::Raw, Some(end)) = (*body, end.filter(|end| *end < NUM_CLOSING_ENDS)) {
            calls.pieces.text(ENDS[end]);
        }
        if let (Body::Malformed(why), Some(end)) = (*body, end) {
            if end >= NUM_CLOSING_ENDS {
                calls.raw.truncate(calls.raw.len() - ENDS[end].len());
            }
            calls.malformed(why);
        }
        match end {
            Some(end) => self.ended(end, calls),
            // The rest of the text between pieces is what the matcher holds, which is not needed.
            None if !matches!(body, Body::Malformed(_)) => calls.raw.clear(),
            None => {}
        }
    }

    fn ended(&mut self, end: usize, calls: &mut Calls) {
        calls.raw.clear();
        let header = if end < NUM_CLOSING_ENDS { "" } else { ENDS[end] };
        calls.raw.push_str(header);
        self.at = At::Header(header.to_owned());
    }

    fn arguments(&mut self, c: char, calls: &mut Calls) {
        let At::Arguments(value) = &mut self.at else { return };
        let mut delta = String::new();
        match value.feed(c, &mut delta) {
            Fed::More => calls.arguments(&delta),
            Fed::Bad(why) => self.malformed(why, c, calls),
            Fed::Done | Fed::Before => {
                calls.arguments(&delta);
                calls.end();
                self.at = At::AfterCall(Between::default());
            }
        }
    }

    /// What came since the last piece is no call, and neither is the rest of the message.
    fn malformed(&mut self, why: &'static str, c: char, calls: &mut Calls) {
        calls.abandon();
        let mut matcher = Matcher::default();
        matcher.feed(c, &ENDS, &mut String::new());
        self.at = At::Message { matcher, body: Body::Malformed(why) };
    }

    pub fn finish(self, calls: &mut Calls) {
        match self.at {
            At::Message { mut matcher, body } => {
                let rest = matcher.release();
                match body {
                    Body::Text | Body::Raw => calls.pieces.text(&rest),
                    Body::Thoughts => calls.pieces.reasoning(&rest),
                    Body::Malformed(why) => calls.malformed(why),
                }
            }
            // A header that broke off is markup; anything shorter may have been text.
            At::Header(header) if !BEGINS.iter().any(|begin| header.trim_start().starts_with(begin)) => {
                calls.pieces.text(&header);
            }
            At::Header(_) | At::Call | At::Arguments(_) | At::AfterCall(_) => {}
        }
    }
}

fn message(body: Body) -> At {
    At::Message { matcher: Matcher::default(), body }
}

fn may_be_header(text: &str) -> bool {
    BEGINS.iter().any(|begin| begin.starts_with(text) || text.starts_with(begin))
}

/// What follows `mark` in a header, up to the next space or marker.
fn after<'a>(header: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(mark)?;
    rest.trim_start().split(|c: char| c.is_whitespace() || c == '<').next()
}
