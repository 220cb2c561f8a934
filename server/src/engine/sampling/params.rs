//! The sampling parameters of a request: names, defaults, allowed values, and how layers of defaults are resolved.

use std::sync::Arc;

use super::dry::SequenceBreakers;
use super::order::SamplerKind;
use super::ranges::{self, Range};

/// How the tokens of one request are chosen, and when it stops. Every field has its meaning in the OpenAI, vLLM or
/// llama.cpp API; the defaults change nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits of the remaining candidates; 0 takes the most likely token.
    pub temperature: f32,
    /// How far the temperature may go from `temperature`, down where the candidates' entropy is low and up where it is
    /// high (kalomaze's dynamic temperature, in koboldcpp and llama.cpp since 2023); 0 keeps it fixed.
    pub dynatemp_range: f32,
    /// The power to which the entropy, as a share of the largest possible one, is raised before that.
    pub dynatemp_exponent: f32,
    /// Keeps the `top_k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most likely tokens that together hold this probability (Holtzman et al., 2020).
    pub top_p: f32,
    /// Keeps tokens at least `min_p` times as likely as the most likely one.
    pub min_p: f32,
    /// Keeps the tokens closest to the expected surprise that together hold this probability (Meister et al., 2022).
    pub typical_p: f32,
    /// Candidates that `top_p`, `min_p`, `typical_p` and XTC keep in any case.
    pub min_keep: usize,
    /// Keeps the tokens whose logit is at most this many standard deviations below the largest (Tang et al., "Top-nσ: Not
    /// All Logits Are You Need", 2024); off unless above 0.
    pub top_n_sigma: f32,
    /// How often XTC, "exclude top choices", is used on a token: of those at least `xtc_threshold` probable it drops all
    /// but the least likely (p-e-w, text-generation-webui, pull request 6335, 2024). 0 is never.
    pub xtc_probability: f32,
    /// Above 0.5 no two tokens reach it, so nothing is dropped.
    pub xtc_threshold: f32,
    /// Which version of Mirostat (`mirostat.rs`) chooses the token, in place of the chain `samplers`, of which only the
    /// temperature is left; 0 none.
    pub mirostat: u8,
    /// The surprise, in bits, that Mirostat aims at.
    pub mirostat_tau: f32,
    /// How fast it follows.
    pub mirostat_eta: f32,
    /// Divides positive and multiplies negative logits of recent tokens (Keskar et al., 2019).
    pub repetition_penalty: f32,
    /// How many of the last tokens, prompt included, `repetition_penalty` looks at; -1 all, 0 none.
    pub repeat_last_n: i32,
    /// Taken off a token's logit once per occurrence in the output.
    pub frequency_penalty: f32,
    /// Taken off a token's logit once it occurs in the output.
    pub presence_penalty: f32,
    /// What DRY (`dry.rs`) takes off the logit of a token that makes a repetition one longer than allowed; 0 nothing.
    pub dry_multiplier: f32,
    /// Factor on that for each further token of the repetition.
    pub dry_base: f32,
    /// Tokens that may repeat themselves at no cost.
    pub dry_allowed_length: usize,
    /// How many of the last tokens, prompt included, DRY looks at; -1 all, 0 none.
    pub dry_penalty_last_n: i32,
    /// What no repetition goes across. None unless whoever makes the parameters knows the tokens.
    pub dry_sequence_breakers: Arc<SequenceBreakers>,
    /// The samplers in their order. One that is not there is not used; one that is there twice is used twice.
    pub samplers: Vec<SamplerKind>,
    /// Added to the logits of these tokens; negative infinity bans a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// Ends an output that repeats itself.
    pub repetition_detection: RepetitionDetection,
    /// Seed of the request's random stream; a random one is drawn when none is given.
    pub seed: Option<u64>,
    /// Tokens to generate at most; without it, as many as context and cache have room for.
    pub max_tokens: Option<usize>,
    /// No stop token can be sampled before this many tokens.
    pub min_tokens: usize,
    /// Further tokens that end the request.
    pub stop_token_ids: Vec<u32>,
    /// Whether the model's end-of-sequence tokens are tokens like any other.
    pub ignore_eos: bool,
    /// Number of most likely tokens to report beside each sampled one; `Some(0)` reports the sampled one alone.
    pub logprobs: Option<usize>,
    /// The same for the tokens of the prompt, which is then computed whole, whatever is cached.
    pub prompt_logprobs: Option<usize>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            min_keep: 0,
            top_n_sigma: -1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            mirostat: 0,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            repetition_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: 64,
            dry_sequence_breakers: Arc::default(),
            samplers: SamplerKind::default_order(),
            logit_bias: Vec::new(),
            repetition_detection: RepetitionDetection::default(),
            seed: None,
            max_tokens: None,
            min_tokens: 0,
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            logprobs: None,
            prompt_logprobs: None,
        }
    }
}

/// What counts as a loop (`engine/repetition.rs`), in vLLM's words. The default detects nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepetitionDetection {
    /// Tokens of the longest pattern that is looked for; 0 switches the detection off.
    pub max_pattern_size: usize,
    /// Tokens of the shortest; 0 stands for 1.
    pub min_pattern_size: usize,
    /// How often in a row a pattern must stand.
    pub min_count: usize,
}

/// Each pattern size costs a comparison per token.
const MAX_PATTERN_SIZE: usize = 4096;

impl RepetitionDetection {
    /// `min_count` where a request does not say.
    pub const USUAL_COUNT: usize = 4;

    /// Checks every field; the error names the first bad one.
    pub fn validate(&self) -> Result<(), ParamError> {
        let Self { max_pattern_size, min_pattern_size, min_count } = *self;
        if max_pattern_size == 0 {
            return Ok(());
        }
        let range = format!("at most {MAX_PATTERN_SIZE}");
        check(max_pattern_size <= MAX_PATTERN_SIZE, "repetition_detection.max_pattern_size", max_pattern_size, &range)?;
        let range = format!("at most `max_pattern_size`, which is {max_pattern_size}");
        check(min_pattern_size <= max_pattern_size, "repetition_detection.min_pattern_size", min_pattern_size, &range)?;
        check(min_count >= 2, "repetition_detection.min_count", min_count, "at least 2")
    }
}

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}; it must be {range}")]
pub struct ParamError {
    pub field: &'static str,
    pub value: String,
    pub range: String,
}

impl SamplingParams {
    /// Checks every field; the error names the first bad one, its value and what is allowed.
    pub fn validate(&self, vocab_size: usize) -> Result<(), ParamError> {
        self.validate_numbers()?;
        self.validate_token_ids(vocab_size)
    }

    /// The same without the tokens, which need a vocabulary.
    pub fn validate_numbers(&self) -> Result<(), ParamError> {
        for (range, value) in self.numbers() {
            check(range.contains(value), range.field, value, &range.to_string())?;
        }
        check(self.mirostat <= 2, "mirostat", self.mirostat, "0, 1 or 2")?;
        check(self.dry_penalty_last_n >= -1, "dry_penalty_last_n", self.dry_penalty_last_n, "at least -1")?;
        self.repetition_detection.validate()?;
        check(self.repeat_last_n >= -1, "repeat_last_n", self.repeat_last_n, "at least -1")?;
        let max_tokens = self.max_tokens.unwrap_or(usize::MAX);
        check(max_tokens > 0, "max_tokens", max_tokens, "at least 1")?;
        check(self.min_tokens <= max_tokens, "min_tokens", self.min_tokens, "at most `max_tokens`")
    }

    fn numbers(&self) -> [(Range, f32); 16] {
        [
            (ranges::TEMPERATURE, self.temperature),
            (ranges::DYNATEMP_RANGE, self.dynatemp_range),
            (ranges::DYNATEMP_EXPONENT, self.dynatemp_exponent),
            (ranges::TOP_P, self.top_p),
            (ranges::TYPICAL_P, self.typical_p),
            (ranges::MIN_P, self.min_p),
            (ranges::TOP_N_SIGMA, self.top_n_sigma),
            (ranges::XTC_PROBABILITY, self.xtc_probability),
            (ranges::XTC_THRESHOLD, self.xtc_threshold),
            (ranges::REPETITION_PENALTY, self.repetition_penalty),
            (ranges::FREQUENCY_PENALTY, self.frequency_penalty),
            (ranges::PRESENCE_PENALTY, self.presence_penalty),
            (ranges::DRY_MULTIPLIER, self.dry_multiplier),
            (ranges::DRY_BASE, self.dry_base),
            (ranges::MIROSTAT_TAU, self.mirostat_tau),
            (ranges::MIROSTAT_ETA, self.mirostat_eta),
        ]
    }

    fn validate_token_ids(&self, vocab_size: usize) -> Result<(), ParamError> {
        let range = format!("below the vocabulary size {vocab_size}");
        let known = |id: u32| (id as usize) < vocab_size;
        for (id, bias) in &self.logit_bias {
            check(known(*id), "logit_bias", id, &range)?;
            let valid = (-100.0..=100.0).contains(bias) || *bias == f32::NEG_INFINITY;
            check(valid, "logit_bias", bias, "from -100 to 100, or -infinity to ban the token")?;
        }
        for id in &self.stop_token_ids {
            check(known(*id), "stop_token_ids", id, &range)?;
        }
        let range = format!("at most the vocabulary size {vocab_size}");
        for (field, count) in [("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)] {
            let count = count.unwrap_or(0);
            check(count <= vocab_size, field, count, &range)?;
        }
        Ok(())
    }
}

fn check(valid: bool, field: &'static str, value: impl ToString, range: &str) -> Result<(), ParamError> {
    if valid { Ok(()) } else { Err(ParamError { field, value: value.to_string(), range: range.into() }) }
}

/// One layer of settings: what is `None` is left to the layers below.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingOverrides {
    pub temperature: Option<f32>,
    pub dynatemp_range: Option<f32>,
    pub dynatemp_exponent: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub min_keep: Option<usize>,
    pub top_n_sigma: Option<f32>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    pub mirostat: Option<u8>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub repeat_last_n: Option<i32>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<usize>,
    pub dry_penalty_last_n: Option<i32>,
    pub dry_sequence_breakers: Option<Arc<SequenceBreakers>>,
    pub samplers: Option<Vec<SamplerKind>>,
    pub logit_bias: Option<Vec<(u32, f32)>>,
    pub repetition_detection: Option<RepetitionDetection>,
    pub seed: Option<u64>,
    pub max_tokens: Option<usize>,
    pub min_tokens: Option<usize>,
    pub stop_token_ids: Option<Vec<u32>>,
    pub ignore_eos: Option<bool>,
    pub logprobs: Option<usize>,
    pub prompt_logprobs: Option<usize>,
}

impl SamplingOverrides {
    /// The engine's defaults, overridden by each layer in turn: `generation_config`, command line, request.
    pub fn resolve(layers: &[Self]) -> SamplingParams {
        let mut params = SamplingParams::default();
        layers.iter().for_each(|layer| layer.apply(&mut params));
        params
    }

    /// Several layers as one, each overriding those before it.
    pub fn merge(layers: &[Self]) -> Self {
        let mut merged = Self::default();
        macro_rules! set {
            ($($field:ident),*) => {
                $(merged.$field = layers.iter().rev().find_map(|layer| layer.$field.clone());)*
            };
        }
        set!(temperature, top_k, top_p, min_p, typical_p, repetition_penalty, repeat_last_n, frequency_penalty);
        set!(presence_penalty, logit_bias, min_tokens, stop_token_ids, ignore_eos, seed, max_tokens, logprobs);
        set!(dynatemp_range, dynatemp_exponent, top_n_sigma, xtc_probability, xtc_threshold, samplers);
        set!(mirostat, mirostat_tau, mirostat_eta, repetition_detection, min_keep);
        set!(dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers);
        set!(prompt_logprobs);
        merged
    }

    fn apply(&self, params: &mut SamplingParams) {
        macro_rules! set {
            ($($field:ident),*) => {
                $(if let Some(value) = &self.$field { params.$field = value.clone(); })*
            };
        }
        set!(temperature, top_k, top_p, min_p, typical_p, repetition_penalty, repeat_last_n, frequency_penalty);
        set!(presence_penalty, logit_bias, min_tokens, stop_token_ids, ignore_eos);
        set!(dynatemp_range, dynatemp_exponent, top_n_sigma, xtc_probability, xtc_threshold, samplers);
        set!(mirostat, mirostat_tau, mirostat_eta, repetition_detection, min_keep);
        set!(dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers);
        params.seed = self.seed.or(params.seed);
        params.max_tokens = self.max_tokens.or(params.max_tokens);
        params.logprobs = self.logprobs.or(params.logprobs);
        params.prompt_logprobs = self.prompt_logprobs.or(params.prompt_logprobs);
    }
}
