//! Counter-based random numbers: the n-th draw of a request depends on its seed and n alone, so neither neighbours in
//! the batch nor a preemption nor a restart change it.
//!
//! Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

use std::hash::{BuildHasher, RandomState};

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_INCREMENTS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Encrypts `counter` under `key`: four independent, uniformly distributed words.
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..ROUNDS {
        let [product0, product1] =
            [(MULTIPLIERS[0], c0), (MULTIPLIERS[1], c2)].map(|(m, c)| u64::from(m) * u64::from(c));
        (c0, c1, c2, c3) =
            ((product1 >> 32) as u32 ^ c1 ^ k0, product1 as u32, (product0 >> 32) as u32 ^ c3 ^ k1, product0 as u32);
        (k0, k1) = (k0.wrapping_add(KEY_INCREMENTS[0]), k1.wrapping_add(KEY_INCREMENTS[1]));
    }
    [c0, c1, c2, c3]
}

/// What a number is for: each purpose has a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Token = 0,
    Xtc = 1,
}

/// The `index`-th number of a stream of `seed`, uniform in `[0, 1)` with 53 random bits.
pub(super) fn uniform(seed: u64, index: u64, purpose: Purpose) -> f64 {
    let words = |value: u64| [value as u32, (value >> 32) as u32];
    let [low, high] = words(index);
    let [w0, w1, ..] = philox4x32_10([low, high, purpose as u32, 0], words(seed));
    let bits = (u64::from(w1) << 32 | u64::from(w0)) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

/// A seed for a request that brings none, from the random keys that the standard library gives its hash maps.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(())
}
