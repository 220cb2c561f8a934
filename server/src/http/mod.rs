//! The HTTP side: OpenAI's API over the engine, and the routes around it.
//!
//! The way of a request: `body.rs` reads it, `request.rs` and `prompt.rs` check it and make token ids of it,
//! `generation.rs` has the engine answer and makes text of that, `route.rs` makes chunks of it, `sse.rs` sends them. Who may ask is
//! decided before, in `layer.rs`; every mistake becomes a status in `error.rs`.

mod access_log;
mod answer;
mod bind;
mod body;
mod chat;
mod completions;
mod cors;
pub mod dialect;
mod docs;
mod error;
mod forwarded;
mod generation;
mod headers;
mod hosts;
mod keys;
pub mod layer;
mod logprobs;
mod metrics;
mod models;
mod prefix;
mod prompt;
mod pulse;
mod refusals;
mod request;
mod request_id;
mod route;
pub mod serve;
pub mod service;
mod slots;
mod sse;
pub mod status;
mod structured;
mod text;
mod tools;

use actix_web::web::{self, ServiceConfig};

/// The routes, below whatever prefix they are mounted at.
pub fn routes(config: &mut ServiceConfig) {
    let at = web::resource::<&str>;
    config
        .service(at("/v1/chat/completions").post(route::respond::<chat::Chat>))
        .service(at("/v1/completions").post(route::respond::<completions::Text>))
        .service(at("/v1/models").get(models::list))
        .service(at("/v1/models/{model:.+}").get(models::one))
        .service(at("/tokenize").post(text::tokenize))
        .service(at("/detokenize").post(text::detokenize))
        .service(at("/apply-template").post(text::apply_template))
        .service(at("/props").get(status::props))
        .service(at("/slots").get(status::slots))
        .service(at("/health").get(status::health).route(web::head().to(status::health)))
        .service(at("/v1/health").get(status::health).route(web::head().to(status::health)))
        .service(at("/live").get(status::live).route(web::head().to(status::live)))
        .service(at("/ready").get(status::ready).route(web::head().to(status::ready)))
        .service(at("/version").get(status::version))
        .service(at("/metrics").get(status::metrics))
        .service(at("/openapi.json").get(docs::document))
        .service(at("/").get(docs::redirect))
        .service(at("/docs").get(docs::redirect))
        .service(docs::swagger_ui());
}
