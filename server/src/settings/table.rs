//! The table: every setting's flags, value, default, help, and where it goes.
//!
//! A setting is added here and nowhere else (and as a field of [`Settings`]). Its long flag is also its TOML key, and
//! with `TAPER_` in front, in capitals, its environment variable. One flag may mean different things to different
//! subcommands, as `-p` does in llama.cpp's tools: those are two rows with disjoint `commands`.

use std::path::PathBuf;
use std::time::Duration;

use super::types::{Command, KvCacheDtype, Settings};
use crate::engine::sampling::{RepetitionDetection, SamplerKind};

/// One row.
#[derive(Debug)]
pub(super) struct Setting {
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
pub(super) enum Kind {
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
pub(super) enum Default {
    /// The field stays as it is in `Settings::default()`.
    Unset,
    /// This value.
    Value(&'static str),
    /// The field stays unset so that the checkpoint decides; this value where the checkpoint says nothing.
    Checkpoint(&'static str),
}

use Command::{Bench, Completions, Inspect, List, Pull, Rm, Run, Serve, Show};
const ALL: &[Command] = &[Serve, Run, Pull, List, Show, Rm, Inspect, Bench, Completions];
/// Commands that open one model.
const OPENING: &[Command] = &[Serve, Run, Show, Inspect, Bench];
/// Commands that take the name of one model.
const NAMING: &[Command] = &[Serve, Run, Pull, Show, Inspect, Bench];
const ENGINE: &[Command] = &[Serve, Run, Bench];
const CHAT: &[Command] = &[Serve, Run];
const TOOLS: &[Command] = &[Run, Pull, List, Show, Rm, Inspect, Bench, Completions];
const TALK: &[Command] = &[Run];
const HTTP: &[Command] = &[Serve];
const BENCH: &[Command] = &[Bench];
const DESCRIBE: &[Command] = &[Inspect, Show];
const PULL: &[Command] = &[Pull];
const REMOVE: &[Command] = &[Rm];
const SHELL: &[Command] = &[Completions];
const REPORT: &[Command] = &[Inspect, Bench, Pull, List, Show, Rm];

const fn setting(name: &'static str, value_name: &'static str, kind: Kind) -> Setting {
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
    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }
    const fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
    const fn other_variables(mut self, variables: &'static [&'static str]) -> Self {
        self.other_variables = variables;
        self
    }
    const fn of(mut self, section: &'static str, commands: &'static [Command]) -> Self {
        self.section = section;
        self.commands = commands;
        self
    }
    const fn default(mut self, value: &'static str) -> Self {
        self.default = Default::Value(value);
        self
    }
    const fn checkpoint_or(mut self, value: &'static str) -> Self {
        self.default = Default::Checkpoint(value);
        self
    }
    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }
    const fn positional(mut self) -> Self {
        self.positional = true;
        self
    }

    const fn must_agree(mut self) -> Self {
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

const MODEL: &str = "Model";
const CACHE: &str = "Scheduling and KV cache";
const PROMPT: &str = "Prompt";
const SAMPLING: &str = "Sampling";
const ADDRESS: &str = "Address and API";
const ACCESS: &str = "Access";
const LIMITS: &str = "Limits of a request";
const MEASUREMENT: &str = "Measurement";
const OUTPUT: &str = "Output";

pub(super) static TABLE: &[Setting] = &[
    setting("model", "MODEL", Kind::Text { set: |s, v| s.model = v })
        .short('m')
        .also(&["-hf", "-hfr", "--hf-repo"])
        .positional()
        .must_agree()
        .of(MODEL, NAMING)
        .help(
            "A GGUF file (of a split one, its first part), a directory with safetensors, an alias of the settings file, \
             or owner/name[@revision][:quantisation] on the Hugging Face Hub",
        ),
    setting("model", "MODEL", Kind::Texts { set: |s, v| s.models = v })
        .short('m')
        .positional()
        .of(MODEL, REMOVE)
        .help(
            "Model of the Hub's cache, or an alias of one; several may be named. Without a quantisation, all there is \
             of it. Counts on the command line only",
        ),
    setting("revision", "REV", Kind::Text { set: |s, v| s.revision = Some(v) })
        .of(MODEL, NAMING)
        .help("Branch, tag or commit of a model on the Hub; without it, main"),
    setting("offline", "", Kind::Switch { set: |s, v| s.offline = v })
        .other_variables(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
        .default("false")
        .of(MODEL, NAMING)
        .help("Ask nothing of the Hub: files and what is already in its cache"),
    setting("jobs", "N", Kind::Integer { min: 1, max: 64, set: |s, v| s.jobs = v as usize })
        .default("8")
        .of(MODEL, PULL)
        .help("Most connections that download at once"),
    setting("yes", "", Kind::Switch { set: |s, v| s.yes = v })
        .short('y')
        .default("false")
        .of(MODEL, REMOVE)
        .help("Remove without asking"),
    setting("device", "NAME", Kind::Choice { values: &["cpu"], set: |_, _| {} })
        .default("cpu")
        .of(MODEL, ENGINE)
        .help("Where the model runs; so far on the CPU only"),
    setting(
        "ctx-size",
        "TOKENS",
        Kind::Integer { min: 0, max: u32::MAX as i64, set: |s, v| s.engine.ctx_size = positive(v) },
    )
    .short('c')
    .also(&["--max-model-len"])
    .default("0")
    .of(MODEL, OPENING)
    .help("Longest context of a sequence; 0: the model's limit, or what fits"),
    setting("threads", "N", Kind::Integer { min: -1, max: 1024, set: |s, v| s.engine.threads = positive(v) })
        .short('t')
        .default("0")
        .of(MODEL, ENGINE)
        .help("Compute threads; 0 or -1: one per physical core; more than the logical CPUs: slower, with a warning"),
    // --- scheduling and cache ---
    setting(
        "ubatch-size",
        "TOKENS",
        Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.engine.step_tokens = v as usize },
    )
    .also(&["-ub", "--max-num-batched-tokens"])
    .default("512")
    .of(CACHE, OPENING)
    .help("Most tokens computed in one step, over all sequences; long prompts are cut into such pieces"),
    // After ubatch-size, whose value it may lower.
    setting(
        "batch-size",
        "TOKENS",
        Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.engine.step_tokens = s.engine.step_tokens.min(v as usize) },
    )
    .short('b')
    .default("2048")
    .of(CACHE, OPENING)
    .help("As in llama.cpp, an upper limit to ubatch-size"),
    setting("parallel", "N", Kind::Integer { min: 1, max: 4096, set: |s, v| s.engine.parallel = v as usize })
        .also(&["-np", "--max-num-seqs"])
        .default("32")
        .of(CACHE, OPENING)
        .help("Most sequences that run at once; others wait"),
    setting(
        "kv-cache-dtype",
        "TYPE",
        Kind::Choice {
            values: &["f16", "f32"],
            set: |s, v| s.engine.kv_cache_dtype = if v == "f32" { KvCacheDtype::F32 } else { KvCacheDtype::F16 },
        },
    )
    .also(&["-ctk", "--cache-type-k", "-ctv", "--cache-type-v"])
    .must_agree()
    .default("f16")
    .of(CACHE, OPENING)
    .help("Type of cached keys and values, the same for both"),
    setting("kv-cache-memory", "BYTES", Kind::Bytes { set: |s, v| s.engine.kv_cache_memory = v })
        .default("auto")
        .of(CACHE, OPENING)
        .help("Memory for the KV cache: bytes, or 512M, 4G; auto: from the model, ctx-size, parallel and free memory"),
    setting(
        "block-size",
        "TOKENS",
        Kind::Choice { values: &["16", "32"], set: |s, v| s.engine.block_size = if v == "32" { 32 } else { 16 } },
    )
    .default("32")
    .of(CACHE, OPENING)
    .help("Tokens in a KV block; prefixes are shared in whole blocks"),
    setting("no-prefix-cache", "", Kind::Switch { set: |s, v| s.engine.prefix_cache = !v })
        .default("false")
        .of(CACHE, ENGINE)
        .help("Compute every prompt from its start, even if its beginning is cached"),
    setting(
        "spec-type",
        "KIND",
        Kind::Choice { values: &["none", "ngram-simple"], set: |s, v| s.engine.guess = v == "ngram-simple" },
    )
    .default("none")
    .of(CACHE, ENGINE)
    .help(
        "How tokens are guessed, to compute several in one step: ngram-simple: as it went on before, where the last three \
         tokens were the same. Answers stay as they are. A request's `prediction` is used in any case",
    ),
    setting("draft-max", "TOKENS", Kind::Integer { min: 1, max: 64, set: |s, v| s.engine.draft_max = v as usize })
        .also(&["--draft", "--draft-n"])
        .default("16")
        .of(CACHE, ENGINE)
        .help("Most tokens that are guessed at a time"),
    setting("queue-limit", "N", Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.engine.queue_limit = v as usize })
        .default("256")
        .of(CACHE, ENGINE)
        .help("Most requests that wait; further ones are refused"),
    // --- taper run: what is said ---
    setting("prompt", "TEXT", Kind::Text { set: |s, v| s.run.prompt = Some(v) }).short('p').of(PROMPT, TALK).help(
        "Answer this and end, without reading standard input; without a prompt: a chat, or what standard input holds",
    ),
    setting("file", "FILE", Kind::Path { set: |s, v| s.run.file = Some(v) })
        .short('f')
        .of(PROMPT, TALK)
        .help("Read the prompt from a file; -: from standard input"),
    setting("system-prompt", "TEXT", Kind::Text { set: |s, v| s.run.system_prompt = Some(v) })
        .also(&["-sys"])
        .of(PROMPT, TALK)
        .help("What the model is told before the conversation"),
    setting("raw", "", Kind::Switch { set: |s, v| s.run.raw = v })
        .also(&["-no-cnv", "--no-cnv", "--no-conversation"])
        .default("false")
        .of(PROMPT, TALK)
        .help("Continue the prompt as it is, without a chat template"),
    setting("chat-template", "JINJA", Kind::Text { set: |s, v| s.run.chat_template = Some(v) })
        .of(PROMPT, CHAT)
        .help("Chat template to use instead of the model's"),
    setting("chat-template-file", "FILE", Kind::Path { set: |s, v| s.run.chat_template_file = Some(v) })
        .of(PROMPT, CHAT)
        .help("As chat-template, read from a file"),
    // --- taper run: how tokens are chosen ---
    setting("predict", "TOKENS", Kind::Limit { set: |s, v| s.sampling.overrides.max_tokens = v })
        .short('n')
        .also(&["--n-predict", "--max-tokens"])
        .default("-1")
        .of(SAMPLING, CHAT)
        .help("Most tokens of an answer; -1: until the model ends"),
    setting(
        "seed",
        "N",
        Kind::Integer { min: -1, max: i64::MAX, set: |s, v| s.sampling.overrides.seed = u64::try_from(v).ok() },
    )
    .short('s')
    .default("-1")
    .of(SAMPLING, CHAT)
    .help("Same seed and settings, same answer; -1: a new seed each time"),
    setting(
        "temperature",
        "T",
        Kind::Number { min: 0.0, max: f64::INFINITY, set: |s, v| s.sampling.overrides.temperature = Some(v) },
    )
    .also(&["--temp"])
    .checkpoint_or("1.0")
    .of(SAMPLING, CHAT)
    .help("0: always the likeliest token; higher: more varied"),
    setting(
        "dynatemp-range",
        "T",
        Kind::Number { min: 0.0, max: 10.0, set: |s, v| s.sampling.overrides.dynatemp_range = Some(v) },
    )
    .default("0.0")
    .of(SAMPLING, CHAT)
    .help("How far the temperature may go from --temperature: down where the model is sure, up where it is not; 0: fixed"),
    setting(
        "dynatemp-exp",
        "F",
        Kind::Number { min: 0.0, max: 10.0, set: |s, v| s.sampling.overrides.dynatemp_exponent = Some(v) },
    )
    .also(&["--dynatemp-exponent"])
    .default("1.0")
    .of(SAMPLING, CHAT)
    .help("Power of the entropy by which the temperature goes"),
    setting(
        "top-k",
        "N",
        Kind::Integer {
            min: -1,
            max: u32::MAX as i64,
            set: |s, v| s.sampling.overrides.top_k = Some(v.max(0) as usize),
        },
    )
    .checkpoint_or("0")
    .of(SAMPLING, CHAT)
    .help("Choose among the N likeliest tokens; 0 or -1: off"),
    setting(
        "top-p",
        "P",
        Kind::Number { min: f64::MIN_POSITIVE, max: 1.0, set: |s, v| s.sampling.overrides.top_p = Some(v) },
    )
    .checkpoint_or("1.0")
    .of(SAMPLING, CHAT)
    .help("Choose among the likeliest tokens that together reach this probability; 1: off"),
    setting("min-p", "P", Kind::Number { min: 0.0, max: 1.0, set: |s, v| s.sampling.overrides.min_p = Some(v) })
        .checkpoint_or("0.0")
        .of(SAMPLING, CHAT)
        .help("Drop tokens below this part of the likeliest one's probability; 0: off"),
    setting(
        "typical-p",
        "P",
        Kind::Number { min: f64::MIN_POSITIVE, max: 1.0, set: |s, v| s.sampling.overrides.typical_p = Some(v) },
    )
    .also(&["--typical"])
    .checkpoint_or("1.0")
    .of(SAMPLING, CHAT)
    .help("Locally typical sampling; 1: off"),
    setting(
        "top-nsigma",
        "N",
        Kind::Number { min: -1.0, max: 100.0, set: |s, v| s.sampling.overrides.top_n_sigma = Some(v) },
    )
    .also(&["--top-n-sigma"])
    .default("-1.0")
    .of(SAMPLING, CHAT)
    .help("Drop tokens whose logit is more standard deviations below the largest; 0 or -1: off"),
    setting(
        "xtc-probability",
        "P",
        Kind::Number { min: 0.0, max: 1.0, set: |s, v| s.sampling.overrides.xtc_probability = Some(v) },
    )
    .default("0.0")
    .of(SAMPLING, CHAT)
    .help("How often XTC drops all but the least likely of the top choices; 0: never"),
    setting(
        "xtc-threshold",
        "P",
        Kind::Number { min: 0.0, max: 1.0, set: |s, v| s.sampling.overrides.xtc_threshold = Some(v) },
    )
    .default("0.1")
    .of(SAMPLING, CHAT)
    .help("Probability from which a token is a top choice to XTC; above 0.5: off"),
    setting(
        "mirostat",
        "N",
        Kind::Integer { min: 0, max: 2, set: |s, v| s.sampling.overrides.mirostat = Some(v as u8) },
    )
    .default("0")
    .of(SAMPLING, CHAT)
    .help("Keep the surprise of the answer near a target, by Mirostat 1 or 2, which replaces --samplers; 0: off"),
    setting(
        "mirostat-ent",
        "BITS",
        Kind::Number { min: 0.0, max: 100.0, set: |s, v| s.sampling.overrides.mirostat_tau = Some(v) },
    )
    .also(&["--mirostat-tau"])
    .default("5.0")
    .of(SAMPLING, CHAT)
    .help("Surprise in bits that Mirostat aims at (tau)"),
    setting(
        "mirostat-lr",
        "F",
        Kind::Number { min: 0.0, max: 1.0, set: |s, v| s.sampling.overrides.mirostat_eta = Some(v) },
    )
    .also(&["--mirostat-eta"])
    .default("0.1")
    .of(SAMPLING, CHAT)
    .help("How fast Mirostat follows (eta)"),
    setting(
        "repeat-penalty",
        "F",
        Kind::Number { min: 0.01, max: 100.0, set: |s, v| s.sampling.overrides.repetition_penalty = Some(v) },
    )
    .also(&["--repetition-penalty"])
    .checkpoint_or("1.0")
    .of(SAMPLING, CHAT)
    .help("Above 1: tokens that occurred become less likely; 1: off"),
    setting(
        "repeat-last-n",
        "TOKENS",
        Kind::Integer {
            min: -1,
            max: i32::MAX as i64,
            set: |s, v| s.sampling.overrides.repeat_last_n = Some(v as i32),
        },
    )
    .checkpoint_or("64")
    .of(SAMPLING, CHAT)
    .help("How far the penalties look back; 0: off, -1: the whole context"),
    setting(
        "presence-penalty",
        "F",
        Kind::Number { min: -2.0, max: 2.0, set: |s, v| s.sampling.overrides.presence_penalty = Some(v) },
    )
    .checkpoint_or("0.0")
    .of(SAMPLING, CHAT)
    .help("Taken from the logit of every token that occurred"),
    setting(
        "frequency-penalty",
        "F",
        Kind::Number { min: -2.0, max: 2.0, set: |s, v| s.sampling.overrides.frequency_penalty = Some(v) },
    )
    .checkpoint_or("0.0")
    .of(SAMPLING, CHAT)
    .help("Taken from the logit of a token for each time it occurred"),
    setting(
        "dry-multiplier",
        "F",
        Kind::Number { min: 0.0, max: 100.0, set: |s, v| s.sampling.overrides.dry_multiplier = Some(v) },
    )
    .default("0.0")
    .of(SAMPLING, CHAT)
    .help("What DRY takes from the logit of a token that makes a repetition one longer than allowed; 0: off"),
    setting(
        "dry-base",
        "F",
        Kind::Number { min: 1.0, max: 100.0, set: |s, v| s.sampling.overrides.dry_base = Some(v) },
    )
    .default("1.75")
    .of(SAMPLING, CHAT)
    .help("Factor on that for each further token of the repetition"),
    setting(
        "dry-allowed-length",
        "TOKENS",
        Kind::Integer {
            min: 0,
            max: i32::MAX as i64,
            set: |s, v| s.sampling.overrides.dry_allowed_length = Some(v as usize),
        },
    )
    .default("2")
    .of(SAMPLING, CHAT)
    .help("Tokens that may repeat themselves without DRY minding"),
    setting(
        "dry-penalty-last-n",
        "TOKENS",
        Kind::Integer {
            min: -1,
            max: i32::MAX as i64,
            set: |s, v| s.sampling.overrides.dry_penalty_last_n = Some(v as i32),
        },
    )
    .default("64")
    .of(SAMPLING, CHAT)
    .help("How far DRY looks back; 0: off, -1: the whole context"),
    setting(
        "dry-sequence-breaker",
        "TEXT",
        Kind::Texts { set: |s, v| s.sampling.dry_sequence_breakers = Some(breakers(v)) },
    )
    .of(SAMPLING, CHAT)
    .help(
        "Text that no repetition goes across, \\n for the end of a line; instead of \\n : \" and *, or none; may be repeated",
    ),
    setting(
        "samplers",
        "NAMES",
        Kind::Samplers { by_letter: false, set: |s, v| s.sampling.overrides.samplers = Some(v) },
    )
    .default("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature")
    .of(SAMPLING, CHAT)
    .help("Samplers in their order, separated by ;, those not named are not used"),
    setting(
        "sampler-seq",
        "LETTERS",
        Kind::Samplers { by_letter: true, set: |s, v| s.sampling.overrides.samplers = Some(v) },
    )
    .also(&["--sampling-seq"])
    .of(SAMPLING, CHAT)
    .help("The same by letters; edskypmxt is the default order"),
    setting("logit-bias", "ID+BIAS", Kind::Biases { set: |s, v| s.sampling.overrides.logit_bias = Some(v) })
        .of(SAMPLING, CHAT)
        .help("Make a token likelier (15043+1) or less likely (15043-1); may be repeated"),
    setting("stop", "TEXT", Kind::Texts { set: |s, v| s.sampling.stop = v })
        .short('r')
        .also(&["--reverse-prompt"])
        .of(SAMPLING, TALK)
        .help("End the answer before this text; may be repeated"),
    setting(
        "min-tokens",
        "TOKENS",
        Kind::Integer { min: 0, max: u32::MAX as i64, set: |s, v| s.sampling.overrides.min_tokens = Some(v as usize) },
    )
    .default("0")
    .of(SAMPLING, CHAT)
    .help("Do not let the model end before this many tokens"),
    setting("ignore-eos", "", Kind::Switch { set: |s, v| s.sampling.overrides.ignore_eos = Some(v) })
        .default("false")
        .of(SAMPLING, CHAT)
        .help("Go on when the model ends; needs --predict or a full context to stop"),
    setting(
        "repetition-max-pattern-size",
        "TOKENS",
        Kind::Integer { min: 0, max: 4096, set: |s, v| loops(s).max_pattern_size = v as usize },
    )
    .default("0")
    .of(SAMPLING, CHAT)
    .help("End an answer that repeats a pattern of up to so many tokens; 0: off"),
    setting(
        "repetition-min-pattern-size",
        "TOKENS",
        Kind::Integer { min: 1, max: 4096, set: |s, v| loops(s).min_pattern_size = v as usize },
    )
    .default("1")
    .of(SAMPLING, CHAT)
    .help("Tokens of the shortest pattern that counts"),
    setting(
        "repetition-min-count",
        "N",
        Kind::Integer { min: 2, max: i32::MAX as i64, set: |s, v| loops(s).min_count = v as usize },
    )
    .default("4")
    .of(SAMPLING, CHAT)
    .help("How often in a row a pattern must stand"),
    // --- taper serve ---
    setting("host", "ADDRESS", Kind::Text { set: |s, v| s.server.host = v })
        .default("127.0.0.1")
        .of(ADDRESS, HTTP)
        .help("Address to listen on; 0.0.0.0: all IPv4 addresses of this machine, which needs keys or --insecure"),
    setting("port", "PORT", Kind::Integer { min: 0, max: 65535, set: |s, v| s.server.port = v as u16 })
        .default("8080")
        .of(ADDRESS, HTTP)
        .help("Port to listen on; 0: a free one"),
    setting("alias", "NAME", Kind::Text { set: |s, v| s.server.alias = Some(v) })
        .short('a')
        .also(&["--served-model-name"])
        .of(ADDRESS, HTTP)
        .help("Model name that clients see and ask for; without it, the file's name"),
    setting("tool-call-parser", "NAME", Kind::Text { set: |s, v| s.server.tool_call_parser = Some(v) })
        .of(ADDRESS, HTTP)
        .help("How the model writes tool calls, a name of docs/formats.md; without it, as the chat template shows"),
    setting("reasoning-parser", "NAME", Kind::Text { set: |s, v| s.server.reasoning_parser = Some(v) })
        .of(ADDRESS, HTTP)
        .help("How the model marks thoughts: think, none, ...; without it, as the chat template shows"),
    setting(
        "reasoning-budget",
        "TOKENS",
        Kind::Integer { min: -1, max: u32::MAX as i64, set: |s, v| s.server.reasoning_budget = usize::try_from(v).ok() },
    )
    .default("-1")
    .of(ADDRESS, HTTP)
    .help("Tokens that a model may think before its thoughts are closed; -1: as many as it likes"),
    setting("api-prefix", "PATH", Kind::Text { set: |s, v| s.server.api_prefix = v })
        .also(&["--root-path"])
        .default("")
        .of(ADDRESS, HTTP)
        .help("Path before all routes, such as /llm"),
    setting(
        "ping-interval",
        "SECONDS",
        Kind::Number { min: 0.0, max: 3600.0, set: |s, v| s.server.ping_interval = seconds(v) },
    )
    .also(&["--sse-ping-interval"])
    .default("10")
    .of(ADDRESS, HTTP)
    .help("Longest silence in a stream before a comment keeps proxies from closing it; 0: no comments"),
    setting(
        "drain-timeout",
        "SECONDS",
        Kind::Number { min: 0.0, max: 86400.0, set: |s, v| s.server.drain_timeout = seconds(v) },
    )
    .default("30")
    .of(ADDRESS, HTTP)
    .help("After SIGTERM, how long running answers may go on before they are ended"),
    setting("log-format", "FORMAT", Kind::Choice { values: &["text", "json"], set: |s, v| s.log_json = v == "json" })
        .default("text")
        .of(OUTPUT, HTTP)
        .help("How log lines are written"),
    setting("log-prompts", "", Kind::Switch { set: |s, v| s.server.log_prompts = v })
        .default("false")
        .of(OUTPUT, HTTP)
        .help("Write prompts and answers to the log, at level info"),
    setting("api-key", "KEY", Kind::Texts { set: |s, v| s.server.api_keys = v })
        .of(ACCESS, HTTP)
        .help("Key that clients must send as a bearer token; may be repeated, or several with commas between them"),
    setting("api-key-file", "FILE", Kind::Path { set: |s, v| s.server.api_key_file = Some(v) })
        .of(ACCESS, HTTP)
        .help("File with one key a line; # begins a comment"),
    setting("insecure", "", Kind::Switch { set: |s, v| s.server.insecure = v })
        .default("false")
        .of(ACCESS, HTTP)
        .help("Listen beyond this machine without keys"),
    setting("allowed-hosts", "HOST", Kind::Texts { set: |s, v| s.server.allowed_hosts = v })
        .of(ACCESS, HTTP)
        .help("Host names by which a server on a loopback address may be asked, besides localhost; may be repeated"),
    setting("allowed-origins", "ORIGIN", Kind::Texts { set: |s, v| s.server.allowed_origins = v })
        .also(&["--cors-origin"])
        .of(ACCESS, HTTP)
        .help("Web page origin that may call the API from a browser (CORS), or *; may be repeated"),
    setting("trusted-proxies", "CIDR", Kind::Texts { set: |s, v| s.server.trusted_proxies = v })
        .of(ACCESS, HTTP)
        .help("Proxy address, or network such as 10.0.0.0/8, whose X-Forwarded headers are believed; may be repeated"),
    setting(
        "max-body",
        "BYTES",
        Kind::Bytes { set: |s, v| s.server.limits.body_bytes = v.unwrap_or(32 << 20) as usize },
    )
    .default("32M")
    .of(LIMITS, HTTP)
    .help("Largest request body"),
    setting(
        "max-body-memory",
        "BYTES",
        Kind::Bytes { set: |s, v| s.server.limits.body_memory = v.unwrap_or(512 << 20) as usize },
    )
    .default("512M")
    .of(LIMITS, HTTP)
    .help("Memory for the bodies of all requests that are being read; further ones get 503"),
    setting("max-n", "N", Kind::Integer { min: 1, max: 4096, set: |s, v| s.server.limits.n = v as usize })
        .default("128")
        .of(LIMITS, HTTP)
        .help("Most answers to one prompt"),
    setting(
        "max-prompts",
        "N",
        Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.server.limits.prompts = v as usize },
    )
    .default("128")
    .of(LIMITS, HTTP)
    .help("Most prompts in one completion request"),
    setting("max-stop", "N", Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.server.limits.stop = v as usize })
        .default("32")
        .of(LIMITS, HTTP)
        .help("Most stop strings, and most stop token ids"),
    setting(
        "max-logit-bias",
        "N",
        Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.server.limits.logit_bias = v as usize },
    )
    .default("1024")
    .of(LIMITS, HTTP)
    .help("Most tokens with a bias"),
    setting(
        "max-messages",
        "N",
        Kind::Integer { min: 1, max: 1 << 20, set: |s, v| s.server.limits.messages = v as usize },
    )
    .default("4096")
    .of(LIMITS, HTTP)
    .help("Most messages in a conversation"),
    setting("strict-params", "", Kind::Switch { set: |s, v| s.server.strict_params = v })
        .default("false")
        .of(LIMITS, HTTP)
        .help("Refuse requests with unknown fields, instead of naming them in the header X-Ignored"),
    setting(
        "slow-client-timeout",
        "SECONDS",
        Kind::Number { min: 0.1, max: 86400.0, set: |s, v| s.server.slow_client_timeout = seconds(v) },
    )
    .default("60")
    .of(LIMITS, HTTP)
    .help("How long a client may not read its stream before its request is ended"),
    setting(
        "stall-timeout",
        "SECONDS",
        Kind::Number { min: 1.0, max: 86400.0, set: |s, v| s.server.stall_timeout = seconds(v) },
    )
    .default("300")
    .of(LIMITS, HTTP)
    .help("How long a step may take before /ready and /health say that no tokens are being made"),
    setting(
        "request-timeout",
        "SECONDS",
        Kind::Number {
            min: 0.0,
            max: 86400.0,
            set: |s, v| s.server.request_timeout = (v > 0.0).then(|| seconds(v)),
        },
    )
    .default("0")
    .of(LIMITS, HTTP)
    .help("How long an answer may take, the wait for its turn included; 0: as long as it likes. `timeout` of a request asks for less"),
    // --- taper bench ---
    setting("n-prompt", "N,...", Kind::Integers { min: 0, set: |s, v| s.bench.n_prompt = v })
        .short('p')
        .default("512")
        .of(MEASUREMENT, BENCH)
        .help("Prompt lengths to measure; 0: none"),
    setting("n-gen", "N,...", Kind::Integers { min: 0, set: |s, v| s.bench.n_gen = v })
        .short('n')
        .default("128")
        .of(MEASUREMENT, BENCH)
        .help("Generated lengths to measure; 0: none"),
    setting("n-depth", "N,...", Kind::Integers { min: 0, set: |s, v| s.bench.n_depth = v })
        .short('d')
        .default("0")
        .of(MEASUREMENT, BENCH)
        .help("Tokens already in the cache when a measurement starts"),
    setting("streams", "N,...", Kind::Integers { min: 1, set: |s, v| s.bench.streams = v })
        .default("1")
        .of(MEASUREMENT, BENCH)
        .help("Sequences that generate at the same time; parallel is as large, unless it is given"),
    setting("repetitions", "N", Kind::Integer { min: 1, max: 1000, set: |s, v| s.bench.repetitions = v as usize })
        .short('r')
        .default("3")
        .of(MEASUREMENT, BENCH)
        .help("Measurements per row; the median is shown"),
    // --- taper inspect, taper show ---
    setting(
        "bandwidth",
        "GB/S",
        Kind::Number { min: f64::MIN_POSITIVE, max: 1e6, set: |s, v| s.describe.bandwidth = Some(v) },
    )
    .of(OUTPUT, DESCRIBE)
    .help("Memory bandwidth in 10^9 bytes a second: shows how fast decoding can be with it at most"),
    setting("tensors", "", Kind::Switch { set: |s, v| s.describe.tensors = v })
        .default("false")
        .of(OUTPUT, DESCRIBE)
        .help("List every tensor: name, shape, type, bytes"),
    setting(
        "shell",
        "SHELL",
        Kind::Choice { values: &["bash", "zsh", "fish"], set: |s, v| s.shell = v.to_owned() },
    )
    .positional()
    .of(OUTPUT, SHELL)
    .help("Shell that the script is for"),
    // --- output ---
    setting("json", "", Kind::Switch { set: |s, v| s.json = v })
        .default("false")
        .of(OUTPUT, REPORT)
        .help("Print JSON instead of text"),
    setting("log-level", "FILTER", Kind::Text { set: |s, v| s.log_level = v })
        .default("warn")
        .of(OUTPUT, TOOLS)
        .help("What is logged: error, warn, info, debug, trace; by module: taper_server=debug,warn"),
    setting("log-level", "FILTER", Kind::Text { set: |s, v| s.log_level = v })
        .default("info,actix_server=warn")
        .of(OUTPUT, HTTP)
        .help("What is logged; at info, one line a request"),
    // After log-level, whose value it replaces.
    setting("verbose", "", Kind::Switch { set: verbose })
        .short('v')
        .of(OUTPUT, ALL)
        .help("Short for --log-level debug"),
];

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
    TABLE.iter().filter(move |setting| setting.commands.contains(&command))
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

fn verbose(settings: &mut Settings, verbose: bool) {
    if verbose {
        settings.log_level = "debug".to_owned();
    }
}

fn seconds(value: f32) -> Duration {
    Duration::from_secs_f32(value)
}

fn positive(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|&value| value > 0)
}

/// The texts, where `none` stands for no text and a line's end may be written as llama.cpp's users do.
fn breakers(texts: Vec<String>) -> Vec<String> {
    let written = |text: &String| text.replace("\\n", "\n").replace("\\t", "\t");
    texts.iter().filter(|text| *text != "none").map(written).collect()
}

/// The rule for loops, whose fields are settings of their own.
fn loops(settings: &mut Settings) -> &mut RepetitionDetection {
    settings.sampling.overrides.repetition_detection.get_or_insert_default()
}
