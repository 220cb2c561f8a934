//! The whole engine on tiny models: greedy tokens are the reference's, and nothing but the prompt changes them.

use candle_core::DType;
use taper_server::settings::{EngineSettings, KvCacheDtype};
use taper_tests::engine::{TestEngine, default_settings, finish};
use taper_tests::fixture;
use taper_tests::sequence::Bench;

/// Full attention, windows on all layers, windows on some, and two rotations with windows shorter than a chunk.
const MODELS: [&str; 4] = ["llama_odd_sizes", "mistral", "qwen2_windowed", "gemma3_linear"];
const OUTPUT: usize = 24;

fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + (seed * 7919 + i * i * 31 + i * 5) % 90).collect()
}

/// Small enough to make chunks, blocks and windows cross each other within a short prompt.
fn settings() -> EngineSettings {
    EngineSettings {
        kv_cache_dtype: KvCacheDtype::F32,
        parallel: 8,
        step_tokens: 64,
        block_size: 16,
        ..default_settings()
    }
}

/// What the plain cache of the parity tests gives.
fn reference(model: &str, prompt: &[u32]) -> Vec<u32> {
    Bench::load(&fixture("tiny").join(model), None, 400, DType::F32).greedy(prompt, OUTPUT)
}

#[test]
fn alone_the_engine_gives_the_reference_tokens() {
    for model in MODELS {
        let engine = TestEngine::start(&fixture("tiny").join(model), &settings());
        let prompt = prompt(1, 50);
        assert_eq!(engine.greedy(&prompt, OUTPUT), reference(model, &prompt), "{model}");
    }
}

#[test]
fn in_a_batch_of_eight_each_gives_its_own_tokens() {
    for model in MODELS {
        let engine = TestEngine::start(&fixture("tiny").join(model), &settings());
        let prompts: Vec<Vec<u32>> = (0..8).map(|i| prompt(i, 5 + 9 * i as usize)).collect();
        let requests: Vec<_> = prompts.iter().map(|prompt| engine.submit(prompt, OUTPUT)).collect();
        for (prompt, request) in prompts.iter().zip(requests) {
            assert_eq!(finish(request).0, reference(model, prompt), "{model}, prompt of {}", prompt.len());
        }
    }
}

#[test]
fn the_size_of_a_step_changes_no_token() {
    for model in MODELS {
        let prompt = prompt(3, 70);
        let expected = reference(model, &prompt);
        for step_tokens in [8, 13, 512] {
            let engine = TestEngine::start(&fixture("tiny").join(model), &EngineSettings { step_tokens, ..settings() });
            assert_eq!(engine.greedy(&prompt, OUTPUT), expected, "{model}, steps of {step_tokens}");
        }
    }
}

#[test]
fn a_warm_cache_changes_no_token() {
    for model in MODELS {
        let engine = TestEngine::start(&fixture("tiny").join(model), &settings());
        let prompt = prompt(4, 70);
        let expected = reference(model, &prompt);
        let (cold, cold_usage) = finish(engine.submit(&prompt, OUTPUT));
        let (warm, warm_usage) = finish(engine.submit(&prompt, OUTPUT));
        assert_eq!((&cold, &warm), (&expected, &expected), "{model}");
        assert_eq!(
            (cold_usage.cached_tokens, warm_usage.cached_tokens),
            (0, 64),
            "{model}: four blocks of 16 are shared"
        );
    }
}

/// A second turn of a chat finds the first one's answer in the cache, not only its prompt.
#[test]
fn generated_tokens_are_found_again() {
    let engine = TestEngine::start(&fixture("tiny/llama"), &settings());
    let first = prompt(5, 40);
    let answer = engine.greedy(&first, OUTPUT);
    let second = [first, answer, prompt(6, 10)].concat();
    let (_, usage) = finish(engine.submit(&second, 1));
    assert_eq!(usage.cached_tokens, 48, "40 + 24 tokens, of which the last has no key yet: three whole blocks");
}

#[test]
fn without_a_prefix_cache_nothing_is_found() {
    let engine = TestEngine::start(&fixture("tiny/llama"), &EngineSettings { prefix_cache: false, ..settings() });
    let prompt = prompt(4, 70);
    let usages = [finish(engine.submit(&prompt, 1)).1, finish(engine.submit(&prompt, 1)).1];
    assert_eq!(usages.map(|usage| usage.cached_tokens), [0, 0]);
}

/// 32 sequences want four times the cache; every third one is cancelled somewhere on its way.
#[test]
fn a_cache_of_a_quarter_serves_all_and_is_free_afterwards() {
    for model in ["llama_odd_sizes", "gemma3_linear"] {
        let path = fixture("tiny").join(model);
        let opened = taper_server::loading::Opened::open(&path).unwrap();
        let block = opened.cache.block_bytes(16, DType::F32) as u64;
        let blocks_of_one = opened.cache.groups.len() as u64 * 5; // 72 tokens in blocks of 16
        let settings = EngineSettings {
            kv_cache_memory: Some(32 * blocks_of_one * block / 4),
            ctx_size: Some(72),
            parallel: 32,
            step_tokens: 32,
            ..settings()
        };
        let engine = TestEngine::start(&path, &settings);
        let prompts: Vec<Vec<u32>> = (0..32).map(|i| prompt(i % 8, 48)).collect();
        let expected: Vec<Vec<u32>> = (0..8).map(|i| reference(model, &prompts[i])).collect();
        let mut requests: Vec<_> = prompts.iter().map(|prompt| engine.submit(prompt, OUTPUT)).collect();
        for (index, request) in requests.iter_mut().enumerate().filter(|(index, _)| index % 3 == 0) {
            for _ in 0..index % 7 {
                request.blocking_recv();
            }
            request.cancel();
        }
        for (index, request) in requests.into_iter().enumerate().filter(|(index, _)| index % 3 != 0) {
            assert_eq!(finish(request).0, expected[index % 8], "{model}, sequence {index}");
        }
        let (num_blocks, stats) = engine.stop();
        assert_eq!((stats.used_blocks, stats.free_blocks + stats.cached_blocks), (0, num_blocks), "{model}: {stats:?}");
    }
}

/// Random weights repeat themselves soon, so many guesses are right; those behind a wrong one must leave nothing behind.
#[test]
fn guesses_change_no_token() {
    for model in MODELS {
        let engine = TestEngine::start(&fixture("tiny").join(model), &EngineSettings { guess: true, ..settings() });
        for seed in 0..4 {
            let prompt = prompt(seed, 30);
            let expected = reference(model, &prompt);
            assert_eq!(engine.greedy(&prompt, OUTPUT), expected, "{model}, prompt {seed}");
            let mut prediction = expected.clone();
            prediction[OUTPUT / 2] += 1;
            let (tokens, usage) = finish(engine.submit_predicted(&prompt, prediction, OUTPUT));
            assert_eq!(tokens, expected, "{model}, prompt {seed}");
            // How many it pays to guess depends on the machine; the first two are always.
            assert!(usage.accepted_tokens >= 2, "{model}, prompt {seed}: {usage:?}");
        }
    }
}
