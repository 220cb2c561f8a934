//! What a refused request gets: OpenAI's error object, and the responses that carry it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToResponse, ToSchema};

/// The body of every response that is not a success, except `/health` while the model loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorResponse {
    /// What went wrong.
    pub error: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The rule that was broken, the value that broke it, and what to do.
    pub message: String,
    /// Whose mistake it was.
    #[serde(rename = "type")]
    pub kind: ErrorType,
    /// The request field to blame, for example `messages[0].role`; null if there is none.
    #[schema(required)]
    pub param: Option<String>,
    /// A word for programs, for example `context_length_exceeded`; null if there is none.
    #[schema(required)]
    pub code: Option<String>,
}

/// Whose mistake an error was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The request is wrong; sending it again will not help.
    InvalidRequestError,
    /// The API key is missing or wrong.
    AuthenticationError,
    /// The server is not to be asked by that host name.
    PermissionError,
    /// Too many requests; one may be sent again later.
    RateLimitError,
    /// The server failed.
    ServerError,
    /// The server loads, drains or has stopped.
    UnavailableError,
}

/// The request is wrong: not JSON, a value outside its range, a prompt that does not fit, or a parameter that this
/// server does not support.
#[derive(ToResponse)]
#[response(examples(
    ("out_of_range" = (summary = "A value outside its range", value = json!({ "error": {
        "message": "`temperature` is 5; it must be from 0 to 2",
        "type": "invalid_request_error", "param": "temperature", "code": "invalid_value",
    } }))),
    ("too_long" = (summary = "A prompt that does not fit", value = json!({ "error": {
        "message": "the prompt has 9001 tokens, but the maximum context is 8192 tokens, one of which is needed for the \
                    answer; shorten the prompt",
        "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
    } }))),
    ("unsupported" = (summary = "A parameter that is not supported", value = json!({ "error": {
        "message": "`tools` is not supported by this server yet; leave it out",
        "type": "invalid_request_error", "param": "tools", "code": "unsupported_parameter",
    } }))),
))]
pub(crate) struct BadRequest(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The server was started with API keys, and the request has none of them.
#[derive(ToResponse)]
#[response(
    headers(("www-authenticate" = String, description = "`Bearer`. `Basic` for /docs and /openapi.json, so that a \
        browser asks its user for the key.")),
    example = json!({ "error": {
        "message": "this server needs an API key; send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`",
        "type": "authentication_error", "param": null, "code": "invalid_api_key",
    } }),
)]
pub(crate) struct Unauthorized(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The server was asked by a host name that is not its own. Only a server on loopback minds.
#[derive(ToResponse)]
#[response(example = json!({ "error": {
    "message": "the host \"evil.example\" is not a name of this server; --allowed-hosts adds names",
    "type": "permission_error", "param": null, "code": null,
} }))]
pub(crate) struct Forbidden(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// There is no such model.
#[derive(ToResponse)]
#[response(example = json!({ "error": {
    "message": "the model \"gpt-4o\" does not exist here; this server has \"SmolLM2-135M-Instruct\"",
    "type": "invalid_request_error", "param": "model", "code": "model_not_found",
} }))]
pub(crate) struct ModelNotFound(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The body is larger than the server takes.
#[derive(ToResponse)]
#[response(example = json!({ "error": {
    "message": "the request body is larger than 33554432 bytes; the setting max-body is the limit",
    "type": "invalid_request_error", "param": null, "code": "body_too_large",
} }))]
pub(crate) struct PayloadTooLarge(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The body stopped before its end. Nothing of the request was done.
#[derive(ToResponse)]
#[response(example = json!({ "error": {
    "message": "the request body stopped before its end, and nothing more came for 60s",
    "type": "invalid_request_error", "param": null, "code": null,
} }))]
pub(crate) struct RequestTimeout(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// A web page sent a body that is not said to be JSON.
#[derive(ToResponse)]
#[response(example = json!({ "error": {
    "message": "a web page must send its request with `Content-Type: application/json`",
    "type": "invalid_request_error", "param": null, "code": null,
} }))]
pub(crate) struct UnsupportedMediaType(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The queue is full. Nothing of the request was done.
#[derive(ToResponse)]
#[response(
    headers(("retry-after" = u64, description = "Seconds after which to try again.")),
    example = json!({ "error": {
        "message": "the server already holds 288 requests, running and queued; try again in about 3 s",
        "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded",
    } }),
)]
pub(crate) struct TooManyRequests(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The server failed; its log has more.
#[derive(ToResponse)]
#[response(example = json!({ "error": {
    "message": "the model's logits contain NaN or infinity; its weights or its input are damaged",
    "type": "server_error", "param": null, "code": null,
} }))]
pub(crate) struct InternalError(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// The server cannot answer now: it loads its model, shuts down, its engine has stopped, or it reads as many bodies as
/// it has memory for.
#[derive(ToResponse)]
#[response(
    headers(("retry-after" = u64, description = "Seconds after which to try again.")),
    example = json!({ "error": {
        "message": "Loading model",
        "type": "unavailable_error", "param": null, "code": null,
    } }),
)]
pub(crate) struct Unavailable(#[expect(dead_code, reason = "only its type is read")] ErrorResponse);

/// What every route may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its attributes are read")]
pub(crate) enum HostErrors {
    #[response(status = 403)]
    Forbidden(#[ref_response] Forbidden),
}

/// What every route that needs a key may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its attributes are read")]
pub(crate) enum KeyErrors {
    #[response(status = 401)]
    Unauthorized(#[ref_response] Unauthorized),
    #[response(status = 403)]
    Forbidden(#[ref_response] Forbidden),
}

/// What every route that takes a body may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its attributes are read")]
pub(crate) enum BodyErrors {
    #[response(status = 400)]
    BadRequest(#[ref_response] BadRequest),
    #[response(status = 401)]
    Unauthorized(#[ref_response] Unauthorized),
    #[response(status = 403)]
    Forbidden(#[ref_response] Forbidden),
    #[response(status = 404)]
    ModelNotFound(#[ref_response] ModelNotFound),
    #[response(status = 408)]
    RequestTimeout(#[ref_response] RequestTimeout),
    #[response(status = 413)]
    PayloadTooLarge(#[ref_response] PayloadTooLarge),
    #[response(status = 415)]
    UnsupportedMediaType(#[ref_response] UnsupportedMediaType),
    #[response(status = 500)]
    InternalError(#[ref_response] InternalError),
    #[response(status = 503)]
    Unavailable(#[ref_response] Unavailable),
}
