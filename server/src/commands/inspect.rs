//! `taper inspect`: what a checkpoint holds, what it will need, and how fast it can be at most.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use taper_models::spec::{AttentionSpec, DecoderSpec};
use taper_models::weights::{Format, TensorEntry};
use taper_server::capacity::{self, bytes, plural};
use taper_server::loading::{Opened, StartError};
use taper_server::settings::{KvCacheDtype, Settings};

use super::model::open;

/// Prints the report as text or JSON. Fails where `taper run` would.
pub fn run(settings: &Settings) -> Result<()> {
    let (report, usable) = Report::of(&open(settings)?, settings)?;
    print(&report, &report.lines(), settings.json)?;
    Ok(usable?)
}

/// Prints `report` as JSON, or `lines`.
pub fn print(report: &impl Serialize, lines: &[(&str, String)], json: bool) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    if json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    for (name, value) in lines {
        writeln!(stdout, "{name:<12} {value}")?;
    }
    Ok(())
}

/// Everything, as numbers; the JSON's fields.
#[derive(Serialize)]
pub struct Report {
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
    /// Why this checkpoint cannot be run: a tensor that is missing or of a type that is not supported, a tokenizer that
    /// is damaged. `None`: it can.
    error: Option<String>,
    /// Why there is no text to be had from it. `None`: the tokenizer is in order.
    tokenizer_error: Option<String>,
    weight_bytes: u64,
    weight_bytes_per_token: u64,
    kv_bytes_per_token: usize,
    available_bytes: Option<u64>,
    /// With a known memory bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    decode_ceiling: Option<Ceiling>,
    fit: Fit,
    /// Every tensor, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor_list: Option<Vec<TensorRow>>,
}

/// Tokens per second of one sequence if nothing but memory bandwidth limits it: each token reads the weights and the
/// cache of all tokens before it.
#[derive(Serialize)]
struct Ceiling {
    bandwidth_gb_per_second: f32,
    empty_context: f64,
    /// Tokens of the full context.
    context: usize,
    full_context: f64,
}

/// One tensor.
#[derive(Serialize)]
struct TensorRow {
    name: String,
    shape: Vec<usize>,
    #[serde(rename = "type")]
    ty: String,
    /// In the file.
    bytes: u64,
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
    /// The report on `opened`, and why the model cannot be run, if so.
    pub fn of(opened: &Opened, settings: &Settings) -> Result<(Self, Result<(), StartError>)> {
        let usable = opened.check();
        let error = usable.as_ref().err().map(ToString::to_string);
        Ok((Self::new(opened, error, settings)?, usable))
    }

    fn new(opened: &Opened, error: Option<String>, settings: &Settings) -> Result<Self> {
        let (spec, directory) = (&opened.spec, &opened.checkpoint.directory);
        let (attention, mlp) = (&spec.layers[0].attention, &spec.layers[0].mlp);
        let kv_element = if settings.engine.kv_cache_dtype == KvCacheDtype::F32 { 4 } else { 2 };
        let available_bytes = capacity::available_memory();
        let fit = match &error {
            None => fit(opened, settings, available_bytes),
            Some(error) => Fit::No { fits: false, why: format!("it cannot be run: {error}") },
        };
        let ceiling = |bandwidth| ceiling(opened, bandwidth, kv_element, fit.context().unwrap_or(spec.max_position));
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
            error,
            weight_bytes: opened.weight_bytes(),
            weight_bytes_per_token: opened.weight_bytes_per_token(),
            kv_bytes_per_token: spec.kv_bytes_per_token(kv_element),
            available_bytes,
            decode_ceiling: settings.describe.bandwidth.map(ceiling),
            fit,
            tensor_list: settings.describe.tensors.then(|| tensor_list(opened)),
        })
    }

    /// The report for people: a name and a value a line.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let files = self.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        let window = |window| format!(", {} of them behind a window of {window} tokens", self.sliding_window_layers);
        let tied = if self.tied_embeddings { ", output tied to it" } else { "" };
        let (heads, kv_heads) = (plural(self.attention_heads, "head"), plural(self.kv_heads, "KV head"));
        let (read, written) = (bytes(self.weight_bytes_per_token), bytes(self.kv_bytes_per_token as u64));
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
            ("ceiling", self.ceiling_line()),
            ("fits", self.fit_line()),
        ]);
        let row =
            |row: &TensorRow| ("tensor", format!("{} {:?} {}, {}", row.name, row.shape, row.ty, bytes(row.bytes)));
        lines.extend(self.tensor_list.iter().flatten().map(row));
        lines
    }

    fn ceiling_line(&self) -> String {
        match &self.decode_ceiling {
            Some(Ceiling { bandwidth_gb_per_second, empty_context, context, full_context }) => format!(
                "{empty_context:.1} tok/s decoded at {bandwidth_gb_per_second} GB/s with an empty context, \
                 {full_context:.1} at {context} tokens"
            ),
            None => {
                let ceiling = 100e9 / self.weight_bytes_per_token.max(1) as f64;
                format!("{ceiling:.0} tok/s decoded for each 100 GB/s of memory bandwidth, with an empty context")
            }
        }
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

fn ceiling(opened: &Opened, bandwidth: f32, kv_element: usize, context: usize) -> Ceiling {
    let weights = opened.weight_bytes_per_token();
    let rate = |tokens: usize| {
        let read = weights + kv_bytes_read(&opened.spec, kv_element, tokens);
        f64::from(bandwidth) * 1e9 / read.max(1) as f64
    };
    Ceiling { bandwidth_gb_per_second: bandwidth, empty_context: rate(0), context, full_context: rate(context) }
}

/// Bytes of KV cache that a token reads which has `tokens` before it; layers with a window see no further than that.
fn kv_bytes_read(spec: &DecoderSpec, kv_element: usize, tokens: usize) -> u64 {
    let of_layer = |attention: &AttentionSpec| {
        let seen = attention.window.map_or(tokens, |window| window.min(tokens));
        (2 * attention.num_kv_heads * attention.head_dim * kv_element) as u64 * seen as u64
    };
    spec.layers.iter().map(|layer| of_layer(&layer.attention)).sum()
}

fn tensor_list(opened: &Opened) -> Vec<TensorRow> {
    let tensors = opened.checkpoint.directory.tensors.iter();
    let row = |(name, entry): (&String, &TensorEntry)| TensorRow {
        name: name.clone(),
        shape: entry.shape.clone(),
        ty: entry.type_name().to_owned(),
        bytes: entry.bytes,
    };
    tensors.map(row).collect()
}

impl Fit {
    fn context(&self) -> Option<usize> {
        match self {
            Self::Yes { context, .. } => Some(*context),
            Self::No { .. } => None,
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
