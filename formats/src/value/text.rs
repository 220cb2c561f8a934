//! One string of a value, turned into the inside of one of JSON character by character.

use super::{Dialect, Fed, Language};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Slash,
    Hex { left: u8, code: u32 },
}

/// A string after its opening quote.
#[derive(Debug)]
pub(super) struct Text {
    dialect: &'static Dialect,
    quote: &'static str,
    /// What may be the beginning of the closing quote.
    held: String,
    escape: Escape,
    /// The first half of a character beyond the basic plane.
    high: Option<u32>,
}

impl Text {
    pub fn new(dialect: &'static Dialect, quote: &'static str) -> Self {
        Self { dialect, quote, held: String::new(), escape: Escape::None, high: None }
    }

    /// Adds a character, and to `out` what it is in JSON.
    pub fn feed(&mut self, c: char, out: &mut String) -> Fed {
        match self.escape {
            Escape::None if c == '\\' && self.dialect.escapes => {
                self.escape = Escape::Slash;
                Fed::More
            }
            Escape::None => self.plain(c, out),
            Escape::Slash => {
                self.escaped(c, out);
                Fed::More
            }
            Escape::Hex { left, code } => self.hex(c, left, code, out),
        }
    }

    /// A character of a string, or of the quote that ends it.
    fn plain(&mut self, c: char, out: &mut String) -> Fed {
        self.drop_half(out);
        self.held.push(c);
        let mut from = 0;
        while from < self.held.len() && !self.quote.starts_with(&self.held[from..]) {
            let first = self.held[from..].chars().next().expect("`from` is before the end");
            push_escaped(first, out);
            from += first.len_utf8();
        }
        self.held.drain(..from);
        if self.held != self.quote {
            return Fed::More;
        }
        out.push('"');
        Fed::Done
    }

    fn escaped(&mut self, c: char, out: &mut String) {
        self.escape = match c {
            'u' => Escape::Hex { left: 4, code: 0 },
            'x' if self.dialect.language == Language::Python => Escape::Hex { left: 2, code: 0 },
            _ => Escape::None,
        };
        if self.escape != Escape::None {
            return;
        }
        self.drop_half(out);
        match c {
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => out.extend(['\\', c]),
            '\'' => out.push(c),
            // As in a regular expression or a path whose backslash was not doubled.
            _ => {
                out.push_str("\\\\");
                push_escaped(c, out);
            }
        }
    }

    fn hex(&mut self, c: char, left: u8, code: u32, out: &mut String) -> Fed {
        let Some(digit) = c.to_digit(16) else { return Fed::Bad("an escape needs hexadecimal digits") };
        let code = code * 16 + digit;
        if left > 1 {
            self.escape = Escape::Hex { left: left - 1, code };
            return Fed::More;
        }
        self.escape = Escape::None;
        let high = self.high.take();
        match (high, code) {
            (Some(high), 0xDC00..=0xDFFF) => {
                let code = 0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => {
                if high.is_some() {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                match code {
                    0xD800..=0xDBFF => self.high = Some(code),
                    _ => push_escaped(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), out),
                }
            }
        }
        Fed::More
    }

    /// Half a character that nothing completed.
    fn drop_half(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// `text` as a string of JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    text.chars().for_each(|c| push_escaped(c, &mut out));
    out.push('"');
    out
}

/// A character as it stands in a string of JSON.
pub(crate) fn push_escaped(c: char, out: &mut String) {
    match c {
        '"' | '\\' => out.extend(['\\', c]),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push(c),
    }
}
