//! Schemas that no derive can state, written as the JSON that they become.

use serde_json::Value;
use utoipa::openapi::{RefOr, Schema};

/// The schema that this JSON is.
pub(crate) fn schema(json: Value) -> RefOr<Schema> {
    serde_json::from_value(json).expect("the schemas in this crate are valid, as its tests show by making them all")
}

/// Gives a type the schema that this JSON is, as a component of the document.
macro_rules! schema_of {
    ($type:ty, $json:tt) => {
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::schema::schema(serde_json::json!($json))
            }
        }

        impl utoipa::ToSchema for $type {}
    };
}
pub(crate) use schema_of;
