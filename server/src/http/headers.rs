//! The headers that tell a browser what not to do with an answer.

use actix_web::Error;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::middleware::Next;

/// What our pages load, all of it from here. Swagger UI 5 needs no more: it has no inline scripts or styles, and its
/// icons are `data:` images (tried with 5.35 in Chromium, sending a request and authorizing included).
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Middleware: adds the headers.
pub(super) async fn strict(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    Ok(on_every_answer(next.call(req).await, add)?.map_into_boxed_body())
}

fn add(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
}

/// Changes the headers of a response, and of what will become one.
pub(super) fn on_every_answer<B>(
    answer: Result<ServiceResponse<B>, Error>,
    change: impl Fn(&mut HeaderMap) + 'static,
) -> Result<ServiceResponse<B>, Error> {
    match answer {
        Ok(mut res) => {
            change(res.headers_mut());
            Ok(res)
        }
        Err(mut error) => {
            error.add_response_mapper(move |mut res| {
                change(res.headers_mut());
                res
            });
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::ContentType;
    use actix_web::middleware::from_fn;
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpResponse, web};

    use super::*;
    use crate::http::error::ApiError;

    async fn headers_of(path: &str) -> HeaderMap {
        let asset = || async { HttpResponse::Ok().insert_header((CACHE_CONTROL, "max-age=60")).body("x") };
        let page = || async { HttpResponse::Ok().content_type(ContentType::html()).body("<p>") };
        let failing = |_: ServiceRequest, _: Next<BoxBody>| async {
            Err::<ServiceResponse, _>(Error::from(ApiError::invalid("no")))
        };
        let app = App::new()
            .route("/asset", web::to(asset))
            .route("/page", web::to(page))
            .service(web::resource("/fails").wrap(from_fn(failing)))
            .wrap(from_fn(strict));
        let app = test::init_service(app).await;
        match test::try_call_service(&app, TestRequest::get().uri(path).to_request()).await {
            Ok(response) => response.headers().clone(),
            Err(error) => error.error_response().headers().clone(),
        }
    }

    #[tokio::test]
    async fn every_answer_has_them() {
        for path in ["/asset", "/page", "/fails", "/nowhere"] {
            let headers = headers_of(path).await;
            assert_eq!(headers.get(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff", "{path}");
            assert_eq!(headers.get(REFERRER_POLICY).unwrap(), "no-referrer", "{path}");
            let cache = if path == "/asset" { "max-age=60" } else { "no-store" };
            assert_eq!(headers.get(CACHE_CONTROL).unwrap(), cache, "{path}");
        }
    }

    #[tokio::test]
    async fn only_pages_have_a_policy() {
        let page = headers_of("/page").await;
        assert!(page.get(CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap().starts_with("default-src 'none';"));
        assert_eq!(page.get(X_FRAME_OPTIONS).unwrap(), "DENY");
        assert!(!headers_of("/asset").await.contains_key(CONTENT_SECURITY_POLICY));
    }
}
