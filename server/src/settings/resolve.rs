//! From four sources to one value per setting: command line, environment, settings file, table.
//!
//! All sources give text; it is checked here, once, so that a wrong value is told in the same words wherever it
//! stands. The origin of each value is kept, for messages and for whoever wants to show it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::command_line::{self, Arguments};
use super::error::SettingsError;
use super::file;
use super::table::{Default, EXCLUSIVE, Setting, settings_of, variable};
use super::types::{Command, Settings};
use super::value::Refused;

/// Where a value came from, from the least to the most specific.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Default,
    /// The settings file at this path.
    File(PathBuf),
    Environment,
    CommandLine,
}

/// One setting's value as text, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// One text, except for settings that may be repeated; none where nothing is set.
    pub values: Vec<String>,
    pub origin: Origin,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// The variable that names the settings file where `--config` does not.
const CONFIG_VARIABLE: &str = "TAPER_CONFIG";

impl Settings {
    /// Reads the arguments and the environment of this process.
    pub fn from_process() -> Result<(Command, Self), SettingsError> {
        let argv = std::env::args_os().map(|argument| argument.into_string().map_err(SettingsError::NotUtf8));
        Self::load(argv.collect::<Result<_, _>>()?, |variable| std::env::var(variable).ok())
    }

    /// Reads `argv` (the program's name first), and `environment` for variables. An empty variable counts as unset,
    /// since a compose file cannot say "unset".
    pub fn load(
        argv: Vec<String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<(Command, Self), SettingsError> {
        let environment = |variable: &str| environment(variable).filter(|value| !value.is_empty());
        let arguments = command_line::parse(argv)?;
        let path = arguments.config.clone().or_else(|| environment(CONFIG_VARIABLE)).map(PathBuf::from);
        let in_file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
        let command = arguments.command;
        let mut resolved = gather(arguments, environment, path.as_deref(), &in_file);
        exclude(&mut resolved)?;
        let settings = apply(command, resolved)?;
        if settings.model.as_os_str().is_empty() {
            return Err(SettingsError::NoModel { command: command.name() });
        }
        Ok((command, settings))
    }
}

/// The most specific value of each setting of the subcommand.
fn gather(
    mut arguments: Arguments,
    environment: impl Fn(&str) -> Option<String>,
    path: Option<&Path>,
    in_file: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<&'static str, Resolved> {
    let resolve = |setting: &'static Setting| {
        if let Some(values) = arguments.values.remove(setting.name) {
            return (setting.name, Resolved { values, origin: Origin::CommandLine });
        }
        if let Some(value) = environment(&variable(setting.name)) {
            return (setting.name, Resolved { values: vec![value], origin: Origin::Environment });
        }
        if let (Some(path), Some(values)) = (path, in_file.get(setting.name)) {
            return (setting.name, Resolved { values: values.clone(), origin: Origin::File(path.to_owned()) });
        }
        (setting.name, Resolved { values: default_values(setting.default), origin: Origin::Default })
    };
    settings_of(arguments.command).map(resolve).collect()
}

fn default_values(default: Default) -> Vec<String> {
    match default {
        Default::Value(value) | Default::Checkpoint(value) => vec![value.to_owned()],
        Default::Unset => Vec::new(),
    }
}

/// Of two settings that exclude each other, keeps the one of the more specific origin.
fn exclude(resolved: &mut BTreeMap<&'static str, Resolved>) -> Result<(), SettingsError> {
    for [first, second] in EXCLUSIVE {
        let (Some(one), Some(other)) = (resolved.get(first), resolved.get(second)) else { continue };
        if !is_given(one) || !is_given(other) {
            continue;
        }
        if one.origin == other.origin {
            let (first, second) = (spelling(first, &one.origin), spelling(second, &other.origin));
            return Err(SettingsError::Exclusive { first, second });
        }
        let loser = if one.origin < other.origin { first } else { second };
        resolved.insert(loser, Resolved { values: Vec::new(), origin: Origin::Default });
    }
    Ok(())
}

/// A switch that was given as `false` is as good as not given.
fn is_given(resolved: &Resolved) -> bool {
    resolved.origin != Origin::Default && resolved.values != ["false"]
}

fn apply(command: Command, resolved: BTreeMap<&'static str, Resolved>) -> Result<Settings, SettingsError> {
    let mut settings = Settings::default();
    for setting in settings_of(command) {
        let Resolved { values, origin } = &resolved[setting.name];
        let left_to_checkpoint = matches!(setting.default, Default::Checkpoint(_)) && *origin == Origin::Default;
        if values.is_empty() || left_to_checkpoint {
            continue;
        }
        once(setting, values, origin)?;
        setting.kind.set(&mut settings, values).map_err(|Refused { value, rule }| SettingsError::Value {
            given: spelling(setting.name, origin),
            value,
            rule,
        })?;
    }
    settings.resolved = resolved;
    Ok(settings)
}

/// Of a value given several times the last one holds, except where its spellings must agree.
fn once(setting: &Setting, values: &[String], origin: &Origin) -> Result<(), SettingsError> {
    if !setting.must_agree {
        return Ok(());
    }
    match values.iter().find(|value| **value != values[0]) {
        None => Ok(()),
        Some(second) => Err(SettingsError::Twice {
            given: spelling(setting.name, origin),
            first: values[0].clone(),
            second: second.clone(),
        }),
    }
}

/// How the user wrote the setting: the words to look for when it is wrong.
fn spelling(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::Default | Origin::CommandLine => format!("--{name}"),
        Origin::Environment => variable(name),
        Origin::File(path) => format!("{name} in {}", path.display()),
    }
}
