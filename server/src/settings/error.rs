//! Everything that can be wrong with what a user asked for, and how the process ends then.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// A mistake in the arguments, the environment or the settings file. `--help` and `--version` also arrive here, as
/// [`SettingsError::CommandLine`]: they too end the program before it began.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    #[error("argument {0:?} is not valid UTF-8")]
    NotUtf8(std::ffi::OsString),
    #[error("{flag} stands where a command is expected; write `taper run {flag} ...`, see `taper --help`")]
    NoCommand { flag: String },
    #[error("unknown option {flag}; {hint}")]
    UnknownOption { flag: String, hint: String },
    #[error("cannot read the settings file {path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is not valid TOML: {source}")]
    Toml { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{path}: there is no setting {key:?}; the nearest is {nearest:?}")]
    UnknownKey { path: PathBuf, key: String, nearest: &'static str },
    #[error("{path}: {key} must be a string, a number, true or false, or an array of these; it is {found}")]
    NotAValue { path: PathBuf, key: String, found: &'static str },
    #[error("{given} is {value:?}; it must be {rule}")]
    Value { given: String, value: String, rule: String },
    #[error("{given} was given twice, as {first:?} and as {second:?}; give it once")]
    Twice { given: String, first: String, second: String },
    #[error("{first} and {second} exclude each other; give one of them")]
    Exclusive { first: String, second: String },
    #[error("{message}")]
    Rule { message: String },
    #[error("{path}: the alias {alias:?} is not valid: {why}")]
    Alias { path: PathBuf, alias: String, why: &'static str },
    #[error("no model was given: name one, as in `taper {command} MODEL`, or set TAPER_MODEL")]
    NoModel { command: &'static str },
    #[error("no model was given: name those to remove, as in `taper rm MODEL`; TAPER_MODEL does not count here")]
    NothingToRemove,
    #[error("no shell was given: `taper completions bash`, `zsh` or `fish`")]
    NoShell,
    #[error("{n_prompt} and {n_gen} are both 0, so there is nothing to measure; give one of them a length")]
    NothingToMeasure { n_prompt: String, n_gen: String },
}

impl SettingsError {
    /// Prints the message (help goes to standard output) and says with what code to end: 0 after help, else 2.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::CommandLine(error) => {
                // Printing fails only when the reader has gone; the exit code still stands.
                let _ = error.print();
                u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
            }
            error => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        }
    }
}
