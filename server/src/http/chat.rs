//! `POST /v1/chat/completions`.

use serde::Serialize;
use taper_openapi::chat::{
    AssistantRole, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta, ChatRequest, ReasoningFormatName,
};
use taper_openapi::object::{ChatChunkName, ChatCompletionName};
use taper_openapi::usage::{FinishReason, Timings, Usage};

use super::answer::{Answer, chat_deltas, content};
use super::body::RawBody;
use super::dialect::ThoughtBudget;
use super::error::ApiError;
use super::generation::{Delta, Origin, Plan};
use super::keys::KeyId;
use super::logprobs;
use super::prompt::{Conversation, ConversationOptions, ReadyPrompt, predicted_tokens};
use super::request::{self, Valid, valid_chat};
use super::route::{Extras, Head, Route};
use super::service::{Server, Service};
use super::structured::AskedGrammar;
use super::tools::{Toolbox, toolbox};
use crate::grammar::Guidance;
use crate::settings::ServerSettings;

/// Answers a conversation.
pub struct Chat {
    head: Head,
}

impl Route for Chat {
    const ID: &'static str = "chatcmpl";
    type Choice = ChatChunkChoice;
    type Chunk = ChatChunk;

    fn prepare(
        server: &Server,
        service: &Service,
        raw: &RawBody,
        owner: Option<KeyId>,
    ) -> Result<(Plan, Vec<ReadyPrompt>), ApiError> {
        let mut body: ChatRequest = raw.parse()?;
        service.check_model(body.sampling.model.as_deref())?;
        let mut valid = valid_chat(&mut body, service.rules(&server.settings))?;
        valid.belongs_to(owner);
        valid.stop.extend(service.template.stop_strings().iter().map(|stop| (*stop).to_owned()));
        let toolbox = toolbox(body.tools.as_deref(), body.tool_choice.as_ref(), body.parallel_tool_calls)?;
        let prediction = predicted_tokens(body.prediction.take(), service)?;
        let thinking = Thinking::of(&body, &server.settings)?;
        let options = ConversationOptions {
            kwargs: body.chat_template_kwargs,
            add_generation_prompt: body.add_generation_prompt,
            continue_final_message: body.continue_final_message,
            toolbox: toolbox.as_ref(),
            reasoning_effort: body.reasoning_effort,
        };
        let conversation = Conversation::new(body.messages, options, &service.dialect, &server.settings.limits)?;
        let (tokens, is_open) = conversation.encode(service, valid.add_special)?;
        let reading = service.dialect.reading(toolbox.as_ref(), is_open, thinking.is_told_apart);
        let guidance = guidance(service, &valid, toolbox.as_ref(), &thinking, is_open)?;
        let plan = Plan { valid, origin: Origin::Conversation, prediction, guidance, reading };
        Ok((plan, vec![ReadyPrompt { tokens, text: None }]))
    }

    fn new(head: Head, _prompts: Vec<ReadyPrompt>, _valid: &Valid) -> Self {
        Self { head }
    }

    fn whole(self, answers: Vec<Answer>, usage: Usage, timings: Timings) -> impl Serialize {
        let Head { service, id, created, with_logprobs } = self.head;
        let choices = answers.into_iter().enumerate().map(|(index, answer)| ChatChoice {
            index: index as u64,
            finish_reason: answer.reason(),
            logprobs: with_logprobs.then(|| logprobs::of_chat(&answer.scored, &service.tokenizer)),
            message: answer.into_message(),
        });
        ChatCompletion {
            id,
            object: ChatCompletionName::Name,
            created,
            model: service.name.clone(),
            system_fingerprint: service.fingerprint.clone(),
            choices: choices.collect(),
            usage,
            timings: Some(timings),
        }
    }

    fn chunk(&self, choices: Vec<ChatChunkChoice>, extras: Extras) -> ChatChunk {
        let Extras { usage, timings, prompt_progress } = extras;
        ChatChunk {
            id: self.head.id.clone(),
            object: ChatChunkName::Name,
            created: self.head.created,
            model: self.head.service.name.clone(),
            system_fingerprint: self.head.service.fingerprint.clone(),
            choices,
            usage,
            timings,
            prompt_progress,
        }
    }

    /// The role.
    fn opening(&self, index: usize) -> ChatChunkChoice {
        choice(index, ChatDelta { role: Some(AssistantRole::Assistant), ..content(String::new()) }, None)
    }

    fn choices(&mut self, delta: Delta) -> Vec<ChatChunkChoice> {
        let (index, pieces, scored, reason) = match delta {
            Delta::Prompt { .. } | Delta::Failed(_) => return Vec::new(),
            Delta::Added { index, pieces, scored } => (index, pieces, scored, None),
            Delta::Finished { index, pieces, scored, reason } => (index, pieces, scored, Some(reason)),
        };
        let mut choices: Vec<_> = chat_deltas(pieces).into_iter().map(|delta| choice(index, delta, None)).collect();
        if !scored.is_empty() {
            if choices.is_empty() {
                choices.push(choice(index, content(String::new()), None));
            }
            choices[0].logprobs = Some(logprobs::of_chat(&scored, &self.head.service.tokenizer));
        }
        // The end has a chunk of its own, without text.
        choices.extend(reason.map(|reason| choice(index, ChatDelta::default(), Some(reason))));
        choices
    }
}

fn choice(index: usize, delta: ChatDelta, finish_reason: Option<FinishReason>) -> ChatChunkChoice {
    ChatChunkChoice { index: index as u64, delta, logprobs: None, finish_reason }
}

/// How much the model may think, and where its thoughts go.
struct Thinking<'a> {
    budget: ThoughtBudget<'a>,
    /// Into a field of their own.
    is_told_apart: bool,
}

impl<'a> Thinking<'a> {
    fn of(body: &ChatRequest, settings: &'a ServerSettings) -> Result<Self, ApiError> {
        let tokens = match request::whole("thinking_token_budget", body.thinking_token_budget, -1, i64::MAX)? {
            None => settings.reasoning_budget,
            Some(budget) => usize::try_from(budget).ok(),
        };
        let budget = ThoughtBudget { tokens, message: &settings.reasoning_budget_message };
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
    let has_budget = thinking.budget.tokens.is_some();
    let asked = valid.grammar.as_ref().map(|asked| Ok::<_, ApiError>((asked, asked.matcher(service)?))).transpose()?;
    let calls = match (toolbox, &asked) {
        (None, _) => None,
        // What must be a call is not what the form is for.
        (Some(toolbox), Some((asked, _))) if !toolbox.is_forced() => {
            let schema = asked.schema().ok_or_else(|| beside_tools(asked))?;
            dialect.call_grammar(toolbox, Some(&schema), is_open, has_budget, tokenizer)?
        }
        (Some(toolbox), _) => dialect.call_grammar(toolbox, None, is_open, has_budget, tokenizer)?,
    };
    match calls {
        Some(grammar) => {
            let matcher = AskedGrammar { field: "tools", grammar }.matcher(service)?;
            // Without a budget, a grammar of calls knows thoughts itself.
            let thoughts = if has_budget { dialect.thoughts(is_open, thinking.budget, tokenizer)? } else { None };
            Ok(Guidance { thoughts, matcher: Some(matcher) })
        }
        None => {
            let matcher = asked.map(|(_, matcher)| matcher);
            let thoughts = match &matcher {
                Some(_) => dialect.thoughts_before_form(is_open, thinking.budget, tokenizer)?,
                None => dialect.thoughts(is_open, thinking.budget, tokenizer)?,
            };
            Ok(Guidance { thoughts, matcher })
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
