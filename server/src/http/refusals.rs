//! Refusals that are not ours, in our shape: actix answers an unknown route, a wrong method, a body that is too large
//! or an origin that may not ask with plain text or with nothing at all. `error.rs` has the shape, this the occasion.

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, web};

use super::error::ApiError;
use super::layer::Access;

/// Middleware: gives every refusal a body that clients of the API understand. Status and headers stay, so a 405 keeps
/// the `Allow` that actix makes from the methods of the route.
pub(super) async fn as_api_errors(
    access: web::Data<Access>,
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let res = next.call(req).await?.map_into_boxed_body();
    let Some(error) = refusal(&res, &access) else { return Ok(res) };
    Ok(res.map_body(|head, _| {
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        BoxBody::new(error.json())
    }))
}

/// What actix meant. `None`: an answer, or an error of ours.
fn refusal(res: &ServiceResponse, access: &Access) -> Option<ApiError> {
    let status = res.status();
    let empty = matches!(res.response().body().size(), BodySize::None | BodySize::Sized(0));
    let cause = res.response().error();
    let foreign = cause.map_or(empty, |cause| cause.as_error::<ApiError>().is_none());
    if !foreign || !(status.is_client_error() || status.is_server_error()) {
        return None;
    }
    let path = res.request().path();
    Some(match status {
        StatusCode::NOT_FOUND => ApiError::not_found(path, &format!("{}/docs/", access.outer_prefix(res.request()))),
        StatusCode::METHOD_NOT_ALLOWED => {
            let allow = res.headers().get(ALLOW).and_then(|allow| allow.to_str().ok()).unwrap_or("another method");
            let message = format!("{path} does not answer {}; use {allow}", res.request().method());
            ApiError { status, ..ApiError::invalid(message) }
        }
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::body_too_large(access.body_limit),
        // What failed inside is for the log, not for the client.
        _ if status.is_server_error() => ApiError { status, ..ApiError::internal("the server failed to answer") },
        _ => {
            let reason = status.canonical_reason().unwrap_or("the request was refused");
            let message = cause.map_or_else(|| reason.to_owned(), ToString::to_string);
            ApiError { status, ..ApiError::invalid(message) }
        }
    })
}

#[cfg(test)]
mod tests {
    use actix_web::middleware::from_fn;
    use actix_web::test::{self, TestRequest};
    use actix_web::{App, HttpResponse, error};
    use serde_json::Value;

    use super::*;
    use crate::http::layer::access_with;

    /// Status, `Allow` and error object for a request.
    async fn ask(request: TestRequest) -> (u16, String, Value) {
        let limit = |settings: &mut crate::settings::ServerSettings| settings.limits.body_bytes = 7;
        let models = web::resource("/models")
            .get(|| async { HttpResponse::Ok().finish() })
            .post(|| async { HttpResponse::Ok().finish() });
        let app = App::new()
            .app_data(access_with(limit))
            .app_data(web::PayloadConfig::new(7))
            .service(models)
            .route("/body", web::post().to(|_: web::Bytes| async { HttpResponse::Ok().finish() }))
            .route("/json", web::post().to(|_: web::Json<u8>| async { HttpResponse::Ok().finish() }))
            .route("/item/{id}", web::get().to(|_: web::Path<u8>| async { HttpResponse::Ok().finish() }))
            .route("/secret", web::to(|| async { Err::<String, _>(error::ErrorInternalServerError("/etc/x")) }))
            .route("/ours", web::to(|| async { Err::<String, _>(ApiError::unsupported("n", "no")) }))
            .wrap(from_fn(as_api_errors));
        let response = test::call_service(&test::init_service(app).await, request.to_request()).await;
        let status = response.status().as_u16();
        let allow = response.headers().get(ALLOW).map(|allow| allow.to_str().unwrap().to_owned());
        let body: Value = test::read_body_json(response).await;
        (status, allow.unwrap_or_default(), body["error"].clone())
    }

    #[tokio::test]
    async fn an_unknown_route_is_a_404_in_our_shape() {
        for uri in ["/nowhere", "/item/x", "/item/%ff"] {
            let (status, _, error) = ask(TestRequest::get().uri(uri)).await;
            assert_eq!((status, error["code"].as_str()), (404, Some("not_found")), "{uri}");
        }
    }

    #[tokio::test]
    async fn a_wrong_method_is_told_the_right_ones() {
        let (status, allow, error) = ask(TestRequest::delete().uri("/models")).await;
        assert_eq!(status, 405);
        for method in ["GET", "POST"] {
            assert!(allow.contains(method) && error["message"].as_str().unwrap().contains(method), "{allow} {error}");
        }
    }

    #[tokio::test]
    async fn refused_bodies_are_errors_in_our_shape() {
        let (status, _, error) = ask(TestRequest::post().uri("/body").set_payload("12345678")).await;
        assert_eq!((status, error["code"].as_str()), (413, Some("body_too_large")));
        assert!(error["message"].as_str().unwrap().contains("than 7 bytes"), "{error}");
        let json = TestRequest::post().uri("/json").insert_header((CONTENT_TYPE, "application/json"));
        let (status, _, error) = ask(json.set_payload("{")).await;
        assert_eq!((status, error["type"].as_str()), (400, Some("invalid_request_error")));
    }

    #[tokio::test]
    async fn our_errors_stay_and_inner_causes_are_not_told() {
        let (status, _, error) = ask(TestRequest::get().uri("/ours")).await;
        assert_eq!((status, error["code"].as_str()), (400, Some("unsupported_parameter")));
        let (status, _, error) = ask(TestRequest::get().uri("/secret")).await;
        assert_eq!((status, error["type"].as_str()), (500, Some("server_error")));
        assert!(!error.to_string().contains("/etc/x"), "{error}");
    }
}
