//! How the server is: whether it lives, generates and wants requests, and which build it is.

use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToSchema};

/// The server is well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`; a server that is not well answers with an error.
    pub status: HealthStatus,
}

/// The one state that is not an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    #[default]
    Ok,
}

/// The server is not well, in llama-server's shape: unlike elsewhere, `code` is the HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthError {
    /// Why.
    pub error: HealthErrorBody,
}

/// Why the server is not well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthErrorBody {
    /// The HTTP status: 503.
    #[schema(minimum = 500, maximum = 599)]
    pub code: u16,
    /// `Loading model` while the model loads, as clients of llama-server expect; else what is wrong.
    pub message: String,
    /// Always `unavailable_error`.
    #[serde(rename = "type")]
    pub kind: UnavailableError,
}

/// The type of every such error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnavailableError {
    #[default]
    UnavailableError,
}

/// What both paths of `/health` answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its attributes are read")]
enum HealthResponses {
    /// It does.
    #[response(status = 200, example = json!({ "status": "ok" }))]
    Ok(Health),
    /// It does not: it loads its model, shuts down, or its engine has stopped.
    #[response(status = 503, example = json!({
        "error": { "code": 503, "message": "Loading model", "type": "unavailable_error" },
    }))]
    NotOk(HealthError),
}

/// Which build runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Version of Taper (vLLM).
    pub version: String,
    /// Version and commit, as in `/props`.
    pub build_info: String,
}

pub(crate) mod paths {
    #![expect(dead_code, reason = "the functions stand for the server's; only their attributes are read")]

    use super::{Health, HealthResponses, Version};
    use crate::error::{HostErrors, KeyErrors, Unavailable};

    /// Tell whether the server generates
    ///
    /// Needs no API key.
    #[utoipa::path(
        get,
        path = "/health",
        operation_id = "health",
        tag = "Status",
        security(()),
        responses(
            HealthResponses,
            HostErrors,
        ),
    )]
    fn health() {}

    /// Tell whether the server generates (llama-server's second path)
    ///
    /// Needs no API key.
    #[utoipa::path(
        get,
        path = "/v1/health",
        operation_id = "healthV1",
        tag = "Status",
        security(()),
        responses(
            HealthResponses,
            HostErrors,
        ),
    )]
    fn health_v1() {}

    /// Tell whether the process lives
    ///
    /// True from the first moment, also while the model loads; a supervisor restarts what does not answer. Needs no API
    /// key.
    #[utoipa::path(
        get,
        path = "/live",
        operation_id = "live",
        tag = "Status",
        security(()),
        responses(
            (status = 200, description = "It does.", body = Health, example = json!({ "status": "ok" })),
            HostErrors,
        ),
    )]
    fn live() {}

    /// Tell whether requests are welcome
    ///
    /// No while the model loads, while the server drains, and after a failure; a proxy sends requests elsewhere. Needs
    /// no API key.
    #[utoipa::path(
        get,
        path = "/ready",
        operation_id = "ready",
        tag = "Status",
        security(()),
        responses(
            (status = 200, description = "They are.", body = Health, example = json!({ "status": "ok" })),
            HostErrors,
            (status = 503, response = Unavailable),
        ),
    )]
    fn ready() {}

    /// Tell the version
    #[utoipa::path(
        get,
        path = "/version",
        operation_id = "version",
        tag = "Status",
        security(("bearer" = [])),
        responses(
            (status = 200, description = "The version.", body = Version, example = json!({
                "version": "0.1.0", "build_info": "0.1.0-728a31f",
            })),
            KeyErrors,
        ),
    )]
    fn version() {}

    /// Count what the server does
    ///
    /// In the text format of OpenMetrics, which Prometheus reads.
    #[utoipa::path(
        get,
        path = "/metrics",
        operation_id = "metrics",
        tag = "Status",
        security(("bearer" = [])),
        responses(
            (
                status = 200, description = "Counters and gauges, one a line.", body = String,
                content_type = "application/openmetrics-text",
                example = json!("# TYPE taper_requests_running gauge\ntaper_requests_running 3\n# EOF\n"),
            ),
            KeyErrors,
        ),
    )]
    fn metrics() {}

    /// Get this document
    #[utoipa::path(
        get,
        path = "/openapi.json",
        operation_id = "openapi",
        tag = "Status",
        security(("bearer" = [])),
        responses(
            (
                status = 200, description = "The OpenAPI document of this API.", body = Object,
                content_type = "application/json", example = json!({ "openapi": "3.1.0" }),
            ),
            KeyErrors,
        ),
    )]
    fn openapi() {}
}
