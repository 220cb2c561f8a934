//! One value as a model writes it (JSON, Python or a relative), turned into JSON character by character.
//!
//! Mistakes with one possible meaning are mended: line breaks within strings, unknown escapes, trailing commas, Python's
//! words. What is left is an error, and nothing of the character that showed it goes out.

mod text;

use text::Text;
pub(crate) use text::{push_escaped, quoted};

use crate::word;

/// How values are written.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub language: Language,
    /// What strings are put between.
    pub quotes: &'static [&'static str],
    /// Whether a backslash in a string has a meaning.
    pub escapes: bool,
    /// Whether words that mean nothing else are strings.
    pub bare_strings: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Json,
    Python,
    Gemma,
}

pub(crate) static JSON: Dialect =
    Dialect { language: Language::Json, quotes: &["\""], escapes: true, bare_strings: false };
pub(crate) static PYTHON: Dialect =
    Dialect { language: Language::Python, quotes: &["\"", "'"], escapes: true, bare_strings: false };

/// What a character did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// The value goes on.
    More,
    /// The value is whole with this character.
    Done,
    /// The value was whole before this character, which does not belong to it.
    Before,
    /// This character cannot be here.
    Bad(&'static str),
}

/// As deep as serde_json reads.
const MAX_DEPTH: usize = 120;
const MAX_WORD: usize = 128;

#[derive(Debug)]
enum At {
    Value,
    /// After `[` or a comma within.
    Item,
    /// After `{` or a comma within.
    Key,
    Colon,
    /// After a value in a container.
    Next,
    Text(Text),
    Word,
    /// Within the beginning of a long quote.
    Quote,
}

#[derive(Debug)]
pub(crate) struct Value {
    dialect: &'static Dialect,
    at: At,
    /// The closing brackets that are due.
    due: Vec<char>,
    /// The string or word at hand is a key.
    is_key: bool,
    /// A word, or the part of a quote that came.
    word: String,
    /// A comma and the spaces after it, until it is known not to be the last.
    comma: String,
}

impl Value {
    pub fn new(dialect: &'static Dialect) -> Self {
        Self { dialect, at: At::Value, due: Vec::new(), is_key: false, word: String::new(), comma: String::new() }
    }

    /// Adds a character, and to `out` the JSON that became certain.
    pub fn feed(&mut self, c: char, out: &mut String) -> Fed {
        match &mut self.at {
            At::Text(text) => match text.feed(c, out) {
                Fed::Done => self.ended(Fed::Done),
                fed => fed,
            },
            At::Word => self.word(c, out),
            At::Quote => self.long_quote(c, out),
            _ if c.is_whitespace() => {
                self.space(c, out);
                Fed::More
            }
            At::Value | At::Item | At::Key => self.begin(c, out),
            At::Colon => self.colon(c, out),
            At::Next => self.next(c, out),
        }
    }

    /// A value that ends with the text: only a bare word can.
    pub fn finish(mut self, out: &mut String) -> bool {
        matches!(self.at, At::Word) && self.feed(' ', out) == Fed::Before
    }

    fn space(&mut self, c: char, out: &mut String) {
        let json = matches!(c, ' ' | '\n' | '\r' | '\t');
        if json && !self.comma.is_empty() {
            self.comma.push(c);
        } else if json && !self.due.is_empty() {
            out.push(c);
        }
    }

    fn begin(&mut self, c: char, out: &mut String) -> Fed {
        self.is_key = matches!(self.at, At::Key);
        if !matches!(self.at, At::Value) && self.due.last() == Some(&c) {
            return self.close(out);
        }
        if self.dialect.quotes.iter().any(|quote| quote.starts_with(c)) {
            self.at = At::Quote;
            self.word.clear();
            return self.long_quote(c, out);
        }
        match c {
            '{' if !self.is_key => self.open('{', '}', At::Key, out),
            '[' if !self.is_key => self.open('[', ']', At::Item, out),
            '(' if !self.is_key && self.dialect.language == Language::Python => self.open('[', ')', At::Item, out),
            _ if is_word(c) => {
                self.at = At::Word;
                self.word.clear();
                self.word.push(c);
                Fed::More
            }
            _ => Fed::Bad(if self.is_key { "a key was expected" } else { "a value was expected" }),
        }
    }

    fn open(&mut self, bracket: char, due: char, at: At, out: &mut String) -> Fed {
        if self.due.len() == MAX_DEPTH {
            return Fed::Bad("the value is nested too deeply");
        }
        self.lead(out);
        out.push(bracket);
        self.due.push(due);
        self.at = at;
        Fed::More
    }

    fn close(&mut self, out: &mut String) -> Fed {
        out.push_str(self.comma.get(1..).unwrap_or_default());
        self.comma.clear();
        self.is_key = false;
        out.push(if self.due.pop() == Some('}') { '}' } else { ']' });
        self.ended(Fed::Done)
    }

    /// The comma before what begins here.
    fn lead(&mut self, out: &mut String) {
        out.push_str(&self.comma);
        self.comma.clear();
    }

    fn ended(&mut self, outermost: Fed) -> Fed {
        self.at = match self.due.is_empty() {
            true => return outermost,
            false if self.is_key => At::Colon,
            false => At::Next,
        };
        self.is_key = false;
        Fed::More
    }

    fn colon(&mut self, c: char, out: &mut String) -> Fed {
        if c != ':' {
            return Fed::Bad("a colon was expected");
        }
        out.push(c);
        self.at = At::Value;
        Fed::More
    }

    fn next(&mut self, c: char, out: &mut String) -> Fed {
        let due = self.due.last().copied();
        if due == Some(c) {
            return self.close(out);
        }
        if c != ',' {
            return Fed::Bad("a comma or a closing bracket was expected");
        }
        self.comma.push(c);
        self.at = if due == Some('}') { At::Key } else { At::Item };
        Fed::More
    }

    fn word(&mut self, c: char, out: &mut String) -> Fed {
        if is_word(c) {
            self.word.push(c);
            return if self.word.len() > MAX_WORD { Fed::Bad("a word is too long") } else { Fed::More };
        }
        let json = match word::to_json(&self.word) {
            Some(json) if !self.is_key => json,
            None if !self.is_key && !self.dialect.bare_strings => return Fed::Bad("a word is no value"),
            _ => quoted(&self.word),
        };
        let mut whole = std::mem::take(&mut self.comma);
        whole.push_str(&json);
        if self.ended(Fed::Before) == Fed::Before {
            out.push_str(&whole);
            return Fed::Before;
        }
        let fed = self.feed(c, &mut whole);
        if !matches!(fed, Fed::Bad(_)) {
            out.push_str(&whole);
        }
        fed
    }

    fn long_quote(&mut self, c: char, out: &mut String) -> Fed {
        self.word.push(c);
        if let Some(quote) = self.dialect.quotes.iter().find(|quote| **quote == self.word) {
            self.at = At::Text(Text::new(self.dialect, quote));
            self.lead(out);
            out.push('"');
            return Fed::More;
        }
        match self.dialect.quotes.iter().any(|quote| quote.starts_with(&self.word)) {
            true => Fed::More,
            false => Fed::Bad("a value was expected"),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$')
}

/// The JSON of a whole text that holds one value, or nothing where it does not.
pub(crate) fn whole(dialect: &'static Dialect, text: &str) -> Option<String> {
    let (mut value, mut out) = (Value::new(dialect), String::new());
    let text = text.trim();
    for (at, c) in text.char_indices() {
        match value.feed(c, &mut out) {
            Fed::More => {}
            Fed::Done if at + c.len_utf8() == text.len() => return Some(out),
            _ => return None,
        }
    }
    value.finish(&mut out).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::{JSON, PYTHON, whole};

    #[test]
    fn json_stays_as_it_is() {
        let json = r#"{"a": [1, -2.5e3, "x\"\\\n"], "b": {}, "c": [], "d": null, "e": [{"f": true}]}"#;
        assert_eq!(whole(&JSON, json).unwrap(), json);
    }

    #[test]
    fn values_of_python_become_json() {
        let json = whole(&PYTHON, r#"{'a': [True, None, ('x', 1,)], 'b': 'it\'s "so"', "c": '\x41'}"#).unwrap();
        assert_eq!(json, r#"{"a": [true, null, ["x", 1]], "b": "it's \"so\"", "c": "A"}"#);
    }

    #[test]
    fn slips_with_one_meaning_are_mended() {
        let json = whole(&JSON, "{\"a\": \"two\nlines\", \"re\": \"\\d+\", \"b\": [1, 2, ], }").unwrap();
        assert_eq!(json, r#"{"a": "two\nlines", "re": "\\d+", "b": [1, 2 ] }"#);
    }

    #[test]
    fn characters_in_two_halves_are_joined_and_lone_halves_replaced() {
        assert_eq!(whole(&JSON, r#""\ud83d\ude00 \ud83d \ude00\ud83d""#).unwrap(), "\"😀 \u{fffd} \u{fffd}\u{fffd}\"");
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in ["{\"a\" 1}", "[1 2]", "{,}", "]", "[1}", "nope", "\"open", "1 2", "", "[,1]"] {
            assert_eq!(whole(&JSON, text), None, "{text}");
        }
    }
}
