//! The room that one rendering has: what operators, filters and methods may write together, and how long a list may be.
//!
//! Steps bound how much a template does, not how large a step is. What can make a value grow is counted here, before it
//! allocates; `template_rewrite.rs` sees to it that the operators come here.

use std::fmt::{self, Write as _};

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// Bytes that one rendering may write in all steps together. A long conversation takes a few MB.
const MAX_WORK_BYTES: u64 = 512 << 20;
/// Bytes of one text, and items of one list.
const MAX_TEXT_BYTES: usize = 32 << 20;
const MAX_ITEMS: usize = 1 << 20;
/// What an item counts for beside text.
const BYTES_PER_ITEM: usize = 16;
/// Blanks, digits and the like that are asked for by number.
const MAX_WIDTH: usize = 10_000;
/// What is used up so far, kept in the state of the rendering.
const USED: &str = "__room_used";

/// Adds the operators that templates are rewritten to, and bounds filters that multiply.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function("__concat", concat);
    environment.add_function("__add", add);
    environment.add_function("__mul", mul);
    environment.add_function("__tree", |state: &State, value: Value| {
        check_tree(state, std::slice::from_ref(&value))?;
        Ok::<_, Error>(value)
    });
    environment.add_function("__dict", minijinja::functions::dict);
    environment.add_function("dict", |state: &State, args: Rest<Value>| {
        check_tree(state, &args)?;
        state.lookup("__dict").unwrap_or_default().call(state, &args)
    });
    environment.add_function("__namespace", minijinja::functions::namespace);
    environment.add_function("namespace", |state: &State, args: Rest<Value>| {
        check_tree(state, &args)?;
        state.lookup("__namespace").unwrap_or_default().call(state, &args)
    });
    environment.add_filter("__zip", minijinja::filters::zip);
    environment.add_filter("zip", |state: &State, args: Rest<Value>| within_tree(state, "__zip", &args));
    environment.add_filter("__chain", minijinja::filters::chain);
    environment.add_filter("chain", |state: &State, args: Rest<Value>| within_tree(state, "__chain", &args));
    environment.add_filter("join", join);
    environment.add_filter("__replace", minijinja::filters::replace);
    environment.add_filter("replace", |state: &State, args: Rest<Value>| {
        check_replace(state, &args)?;
        state.apply_filter("__replace", &args)
    });
    environment.add_filter("__indent", minijinja::filters::indent);
    environment.add_filter("indent", |state: &State, args: Rest<Value>| narrow(state, "__indent", &args));
    environment.add_filter("__batch", minijinja::filters::batch);
    environment.add_filter("batch", |state: &State, args: Rest<Value>| narrow(state, "__batch", &args));
    environment.add_filter("__slice", minijinja::filters::slice);
    environment.add_filter("slice", |state: &State, args: Rest<Value>| narrow(state, "__slice", &args));
    environment.add_filter("__format", minijinja::filters::format);
    environment.add_filter("format", |state: &State, args: Rest<Value>| {
        check_format(args.first())?;
        state.apply_filter("__format", &args)
    });
}

/// Methods of text that multiply; the others are Python's as the engine's companion has them.
pub(super) fn check_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<(), Error> {
    match method {
        "replace" => {
            let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
            check_replace(state, &all)
        }
        "join" => {
            let mut text = Text::new();
            let items = args.first().map(|items| join_into(&mut text, items, value.as_str().unwrap_or_default()));
            items.unwrap_or(Ok(())).and_then(|()| spend(state, text.0.len()))
        }
        "format" => check_format(Some(value)),
        _ => Ok(()),
    }
}

/// Takes `bytes` of the room of this rendering.
pub(super) fn spend(state: &State, bytes: usize) -> Result<(), Error> {
    let used = state.get_temp(USED).and_then(|used| u64::try_from(used).ok()).unwrap_or(0) + bytes as u64;
    state.set_temp(USED, used.into());
    if used > MAX_WORK_BYTES { Err(too_large()) } else { Ok(()) }
}

/// Text that grows up to a limit.
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn new() -> Self {
        Self(String::new())
    }

    /// Appends `text`, or says that there is no room for it.
    pub(super) fn put(&mut self, text: &str) -> Result<(), Error> {
        self.write_str(text).map_err(|_| too_large())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > MAX_TEXT_BYTES - self.0.len() {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

pub(super) fn too_large() -> Error {
    let what =
        format!("a value grows without end: more than {} MiB of text, or {MAX_ITEMS} items", MAX_TEXT_BYTES >> 20);
    Error::new(ErrorKind::InvalidOperation, what)
}

fn concat(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    let mut text = Text::new();
    write!(text, "{left}{right}").map_err(|_| too_large())?;
    spend(state, text.0.len())?;
    Ok(text.0.into())
}

fn add(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        check_text(state, a.len().checked_add(b.len()))?;
    } else if is_list(left) && is_list(right) {
        let sum = left.len().zip(right.len()).and_then(|(a, b)| a.checked_add(b));
        check_items(state, sum)?;
        check_tree(state, &[left.clone(), right.clone()])?;
    }
    evaluate(state, "left + right", left, right)
}

fn mul(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    for (value, times) in [(left, right), (right, left)] {
        let times = || times.as_usize().unwrap_or(0);
        if let Some(text) = value.as_str() {
            check_text(state, text.len().checked_mul(times()))?;
        } else if is_list(value) {
            check_items(state, value.len().and_then(|len| len.checked_mul(times())))?;
        }
    }
    evaluate(state, "left * right", left, right)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Takes the bytes of one text, whose number may be beyond counting.
pub(super) fn check_text(state: &State, bytes: Option<usize>) -> Result<(), Error> {
    let bytes = bytes.filter(|bytes| *bytes <= MAX_TEXT_BYTES).ok_or_else(too_large)?;
    spend(state, bytes)
}

fn check_items(state: &State, items: Option<usize>) -> Result<(), Error> {
    let items = items.filter(|items| *items <= MAX_ITEMS).ok_or_else(too_large)?;
    spend(state, items)
}

/// Refuses values that have too many items at all depths together. Lists that hold a list twice take no memory, but whatever
/// looks through them, as a comparison does, takes twice the time for each level.
fn check_tree(state: &State, values: &[Value]) -> Result<(), Error> {
    let mut rest = values.to_vec();
    let mut seen = 0;
    while let Some(value) = rest.pop() {
        seen += 1;
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => rest.extend(value.try_iter()?.take(MAX_ITEMS + 1)),
            ValueKind::Map => {
                rest.extend(value.try_iter()?.take(MAX_ITEMS + 1).filter_map(|key| value.get_item(&key).ok()));
            }
            _ => {}
        }
        if seen + rest.len() > MAX_ITEMS {
            return Err(too_large());
        }
    }
    // Looking through it is not free either.
    spend(state, seen.saturating_mul(BYTES_PER_ITEM))
}

fn within_tree(state: &State, filter: &str, args: &[Value]) -> Result<Value, Error> {
    check_tree(state, args)?;
    state.apply_filter(filter, args)
}

/// The engine's own operator, which it has for expressions only.
fn evaluate(state: &State, expression: &str, left: &Value, right: &Value) -> Result<Value, Error> {
    let result = state.env().compile_expression(expression)?.eval(minijinja::context! { left, right });
    // Without the place in the little expression.
    result.map_err(|error| Error::new(error.kind(), error.detail().unwrap_or_default().to_owned()))
}

fn join(state: &State, items: &Value, joiner: Option<&str>) -> Result<Value, Error> {
    let mut text = Text::new();
    join_into(&mut text, items, joiner.unwrap_or_default())?;
    spend(state, text.0.len())?;
    Ok(text.0.into())
}

fn join_into(text: &mut Text, items: &Value, joiner: &str) -> Result<(), Error> {
    for (place, item) in items.try_iter()?.enumerate() {
        let written = if place > 0 { text.write_str(joiner) } else { Ok(()) };
        written.and_then(|()| write!(text, "{item}")).map_err(|_| too_large())?;
        if place > MAX_ITEMS {
            return Err(too_large());
        }
    }
    Ok(())
}

/// `value.replace(from, to)`.
fn check_replace(state: &State, args: &[Value]) -> Result<(), Error> {
    let [Some(value), Some(from), Some(to)] = [0, 1, 2].map(|place| args.get(place).and_then(Value::as_str)) else {
        return Ok(());
    };
    let grown = value.matches(from).count().checked_mul(to.len());
    check_text(state, grown.and_then(|grown| grown.checked_add(value.len())))
}

/// Calls a filter whose numbers say how much it adds.
fn narrow(state: &State, filter: &str, args: &[Value]) -> Result<Value, Error> {
    let too_wide = |value: &Value| value.is_integer() && value.as_usize().is_none_or(|number| number > MAX_WIDTH);
    let named = args.last().filter(|value| value.is_kwargs());
    let named = named.into_iter().flat_map(|kwargs| {
        kwargs.try_iter().into_iter().flatten().filter_map(|key| kwargs.get_item(&key).ok()).collect::<Vec<_>>()
    });
    if args.iter().skip(1).any(too_wide) || named.into_iter().any(|value| too_wide(&value)) {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("at most {MAX_WIDTH} can be asked for")));
    }
    let lines = args.first().and_then(Value::as_str).map_or(0, |text| text.lines().count());
    let width = args.iter().skip(1).filter_map(Value::as_usize).max().unwrap_or(16);
    check_text(state, lines.checked_mul(width))?;
    check_tree(state, args)?;
    state.apply_filter(filter, args)
}

/// A width in a format: `%1000000000d`.
fn check_format(format: Option<&Value>) -> Result<(), Error> {
    let format = format.and_then(Value::as_str).unwrap_or_default();
    let longest = format.split(|char: char| !char.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    // Four digits are below the width that is allowed.
    if longest <= 4 && !format.contains('*') {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOperation, format!("a format asks for a width of {MAX_WIDTH} or more")))
}
