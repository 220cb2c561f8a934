//! Which models are served, and what they are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::{ListName, ModelName};

/// All models that can be asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelList {
    /// What this object is.
    pub object: ListName,
    /// The models.
    pub data: Vec<ModelCard>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelCard {
    /// The name to put into a request's `model`.
    pub id: String,
    /// What this object is.
    pub object: ModelName,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// Who serves it: always `taper`.
    pub owned_by: String,
    /// Tokens of the longest sequence, prompt and answer together (vLLM).
    pub max_model_len: u64,
    /// What the model is.
    pub meta: ModelMeta,
}

/// What a model is; the names are llama-server's where it has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelMeta {
    /// Tokens in its vocabulary.
    pub n_vocab: u64,
    /// Tokens of the longest sequence that it is served with; as `max_model_len`.
    pub n_ctx: u64,
    /// Tokens of the longest sequence that it was trained for.
    pub n_ctx_train: u64,
    /// Width of its hidden states.
    pub n_embd: u64,
    /// Number of its parameters.
    pub n_params: u64,
    /// Bytes of its weights.
    pub size: u64,
    /// Format that most of its weights are in, for example `Q4_K_M` or `BF16` (Taper).
    pub quantization: String,
    /// Family that it belongs to, for example `qwen3` (Taper).
    pub family: String,
}

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{ModelCard, ModelList};
    use crate::error::{KeyErrors, ModelNotFound, Unavailable};

    /// List the models
    #[utoipa::path(
        get,
        path = "/v1/models",
        operation_id = "listModels",
        tag = "Models",
        security(("bearer" = [])),
        responses(
            (status = 200, description = "The models.", body = ModelList, example = json!({
                "object": "list",
                "data": [{
                    "id": "SmolLM2-135M-Instruct",
                    "object": "model",
                    "created": 1735689600,
                    "owned_by": "taper",
                    "max_model_len": 8192,
                    "meta": {
                        "n_vocab": 49152,
                        "n_ctx": 8192,
                        "n_ctx_train": 8192,
                        "n_embd": 576,
                        "n_params": 134515008,
                        "size": 91640832,
                        "quantization": "Q4_1",
                        "family": "llama",
                    },
                }],
            })),
            KeyErrors,
            (status = 503, response = Unavailable),
        ),
    )]
    fn models() {}

    /// Describe one model
    #[utoipa::path(
        get,
        path = "/v1/models/{model}",
        operation_id = "retrieveModel",
        tag = "Models",
        security(("bearer" = [])),
        params(("model" = String, Path, min_length = 1, description = "Id or alias of the model. It may have slashes, \
            which may be sent as they are.")),
        responses(
            (status = 200, description = "The model.", body = ModelCard, example = json!({
                "id": "SmolLM2-135M-Instruct",
                "object": "model",
                "created": 1735689600,
                "owned_by": "taper",
                "max_model_len": 8192,
                "meta": {
                    "n_vocab": 49152,
                    "n_ctx": 8192,
                    "n_ctx_train": 8192,
                    "n_embd": 576,
                    "n_params": 134515008,
                    "size": 91640832,
                    "quantization": "Q4_1",
                    "family": "llama",
                },
            })),
            KeyErrors,
            (status = 404, response = ModelNotFound),
            (status = 503, response = Unavailable),
        ),
    )]
    fn model() {}
}
