//! llama.cpp's grammars (GBNF), rewritten as llguidance's: the same rules, letter by letter.
//!
//! A grammar is rules `name ::= alternatives`, of which `root` is the answer. What stands in an alternative: text in
//! quotes, a class of characters in brackets, `.` for any character, names, groups in parentheses, all of them repeated by
//! `* + ?` or `{m,n}`; and tokens as `<[id]>` or `<name>`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// Groups within groups. llama.cpp has no limit, and no use for more.
const MAX_DEPTH: usize = 64;

/// What is wrong with a grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GbnfError {
    #[error("line {line}: {what}")]
    Syntax { line: usize, what: String },
    #[error("it has no rule named root")]
    NoRoot,
    #[error("the rule {name:?} is used but not defined")]
    Undefined { name: String },
    #[error("the rule {name:?} is defined twice")]
    Twice { name: String },
}

/// The grammar in llguidance's words.
pub(super) fn to_lark(gbnf: &str) -> Result<String, GbnfError> {
    let tokens = Lexer { chars: gbnf.chars().peekable(), line: 1 }.tokens()?;
    let mut parser = Parser { tokens: &tokens, place: 0, names: BTreeMap::new() };
    let mut rules = BTreeMap::new();
    while parser.place < tokens.len() {
        let (name, body) = parser.rule()?;
        if rules.insert(name.clone(), body).is_some() {
            return Err(GbnfError::Twice { name });
        }
    }
    let root = parser.names.get("root").filter(|_| rules.contains_key("root")).ok_or(GbnfError::NoRoot)?;
    let mut lark = format!("start: {root}\n");
    for (name, written) in &parser.names {
        let body = rules.get(name).ok_or_else(|| GbnfError::Undefined { name: name.clone() })?;
        // Writing to a string does not fail.
        let _ = writeln!(lark, "{written}: {body}");
    }
    Ok(lark)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    /// `::=`
    Defines,
    /// As llguidance writes it: text, class or token.
    Terminal(String),
    /// `* + ?` or `{m,n}`.
    Repeat(String),
    Or,
    Open,
    Close,
}

struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Lexer<'_> {
    fn tokens(mut self) -> Result<Vec<(Token, usize)>, GbnfError> {
        let mut tokens = Vec::new();
        while let Some(first) = self.chars.next() {
            let line = self.line;
            let token = match first {
                '\n' => {
                    self.line += 1;
                    continue;
                }
                first if first.is_whitespace() => continue,
                '#' => {
                    self.while_matches(|c| c != '\n');
                    continue;
                }
                '"' => Token::Terminal(self.text()?),
                '[' => Token::Terminal(self.class()?),
                '.' => Token::Terminal("/(?s:.)/".to_owned()),
                '<' => Token::Terminal(self.token()?),
                '*' | '+' | '?' => Token::Repeat(first.to_string()),
                '{' => Token::Repeat(self.count()?),
                '|' => Token::Or,
                '(' => Token::Open,
                ')' => Token::Close,
                ':' => {
                    let rest = self.while_matches(|c| matches!(c, ':' | '='));
                    if rest != ":=" {
                        return Err(self.error("expected `::=`"));
                    }
                    Token::Defines
                }
                first if is_of_name(first) => Token::Name(format!("{first}{}", self.while_matches(is_of_name))),
                other => return Err(self.error(&format!("{other:?} was not expected here"))),
            };
            tokens.push((token, line));
        }
        Ok(tokens)
    }

    fn while_matches(&mut self, rule: impl Fn(char) -> bool) -> String {
        std::iter::from_fn(|| self.chars.next_if(|c| rule(*c))).collect()
    }

    fn text(&mut self) -> Result<String, GbnfError> {
        let mut text = String::new();
        while let Some((c, is_plain)) = self.character("a text")? {
            if c == '"' && is_plain {
                break;
            }
            text.push(c);
        }
        Ok(serde_json::Value::from(text).to_string())
    }

    fn class(&mut self) -> Result<String, GbnfError> {
        let negated = self.chars.next_if_eq(&'^').is_some();
        let mut class = if negated { "/[^".to_owned() } else { "/[".to_owned() };
        let mut is_empty = true;
        while let Some((c, is_plain)) = self.character("a class")? {
            if c == ']' && is_plain {
                break;
            }
            is_empty = false;
            // Writing to a string does not fail.
            let _ = write!(class, "\\x{{{:x}}}", u32::from(c));
            let is_range = self.chars.peek() == Some(&'-') && self.chars.clone().nth(1) != Some(']');
            if is_range {
                self.chars.next();
                let (end, _) = self.character("a class")?.ok_or_else(|| self.error("a class has no end"))?;
                if end < c {
                    return Err(self.error(&format!("the range {c:?} to {end:?} is the wrong way round")));
                }
                let _ = write!(class, "-\\x{{{:x}}}", u32::from(end));
            }
        }
        match (is_empty, negated) {
            (true, true) => Ok("/(?s:.)/".to_owned()),
            (true, false) => Err(self.error("a class is empty")),
            (false, _) => Ok(format!("{class}]/")),
        }
    }

    /// A token of the vocabulary: llguidance spells both kinds as llama.cpp does.
    fn token(&mut self) -> Result<String, GbnfError> {
        let name = self.while_matches(|c| c != '>' && c != '\n');
        self.chars.next_if_eq(&'>').map(|_| format!("<{name}>")).ok_or_else(|| self.error("a token has no end"))
    }

    /// `{m}`, `{m,}` or `{m,n}`, without its first brace.
    fn count(&mut self) -> Result<String, GbnfError> {
        let inner: String = self.while_matches(|c| c != '}' && c != '\n').split_whitespace().collect();
        let is_number = |text: &str| !text.is_empty() && text.len() < 6 && text.bytes().all(|b| b.is_ascii_digit());
        let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
        if self.chars.next_if_eq(&'}').is_none() || !is_number(least) || !(most.is_empty() || is_number(most)) {
            return Err(self.error(&format!("{{{inner}}} is not a number of repetitions")));
        }
        Ok(format!("{{{inner}}}"))
    }

    /// The next character of a text or class, and whether it stands for itself. `what` has no end otherwise.
    fn character(&mut self, what: &str) -> Result<Option<(char, bool)>, GbnfError> {
        let first =
            self.chars.next().filter(|c| *c != '\n').ok_or_else(|| self.error(&format!("{what} has no end")))?;
        if first != '\\' {
            return Ok(Some((first, true)));
        }
        let escaped = match self.chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('x') => self.code(2)?,
            Some('u') => self.code(4)?,
            Some('U') => self.code(8)?,
            Some(c @ ('"' | '\\' | '[' | ']' | '-' | '^' | '/')) => c,
            other => return Err(self.error(&format!("the escape \\{} is not known", other.unwrap_or(' ')))),
        };
        Ok(Some((escaped, false)))
    }

    fn code(&mut self, digits: usize) -> Result<char, GbnfError> {
        let text: String = self.chars.by_ref().take(digits).collect();
        let code = u32::from_str_radix(&text, 16).ok().filter(|_| text.len() == digits).and_then(char::from_u32);
        code.ok_or_else(|| self.error(&format!("{text:?} is not a character's number")))
    }

    fn error(&self, what: &str) -> GbnfError {
        GbnfError::Syntax { line: self.line, what: what.to_owned() }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

struct Parser<'a> {
    tokens: &'a [(Token, usize)],
    place: usize,
    /// llguidance's names of the rules: lower case, without dashes.
    names: BTreeMap<String, String>,
}

impl Parser<'_> {
    fn rule(&mut self) -> Result<(String, String), GbnfError> {
        match (self.next(), self.next()) {
            (Some(Token::Name(name)), Some(Token::Defines)) => {
                self.written(&name);
                Ok((name, self.alternatives(0)?))
            }
            _ => Err(self.error("expected a rule: `name ::= ...`")),
        }
    }

    fn alternatives(&mut self, depth: usize) -> Result<String, GbnfError> {
        if depth > MAX_DEPTH {
            return Err(self.error("groups are nested too deep"));
        }
        let mut body = self.sequence(depth)?;
        while self.next_is(&Token::Or) {
            body.push_str(" | ");
            body.push_str(&self.sequence(depth)?);
        }
        Ok(body)
    }

    fn sequence(&mut self, depth: usize) -> Result<String, GbnfError> {
        let mut items: Vec<String> = Vec::new();
        loop {
            let item = match self.peek() {
                Some(Token::Name(_)) if self.is_rule_next() => break,
                Some(Token::Name(name)) => {
                    let name = name.clone();
                    self.written(&name)
                }
                Some(Token::Terminal(terminal)) => terminal.clone(),
                Some(Token::Open) => {
                    self.place += 1;
                    let group = format!("({})", self.alternatives(depth + 1)?);
                    if self.peek() != Some(&Token::Close) {
                        return Err(self.error("expected `)`"));
                    }
                    group
                }
                Some(Token::Repeat(_)) => return Err(self.error("there is nothing to repeat")),
                Some(Token::Defines) => return Err(self.error("`::=` was not expected here")),
                Some(Token::Or | Token::Close) | None => break,
            };
            self.place += 1;
            items.push(format!("{item}{}", self.repeats()));
        }
        Ok(if items.is_empty() { "\"\"".to_owned() } else { items.join(" ") })
    }

    fn repeats(&mut self) -> String {
        match self.peek() {
            Some(Token::Repeat(repeat)) => {
                let repeat = repeat.clone();
                self.place += 1;
                repeat
            }
            _ => String::new(),
        }
    }

    fn is_rule_next(&self) -> bool {
        self.tokens.get(self.place + 1).is_some_and(|(token, _)| *token == Token::Defines)
    }

    /// The rule's name in llguidance's grammar.
    fn written(&mut self, name: &str) -> String {
        let number = self.names.len();
        self.names.entry(name.to_owned()).or_insert_with(|| format!("rule_{number}")).clone()
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.place).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.place += 1;
        token
    }

    fn next_is(&mut self, token: &Token) -> bool {
        let is = self.peek() == Some(token);
        self.place += usize::from(is);
        is
    }

    fn error(&self, what: &str) -> GbnfError {
        let (_, line) = self.tokens.get(self.place).or(self.tokens.last()).unwrap_or(&(Token::Or, 1));
        GbnfError::Syntax { line: *line, what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_rewritten_letter_by_letter() {
        let gbnf = "# an answer\nroot ::= \"yes\\n\" | no-way{1,2} [a-c/] .\nno-way ::= (\"n\" [^\\\"])* <|end|>";
        let lark = to_lark(gbnf).unwrap();
        let expected = "start: rule_0\n\
            rule_1: (\"n\" /[^\\x{22}]/)* <|end|>\n\
            rule_0: \"yes\\n\" | rule_1{1,2} /[\\x{61}-\\x{63}\\x{2f}]/ /(?s:.)/\n";
        assert_eq!(lark, expected);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (gbnf, message) in [
            ("root ::= \"a", "line 1: a text has no end"),
            ("root ::= a", "the rule \"a\" is used but not defined"),
            ("a ::= \"x\"", "it has no rule named root"),
            ("root ::= \"a\"\nroot ::= \"b\"", "the rule \"root\" is defined twice"),
            ("root ::= \"a\"\n ::= \"b\"", "line 2: `::=` was not expected here"),
            ("root ::= (\"a\"", "line 1: expected `)`"),
            ("root ::= [z-a]", "line 1: the range 'z' to 'a' is the wrong way round"),
            ("root ::= \"a\"{x}", "line 1: {x} is not a number of repetitions"),
            ("root ::= \"\\q\"", "line 1: the escape \\q is not known"),
            ("root ::= * \"a\"", "line 1: there is nothing to repeat"),
            ("root := \"a\"", "line 1: expected `::=`"),
        ] {
            assert_eq!(to_lark(gbnf).unwrap_err().to_string(), message, "{gbnf}");
        }
    }

    #[test]
    fn groups_that_go_too_deep_are_refused() {
        let gbnf = format!("root ::= {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(to_lark(&gbnf).unwrap_err().to_string().contains("nested too deep"));
    }
}
