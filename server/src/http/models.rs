//! `GET /v1/models` and `GET /v1/models/{model}`.

use actix_web::web::{Data, Json, Path};
use taper_openapi::models::{ModelCard, ModelList};
use taper_openapi::object::ListName;

use super::error::ApiError;
use super::service::Server;

/// All models; one.
pub async fn list(server: Data<Server>) -> Result<Json<ModelList>, ApiError> {
    Ok(Json(ModelList { object: ListName::Name, data: vec![server.loaded()?.card.clone()] }))
}

/// One model. Its name may have slashes.
pub async fn one(server: Data<Server>, name: Path<String>) -> Result<Json<ModelCard>, ApiError> {
    let service = server.loaded()?;
    service.check_model(Some(name.as_str()))?;
    Ok(Json(service.card.clone()))
}
