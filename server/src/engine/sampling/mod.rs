//! From a row of logits to one token: the request's parameters, its random stream, and the sampler that applies both.

mod candidates;
mod params;
mod philox;
mod recent;
mod sampler;

pub use params::{ParamError, SamplingOverrides, SamplingParams};
pub use philox::{philox4x32_10, random_seed};
pub use sampler::{Sample, SampleError, Sampler, TokenLogprobs};
