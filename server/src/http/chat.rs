//! `POST /v1/chat/completions`.

use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use taper_openapi::chat::{
    AssistantRole, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta, ChatRequest, ReasoningFormatName,
};
use taper_openapi::object::{ChatChunkName, ChatCompletionName};
use taper_openapi::usage::FinishReason;

use super::answer::{chat_deltas, content};
use super::body::{RawBody, answer, ignored_header, receive};
use super::error::ApiError;
use super::generation::{Delta, Generation, Origin, Plan};
use super::keys::KeyId;
use super::layer::Access;
use super::logprobs;
use super::prompt::{Conversation, ConversationOptions, predicted_tokens};
use super::request::{self, Streaming, Valid, valid_chat};
use super::service::{Server, Service, completion_id, unix_time};
use super::sse::{EventSender, Gone, stream};
use super::structured::AskedGrammar;
use super::tools::{Toolbox, toolbox};
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
    let (plan, prompt) = server
        .off_thread({
            let (server, service) = (server.clone(), Arc::clone(&service));
            move || prepare(&server, &service, &raw, owner)
        })
        .await?;
    let generation = Generation::start(&service, &[prompt], &plan)?;
    let valid = plan.valid;
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
) -> Result<(Plan, Vec<u32>), ApiError> {
    let mut body: ChatRequest = raw.parse()?;
    service.check_model(body.sampling.model.as_deref())?;
    let mut valid = valid_chat(&mut body, service.rules(&server.settings))?;
    valid.belongs_to(owner);
    valid.stop.extend(service.template.stop_strings().iter().map(|stop| (*stop).to_owned()));
    let toolbox = toolbox(&body)?;
    let prediction = predicted_tokens(body.prediction.take(), service)?;
    let thinking = Thinking::of(&body, server.settings.reasoning_budget)?;
    let options = ConversationOptions {
        kwargs: body.chat_template_kwargs,
        add_generation_prompt: body.add_generation_prompt,
        continue_final_message: body.continue_final_message,
        toolbox: toolbox.as_ref(),
        reasoning_effort: body.reasoning_effort,
    };
    let conversation = Conversation::new(body.messages, options, &service.dialect, &server.settings.limits)?;
    let (prompt, is_open) = conversation.encode(service, valid.add_special)?;
    let reading = service.dialect.reading(toolbox.as_ref(), is_open, thinking.is_told_apart);
    let guidance = guidance(service, &valid, toolbox.as_ref(), &thinking, is_open)?;
    Ok((Plan { valid, origin: Origin::Conversation, prediction, guidance, reading }, prompt))
}

/// How much the model may think, and where its thoughts go.
struct Thinking {
    budget: Option<usize>,
    /// Into a field of their own.
    is_told_apart: bool,
}

impl Thinking {
    fn of(body: &ChatRequest, default_budget: Option<usize>) -> Result<Self, ApiError> {
        let budget = match request::whole("thinking_token_budget", body.thinking_token_budget, -1, i64::MAX)? {
            None => default_budget,
            Some(budget) => usize::try_from(budget).ok(),
        };
        Ok(Self { budget, is_told_apart: body.reasoning_format != Some(ReasoningFormatName::None) })
    }
}

/// What restricts the answers: a form, calls that must be made, a budget of thoughts.
fn guidance(
    service: &Service,
    valid: &Valid,
    toolbox: Option<&Toolbox>,
    thinking: &Thinking,
    is_open: bool,
) -> Result<Guidance, ApiError> {
    let (dialect, tokenizer) = (&service.dialect, &service.tokenizer);
    let asked = valid.grammar.as_ref().map(|asked| Ok::<_, ApiError>((asked, asked.matcher(service)?))).transpose()?;
    let calls = match (toolbox, &asked) {
        (None, _) => None,
        // What must be a call is not what the form is for.
        (Some(toolbox), Some((asked, _))) if !toolbox.is_forced() => {
            let schema = asked.schema().ok_or_else(|| beside_tools(asked))?;
            dialect.call_grammar(toolbox, Some(&schema), is_open, tokenizer)?
        }
        (Some(toolbox), _) => dialect.call_grammar(toolbox, None, is_open, tokenizer)?,
    };
    match calls {
        // A grammar of calls knows thoughts itself.
        Some(grammar) => {
            let matcher = AskedGrammar { field: "tools", grammar }.matcher(service)?;
            Ok(Guidance { thoughts: None, matcher: Some(matcher) })
        }
        None => {
            let matcher = asked.map(|(_, matcher)| matcher);
            Ok(Guidance { thoughts: dialect.thoughts(is_open, thinking.budget, tokenizer)?, matcher })
        }
    }
}

fn beside_tools(asked: &AskedGrammar) -> ApiError {
    let message = format!(
        "`{}`: beside `tools`, an answer can be JSON or follow a JSON schema, nothing else; leave out one of the two",
        asked.field
    );
    ApiError::invalid_param(asked.field, message)
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

/// The whole answer at once. If the client leaves, this future is dropped, and the generation with it.
async fn whole(head: Head, mut generation: Generation, ignored: Option<String>) -> Result<HttpResponse, ApiError> {
    let answers = super::collect(&mut generation).await?;
    let choices = answers.into_iter().enumerate().map(|(index, answer)| ChatChoice {
        index: index as u64,
        finish_reason: answer.reason(),
        logprobs: head.with_logprobs.then(|| logprobs::of_chat(&answer.scored, &head.service.tokenizer)),
        message: answer.into_message(),
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
        let (index, pieces, scored, reason) = match delta {
            Delta::Prompt { .. } => continue,
            Delta::Added { index, pieces, scored } => (index, pieces, scored, None),
            Delta::Finished { index, pieces, scored, reason } => (index, pieces, scored, Some(reason)),
            Delta::Failed(error) => {
                events.send_error(&error).await?;
                return events.send_done().await;
            }
        };
        let mut choices: Vec<_> = chat_deltas(pieces).into_iter().map(|delta| choice(index, delta, None)).collect();
        if !scored.is_empty() {
            if choices.is_empty() {
                choices.push(choice(index, content(String::new()), None));
            }
            choices[0].logprobs = Some(logprobs::of_chat(&scored, &head.service.tokenizer));
        }
        // The end has a chunk of its own, without text.
        choices.extend(reason.map(|reason| choice(index, ChatDelta::default(), Some(reason))));
        for choice in choices {
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
