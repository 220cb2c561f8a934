//! candle-nn, 0.11.1, whose fused operations say what they were made with (`params` of the custom ops), so that a device from
//! another crate can run them by name: `rms-norm` and `layer-norm` their epsilon, `metal-sdpa` its scale, soft cap and mask,
//! and `rotary-emb`, of which there are two, which one it is.

// Upstream's comments are upstream's.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

include!(concat!(env!("OUT_DIR"), "/upstream/lib.rs"));

mod attention_on_cpu;
