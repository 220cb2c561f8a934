//! `POST /v1/completions`.

use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use taper_openapi::completions::{
    Completion, CompletionChoice, CompletionChunk, CompletionChunkChoice, CompletionRequest,
};
use taper_openapi::object::TextCompletionName;
use taper_openapi::usage::FinishReason;

use super::body::{RawBody, answer, ignored_header, receive};
use super::error::ApiError;
use super::generation::{Delta, Generation, Origin};
use super::keys::KeyId;
use super::layer::Access;
use super::prompt::{TextPrompt, text_prompts};
use super::request::{Streaming, Valid, valid_completion};
use super::service::{Server, Service, completion_id, unix_time};
use super::sse::{EventSender, Gone, stream};

/// Continues texts.
pub async fn completions(
    server: Data<Server>,
    access: Data<Access>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let service = Arc::clone(server.service()?);
    let raw = receive(&server, &request, payload).await?;
    let owner = access.cache_owner(&request);
    let (valid, prompts) = server
        .off_thread({
            let (server, service) = (server.clone(), Arc::clone(&service));
            move || prepare(&server, &service, &raw, owner)
        })
        .await?;
    let (tokens, texts): (Vec<_>, Vec<_>) = prompts.into_iter().map(|prompt| (prompt.tokens, prompt.text)).unzip();
    let generation = Generation::start(&service, &tokens, &valid, Origin::Text)?;
    let head = Head { service, id: completion_id("cmpl"), created: unix_time(), echo: Echo { texts, n: valid.n } };
    let ignored = ignored_header(&valid.ignored);
    match valid.stream {
        Some(options) => {
            Ok(stream(&server.settings, ignored, |events| write_chunks(events, head, generation, options)))
        }
        None => whole(head, generation, ignored).await,
    }
}

/// Reads the request, checks it and makes token ids of its prompts.
fn prepare(
    server: &Server,
    service: &Service,
    raw: &RawBody,
    owner: Option<KeyId>,
) -> Result<(Valid, Vec<TextPrompt>), ApiError> {
    let mut body: CompletionRequest = raw.parse()?;
    service.check_model(body.sampling.model.as_deref())?;
    let mut valid = valid_completion(&mut body, service.rules(&server.settings))?;
    valid.cache = valid.cache.of_key(owner);
    let (echo, limits) = (body.echo == Some(true), &server.settings.limits);
    let prompts = text_prompts(body.prompt, &service.tokenizer, valid.add_special, echo, limits)?;
    Ok((valid, prompts))
}

/// What all chunks of a completion have in common.
struct Head {
    service: Arc<Service>,
    id: String,
    created: u64,
    echo: Echo,
}

/// The prompts' texts, if answers are to begin with them.
struct Echo {
    texts: Vec<Option<String>>,
    n: usize,
}

impl Echo {
    fn of(&self, choice: usize) -> &str {
        self.texts[choice / self.n].as_deref().unwrap_or_default()
    }
}

impl Head {
    fn chunk(&self, choices: Vec<CompletionChunkChoice>) -> CompletionChunk {
        CompletionChunk {
            id: self.id.clone(),
            object: TextCompletionName::Name,
            created: self.created,
            model: self.service.name.clone(),
            system_fingerprint: self.service.fingerprint.clone(),
            choices,
            usage: None,
            timings: None,
            prompt_progress: None,
        }
    }
}

fn choice(index: usize, text: String, finish_reason: Option<FinishReason>) -> CompletionChunkChoice {
    CompletionChunkChoice { index: index as u64, text, logprobs: None, finish_reason }
}

async fn whole(head: Head, mut generation: Generation, ignored: Option<String>) -> Result<HttpResponse, ApiError> {
    let answers = super::collect(&mut generation).await?;
    let choices = answers.into_iter().enumerate().map(|(index, (text, finish_reason))| CompletionChoice {
        index: index as u64,
        text: format!("{}{text}", head.echo.of(index)),
        logprobs: None,
        finish_reason,
    });
    let completion = Completion {
        id: head.id.clone(),
        object: TextCompletionName::Name,
        created: head.created,
        model: head.service.name.clone(),
        system_fingerprint: head.service.fingerprint.clone(),
        choices: choices.collect(),
        usage: generation.usage(),
        timings: Some(generation.timings(0)),
    };
    Ok(answer(&completion, ignored))
}

/// Echo, text, end, usage, `[DONE]`.
async fn write_chunks(
    mut events: EventSender,
    head: Head,
    mut generation: Generation,
    options: Streaming,
) -> Result<(), Gone> {
    for index in 0..generation.num_choices() {
        // Without an echo this is the first sign of life, before the prompt is run.
        let text = head.echo.of(index).to_owned();
        events.send(&head.chunk(vec![choice(index, text, None)])).await?;
    }
    while let Some(delta) = super::next_delta(&mut events, &mut generation, options, |progress| CompletionChunk {
        prompt_progress: Some(progress),
        ..head.chunk(Vec::new())
    })
    .await?
    {
        let (index, text, finish_reason) = match delta {
            Delta::Text { index, text } => (index, text, None),
            Delta::Finished { index, text, reason } => (index, text, Some(reason)),
            Delta::Failed(error) => {
                events.send_error(&error).await?;
                return events.send_done().await;
            }
        };
        let ended = finish_reason.is_some();
        let timings = (ended || options.timings_per_token).then(|| generation.timings(index));
        let usage = options.usage_in_every_chunk.then(|| generation.usage());
        let chunk = head.chunk(vec![choice(index, text, finish_reason)]);
        events.send(&CompletionChunk { timings, usage, ..chunk }).await?;
    }
    if options.usage {
        events.send(&CompletionChunk { usage: Some(generation.usage()), ..head.chunk(Vec::new()) }).await?;
    }
    events.send_done().await
}
