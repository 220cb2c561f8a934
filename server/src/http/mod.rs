//! The HTTP side: OpenAI's API over the engine, and the routes around it.
//!
//! The way of a request: `body.rs` reads it, `request.rs` and `prompt.rs` check it and make token ids of it,
//! `generation.rs` has the engine answer and makes text of that, `sse.rs` sends it piece by piece. Who may ask is
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
pub mod serve;
pub mod service;
mod slots;
mod sse;
pub mod status;
mod structured;
mod text;
mod tools;

use actix_web::web::{self, ServiceConfig};
use taper_openapi::usage::PromptProgress;

use answer::Answer;
use error::ApiError;
use generation::{Delta, Generation};
use request::Streaming;
use sse::{EventSender, Gone};

/// The routes, below whatever prefix they are mounted at.
pub fn routes(config: &mut ServiceConfig) {
    let at = web::resource::<&str>;
    config
        .service(at("/v1/chat/completions").post(chat::completions))
        .service(at("/v1/completions").post(completions::completions))
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

/// All answers, once all have ended.
async fn collect(generation: &mut Generation) -> Result<Vec<Answer>, ApiError> {
    let mut answers = vec![Answer::default(); generation.num_choices()];
    while let Some(delta) = generation.next().await {
        match delta {
            Delta::Prompt { index, logprobs } => answers[index].prompt_logprobs = logprobs,
            Delta::Added { index, pieces, scored } => answers[index].add(pieces, scored),
            Delta::Finished { index, pieces, scored, reason } => {
                answers[index].add(pieces, scored);
                answers[index].reason = Some(reason);
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
