//! From a path and the settings to an engine that runs: everything a command needs, sized before it is allocated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use candle_core::{DType, Device};
use taper_models::families::{Family, Identified, WeightNames, identify};
use taper_models::spec::DecoderSpec;
use taper_models::weights::{Checkpoint, Format, GenerationConfig, LoadError, Progress, TensorEntry};
use taper_models::{CachePlan, Model};

use crate::capacity::{self, Capacity, CapacityError};
use crate::engine::sampling::SamplingOverrides;
use crate::engine::{EngineConfig, EngineHandle, SpawnError, spawn};
use crate::files::read_text;
use crate::runner::CandleRunner;
use crate::settings::{EngineSettings, KvCacheDtype, RunSettings};
use crate::text::{ChatTemplate, TemplateError, TemplateLimits, TemplateSources, Tokenizer, TokenizerError};

/// Of a vocabulary of 262,144 tokens these are 67 MB of logits.
const MAX_SCORED_ROWS: usize = 64;

/// Why nothing can run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error("{path}: {source}")]
    Template { path: PathBuf, source: TemplateError },
    #[error("{given}: {source}")]
    GivenTemplate { given: String, source: TemplateError },
    #[error(
        "{given} is {text:?}, which has nothing of Jinja in it; give the template itself (names of built-in templates are \
         not known here)"
    )]
    NotATemplate { given: String, text: String },
    #[error("the chat template {path} cannot be read: {source}")]
    TemplateFile { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Engine(#[from] SpawnError),
    #[error("this model is not supported: {0}")]
    Unsupported(candle_core::Error),
    #[error("the device failed: {0}")]
    Device(#[from] candle_core::Error),
}

/// A checkpoint whose headers have been read, with what it will need.
pub struct Opened {
    pub checkpoint: Checkpoint,
    pub family: &'static Family,
    pub spec: DecoderSpec,
    pub names: WeightNames,
    pub cache: CachePlan,
    pub generation: GenerationConfig,
}

impl Opened {
    /// Reads the headers at `path`.
    pub fn open(path: &Path) -> Result<Self, StartError> {
        let checkpoint = Checkpoint::open(path)?;
        let identified = identify(&checkpoint)?;
        let cache = CachePlan::new(&identified.spec).map_err(StartError::Unsupported)?;
        let generation = GenerationConfig::of(&checkpoint)?;
        let Identified { family, spec, names } = identified;
        Ok(Self { family, spec, names, cache, generation, checkpoint })
    }

    /// Whether the model can be run: every tensor is there and of a supported type, and the tokenizer is in order. One
    /// without a tokenizer can be, by token ids. Reads no weights.
    pub fn check(&self) -> Result<(), StartError> {
        Model::check(&self.checkpoint)?;
        match self.tokenizer() {
            Ok(_) | Err(TokenizerError::Missing { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes of the weights once loaded.
    pub fn weight_bytes(&self) -> u64 {
        self.text_tensors().map(|(_, entry)| loaded_bytes(entry)).sum()
    }

    /// Bytes of weights that one decoded token reads: an embedding table that is not also the output is read by the row.
    pub fn weight_bytes_per_token(&self) -> u64 {
        let table = self.names.full(self.names.embedding);
        let unread = |name: &str| name == table && !self.spec.tied_embeddings;
        self.text_tensors().filter(|(name, _)| !unread(name)).map(|(_, entry)| loaded_bytes(entry)).sum()
    }

    /// The tensors of the text model; a checkpoint may have more.
    pub fn text_tensors(&self) -> impl Iterator<Item = (&str, &TensorEntry)> {
        let tensors = self.checkpoint.directory.tensors.iter().map(|(name, entry)| (name.as_str(), entry));
        tensors.filter(|(name, _)| self.names.cover(name, self.spec.tied_embeddings))
    }

    /// Parameters of the text model.
    pub fn num_parameters(&self) -> u64 {
        self.text_tensors().map(|(_, entry)| entry.shape.iter().product::<usize>() as u64).fold(0, u64::saturating_add)
    }

    /// The type that most of the weights are stored in.
    pub fn main_type(&self) -> String {
        let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
        self.text_tensors().for_each(|(_, entry)| *bytes.entry(entry.type_name()).or_default() += entry.bytes);
        bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or_else(String::new, |(name, _)| name.to_owned())
    }

    /// Tokens that end a sequence: the tokenizer's, and those that the checkpoint's generation settings name.
    pub fn end_tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let mut ids = tokenizer.special_tokens().end_of_generation.clone();
        ids.extend(&self.generation.eos_token_ids);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The context and the cache that `settings` give this model.
    ///
    /// `available` is the memory that this process may still take, see [`capacity::available_memory`].
    pub fn capacity(&self, settings: &EngineSettings, available: Option<u64>) -> Result<Capacity, CapacityError> {
        let limits = capacity::Limits {
            ctx_size: settings.ctx_size,
            kv_cache_memory: settings.kv_cache_memory,
            parallel: settings.parallel,
            step_tokens: step_tokens(settings),
            block_size: settings.block_size,
            kv_dtype: kv_dtype(settings),
            available,
        };
        capacity::plan(&self.spec, &self.cache, self.weight_bytes(), &limits)
    }

    /// The tokenizer beside the weights.
    pub fn tokenizer(&self) -> Result<Tokenizer, TokenizerError> {
        let (tokenizer, path) = match &self.checkpoint.format {
            Format::Gguf(gguf) => (Tokenizer::from_gguf(gguf)?, gguf.path.clone()),
            Format::Safetensors { dir, .. } => (Tokenizer::from_dir(dir)?, dir.join("tokenizer.json")),
        };
        tokenizer.check_fits(self.spec.vocab_size, &path)?;
        Ok(tokenizer)
    }

    /// The checkpoint's chat template, or the one that the user gave.
    pub fn chat_template(&self, tokenizer: &Tokenizer, settings: &RunSettings) -> Result<ChatTemplate, StartError> {
        let of_user = |text: String, given: String| {
            if !text.contains("{{") && !text.contains("{%") {
                return Err(StartError::NotATemplate { given, text: text.chars().take(40).collect() });
            }
            let template = ChatTemplate::new(&TemplateSources::from_text(text, tokenizer), TemplateLimits::default());
            template.map_err(|source| StartError::GivenTemplate { given, source })
        };
        if let Some(text) = &settings.chat_template {
            return of_user(text.clone(), "--chat-template".to_owned());
        }
        if let Some(path) = &settings.chat_template_file {
            let text = read_text(path).map_err(|source| StartError::TemplateFile { path: path.clone(), source })?;
            return of_user(text, path.display().to_string());
        }
        let (sources, path) = match &self.checkpoint.format {
            Format::Gguf(gguf) => (TemplateSources::from_gguf(gguf, tokenizer), &gguf.path),
            Format::Safetensors { dir, .. } => (TemplateSources::from_dir(dir, tokenizer), dir),
        };
        let template = sources.and_then(|sources| ChatTemplate::new(&sources, TemplateLimits::default()));
        template.map_err(|source| StartError::Template { path: path.clone(), source })
    }

    /// What the checkpoint recommends, as a layer below the user's own choices.
    pub fn sampling_defaults(&self) -> SamplingOverrides {
        let GenerationConfig { temperature, top_k, top_p, min_p, typical_p, repetition_penalty, .. } = self.generation;
        let top_k = top_k.map(|k| k as usize);
        SamplingOverrides { temperature, top_k, top_p, min_p, typical_p, repetition_penalty, ..Default::default() }
    }
}

/// A running engine.
pub struct Running {
    pub engine: EngineHandle,
    pub thread: JoinHandle<()>,
    pub capacity: Capacity,
}

/// Loads the weights of `opened` and starts an engine on them. `eos_token_ids` end a sequence.
pub fn start(
    opened: &Opened,
    eos_token_ids: Vec<u32>,
    settings: &EngineSettings,
    progress: &mut Progress,
) -> Result<Running, StartError> {
    let capacity = opened.capacity(settings, capacity::available_memory())?;
    note_shortened(opened, &capacity, settings);
    note_widened(opened);
    let model = Model::from_checkpoint(&opened.checkpoint, &Device::Cpu, Some(capacity.max_model_len), progress)?;
    let runner = CandleRunner::new(model, capacity.num_blocks, settings.block_size, kv_dtype(settings))?;
    let config = EngineConfig {
        num_blocks: capacity.num_blocks,
        block_size: settings.block_size,
        windows: opened.cache.windows(),
        max_model_len: capacity.max_model_len,
        max_num_seqs: settings.parallel,
        max_num_batched_tokens: step_tokens(settings),
        max_scored_rows: MAX_SCORED_ROWS,
        max_queued_seqs: settings.queue_limit,
        draft_max: settings.draft_tokens(),
        weigh_drafts: true,
        prefix_caching: settings.prefix_cache,
        eos_token_ids,
    };
    let (engine, thread) = spawn(&config, runner)?;
    Ok(Running { engine, thread, capacity })
}

/// Tokens of one step, of which every running sequence needs one.
fn step_tokens(settings: &EngineSettings) -> usize {
    settings.step_tokens.max(settings.parallel)
}

fn kv_dtype(settings: &EngineSettings) -> DType {
    match settings.kv_cache_dtype {
        KvCacheDtype::F16 => DType::F16,
        KvCacheDtype::F32 => DType::F32,
    }
}

/// Bytes of a tensor once loaded: floats are widened to f32 on the CPU, block formats stay as they are.
fn loaded_bytes(entry: &TensorEntry) -> u64 {
    match &entry.ty {
        Ok(ty) if ty.block_size == 1 => entry.shape.iter().product::<usize>() as u64 * 4,
        _ => entry.bytes,
    }
}

/// A context shorter than the model's is worth a line, with what it was that limited it.
fn note_shortened(opened: &Opened, capacity: &Capacity, settings: &EngineSettings) {
    let (fits, limit) = (capacity.max_model_len, opened.spec.max_position);
    if fits >= limit || settings.ctx_size.is_some() {
        return;
    }
    match settings.kv_cache_memory {
        Some(given) => tracing::warn!(
            "the context is {fits} tokens, which is what {} of --kv-cache-memory hold; the model allows {limit}",
            capacity::bytes(given)
        ),
        None => tracing::warn!(
            "the context is {fits} tokens, since the KV cache for the model's {limit} does not fit in the available \
             memory"
        ),
    }
}

/// Half floats computed in f32 take twice the memory of the file, which is worth a line.
fn note_widened(opened: &Opened) {
    let stored = opened.text_tensors().map(|(_, entry)| entry.bytes).sum::<u64>();
    let loaded = opened.weight_bytes();
    if loaded > stored + stored / 4 {
        let (loaded, stored) = (capacity::bytes(loaded), capacity::bytes(stored));
        tracing::warn!(
            "f16 and bf16 weights are computed in f32 on the CPU: they take {loaded} of memory, {stored} on disk"
        );
    }
}
