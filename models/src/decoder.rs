//! The decoder: one transformer for all families, as its [`DecoderSpec`] describes it.

use candle_core::{Device, Tensor};

use crate::batch::Batch;
use crate::cache::KvCache;
use crate::families::{Identified, WeightNames};
use crate::ops::activation::{Activation, gated_activation};
use crate::ops::attention::{AttentionParams, paged_attention};
use crate::ops::kv_write::{CacheSide, kv_write};
use crate::ops::norm::{add_rms_norm, rms_norm, rms_norm_heads};
use crate::ops::rope::{RopeAngles, rope};
use crate::quant::{Embedding, Linear};
use crate::spec::{AttentionSpec, DecoderSpec, LayerSpec, MlpSpec};
use crate::weights::{LoadError, Loader};

/// A loaded decoder.
#[derive(Debug)]
pub struct Decoder {
    pub spec: DecoderSpec,
    device: Device,
    /// Per rotary embedding: the angle per position of each pair.
    inverse_frequencies: Vec<Vec<f32>>,
    embedding: Embedding,
    layers: Vec<Layer>,
    output_norm: Tensor,
    output: Linear,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor,
    attention: Attention,
    mlp_norm: Tensor,
    mlp: Mlp,
    /// Norms of attention's and MLP's outputs, where the family has them.
    post_norms: Option<(Tensor, Tensor)>,
}

#[derive(Debug)]
struct Attention {
    spec: AttentionSpec,
    /// Queries, keys and values side by side.
    qkv: Linear,
    qk_norms: Option<(Tensor, Tensor)>,
    output: Linear,
}

#[derive(Debug)]
struct Mlp {
    activation: Activation,
    /// Gate and up side by side.
    gate_up: Linear,
    down: Linear,
}

/// One step's inputs on the device, shared by all layers.
struct Step<'a> {
    batch: &'a Batch,
    /// Per rotary embedding.
    angles: Vec<RopeAngles>,
    /// Per cache group: u32 `[T]`.
    slots: Vec<Tensor>,
    norm_eps: f32,
}

impl Decoder {
    /// Reads the weights of `identified` with `loader`. `max_model_len` is the longest sequence that will be served:
    /// it chooses between the frequencies that some scaling rules keep for short and for long contexts.
    pub fn load(
        identified: Identified,
        loader: &mut Loader,
        device: &Device,
        max_model_len: usize,
    ) -> Result<Self, LoadError> {
        let Identified { spec, names, .. } = identified;
        let (vocab, hidden, offset) = (spec.vocab_size, spec.hidden_size, spec.norm_weight_offset);
        // The largest tensor first: while it is being read it exists twice, and then little else is there.
        let table = loader.matrix(&names.full(names.embedding), vocab, hidden)?;
        let embedding = Embedding::new(table);
        let output = if spec.tied_embeddings {
            embedding.as_linear()
        } else {
            loader.linear(&[(names.full(names.output), vocab)], hidden, false)?
        };
        let layers = spec
            .layers
            .iter()
            .enumerate()
            .map(|(index, layer)| Layer::load(&spec, layer, &names, index, loader))
            .collect::<Result<_, LoadError>>()?;
        let output_norm = loader.vector(&names.full(names.output_norm), hidden, offset)?;
        let inverse_frequencies = spec.ropes.iter().map(|rope| rope.inverse_frequencies(max_model_len)).collect();
        Ok(Self { device: device.clone(), inverse_frequencies, embedding, layers, output_norm, output, spec })
    }

    /// Runs one step: writes the new tokens' keys and values to `cache`, returns the logits of `batch.logit_rows`,
    /// f32 `[R, vocab]`.
    pub fn forward(&self, batch: &Batch, cache: &KvCache) -> candle_core::Result<Tensor> {
        let step = self.step(batch)?;
        let mut residual = self.embed(&batch.tokens)?; // [T, hidden]
        // What the previous layer adds to the residual is added where the next norm reads it.
        let mut pending: Option<Tensor> = None;
        for (index, layer) in self.layers.iter().enumerate() {
            (residual, pending) = layer.forward(index, residual, pending, &step, cache)?;
        }
        let rows = Tensor::new(batch.logit_rows.as_slice(), &self.device)?;
        let select =
            |x: Tensor| if batch.logit_rows.len() == batch.num_tokens() { Ok(x) } else { x.index_select(&rows, 0) };
        let hidden = match pending {
            Some(pending) => {
                add_rms_norm(&select(pending)?, &select(residual)?, &self.output_norm, self.spec.norm_eps)?.0
            }
            None => rms_norm(&select(residual)?, &self.output_norm, self.spec.norm_eps)?,
        };
        let logits = self.output.forward(&hidden)?; // [R, vocab]
        match self.spec.logit_softcap.map(f64::from) {
            Some(cap) => (logits / cap)?.tanh()? * cap,
            None => Ok(logits),
        }
    }

    fn embed(&self, tokens: &[u32]) -> candle_core::Result<Tensor> {
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.spec.vocab_size) {
            candle_core::bail!("token {token} is outside the vocabulary of {}", self.spec.vocab_size);
        }
        let embedded = self.embedding.forward(&Tensor::new(tokens, &self.device)?)?;
        match self.spec.embedding_scale {
            Some(scale) => embedded * f64::from(scale),
            None => Ok(embedded),
        }
    }

    fn step<'a>(&self, batch: &'a Batch) -> candle_core::Result<Step<'a>> {
        let angles = self
            .spec
            .ropes
            .iter()
            .zip(&self.inverse_frequencies)
            .map(|(spec, frequencies)| RopeAngles::new(&batch.positions, frequencies, spec, &self.device))
            .collect::<candle_core::Result<_>>()?;
        let slots = batch
            .slot_mappings
            .iter()
            .map(|slots| Tensor::new(slots.as_slice(), &self.device))
            .collect::<candle_core::Result<_>>()?;
        Ok(Step { batch, angles, slots, norm_eps: self.spec.norm_eps })
    }
}

impl Layer {
    fn load(
        spec: &DecoderSpec,
        layer: &LayerSpec,
        names: &WeightNames,
        index: usize,
        loader: &mut Loader,
    ) -> Result<Self, LoadError> {
        let (hidden, offset) = (spec.hidden_size, spec.norm_weight_offset);
        let name = |part: &str| names.in_layer(index, part);
        let parts = &names.layer;
        let post_norms = if layer.post_norms {
            let attention = loader.vector(&name(parts.attention_post_norm), hidden, offset)?;
            Some((attention, loader.vector(&name(parts.mlp_post_norm), hidden, offset)?))
        } else {
            None
        };
        Ok(Self {
            attention_norm: loader.vector(&name(parts.attention_norm), hidden, offset)?,
            attention: Attention::load(&layer.attention, hidden, offset, &name, names, loader)?,
            mlp_norm: loader.vector(&name(parts.mlp_norm), hidden, offset)?,
            mlp: Mlp::load(&layer.mlp, hidden, &name, names, loader)?,
            post_norms,
        })
    }

    /// Takes the residual and what is still to be added to it, returns both for the next layer.
    fn forward(
        &self,
        index: usize,
        residual: Tensor,
        pending: Option<Tensor>,
        step: &Step,
        cache: &KvCache,
    ) -> candle_core::Result<(Tensor, Option<Tensor>)> {
        let eps = step.norm_eps;
        let (x, residual) = match pending {
            Some(pending) => add_rms_norm(&pending, &residual, &self.attention_norm, eps)?,
            None => (rms_norm(&residual, &self.attention_norm, eps)?, residual),
        };
        let mut attended = self.attention.forward(index, &x, step, cache)?;
        if let Some((norm, _)) = &self.post_norms {
            attended = rms_norm(&attended, norm, eps)?;
        }
        let (x, residual) = add_rms_norm(&attended, &residual, &self.mlp_norm, eps)?;
        let mut out = self.mlp.forward(&x)?;
        if let Some((_, norm)) = &self.post_norms {
            out = rms_norm(&out, norm, eps)?;
        }
        Ok((residual, Some(out)))
    }
}

impl Attention {
    fn load(
        spec: &AttentionSpec,
        hidden: usize,
        norm_offset: f32,
        name: &impl Fn(&str) -> String,
        names: &WeightNames,
        loader: &mut Loader,
    ) -> Result<Self, LoadError> {
        let parts = &names.layer;
        let (q_size, kv_size) = (spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim);
        let projections = [(name(parts.q), q_size), (name(parts.k), kv_size), (name(parts.v), kv_size)];
        let qk_norms = if spec.qk_norm {
            let q_norm = loader.vector(&name(parts.q_norm), spec.head_dim, norm_offset)?;
            Some((q_norm, loader.vector(&name(parts.k_norm), spec.head_dim, norm_offset)?))
        } else {
            None
        };
        Ok(Self {
            spec: spec.clone(),
            qkv: loader.linear(&projections, hidden, spec.qkv_bias)?,
            qk_norms,
            output: loader.linear(&[(name(parts.o), hidden)], q_size, spec.output_bias)?,
        })
    }

    fn forward(&self, index: usize, x: &Tensor, step: &Step, cache: &KvCache) -> candle_core::Result<Tensor> {
        let AttentionSpec { num_heads, num_kv_heads, head_dim, .. } = self.spec;
        let tokens = x.dim(0)?;
        let qkv = self.qkv.forward(x)?; // [T, (heads + 2 kv_heads) * head_dim]
        let heads = |start: usize, count: usize| -> candle_core::Result<Tensor> {
            // A view: the row stride stays that of qkv.
            qkv.reshape((tokens, (), head_dim))?.narrow(1, start, count)
        };
        let mut q = heads(0, num_heads)?; // [T, heads, head_dim]
        let mut k = heads(num_heads, num_kv_heads)?; // [T, kv_heads, head_dim]
        let v = heads(num_heads + num_kv_heads, num_kv_heads)?;
        if let Some((q_norm, k_norm)) = &self.qk_norms {
            q = rms_norm_heads(&q, q_norm, step.norm_eps)?;
            k = rms_norm_heads(&k, k_norm, step.norm_eps)?;
        }
        let angles = &step.angles[self.spec.rope];
        let (q, k) = (rope(&q, angles)?, rope(&k, angles)?);
        let (keys, values) = cache.layer(index);
        let group = cache.plan.layers[index].group;
        kv_write(keys, &k, &step.slots[group], CacheSide::Keys)?;
        kv_write(values, &v, &step.slots[group], CacheSide::Values)?;
        let params = AttentionParams { scale: self.spec.scale, window: self.spec.window, softcap: self.spec.softcap };
        let attended = paged_attention(&q, keys, values, step.batch, group, params)?; // [T, heads * head_dim]
        self.output.forward(&attended)
    }
}

impl Mlp {
    fn load(
        spec: &MlpSpec,
        hidden: usize,
        name: &impl Fn(&str) -> String,
        names: &WeightNames,
        loader: &mut Loader,
    ) -> Result<Self, LoadError> {
        let (parts, size) = (&names.layer, spec.intermediate_size);
        Ok(Self {
            activation: spec.activation,
            gate_up: loader.linear(&[(name(parts.gate), size), (name(parts.up), size)], hidden, spec.bias)?,
            down: loader.linear(&[(name(parts.down), hidden)], size, spec.bias)?,
        })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let gate_up = self.gate_up.forward(x)?; // [T, 2 * intermediate]
        self.down.forward(&gated_activation(&gate_up, self.activation)?)
    }
}
