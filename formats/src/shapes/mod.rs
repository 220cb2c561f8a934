//! The shapes of calls: machines that take the characters after an opening marker until the calls are over.
//!
//! Every machine advances by one character, so that an answer means the same however it is cut.

mod between;
mod calls;
mod harmony;
mod json;
mod json_call;
mod named;
mod params;
mod pythonic;

pub(crate) use calls::Calls;
pub(crate) use harmony::Harmony;
pub(crate) use json::{Json, JsonWritten};
pub(crate) use json_call::Keys;
pub(crate) use named::{Bit, Header, Named};
pub(crate) use params::{Params, ParamsWritten};
pub(crate) use pythonic::Pythonic;

use crate::format::Syntax;

/// What became of a character.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The machine wants more.
    Go,
    /// The calls are over with this character.
    Done,
    /// The calls were over before this text, which is not part of them.
    Leave(String),
    /// This is no call, for this reason. What came since the last piece is in [`Calls::raw`].
    Bad(&'static str),
}

pub(crate) trait Machine: std::fmt::Debug + Send {
    fn feed(&mut self, c: char, calls: &mut Calls) -> Step;

    /// Whether the text may end here with nothing missing but closing markers.
    fn is_whole(&self) -> bool;
}

impl Syntax {
    /// What begins these calls. Nothing where they begin with the answer itself.
    pub fn openers(&self) -> Vec<&'static str> {
        match self {
            Self::Json(json) => json.open.to_vec(),
            Self::Named(named) => [named.open, &[named.call]].concat().into_iter().filter(|s| !s.is_empty()).collect(),
            Self::Params(params) => {
                [params.open, &[params.call]].concat().into_iter().filter(|s| !s.is_empty()).collect()
            }
            Self::Pythonic(pythonic) => pythonic.open.to_vec(),
            Self::Harmony => Vec::new(),
        }
    }

    /// What ends them, however they go.
    pub fn closers(&self) -> Vec<&'static str> {
        let all = match self {
            Self::Json(json) => vec![json.close],
            Self::Named(named) if named.open.is_empty() => vec![named.call_end],
            Self::Named(named) => vec![named.close],
            Self::Params(params) if params.open.is_empty() => vec![params.call_end],
            Self::Params(params) => vec![params.close],
            Self::Pythonic(pythonic) => vec![pythonic.close],
            Self::Harmony => Vec::new(),
        };
        all.into_iter().filter(|marker| !marker.is_empty()).collect()
    }

    /// Whether calls of this syntax can begin with `start`, their first one or two characters that are no white space.
    pub fn may_start(&self, start: &str) -> bool {
        let mut chars = start.chars();
        let (first, second) = (chars.next(), chars.next());
        let names = |c: char| c.is_alphanumeric() || c == '_';
        match self {
            Self::Json(_) => match (first, second) {
                (Some('['), second) => second.is_none_or(|c| c == '{' || c == ']'),
                (first, _) => first == Some('{'),
            },
            Self::Pythonic(_) if first == Some('[') => second.is_none_or(|c| names(c) || c == ']'),
            Self::Pythonic(pythonic) => !pythonic.brackets && first.is_some_and(names),
            Self::Named(_) | Self::Params(_) => first.is_some_and(|c| c != '{' && c != '['),
            Self::Harmony => false,
        }
    }

    /// Whether calls may begin without a marker, at the beginning of the answer.
    pub fn is_bare(&self) -> bool {
        matches!(self, Self::Json(Json { bare: true, .. }) | Self::Pythonic(Pythonic { bare: true, .. }))
    }

    /// A machine for what follows `opener`; none began bare calls.
    pub fn machine(&'static self, opener: Option<&str>) -> Box<dyn Machine> {
        match self {
            Self::Json(json) => Box::new(json::Machine::new(json, opener.is_none())),
            Self::Named(named) => Box::new(named::Machine::new(named, opener.unwrap_or_default())),
            Self::Params(params) => Box::new(params::Machine::new(params, opener.unwrap_or_default())),
            Self::Pythonic(pythonic) => Box::new(pythonic::Machine::new(pythonic, opener.is_none())),
            Self::Harmony => unreachable!("the parser has a machine of its own for harmony"),
        }
    }
}
