//! Reads a request body: bounded, JSON of the right shape, and not from a web page that was not asked.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, ORIGIN};
use actix_web::web::Payload;
use taper_openapi::{Body, parse};

use super::error::ApiError;

/// Header that names the request fields which changed nothing.
pub const IGNORED: &str = "x-ignored";

/// The body as `T`.
pub async fn read<T: Body>(request: &HttpRequest, payload: Payload, limit: usize) -> Result<T, ApiError> {
    check_content_type(request)?;
    let bytes = match payload.to_bytes_limited(limit).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(ApiError::invalid(format!("the request body could not be read: {error}"))),
        Err(_) => return Err(ApiError::body_too_large(limit)),
    };
    parse(&bytes).map_err(|error| ApiError {
        param: error.param().map(str::to_owned),
        code: error.param().map(|_| "invalid_value"),
        ..ApiError::invalid(error.to_string())
    })
}

/// A browser sends forms and plain text across origins without asking first. Programs may omit the type.
fn check_content_type(request: &HttpRequest) -> Result<(), ApiError> {
    let is_json = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("application/json"));
    if is_json || !request.headers().contains_key(ORIGIN) {
        return Ok(());
    }
    let message = "a web page must send its request with `Content-Type: application/json`";
    Err(ApiError { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..ApiError::invalid(message) })
}

/// The value of [`IGNORED`], if there is anything to name. Names that no header may hold are shown by their bytes.
pub fn ignored_header(ignored: &[String]) -> Option<String> {
    const LONGEST: usize = 1024;
    let shown = ignored.iter().map(|name| name.escape_default().to_string().replace(',', "\\u{2c}"));
    let mut list = shown.collect::<Vec<_>>().join(", ");
    list.truncate(LONGEST);
    (!list.is_empty()).then_some(list)
}
