//! A model ready to run: from a path to logits.

use std::path::Path;

use candle_core::{DType, Device, Tensor};

use crate::batch::Batch;
use crate::cache::{CachePlan, KvCache};
use crate::decoder::Decoder;
use crate::families::identify;
use crate::spec::DecoderSpec;
use crate::weights::file::brief;
use crate::weights::{Checkpoint, LoadError, Loader, Progress};

/// A decoder on its device.
#[derive(Debug)]
pub struct Model {
    decoder: Decoder,
    device: Device,
}

impl Model {
    /// Loads the checkpoint at `path`. `max_model_len`: the longest sequence that will be served, the checkpoint's own
    /// limit if `None`. `progress` is told how many bytes are read.
    pub fn load(
        path: &Path,
        device: &Device,
        max_model_len: Option<usize>,
        progress: &mut Progress,
    ) -> Result<Self, LoadError> {
        Self::from_checkpoint(&Checkpoint::open(path)?, device, max_model_len, progress)
    }

    /// Loads a checkpoint that has been opened.
    pub fn from_checkpoint(
        checkpoint: &Checkpoint,
        device: &Device,
        max_model_len: Option<usize>,
        progress: &mut Progress,
    ) -> Result<Self, LoadError> {
        // At once, and not after minutes of reading.
        Self::check(checkpoint)?;
        let identified = identify(checkpoint)?;
        let max_model_len = max_model_len.unwrap_or(identified.spec.max_position);
        let (names, tied) = (identified.names, identified.spec.tied_embeddings);
        let read = |name: &str| names.cover(name, tied);
        let mut loader = Loader::new(&checkpoint.directory, device, read, progress);
        let decoder = Decoder::load(identified, &mut loader, device, max_model_len)?;
        warn_unused(&loader.unused());
        Ok(Self { decoder, device: device.clone() })
    }

    /// Whether the checkpoint has every tensor of the model, in the right shape and a type that is computed with. Reads none
    /// of them.
    pub fn check(checkpoint: &Checkpoint) -> Result<(), LoadError> {
        let identified = identify(checkpoint)?;
        let max_position = identified.spec.max_position;
        Decoder::load(identified, &mut Loader::checking(&checkpoint.directory), &Device::Cpu, max_position).map(drop)
    }

    /// What the checkpoint says about itself.
    pub fn spec(&self) -> &DecoderSpec {
        &self.decoder.spec
    }

    /// A KV cache of `num_blocks` blocks of `block_size` tokens.
    pub fn new_cache(&self, num_blocks: usize, block_size: usize, dtype: DType) -> candle_core::Result<KvCache> {
        KvCache::new(CachePlan::new(self.spec())?, num_blocks, block_size, dtype, &self.device)
    }

    /// Runs one step; see [`Decoder::forward`].
    pub fn forward(&self, batch: &Batch, cache: &KvCache) -> candle_core::Result<Tensor> {
        self.decoder.forward(batch, cache)
    }
}

/// Tensors that nothing reads may mean that a part of the model is missing from the computation, so they are named.
fn warn_unused(unused: &[&str]) {
    // Tables that older exports carry along; they are computed here.
    let is_table = |name: &str| name.ends_with("rotary_emb.inv_freq") || name.starts_with("rope_f");
    let odd: Vec<&&str> = unused.iter().filter(|name| !is_table(name)).collect();
    if !odd.is_empty() {
        let (count, first) = (odd.len(), brief(&odd[..odd.len().min(3)]));
        tracing::warn!("the checkpoint has tensors that the text model does not use, {count} in all: {first}");
    }
}
