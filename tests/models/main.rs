//! Tier `models`: every family against `transformers`, on tiny random checkpoints (see `fixtures/README.md`).

mod batching;
mod engine;
mod formats;
mod logprobs;
mod multimodal;
mod parity;
