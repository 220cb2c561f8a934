//! Request fields that chat and text completions share: which model, how tokens are chosen, when to stop, how to
//! answer.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::structured::{ResponseFormat, StructuredOutputs};
use crate::values::{LogitBias, Samplers, Seed, Stop, TokenId};

/// Fields of every request that generates. All are optional, and `null` stands for absent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
pub struct SamplingFields {
    /// Id or alias of the model, as in `GET /v1/models`. Default: the served model.
    pub model: Option<String>,
    /// Tokens to generate at most; llama-server's name `n_predict` is accepted too, but not both at once. Default: all
    /// that context and cache have room for.
    #[serde(alias = "n_predict")]
    #[schema(minimum = 1, maximum = 9223372036854775807_i64)]
    pub max_tokens: Option<i64>,
    /// Tokens to generate before a stop token may be chosen; at most `max_tokens` (vLLM).
    #[schema(minimum = 0, maximum = 9223372036854775807_i64, default = 0)]
    pub min_tokens: Option<i64>,
    /// Number of answers, each sampled on its own from the same prompt.
    #[schema(minimum = 1, maximum = 128, default = 1)]
    pub n: Option<i64>,

    /// Divides the logits: higher is more varied, 0 takes the most likely token. Default: the model's, else 1.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// How far the temperature may go from `temperature`: down where the model is sure, up where it is not, by the entropy
    /// of what is left of its distribution; not below 0 (llama-server). Default: the command line's, else 0 (off).
    #[schema(minimum = 0, maximum = 10)]
    pub dynatemp_range: Option<f64>,
    /// The power to which that entropy, as a share of the largest possible one, is raised (llama-server). Default: the
    /// command line's, else 1.
    #[schema(minimum = 0, maximum = 10)]
    pub dynatemp_exponent: Option<f64>,
    /// Keeps the most likely tokens that together hold this probability. Default: the model's, else 1 (off).
    #[schema(exclusive_minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// Keeps this many of the most likely tokens; 0 and -1 keep all (llama-server, vLLM). Default: the model's, else 0.
    #[schema(minimum = -1, maximum = 9223372036854775807_i64)]
    pub top_k: Option<i64>,
    /// Keeps tokens at least this many times as likely as the most likely one (llama-server, vLLM). Default: the
    /// model's, else 0 (off).
    #[schema(minimum = 0, maximum = 1)]
    pub min_p: Option<f64>,
    /// Keeps tokens of typical surprise that together hold this probability (llama-server). Default: the model's,
    /// else 1 (off).
    #[schema(exclusive_minimum = 0, maximum = 1)]
    pub typical_p: Option<f64>,
    /// Tokens that `top_p`, `min_p`, `typical_p` and XTC keep in any case (llama-server).
    #[schema(minimum = 0, maximum = 2147483647, default = 0)]
    pub min_keep: Option<i64>,
    /// Keeps tokens whose logit is at most this many standard deviations below the largest; 0 and -1 keep all
    /// (llama-server). Default: the command line's, else -1.
    #[schema(minimum = -1, maximum = 100)]
    pub top_n_sigma: Option<f64>,
    /// How likely XTC is used on a token: of those at least `xtc_threshold` probable it drops all but the least likely
    /// (llama-server). Default: the command line's, else 0 (off).
    #[schema(minimum = 0, maximum = 1)]
    pub xtc_probability: Option<f64>,
    /// The probability from which a token is a top choice to XTC; above 0.5 there can be but one, and nothing is dropped
    /// (llama-server). Default: the command line's, else 0.1.
    #[schema(minimum = 0, maximum = 1)]
    pub xtc_threshold: Option<f64>,
    /// Chooses tokens by Mirostat, 1 or 2, which keeps their surprise near `mirostat_tau`; 0: by `samplers`. Of those,
    /// Mirostat leaves the temperature only, and at temperature 0 has no effect (llama-server). Default: the command
    /// line's, else 0.
    #[schema(minimum = 0, maximum = 2)]
    pub mirostat: Option<i64>,
    /// The surprise, in bits, that Mirostat aims at (llama-server). Default: the command line's, else 5.
    #[schema(minimum = 0, maximum = 100)]
    pub mirostat_tau: Option<f64>,
    /// How fast Mirostat follows (llama-server). Default: the command line's, else 0.1.
    #[schema(minimum = 0, maximum = 1)]
    pub mirostat_eta: Option<f64>,
    /// Divides positive and multiplies negative logits of recent tokens (llama-server; vLLM's name
    /// `repetition_penalty` is accepted too, but not both at once). Default: the model's, else 1 (off).
    #[serde(alias = "repetition_penalty")]
    #[schema(minimum = 0.01, maximum = 100)]
    pub repeat_penalty: Option<f64>,
    /// Number of last tokens, prompt included, that `repeat_penalty` looks at; -1 all, 0 none (llama-server). Default:
    /// the model's, else 64.
    #[schema(minimum = -1, maximum = 2147483647)]
    pub repeat_last_n: Option<i64>,
    /// Taken off the logit of each token that occurs in the answer.
    #[schema(minimum = -2, maximum = 2, default = 0)]
    pub presence_penalty: Option<f64>,
    /// Taken off the logit of each token once per occurrence in the answer.
    #[schema(minimum = -2, maximum = 2, default = 0)]
    pub frequency_penalty: Option<f64>,
    /// Makes a token less likely the longer a repetition it goes on with: what DRY takes off its logit where the repetition
    /// is one token longer than allowed (llama-server). Default: the command line's, else 0 (off).
    #[schema(minimum = 0, maximum = 100)]
    pub dry_multiplier: Option<f64>,
    /// Factor on that for each further token (llama-server). Default: the command line's, else 1.75.
    #[schema(minimum = 1, maximum = 100)]
    pub dry_base: Option<f64>,
    /// Tokens that may repeat themselves at no cost (llama-server). Default: the command line's, else 2.
    #[schema(minimum = 0, maximum = 2147483647)]
    pub dry_allowed_length: Option<i64>,
    /// Number of last tokens, prompt included, that DRY looks at; -1 all, 0 none (llama-server). Default: the command
    /// line's, else 64.
    #[schema(minimum = -1, maximum = 2147483647)]
    pub dry_penalty_last_n: Option<i64>,
    /// Texts that no repetition goes across, of 1 to 40 characters; at most 32, unless the server's setting --max-stop says
    /// otherwise (llama-server). Default: the command line's, else line end, `:`, `"` and `*`.
    #[schema(max_items = 32)]
    pub dry_sequence_breakers: Option<Vec<String>>,
    /// The samplers in their order (llama-server). Default: the command line's, else `edskypmxt`.
    pub samplers: Option<Samplers>,
    /// Added to the logits of the given tokens: -100 as good as bans, 100 as good as forces.
    pub logit_bias: Option<LogitBias>,
    /// Seed of the random stream: same seed, same request, same text. Default: drawn at random.
    pub seed: Option<Seed>,

    /// Text that ends the answer, and is not part of it unless `include_stop_str_in_output` says so.
    pub stop: Option<Stop>,
    /// Tokens that end the answer besides the model's own (vLLM). At most 32, unless the server's setting --max-stop
    /// says otherwise.
    #[schema(max_items = 32)]
    pub stop_token_ids: Option<Vec<TokenId>>,
    /// Whether the stop string that ended the answer is part of it (vLLM).
    #[schema(default = false)]
    pub include_stop_str_in_output: Option<bool>,
    /// Whether the model's end tokens are tokens like any other (llama-server, vLLM).
    #[schema(default = false)]
    pub ignore_eos: Option<bool>,
    /// Ends an answer that repeats itself, with `finish_reason: "repetition"` (vLLM). Default: the command line's, else off.
    pub repetition_detection: Option<RepetitionDetection>,
    /// Whether control tokens such as `<|im_end|>` are left out of the text (vLLM).
    #[schema(default = true)]
    pub skip_special_tokens: Option<bool>,
    /// Whether the tokenizer puts its own tokens, such as a beginning of sequence, before the prompt (vLLM). Default:
    /// yes for text, no for a chat, whose template writes them.
    pub add_special_tokens: Option<bool>,

    /// The form of the answer. At most one of this and the five fields that follow.
    pub response_format: Option<ResponseFormat>,
    /// The same in vLLM's words.
    pub structured_outputs: Option<StructuredOutputs>,
    /// A JSON schema that the answer must follow (llama-server; vLLM's older name `guided_json` is accepted too).
    #[serde(alias = "guided_json")]
    #[schema(value_type = Option<Object>)]
    pub json_schema: Option<Value>,
    /// A grammar that the answer must follow: GBNF, or Lark after a line `%llguidance {}` (llama-server; vLLM's older
    /// name `guided_grammar` is accepted too).
    #[serde(alias = "guided_grammar")]
    pub grammar: Option<String>,
    /// A regular expression that must match the whole answer (vLLM's older name for `structured_outputs.regex`).
    pub guided_regex: Option<String>,
    /// Texts of which the answer must be one (vLLM's older name for `structured_outputs.choice`).
    pub guided_choice: Option<Vec<String>>,

    /// Whether to answer piece by piece, as server-sent events.
    #[schema(default = false)]
    pub stream: Option<bool>,
    /// What a stream holds besides the text; only with `stream`.
    pub stream_options: Option<StreamOptions>,
    /// Whether each chunk of a stream has `timings`, not only the last one (llama-server).
    #[schema(default = false)]
    pub timings_per_token: Option<bool>,
    /// Whether a stream tells how much of the prompt is done, in `prompt_progress` (llama-server).
    #[schema(default = false)]
    pub return_progress: Option<bool>,

    /// Whether to use what is cached of earlier prompts (llama-server). The text is the same either way.
    #[schema(default = true)]
    pub cache_prompt: Option<bool>,
    /// Shares cached prompts only with requests of the same salt, so that nobody learns by timing what others asked
    /// (vLLM).
    #[schema(min_length = 1)]
    pub cache_salt: Option<String>,
    /// Name of the end user. Users take turns: who has had less of the server's time is served first. Where the server has
    /// several keys, the keys do.
    pub user: Option<String>,
    /// How urgent it is. `priority` comes before all others, `flex` after them.
    pub service_tier: Option<ServiceTier>,
    /// Seconds that the answer may take, the wait for its turn included. Then it ends as with `max_tokens`, or with 408 if it
    /// has not begun. The server's setting request-timeout is the upper limit.
    #[schema(exclusive_minimum = 0)]
    pub timeout: Option<f64>,
}

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceTier {
    /// As `default`.
    Auto,
    /// In turn.
    Default,
    /// When no others wait.
    Flex,
    /// As `default`.
    Scale,
    /// Before all others.
    Priority,
}

/// What counts as repeating itself: the same tokens, several times in a row, at the end of the answer (vLLM).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepetitionDetection {
    /// Tokens of the longest pattern that is looked for; 0 switches the detection off.
    #[schema(minimum = 0, maximum = 4096, default = 0)]
    pub max_pattern_size: Option<i64>,
    /// Tokens of the shortest; 0 stands for 1. At most `max_pattern_size`.
    #[schema(minimum = 0, maximum = 4096, default = 0)]
    pub min_pattern_size: Option<i64>,
    /// How often in a row the pattern must stand.
    #[schema(minimum = 2, maximum = 2147483647, default = 4)]
    pub min_count: Option<i64>,
}

/// What a stream holds besides the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Whether a last chunk, without choices, has the `usage` of the request.
    #[schema(default = false)]
    pub include_usage: Option<bool>,
    /// Whether every chunk has the `usage` up to it (vLLM).
    #[schema(default = false)]
    pub continuous_usage_stats: Option<bool>,
}
