//! The command line, made from the table.
//!
//! llama.cpp spells some flags with one dash and several letters (`-ub`, `-np`, `-sys`), which clap would read as a
//! cluster of short flags. So every spelling is first rewritten to the long flag, with its value joined by `=`; clap
//! then checks what is left and writes help. Values stay text here: they are checked together with those of the
//! other sources.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches};

use super::error::SettingsError;
use super::table::{Default, Setting, settings_of};
use super::types::Command;

/// What was asked for, before the other sources are looked at.
pub(super) struct Arguments {
    pub command: Command,
    /// Given values by setting name, in the order given.
    pub values: BTreeMap<&'static str, Vec<String>>,
    /// The value of `--config`.
    pub config: Option<String>,
}

const CONFIG: &str = "config";
const POSITIONAL: &str = "positional";

/// Parses `argv`, the program's name first.
pub(super) fn parse(argv: Vec<String>) -> Result<Arguments, SettingsError> {
    let matches = taper().try_get_matches_from(long_spellings(argv))?;
    let (name, matches) = matches.subcommand().expect("clap requires a subcommand");
    let command = command_named(name).expect("clap knows our subcommands only");
    let values = settings_of(command)
        .map(|setting| (setting.name, given(matches, setting)))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    Ok(Arguments { command, values, config: matches.get_one(CONFIG).cloned() })
}

fn given(matches: &ArgMatches, setting: &Setting) -> Vec<String> {
    let mut values: Vec<String> = matches.get_many(setting.name).into_iter().flatten().cloned().collect();
    if setting.positional {
        values.extend(matches.get_one::<String>(POSITIONAL).cloned());
    }
    values
}

fn command_named(name: &str) -> Option<Command> {
    Command::ALL.iter().copied().find(|command| command.name() == name)
}

/// Rewrites every known flag of the subcommand to `--name` or `--name=value`.
///
/// The argument after a flag is its value whatever it looks like (`--temp -1`, `-p "- a list"`), unless it is itself
/// a flag: then the value was forgotten, and clap says so.
fn long_spellings(argv: Vec<String>) -> Vec<String> {
    let Some(command) = argv.get(1).and_then(|name| command_named(name)) else { return argv };
    let find = |flag: &str| settings_of(command).find(|setting| setting.is_spelled(flag));
    let mut arguments = argv.into_iter();
    let mut rewritten: Vec<String> = arguments.by_ref().take(2).collect();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            rewritten.push(argument);
            break;
        }
        let (flag, joined) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let Some(setting) = find(flag) else {
            rewritten.push(argument);
            continue;
        };
        let value =
            joined.or_else(|| arguments.next_if(|next| !setting.is_switch() && next != "--" && find(next).is_none()));
        rewritten
            .push(value.map_or_else(|| format!("--{}", setting.name), |value| format!("--{}={value}", setting.name)));
    }
    rewritten.extend(arguments);
    rewritten
}

fn taper() -> clap::Command {
    clap::Command::new("taper")
        .about("Runs large language models")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(Command::ALL.iter().map(|&command| subcommand(command)))
}

fn subcommand(command: Command) -> clap::Command {
    let config = Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .help("TOML file with settings; its keys are the long flags without dashes");
    let positional = settings_of(command)
        .filter(|setting| setting.positional)
        .map(|setting| Arg::new(POSITIONAL).value_name("MODEL").help(setting.help));
    clap::Command::new(command.name())
        .about(command.about())
        .args(positional)
        .args(settings_of(command).map(argument))
        .arg(config)
        .after_help("Any setting can also be given in the environment (--ctx-size as TAPER_CTX_SIZE) or in a file.")
}

fn argument(setting: &'static Setting) -> Arg {
    let argument = Arg::new(setting.name)
        .long(setting.name)
        .help(help(setting))
        .help_heading(setting.section)
        .action(ArgAction::Append);
    let argument = match setting.short {
        Some(short) => argument.short(short),
        None => argument,
    };
    if setting.is_switch() {
        // `require_equals`, so that the word after a switch is not taken for its value.
        return argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL");
    }
    argument.value_name(setting.value_name)
}

fn help(setting: &Setting) -> String {
    let mut help = setting.help.to_owned();
    match setting.default {
        Default::Value(_) if setting.is_switch() => {}
        Default::Value(value) => help += &format!(" [default: {value}]"),
        Default::Checkpoint(value) => help += &format!(" [default: the model's, else {value}]"),
        Default::Unset => {}
    }
    if !setting.also.is_empty() {
        help += &format!(" [also: {}]", setting.also.join(", "));
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        long_spellings(line.split(' ').map(str::to_owned).collect()).join(" ")
    }

    #[test]
    fn single_dash_words_become_long_flags() {
        assert_eq!(rewritten("taper run -ub 64 -np 4 -no-cnv"), "taper run --ubatch-size=64 --parallel=4 --raw");
    }

    #[test]
    fn the_same_flag_means_what_the_subcommand_says() {
        assert_eq!(rewritten("taper run -p hi -n 5"), "taper run --prompt=hi --predict=5");
        assert_eq!(rewritten("taper bench -p 512 -n 128,256"), "taper bench --n-prompt=512 --n-gen=128,256");
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        assert_eq!(rewritten("taper run -n -1 --temp -0.5"), "taper run --predict=-1 --temperature=-0.5");
    }

    #[test]
    fn a_flag_is_not_taken_for_a_value() {
        assert_eq!(rewritten("taper run -m -np 4"), "taper run --model --parallel=4");
    }

    #[test]
    fn nothing_is_rewritten_after_two_dashes() {
        assert_eq!(rewritten("taper run -- -np"), "taper run -- -np");
    }

    #[test]
    fn clap_accepts_what_the_table_describes() {
        taper().debug_assert();
    }
}
