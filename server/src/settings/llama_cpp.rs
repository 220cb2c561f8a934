//! Options of llama.cpp that a pasted command line may hold and that are no settings here, each with the reason.
//!
//! The ones in [`NOT_NEEDED`] change nothing that a user would miss, so the program goes on without them and says so.
//! Those in [`MISSING`] ask for something that there is not; they end the program, with the way around.

/// An option that is read over, with its value.
pub(super) struct NotNeeded {
    spellings: &'static [&'static str],
    value: Value,
    pub why: &'static str,
}

/// What follows an option.
enum Value {
    None,
    /// `on`, `off`, `auto` or a number; older versions of llama.cpp take none here.
    Toggle,
    One,
}

use Value::{None as Nothing, One, Toggle};

static NOT_NEEDED: &[NotNeeded] = &[
    not_needed(&["-ngl", "--n-gpu-layers", "--gpu-layers"], One, "the whole model runs on one device, see --device"),
    not_needed(&["-fa", "--flash-attn"], Toggle, "attention never writes out its whole score matrix"),
    not_needed(&["--mlock"], Nothing, "weights are read into memory, not mapped"),
    not_needed(&["--mmap", "--no-mmap"], Nothing, "weights are read into memory, not mapped"),
    not_needed(&["-mmp"], One, "weights are read into memory, not mapped"),
    not_needed(&["--jinja"], Nothing, "chat templates are always run as Jinja"),
    not_needed(&["-cb", "--cont-batching"], Nothing, "batching is always continuous"),
    not_needed(&["-cnv", "--conversation"], Nothing, "without a prompt there is a conversation"),
    not_needed(&["-tb", "--threads-batch"], One, "--threads counts for prompts and answers"),
    not_needed(&["--no-display-prompt"], Nothing, "the prompt is never shown"),
    not_needed(&["--no-warmup"], Nothing, "there is no warm-up run"),
    not_needed(&["--metrics"], Nothing, "/metrics is always there"),
    not_needed(&["--props", "--slots"], Nothing, "/props and /slots can always be read"),
    not_needed(&["--no-webui"], Nothing, "there is no web chat"),
    not_needed(&["--no-context-shift"], Nothing, "contexts are never shifted"),
    not_needed(&["--cache-reuse"], One, "prefixes are shared in whole blocks, see --block-size"),
    not_needed(
        &["--threads-http", "-to", "--timeout"],
        One,
        "connections do not hold threads; see --slow-client-timeout",
    ),
    not_needed(&["-kvu", "--kv-unified", "--swa-full"], Nothing, "all sequences share one pool of KV blocks"),
    not_needed(&["-sm", "--split-mode", "-mg", "--main-gpu", "-ts", "--tensor-split"], One, "there is one device"),
    not_needed(&["--numa"], One, "threads are not bound to nodes"),
    not_needed(&["--color"], Toggle, "output has no colours"),
];

static MISSING: &[(&[&str], &str)] = &[
    (&["-hff", "--hf-file"], "write the file after a colon: owner/name:FILE.gguf"),
    (
        &["-mu", "--model-url"],
        "models come from files and from the Hugging Face Hub: name owner/name, or an address there",
    ),
    (&["-hft", "--hf-token"], "a token on a command line is seen by every user of the machine; set HF_TOKEN"),
];

const fn not_needed(spellings: &'static [&'static str], value: Value, why: &'static str) -> NotNeeded {
    NotNeeded { spellings, value, why }
}

impl NotNeeded {
    /// Whether `next`, the word after the option, is its value.
    pub fn takes(&self, next: &str) -> bool {
        match self.value {
            Value::None => false,
            Value::Toggle => ["on", "off", "auto", "0", "1"].contains(&next),
            Value::One => true,
        }
    }
}

/// The option spelled `flag` (with its dashes), if it is one that is not needed.
pub(super) fn not_needed_option(flag: &str) -> Option<&'static NotNeeded> {
    NOT_NEEDED.iter().find(|option| option.spellings.contains(&flag))
}

/// The way around the option spelled `flag`, if it is one that there is not.
pub(super) fn missing_option(flag: &str) -> Option<&'static str> {
    MISSING.iter().find(|(spellings, _)| spellings.contains(&flag)).map(|(_, way_around)| *way_around)
}
