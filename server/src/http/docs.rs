//! The API's own description: `/openapi.json`, and Swagger UI at `/docs/`.

use actix_web::HttpRequest;
use actix_web::web::Json;
use taper_openapi::document_at;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// The document, with the address under which it was asked for.
pub async fn document(request: HttpRequest) -> Json<OpenApi> {
    Json(document_at(&super::prefix(&request)))
}

/// Swagger UI. It asks for the document by a relative address, so that any path may lie before it.
pub fn swagger_ui() -> SwaggerUi {
    SwaggerUi::new("/docs/{_:.*}").config(Config::from("../openapi.json"))
}
