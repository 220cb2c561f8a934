//! `POST /v1/completions`.

use std::sync::Arc;

use serde::Serialize;
use taper_openapi::completions::{
    Completion, CompletionChoice, CompletionChunk, CompletionChunkChoice, CompletionRequest,
};
use taper_openapi::logprobs::TextLogprobs;
use taper_openapi::object::TextCompletionName;
use taper_openapi::usage::{FinishReason, Timings, Usage};

use super::answer::{Answer, text_of};
use super::body::RawBody;
use super::error::ApiError;
use super::generation::{Delta, Origin, Plan};
use super::keys::KeyId;
use super::logprobs::TextWriter;
use super::prompt::{ReadyPrompt, text_prompts};
use super::request::{Valid, valid_completion};
use super::route::{Extras, Head, Route};
use super::service::{Server, Service};
use crate::grammar::Guidance;

/// Continues texts.
pub struct Text {
    head: Head,
    /// With their texts, if answers are to begin with them.
    prompts: Vec<ReadyPrompt>,
    /// Answers to each.
    n: usize,
    /// Whether the prompts' log probabilities come with them.
    is_scored: bool,
    /// Of each answer.
    writers: Vec<TextWriter>,
}

impl Text {
    fn prompt(&self, choice: usize) -> &ReadyPrompt {
        &self.prompts[choice / self.n]
    }

    fn echo(&self, choice: usize) -> &str {
        self.prompt(choice).text.as_deref().unwrap_or_default()
    }

    /// Those of a whole answer, and of its prompt where that is echoed.
    fn logprobs(&self, index: usize, answer: &Answer) -> TextLogprobs {
        let (mut writer, tokenizer) = (TextWriter::default(), &self.head.service.tokenizer);
        let mut list = TextLogprobs::default();
        if self.is_scored {
            list = writer.prompt(&self.prompt(index).tokens, &answer.prompt_logprobs, tokenizer);
        }
        writer.answer(&mut list, &answer.scored, tokenizer);
        list
    }
}

impl Route for Text {
    const ID: &'static str = "cmpl";
    type Choice = CompletionChunkChoice;
    type Chunk = CompletionChunk;

    fn prepare(
        server: &Server,
        service: &Service,
        raw: &RawBody,
        owner: Option<KeyId>,
    ) -> Result<(Plan, Vec<ReadyPrompt>), ApiError> {
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

    fn new(head: Head, prompts: Vec<ReadyPrompt>, valid: &Valid) -> Self {
        let writers = vec![TextWriter::default(); prompts.len() * valid.n];
        Self { head, prompts, n: valid.n, is_scored: valid.overrides.prompt_logprobs.is_some(), writers }
    }

    fn whole(self, answers: Vec<Answer>, usage: Usage, timings: Timings) -> impl Serialize {
        let choices = answers.into_iter().enumerate().map(|(index, answer)| CompletionChoice {
            index: index as u64,
            text: format!("{}{}", self.echo(index), answer.text),
            logprobs: self.head.with_logprobs.then(|| self.logprobs(index, &answer)),
            finish_reason: answer.reason(),
        });
        Completion {
            id: self.head.id.clone(),
            object: TextCompletionName::Name,
            created: self.head.created,
            model: self.head.service.name.clone(),
            system_fingerprint: self.head.service.fingerprint.clone(),
            choices: choices.collect(),
            usage,
            timings: Some(timings),
        }
    }

    fn chunk(&self, choices: Vec<CompletionChunkChoice>, extras: Extras) -> CompletionChunk {
        let Extras { usage, timings, prompt_progress } = extras;
        CompletionChunk {
            id: self.head.id.clone(),
            object: TextCompletionName::Name,
            created: self.head.created,
            model: self.head.service.name.clone(),
            system_fingerprint: self.head.service.fingerprint.clone(),
            choices,
            usage,
            timings,
            prompt_progress,
        }
    }

    /// The echo, unless it is scored: that comes afterwards.
    fn opening(&self, index: usize) -> CompletionChunkChoice {
        let text = if self.is_scored { "" } else { self.echo(index) };
        choice(index, text.to_owned(), None)
    }

    fn choices(&mut self, delta: Delta) -> Vec<CompletionChunkChoice> {
        let tokenizer = Arc::clone(&self.head.service.tokenizer);
        let (index, text, scored, finish_reason) = match delta {
            Delta::Failed(_) => return Vec::new(),
            Delta::Prompt { index, logprobs } => {
                let mut echo = choice(index, self.echo(index).to_owned(), None);
                let tokens = &self.prompts[index / self.n].tokens;
                echo.logprobs = Some(self.writers[index].prompt(tokens, &logprobs, &tokenizer));
                return vec![echo];
            }
            Delta::Added { index, pieces, scored } => (index, text_of(pieces), scored, None),
            Delta::Finished { index, pieces, scored, reason } => (index, text_of(pieces), scored, Some(reason)),
        };
        let logprobs = (!scored.is_empty()).then(|| {
            let mut list = TextLogprobs::default();
            self.writers[index].answer(&mut list, &scored, &tokenizer);
            list
        });
        vec![CompletionChunkChoice { logprobs, ..choice(index, text, finish_reason) }]
    }
}

fn choice(index: usize, text: String, finish_reason: Option<FinishReason>) -> CompletionChunkChoice {
    CompletionChunkChoice { index: index as u64, text, logprobs: None, finish_reason }
}
