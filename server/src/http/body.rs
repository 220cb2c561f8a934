//! Reads a request body: bounded, JSON of the right shape, and not from a web page that was not asked.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN};
use actix_web::web::{BytesMut, Payload};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::StreamExt;
use serde::Serialize;
use taper_openapi::{Body, parse};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::ApiError;
use super::service::Server;

/// Header that names the request fields which changed nothing.
pub const IGNORED: &str = "x-ignored";

/// Room for the bodies of all requests that are being read, so that many large ones cannot exhaust the memory.
#[derive(Debug, Clone)]
pub struct BodyMemory {
    free: Arc<Semaphore>,
    limit: usize,
}

/// Room that a body takes, given back when dropped.
struct BodyRoom(Option<OwnedSemaphorePermit>);

impl BodyMemory {
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(limit)), limit }
    }

    fn take(&self, room: &mut BodyRoom, bytes: usize) -> Result<(), ApiError> {
        let full = || {
            let limit = self.limit;
            ApiError::unavailable(format!("request bodies of {limit} bytes are being read already; try again soon"))
        };
        let bytes = u32::try_from(bytes).map_err(|_| full())?;
        let more = Arc::clone(&self.free).try_acquire_many_owned(bytes).map_err(|_| full())?;
        match &mut room.0 {
            Some(taken) => taken.merge(more),
            None => room.0 = Some(more),
        }
        Ok(())
    }
}

/// A body as it came.
pub struct RawBody {
    bytes: BytesMut,
    /// Held until the body has become token ids.
    _room: BodyRoom,
}

impl RawBody {
    /// The body as `T`. Takes its time with a large one: to be called off the async threads.
    pub fn parse<T: Body>(&self) -> Result<T, ApiError> {
        parse(&self.bytes).map_err(|error| ApiError {
            param: error.param().map(str::to_owned),
            code: error.param().map(|_| "invalid_value"),
            ..ApiError::invalid(error.to_string())
        })
    }
}

/// All of the body. A client that stops in the middle must not hold its connection for ever.
pub async fn receive(server: &Server, request: &HttpRequest, mut payload: Payload) -> Result<RawBody, ApiError> {
    check_content_type(request)?;
    check_encoding(request)?;
    let settings = &server.settings;
    let limit = settings.limits.body_bytes;
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(ApiError::body_too_large(limit));
    }
    let (mut body, mut room) = (BytesMut::new(), BodyRoom(None));
    loop {
        let Ok(next) = timeout(settings.slow_client_timeout, payload.next()).await else {
            return Err(ApiError::body_too_slow(settings.slow_client_timeout));
        };
        let Some(next) = next else { return Ok(RawBody { bytes: body, _room: room }) };
        let bytes = next.map_err(|error| ApiError::invalid(format!("the request body could not be read: {error}")))?;
        if body.len() + bytes.len() > limit {
            return Err(ApiError::body_too_large(limit));
        }
        server.body_memory.take(&mut room, bytes.len())?;
        body.extend_from_slice(&bytes);
    }
}

/// A successful answer, with the names of the fields that changed nothing.
pub fn answer(body: &impl Serialize, ignored: Option<String>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    if let Some(ignored) = ignored {
        response.insert_header((IGNORED, ignored));
    }
    response.json(body)
}

/// Compressed bodies are not unpacked: a small one may hold a large one.
fn check_encoding(request: &HttpRequest) -> Result<(), ApiError> {
    match request.headers().get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let message = format!("`Content-Encoding` is {encoding:?}; send the body as it is");
            Err(ApiError { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..ApiError::invalid(message) })
        }
        _ => Ok(()),
    }
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
pub fn ignored_header<'a>(ignored: impl IntoIterator<Item = &'a String>) -> Option<String> {
    const LONGEST: usize = 1024;
    let shown = ignored.into_iter().map(|name| name.escape_default().to_string().replace(',', "\\u{2c}"));
    let mut list = shown.collect::<Vec<_>>().join(", ");
    list.truncate(LONGEST);
    (!list.is_empty()).then_some(list)
}
