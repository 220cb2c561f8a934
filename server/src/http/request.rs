//! From what a client sent to what can be run: every field is honoured, refused by name, or named as ignored.
//!
//! What passes is [`Valid`]; the engine's own rules (`engine/request.rs`) are checked once more where they are kept,
//! but nothing behind this file looks at wire types of a request again.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use taper_openapi::body::Unknown;
use taper_openapi::chat::ChatRequest;
use taper_openapi::completions::CompletionRequest;
use taper_openapi::sampling::{SamplingFields, ServiceTier};
use taper_openapi::values::{Bias, BiasTarget, LogitBias, Samplers, Seed, Stop, TokenId};

use super::error::ApiError;
use super::keys::KeyId;
use super::structured::{self, AskedGrammar};
use crate::breakers::{BreakerBook, MAX_BREAKER_CHARS};
use crate::engine::sampling::ranges::{self, Range};
use crate::engine::sampling::{RepetitionDetection, SamplerKind, SamplingOverrides, SequenceBreakers};
use crate::engine::{Party, Tier};
use crate::settings::RequestLimits;
use crate::text::{EncodeOptions, Tokenizer};

/// How an answer is to be made and sent. Every number is within its rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Valid {
    /// What the request says of sampling, as the last layer above the defaults.
    pub overrides: SamplingOverrides,
    /// Answers to each prompt.
    pub n: usize,
    pub stop: Vec<String>,
    /// The stop string that ends an answer is part of it.
    pub include_stop: bool,
    /// Control tokens are left out of the text.
    pub skip_special: bool,
    /// The tokenizer's own tokens around the prompt. `None`: as is usual for the kind of prompt.
    pub add_special: Option<bool>,
    /// How to stream; `None`: the whole answer at once.
    pub stream: Option<Streaming>,
    pub cache: Cache,
    /// With whom it takes turns: the key's owner, where there are several, or the user that it names.
    pub party: Party,
    pub tier: Tier,
    /// From when it is queued.
    pub timeout: Option<Duration>,
    /// What the answer must be. `None`: any text.
    pub grammar: Option<AskedGrammar>,
    /// Fields that were sent and change nothing.
    pub ignored: Vec<String>,
}

impl Valid {
    /// The request is one of `key`, if there is more than one: its cached prefixes and its turns are the key's own.
    pub fn belongs_to(&mut self, key: Option<KeyId>) {
        self.cache = std::mem::take(&mut self.cache).of_key(key);
        if let Some(KeyId(party)) = key {
            // A key's users are its owner's to tell apart.
            if self.party != 0 {
                self.ignored.push("user".to_owned());
            }
            self.party = party;
        }
    }
}

/// Users of the same name are one.
fn party_of(user: &str) -> Party {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(user)
}

fn tier(tier: ServiceTier) -> Tier {
    match tier {
        ServiceTier::Flex => Tier::Flex,
        ServiceTier::Auto | ServiceTier::Default | ServiceTier::Scale => Tier::Default,
        ServiceTier::Priority => Tier::Priority,
    }
}

/// The request's own, but no more than the server's.
fn timeout(asked: Option<f64>, limit: Option<Duration>) -> Result<Option<Duration>, ApiError> {
    let asked = number(TIMEOUT, asked)?.map(Duration::from_secs_f32);
    Ok(asked.into_iter().chain(limit).min())
}

/// What a stream holds besides the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streaming {
    /// A last chunk with the usage.
    pub usage: bool,
    /// The usage in every chunk.
    pub usage_in_every_chunk: bool,
    /// Timings in every chunk.
    pub timings_per_token: bool,
    /// Chunks that tell how much of the prompt is done.
    pub progress: bool,
}

/// With whom a request shares cached prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cache {
    #[default]
    All,
    /// Those of the same salt.
    Salted(String),
    /// Nobody: only the answers of one request, which have this salt.
    Alone(uuid::Uuid),
}

impl Cache {
    /// Of several keys each has its own cached prefixes: how fast an answer begins would tell one what others asked.
    pub fn of_key(self, key: Option<KeyId>) -> Self {
        match (self, key) {
            (Self::All, Some(key)) => Self::Salted(format!("key {key}")),
            (Self::Salted(salt), Some(key)) => Self::Salted(format!("key {key}: {salt}")),
            (cache, _) => cache,
        }
    }
}

/// What a request is checked against.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub limits: &'a RequestLimits,
    pub strict: bool,
    /// How long an answer may take.
    pub timeout: Option<Duration>,
    pub tokenizer: &'a Tokenizer,
    pub breakers: &'a BreakerBook,
    /// What a request is given that says nothing of sampling.
    pub defaults: &'a SamplingOverrides,
}

/// In seconds.
const TIMEOUT: Range = Range::above("timeout", 0.0, 86_400.0);
/// OpenAI's limit.
const TEMPERATURE: Range = Range::from_to("temperature", 0.0, 2.0);
/// Most likely tokens that are told beside each token; OpenAI's limit for chats.
const MAX_LOGPROBS: i64 = 20;

/// Checks a chat request, its messages aside (`prompt.rs`).
pub fn valid_chat(request: &mut ChatRequest, rules: Rules) -> Result<Valid, ApiError> {
    refuse_unsupported_chat(request)?;
    let ignored = [
        ("metadata", request.metadata.is_some()),
        ("store", request.store.is_some()),
        ("safety_identifier", request.safety_identifier.is_some()),
        ("prompt_cache_key", request.prompt_cache_key.is_some()),
        ("prompt_cache_retention", request.prompt_cache_retention.is_some()),
    ];
    let mut fields = std::mem::take(&mut request.sampling);
    if let Some(max) = whole("max_completion_tokens", request.max_completion_tokens, 1, i64::MAX)? {
        if fields.max_tokens.is_some_and(|other| other != max) {
            let message = "`max_tokens` and `max_completion_tokens` differ; give one of them";
            return Err(ApiError::invalid_param("max_completion_tokens", message));
        }
        fields.max_tokens = Some(max);
    }
    let top_logprobs = whole("top_logprobs", request.top_logprobs, 0, MAX_LOGPROBS)?;
    let with_logprobs = request.logprobs == Some(true);
    if top_logprobs.is_some_and(|count| count > 0) && !with_logprobs {
        return Err(ApiError::invalid_param("top_logprobs", "`top_logprobs` is only for `logprobs: true`"));
    }
    let mut valid = valid(fields, &ignored, &request.unknown, rules)?;
    valid.overrides.logprobs = with_logprobs.then_some(top_logprobs.unwrap_or(0) as usize);
    Ok(valid)
}

/// Checks a completion request, its prompts aside.
pub fn valid_completion(request: &mut CompletionRequest, rules: Rules) -> Result<Valid, ApiError> {
    if request.suffix.as_deref().is_some_and(|suffix| !suffix.is_empty()) {
        return Err(not_supported("suffix"));
    }
    let fields = std::mem::take(&mut request.sampling);
    if request.best_of.is_some_and(|best_of| best_of != fields.n.unwrap_or(1)) {
        return Err(ApiError::unsupported("best_of", "`best_of` other than `n` is not supported; leave it out"));
    }
    let logprobs = whole("logprobs", request.logprobs, 0, MAX_LOGPROBS)?.map(|count| count as usize);
    let mut valid = valid(fields, &[], &request.unknown, rules)?;
    valid.overrides.logprobs = logprobs;
    valid.overrides.prompt_logprobs = logprobs.filter(|_| request.echo == Some(true));
    Ok(valid)
}

/// Fields of OpenAI's API that would change the answer and are not there yet.
fn refuse_unsupported_chat(request: &ChatRequest) -> Result<(), ApiError> {
    let word = |value: &Option<serde_json::Value>, words: &[&str]| {
        value.as_ref().is_none_or(|value| words.iter().any(|word| value == word))
    };
    let empty = |value: &Option<serde_json::Value>| {
        value.as_ref().is_none_or(|value| value.as_array().is_some_and(Vec::is_empty))
    };
    let text_only = request.modalities.as_ref().is_none_or(|modalities| *modalities == serde_json::json!(["text"]));
    let honoured = [
        ("functions", empty(&request.functions)),
        ("function_call", word(&request.function_call, &["none", "auto"])),
        ("verbosity", word(&request.verbosity, &["medium"])),
        ("modalities", text_only),
        ("audio", request.audio.is_none()),
        ("web_search_options", request.web_search_options.is_none()),
    ];
    honoured.iter().find(|(_, is_honoured)| !is_honoured).map_or(Ok(()), |(field, _)| Err(not_supported(field)))
}

fn not_supported(field: &str) -> ApiError {
    ApiError::unsupported(field, format!("`{field}` is not supported by this server yet; leave it out"))
}

/// Checks the fields that all requests share.
fn valid(
    fields: SamplingFields,
    without_effect: &[(&str, bool)],
    unknown: &Unknown,
    rules: Rules,
) -> Result<Valid, ApiError> {
    refuse_unknown(unknown, rules.strict)?;
    let n = whole("n", fields.n, 1, rules.limits.n as i64)?.unwrap_or(1);
    let stop = fields.stop.clone().map(Stop::into_vec).unwrap_or_default();
    at_most("stop", stop.len(), rules.limits.stop, "max-stop")?;
    if stop.iter().any(String::is_empty) {
        return Err(ApiError::invalid_param("stop", "a stop string is empty; it would end every answer at once"));
    }
    let stream = fields.stream == Some(true);
    if fields.stream_options.is_some() && !stream {
        return Err(ApiError::invalid_param("stream_options", "`stream_options` is only for `stream: true`"));
    }
    let options = fields.stream_options.clone().unwrap_or_default();
    let without_usage = options.include_usage != Some(true);
    let for_streams = [
        ("stream_options.continuous_usage_stats", options.continuous_usage_stats == Some(true) && without_usage),
        ("timings_per_token", fields.timings_per_token == Some(true) && !stream),
        ("return_progress", fields.return_progress == Some(true) && !stream),
    ];
    refuse_decisive(unknown)?;
    let without_effect = without_effect.iter().chain(&for_streams).filter(|(_, given)| *given);
    let ignored = without_effect.map(|(name, _)| (*name).to_owned()).chain(unknown.keys().cloned()).collect();
    let every = options.continuous_usage_stats == Some(true);
    let streaming = Streaming {
        usage: options.include_usage == Some(true),
        usage_in_every_chunk: every && options.include_usage == Some(true),
        timings_per_token: fields.timings_per_token == Some(true),
        progress: fields.return_progress == Some(true),
    };
    let cache = match (fields.cache_prompt, &fields.cache_salt) {
        (Some(false), _) => Cache::Alone(uuid::Uuid::new_v4()),
        (_, Some(salt)) if salt.is_empty() => {
            return Err(ApiError::invalid_param(
                "cache_salt",
                "`cache_salt` is empty; leave it out to share the cache",
            ));
        }
        (_, Some(salt)) => Cache::Salted(salt.clone()),
        _ => Cache::All,
    };
    Ok(Valid {
        n: n as usize,
        stop,
        include_stop: fields.include_stop_str_in_output == Some(true),
        skip_special: fields.skip_special_tokens != Some(false),
        add_special: fields.add_special_tokens,
        stream: stream.then_some(streaming),
        cache,
        party: fields.user.as_deref().map_or(0, party_of),
        tier: fields.service_tier.map(tier).unwrap_or_default(),
        timeout: timeout(fields.timeout, rules.timeout)?,
        grammar: structured::grammar(&fields)?,
        ignored,
        overrides: overrides(&fields, rules)?,
    })
}

/// Fields of llama-server that are not OpenAI's and decide what an answer may be: an answer that ignores them would be
/// wrong, not only different.
fn refuse_decisive(unknown: &Unknown) -> Result<(), ApiError> {
    const DECISIVE: &[&str] = &["lora", "grammar_triggers"];
    DECISIVE.iter().find(|name| unknown.contains_key(**name)).map_or(Ok(()), |name| Err(not_supported(name)))
}

/// With `--strict-params`, refuses fields that nobody knows.
pub fn refuse_unknown(unknown: &Unknown, strict: bool) -> Result<(), ApiError> {
    match unknown.keys().next().filter(|_| strict) {
        None => Ok(()),
        Some(name) => {
            let message = format!("`{name}` is not a field of this request; this server runs with --strict-params");
            Err(ApiError::unknown_param(name, message))
        }
    }
}

fn overrides(fields: &SamplingFields, rules: Rules) -> Result<SamplingOverrides, ApiError> {
    let vocab_size = rules.tokenizer.vocab_size();
    let max_tokens = whole("max_tokens", fields.max_tokens, 1, i64::MAX)?;
    let stop_token_ids = fields.stop_token_ids.as_deref().map(|ids| {
        at_most("stop_token_ids", ids.len(), rules.limits.stop, "max-stop")?;
        token_ids("stop_token_ids", ids, vocab_size)
    });
    Ok(SamplingOverrides {
        temperature: number(TEMPERATURE, fields.temperature)?,
        dynatemp_range: number(ranges::DYNATEMP_RANGE, fields.dynatemp_range)?,
        dynatemp_exponent: number(ranges::DYNATEMP_EXPONENT, fields.dynatemp_exponent)?,
        top_p: number(ranges::TOP_P, fields.top_p)?,
        top_k: whole("top_k", fields.top_k, -1, i64::MAX)?.map(|k| usize::try_from(k).unwrap_or(0)),
        min_p: number(ranges::MIN_P, fields.min_p)?,
        typical_p: number(ranges::TYPICAL_P, fields.typical_p)?,
        min_keep: whole("min_keep", fields.min_keep, 0, i64::from(i32::MAX))?.map(|least| least as usize),
        top_n_sigma: number(ranges::TOP_N_SIGMA, fields.top_n_sigma)?,
        xtc_probability: number(ranges::XTC_PROBABILITY, fields.xtc_probability)?,
        xtc_threshold: number(ranges::XTC_THRESHOLD, fields.xtc_threshold)?,
        mirostat: whole("mirostat", fields.mirostat, 0, 2)?.map(|version| version as u8),
        mirostat_tau: number(ranges::MIROSTAT_TAU, fields.mirostat_tau)?,
        mirostat_eta: number(ranges::MIROSTAT_ETA, fields.mirostat_eta)?,
        repetition_penalty: number(ranges::REPETITION_PENALTY.named("repeat_penalty"), fields.repeat_penalty)?,
        repeat_last_n: whole("repeat_last_n", fields.repeat_last_n, -1, i64::from(i32::MAX))?.map(|n| n as i32),
        presence_penalty: number(ranges::PRESENCE_PENALTY, fields.presence_penalty)?,
        frequency_penalty: number(ranges::FREQUENCY_PENALTY, fields.frequency_penalty)?,
        dry_multiplier: number(ranges::DRY_MULTIPLIER, fields.dry_multiplier)?,
        dry_base: number(ranges::DRY_BASE, fields.dry_base)?,
        dry_allowed_length: whole("dry_allowed_length", fields.dry_allowed_length, 0, i64::from(i32::MAX))?
            .map(|length| length as usize),
        dry_penalty_last_n: whole("dry_penalty_last_n", fields.dry_penalty_last_n, -1, i64::from(i32::MAX))?
            .map(|n| n as i32),
        dry_sequence_breakers: dry_sequence_breakers(fields, rules)?,
        samplers: fields.samplers.as_ref().map(samplers).transpose()?,
        repetition_detection: repetition_detection(fields)?,
        logit_bias: fields.logit_bias.as_ref().map(|bias| logit_bias(bias, rules)).transpose()?,
        // Drawn here, since without one the command line's would be taken.
        seed: fields.seed.map(|seed| match seed {
            Seed::Fixed(seed) => seed,
            Seed::Random => uuid::Uuid::new_v4().as_u64_pair().0,
        }),
        max_tokens: max_tokens.map(|tokens| tokens as usize),
        min_tokens: whole("min_tokens", fields.min_tokens, 0, max_tokens.unwrap_or(i64::MAX))?.map(|n| n as usize),
        stop_token_ids: stop_token_ids.transpose()?,
        ignore_eos: fields.ignore_eos,
        logprobs: None,
        prompt_logprobs: None,
    })
}

/// The tokens of the breakers, where DRY is used: to find them takes a look at the whole vocabulary.
fn dry_sequence_breakers(fields: &SamplingFields, rules: Rules) -> Result<Option<Arc<SequenceBreakers>>, ApiError> {
    const FIELD: &str = "dry_sequence_breakers";
    let texts = fields.dry_sequence_breakers.as_deref();
    at_most(FIELD, texts.unwrap_or_default().len(), rules.limits.stop, "max-stop")?;
    for text in texts.unwrap_or_default() {
        let count = text.chars().count();
        if !(1..=MAX_BREAKER_CHARS).contains(&count) {
            let message = format!("a text of `{FIELD}` has {count} characters; it must have 1 to {MAX_BREAKER_CHARS}");
            return Err(ApiError::invalid_param(FIELD, message));
        }
    }
    let multiplier = fields.dry_multiplier.or(rules.defaults.dry_multiplier.map(f64::from));
    if multiplier.unwrap_or_default() == 0.0 {
        return Ok(None);
    }
    Ok(Some(rules.breakers.tokens(texts)?))
}

fn samplers(samplers: &Samplers) -> Result<Vec<SamplerKind>, ApiError> {
    let order = match samplers {
        Samplers::Names(names) => SamplerKind::from_names(names.iter().map(String::as_str)),
        Samplers::Letters(letters) => SamplerKind::from_letters(letters),
    };
    order.map_err(|error| ApiError::invalid_param("samplers", format!("`samplers`: {error}")))
}

fn repetition_detection(fields: &SamplingFields) -> Result<Option<RepetitionDetection>, ApiError> {
    let Some(asked) = fields.repetition_detection else { return Ok(None) };
    let count = |field, value| whole(field, value, 0, i64::from(i32::MAX)).map(|count| count.unwrap_or(0) as usize);
    let rule = RepetitionDetection {
        max_pattern_size: count("repetition_detection.max_pattern_size", asked.max_pattern_size)?,
        min_pattern_size: count("repetition_detection.min_pattern_size", asked.min_pattern_size)?,
        min_count: match asked.min_count {
            None => RepetitionDetection::USUAL_COUNT,
            given => count("repetition_detection.min_count", given)?,
        },
    };
    rule.validate()?;
    Ok(Some(rule))
}

/// The biases by token id: OpenAI's object or llama-server's pairs.
fn logit_bias(bias: &LogitBias, rules: Rules) -> Result<Vec<(u32, f32)>, ApiError> {
    const FIELD: &str = "logit_bias";
    let vocab_size = rules.tokenizer.vocab_size();
    let amount = |bias: f64| number(Range::from_to(FIELD, -100.0, 100.0), Some(bias)).map(Option::unwrap_or_default);
    let biases = match bias {
        LogitBias::Map(map) => {
            let entry = |(id, bias): (&String, &f64)| {
                let id = id.parse().map_err(|_| {
                    ApiError::invalid_param(FIELD, format!("a key of `{FIELD}` is {id:?}; it must be a token id"))
                })?;
                Ok((token_id(FIELD, TokenId(id), vocab_size)?, amount(*bias)?))
            };
            map.iter().map(entry).collect::<Result<Vec<_>, ApiError>>()?
        }
        LogitBias::Pairs(pairs) => {
            at_most(FIELD, pairs.len(), rules.limits.logit_bias, "max-logit-bias")?;
            let mut biases = Vec::new();
            for (target, bias) in pairs {
                let bias = match bias {
                    Bias::Add(bias) => amount(*bias)?,
                    Bias::Allowed(false) => f32::NEG_INFINITY,
                    Bias::Allowed(true) => {
                        let message = format!("a bias of `{FIELD}` is true; it must be a number, or false to ban");
                        return Err(ApiError::invalid_param(FIELD, message));
                    }
                };
                match target {
                    BiasTarget::TokenId(id) => biases.push((token_id(FIELD, *id, vocab_size)?, bias)),
                    BiasTarget::Text(text) => {
                        let options = EncodeOptions { add_special: false, parse_special: true };
                        biases.extend(rules.tokenizer.encode(text, options)?.into_iter().map(|id| (id, bias)));
                    }
                }
            }
            biases
        }
    };
    at_most(FIELD, biases.len(), rules.limits.logit_bias, "max-logit-bias")?;
    Ok(biases)
}

/// Token ids of the vocabulary.
pub fn token_ids(field: &str, ids: &[TokenId], vocab_size: usize) -> Result<Vec<u32>, ApiError> {
    ids.iter().map(|id| token_id(field, *id, vocab_size)).collect()
}

fn token_id(field: &str, id: TokenId, vocab_size: usize) -> Result<u32, ApiError> {
    let known = u32::try_from(id.0).ok().filter(|id| (*id as usize) < vocab_size);
    known.ok_or_else(|| {
        let message = format!("`{field}` has token {}; the vocabulary has tokens 0 to {}", id.0, vocab_size - 1);
        ApiError::invalid_param(field, message)
    })
}

/// Refuses more than `limit` items; `setting` changes the limit.
pub fn at_most(field: &str, count: usize, limit: usize, setting: &str) -> Result<(), ApiError> {
    if count <= limit {
        return Ok(());
    }
    let message = format!("`{field}` has {count} items; this server takes at most {limit} (its setting {setting})");
    Err(ApiError::invalid_param(field, message))
}

fn number(range: Range, value: Option<f64>) -> Result<Option<f32>, ApiError> {
    match value {
        Some(value) if !range.contains(value as f32) => {
            let field = range.field;
            Err(ApiError::invalid_param(field, format!("`{field}` is {value}; it must be {range}")))
        }
        value => Ok(value.map(|value| value as f32)),
    }
}

pub fn whole(field: &'static str, value: Option<i64>, min: i64, max: i64) -> Result<Option<i64>, ApiError> {
    match value {
        Some(value) if value < min || value > max => {
            let range = if max == i64::MAX { format!("at least {min}") } else { format!("from {min} to {max}") };
            Err(ApiError::invalid_param(field, format!("`{field}` is {value}; it must be {range}")))
        }
        value => Ok(value),
    }
}
