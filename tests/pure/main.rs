//! Tier `pure`: scheduler, blocks, sampling, documents, text: templates, tokenizers. Data in, data out: no file but our own.

mod blocks;
mod capacity;
mod detokenizer;
mod engine;
mod fake_model;
mod guide;
mod hostile;
mod hostile_fuzz;
mod hostile_text;
mod mutate;
mod output;
mod readme;
mod samplers;
mod sampling;
mod scheduler;
mod stop;
mod template;
mod tokenizer;
