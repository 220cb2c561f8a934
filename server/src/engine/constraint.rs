//! The seam between the engine and whatever restricts an answer: a grammar, a budget of thoughts.
//!
//! The engine asks before each token what may come, and tells what has come. A constraint lives on the engine's thread,
//! so each of its answers must be quick.

use std::fmt::Debug;

/// What one request's tokens must follow.
pub trait Constraint: Send + Debug {
    /// Makes the logits of tokens that must not come next negative infinity. `[vocab_size]`
    fn mask(&mut self, row: &mut [f32]) -> Result<(), ConstraintError>;

    /// Takes in the token that was chosen.
    fn accept(&mut self, token: u32) -> Result<(), ConstraintError>;

    /// Tokens that are the only possible ones to come next, in order; they are taken in. The model need not be asked for
    /// them.
    fn forced(&mut self) -> Vec<u32>;

    /// Whether the answer is complete: nothing more may come.
    fn is_complete(&self) -> bool;
}

/// Why a request cannot go on under its constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the constraint on the answer failed: {0}")]
pub struct ConstraintError(pub String);
