//! Tier `pure`: scheduler, blocks, sampling, settings, documents. Data in, data out: no model, no file but our own.

mod blocks;
mod engine;
mod fake_model;
mod readme;
mod sampling;
mod scheduler;
