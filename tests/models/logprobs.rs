//! Log probabilities equal those of `transformers`' logits: of every prompt token, and of what is generated.

use candle_core::{DType, Device};
use taper_server::engine::sampling::{SamplingParams, TokenLogprobs};
use taper_server::engine::{Event, Request};
use taper_server::settings::{EngineSettings, KvCacheDtype};
use taper_tests::engine::{TestEngine, default_settings};
use taper_tests::fixture;

/// f32 sums in another order than the reference's.
const TOLERANCE: f64 = 5e-4;
const MODELS: [&str; 4] = ["llama", "mistral", "qwen3", "gemma3_linear"];

struct Reference {
    input_ids: Vec<u32>,
    greedy: Vec<u32>,
    /// After each token of the prompt, `[vocab_size]` each.
    log_softmax: Vec<Vec<f64>>,
}

fn reference(model: &str) -> Reference {
    let path = fixture("tiny").join(model).join("expected.safetensors");
    let tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    let ids = |name: &str| tensors[name].to_dtype(DType::U32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    let logits: Vec<Vec<f32>> = tensors["logits"].get(0).unwrap().to_vec2().unwrap();
    Reference {
        input_ids: ids("input_ids"),
        greedy: ids("greedy"),
        log_softmax: logits.iter().map(|row| log_softmax(row)).collect(),
    }
}

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
    row.iter().map(|logit| f64::from(*logit) - sum.ln()).collect()
}

/// Log probabilities of the prompt and of one greedy token.
fn scored(engine: &TestEngine, prompt: &[u32], count: usize) -> (Vec<TokenLogprobs>, u32, TokenLogprobs) {
    let params = SamplingParams {
        temperature: 0.0,
        max_tokens: Some(1),
        logprobs: Some(count),
        prompt_logprobs: Some(count),
        ..SamplingParams::default()
    };
    let mut request = engine
        .engine
        .submit(Request { prompt: prompt.to_vec(), params, ..Request::default() })
        .expect("the request fits");
    let mut of_prompt = Vec::new();
    loop {
        match request.blocking_recv().expect("a token comes") {
            Event::Prompt { logprobs } => of_prompt.extend(logprobs),
            Event::Token { id, logprobs, .. } => return (of_prompt, id, logprobs.expect("asked for")),
            Event::Finished { reason, .. } => panic!("ended before a token: {reason:?}"),
        }
    }
}

fn assert_equal(found: &TokenLogprobs, token: u32, expected: &[f64], what: &str) {
    let close = |found: f32, expected: f64| (f64::from(found) - expected).abs() <= TOLERANCE;
    let own = expected[token as usize];
    assert!(close(found.logprob, own), "{what}: token {token} has {}, expected {own}", found.logprob);
    let mut sorted = expected.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    for (rank, (id, logprob)) in found.top.iter().enumerate() {
        assert!(close(*logprob, expected[*id as usize]), "{what}: token {id} has {logprob}");
        // Two that are nearly alike may change places.
        assert!(close(*logprob, sorted[rank]), "{what}: rank {rank} has {logprob}, expected {}", sorted[rank]);
    }
}

#[test]
fn prompt_and_answer_have_the_log_probabilities_of_transformers() {
    for model in MODELS {
        let Reference { input_ids, greedy, log_softmax } = reference(model);
        for step_tokens in [512, 7] {
            let settings =
                EngineSettings { kv_cache_dtype: KvCacheDtype::F32, parallel: 4, step_tokens, ..default_settings() };
            let engine = TestEngine::start(&fixture("tiny").join(model), &settings);
            let (of_prompt, token, of_token) = scored(&engine, &input_ids, 5);
            assert_eq!(of_prompt.len(), input_ids.len() - 1, "{model}");
            for (place, (found, token)) in of_prompt.iter().zip(&input_ids[1..]).enumerate() {
                assert_equal(found, *token, &log_softmax[place], &format!("{model}, prompt token {}", place + 1));
            }
            assert_eq!(token, greedy[0], "{model}");
            assert_equal(&of_token, token, &log_softmax[input_ids.len() - 1], &format!("{model}, answer"));
        }
    }
}

/// A cached prompt is computed again, since logits are not cached; a request without scores finds what it wrote.
#[test]
fn a_warm_cache_changes_no_log_probability() {
    let engine = TestEngine::start(&fixture("tiny/llama"), &EngineSettings { block_size: 16, ..default_settings() });
    let prompt: Vec<u32> = (0..40).map(|i| 3 + i * 7 % 90).collect();
    let cold = scored(&engine, &prompt, 3);
    assert_eq!(cold.0.len(), 39);
    assert_eq!(scored(&engine, &prompt, 3), cold);
    let (_, usage) = taper_tests::engine::finish(engine.submit(&prompt, 1));
    assert_eq!(usage.cached_tokens, 32);
}
