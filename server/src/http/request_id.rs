//! One name for a request, in its logs and in its response: the client's, or a new one.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage};
use tracing::{Instrument, Span};
use uuid::Uuid;

use super::headers::on_every_answer;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The name of a request: 1 to 128 printable ASCII characters without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let valid = given.filter(|id| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
        Self(valid.map_or_else(|| Uuid::new_v4().to_string().into(), Into::into))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Middleware: puts the [`RequestId`] into the extensions, the response and a span around handler and body.
pub(super) async fn name_request(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = RequestId::of(req.headers());
    let span = tracing::info_span!("request", id = id.as_str());
    req.extensions_mut().insert(id.clone());
    let answer = next.call(req).instrument(span.clone()).await;
    let answer = answer.map(|res| res.map_body(|_, body| BoxBody::new(InSpan { body: body.boxed(), span })));
    on_every_answer(answer, move |headers| {
        headers.insert(REQUEST_ID, HeaderValue::from_str(id.as_str()).expect("checked, or a UUID"));
    })
}

/// A body that is made inside the request's span.
struct InSpan {
    body: BoxBody,
    span: Span,
}

impl MessageBody for InSpan {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        let _entered = this.span.enter();
        Pin::new(&mut this.body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use actix_web::middleware::from_fn;
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpResponse, web};
    use futures_util::stream;

    use super::*;
    use crate::http::access_log::logged_lines;
    use crate::http::error::ApiError;

    async fn id_for(given: &str) -> String {
        let stub = |id: web::ReqData<RequestId>| async move { Err::<String, _>(ApiError::invalid(id.to_string())) };
        let app = App::new().default_service(web::to(stub)).wrap(from_fn(name_request));
        let request = TestRequest::get()
            .insert_header((REQUEST_ID, HeaderValue::from_bytes(given.as_bytes()).unwrap()))
            .to_request();
        let response = test::call_service(&test::init_service(app).await, request).await;
        let id = response.headers().get(REQUEST_ID).unwrap().to_str().unwrap().to_owned();
        let body = test::read_body(response).await;
        assert!(String::from_utf8_lossy(&body).contains(&id), "the handler has the same id");
        id
    }

    #[tokio::test]
    async fn a_client_s_id_is_kept_and_a_bad_one_replaced() {
        assert_eq!(id_for("req_42/a").await, "req_42/a");
        for bad in ["", "a b", "t\u{e4}g", &"x".repeat(129)] {
            assert_eq!(id_for(bad).await.len(), 36, "{bad:?}");
        }
        assert_ne!(id_for("").await, id_for("").await);
    }

    #[tokio::test]
    async fn handler_and_body_run_in_the_span() {
        let stub = || async {
            tracing::info!("in handler");
            HttpResponse::Ok().streaming(stream::poll_fn(|_| {
                tracing::info!("in body");
                Poll::Ready(None::<Result<Bytes, Error>>)
            }))
        };
        let lines = logged_lines(async {
            let app = App::new().default_service(web::to(stub)).wrap(from_fn(name_request));
            let request = TestRequest::get().insert_header((REQUEST_ID, "abc")).to_request();
            let response = test::call_service(&test::init_service(app).await, request).await;
            test::read_body(response).await;
        })
        .await;
        for line in ["in handler", "in body"] {
            let found = lines.iter().find(|found| found.contains(line)).unwrap();
            assert!(found.contains("request{id=\"abc\"}"), "{found}");
        }
    }
}
