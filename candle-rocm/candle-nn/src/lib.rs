//! candle-nn, 0.11.1, whose fused operations say what they were made with (`params` of the custom ops), so that a device from
//! another crate can run them by name: `rms-norm` and `layer-norm` their epsilon, `metal-sdpa` its scale, soft cap and mask,
//! and `rotary-emb`, of which there are two, which one it is.

include!(concat!(env!("OUT_DIR"), "/upstream/lib.rs"));

mod attention_on_cpu;
