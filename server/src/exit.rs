//! With what code the process ends, by what went wrong. docs/models.md lists them for users.

use taper_models::weights::LoadError;
#[cfg(feature = "hub")]
use taper_server::hub::PullError;
use taper_server::loading::StartError;
use taper_server::store::name::NameError;
use taper_server::store::resolve::NotHere;
use taper_server::store::select::SelectError;
use taper_server::text::TokenizerError;

/// How the process ends where it did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Failed = 1,
    Usage = 2,
    /// No such file, repository or quantisation, or not on this machine.
    NotFound = 3,
    /// The Hub or the way to it.
    #[cfg(feature = "hub")]
    Download = 4,
    /// The file is damaged or of a kind that is not supported.
    Damaged = 5,
    /// Ctrl-C; as shells report it.
    #[cfg(feature = "hub")]
    Interrupted = 130,
}

/// A mistake in what was asked, found by a command rather than by the settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The code for `error`: the first of its causes that says more than "failed".
pub fn exit(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Failed)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref::<NameError>() {
        let is_lacking = matches!(error, NameError::NoSuchFile(_) | NameError::BareWord(_));
        return Some(if is_lacking { Exit::NotFound } else { Exit::Usage });
    }
    if let Some(error) = cause.downcast_ref::<SelectError>() {
        return Some(of_select(error));
    }
    if let Some(error) = cause.downcast_ref::<NotHere>() {
        return (!matches!(error, NotHere::Cache(_))).then_some(Exit::NotFound);
    }
    #[cfg(feature = "hub")]
    if let Some(error) = cause.downcast_ref::<PullError>() {
        return of_pull(error);
    }
    if let Some(error) = cause.downcast_ref::<StartError>() {
        return of_start(error);
    }
    let is_damaged = cause.is::<TokenizerError>() || cause.downcast_ref::<LoadError>().is_some_and(of_file);
    if is_damaged { Some(Exit::Damaged) } else { cause.is::<Usage>().then_some(Exit::Usage) }
}

fn of_select(error: &SelectError) -> Exit {
    let is_unreadable = matches!(error, SelectError::Pickles { .. } | SelectError::MissingParts { .. });
    if is_unreadable { Exit::Damaged } else { Exit::NotFound }
}

#[cfg(feature = "hub")]
fn of_pull(error: &PullError) -> Option<Exit> {
    Some(match error {
        PullError::NotFound { .. } | PullError::NoRevision { .. } => Exit::NotFound,
        PullError::Select(error) => of_select(error),
        PullError::Endpoint { .. } => Exit::Usage,
        PullError::UnsafeFile { .. } => Exit::Damaged,
        PullError::Interrupted => Exit::Interrupted,
        // Of this machine, and not of the Hub.
        PullError::Space { .. } | PullError::Disk { .. } | PullError::Cache(_) => return None,
        _ => Exit::Download,
    })
}

fn of_start(error: &StartError) -> Option<Exit> {
    let is_damaged = match error {
        StartError::Load(error) => of_file(error),
        StartError::Tokenizer(_) | StartError::Template { .. } | StartError::Unsupported(_) => true,
        _ => false,
    };
    is_damaged.then_some(Exit::Damaged)
}

/// Whether it is the file that is wrong, and not the disk or the user's patience.
fn of_file(error: &LoadError) -> bool {
    !matches!(error, LoadError::Io { .. } | LoadError::Interrupted)
}
