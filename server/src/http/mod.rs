//! The HTTP side: OpenAI's API over the engine, and the routes around it.
//!
//! The way of a request: `body.rs` reads it, `request.rs` and `prompt.rs` check it and make token ids of it,
//! `generation.rs` has the engine answer and makes text of that, `sse.rs` sends it piece by piece. Who may ask is
//! decided before, in `layer.rs`; every mistake becomes a status in `error.rs`.

mod body;
mod chat;
mod completions;
mod docs;
pub mod error;
mod generation;
mod metrics;
mod models;
mod prompt;
mod pulse;
mod request;
pub mod serve;
pub mod service;
mod slots;
mod sse;
pub mod status;
mod text;

use actix_web::web::{self, ServiceConfig};
use taper_openapi::usage::{FinishReason, PromptProgress};

use error::ApiError;
use generation::{Delta, Generation};
use request::Streaming;
use sse::{EventSender, Gone};

/// The routes, below whatever prefix they are mounted at.
pub fn routes(config: &mut ServiceConfig) {
    config
        .route("/v1/chat/completions", web::post().to(chat::completions))
        .route("/v1/completions", web::post().to(completions::completions))
        .route("/v1/models", web::get().to(models::list))
        .route("/v1/models/{model:.+}", web::get().to(models::one))
        .route("/tokenize", web::post().to(text::tokenize))
        .route("/detokenize", web::post().to(text::detokenize))
        .route("/apply-template", web::post().to(text::apply_template))
        .route("/props", web::get().to(status::props))
        .route("/slots", web::get().to(status::slots))
        .route("/health", web::get().to(status::health))
        .route("/v1/health", web::get().to(status::health))
        .route("/live", web::get().to(status::live))
        .route("/ready", web::get().to(status::ready))
        .route("/version", web::get().to(status::version))
        .route("/metrics", web::get().to(status::metrics))
        .route("/openapi.json", web::get().to(docs::document))
        .service(docs::swagger_ui());
}

/// The path under which the client sees the routes.
fn prefix(_request: &actix_web::HttpRequest) -> String {
    String::new()
}

/// Runs `work`, which takes longer than an async thread should wait, on a thread of its own.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    web::block(work).await.map_err(|error| ApiError::internal(error.to_string()))?
}

/// All answers, once all have ended.
async fn collect(generation: &mut Generation) -> Result<Vec<(String, FinishReason)>, ApiError> {
    let mut answers = vec![(String::new(), FinishReason::Length); generation.num_choices()];
    while let Some(delta) = generation.next().await {
        match delta {
            Delta::Text { index, text } => answers[index].0.push_str(&text),
            Delta::Finished { index, text, reason } => {
                answers[index].0.push_str(&text);
                answers[index].1 = reason;
            }
            Delta::Failed(error) => return Err(error),
        }
    }
    Ok(answers)
}

/// The next delta of a stream. While the prompt is run, and if it was asked for, says how far that is.
async fn next_delta<C: serde::Serialize>(
    events: &mut EventSender,
    generation: &mut Generation,
    options: Streaming,
    chunk: impl Fn(PromptProgress) -> C,
) -> Result<Option<Delta>, Gone> {
    const INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);
    let mut told = None;
    loop {
        if !options.progress {
            return events.wait(generation.next()).await;
        }
        if let Ok(delta) = events.wait(tokio::time::timeout(INTERVAL, generation.next())).await? {
            return Ok(delta);
        }
        let progress = generation.prompt_progress().filter(|progress| told != Some(progress.processed));
        if let Some(progress) = progress {
            told = Some(progress.processed);
            events.send(&chunk(progress)).await?;
        }
    }
}
