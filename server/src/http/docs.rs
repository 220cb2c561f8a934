//! The API's own description: `/openapi.json`, and Swagger UI at `/docs/`.

use actix_web::HttpRequest;
use actix_web::web::{Data, Json, Redirect};
use taper_openapi::document_at;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::layer::Access;

/// The document, with the address under which it was asked for.
pub async fn document(access: Data<Access>, request: HttpRequest) -> Json<OpenApi> {
    Json(document_at(&access.outer_prefix(&request)))
}

/// The page's files lie beside it, so its address must end in a slash.
pub async fn redirect(access: Data<Access>, request: HttpRequest) -> Redirect {
    Redirect::to(format!("{}/docs/", access.outer_prefix(&request)))
}

/// Swagger UI. It asks for the document by a relative address, so that any path may lie before it.
pub fn swagger_ui() -> SwaggerUi {
    // The list of types below the routes begins folded up: it is many times longer than the routes.
    let config =
        Config::from("../openapi.json").use_base_layout().default_models_expand_depth(0).display_request_duration(true);
    SwaggerUi::new("/docs/{_:.*}").config(config)
}
