//! From a row of logits to one token: the request's parameters, its random stream, and the sampler that applies both.

mod candidates;
mod chain;
mod dry;
mod mirostat;
mod order;
mod params;
mod philox;
pub mod ranges;
mod recent;
mod sampler;

pub use dry::SequenceBreakers;
pub use order::{OrderError, SamplerKind};
pub use params::{ParamError, RepetitionDetection, SamplingOverrides, SamplingParams};
pub use philox::{philox4x32_10, random_seed};
pub use sampler::{Sample, SampleError, Sampler, TokenLogprobs};
