//! `taper inspect`: what a checkpoint holds, what it will need, and how fast it can be at most.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::capacity::{self, bytes};
use crate::loading::Opened;
use crate::settings::{KvCacheDtype, Settings};
use taper_models::weights::Format;

/// Prints the report as text or JSON.
pub fn run(settings: &Settings) -> Result<()> {
    let opened = Opened::open(&settings.model)?;
    let report = report(&opened, settings);
    if settings.json {
        println!("{report:#}");
    } else {
        print!("{}", text(&report));
    }
    Ok(())
}

/// Everything, as numbers.
fn report(opened: &Opened, settings: &Settings) -> Value {
    let spec = &opened.spec;
    let element = if settings.engine.kv_cache_dtype == KvCacheDtype::F32 { 4 } else { 2 };
    let windows = spec.layers.iter().filter(|layer| layer.attention.window.is_some()).count();
    let directory = &opened.checkpoint.directory;
    let mut types: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for entry in directory.tensors.values() {
        let (count, bytes) = types.entry(entry.type_name()).or_default();
        *count += 1;
        *bytes += entry.bytes;
    }
    let attention = &spec.layers[0].attention;
    json!({
        "files": directory.files,
        "format": match opened.checkpoint.format { Format::Gguf(_) => "GGUF", Format::Safetensors { .. } => "safetensors" },
        "family": opened.family.name,
        "parameters": directory.tensors.values().map(|entry| entry.shape.iter().product::<usize>()).sum::<usize>(),
        "layers": spec.layers.len(),
        "sliding_window_layers": windows,
        "sliding_window": spec.layers.iter().find_map(|layer| layer.attention.window),
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.layers[0].mlp.intermediate_size,
        "attention_heads": attention.num_heads,
        "kv_heads": attention.num_kv_heads,
        "head_dim": attention.head_dim,
        "vocabulary": spec.vocab_size,
        "tied_embeddings": spec.tied_embeddings,
        "context": spec.max_position,
        "tensors": types.iter().map(|(name, (count, bytes))| json!({ "type": name, "count": count, "bytes": bytes })).collect::<Vec<_>>(),
        "file_bytes": directory.total_bytes(),
        "weight_bytes": opened.weight_bytes(),
        "weight_bytes_per_token": weight_bytes_per_token(opened),
        "kv_bytes_per_token": spec.kv_bytes_per_token(element),
        "available_bytes": capacity::available_memory(),
        "fit": match opened.capacity(&settings.engine) {
            Ok(fit) => json!({
                "fits": true,
                "context": fit.max_model_len,
                "kv_cache_bytes": fit.kv_bytes(),
                "sequences_at_full_context": fit.num_blocks / fit.blocks_per_sequence.max(1),
            }),
            Err(error) => json!({ "fits": false, "why": error.to_string() }),
        },
    })
}

/// Bytes of weights that one decoded token reads. An embedding table that is not also the output is read by the row.
fn weight_bytes_per_token(opened: &Opened) -> u64 {
    let table = opened
        .checkpoint
        .directory
        .tensors
        .iter()
        .find(|(name, _)| name.contains("token_embd") || name.contains("embed_tokens"));
    let unread = table.filter(|_| !opened.spec.tied_embeddings).map_or(0, |(_, entry)| entry.bytes);
    opened.weight_bytes().saturating_sub(unread)
}

fn text(report: &Value) -> String {
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let mut lines = vec![
        (
            "file",
            report["files"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        ),
        ("format", format!("{}, {}", report["format"].as_str().unwrap_or_default(), bytes(number("file_bytes")))),
        ("family", report["family"].as_str().unwrap_or_default().to_owned()),
        ("parameters", format!("{:.1} M", number("parameters") as f64 / 1e6)),
        ("layers", layers(report)),
        (
            "attention",
            format!("{} heads, {} KV heads of {}", number("attention_heads"), number("kv_heads"), number("head_dim")),
        ),
        ("hidden, MLP", format!("{}, {}", number("hidden_size"), number("intermediate_size"))),
        (
            "vocabulary",
            format!(
                "{}{}",
                number("vocabulary"),
                if report["tied_embeddings"] == true { ", output tied to it" } else { "" }
            ),
        ),
        ("context", format!("{} tokens", number("context"))),
    ];
    for ty in report["tensors"].as_array().into_iter().flatten() {
        let size = bytes(ty["bytes"].as_u64().unwrap_or_default());
        lines.push(("tensors", format!("{:>5} of {}, {size}", ty["count"], ty["type"].as_str().unwrap_or_default())));
    }
    let per_token = number("weight_bytes_per_token");
    lines.push(("weights", format!("{} in memory", bytes(number("weight_bytes")))));
    lines.push((
        "per token",
        format!("{} of weights read, {} of KV cache written", bytes(per_token), bytes(number("kv_bytes_per_token"))),
    ));
    lines.push((
        "ceiling",
        format!("{:.0} tok/s decoded for each 100 GB/s of memory bandwidth", 100e9 / per_token.max(1) as f64),
    ));
    lines.push(("fits", fit(report)));
    lines.iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}

fn layers(report: &Value) -> String {
    match (report["sliding_window_layers"].as_u64(), report["sliding_window"].as_u64()) {
        (Some(count), Some(window)) => {
            format!("{}, {count} of them behind a window of {window} tokens", report["layers"])
        }
        _ => report["layers"].to_string(),
    }
}

fn fit(report: &Value) -> String {
    let fit = &report["fit"];
    if fit["fits"] != true {
        return format!("no: {}", fit["why"].as_str().unwrap_or_default());
    }
    format!(
        "yes: {} of memory available; context {} tokens, KV cache {}, {} sequences at full context",
        report["available_bytes"].as_u64().map_or("unknown amount".to_owned(), bytes),
        fit["context"],
        bytes(fit["kv_cache_bytes"].as_u64().unwrap_or_default()),
        fit["sequences_at_full_context"]
    )
}
