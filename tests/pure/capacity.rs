//! What fits is found out before anything is allocated, and what does not is refused with the numbers.

use candle_core::DType;
use taper_models::CachePlan;
use taper_models::ops::activation::Activation;
use taper_models::spec::{AttentionSpec, DecoderSpec, LayerSpec, MlpSpec};
use taper_server::capacity::{CapacityError, Limits, plan};

const GIB: u64 = 1 << 30;

/// 4 layers, 2 KV heads of 64, a context of 4096; `windowed` of the layers are behind a window of 256.
fn spec(windowed: usize) -> DecoderSpec {
    let layer = |window| LayerSpec {
        attention: AttentionSpec {
            num_heads: 4,
            num_kv_heads: 2,
            head_dim: 64,
            scale: 0.125,
            window,
            softcap: None,
            rope: 0,
            qk_norm: false,
            qkv_bias: false,
            output_bias: false,
        },
        mlp: MlpSpec { intermediate_size: 512, activation: Activation::Silu, bias: false },
        post_norms: false,
    };
    DecoderSpec {
        vocab_size: 1000,
        hidden_size: 256,
        max_position: 4096,
        norm_eps: 1e-6,
        norm_weight_offset: 0.0,
        embedding_scale: None,
        tied_embeddings: true,
        logit_softcap: None,
        ropes: Vec::new(),
        layers: (0..4).map(|index| layer((index < windowed).then_some(256))).collect(),
    }
}

fn limits() -> Limits {
    Limits {
        ctx_size: None,
        kv_cache_memory: None,
        parallel: 2,
        step_tokens: 512,
        block_size: 16,
        kv_dtype: DType::F16,
        available: Some(8 * GIB),
    }
}

/// 4 layers * (K and V) * 2 heads * 64 * 2 bytes = 2048 bytes a token; 16 tokens a block.
const BLOCK: u64 = 16 * 2048;

#[test]
fn with_room_every_sequence_may_have_the_whole_context() {
    let spec = spec(0);
    let capacity = plan(&spec, &CachePlan::new(&spec).unwrap(), GIB, &limits()).unwrap();
    assert_eq!((capacity.block_bytes, capacity.max_model_len), (BLOCK, 4096));
    assert_eq!((capacity.blocks_per_sequence, capacity.num_blocks), (256, 512));
}

/// Layers of the two kinds are paired into groups of two, so a block is half as large and two tables are kept.
#[test]
fn a_window_group_needs_its_window_and_a_step_only() {
    let spec = spec(2);
    let capacity = plan(&spec, &CachePlan::new(&spec).unwrap(), GIB, &limits()).unwrap();
    assert_eq!(capacity.block_bytes, BLOCK / 2);
    // 4096 tokens; and what the first token of a step sees before it (255), the step (512), one block for the edges.
    assert_eq!(capacity.blocks_per_sequence, 4096 / 16 + (255 + 512usize).div_ceil(16) + 1);
}

#[test]
fn without_room_the_context_is_what_fits() {
    let spec = spec(0);
    let limits = Limits { kv_cache_memory: Some(100 * BLOCK), ..limits() };
    let capacity = plan(&spec, &CachePlan::new(&spec).unwrap(), GIB, &limits).unwrap();
    assert_eq!((capacity.max_model_len, capacity.num_blocks), (1600, 100));
}

#[test]
fn a_context_that_was_asked_for_and_does_not_fit_is_an_error() {
    let spec = spec(0);
    let limits = Limits { ctx_size: Some(2000), kv_cache_memory: Some(100 * BLOCK), ..limits() };
    let error = plan(&spec, &CachePlan::new(&spec).unwrap(), GIB, &limits).unwrap_err();
    let CapacityError::Context { ctx_size, needed, budget, possible, .. } = error else { panic!("{error}") };
    assert_eq!((ctx_size, needed, budget, possible), (2000, 125 * BLOCK, 100 * BLOCK, 1600));
}

#[test]
fn weights_beyond_the_memory_are_refused() {
    let spec = spec(0);
    let error = plan(&spec, &CachePlan::new(&spec).unwrap(), 9 * GIB, &limits()).unwrap_err();
    assert_eq!(error, CapacityError::Weights { weights: 9 * GIB, available: 8 * GIB });
}

#[test]
fn more_context_than_the_model_was_made_for_is_refused() {
    let spec = spec(0);
    let limits = Limits { ctx_size: Some(4097), ..limits() };
    let error = plan(&spec, &CachePlan::new(&spec).unwrap(), GIB, &limits).unwrap_err();
    assert_eq!(error, CapacityError::BeyondModel { ctx_size: 4097, max_position: 4096 });
}

/// The engine refuses a pool that its own books cannot run a sequence in; what is planned here it must accept.
#[test]
fn the_engine_can_hold_what_was_planned() {
    use taper_server::engine::blocks::BlockManager;
    for windowed in [0, 1, 2, 4] {
        let spec = spec(windowed);
        let cache = CachePlan::new(&spec).unwrap();
        for memory in [40, 100, 333, 5000] {
            let limits = Limits { kv_cache_memory: Some(memory * BLOCK), parallel: 1, ..limits() };
            let Ok(capacity) = plan(&spec, &cache, GIB, &limits) else { continue };
            let blocks = BlockManager::new(capacity.num_blocks, 16, &cache.windows(), true);
            let holds = blocks.capacity(capacity.max_model_len, limits.step_tokens);
            assert!(
                holds >= capacity.max_model_len,
                "{windowed} windowed layers, {memory} blocks: planned {capacity:?}, holds {holds}"
            );
        }
    }
}
