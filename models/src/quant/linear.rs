//! Linear layers and embedding tables over dense or block-quantised weights.

use std::sync::Arc;

use candle_core::quantized::QTensor;
use candle_core::{Result, Tensor};

/// A weight matrix `[out, in]`.
#[derive(Debug, Clone)]
pub enum Weight {
    Dense(Tensor),
    Quantised(Arc<QTensor>),
}

impl Weight {
    /// `x` `[T, in]` to `[T, out]`.
    fn matmul(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Weight::Dense(weight) => x.matmul(&weight.t()?),
            Weight::Quantised(weight) => x.apply_op1_no_bwd(weight.as_ref()),
        }
    }
}

/// `x W^T + b`, where `W` may be stored in several parts, one below the other.
#[derive(Debug, Clone)]
pub struct Linear {
    /// More than one where parts differ in storage type.
    parts: Vec<Weight>,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer of `parts` `[out_i, in]` and `bias` `[sum of out_i]`.
    pub fn new(parts: Vec<Weight>, bias: Option<Tensor>) -> Self {
        Self { parts, bias }
    }

    /// `x` `[T, in]` to `[T, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = match self.parts.as_slice() {
            [one] => one.matmul(x)?,
            several => {
                let outputs: Vec<Tensor> = several.iter().map(|part| part.matmul(x)).collect::<Result<_>>()?;
                Tensor::cat(&outputs, 1)?
            }
        };
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

/// A table of token embeddings `[vocab, hidden]`. Quantised rows are dequantised as they are asked for.
#[derive(Debug, Clone)]
pub struct Embedding {
    weight: Weight,
}

impl Embedding {
    /// A table of `weight` `[vocab, hidden]`.
    pub fn new(weight: Weight) -> Self {
        Self { weight }
    }

    /// The rows of `ids` (u32 `[T]`). `[T, hidden]`
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        match &self.weight {
            Weight::Dense(weight) => weight.index_select(ids, 0),
            Weight::Quantised(weight) => weight.embedding(ids),
        }
    }

    /// The table as an output projection, sharing its memory.
    pub fn as_linear(&self) -> Linear {
        Linear::new(vec![self.weight.clone()], None)
    }
}
