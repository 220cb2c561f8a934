//! Calls as parameters in tags: `<function=name><parameter=key>value</parameter></function>` and its relatives.
//!
//! Text that is a string by the tool's schema streams; another value waits for its end, since only the whole says what
//! it is.

use super::between::{Between, Found};
use super::{Bit, Calls, Step};
use crate::marker::Matcher;
use crate::tool::Kind;
use crate::value::{self, JSON, PYTHON};

#[derive(Debug)]
pub(crate) struct Params {
    /// What begins a section of calls, in several spellings; empty where each call stands alone.
    pub open: &'static [&'static str],
    /// What ends the section.
    pub close: &'static str,
    /// What begins a call.
    pub call: &'static str,
    /// What ends the name. A parameter or the call's end do, too; grammars leave out a line break.
    pub name_end: &'static str,
    /// What begins a parameter.
    pub key: &'static str,
    pub key_end: &'static str,
    /// What begins its value, if `key_end` does not.
    pub value: &'static str,
    pub value_end: &'static str,
    pub call_end: &'static str,
    /// A line break around values is the template's.
    pub padded: bool,
    /// Strings may be in `<![CDATA[..]]>`.
    pub cdata: bool,
    /// How the key's tag says that a value is a string and that it is none.
    pub says_text: Option<(&'static str, &'static str)>,
    pub written: ParamsWritten,
}

/// White space and the like that grammars write.
#[derive(Debug)]
pub(crate) struct ParamsWritten {
    /// A section holds one call.
    pub one_call: bool,
    pub after_open: &'static str,
    /// Attributes after the name, and after a key whose value is text or is none.
    pub name_attributes: &'static [Bit],
    pub text_attributes: &'static [Bit],
    pub other_attributes: &'static [Bit],
    pub after_name: &'static str,
    pub after_key: &'static str,
    pub after_value: &'static str,
    pub before_call_end: &'static str,
    pub after_call: &'static str,
    /// Between sections, or calls that stand alone.
    pub separator: &'static str,
}

impl Params {
    /// For the data of formats, which name only what differs.
    pub const DEFAULT: Self = Self {
        open: &[],
        close: "",
        call: "",
        name_end: "",
        key: "",
        key_end: "",
        value: "",
        value_end: "",
        call_end: "",
        padded: false,
        cdata: false,
        says_text: None,
        written: ParamsWritten::DEFAULT,
    };
}

impl ParamsWritten {
    /// Nothing between anything.
    pub const DEFAULT: Self = Self {
        one_call: false,
        after_open: "",
        name_attributes: &[],
        text_attributes: &[],
        other_attributes: &[],
        after_name: "",
        after_key: "",
        after_value: "",
        before_call_end: "",
        after_call: "",
        separator: "",
    };
}

/// Longer than any name or key.
const MAX_NAME: usize = 512;

#[derive(Debug)]
enum At {
    /// Before a call.
    Calls(Between),
    Name(String),
    /// Before a parameter.
    Keys(Between),
    Key(String),
    BeforeValue(Between),
    Text(Text),
    /// A call that stands alone was whole.
    After(Between),
}

#[derive(Debug)]
struct Text {
    matcher: Matcher,
    kind: Kind,
    /// What waits for its end.
    held: String,
    /// Nothing came yet.
    fresh: bool,
}

#[derive(Debug)]
pub(crate) struct Machine {
    params: &'static Params,
    in_section: bool,
    at: At,
    num_keys: usize,
    kind: Kind,
    num_calls: usize,
}

impl Machine {
    pub fn new(params: &'static Params, opener: &str) -> Self {
        let in_section = params.open.contains(&opener);
        let at = if in_section { At::Calls(Between::default()) } else { At::Name(String::new()) };
        Self { params, in_section, at, num_keys: 0, kind: Kind::Unknown, num_calls: 0 }
    }

    fn calls(&mut self, found: Found) -> Step {
        match found {
            Found::Nothing => return Step::Go,
            Found::Marker(0) => self.at = At::Name(String::new()),
            Found::Marker(_) => return Step::Done,
            Found::Other(_) => return Step::Bad("a call was expected"),
        }
        Step::Go
    }

    fn name(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Name(text) = &mut self.at else { return Step::Go };
        text.push(c);
        let params = self.params;
        let ends = [params.name_end, params.key, params.call_end];
        let Some(end) = ends.iter().position(|end| !end.is_empty() && text.ends_with(end)) else {
            return if text.len() > MAX_NAME { Step::Bad("the name of a call does not end") } else { Step::Go };
        };
        let name = first_part(&text[..text.len() - ends[end].len()]);
        if end == 0 && name.is_empty() && params.name_end == "\n" {
            return Step::Go;
        }
        if !calls.begin(&name, None) {
            return Step::Bad("no tool has this name");
        }
        self.num_keys = 0;
        self.at = At::Keys(Between::default());
        match end {
            0 => Step::Go,
            1 => self.keys(Found::Marker(0), calls),
            _ => self.keys(Found::Marker(1), calls),
        }
    }

    fn keys(&mut self, found: Found, calls: &mut Calls) -> Step {
        match found {
            Found::Nothing => Step::Go,
            Found::Marker(0) => {
                self.at = At::Key(String::new());
                Step::Go
            }
            Found::Marker(_) => self.end(calls),
            Found::Other(_) => Step::Bad("a parameter was expected"),
        }
    }

    fn key(&mut self, c: char, calls: &mut Calls) -> Step {
        let At::Key(text) = &mut self.at else { return Step::Go };
        text.push(c);
        let Some(tag) = text.strip_suffix(self.params.key_end) else {
            return if text.len() > MAX_NAME { Step::Bad("the name of a parameter does not end") } else { Step::Go };
        };
        let key = first_part(tag);
        self.kind = match self.params.says_text {
            Some((text, _)) if tag.contains(text) => Kind::Text,
            Some((_, other)) if tag.contains(other) => Kind::NoText,
            _ => calls.kind(&key),
        };
        let lead = if self.num_keys == 0 { "{" } else { "," };
        self.num_keys += 1;
        calls.arguments(&format!("{lead}{}:", value::quoted(&key)));
        self.at = match self.params.value {
            "" => self.text(calls),
            _ => At::BeforeValue(Between::default()),
        };
        Step::Go
    }

    fn before_value(&mut self, found: Found, calls: &mut Calls) -> Step {
        match found {
            Found::Nothing => {}
            Found::Marker(_) => self.at = self.text(calls),
            Found::Other(_) => return Step::Bad("a parameter has no value"),
        }
        Step::Go
    }

    fn text(&self, calls: &mut Calls) -> At {
        if self.streams() {
            calls.arguments("\"");
        }
        At::Text(Text { matcher: Matcher::default(), kind: self.kind, held: String::new(), fresh: true })
    }

    fn streams(&self) -> bool {
        self.kind == Kind::Text && !self.params.cdata
    }

    fn value(&mut self, c: char, calls: &mut Calls) -> Step {
        let (streams, padded, end) = (self.streams(), self.params.padded, self.params.value_end);
        let At::Text(text) = &mut self.at else { return Step::Go };
        if std::mem::take(&mut text.fresh) && padded && c == '\n' {
            return Step::Go;
        }
        let padded_end = format!("\n{end}");
        let markers = [end, &padded_end];
        let mut free = String::new();
        let hit = text.matcher.feed(c, &markers[..1 + usize::from(padded)], &mut free);
        if streams {
            let mut json = String::new();
            free.chars().for_each(|c| value::push_escaped(c, &mut json));
            calls.arguments(&json);
        } else {
            text.held.push_str(&free);
        }
        if hit.is_some() {
            let json = if streams { "\"".to_owned() } else { json_of(&text.held, text.kind, self.params.cdata) };
            calls.arguments(&json);
            self.at = At::Keys(Between::default());
        }
        Step::Go
    }

    fn end(&mut self, calls: &mut Calls) -> Step {
        calls.arguments(if self.num_keys == 0 { "{}" } else { "}" });
        calls.end();
        self.num_calls += 1;
        self.at = if self.in_section { At::Calls(Between::default()) } else { At::After(Between::default()) };
        if self.in_section || !self.params.close.is_empty() { Step::Go } else { Step::Done }
    }

    /// A call whose section was not opened: the section's end may come all the same.
    fn after(found: Found) -> Step {
        match found {
            Found::Nothing => Step::Go,
            Found::Marker(_) => Step::Done,
            Found::Other(text) => Step::Leave(text),
        }
    }
}

impl super::Machine for Machine {
    fn feed(&mut self, c: char, calls: &mut Calls) -> Step {
        let params = self.params;
        match &mut self.at {
            At::Calls(between) => {
                let found = between.feed(c, &[params.call, params.close]);
                self.calls(found)
            }
            At::Name(_) => self.name(c, calls),
            At::Keys(between) => {
                let found = between.feed(c, &[params.key, params.call_end]);
                self.keys(found, calls)
            }
            At::Key(_) => self.key(c, calls),
            At::BeforeValue(between) => {
                let found = between.feed(c, &[params.value]);
                self.before_value(found, calls)
            }
            At::Text(_) => self.value(c, calls),
            At::After(between) => Self::after(between.feed(c, &[params.close])),
        }
    }

    fn is_whole(&self) -> bool {
        self.num_calls > 0 && matches!(self.at, At::Calls(_) | At::After(_))
    }
}

/// A name in a tag, before the quote that ends it and what follows.
fn first_part(tag: &str) -> String {
    tag.split('"').next().unwrap_or_default().trim().to_owned()
}

/// What the text of a value means, by what the schema allows.
fn json_of(text: &str, kind: Kind, cdata: bool) -> String {
    let unwrapped = text.trim().strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
    if let Some(text) = unwrapped.filter(|_| cdata) {
        return value::quoted(text);
    }
    let dialect = if kind == Kind::NoText { &PYTHON } else { &JSON };
    let json = if kind == Kind::Text { None } else { value::whole(dialect, text) };
    json.unwrap_or_else(|| value::quoted(text))
}
