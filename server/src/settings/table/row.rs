//! What a row of the table is, how one is written, and what rows are grouped by.

use std::path::PathBuf;

use super::super::types::{Command, Settings};
use crate::engine::sampling::SamplerKind;

/// One row.
#[derive(Debug)]
pub(in super::super) struct Setting {
    /// Long flag without dashes, and TOML key.
    pub name: &'static str,
    pub short: Option<char>,
    /// Further spellings, each with its dashes: `--n-predict`, or llama.cpp's `-np`.
    pub also: &'static [&'static str],
    /// Variables of other tools that set it, too; ours wins.
    pub other_variables: &'static [&'static str],
    pub commands: &'static [Command],
    pub section: &'static str,
    /// What stands for the value in help.
    pub value_name: &'static str,
    pub kind: Kind,
    pub default: Default,
    pub help: &'static str,
    /// May be given without its flag.
    pub positional: bool,
    /// Spellings that elsewhere are settings of their own: different values are an error, not "the last one wins".
    pub must_agree: bool,
}

/// What a setting's value may be, and the field it goes to.
#[derive(Debug)]
pub(in super::super) enum Kind {
    /// Present or not; `--name=false` takes back what a file or the environment set.
    Switch {
        set: fn(&mut Settings, bool),
    },
    Integer {
        min: i64,
        max: i64,
        set: fn(&mut Settings, i64),
    },
    /// A whole number of at least 1, or -1 for "no limit".
    Limit {
        set: fn(&mut Settings, Option<usize>),
    },
    Number {
        min: f64,
        max: f64,
        set: fn(&mut Settings, f32),
    },
    /// `auto`, or bytes with an optional suffix K, M, G or T (powers of 1024).
    Bytes {
        set: fn(&mut Settings, Option<u64>),
    },
    Text {
        set: fn(&mut Settings, String),
    },
    Path {
        set: fn(&mut Settings, PathBuf),
    },
    Choice {
        values: &'static [&'static str],
        set: fn(&mut Settings, &str),
    },
    /// Whole numbers separated by commas.
    Integers {
        min: usize,
        set: fn(&mut Settings, Vec<usize>),
    },
    /// May be given several times.
    Texts {
        set: fn(&mut Settings, Vec<String>),
    },
    /// Names of samplers separated by semicolons, or their letters.
    Samplers {
        by_letter: bool,
        set: fn(&mut Settings, Vec<SamplerKind>),
    },
    /// May be given several times: token id, then the bias with its sign.
    Biases {
        set: fn(&mut Settings, Vec<(u32, f32)>),
    },
}

/// The value where nobody gave one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Default {
    /// The field stays as it is in `Settings::default()`.
    Unset,
    /// This value.
    Value(&'static str),
    /// The field stays unset so that the checkpoint decides; this value where the checkpoint says nothing.
    Checkpoint(&'static str),
}

use Command::{Bench, Completions, Inspect, List, Pull, Rm, Run, Serve, Show};
pub(super) const ALL: &[Command] = &[Serve, Run, Pull, List, Show, Rm, Inspect, Bench, Completions];
/// Commands that open one model.
pub(super) const OPENING: &[Command] = &[Serve, Run, Show, Inspect, Bench];
/// Commands that take the name of one model.
pub(super) const NAMING: &[Command] = &[Serve, Run, Pull, Show, Inspect, Bench];
pub(super) const ENGINE: &[Command] = &[Serve, Run, Bench];
pub(super) const CHAT: &[Command] = &[Serve, Run];
pub(super) const TOOLS: &[Command] = &[Run, Pull, List, Show, Rm, Inspect, Bench, Completions];
pub(super) const TALK: &[Command] = &[Run];
pub(super) const HTTP: &[Command] = &[Serve];
pub(super) const BENCH: &[Command] = &[Bench];
pub(super) const DESCRIBE: &[Command] = &[Inspect, Show];
pub(super) const PULL: &[Command] = &[Pull];
pub(super) const REMOVE: &[Command] = &[Rm];
pub(super) const SHELL: &[Command] = &[Completions];
pub(super) const REPORT: &[Command] = &[Inspect, Bench, Pull, List, Show, Rm];

pub(super) const fn setting(name: &'static str, value_name: &'static str, kind: Kind) -> Setting {
    Setting {
        name,
        short: None,
        also: &[],
        other_variables: &[],
        commands: ALL,
        section: "",
        value_name,
        kind,
        default: Default::Unset,
        help: "",
        positional: false,
        must_agree: false,
    }
}

impl Setting {
    pub(super) const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }
    pub(super) const fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
    pub(super) const fn other_variables(mut self, variables: &'static [&'static str]) -> Self {
        self.other_variables = variables;
        self
    }
    pub(super) const fn of(mut self, section: &'static str, commands: &'static [Command]) -> Self {
        self.section = section;
        self.commands = commands;
        self
    }
    pub(super) const fn default(mut self, value: &'static str) -> Self {
        self.default = Default::Value(value);
        self
    }
    pub(super) const fn checkpoint_or(mut self, value: &'static str) -> Self {
        self.default = Default::Checkpoint(value);
        self
    }
    pub(super) const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }
    pub(super) const fn positional(mut self) -> Self {
        self.positional = true;
        self
    }

    pub(super) const fn must_agree(mut self) -> Self {
        self.must_agree = true;
        self
    }

    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch { .. })
    }

    /// All its spellings, with their dashes.
    pub fn spellings(&self) -> impl Iterator<Item = String> + use<> {
        let short = self.short.map(|short| format!("-{short}"));
        short.into_iter().chain([format!("--{}", self.name)]).chain(self.also.iter().map(|flag| (*flag).to_owned()))
    }

    /// Whether `flag` (with its dashes, without a value) is one of this setting's spellings.
    pub fn is_spelled(&self, flag: &str) -> bool {
        self.spellings().any(|spelling| spelling == flag)
    }
}

pub(super) const MODEL: &str = "Model";
pub(super) const CACHE: &str = "Scheduling and KV cache";
pub(super) const PROMPT: &str = "Prompt";
pub(super) const SAMPLING: &str = "Sampling";
pub(super) const ADDRESS: &str = "Address and API";
pub(super) const ACCESS: &str = "Access";
pub(super) const LIMITS: &str = "Limits of a request";
pub(super) const MEASUREMENT: &str = "Measurement";
pub(super) const OUTPUT: &str = "Output";
