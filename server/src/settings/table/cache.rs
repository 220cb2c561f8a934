//! Settings of the scheduler, the KV cache and guesses.

use super::super::types::KvCacheDtype;
use super::row::{CACHE, ENGINE, Kind, OPENING, Setting, setting};

pub(super) static ROWS: &[Setting] = &[
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
];
