//! What is served and what it is doing, as llama-server tells it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is served, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Props {
    /// What a request is given that asks for nothing.
    pub default_generation_settings: DefaultGenerationSettings,
    /// Requests that can generate at once.
    pub total_slots: u64,
    /// Name of the model's file or directory, without the path to it.
    pub model_path: String,
    /// The name to put into a request's `model`.
    pub model_alias: String,
    /// The model's chat template, in Jinja; empty if it has none.
    pub chat_template: String,
    /// Text of the token that begins a sequence; empty if there is none.
    pub bos_token: String,
    /// Text of the token that ends a sequence; empty if there is none.
    pub eos_token: String,
    /// Version and commit.
    pub build_info: String,
    /// What the model reads besides text.
    pub modalities: Modalities,
}

/// What a request is given that asks for nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefaultGenerationSettings {
    /// Tokens of the longest sequence, prompt and answer together.
    pub n_ctx: u64,
    /// The sampling parameters.
    pub params: DefaultParams,
}

/// Sampling parameters after the checkpoint's and the command line's; their meaning is that of the request fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefaultParams {
    /// Divides the logits.
    pub temperature: f64,
    /// How far the temperature may go from that.
    pub dynatemp_range: f64,
    /// Power of the entropy by which it goes.
    pub dynatemp_exponent: f64,
    /// Most likely tokens that are kept; 0 all.
    pub top_k: u64,
    /// Probability that the kept tokens hold together.
    pub top_p: f64,
    /// Share of the highest probability that a token needs.
    pub min_p: f64,
    /// Probability that the kept tokens of typical surprise hold together.
    pub typical_p: f64,
    /// Standard deviations below the largest logit that are kept; all unless above 0.
    pub top_n_sigma: f64,
    /// How likely XTC is used on a token.
    pub xtc_probability: f64,
    /// Probability from which a token is a top choice to XTC.
    pub xtc_threshold: f64,
    /// Version of Mirostat; 0 none.
    pub mirostat: u64,
    /// Bits of surprise that Mirostat aims at.
    pub mirostat_tau: f64,
    /// How fast Mirostat follows.
    pub mirostat_eta: f64,
    /// Factor on the logits of recent tokens.
    pub repeat_penalty: f64,
    /// Tokens that `repeat_penalty` looks at; -1 all.
    #[schema(minimum = -1)]
    pub repeat_last_n: i64,
    /// Taken off the logit of each token that occurs in the answer.
    pub presence_penalty: f64,
    /// Taken off the logit of each token once per occurrence.
    pub frequency_penalty: f64,
    /// What DRY takes off a logit.
    pub dry_multiplier: f64,
    /// Factor on that for each further token of a repetition.
    pub dry_base: f64,
    /// Tokens that may repeat themselves at no cost.
    pub dry_allowed_length: u64,
    /// Tokens that DRY looks at; -1 all.
    #[schema(minimum = -1)]
    pub dry_penalty_last_n: i64,
    /// Texts that no repetition goes across.
    pub dry_sequence_breakers: Vec<String>,
    /// The samplers in their order.
    pub samplers: Vec<String>,
    /// The seed; null if one is drawn for each request.
    #[schema(required)]
    pub seed: Option<u64>,
    /// Tokens to generate at most; -1 as many as there is room for.
    #[schema(minimum = -1)]
    pub max_tokens: i64,
    /// The same, under llama-server's name.
    #[schema(minimum = -1)]
    pub n_predict: i64,
    /// Whether the model's end tokens are tokens like any other.
    pub ignore_eos: bool,
    /// Strings that end an answer.
    pub stop: Vec<String>,
}

/// What the model reads besides text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Modalities {
    /// Whether it reads images.
    pub vision: bool,
    /// Whether it hears.
    pub audio: bool,
}

/// A place for one request that generates. Nothing of its text is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Slot {
    /// Number of the slot, from 0.
    pub id: u64,
    /// Number of the request in it; -1 if there is none.
    #[schema(minimum = -1)]
    pub id_task: i64,
    /// Tokens of the longest sequence that it takes.
    pub n_ctx: u64,
    /// Whether a draft of the answer is guessed ahead.
    pub speculative: bool,
    /// Whether a request is in it.
    pub is_processing: bool,
    /// Tokens of the request's prompt.
    pub n_prompt_tokens: u64,
    /// How many of them have been run.
    pub n_prompt_tokens_processed: u64,
    /// How many of them were cached.
    pub n_prompt_tokens_cache: u64,
    /// Tokens generated so far.
    pub n_decoded: u64,
    /// The same once more, where llama-server has it: an array of one object.
    #[schema(min_items = 1, max_items = 1)]
    pub next_token: Vec<NextToken>,
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextToken {
    /// Whether there is more to generate.
    pub has_next_token: bool,
    /// Tokens generated so far.
    pub n_decoded: u64,
    /// Tokens that may still be generated; -1 if that is not limited.
    #[schema(minimum = -1)]
    pub n_remain: i64,
}

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{Props, Slot};
    use crate::error::{KeyErrors, Unavailable};

    /// Describe what is served (llama-server)
    #[utoipa::path(
        get,
        path = "/props",
        operation_id = "props",
        tag = "Status",
        security(("bearer" = [])),
        responses(
            (status = 200, description = "Model, template and defaults.", body = Props, example = json!({
                "default_generation_settings": {
                    "n_ctx": 8192,
                    "params": {
                        "temperature": 1.0,
                        "dynatemp_range": 0.0,
                        "dynatemp_exponent": 1.0,
                        "top_k": 0,
                        "top_p": 1.0,
                        "min_p": 0.0,
                        "typical_p": 1.0,
                        "top_n_sigma": -1.0,
                        "xtc_probability": 0.0,
                        "xtc_threshold": 0.1,
                        "mirostat": 0,
                        "mirostat_tau": 5.0,
                        "mirostat_eta": 0.1,
                        "repeat_penalty": 1.0,
                        "repeat_last_n": 64,
                        "presence_penalty": 0.0,
                        "frequency_penalty": 0.0,
                        "dry_multiplier": 0.0,
                        "dry_base": 1.75,
                        "dry_allowed_length": 2,
                        "dry_penalty_last_n": 64,
                        "dry_sequence_breakers": ["\n", ":", "\"", "*"],
                        "samplers": [
                            "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
                        ],
                        "seed": null,
                        "max_tokens": -1,
                        "n_predict": -1,
                        "ignore_eos": false,
                        "stop": [],
                    },
                },
                "total_slots": 8,
                "model_path": "SmolLM2-135M-Instruct.Q4_1.gguf",
                "model_alias": "SmolLM2-135M-Instruct",
                "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
                "bos_token": "<|im_start|>",
                "eos_token": "<|im_end|>",
                "build_info": "0.1.0-728a31f",
                "modalities": { "vision": false, "audio": false },
            })),
            KeyErrors,
            (status = 503, response = Unavailable),
        ),
    )]
    fn props() {}

    /// Show the requests that generate (llama-server)
    #[utoipa::path(
        get,
        path = "/slots",
        operation_id = "slots",
        tag = "Status",
        security(("bearer" = [])),
        responses(
            (status = 200, description = "One entry for each slot.", body = Vec<Slot>, example = json!([{
                "id": 0,
                "id_task": 17,
                "n_ctx": 8192,
                "speculative": false,
                "is_processing": true,
                "n_prompt_tokens": 512,
                "n_prompt_tokens_processed": 480,
                "n_prompt_tokens_cache": 32,
                "n_decoded": 20,
                "next_token": [{ "has_next_token": true, "n_decoded": 20, "n_remain": 44 }],
            }])),
            KeyErrors,
            (status = 503, response = Unavailable),
        ),
    )]
    fn slots() {}
}
