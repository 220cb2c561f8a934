//! Settings of `taper serve`: who may ask, for what and how much.

use std::time::Duration;

use super::row::{ACCESS, ADDRESS, HTTP, Kind, LIMITS, OUTPUT, Setting, setting};

pub(super) static ROWS: &[Setting] = &[
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
    setting("reasoning-budget-message", "TEXT", Kind::Text { set: |s, v| s.server.reasoning_budget_message = v })
        .default("")
        .of(ADDRESS, HTTP)
        .help("What the model is made to say before thoughts are closed that have used up their budget"),
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
];

fn seconds(value: f32) -> Duration {
    Duration::from_secs_f32(value)
}
