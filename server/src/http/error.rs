//! What a client is told when its request fails: OpenAI's error object, with the status that belongs to it.
//!
//! The only place where a mistake becomes an HTTP status.

use std::fmt;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use taper_openapi::error::{ErrorBody, ErrorResponse, ErrorType};

use crate::engine::SubmitError;
use crate::engine::sampling::ParamError;
use crate::text::{TemplateError, TokenizerError};

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    pub kind: ErrorType,
    /// OpenAI's `code`: what programs compare.
    pub code: Option<&'static str>,
    /// The field that is wrong, as a path: `messages[2].role`.
    pub param: Option<String>,
    pub message: String,
    /// Seconds after which a new attempt makes sense.
    pub retry_after: Option<u64>,
}

const INVALID: ErrorType = ErrorType::InvalidRequestError;

impl ApiError {
    fn new(status: StatusCode, kind: ErrorType, message: impl Into<String>) -> Self {
        Self { status, kind, code: None, param: None, message: message.into(), retry_after: None }
    }

    /// 400: the request breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, message)
    }

    /// 400: the field `param` breaks a rule.
    pub fn invalid_param(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), code: Some("invalid_value"), ..Self::invalid(message) }
    }

    /// 400: a field that OpenAI knows and this server does not honour.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), code: Some("unsupported_parameter"), ..Self::invalid(message) }
    }

    /// 400: a field that nobody knows.
    pub fn unknown_param(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), code: Some("unknown_parameter"), ..Self::invalid(message) }
    }

    /// 401.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::UNAUTHORIZED, ErrorType::AuthenticationError, message);
        Self { code: Some("invalid_api_key"), ..error }
    }

    /// 403: asked for by a name that is not this server's.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorType::PermissionError, message)
    }

    /// 404: no such route.
    pub fn not_found(path: &str, docs: &str) -> Self {
        let message = format!("there is no route {path}; the API is described at {docs}");
        Self { code: Some("not_found"), ..Self::new(StatusCode::NOT_FOUND, INVALID, message) }
    }

    /// 404: no such model.
    pub fn model_not_found(asked: &str, served: &str) -> Self {
        let message = format!("the model {asked:?} does not exist here; this server has {served:?}");
        let error = Self::new(StatusCode::NOT_FOUND, INVALID, message);
        Self { code: Some("model_not_found"), param: Some("model".into()), ..error }
    }

    /// 408: the body began and did not go on.
    pub fn body_too_slow(waited: Duration) -> Self {
        let message = format!("the request body stopped before its end, and nothing more came for {waited:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, message)
    }

    /// 413.
    pub fn body_too_large(limit: usize) -> Self {
        let message = format!("the request body is larger than {limit} bytes; the setting max-body is the limit");
        Self { code: Some("body_too_large"), ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, message) }
    }

    /// 429: no place in the queue.
    pub fn queue_full(whose: &str, limit: usize, retry_after: u64) -> Self {
        let message =
            format!("{whose} already has {limit} requests, running and queued; try again in about {retry_after} s");
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorType::RateLimitError, message);
        Self { code: Some("rate_limit_exceeded"), retry_after: Some(retry_after), ..error }
    }

    /// 408: the request's own deadline has passed before there was an answer.
    pub fn too_late() -> Self {
        let message =
            "the request's `timeout`, or this server's setting request-timeout, passed before its answer began";
        Self { code: Some("timeout"), ..Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, message) }
    }

    /// 503: not yet, or no longer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorType::UnavailableError, message);
        Self { retry_after: Some(1), ..error }
    }

    /// 500: our fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorType::ServerError, message)
    }

    /// The error object as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(&self.body()).expect("its fields are text")
    }

    /// The error object, for a body or an event of a stream.
    pub fn body(&self) -> ErrorResponse {
        let (message, param, code) = (self.message.clone(), self.param.clone(), self.code.map(str::to_owned));
        ErrorResponse { error: ErrorBody { message, kind: self.kind, param, code } }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if let Some(seconds) = self.retry_after {
            response.insert_header((RETRY_AFTER, seconds));
        }
        if self.code == Some("timeout") {
            // OpenAI's clients send a request again that got 408; this one was given up.
            response.insert_header(("x-should-retry", "false"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        response.json(self.body())
    }
}

impl From<ParamError> for ApiError {
    fn from(error: ParamError) -> Self {
        Self::invalid_param(error.field, error.to_string())
    }
}

impl From<TokenizerError> for ApiError {
    fn from(error: TokenizerError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        Self::invalid_param("messages", error.to_string())
    }
}

impl ApiError {
    /// A refusal of the engine. `retry_after` is for the full queue, `prompt` the field that the prompt came from.
    pub fn of_submit(error: SubmitError, prompt: &str, retry_after: u64) -> Self {
        match error {
            SubmitError::QueueFull { limit } => Self::queue_full("the server", limit, retry_after),
            SubmitError::ShareTaken { limit } => {
                Self::queue_full("this user or key has its share of the queue: it", limit, retry_after)
            }
            SubmitError::PromptTooLong { .. } | SubmitError::DoesNotFit { .. } => {
                Self { code: Some("context_length_exceeded"), ..Self::invalid_param(prompt, error.to_string()) }
            }
            SubmitError::EmptyPrompt | SubmitError::UnknownToken { .. } => {
                Self::invalid_param(prompt, error.to_string())
            }
            SubmitError::Params(error) => error.into(),
            SubmitError::Stopped => Self::unavailable("the server is shutting down"),
        }
    }
}
