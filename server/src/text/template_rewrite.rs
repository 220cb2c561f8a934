//! Rewrites a chat template so that every operator that can make a value grow asks for its room first.
//!
//! The engine counts steps, and one step can double a text: `{% set x = x ~ x %}` forty times is a terabyte. So `a ~ b`
//! becomes `__concat(a, b)`, `+` and `*` likewise, and a list of values `__tree([a, b])` (see `template_room.rs`). Places come from the engine's own parser, and
//! all else stays as it was written, lines included.

use minijinja::machinery::ast::{BinOpKind, Expr, Stmt};
use minijinja::machinery::{Token, WhitespaceConfig, parse, tokenize};

/// Tokens of one tag. Chains of operators are nested values to the engine, which takes them apart recursively.
const MAX_TAG_TOKENS: usize = 10_000;
/// `elif`s nest, too.
const MAX_ELIFS: usize = 10_000;
/// Text between tags that a loop or a macro may repeat.
const MAX_REPEATED_TEXT: usize = 4 << 10;

/// As the environment is set up; both must read a template alike.
pub(super) const WHITESPACE: WhitespaceConfig =
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };

/// The operators of a template by the place of their first byte, in order.
type Operators = Vec<(usize, char)>;

/// `source` with bounded operators. What cannot be parsed is left for the engine to refuse. To be called with much stack.
pub(super) fn rewritten(source: &str) -> Result<String, String> {
    let Some(operators) = operators(source)? else { return Ok(source.to_owned()) };
    let Ok(template) = parse(source, "default", Default::default(), WHITESPACE) else { return Ok(source.to_owned()) };
    let mut edits = Edits { operators: &operators, edits: Vec::new(), error: None };
    edits.statement(&template, false);
    match edits.error {
        Some(error) => Err(error),
        None => Ok(apply(source, edits.edits)),
    }
}

/// Looks at a template's tokens; `None` if they are none.
fn operators(source: &str) -> Result<Option<Operators>, String> {
    let (mut operators, mut num_tokens, mut num_elifs) = (Vec::new(), 0, 0);
    for token in tokenize(source, false, Default::default(), WHITESPACE) {
        let Ok((token, span)) = token else { return Ok(None) };
        num_tokens += 1;
        match token {
            Token::TemplateData(_) | Token::BlockStart | Token::VariableStart => num_tokens = 0,
            Token::Ident("elif") => num_elifs += 1,
            Token::Tilde => operators.push((span.start_offset as usize, '~')),
            Token::Plus => operators.push((span.start_offset as usize, '+')),
            Token::Mul => operators.push((span.start_offset as usize, '*')),
            _ => {}
        }
        if num_tokens > MAX_TAG_TOKENS || num_elifs > MAX_ELIFS {
            let (line, most) = (span.start_line, MAX_TAG_TOKENS);
            return Err(format!("it has more than {most} words in one tag, or as many elifs (line {line})"));
        }
    }
    Ok(Some(operators))
}

/// Where text is put in, and how many bytes it replaces.
struct Edit {
    at: usize,
    /// At one place: what closes, the operator, what opens.
    rank: u8,
    replaces: usize,
    text: &'static str,
}

fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.at, edit.rank));
    let (mut out, mut done) = (String::with_capacity(source.len() + 16 * edits.len()), 0);
    for edit in edits {
        out.push_str(&source[done..edit.at]);
        out.push_str(edit.text);
        done = edit.at + edit.replaces;
    }
    out.push_str(&source[done..]);
    out
}

struct Edits<'a> {
    operators: &'a Operators,
    edits: Vec<Edit>,
    error: Option<String>,
}

impl Edits<'_> {
    fn statements(&mut self, statements: &[Stmt], repeated: bool) {
        statements.iter().for_each(|statement| self.statement(statement, repeated));
    }

    /// `repeated`: within a loop or a macro.
    fn statement(&mut self, statement: &Stmt, repeated: bool) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children, repeated),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::EmitRaw(text) if repeated && text.raw.len() > MAX_REPEATED_TEXT => {
                let len = text.raw.len();
                self.error = Some(format!(
                    "a loop or macro repeats a text of {len} bytes, at most {MAX_REPEATED_TEXT} are possible"
                ));
            }
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
            Stmt::ForLoop(the) => {
                self.expression(&the.iter);
                self.expressions(&the.filter_expr);
                self.statements(&the.body, true);
                self.statements(&the.else_body, repeated);
            }
            Stmt::IfCond(the) => {
                self.expression(&the.expr);
                self.statements(&the.true_body, repeated);
                self.statements(&the.false_body, repeated);
            }
            Stmt::WithBlock(the) => {
                the.assignments.iter().for_each(|(_, value)| self.expression(value));
                self.statements(&the.body, repeated);
            }
            Stmt::Set(the) => self.expression(&the.expr),
            Stmt::SetBlock(the) => {
                self.expressions(&the.filter);
                self.statements(&the.body, repeated);
            }
            Stmt::AutoEscape(the) => self.statements(&the.body, repeated),
            Stmt::FilterBlock(the) => {
                self.expression(&the.filter);
                self.statements(&the.body, repeated);
            }
            Stmt::Block(the) => self.statements(&the.body, repeated),
            Stmt::Macro(the) => {
                self.expressions(&the.defaults);
                self.statements(&the.body, true);
            }
            Stmt::CallBlock(the) => {
                self.call(&the.call);
                self.statements(&the.macro_decl.body, true);
            }
            Stmt::Do(the) => self.call(&the.call),
            // Nothing can be loaded.
            Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {}
        }
    }

    fn expressions<'b>(&mut self, expressions: impl IntoIterator<Item = &'b Expr<'b>>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn call(&mut self, call: &minijinja::machinery::ast::Call) {
        self.expression(&call.expr);
        self.arguments(&call.args);
    }

    fn arguments(&mut self, arguments: &[minijinja::machinery::ast::CallArg]) {
        use minijinja::machinery::ast::CallArg::{Kwarg, KwargSplat, Pos, PosSplat};
        for argument in arguments {
            match argument {
                Pos(value) | Kwarg(_, value) | PosSplat(value) | KwargSplat(value) => self.expression(value),
            }
        }
    }

    fn expression(&mut self, expression: &Expr) {
        match expression {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(the) => {
                self.expression(&the.expr);
                self.expressions(the.start.iter().chain(&the.stop).chain(&the.step));
            }
            Expr::UnaryOp(the) => self.expression(&the.expr),
            Expr::BinOp(the) => {
                let span = expression.span();
                let end = span.end_offset as usize;
                self.operation(the.op, span.start_offset as usize, the.right.span().start_offset as usize, end);
                self.expression(&the.left);
                self.expression(&the.right);
            }
            Expr::Compare(the) => {
                self.expression(&the.expr);
                the.ops.iter().for_each(|op| self.expression(&op.expr));
            }
            Expr::IfExpr(the) => {
                self.expressions([&the.test_expr, &the.true_expr]);
                self.expressions(&the.false_expr);
            }
            Expr::Filter(the) => {
                self.expressions(&the.expr);
                self.arguments(&the.args);
            }
            Expr::Test(the) => {
                self.expression(&the.expr);
                self.arguments(&the.args);
            }
            Expr::GetAttr(the) => self.expression(&the.expr),
            Expr::GetItem(the) => self.expressions([&the.expr, &the.subscript_expr]),
            Expr::Call(the) => self.call(the),
            Expr::List(the) => {
                self.literal(expression, &the.items);
                self.expressions(&the.items);
            }
            Expr::Map(the) => {
                self.literal(expression, &the.values);
                self.expressions(&the.keys);
                self.expressions(&the.values);
            }
        }
    }

    /// A list or map of values that are lists or maps already, as it may double them.
    fn literal(&mut self, literal: &Expr, items: &[Expr]) {
        if items.iter().filter(|item| !matches!(item, Expr::Const(_))).count() > 1 {
            let span = literal.span();
            self.edits.push(Edit { at: span.start_offset as usize, rank: 2, replaces: 0, text: "__tree(" });
            self.edits.push(Edit { at: span.end_offset as usize, rank: 0, replaces: 0, text: ")" });
        }
    }

    /// An operation from `start` to `end`, whose right side begins at `right` or at a parenthesis shortly before.
    fn operation(&mut self, op: BinOpKind, start: usize, right: usize, end: usize) {
        let (open, sign) = match op {
            BinOpKind::Concat => ("__concat(", '~'),
            BinOpKind::Add => ("__add(", '+'),
            BinOpKind::Mul => ("__mul(", '*'),
            _ => return,
        };
        let before = self.operators.partition_point(|(at, _)| *at < right);
        let found = self.operators[..before].iter().rev().find(|(at, found)| *found == sign && *at > start);
        let Some((at, _)) = found else {
            self.error = Some(format!("its operator before byte {right} was not found"));
            return;
        };
        self.edits.push(Edit { at: start, rank: 2, replaces: 0, text: open });
        self.edits.push(Edit { at: *at, rank: 1, replaces: 1, text: "," });
        self.edits.push(Edit { at: end, rank: 0, replaces: 0, text: ")" });
    }
}

#[cfg(test)]
mod tests {
    use super::rewritten;

    #[test]
    fn operators_become_calls_and_all_else_stays() {
        for (source, expected) in [
            ("a ~ b\n{{ a~b }}", "a ~ b\n{{ __concat(a,b) }}"),
            ("{{ a ~ b ~ c }}", "{{ __concat(__concat(a , b) , c) }}"),
            ("{{ (a + b) * (c + 1) }}", "{{ __mul((__add(a , b)) , (__add(c , 1))) }}"),
            ("{{ a + b ~ c * d }}", "{{ __add(a , __concat(b , __mul(c , d))) }}"),
            ("{%- set x = 'a ~ b' ~ [x ~ y][0] -%}", "{%- set x = __concat('a ~ b' , [__concat(x , y)][0]) -%}"),
            (
                "{{ f(a ~ b, k=c ~ d) | trim ~ '~' }}",
                "{{ __concat(f(__concat(a , b), k=__concat(c , d)) | trim , '~') }}",
            ),
            ("{{ -1 - 2 if a - b else not c ~ d }}", "{{ -1 - 2 if a - b else not __concat(c , d) }}"),
            ("{{ [a, b ~ 1] + ['x', 1] }}", "{{ __add(__tree([a, __concat(b , 1)]) , ['x', 1]) }}"),
            ("{% set x = {'a': a, 'b': b} %}", "{% set x = __tree({'a': a, 'b': b}) %}"),
            ("{% raw %}{{ a ~ b }}{% endraw %}", "{% raw %}{{ a ~ b }}{% endraw %}"),
        ] {
            assert_eq!(rewritten(source).unwrap(), expected);
        }
    }

    #[test]
    fn a_chain_without_end_is_refused() {
        let error = rewritten(&format!("{{{{ a{} }}}}", " ~ a".repeat(100_000))).unwrap_err();
        assert!(error.contains("more than 10000 words in one tag"), "{error}");
    }
}
