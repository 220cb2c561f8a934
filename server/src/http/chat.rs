//! `POST /v1/chat/completions`.

use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use taper_openapi::chat::{
    AssistantRole, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta, ChatMessage, ChatRequest,
};
use taper_openapi::object::{ChatChunkName, ChatCompletionName};
use taper_openapi::usage::FinishReason;

use super::body::{RawBody, answer, ignored_header, receive};
use super::error::ApiError;
use super::generation::{Delta, Generation, Origin};
use super::keys::KeyId;
use super::layer::Access;
use super::logprobs;
use super::prompt::{Conversation, ConversationOptions};
use super::request::{Streaming, Valid, valid_chat};
use super::service::{Server, Service, completion_id, unix_time};
use super::sse::{EventSender, Gone, stream};
use crate::grammar::Guidance;

/// Answers a conversation.
pub async fn completions(
    server: Data<Server>,
    access: Data<Access>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let service = Arc::clone(server.service()?);
    let raw = receive(&server, &request, payload).await?;
    let owner = access.cache_owner(&request);
    let (valid, prompt, guidance) = server
        .off_thread({
            let (server, service) = (server.clone(), Arc::clone(&service));
            move || prepare(&server, &service, &raw, owner)
        })
        .await?;
    let generation = Generation::start(&service, &[prompt], &valid, &guidance, Origin::Conversation)?;
    let with_logprobs = valid.overrides.logprobs.is_some();
    let head = Head { service, id: completion_id("chatcmpl"), created: unix_time(), with_logprobs };
    let ignored = ignored_header(&valid.ignored);
    match valid.stream {
        Some(options) => {
            Ok(stream(&server.settings, ignored, |events| write_chunks(events, head, generation, options)))
        }
        None => whole(head, generation, ignored).await,
    }
}

/// Reads the request, checks it and makes token ids of its conversation.
fn prepare(
    server: &Server,
    service: &Service,
    raw: &RawBody,
    owner: Option<KeyId>,
) -> Result<(Valid, Vec<u32>, Guidance), ApiError> {
    let mut body: ChatRequest = raw.parse()?;
    service.check_model(body.sampling.model.as_deref())?;
    let mut valid = valid_chat(&mut body, service.rules(&server.settings))?;
    valid.cache = valid.cache.of_key(owner);
    valid.stop.extend(service.template.stop_strings().iter().map(|stop| (*stop).to_owned()));
    let options = ConversationOptions {
        kwargs: body.chat_template_kwargs,
        add_generation_prompt: body.add_generation_prompt,
        continue_final_message: body.continue_final_message,
    };
    let conversation = Conversation::new(body.messages, options, &server.settings.limits)?;
    let prompt = conversation.encode(&service.template, &service.tokenizer, valid.add_special)?;
    let matcher = valid.grammar.as_ref().map(|grammar| grammar.matcher(service)).transpose()?;
    Ok((valid, prompt, Guidance { matcher, ..Guidance::default() }))
}

/// What all chunks of a completion have in common.
struct Head {
    service: Arc<Service>,
    id: String,
    created: u64,
    with_logprobs: bool,
}

impl Head {
    fn chunk(&self, choices: Vec<ChatChunkChoice>) -> ChatChunk {
        ChatChunk {
            id: self.id.clone(),
            object: ChatChunkName::Name,
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

fn choice(index: usize, delta: ChatDelta, finish_reason: Option<FinishReason>) -> ChatChunkChoice {
    ChatChunkChoice { index: index as u64, delta, logprobs: None, finish_reason }
}

fn content(text: String) -> ChatDelta {
    ChatDelta { content: Some(text), ..ChatDelta::default() }
}

/// The whole answer at once. If the client leaves, this future is dropped, and the generation with it.
async fn whole(head: Head, mut generation: Generation, ignored: Option<String>) -> Result<HttpResponse, ApiError> {
    let answers = super::collect(&mut generation).await?;
    let choices = answers.into_iter().enumerate().map(|(index, answer)| ChatChoice {
        index: index as u64,
        finish_reason: answer.reason(),
        logprobs: head.with_logprobs.then(|| logprobs::of_chat(&answer.scored, &head.service.tokenizer)),
        message: ChatMessage {
            role: AssistantRole::Assistant,
            content: Some(answer.text),
            refusal: None,
            reasoning_content: None,
            tool_calls: None,
        },
    });
    let completion = ChatCompletion {
        object: ChatCompletionName::Name,
        created: head.created,
        model: head.service.name.clone(),
        system_fingerprint: head.service.fingerprint.clone(),
        choices: choices.collect(),
        usage: generation.usage(),
        timings: Some(generation.timings(0)),
        id: head.id,
    };
    Ok(answer(&completion, ignored))
}

/// Role, text, end, usage, `[DONE]`.
async fn write_chunks(
    mut events: EventSender,
    head: Head,
    mut generation: Generation,
    options: Streaming,
) -> Result<(), Gone> {
    let role = ChatDelta { role: Some(AssistantRole::Assistant), ..content(String::new()) };
    for index in 0..generation.num_choices() {
        events.send(&head.chunk(vec![choice(index, role.clone(), None)])).await?;
    }
    while let Some(delta) = super::next_delta(&mut events, &mut generation, options, |progress| ChatChunk {
        prompt_progress: Some(progress),
        ..head.chunk(Vec::new())
    })
    .await?
    {
        let (index, text, scored, reason) = match delta {
            Delta::Prompt { .. } => continue,
            Delta::Text { index, text, scored } => (index, text, scored, None),
            Delta::Finished { index, text, scored, reason } => (index, text, scored, Some(reason)),
            Delta::Failed(error) => {
                events.send_error(&error).await?;
                return events.send_done().await;
            }
        };
        // The end has a chunk of its own, without text.
        let logprobs = (!scored.is_empty()).then(|| logprobs::of_chat(&scored, &head.service.tokenizer));
        let has_content = !text.is_empty() || logprobs.is_some();
        let text = has_content.then(|| ChatChunkChoice { logprobs, ..choice(index, content(text), None) });
        let end = reason.map(|reason| choice(index, ChatDelta::default(), Some(reason)));
        for choice in text.into_iter().chain(end) {
            let ended = choice.finish_reason.is_some();
            let timings = (ended || options.timings_per_token).then(|| generation.timings(index));
            let usage = options.usage_in_every_chunk.then(|| generation.usage());
            events.send(&ChatChunk { timings, usage, ..head.chunk(vec![choice]) }).await?;
        }
    }
    if options.usage {
        events.send(&ChatChunk { usage: Some(generation.usage()), ..head.chunk(Vec::new()) }).await?;
    }
    events.send_done().await
}
