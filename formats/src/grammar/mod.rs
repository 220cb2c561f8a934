//! The grammar that makes a model call a tool: Lark, as llguidance 1.x reads it.
//!
//! Arguments in JSON follow the tool's schema; in tags and as in Python, every parameter follows its type. Where a marker
//! is a token of its own the grammar names the token, since text cannot produce it.

mod calls;
mod lark;
mod literals;
mod params;

use lark::Lark;
use serde_json::Value;

use crate::format::Format;
use crate::reasoning::ReasoningFormat;
use crate::tool::Tool;

/// Which tool must be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// None: text, or calls that keep the rules.
    Auto,
    /// One of all.
    Required,
    /// This one.
    Named(String),
    /// One of these.
    Allowed(Vec<String>),
}

/// Thoughts that come before the calls.
#[derive(Debug, Clone, Copy)]
pub enum Thoughts {
    /// None, or the grammar begins after them.
    None,
    /// The prompt opened them.
    Opened(&'static ReasoningFormat),
    /// The model may begin some.
    MayCome(&'static ReasoningFormat),
    /// The grammar begins after them, or at once where there are none.
    Before(&'static ReasoningFormat),
}

/// What a grammar is for.
pub struct GrammarOptions<'a> {
    /// Which tool must be called.
    pub choice: Choice,
    /// Whether there may be several calls.
    pub parallel: bool,
    /// The thoughts before.
    pub thoughts: Thoughts,
    /// The schema of an answer without calls. `None`: any text. Only where none must be called.
    pub answer: Option<&'a Value>,
    /// The identifier of the special token that is spelled so. Asked for the markers of the format and the thoughts.
    pub token: &'a dyn Fn(&str) -> Option<u32>,
}

/// Why there is no grammar.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Nothing to call.
    #[error("there are no tools to call; give some in `tools`")]
    NoTools,
    /// A choice of a tool that was not given.
    #[error("`tool_choice` names `{0}`, which is not among `tools`")]
    UnknownTool(String),
    /// A name that the format cannot write.
    #[error("the tool name `{0}` cannot be written in this model's format; use letters, digits, `_`, `-` and `.`")]
    Name(String),
    /// A form of the answer, in a format where calls cannot be told from it.
    #[error("this model's format has no place for an answer in JSON beside calls; leave out one of the two")]
    Answer,
    /// Arguments that are no object.
    #[error("the parameters of tool `{0}` must be a JSON schema of type object")]
    Parameters(String),
}

/// The grammar of an answer of a model of `format` that calls `tools` as `options` say.
pub fn call_grammar(format: &Format, tools: &[Tool], options: &GrammarOptions) -> Result<String, GrammarError> {
    let tools = chosen(tools, &options.choice)?;
    let parallel = options.parallel && !matches!(options.choice, Choice::Named(_));
    let tokens = match options.thoughts {
        Thoughts::None => Vec::new(),
        Thoughts::Opened(tags) | Thoughts::MayCome(tags) | Thoughts::Before(tags) => tags.markers(),
    };
    let mut lark = Lark::new([format.markers(), &tokens].concat(), options.token);
    let calls = calls::calls(&mut lark, format, &tools, parallel);
    let may_think = !matches!(options.thoughts, Thoughts::Before(_));
    let answer = match (&options.choice, options.answer) {
        (Choice::Auto, Some(schema)) if format.is_harmony() => {
            let answer = lark.json(schema);
            calls::harmony_answer(&mut lark, &calls.rest, &answer, may_think)
        }
        // A call that begins as JSON does cannot be told from an answer.
        (Choice::Auto, Some(_)) if calls.opener.is_empty() => return Err(GrammarError::Answer),
        (Choice::Auto, Some(schema)) => {
            let markers: Vec<_> = options.thoughts.around_answer().iter().map(|marker| lark.literal(marker)).collect();
            let around = if markers.is_empty() { String::new() } else { format!("({})*", markers.join(" | ")) };
            format!("{around} ({} {around} | {})", lark.json(schema), calls.always(&lark))
        }
        (Choice::Auto, None) => calls.maybe(&mut lark, format, options.thoughts.around_answer(), may_think),
        _ => calls.always(&lark),
    };
    // A free answer brings what stands before calls itself.
    let thoughts = match options.thoughts {
        Thoughts::MayCome(_) if options.choice == Choice::Auto && format.is_harmony() => String::new(),
        thoughts => thoughts.write(&mut lark, options.choice != Choice::Auto || format.is_harmony()),
    };
    Ok(lark.finish(&format!("{thoughts} {answer}")))
}

fn chosen<'a>(tools: &'a [Tool], choice: &Choice) -> Result<Vec<&'a Tool>, GrammarError> {
    let names: Vec<&String> = match choice {
        Choice::Auto | Choice::Required => tools.iter().map(|tool| &tool.name).collect(),
        Choice::Named(name) => vec![name],
        Choice::Allowed(names) => names.iter().collect(),
    };
    let find = |name: &String| tools.iter().find(|tool| tool.name == *name);
    let chosen = names.into_iter().map(|name| find(name).ok_or_else(|| GrammarError::UnknownTool(name.clone())));
    let chosen: Vec<_> = chosen.collect::<Result<_, _>>()?;
    chosen.iter().try_for_each(|tool| check(tool))?;
    if chosen.is_empty() { Err(GrammarError::NoTools) } else { Ok(chosen) }
}

fn check(tool: &Tool) -> Result<(), GrammarError> {
    let writable = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if tool.name.is_empty() || !tool.name.chars().all(writable) {
        return Err(GrammarError::Name(tool.name.clone()));
    }
    let parameters = &tool.parameters;
    let object = parameters.get("type").is_none_or(|of| of == "object");
    let fits = parameters.is_null() || (parameters.is_object() && object);
    if fits { Ok(()) } else { Err(GrammarError::Parameters(tool.name.clone())) }
}

impl Thoughts {
    fn around_answer(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Opened(tags) | Self::MayCome(tags) | Self::Before(tags) => tags.around_answer,
        }
    }

    fn write(self, lark: &mut Lark, a_call_follows: bool) -> String {
        match self {
            Self::MayCome(tags) if tags.is_some() => {
                format!("({} {})?", lark.literal(tags.start), after_start(lark, tags, a_call_follows))
            }
            Self::Opened(tags) if tags.is_some() => after_start(lark, tags, a_call_follows),
            Self::Before(tags) if tags.is_some() => {
                let before_call = if a_call_follows { tags.before_call } else { "" };
                let after =
                    if before_call.is_empty() { String::new() } else { format!("({})?", lark.literal(before_call)) };
                format!("({})? {after}", space(lark))
            }
            _ => String::new(),
        }
    }
}

fn space(lark: &mut Lark) -> String {
    lark.terminal("[ \\n]{1,4}")
}

fn after_start(lark: &mut Lark, tags: &ReasoningFormat, a_call_follows: bool) -> String {
    let inner = lark.until(tags.end);
    let space = space(lark);
    let before_call = lark.literal(if a_call_follows { tags.before_call } else { "" });
    format!("{inner} {space}? {before_call}")
}
