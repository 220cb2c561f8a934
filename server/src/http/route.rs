//! What the two generating routes have in common: from a body to answers that are being made, and from what happens to these to
//! the chunks of a stream. What is asked and how chunks look is their own.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use taper_openapi::usage::{PromptProgress, Timings, Usage};

use super::answer::Answer;
use super::body::{RawBody, answer, ignored_header, receive};
use super::error::ApiError;
use super::generation::{Delta, Generation, Plan};
use super::keys::KeyId;
use super::layer::Access;
use super::prompt::ReadyPrompt;
use super::request::{Streaming, Valid};
use super::service::{Server, Service, completion_id, unix_time};
use super::sse::{EventSender, Gone, stream};

/// What all chunks of a completion have in common.
pub struct Head {
    pub service: Arc<Service>,
    pub id: String,
    pub created: u64,
    pub with_logprobs: bool,
}

/// What a chunk may hold besides its choices.
#[derive(Debug, Default)]
pub struct Extras {
    pub usage: Option<Usage>,
    pub timings: Option<Timings>,
    pub prompt_progress: Option<PromptProgress>,
}

/// One of the two routes, in the middle of a request.
pub trait Route: Sized + 'static {
    /// What the ids of its completions begin with.
    const ID: &'static str;
    /// A part of a chunk that is of one answer.
    type Choice;
    type Chunk: Serialize;

    /// Reads the request, checks it and makes token ids of its prompts.
    fn prepare(
        server: &Server,
        service: &Service,
        raw: &RawBody,
        owner: Option<KeyId>,
    ) -> Result<(Plan, Vec<ReadyPrompt>), ApiError>;

    fn new(head: Head, prompts: Vec<ReadyPrompt>, valid: &Valid) -> Self;

    /// The response that has all answers.
    fn whole(self, answers: Vec<Answer>, usage: Usage, timings: Timings) -> impl Serialize;

    fn chunk(&self, choices: Vec<Self::Choice>, extras: Extras) -> Self::Chunk;

    /// The first of an answer, sent before its prompt is run.
    fn opening(&self, index: usize) -> Self::Choice;

    /// What happened to an answer, for a chunk each. The last of the end says why it ended.
    fn choices(&mut self, delta: Delta) -> Vec<Self::Choice>;
}

/// Answers a request, whole or as a stream.
pub async fn respond<R: Route>(
    server: Data<Server>,
    access: Data<Access>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let service = Arc::clone(server.service()?);
    let raw = receive(&server, &request, payload).await?;
    let owner = access.cache_owner(&request);
    let (plan, prompts) = server
        .off_thread({
            let (server, service) = (server.clone(), Arc::clone(&service));
            move || R::prepare(&server, &service, &raw, owner)
        })
        .await?;
    let generation = Generation::start(&service, &prompts, &plan)?;
    let valid = plan.valid;
    let with_logprobs = valid.overrides.logprobs.is_some();
    let head = Head { service, id: completion_id(R::ID), created: unix_time(), with_logprobs };
    let route = R::new(head, prompts, &valid);
    let ignored = ignored_header(&valid.ignored);
    match valid.stream {
        Some(options) => {
            Ok(stream(&server.settings, ignored, |events| write_chunks(events, route, generation, options)))
        }
        None => whole(route, generation, ignored).await,
    }
}

/// All answers at once. If the client leaves, this future is dropped, and the generation with it.
async fn whole<R: Route>(
    route: R,
    mut generation: Generation,
    ignored: Option<String>,
) -> Result<HttpResponse, ApiError> {
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
    let (usage, timings) = (generation.usage(), generation.timings(0));
    Ok(answer(&route.whole(answers, usage, timings), ignored))
}

/// Opening, text, end, usage, `[DONE]`.
async fn write_chunks<R: Route>(
    mut events: EventSender,
    mut route: R,
    mut generation: Generation,
    options: Streaming,
) -> Result<(), Gone> {
    for index in 0..generation.num_choices() {
        events.send(&route.chunk(vec![route.opening(index)], Extras::default())).await?;
    }
    while let Some(delta) = next_delta(&mut events, &route, &mut generation, options).await? {
        let (index, has_ended) = match &delta {
            Delta::Prompt { index, .. } | Delta::Added { index, .. } => (*index, false),
            Delta::Finished { index, .. } => (*index, true),
            Delta::Failed(error) => {
                events.send_error(error).await?;
                return events.send_done().await;
            }
        };
        let mut choices = route.choices(delta).into_iter().peekable();
        while let Some(choice) = choices.next() {
            let is_end = has_ended && choices.peek().is_none();
            let timings = (is_end || options.timings_per_token).then(|| generation.timings(index));
            let usage = options.usage_in_every_chunk.then(|| generation.usage());
            events.send(&route.chunk(vec![choice], Extras { usage, timings, prompt_progress: None })).await?;
        }
    }
    if options.usage {
        let usage = Some(generation.usage());
        events.send(&route.chunk(Vec::new(), Extras { usage, ..Extras::default() })).await?;
    }
    events.send_done().await
}

/// The next delta of a stream. While the prompt is run, and if it was asked for, says how far that is.
async fn next_delta<R: Route>(
    events: &mut EventSender,
    route: &R,
    generation: &mut Generation,
    options: Streaming,
) -> Result<Option<Delta>, Gone> {
    const INTERVAL: Duration = Duration::from_millis(200);
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
            let extras = Extras { prompt_progress: Some(progress), ..Extras::default() };
            events.send(&route.chunk(Vec::new(), extras)).await?;
        }
    }
}
