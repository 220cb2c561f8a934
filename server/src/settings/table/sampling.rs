//! Settings of how tokens are chosen.

use super::super::types::Settings;
use super::row::{CHAT, Kind, SAMPLING, Setting, TALK, setting};
use crate::engine::sampling::RepetitionDetection;

pub(super) static ROWS: &[Setting] = &[
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
];

/// The texts, where `none` stands for no text and a line's end may be written as llama.cpp's users do.
fn breakers(texts: Vec<String>) -> Vec<String> {
    let written = |text: &String| text.replace("\\n", "\n").replace("\\t", "\t");
    texts.iter().filter(|text| *text != "none").map(written).collect()
}

/// The rule for loops, whose fields are settings of their own.
fn loops(settings: &mut Settings) -> &mut RepetitionDetection {
    settings.sampling.overrides.repetition_detection.get_or_insert_default()
}
