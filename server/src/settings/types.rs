//! The typed settings: what the rest of the program is handed.
//!
//! `None` always has a meaning of its own (said at the field), never "not filled in yet".

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::resolve::Resolved;
use crate::breakers::DEFAULT_BREAKERS;
use crate::engine::sampling::SamplingOverrides;

/// The subcommands of `taper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Serve,
    Run,
    Pull,
    List,
    Show,
    Rm,
    Inspect,
    Bench,
    Completions,
}

/// Everything a user chose for one invocation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The model as it was named: a path, an alias, or a name on the Hub. Empty where the command takes none.
    pub model: String,
    /// The models that `rm` removes, as they were named.
    pub models: Vec<String>,
    /// Names that the settings file gives to models.
    pub aliases: BTreeMap<String, String>,
    /// Branch, tag or commit. `None`: what the name says, else `main`.
    pub revision: Option<String>,
    /// Nothing is asked of the Hub.
    pub offline: bool,
    /// Connections that download at once (`pull`).
    pub jobs: usize,
    /// Remove without asking (`rm`).
    pub yes: bool,
    /// `bash`, `zsh` or `fish` (`completions`).
    pub shell: String,
    pub describe: DescribeSettings,
    pub engine: EngineSettings,
    pub sampling: SamplingSettings,
    pub run: RunSettings,
    pub bench: BenchSettings,
    pub server: ServerSettings,
    /// Print JSON instead of text.
    pub json: bool,
    /// What is logged, in `tracing`'s filter syntax: a level, or levels by module.
    pub log_level: String,
    /// Log lines are JSON objects instead of text.
    pub log_json: bool,
    /// Every setting of the subcommand by name: its value as text, and where it came from.
    pub resolved: BTreeMap<&'static str, Resolved>,
    /// What to tell the user about what they gave, once there is a log to tell it in.
    pub warnings: Vec<String>,
}

/// What `inspect` and `show` tell beyond the usual.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DescribeSettings {
    /// Memory bandwidth in 10^9 bytes a second. `None`: not known.
    pub bandwidth: Option<f32>,
    /// Every tensor is listed.
    pub tensors: bool,
}

/// Model loading, scheduling and the KV cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineSettings {
    /// Tokens a sequence may have. `None`: the model's limit, or what the cache can hold if that is less.
    pub ctx_size: Option<usize>,
    /// Compute threads. `None`: one per physical core.
    pub threads: Option<usize>,
    /// Most tokens that one step computes, over all sequences: the smaller of `--batch-size` and `--ubatch-size`.
    pub step_tokens: usize,
    /// Most sequences that run at once.
    pub parallel: usize,
    pub kv_cache_dtype: KvCacheDtype,
    /// Bytes for the KV cache. `None`: chosen from the model, `ctx_size`, `parallel` and free memory.
    pub kv_cache_memory: Option<u64>,
    /// Tokens in a KV block.
    pub block_size: usize,
    pub prefix_cache: bool,
    /// Tokens are guessed from what came before.
    pub guess: bool,
    /// Tokens of a guess at most.
    pub draft_max: usize,
    /// Most requests that wait before further ones are refused.
    pub queue_limit: usize,
}

impl EngineSettings {
    /// Tokens that the engine guesses at a time; 0: none.
    pub fn draft_tokens(&self) -> usize {
        if self.guess { self.draft_max } else { 0 }
    }
}

/// Element type of cached keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KvCacheDtype {
    #[default]
    F16,
    F32,
}

/// How tokens are chosen, and what ends an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingSettings {
    /// What the user set; the rest is left to the checkpoint's generation defaults, and below them to the engine's.
    pub overrides: SamplingOverrides,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Texts that no repetition goes across, for DRY. `None`: llama.cpp's.
    pub dry_sequence_breakers: Option<Vec<String>>,
}

impl SamplingSettings {
    /// The texts that no repetition goes across, for DRY.
    pub fn dry_sequence_breakers(&self) -> Vec<String> {
        let default = || DEFAULT_BREAKERS.iter().map(|text| (*text).to_owned()).collect();
        self.dry_sequence_breakers.clone().unwrap_or_else(default)
    }
}

/// What `taper run` says to the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunSettings {
    /// Answer this and end. Without it and without `file`: a chat on a terminal, else standard input is the prompt.
    pub prompt: Option<String>,
    /// As `prompt`, read from a file; `-` is standard input.
    pub file: Option<PathBuf>,
    pub system_prompt: Option<String>,
    /// Complete the text as it is, without a chat template.
    pub raw: bool,
    /// A Jinja template that replaces the checkpoint's.
    pub chat_template: Option<String>,
    pub chat_template_file: Option<PathBuf>,
}

/// What `taper bench` measures: every combination of the lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BenchSettings {
    /// Prompt lengths in tokens; 0 skips the prompt measurement.
    pub n_prompt: Vec<usize>,
    /// Generated lengths in tokens; 0 skips the generation measurement.
    pub n_gen: Vec<usize>,
    /// Tokens already in the cache when a measurement starts.
    pub n_depth: Vec<usize>,
    /// Sequences that generate at the same time.
    pub streams: Vec<usize>,
    /// Measurements per row; the median is reported.
    pub repetitions: usize,
}

/// Where `taper serve` listens, whom it answers, and what it refuses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerSettings {
    pub host: String,
    /// 0: a free one.
    pub port: u16,
    /// Model name in the API. `None`: the file's name without its extension.
    pub alias: Option<String>,
    /// Path before all routes, as the user wrote it; empty for none.
    pub api_prefix: String,
    /// Longest silence in a stream; zero: as long as it takes.
    pub ping_interval: Duration,
    pub drain_timeout: Duration,
    pub slow_client_timeout: Duration,
    pub stall_timeout: Duration,
    /// How long an answer may take. `None`: as long as it likes.
    pub request_timeout: Option<Duration>,
    pub log_prompts: bool,
    pub api_keys: Vec<String>,
    pub api_key_file: Option<PathBuf>,
    /// Listening beyond loopback without keys is meant.
    pub insecure: bool,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// Addresses and networks, as the user wrote them.
    pub trusted_proxies: Vec<String>,
    /// Unknown fields are an error.
    pub strict_params: bool,
    /// Name of the chat format. `None`: as the template shows.
    pub tool_call_parser: Option<String>,
    /// Name of the tags of thoughts. `None`: as the template shows.
    pub reasoning_parser: Option<String>,
    /// Tokens of thoughts. `None`: as many as they take.
    pub reasoning_budget: Option<usize>,
    /// The last of thoughts that have used up their budget.
    pub reasoning_budget_message: String,
    pub limits: RequestLimits,
}

/// How large a request may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestLimits {
    pub body_bytes: usize,
    /// Bytes of all bodies that are being read.
    pub body_memory: usize,
    /// Answers to one prompt.
    pub n: usize,
    /// Prompts of one completion request.
    pub prompts: usize,
    /// Stop strings, and stop token ids.
    pub stop: usize,
    pub logit_bias: usize,
    pub messages: usize,
}
