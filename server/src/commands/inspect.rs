//! `taper inspect`: what a checkpoint holds, what it will need, and how fast it can be at most.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use taper_models::weights::Format;
use taper_server::capacity::{self, bytes};
use taper_server::loading::Opened;
use taper_server::settings::{KvCacheDtype, Settings};

/// Prints the report as text or JSON.
pub fn run(settings: &Settings) -> Result<()> {
    let report = Report::new(&Opened::open(&settings.model)?, settings)?;
    let mut stdout = std::io::stdout().lock();
    if settings.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        for (name, value) in report.lines() {
            writeln!(stdout, "{name:<12} {value}")?;
        }
    }
    Ok(())
}

/// Everything, as numbers; the JSON's fields.
#[derive(Serialize)]
struct Report {
    files: Vec<PathBuf>,
    format: &'static str,
    family: &'static str,
    /// Of the text model.
    parameters: usize,
    layers: usize,
    sliding_window: Option<usize>,
    sliding_window_layers: usize,
    hidden_size: usize,
    intermediate_size: usize,
    attention_heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocabulary: usize,
    tied_embeddings: bool,
    context: usize,
    tensors: Vec<TensorType>,
    /// Of all files, headers included.
    file_bytes: u64,
    /// Why there is no text to be had from this checkpoint. `None`: the tokenizer is in order.
    tokenizer_error: Option<String>,
    weight_bytes: u64,
    weight_bytes_per_token: u64,
    kv_bytes_per_token: usize,
    available_bytes: Option<u64>,
    fit: Fit,
}

/// Tensors of one storage type.
#[derive(Serialize)]
struct TensorType {
    #[serde(rename = "type")]
    name: String,
    count: usize,
    bytes: u64,
}

/// Whether the model runs here, with these settings.
#[derive(Serialize)]
#[serde(untagged)]
enum Fit {
    Yes { fits: bool, context: usize, kv_cache_bytes: u64, sequences_at_full_context: usize },
    No { fits: bool, why: String },
}

impl Report {
    fn new(opened: &Opened, settings: &Settings) -> Result<Self> {
        let (spec, directory) = (&opened.spec, &opened.checkpoint.directory);
        let (attention, mlp) = (&spec.layers[0].attention, &spec.layers[0].mlp);
        let kv_element = if settings.engine.kv_cache_dtype == KvCacheDtype::F32 { 4 } else { 2 };
        let available_bytes = capacity::available_memory();
        Ok(Self {
            files: directory.files.clone(),
            format: match opened.checkpoint.format {
                Format::Gguf(_) => "GGUF",
                Format::Safetensors { .. } => "safetensors",
            },
            family: opened.family.name,
            parameters: opened.text_tensors().map(|(_, entry)| entry.shape.iter().product::<usize>()).sum(),
            layers: spec.layers.len(),
            sliding_window: spec.layers.iter().find_map(|layer| layer.attention.window),
            sliding_window_layers: spec.layers.iter().filter(|layer| layer.attention.window.is_some()).count(),
            hidden_size: spec.hidden_size,
            intermediate_size: mlp.intermediate_size,
            attention_heads: attention.num_heads,
            kv_heads: attention.num_kv_heads,
            head_dim: attention.head_dim,
            vocabulary: spec.vocab_size,
            tied_embeddings: spec.tied_embeddings,
            context: spec.max_position,
            tensors: tensor_types(opened),
            file_bytes: total_bytes(&directory.files)?,
            tokenizer_error: opened.tokenizer().err().map(|error| error.to_string()),
            weight_bytes: opened.weight_bytes(),
            weight_bytes_per_token: opened.weight_bytes_per_token(),
            kv_bytes_per_token: spec.kv_bytes_per_token(kv_element),
            available_bytes,
            fit: fit(opened, settings, available_bytes),
        })
    }

    /// The report for people: a name and a value a line.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let files = self.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        let window = |window| format!(", {} of them behind a window of {window} tokens", self.sliding_window_layers);
        let tied = if self.tied_embeddings { ", output tied to it" } else { "" };
        let (heads, kv_heads) = (plural(self.attention_heads, "head"), plural(self.kv_heads, "KV head"));
        let (read, written) = (bytes(self.weight_bytes_per_token), bytes(self.kv_bytes_per_token as u64));
        let ceiling = 100e9 / self.weight_bytes_per_token.max(1) as f64;
        let mut lines = vec![
            ("file", files),
            ("format", format!("{}, {}", self.format, bytes(self.file_bytes))),
            ("family", self.family.to_owned()),
            ("parameters", count(self.parameters)),
            ("layers", format!("{}{}", self.layers, self.sliding_window.map(window).unwrap_or_default())),
            ("attention", format!("{heads}, {kv_heads} of {}", self.head_dim)),
            ("hidden, MLP", format!("{}, {}", self.hidden_size, self.intermediate_size)),
            ("vocabulary", format!("{}{tied}", self.vocabulary)),
            ("context", format!("{} tokens", self.context)),
            ("tokenizer", self.tokenizer_error.clone().unwrap_or("in order".to_owned())),
        ];
        let tensors = |ty: &TensorType| ("tensors", format!("{:>5} of {}, {}", ty.count, ty.name, bytes(ty.bytes)));
        lines.extend(self.tensors.iter().map(tensors));
        lines.extend([
            ("weights", format!("{} in memory", bytes(self.weight_bytes))),
            ("per token", format!("{read} of weights read, {written} of KV cache written")),
            ("ceiling", format!("{ceiling:.0} tok/s decoded for each 100 GB/s of memory bandwidth")),
            ("fits", self.fit_line()),
        ]);
        lines
    }

    fn fit_line(&self) -> String {
        match &self.fit {
            Fit::No { why, .. } => format!("no: {why}"),
            Fit::Yes { context, kv_cache_bytes, sequences_at_full_context, .. } => format!(
                "yes: of {} memory available; context {context} tokens, KV cache {}, {} at full context",
                self.available_bytes.map_or("unknown".to_owned(), bytes),
                bytes(*kv_cache_bytes),
                plural(*sequences_at_full_context, "sequence"),
            ),
        }
    }
}

fn total_bytes(files: &[PathBuf]) -> Result<u64> {
    let bytes = |file: &PathBuf| Ok(std::fs::metadata(file).with_context(|| file.display().to_string())?.len());
    files.iter().map(bytes).sum()
}

/// `134.5 M` for people.
fn count(number: usize) -> String {
    let value = number as f64;
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{:.1} K", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", value / 1e6),
        _ => format!("{:.2} B", value / 1e9),
    }
}

fn plural(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn tensor_types(opened: &Opened) -> Vec<TensorType> {
    let mut types: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for entry in opened.checkpoint.directory.tensors.values() {
        let (count, bytes) = types.entry(entry.type_name()).or_default();
        *count += 1;
        *bytes += entry.bytes;
    }
    types.into_iter().map(|(name, (count, bytes))| TensorType { name: name.to_owned(), count, bytes }).collect()
}

fn fit(opened: &Opened, settings: &Settings, available: Option<u64>) -> Fit {
    match opened.capacity(&settings.engine, available) {
        Ok(fit) => Fit::Yes {
            fits: true,
            context: fit.max_model_len,
            kv_cache_bytes: fit.kv_bytes(),
            sequences_at_full_context: fit.num_blocks / fit.blocks_per_sequence.max(1),
        },
        Err(error) => Fit::No { fits: false, why: error.to_string() },
    }
}
