//! What the parts of a decoder are called in a checkpoint.

use crate::weights::TensorDirectory;

/// Names of all weights. A layer's name is `layer_prefix`, the layer's number, a dot, and the part's name.
#[derive(Debug, Clone, Copy)]
pub struct WeightNames {
    /// Put before every name; checkpoints of several parts keep the language model under one.
    pub prefix: &'static str,
    pub embedding: &'static str,
    pub output: &'static str,
    pub output_norm: &'static str,
    pub layer_prefix: &'static str,
    pub layer: LayerNames,
}

/// Names within a layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerNames {
    pub attention_norm: &'static str,
    pub q: &'static str,
    pub k: &'static str,
    pub v: &'static str,
    pub o: &'static str,
    pub q_norm: &'static str,
    pub k_norm: &'static str,
    pub attention_post_norm: &'static str,
    pub mlp_norm: &'static str,
    pub gate: &'static str,
    pub up: &'static str,
    pub down: &'static str,
    pub mlp_post_norm: &'static str,
}

/// Hugging Face's names, as Llama has them and most families after it.
pub const HF: WeightNames = WeightNames {
    prefix: "",
    embedding: "model.embed_tokens.weight",
    output: "lm_head.weight",
    output_norm: "model.norm.weight",
    layer_prefix: "model.layers.",
    layer: LayerNames {
        attention_norm: "input_layernorm.weight",
        q: "self_attn.q_proj.weight",
        k: "self_attn.k_proj.weight",
        v: "self_attn.v_proj.weight",
        o: "self_attn.o_proj.weight",
        q_norm: "self_attn.q_norm.weight",
        k_norm: "self_attn.k_norm.weight",
        attention_post_norm: "",
        mlp_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj.weight",
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
        mlp_post_norm: "",
    },
};

/// GGUF's names, which all families share.
pub const GGUF: WeightNames = WeightNames {
    prefix: "",
    embedding: "token_embd.weight",
    output: "output.weight",
    output_norm: "output_norm.weight",
    layer_prefix: "blk.",
    layer: LayerNames {
        attention_norm: "attn_norm.weight",
        q: "attn_q.weight",
        k: "attn_k.weight",
        v: "attn_v.weight",
        o: "attn_output.weight",
        q_norm: "attn_q_norm.weight",
        k_norm: "attn_k_norm.weight",
        attention_post_norm: "post_attention_norm.weight",
        mlp_norm: "ffn_norm.weight",
        gate: "ffn_gate.weight",
        up: "ffn_up.weight",
        down: "ffn_down.weight",
        mlp_post_norm: "post_ffw_norm.weight",
    },
};

/// Where a checkpoint of several parts keeps its language model, in the layouts of different `transformers` versions:
/// `(prefix, what "model." becomes)`.
const LANGUAGE_MODEL_PREFIXES: [&str; 2] = ["language_model.", "model.language_model."];

impl WeightNames {
    /// These names, under the prefix that `directory` uses.
    pub fn located(self, directory: &TensorDirectory) -> Self {
        let has = |names: &WeightNames| directory.tensors.contains_key(&names.full(names.embedding));
        let prefixed = LANGUAGE_MODEL_PREFIXES.iter().map(|prefix| Self { prefix, ..self });
        std::iter::once(self).chain(prefixed).find(has).unwrap_or(self)
    }

    /// Whether the text model reads `name`: the rest are other parts of the checkpoint, or an output that is tied.
    pub fn cover(&self, name: &str, tied_embeddings: bool) -> bool {
        let body = if self.layer_prefix.starts_with("model.") { self.full("model.") } else { String::new() };
        let output = self.full(self.output);
        if name == output { !tied_embeddings } else { name.starts_with(&body) }
    }

    /// A name with its prefix.
    pub fn full(&self, name: &str) -> String {
        // "model.language_model." takes the place of "model.", "language_model." stands before it.
        match self.prefix.strip_prefix("model.") {
            Some(_) => format!("{}{}", self.prefix, name.strip_prefix("model.").unwrap_or(name)),
            None => format!("{}{name}", self.prefix),
        }
    }

    /// The name of `part` in layer `index`.
    pub fn in_layer(&self, index: usize, part: &str) -> String {
        self.full(&format!("{}{index}.{part}", self.layer_prefix))
    }
}
