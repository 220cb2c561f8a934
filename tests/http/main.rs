//! Tier `http`: `taper serve` as its clients meet it. Every test talks to the real binary over real sockets; the model is
//! a tiny one with random weights, whose answers are nonsense but always the same.

#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod bodies;
mod client;
mod document;
mod events;
mod leaving;
mod life;
mod load;
mod logprobs;
mod refused;
mod samplers;
mod server;
mod shapes;
mod soak;
mod status;
mod stop;
mod structured;
mod text;
mod tools;
