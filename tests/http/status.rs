//! What the server tells of itself.

use serde_json::{Value, json};

use crate::server::{Server, shared};

#[test]
fn a_running_request_is_in_a_slot_without_its_text() {
    let server = Server::start(&["--parallel", "2"]);
    let body = json!({ "prompt": "secret words", "ignore_eos": true, "stream": true });
    let mut wire = server.wire("/v1/completions", &body);
    wire.event().unwrap();
    server.until("taper_requests_running", |running| running == 1.0);
    let answer = server.get("/slots");
    let slots = answer.json();
    assert_eq!(slots.as_array().unwrap().len(), 2);
    assert_eq!((&slots[0]["is_processing"], &slots[0]["n_prompt_tokens"]), (&true.into(), &12.into()));
    assert_eq!((&slots[1]["is_processing"], &slots[1]["id_task"]), (&false.into(), &json!(-1)));
    assert!(!answer.text.contains("secret"), "{}", answer.text);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
    let _second = server.wire("/v1/completions", &body);
    server.until("taper_requests_running", |running| running == 2.0);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 503);
}

#[test]
fn props_tell_model_and_defaults_but_no_path() {
    let server = Server::start(&["--temp", "0.5", "-n", "7", "--parallel", "3", "-c", "1000"]);
    let props = server.get("/props").json();
    let settings = &props["default_generation_settings"];
    assert_eq!((&settings["n_ctx"], &props["total_slots"]), (&1000.into(), &3.into()));
    assert_eq!((&settings["params"]["temperature"], &settings["params"]["n_predict"]), (&0.5.into(), &7.into()));
    assert_eq!((&props["bos_token"], &props["eos_token"]), (&"<s>".into(), &"</s>".into()));
    assert!(!props["model_path"].as_str().unwrap().contains('/'), "{props}");
    let answer = server.ok("/v1/completions", &json!({ "prompt": "a", "ignore_eos": true }));
    assert_eq!(answer["usage"]["completion_tokens"], 7);
}

#[test]
fn props_tell_the_samplers_and_their_defaults() {
    let defaults = shared().get("/props").json()["default_generation_settings"]["params"].clone();
    for (name, value) in [
        ("dynatemp_range", json!(0.0)),
        ("dynatemp_exponent", json!(1.0)),
        ("top_n_sigma", json!(-1.0)),
        ("xtc_probability", json!(0.0)),
        ("mirostat", json!(0)),
        ("mirostat_tau", json!(5.0)),
        ("dry_multiplier", json!(0.0)),
        ("dry_base", json!(1.75)),
        ("dry_allowed_length", json!(2)),
        ("dry_penalty_last_n", json!(64)),
        ("dry_sequence_breakers", json!(["\n", ":", "\"", "*"])),
    ] {
        assert_eq!(defaults[name], value, "{name}");
    }
    assert_eq!(defaults["samplers"][7], "xtc");
    let flags =
        ["--dry-multiplier", "0.5", "--dry-sequence-breaker", "\\n", "--dry-sequence-breaker", "-", "--top-nsigma"];
    let server = Server::start(&[&flags[..], &["1.5", "--sampler-seq", "skt", "--mirostat-ent", "3"]].concat());
    let given = server.get("/props").json()["default_generation_settings"]["params"].clone();
    assert_eq!((&given["dry_multiplier"], &given["top_n_sigma"]), (&json!(0.5), &json!(1.5)));
    assert_eq!(given["dry_sequence_breakers"], json!(["\n", "-"]));
    assert_eq!(given["samplers"], json!(["top_n_sigma", "top_k", "temperature"]));
    assert_eq!(given["mirostat_tau"], 3.0);
}

#[test]
fn all_signs_of_health_are_good_on_a_server_that_runs() {
    for path in ["/health", "/v1/health", "/live", "/ready"] {
        let answer = shared().get(path);
        assert_eq!((answer.status, answer.json()), (200, json!({ "status": "ok" })), "{path}");
    }
}

/// A sample's name and labels, or what is wrong with the line.
fn sample(line: &str) -> Result<&str, &'static str> {
    let (name, value) = line.rsplit_once(' ').ok_or("no value")?;
    value.parse::<f64>().map_err(|_| "no number")?;
    let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
    let labels = labels.strip_suffix('}').ok_or("labels do not end")?;
    let is_label = |label: &str| {
        label.split_once('=').is_some_and(|(key, value)| {
            key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && value.len() > 2 && value.starts_with('"')
        })
    };
    if !labels.split(',').all(|label| label.is_empty() || is_label(label)) {
        return Err("a label is not key=\"value\"");
    }
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    if is_name && !name.is_empty() { Ok(name) } else { Err("not a name") }
}

#[test]
fn every_line_of_the_metrics_is_of_the_text_format() {
    let answer = shared().get("/metrics");
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text") && kind.contains("version=1.0.0"), "{kind}");
    let body = answer.text.strip_suffix("# EOF\n").expect("OpenMetrics ends with EOF");
    let mut family = String::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            assert!(matches!(words.next(), Some("HELP" | "TYPE" | "UNIT")), "{line}");
            family = words.next().unwrap().to_owned();
            continue;
        }
        let name = sample(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(name.starts_with(&family), "{line} is not of {family}");
    }
}

#[test]
fn counters_move_with_the_requests() {
    let server = Server::start(&[]);
    let body = json!({ "prompt": "p".repeat(100), "max_tokens": 10, "ignore_eos": true, "n": 2 });
    server.ok("/v1/completions", &body);
    server.ok("/v1/completions", &body);
    server.post("/v1/completions", &json!({ "prompt": "p".repeat(9000) })).error(400);
    server.becomes_idle();
    let expected = [
        ("taper_requests_started_total", 4.0),
        ("taper_requests_finished_total{finished_reason=\"length\"}", 4.0),
        ("vllm:request_success_total{finished_reason=\"length\"}", 4.0),
        ("taper_requests_refused_total{reason=\"too_long\"}", 1.0),
        ("taper_prompt_tokens_total", 200.0),
        ("vllm:prompt_tokens_total", 200.0),
        ("taper_generation_tokens_total", 40.0),
        ("vllm:generation_tokens_total", 40.0),
        ("taper_time_to_first_token_seconds_count", 4.0),
        ("vllm:time_to_first_token_seconds_count", 4.0),
        ("taper_inter_token_latency_seconds_count", 36.0),
        ("taper_request_seconds_count", 4.0),
        ("vllm:e2e_request_latency_seconds_count", 4.0),
        ("taper_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("taper_preemptions_total", 0.0),
    ];
    let metrics = server.metrics();
    for (name, value) in expected {
        assert_eq!(metrics.get(name), Some(&value), "{name}");
    }
    // The second request's prompts are cached but for their last, partial block.
    assert!(metrics["taper_prefix_cache_hits_total"] >= 192.0);
    assert_eq!(metrics["taper_prefix_cache_queries_total"], 400.0);
}

#[test]
fn the_version_is_the_crate_s() {
    let version: Value = shared().get("/version").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn swagger_ui_finds_the_document_beside_it() {
    let page = shared().get("/docs/");
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(shared().get("/docs/swagger-initializer.js").text.contains("../openapi.json"));
    let document = shared().get("/openapi.json").json();
    assert_eq!(document, serde_json::to_value(taper_openapi::document()).unwrap());
}
