//! `POST /v1/completions`.

use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use taper_openapi::completions::{
    Completion, CompletionChoice, CompletionChunk, CompletionChunkChoice, CompletionRequest,
};
use taper_openapi::logprobs::TextLogprobs;
use taper_openapi::object::TextCompletionName;
use taper_openapi::usage::FinishReason;

use super::answer::{Answer, text_of};
use super::body::{RawBody, answer, ignored_header, receive};
use super::error::ApiError;
use super::generation::{Delta, Generation, Origin, Plan};
use super::keys::KeyId;
use super::layer::Access;
use super::logprobs::TextWriter;
use super::prompt::{TextPrompt, text_prompts};
use super::request::{Streaming, valid_completion};
use super::service::{Server, Service, completion_id, unix_time};
use super::sse::{EventSender, Gone, stream};
use crate::grammar::Guidance;

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
    let (plan, prompts) = server
        .off_thread({
            let (server, service) = (server.clone(), Arc::clone(&service));
            move || prepare(&server, &service, &raw, owner)
        })
        .await?;
    let (tokens, texts): (Vec<_>, Vec<_>) = prompts.into_iter().map(|prompt| (prompt.tokens, prompt.text)).unzip();
    let generation = Generation::start(&service, &tokens, &plan)?;
    let valid = plan.valid;
    let with_logprobs = valid.overrides.logprobs.is_some();
    let echo = Echo { texts, tokens, n: valid.n, is_scored: valid.overrides.prompt_logprobs.is_some() };
    let head = Head { service, id: completion_id("cmpl"), created: unix_time(), with_logprobs, echo };
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
) -> Result<(Plan, Vec<TextPrompt>), ApiError> {
    let mut body: CompletionRequest = raw.parse()?;
    service.check_model(body.sampling.model.as_deref())?;
    let mut valid = valid_completion(&mut body, service.rules(&server.settings))?;
    valid.belongs_to(owner);
    let (echo, limits) = (body.echo == Some(true), &server.settings.limits);
    let prompts = text_prompts(body.prompt, &service.tokenizer, valid.add_special, echo, limits)?;
    let matcher = valid.grammar.as_ref().map(|grammar| grammar.matcher(service)).transpose()?;
    let guidance = Guidance { matcher, ..Guidance::default() };
    Ok((Plan { valid, origin: Origin::Text, prediction: Arc::default(), guidance, reading: None }, prompts))
}

/// What all chunks of a completion have in common.
struct Head {
    service: Arc<Service>,
    id: String,
    created: u64,
    with_logprobs: bool,
    echo: Echo,
}

/// The prompts' texts, if answers are to begin with them.
struct Echo {
    texts: Vec<Option<String>>,
    tokens: Vec<Vec<u32>>,
    n: usize,
    /// Whether the prompts' log probabilities come with them.
    is_scored: bool,
}

impl Echo {
    fn of(&self, choice: usize) -> &str {
        self.texts[choice / self.n].as_deref().unwrap_or_default()
    }

    fn tokens_of(&self, choice: usize) -> &[u32] {
        &self.tokens[choice / self.n]
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

impl Head {
    /// Those of a whole answer, and of its prompt where that is echoed.
    fn logprobs(&self, index: usize, answer: &Answer) -> TextLogprobs {
        let (mut writer, tokenizer) = (TextWriter::default(), &self.service.tokenizer);
        let mut list = TextLogprobs::default();
        if self.echo.is_scored {
            list = writer.prompt(self.echo.tokens_of(index), &answer.prompt_logprobs, tokenizer);
        }
        writer.answer(&mut list, &answer.scored, tokenizer);
        list
    }
}

fn choice(index: usize, text: String, finish_reason: Option<FinishReason>) -> CompletionChunkChoice {
    CompletionChunkChoice { index: index as u64, text, logprobs: None, finish_reason }
}

async fn whole(head: Head, mut generation: Generation, ignored: Option<String>) -> Result<HttpResponse, ApiError> {
    let answers = super::collect(&mut generation).await?;
    let choices = answers.into_iter().enumerate().map(|(index, answer)| CompletionChoice {
        index: index as u64,
        text: format!("{}{}", head.echo.of(index), answer.text),
        logprobs: head.with_logprobs.then(|| head.logprobs(index, &answer)),
        finish_reason: answer.reason(),
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
        // Without an echo this is the first sign of life, before the prompt is run. A scored one comes afterwards.
        let text = if head.echo.is_scored { "" } else { head.echo.of(index) };
        events.send(&head.chunk(vec![choice(index, text.to_owned(), None)])).await?;
    }
    let mut writers = vec![TextWriter::default(); generation.num_choices()];
    let tokenizer = Arc::clone(&head.service.tokenizer);
    while let Some(delta) = super::next_delta(&mut events, &mut generation, options, |progress| CompletionChunk {
        prompt_progress: Some(progress),
        ..head.chunk(Vec::new())
    })
    .await?
    {
        let (index, text, scored, finish_reason) = match delta {
            Delta::Prompt { index, logprobs } => {
                let list = writers[index].prompt(head.echo.tokens_of(index), &logprobs, &tokenizer);
                let echo = choice(index, head.echo.of(index).to_owned(), None);
                events.send(&head.chunk(vec![CompletionChunkChoice { logprobs: Some(list), ..echo }])).await?;
                continue;
            }
            Delta::Added { index, pieces, scored } => (index, text_of(pieces), scored, None),
            Delta::Finished { index, pieces, scored, reason } => (index, text_of(pieces), scored, Some(reason)),
            Delta::Failed(error) => {
                events.send_error(&error).await?;
                return events.send_done().await;
            }
        };
        let ended = finish_reason.is_some();
        let timings = (ended || options.timings_per_token).then(|| generation.timings(index));
        let usage = options.usage_in_every_chunk.then(|| generation.usage());
        let logprobs = (!scored.is_empty()).then(|| {
            let mut list = TextLogprobs::default();
            writers[index].answer(&mut list, &scored, &tokenizer);
            list
        });
        let choice = CompletionChunkChoice { logprobs, ..choice(index, text, finish_reason) };
        let chunk = head.chunk(vec![choice]);
        events.send(&CompletionChunk { timings, usage, ..chunk }).await?;
    }
    if options.usage {
        events.send(&CompletionChunk { usage: Some(generation.usage()), ..head.chunk(Vec::new()) }).await?;
    }
    events.send_done().await
}
