//! The table: every setting's flags, value, default, help, and where it goes.
//!
//! A setting is added here and nowhere else (and as a field of [`Settings`](super::Settings)), in the file of its topic. Its
//! long flag is also its TOML key, and with `TAPER_` in front, in capitals, its environment variable. One flag may mean
//! different things to different subcommands, as `-p` does in llama.cpp's tools: those are two rows with disjoint `commands`.

mod cache;
mod model;
mod output;
mod prompt;
mod row;
mod sampling;
mod server;

use row::{ALL, NAMING};
pub(super) use row::{Default, Kind, Setting};

use super::types::Command::{self, Bench, Completions, Inspect, List, Pull, Rm, Run, Serve, Show};

/// All settings, in the order of help and documentation.
pub(super) fn table() -> impl Iterator<Item = &'static Setting> {
    [model::ROWS, cache::ROWS, prompt::ROWS, sampling::ROWS, server::ROWS, output::ROWS].into_iter().flatten()
}

/// Pairs of which one may be given: the more specific origin wins, two of the same origin are an error.
pub(super) static EXCLUSIVE: &[[&str; 2]] = &[
    ["prompt", "file"],
    ["samplers", "sampler-seq"],
    ["chat-template", "chat-template-file"],
    ["raw", "system-prompt"],
    ["raw", "chat-template"],
    ["raw", "chat-template-file"],
    ["verbose", "log-level"],
];

/// The environment variable of the setting with this name.
pub(super) fn variable(name: &str) -> String {
    format!("TAPER_{}", name.replace('-', "_").to_uppercase())
}

/// The settings that `command` takes, in the table's order.
pub(super) fn settings_of(command: Command) -> impl Iterator<Item = &'static Setting> {
    table().filter(move |setting| setting.commands.contains(&command))
}

impl Command {
    pub(super) const ALL: &[Self] = ALL;

    pub fn name(self) -> &'static str {
        match self {
            Serve => "serve",
            Run => "run",
            Pull => "pull",
            List => "list",
            Show => "show",
            Rm => "rm",
            Inspect => "inspect",
            Bench => "bench",
            Completions => "completions",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Serve => "Serve a model over HTTP, with OpenAI's API",
            Run => "Chat with a model, or answer one prompt",
            Pull => "Download a model from the Hugging Face Hub, or bring it up to date",
            List => "List the models in the Hub's cache, and the aliases",
            Show => "Show a model that is here: where its files are, and what inspect shows",
            Rm => "Remove models from the Hub's cache",
            Inspect => "Show what a model file holds and what it needs",
            Bench => "Measure prompt processing and generation",
            Completions => "Print a script that completes commands and flags in a shell",
        }
    }

    /// Whether it works on one model, which must be named.
    pub(super) fn needs_model(self) -> bool {
        NAMING.contains(&self)
    }
}
