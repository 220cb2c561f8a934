//! Tier `text`: tokenizers and chat templates on real files: llama.cpp's collection, and the real models.

mod real_models;
mod templates;
mod vocabularies;
