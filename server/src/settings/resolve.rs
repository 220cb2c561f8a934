//! From four sources to one value per setting: command line, environment, settings file, table.
//!
//! All sources give text; it is checked here, once, so that a wrong value is told in the same words wherever it
//! stands. The origin of each value is kept, for messages and for whoever wants to show it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::slice;

use super::command_line::{self, Arguments};
use super::error::SettingsError;
use super::file;
use super::table::{Default, EXCLUSIVE, Setting, settings_of, table, variable};
use super::types::{Command, Settings};
use super::value::Refused;
use crate::engine::sampling::SamplingOverrides;

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
    /// How the user wrote the setting (`-c`, `TAPER_CTX_SIZE`): the words to look for when it is wrong.
    pub spelling: String,
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
        let mut arguments = command_line::parse(argv)?;
        let path = arguments.config.clone().or_else(|| environment(CONFIG_VARIABLE)).map(PathBuf::from);
        let file::Contents { values, aliases } = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
        let command = arguments.command;
        let warnings = std::mem::take(&mut arguments.warnings);
        let mut resolved = gather(arguments, environment, path.as_deref(), &values);
        exclude(&mut resolved)?;
        let settings = Self { warnings, aliases, ..apply(command, resolved)? };
        settings.check_named(command)?;
        settings.check_sampling()?;
        let (n_prompt, n_gen) = (&settings.bench.n_prompt, &settings.bench.n_gen);
        if command == Command::Bench && n_prompt.iter().chain(n_gen).all(|tokens| *tokens == 0) {
            let [n_prompt, n_gen] = ["n-prompt", "n-gen"].map(|name| settings.spelled(name));
            return Err(SettingsError::NothingToMeasure { n_prompt, n_gen });
        }
        Ok((command, settings))
    }

    /// Everything a command cannot do without is there.
    fn check_named(&self, command: Command) -> Result<(), SettingsError> {
        match command {
            _ if command.needs_model() && self.model.is_empty() => {
                Err(SettingsError::NoModel { command: command.name() })
            }
            // TAPER_MODEL names the model to run; nobody means by it what is to be removed.
            Command::Rm if self.models.is_empty() || self.resolved["model"].origin != Origin::CommandLine => {
                Err(SettingsError::NothingToRemove)
            }
            Command::Completions if self.shell.is_empty() => Err(SettingsError::NoShell),
            _ => Ok(()),
        }
    }

    /// Rules between several settings of sampling: before a model is loaded, which takes its time.
    fn check_sampling(&self) -> Result<(), SettingsError> {
        SamplingOverrides::resolve(slice::from_ref(&self.sampling.overrides)).validate_numbers().map_err(|error| {
            let message = error.to_string().replace("repetition_detection.", "repetition_");
            let message = message.replace("`max_pattern_size`", "`repetition_max_pattern_size`");
            SettingsError::Rule { message: self.in_words_of_the_user(&message) }
        })
    }

    /// Whether the user gave the setting `name`, rather than leave it to its default.
    pub fn is_given(&self, name: &str) -> bool {
        self.resolved.get(name).is_some_and(is_given)
    }

    /// How the user wrote the setting `name`; its long flag where they did not.
    pub fn spelled(&self, name: &str) -> String {
        self.resolved.get(name).map_or_else(|| format!("--{name}"), |resolved| resolved.spelling.clone())
    }

    /// A message of the engine, which names its fields (`max_tokens`, in backticks), in the words of the settings.
    pub fn in_words_of_the_user(&self, message: &str) -> String {
        let named = |field: &str| {
            let flag = format!("--{}", field.replace('_', "-"));
            let setting = table().find(|setting| setting.is_spelled(&flag))?;
            Some(if self.is_given(setting.name) {
                self.spelled(setting.name)
            } else {
                format!("the model's own {}", setting.name)
            })
        };
        let words = message.split('`').enumerate().map(|(index, part)| match index % 2 {
            1 => named(part).unwrap_or_else(|| format!("`{part}`")),
            _ => part.to_owned(),
        });
        words.collect()
    }
}

/// The most specific value of each setting of the subcommand.
fn gather(
    mut arguments: Arguments,
    environment: impl Fn(&str) -> Option<String>,
    path: Option<&Path>,
    in_file: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<&'static str, Resolved> {
    let mut resolve = |setting: &'static Setting| {
        let (name, flag) = (setting.name, format!("--{}", setting.name));
        if let Some(values) = arguments.values.remove(name) {
            let spelling = arguments.spellings.remove(name).unwrap_or(flag);
            return Resolved { values, origin: Origin::CommandLine, spelling };
        }
        let variables =
            [variable(name)].into_iter().chain(setting.other_variables.iter().map(|&other| other.to_owned()));
        if let Some((spelling, value)) =
            variables.into_iter().find_map(|name| Some((name.clone(), environment(&name)?)))
        {
            return Resolved { values: vec![value], origin: Origin::Environment, spelling };
        }
        if let (Some(path), Some(values)) = (path, in_file.get(name)) {
            let spelling = format!("{name} in {}", path.display());
            return Resolved { values: values.clone(), origin: Origin::File(path.to_owned()), spelling };
        }
        Resolved { values: default_values(setting.default), origin: Origin::Default, spelling: flag }
    };
    settings_of(arguments.command).map(|setting| (setting.name, resolve(setting))).collect()
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
            let (first, second) = (one.spelling.clone(), other.spelling.clone());
            return Err(SettingsError::Exclusive { first, second });
        }
        let loser = if one.origin < other.origin { first } else { second };
        let spelling = format!("--{loser}");
        resolved.insert(loser, Resolved { values: Vec::new(), origin: Origin::Default, spelling });
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
        let Resolved { values, origin, spelling } = &resolved[setting.name];
        let left_to_checkpoint = matches!(setting.default, Default::Checkpoint(_)) && *origin == Origin::Default;
        if values.is_empty() || left_to_checkpoint {
            continue;
        }
        once(setting, values, spelling)?;
        setting.kind.set(&mut settings, values).map_err(|Refused { value, rule }| SettingsError::Value {
            given: spelling.clone(),
            value,
            rule,
        })?;
    }
    settings.resolved = resolved;
    Ok(settings)
}

/// Of a value given several times the last one holds, except where its spellings must agree.
fn once(setting: &Setting, values: &[String], spelling: &str) -> Result<(), SettingsError> {
    if !setting.must_agree {
        return Ok(());
    }
    match values.iter().find(|value| **value != values[0]) {
        None => Ok(()),
        Some(second) => {
            Err(SettingsError::Twice { given: spelling.to_owned(), first: values[0].clone(), second: second.clone() })
        }
    }
}
