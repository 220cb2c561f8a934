//! The command line, made from the table.
//!
//! llama.cpp spells some flags with one dash and several letters (`-ub`, `-np`, `-sys`), which clap would read as a
//! cluster of short flags. So every spelling is first rewritten to the long flag, with its value joined by `=`, and a
//! flag that nobody knows is refused as a whole; clap then checks what is left and writes help. Values stay text here:
//! they are checked together with those of the other sources.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, ValueHint};
use clap_complete::Shell;

use super::error::SettingsError;
use super::llama_cpp::{missing_option, not_needed_option};
use super::table::{Default, Kind, Setting, settings_of, table};
use super::types::Command;

/// What was asked for, before the other sources are looked at.
pub(super) struct Arguments {
    pub command: Command,
    /// Given values by setting name, in the order given.
    pub values: BTreeMap<&'static str, Vec<String>>,
    /// The flags that were typed, by setting name; of several the last.
    pub spellings: BTreeMap<&'static str, String>,
    /// The value of `--config`.
    pub config: Option<String>,
    /// What to tell about options that were read over.
    pub warnings: Vec<String>,
}

/// `argv` in words that clap reads, and what was found on the way.
#[derive(Default)]
struct Rewritten {
    argv: Vec<String>,
    spellings: BTreeMap<&'static str, String>,
    warnings: Vec<String>,
}

const CONFIG: &str = "config";
/// Flags that are clap's business alone.
const OF_CLAP: [&str; 3] = ["-h", "--help", "--config"];
const BEFORE_COMMANDS: [&str; 4] = ["-h", "--help", "-V", "--version"];
const POSITIONAL: &str = "positional";

/// Parses `argv`, the program's name first.
pub(super) fn parse(argv: Vec<String>) -> Result<Arguments, SettingsError> {
    let Rewritten { argv, spellings, warnings } = long_spellings(argv)?;
    let matches = taper().try_get_matches_from(argv)?;
    let (name, matches) = matches.subcommand().expect("clap requires a subcommand");
    let command = command_named(name).expect("clap knows our subcommands only");
    let values = settings_of(command)
        .map(|setting| (setting.name, given(matches, setting)))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    Ok(Arguments { command, values, spellings, config: matches.get_one(CONFIG).cloned(), warnings })
}

fn given(matches: &ArgMatches, setting: &Setting) -> Vec<String> {
    let mut values: Vec<String> = matches.get_many(setting.name).into_iter().flatten().cloned().collect();
    if setting.positional {
        values.extend(matches.get_many::<String>(POSITIONAL).into_iter().flatten().cloned());
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
fn long_spellings(argv: Vec<String>) -> Result<Rewritten, SettingsError> {
    let Some(command) = argv.get(1).and_then(|name| command_named(name)) else {
        return match argv.get(1) {
            Some(flag) if flag.starts_with('-') && !BEFORE_COMMANDS.contains(&flag.as_str()) => {
                Err(SettingsError::NoCommand { flag: flag.clone() })
            }
            _ => Ok(Rewritten { argv, ..Rewritten::default() }),
        };
    };
    let find = |flag: &str| settings_of(command).find(|setting| setting.is_spelled(flag));
    let is_flag = |word: &str| word == "--" || find(word).is_some() || not_needed_option(word).is_some();
    let mut arguments = argv.into_iter();
    let mut rewritten = Rewritten { argv: arguments.by_ref().take(2).collect(), ..Rewritten::default() };
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            rewritten.argv.push(argument);
            break;
        }
        let (flag, joined) = split(&argument);
        if let Some(setting) = find(flag) {
            let joined = joined.map(str::to_owned);
            let value = joined.or_else(|| arguments.next_if(|next| !setting.is_switch() && !is_flag(next)));
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            rewritten.argv.push(format!("--{}{value}", setting.name));
            rewritten.spellings.insert(setting.name, flag.to_owned());
        } else if let Some(option) = not_needed_option(flag) {
            if joined.is_none() {
                arguments.next_if(|next| option.takes(next) && !is_flag(next));
            }
            rewritten.warnings.push(format!("{flag} of llama.cpp is not needed here: {}", option.why));
        } else if flag.starts_with('-') && flag.len() > 1 && !OF_CLAP.contains(&flag) {
            let given = argument.split('=').next().unwrap_or_default();
            return Err(unknown(command, given));
        } else {
            rewritten.argv.push(argument);
        }
    }
    rewritten.argv.extend(arguments);
    Ok(rewritten)
}

/// A flag and the value in the same word: `--temp=0.5`, or a number as in `-n5`.
fn split(argument: &str) -> (&str, Option<&str>) {
    if let Some((flag, value)) = argument.split_once('=') {
        return (flag, Some(value));
    }
    match argument.split_at_checked(2) {
        Some((flag, number)) if flag != "--" && flag.starts_with('-') && number.parse::<f64>().is_ok() => {
            (flag, Some(number))
        }
        _ => (argument, None),
    }
}

/// The refusal of `flag`, with what may have been meant.
fn unknown(command: Command, flag: &str) -> SettingsError {
    let name = command.name();
    let others: Vec<_> = table().filter(|setting| setting.is_spelled(flag)).flat_map(|s| s.commands).collect();
    let hint = if let Some(way_around) = missing_option(flag) {
        way_around.to_owned()
    } else if let [first, ..] = others[..] {
        format!("`taper {}` has it, `taper {name}` does not", first.name())
    } else if let Some(nearest) = nearest(command, flag) {
        format!("the nearest is {nearest}")
    } else {
        format!("`taper {name} --help` lists what there is")
    };
    SettingsError::UnknownOption { flag: flag.to_owned(), hint }
}

/// The known spelling that `flag` is a misspelling of: at most a third of its letters differ.
fn nearest(command: Command, flag: &str) -> Option<String> {
    let spellings = settings_of(command).flat_map(Setting::spellings);
    let near = spellings.map(|spelling| (strsim::damerau_levenshtein(&spelling, flag), spelling)).min()?;
    (near.0 * 3 <= flag.trim_start_matches('-').len()).then_some(near.1)
}

/// Writes a script that completes commands and long flags. llama.cpp's flags of one dash and several letters cannot be
/// told to a shell this way.
pub fn completions(shell: &str, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    let shell: Shell = shell.parse().map_err(std::io::Error::other)?;
    // Made in memory first: clap would panic at a reader that has gone.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut taper(), "taper", &mut script);
    out.write_all(&script)
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
    let positionals = settings_of(command).filter(|setting| setting.positional).map(positional);
    clap::Command::new(command.name())
        .about(command.about())
        .args(positionals)
        .args(settings_of(command).map(argument))
        .arg(config)
        .after_help("Any setting can also be given in the environment (--ctx-size as TAPER_CTX_SIZE) or in a file.")
}

fn positional(setting: &'static Setting) -> Arg {
    let several = matches!(setting.kind, Kind::Texts { .. });
    let argument = Arg::new(POSITIONAL).value_name(setting.value_name).help(setting.help).value_hint(hint(setting));
    if several { argument.num_args(1..) } else { argument }
}

/// What a shell may complete the value with.
fn hint(setting: &Setting) -> ValueHint {
    match setting.kind {
        Kind::Path { .. } => ValueHint::FilePath,
        _ if setting.name == "model" => ValueHint::AnyPath,
        _ => ValueHint::Other,
    }
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
    argument.value_name(setting.value_name).value_hint(hint(setting))
}

fn help(setting: &Setting) -> String {
    let mut help = setting.help.to_owned();
    if let Kind::Choice { values, .. } = setting.kind {
        help += &format!(" [{}]", values.join(", "));
    }
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

    fn long(line: &str) -> Result<Rewritten, SettingsError> {
        long_spellings(line.split(' ').map(str::to_owned).collect())
    }

    fn rewritten(line: &str) -> String {
        long(line).unwrap().argv.join(" ")
    }

    fn refused(line: &str) -> String {
        long(line).err().expect(line).to_string()
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
    fn a_number_may_follow_its_short_flag_at_once() {
        assert_eq!(rewritten("taper run -n5 -c512"), "taper run --predict=5 --ctx-size=512");
    }

    #[test]
    fn an_unknown_flag_is_named_whole() {
        for (line, message) in [
            ("taper run m -nglx 99", "unknown option -nglx; `taper run --help` lists what there is"),
            ("taper run -z", "unknown option -z; `taper run --help` lists what there is"),
            ("taper run --ctxsize=4", "unknown option --ctxsize; the nearest is --ctx-size"),
            ("taper run --n-predic 4", "unknown option --n-predic; the nearest is --n-predict"),
            ("taper run -hff x.gguf", "unknown option -hff; write the file after a colon: owner/name:FILE.gguf"),
            ("taper inspect m -p hi", "unknown option -p; `taper run` has it, `taper inspect` does not"),
        ] {
            assert!(refused(line).starts_with(message), "{line}: {}", refused(line));
        }
    }

    #[test]
    fn the_hubs_repository_is_a_model() {
        assert_eq!(rewritten("taper run -hf a/b:Q8_0"), "taper run --model=a/b:Q8_0");
        assert_eq!(rewritten("taper serve --hf-repo a/b"), "taper serve --model=a/b");
    }

    #[test]
    fn what_llama_cpp_needs_and_we_do_not_is_read_over_with_its_value() {
        for line in [
            "taper run -ngl 99 m.gguf",
            "taper run --gpu-layers=99 m.gguf",
            "taper run -fa m.gguf",
            "taper run -fa 1 --flash-attn on m.gguf",
            "taper run --mlock --no-mmap --jinja -cb m.gguf",
        ] {
            assert_eq!(rewritten(line), "taper run m.gguf", "{line}");
        }
        assert_eq!(rewritten("taper run -ngl -c 5"), "taper run --ctx-size=5");
        assert_eq!(rewritten("taper run -m -ngl 5"), "taper run --model");
        let warnings = long("taper run -ngl 99 --mlock").unwrap().warnings;
        assert!(warnings.len() == 2 && warnings[0].starts_with("-ngl of llama.cpp is not needed"), "{warnings:?}");
    }

    #[test]
    fn no_option_of_llama_cpp_hides_one_of_ours() {
        for spelling in table().flat_map(Setting::spellings) {
            assert!(not_needed_option(&spelling).is_none() && missing_option(&spelling).is_none(), "{spelling}");
        }
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
