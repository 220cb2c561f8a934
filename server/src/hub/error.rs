//! Why a pull failed, in words for who has never heard of its inner parts.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hf_hub::HFError;

use super::failure::{Failure, is_nonsense, root_cause};
use crate::capacity::bytes;
use crate::store::cache::CacheError;
use crate::store::select::SelectError;

/// Why a model is not (wholly) here.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("HF_ENDPOINT is {given:?}; the address of a Hub begins with http:// or https://")]
    Endpoint { given: String },
    #[error("{name} does not exist on {endpoint}, or is private: check the spelling; {}", private(token.as_deref()))]
    NotFound { name: String, endpoint: String, token: Option<String> },
    #[error("{name} has no revision {revision:?}; {endpoint}/{name} lists its branches and tags")]
    NoRevision { name: String, revision: String, endpoint: String },
    #[error(
        "{name} is gated: its owner wants to know who uses it. Ask for access on {endpoint}/{name}, and {}",
        gated(token.as_deref())
    )]
    Gated { name: String, endpoint: String, token: Option<String> },
    #[error(
        "{endpoint} does not accept the token in {}: {message}. Put a valid one there, or remove it",
        token.as_deref().unwrap_or("HF_TOKEN")
    )]
    TokenRefused { endpoint: String, message: String, token: Option<String> },
    #[error("{endpoint} refuses access to {name}: {message}")]
    Forbidden { name: String, endpoint: String, message: String },
    #[error(
        "{endpoint} cannot be reached: {cause}. Check the network, or HF_ENDPOINT if it names the wrong server; with \
         --offline, models are taken from what was downloaded before"
    )]
    Unreachable { endpoint: String, cause: String },
    #[error("{endpoint} takes no more requests for now (429){}; a token in HF_TOKEN raises the limit", again(*.after))]
    RateLimited { endpoint: String, after: Option<Duration> },
    #[error("{endpoint} fails (status {status}); try again later")]
    Server { endpoint: String, status: u16 },
    #[error("{file} did not arrive whole: {cause}. What was received is kept, and the next pull continues there")]
    Stopped { file: String, cause: String },
    #[error("{endpoint} does not answer as the Hub does: {what}; is HF_ENDPOINT right?")]
    Unexpected { endpoint: String, what: String },
    #[error("{name} has a file named {file:?}, which could be written elsewhere than meant; nothing was downloaded")]
    UnsafeFile { name: String, file: String },
    #[error("{name} has no checksum for {file}, so that what arrives could not be checked; nothing was downloaded")]
    NoChecksum { name: String, file: String },
    #[error(
        "{file} arrived damaged: its {kind} is {found}, and should be {expected}. It was deleted; pull again, and if it \
         stays so, something on the way changes files"
    )]
    Damaged { file: String, kind: &'static str, found: String, expected: String },
    #[error(
        "{} are still to be downloaded, and {directory} has room for {}: free some with `taper rm`, or set HF_HUB_CACHE \
         to a directory on a larger disk",
        bytes(*.need), bytes(*.available)
    )]
    Space { need: u64, available: u64, directory: PathBuf },
    #[error("{path} cannot be written: {source}")]
    Disk { path: PathBuf, source: io::Error },
    #[error("interrupted; what was received is kept, and the next pull continues there")]
    Interrupted,
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Select(#[from] SelectError),
}

fn again(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |wait| format!(", and wants {} s of rest", wait.as_secs()))
}

fn private(token: Option<&str>) -> String {
    match token {
        None => "for a private one, set HF_TOKEN to a token that may read it".to_owned(),
        Some(place) => format!("if it is private, the token in {place} is not valid or may not read it"),
    }
}

fn gated(token: Option<&str>) -> String {
    match token {
        None => "set HF_TOKEN to a token of the account that was given it".to_owned(),
        Some(place) => format!("see that the token in {place} is of the account that was given it, and valid"),
    }
}

/// What was asked of whom, to be named in errors.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub name: String,
    pub revision: String,
    pub endpoint: String,
    /// Where the token that was shown comes from.
    pub token: Option<String>,
}

impl Asked {
    /// The error that `failure` is, where nothing of `file` or nothing at all was received.
    pub fn error(&self, failure: Failure) -> PullError {
        match failure {
            Failure::Hub(error) => self.hub_error(&error),
            Failure::Silent(_) => {
                PullError::Unreachable { endpoint: self.endpoint.clone(), cause: failure.to_string() }
            }
            Failure::Disk { path, source } => PullError::Disk { path, source },
            Failure::Short { .. } | Failure::TooLong => self.unexpected(failure.to_string()),
        }
    }

    /// The error that `failure` is while `file` was being received.
    pub fn error_in(&self, file: &str, failure: Failure) -> PullError {
        let cause = failure.to_string();
        match self.error(failure) {
            PullError::Unreachable { .. } | PullError::Server { .. } | PullError::Unexpected { .. } => {
                PullError::Stopped { file: file.to_owned(), cause }
            }
            error => error,
        }
    }

    pub fn unexpected(&self, what: String) -> PullError {
        PullError::Unexpected { endpoint: self.endpoint.clone(), what }
    }

    fn hub_error(&self, error: &HFError) -> PullError {
        let (name, endpoint, token) = (self.name.clone(), self.endpoint.clone(), self.token.clone());
        if let Some(answer) = Answer::of(error) {
            return self.refusal(&answer, error);
        }
        match error {
            HFError::Request { source, .. } if !is_nonsense(source) => {
                PullError::Unreachable { endpoint, cause: root_cause(source) }
            }
            HFError::RepoNotFound { .. } => PullError::NotFound { name, endpoint, token },
            other => self.unexpected(root_cause(other)),
        }
    }

    fn refusal(&self, answer: &Answer, error: &HFError) -> PullError {
        let (name, endpoint, token) = (self.name.clone(), self.endpoint.clone(), self.token.clone());
        let message = answer.message.unwrap_or("it does not say why").trim_end_matches('.').to_owned();
        match (answer.status, answer.code) {
            (_, Some("GatedRepo")) => PullError::Gated { name, endpoint, token },
            (_, Some("RepoNotFound")) => PullError::NotFound { name, endpoint, token },
            (_, Some("RevisionNotFound")) => PullError::NoRevision { name, revision: self.revision.clone(), endpoint },
            (401, _) if message.contains("Invalid credentials") => PullError::TokenRefused { endpoint, message, token },
            // To who shows no token, the Hub does not tell what is private from what does not exist.
            (401 | 404, None) => PullError::NotFound { name, endpoint, token },
            (403, _) => PullError::Forbidden { name, endpoint, message },
            (429, _) => PullError::RateLimited { endpoint, after: rest(error) },
            (status @ 500.., _) => PullError::Server { endpoint, status },
            (status, _) => self.unexpected(format!("status {status}, {message}")),
        }
    }
}

/// The rest that the server asked for.
pub(super) fn rest(error: &HFError) -> Option<Duration> {
    match error {
        HFError::RateLimited { retry_after, .. } => *retry_after,
        _ => None,
    }
}

/// An answer that was not a success.
struct Answer<'a> {
    status: u16,
    code: Option<&'a str>,
    message: Option<&'a str>,
}

impl<'a> Answer<'a> {
    fn of(error: &'a HFError) -> Option<Self> {
        let (HFError::Http { context }
        | HFError::AuthRequired { context }
        | HFError::Forbidden { context }
        | HFError::Conflict { context }
        | HFError::RateLimited { context, .. }
        | HFError::RepoNotFound { context: Some(context), .. }
        | HFError::RevisionNotFound { context: Some(context), .. }
        | HFError::EntryNotFound { context: Some(context), .. }) = error
        else {
            return None;
        };
        let (code, message) = (context.error_code.as_deref(), context.server_message.as_deref());
        Some(Self { status: context.status.as_u16(), code, message })
    }
}

/// The status of the answer that `error` is about.
pub(super) fn status(error: &HFError) -> Option<u16> {
    Some(Answer::of(error)?.status)
}
