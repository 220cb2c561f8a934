//! The sampling parameters of a request: names, defaults, allowed values, and how layers of defaults are resolved.

/// How the tokens of one request are chosen, and when it stops. Every field has its meaning in the OpenAI, vLLM or
/// llama.cpp API; the defaults change nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits of the remaining candidates; 0 takes the most likely token.
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most likely tokens that together hold this probability (Holtzman et al., 2020).
    pub top_p: f32,
    /// Keeps tokens at least `min_p` times as likely as the most likely one.
    pub min_p: f32,
    /// Keeps the tokens closest to the expected surprise that together hold this probability (Meister et al., 2022).
    pub typical_p: f32,
    /// Divides positive and multiplies negative logits of recent tokens (Keskar et al., 2019).
    pub repetition_penalty: f32,
    /// How many of the last tokens, prompt included, `repetition_penalty` looks at; -1 all, 0 none.
    pub repeat_last_n: i32,
    /// Taken off a token's logit once per occurrence in the output.
    pub frequency_penalty: f32,
    /// Taken off a token's logit once it occurs in the output.
    pub presence_penalty: f32,
    /// Added to the logits of these tokens; negative infinity bans a token.
    pub logit_bias: Vec<(u32, f32)>,
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
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            repetition_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
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

    fn validate_numbers(&self) -> Result<(), ParamError> {
        let share = |value: f32| value > 0.0 && value <= 1.0;
        // A smaller or larger factor could push a finite logit out of the range of f32.
        let factor = |value: f32| (0.01..=100.0).contains(&value);
        let offset = |value: f32| (-2.0..=2.0).contains(&value);
        let checks = [
            (
                "temperature",
                self.temperature,
                (0.0..f32::INFINITY).contains(&self.temperature),
                "finite and at least 0",
            ),
            ("top_p", self.top_p, share(self.top_p), "above 0 and at most 1"),
            ("typical_p", self.typical_p, share(self.typical_p), "above 0 and at most 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1"),
            ("repetition_penalty", self.repetition_penalty, factor(self.repetition_penalty), "from 0.01 to 100"),
            ("frequency_penalty", self.frequency_penalty, offset(self.frequency_penalty), "from -2 to 2"),
            ("presence_penalty", self.presence_penalty, offset(self.presence_penalty), "from -2 to 2"),
        ];
        for (field, value, valid, range) in checks {
            check(valid, field, value, range)?;
        }
        check(self.repeat_last_n >= -1, "repeat_last_n", self.repeat_last_n, "at least -1")?;
        let max_tokens = self.max_tokens.unwrap_or(usize::MAX);
        check(max_tokens > 0, "max_tokens", max_tokens, "at least 1")?;
        check(self.min_tokens <= max_tokens, "min_tokens", self.min_tokens, "at most `max_tokens`")
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
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub repeat_last_n: Option<i32>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub logit_bias: Option<Vec<(u32, f32)>>,
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
        params.seed = self.seed.or(params.seed);
        params.max_tokens = self.max_tokens.or(params.max_tokens);
        params.logprobs = self.logprobs.or(params.logprobs);
        params.prompt_logprobs = self.prompt_logprobs.or(params.prompt_logprobs);
    }
}
