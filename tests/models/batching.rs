//! A sequence's logits do not depend on its neighbours in the batch, and hardly on the cache's precision.

use candle_core::DType;
use taper_tests::fixture;
use taper_tests::sequence::{Bench, Cached, worst_difference};

fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + (seed * 7919 + i * i * 31 + i) % 90).collect()
}

/// Eight sequences of different lengths, cut differently, mixed in the same steps, give what each gives alone.
fn assert_batch_equals_single(name: &str) {
    let path = fixture("tiny").join(name);
    let prompts: Vec<Vec<u32>> = (0..8).map(|i| prompt(i, 3 + 6 * i as usize)).collect();
    let mut single = Bench::load(&path, None, 400, DType::F32);
    let alone: Vec<_> = prompts.iter().map(|prompt| single.run(prompt, prompt.len())).collect();

    let mut bench = Bench::load(&path, None, 400, DType::F32);
    let mut sequences = vec![Cached::default(); prompts.len()];
    let mut done = vec![0; prompts.len()];
    let mut logits: Vec<Vec<Vec<f32>>> = vec![Vec::new(); prompts.len()];
    while done.iter().zip(&prompts).any(|(done, prompt)| *done < prompt.len()) {
        let active: Vec<usize> = (0..prompts.len()).filter(|i| done[*i] < prompts[*i].len()).collect();
        let chunks: Vec<&[u32]> =
            active.iter().map(|i| &prompts[*i][done[*i]..prompts[*i].len().min(done[*i] + 1 + i * 2)]).collect();
        let mut running: Vec<&mut Cached> = sequences
            .iter_mut()
            .enumerate()
            .filter(|(i, _)| active.contains(i))
            .map(|(_, sequence)| sequence)
            .collect();
        let step = bench.step(&mut running, &chunks);
        for ((i, chunk), rows) in active.iter().zip(chunks).zip(step) {
            done[*i] += chunk.len();
            logits[*i].extend(rows);
        }
    }
    for (i, (found, alone)) in logits.iter().zip(&alone).enumerate() {
        let (difference, place) = worst_difference(found, alone);
        assert!(difference <= 1e-4, "{name}: sequence {i} in a batch is off by {difference} at {place}");
    }
}

#[test]
fn llama_in_a_batch_equals_llama_alone() {
    assert_batch_equals_single("llama_odd_sizes");
}

#[test]
fn qwen2_with_windows_in_a_batch_equals_alone() {
    assert_batch_equals_single("qwen2_windowed");
}

#[test]
fn gemma3_in_a_batch_equals_gemma3_alone() {
    assert_batch_equals_single("gemma3_linear");
}

/// An f16 cache rounds keys and values to 11 bits; logits of the order of 1 move by some thousandths at most.
#[test]
fn f16_cache_stays_close_to_f32() {
    for name in ["llama", "qwen3", "gemma3_text"] {
        let path = fixture("tiny").join(name);
        let tokens = prompt(1, 60);
        let exact = Bench::load(&path, None, 100, DType::F32).run(&tokens, 60);
        let (difference, place) = worst_difference(&Bench::load(&path, None, 100, DType::F16).run(&tokens, 60), &exact);
        assert!(difference <= 2e-2, "{name}: off by {difference} at {place}");
        assert!(difference > 0.0, "{name}: the f16 cache was not used");
    }
}
