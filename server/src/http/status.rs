//! How the server is: `/health`, `/live`, `/ready`, `/version`, `/props`, `/slots`, `/metrics`.

use actix_web::HttpResponse;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::{Data, Json, Query};
use taper_openapi::props::{Props, Slot};
use taper_openapi::status::{Health, HealthError, HealthErrorBody, UnavailableError, Version};

use super::error::ApiError;
use super::service::Server;

/// Version and commit of this build.
pub fn build_info() -> String {
    match option_env!("TAPER_COMMIT") {
        Some(commit) => format!("{}-{commit}", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Whether the model is loaded and the engine ends its steps; as llama-server.
pub async fn health(server: Data<Server>) -> HttpResponse {
    let state = server.service().map_err(|error| error.message);
    match state.and_then(|service| service.pulse.check(&service.engine, server.settings.stall_timeout)) {
        Ok(()) => HttpResponse::Ok().json(Health::default()),
        Err(message) => HttpResponse::ServiceUnavailable()
            .json(HealthError { error: HealthErrorBody { code: 503, message, kind: UnavailableError::default() } }),
    }
}

/// Whether the process answers at all.
pub async fn live() -> Json<Health> {
    Json(Health::default())
}

/// Whether tokens are being made and more requests are welcome.
pub async fn ready(server: Data<Server>) -> Result<Json<Health>, ApiError> {
    let service = server.service()?;
    let proof = service.pulse.prove(&service.engine, server.settings.stall_timeout);
    proof.await.map_err(ApiError::unavailable)?;
    Ok(Json(Health::default()))
}

pub async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").to_owned(), build_info: build_info() })
}

pub async fn props(server: Data<Server>) -> Result<Json<Props>, ApiError> {
    Ok(Json(server.loaded()?.props.clone()))
}

/// llama-server's query of `/slots`.
#[derive(Debug, Default, serde::Deserialize)]
pub struct SlotsQuery {
    /// Answer 503 if no slot is free.
    fail_on_no_slot: Option<String>,
}

pub async fn slots(server: Data<Server>, query: Query<SlotsQuery>) -> Result<Json<Vec<Slot>>, ApiError> {
    let service = server.loaded()?;
    let slots = service.slots.list(service.num_slots, service.max_model_len);
    if query.fail_on_no_slot.as_deref().is_some_and(|value| value != "0") && slots.iter().all(|s| s.is_processing) {
        return Err(ApiError::unavailable("no slot is free"));
    }
    Ok(Json(slots))
}

/// In Prometheus' text format.
pub async fn metrics(server: Data<Server>) -> HttpResponse {
    let stats = server.loaded().map(|service| service.engine.stats()).unwrap_or_default();
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        .body(server.metrics.text(&stats))
}
