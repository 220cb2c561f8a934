//! Constrained output: what a request wants its answer to be, as a grammar that bans tokens while they are sampled.
//!
//! A [`Grammar`] is compiled off the engine's thread by [`Grammars`] (`compile.rs`), which keeps compiled ones. What the
//! engine sees is a [`Guide`] (`guide.rs`): it waits for the end of the model's thoughts, if there are any, then follows
//! the grammar token by token. The matching itself is llguidance's; `vocabulary.rs` tells it our tokens, `gbnf.rs` reads
//! llama.cpp's grammars, `schema.rs` finds what a JSON schema asks for in vain.

mod compile;
mod gbnf;
mod guide;
mod schema;
mod vocabulary;

pub use compile::{Grammar, GrammarError, Grammars};
pub use guide::{Budget, Guidance, Guide, Thoughts};
