//! Chat templates: a conversation written out as the prompt its model was trained on.
//!
//! Templates are Jinja as `transformers` runs it (block trimming on, loop controls, `raise_exception`,
//! `strftime_now`, Python's `tojson`), and foreign code: they get a budget of steps, a limit on their output and no
//! access to anything outside. The Python manners are in `template_python.rs`, where templates are found is in
//! `template_source.rs`.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};

use super::guard::guarded;
use super::template_python::{self, RaisedException};
use super::template_rewrite::{self, WHITESPACE};
use super::template_room;
use super::template_source::TemplateSources;

/// Name of the template for ordinary chat, and of the one preferred when tools are given.
pub(super) const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// Used when the checkpoint has no template (a base model): plain text that any model can continue.
const FALLBACK: &str = "\
{% macro text(content) %}{% if content is string %}{{ content }}{% elif content %}{% for part in content %}\
{{ part.text }}{% endfor %}{% endif %}{% endmacro %}\
{% for message in messages %}\
{% if message.role in ['system', 'developer'] %}{{ text(message.content) ~ '\n\n' }}\
{% else %}{{ message.role | capitalize ~ ': ' ~ text(message.content) ~ '\n' }}{% endif %}\
{% endfor %}\
{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// Where the model goes on by itself to play the other side of the [`FALLBACK`] conversation.
const FALLBACK_STOP: &str = "\nUser:";

/// A step can wrap a value in one more list, and freeing a level of nesting takes up to 210 bytes of stack.
const STACK_BYTES_PER_STEP: usize = 256;
/// What the engine itself needs, with its recursion limit.
const MIN_STACK_BYTES: usize = 8 << 20;
/// Enough for expressions as long as `template_rewrite.rs` lets pass. It costs address space, not memory.
const COMPILER_STACK_BYTES: usize = 64 << 20;

/// Bounds on one rendering. Steps bound the time; `template_room.rs` bounds the memory in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateLimits {
    /// Steps of the template engine; a turn of a long template takes a few hundred.
    pub steps: u64,
    /// Length of the prompt.
    pub output_bytes: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self { steps: 1_000_000, output_bytes: 32 << 20 }
    }
}

/// Why a template could not be loaded or rendered.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the chat template could not be read: {0}")]
    Source(String),
    #[error("the chat template is not valid: {0}")]
    Syntax(String),
    /// The template refuses the conversation, in words meant for whoever wrote it.
    #[error("{0}")]
    Raised(String),
    #[error(
        "the chat template took more than {limit} steps on this conversation: it loops, or the conversation is too long for it"
    )]
    TooManySteps { limit: u64 },
    #[error(
        "the chat template wrote more than {limit} bytes for this conversation: it loops, or the conversation is too long for it"
    )]
    TooLong { limit: usize },
    #[error("the chat template failed on this conversation: {0}")]
    Failed(String),
}

/// How much of what a template says is shown.
const MAX_RAISED_CHARS: usize = 2000;

/// A conversation to write out.
#[derive(Debug, Clone, Copy)]
pub struct ChatInput<'a> {
    /// Each with `role`, `content` (text, or a list of parts as the template expects them) and any other field.
    pub messages: &'a [Value],
    /// Tool definitions, as in OpenAI's API.
    pub tools: Option<&'a Value>,
    /// End with the beginning of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Further variables for the template, such as `enable_thinking`; they win over the ones above.
    pub kwargs: &'a Map<String, Value>,
}

/// A checkpoint's chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// By name, as they were written: what the environment has is rewritten.
    sources: BTreeMap<String, String>,
    special_tokens: Vec<(String, String)>,
    limits: TemplateLimits,
    is_fallback: bool,
}

impl ChatTemplate {
    /// Compiles the templates of a checkpoint. Without any, a plain text form stands in, see
    /// [`ChatTemplate::is_fallback`].
    ///
    /// # Errors
    /// When a template is not valid Jinja, or there are some but none for ordinary chat.
    pub fn new(sources: &TemplateSources, limits: TemplateLimits) -> Result<Self, TemplateError> {
        let fallback = BTreeMap::from([(DEFAULT.to_owned(), FALLBACK.to_owned())]);
        let is_fallback = sources.templates.is_empty();
        let templates = if is_fallback { &fallback } else { &sources.templates };
        if !templates.contains_key(DEFAULT) {
            let names: Vec<_> = templates.keys().collect();
            return Err(TemplateError::Source(format!(
                "there are templates named {names:?}, but none named {DEFAULT:?}"
            )));
        }
        let environment = on_own_stack(COMPILER_STACK_BYTES, || compiled(templates, limits))?;
        let (sources, special_tokens) = (templates.clone(), sources.special_tokens.clone());
        Ok(Self { environment, sources, special_tokens, limits, is_fallback })
    }

    /// Whether the checkpoint has no template, and conversations are written as `User: ...` and `Assistant: ...`
    /// lines after the system text.
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// The template for ordinary chat, as Jinja.
    pub fn source(&self) -> &str {
        &self.sources[DEFAULT]
    }

    /// All templates, for what they show of the model's chat format.
    pub fn sources(&self) -> String {
        self.sources.values().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Stop strings that the form needs besides the model's own end tokens.
    pub fn stop_strings(&self) -> &'static [&'static str] {
        if self.is_fallback { &[FALLBACK_STOP] } else { &[] }
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    /// When the template refuses the conversation, does not fit its form, or passes a limit. All of these are for
    /// the client to hear.
    pub fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let has_tools = input.tools.is_some_and(|tools| tools.as_array().is_none_or(|tools| !tools.is_empty()));
        let template = match self.environment.get_template(TOOL_USE) {
            Ok(template) if has_tools => template,
            _ => self.environment.get_template(DEFAULT).expect("`new` makes sure of a default template"),
        };
        let variables = self.variables(input);
        let stack_size = usize::try_from(self.limits.steps).unwrap_or(usize::MAX).saturating_mul(STACK_BYTES_PER_STEP);
        on_own_stack(stack_size.max(MIN_STACK_BYTES), || self.render_here(&template, variables))
    }

    fn render_here(&self, template: &minijinja::Template, variables: Variables) -> Result<String, TemplateError> {
        let mut output = Bounded { bytes: Vec::new(), limit: self.limits.output_bytes, is_exceeded: false };
        match template.render_captured_to(variables, &mut output) {
            Ok(_) => String::from_utf8(output.bytes).map_err(|error| TemplateError::Failed(error.to_string())),
            Err(_) if output.is_exceeded => Err(TemplateError::TooLong { limit: self.limits.output_bytes }),
            Err(error) => Err(self.explain(&error)),
        }
    }

    fn variables(&self, input: &ChatInput) -> Variables {
        let mut variables = Variables::new();
        for (name, token) in &self.special_tokens {
            variables.insert(name.clone(), minijinja::Value::from(token.as_str()));
        }
        // Absent tools and documents are `none`, not undefined: templates ask `is not none`.
        variables.insert("messages".into(), minijinja::Value::from_serialize(input.messages));
        variables.insert("tools".into(), minijinja::Value::from_serialize(input.tools));
        variables.insert("documents".into(), minijinja::Value::from(()));
        variables.insert("add_generation_prompt".into(), input.add_generation_prompt.into());
        for (name, value) in input.kwargs {
            variables.insert(name.clone(), minijinja::Value::from_serialize(value));
        }
        variables
    }

    fn explain(&self, error: &minijinja::Error) -> TemplateError {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(RaisedException(message)) = cause.downcast_ref() {
                return TemplateError::Raised(message.chars().take(MAX_RAISED_CHARS).collect());
            }
            source = cause.source();
        }
        match error.kind() {
            ErrorKind::OutOfFuel => TemplateError::TooManySteps { limit: self.limits.steps },
            _ => TemplateError::Failed(describe(error).chars().take(MAX_RAISED_CHARS).collect()),
        }
    }
}

/// What a template sees, by name.
type Variables = BTreeMap<String, minijinja::Value>;

/// Runs `work` on a thread of its own, which keeps the rest of the process safe from what a template can do to the engine
/// (2.24): it panics on some slices with a negative step, such as `[][::-1]`, and takes nested values apart recursively.
fn on_own_stack<T: Send>(
    stack_size: usize,
    work: impl FnOnce() -> Result<T, TemplateError> + Send,
) -> Result<T, TemplateError> {
    let thread = std::thread::Builder::new().name("template".to_owned()).stack_size(stack_size);
    std::thread::scope(|scope| {
        let working = thread
            .spawn_scoped(scope, move || guarded(work))
            .map_err(|error| TemplateError::Failed(format!("no thread to run it: {error}")))?;
        let gave_up = || Err(TemplateError::Failed("the template engine gave up on an expression".to_owned()));
        working.join().ok().and_then(Result::ok).unwrap_or_else(gave_up)
    })
}

/// An environment with all templates of a checkpoint.
fn compiled(
    templates: &BTreeMap<String, String>,
    limits: TemplateLimits,
) -> Result<Environment<'static>, TemplateError> {
    let mut environment = environment(limits);
    for (name, source) in templates {
        let source = template_rewrite::rewritten(&plain_generation_blocks(source)).map_err(TemplateError::Syntax)?;
        environment
            .add_template_owned(name.clone(), source)
            .map_err(|error| TemplateError::Syntax(describe(&error)))?;
    }
    Ok(environment)
}

fn environment(limits: TemplateLimits) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(WHITESPACE.trim_blocks);
    environment.set_lstrip_blocks(WHITESPACE.lstrip_blocks);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(limits.steps));
    template_room::install(&mut environment);
    template_python::install(&mut environment);
    environment
}

/// `transformers` lets a template mark what the assistant wrote with `{% generation %}` blocks. For writing a prompt
/// they only group, so they are compiled as `{% if true %}`.
fn plain_generation_blocks(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        plain.push_str(before);
        let name_start = tag.len() - tag.trim_start_matches(['-', '+']).trim_start().len();
        let name_len = tag[name_start..].find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(0);
        let (lead, name) = (&tag[..name_start], &tag[name_start..name_start + name_len]);
        plain.push_str(lead);
        plain.push_str(match name {
            "generation" => "if true",
            "endgeneration" => "endif",
            other => other,
        });
        rest = &tag[name_start + name_len..];
    }
    plain.push_str(rest);
    plain
}

/// An error with its place and its causes. Names a template only where there is more than the one for chat.
fn describe(error: &minijinja::Error) -> String {
    let mut message = error.kind().to_string();
    if let Some(detail) = error.detail() {
        message += &format!(": {detail}");
    }
    match (error.line(), error.name()) {
        (Some(line), Some(DEFAULT) | None) => message += &format!(" (line {line})"),
        (Some(line), Some(name)) => message += &format!(" (line {line} of its variant {name:?})"),
        (None, _) => {}
    }
    let mut source = error.source();
    while let Some(cause) = source {
        message.push_str(": ");
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    message
}

/// Output that refuses to pass a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_exceeded: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.is_exceeded = true;
            return Err(io::Error::other("output limit reached"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
