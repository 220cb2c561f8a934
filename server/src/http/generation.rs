//! The answers to one API request while they are made: tokens from the engine become text, in the order they come.
//!
//! Dropping a [`Generation`] cancels what still runs, so a client that leaves frees its blocks within one step.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use taper_formats::Piece;
use taper_openapi::usage::{
    CompletionTokensDetails, FinishReason, PromptProgress, PromptTokensDetails, Timings, Usage,
};

use super::dialect::{Reader, Reading};
use super::error::ApiError;
use super::prompt::ReadyPrompt;
use super::request::{Cache, Valid};
use super::service::Service;
use super::slots::SlotGuard;
use crate::engine::sampling::{SamplingOverrides, TokenLogprobs};
use crate::engine::{self, Event, Request, RequestHandle, SubmitError};
use crate::grammar::Guidance;
use crate::text::{DecodeOptions, Detokenizer, Output, StopMatcher};

/// What the answers go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An answer begins a text.
    Conversation,
    /// An answer goes on with one.
    Text,
}

impl Origin {
    /// The field that prompts are made of.
    fn field(self) -> &'static str {
        match self {
            Self::Conversation => "messages",
            Self::Text => "prompt",
        }
    }
}

/// How the answers to one request are to be made.
pub struct Plan {
    pub valid: Valid,
    pub origin: Origin,
    /// What the answer will probably be.
    pub prediction: Arc<[u32]>,
    pub guidance: Guidance,
    /// How their text is read. `None`: as it is.
    pub reading: Option<Reading>,
}

/// What happened to one of the answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// The prompt's log probabilities, if they were asked for, before everything else: of all its tokens but the first.
    Prompt { index: usize, logprobs: Vec<TokenLogprobs> },
    /// More of the answer, and the tokens that it is from, if their log probabilities were asked for.
    Added { index: usize, pieces: Vec<Piece>, scored: Vec<ScoredToken> },
    /// The last of it, often nothing, and why the answer ended.
    Finished { index: usize, pieces: Vec<Piece>, scored: Vec<ScoredToken>, reason: FinishReason },
    /// An answer that cannot go on. All answers of the request end with it.
    Failed(ApiError),
}

/// A token of an answer with its log probability and those of what was likely in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredToken {
    pub id: u32,
    pub logprobs: TokenLogprobs,
}

/// One answer.
struct Choice {
    handle: RequestHandle,
    /// `None` once the text has ended.
    output: Option<Output>,
    /// Tells thoughts, text and calls apart. `None`: all of it is text.
    reader: Option<Reader>,
    ended: Option<(String, FinishReason)>,
    /// Tokens whose text has not been sent yet, each with where it begins in the text.
    scored: Vec<(usize, ScoredToken)>,
    /// Bytes of the text that no stop string has.
    num_text_bytes: usize,
    /// `None` once sent, or where nobody asked.
    prompt_logprobs: Option<Vec<TokenLogprobs>>,
    done: bool,
    /// `None` once it no longer runs.
    slot: Option<SlotGuard>,
    /// The answer so far, if it is to be logged.
    logged: Option<String>,
    prompt_tokens: usize,
    num_generated: usize,
    submitted: Instant,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    engine_timings: engine::Timings,
    /// Tokens that were guessed and those that were right, once it has ended.
    guessed: (u64, u64),
    /// Whether the client has predicted it.
    is_predicted: bool,
    /// Whether the request has no other answers.
    is_only: bool,
}

/// The answers to one request: `n` to each prompt, in the order of the prompts.
pub struct Generation {
    service: Arc<Service>,
    choices: Vec<Choice>,
    n: usize,
    /// The choice that is asked first next time, so that none waits for a busy one.
    turn: usize,
}

impl Generation {
    /// Queues `n` requests for each prompt.
    pub fn start(service: &Arc<Service>, prompts: &[ReadyPrompt], plan: &Plan) -> Result<Self, ApiError> {
        let Plan { valid, origin, .. } = plan;
        let (count, limit) = (prompts.len() * valid.n, service.engine.max_requests(valid.party));
        if count > limit {
            return Err(too_many(count, limit, valid.n));
        }
        // Whole from the start: if the engine refuses one, those before it are cancelled and counted.
        let choices = Vec::with_capacity(count);
        let mut generation = Self { service: Arc::clone(service), choices, n: valid.n, turn: 0 };
        for ReadyPrompt { tokens: prompt, .. } in prompts {
            for index in 0..valid.n {
                let choice = Choice::start(service, prompt, index, plan)
                    .map_err(|error| service.refused(error, origin.field()))?;
                generation.choices.push(Choice { is_only: count == 1, ..choice });
            }
            service.note_prompt(prompt);
        }
        Ok(generation)
    }

    pub fn num_choices(&self) -> usize {
        self.choices.len()
    }

    /// What happens next; `None` once all answers have ended.
    pub async fn next(&mut self) -> Option<Delta> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Delta>> {
        let count = self.choices.len();
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            if self.choices[index].done {
                continue;
            }
            if let Poll::Ready(delta) = self.choices[index].poll_delta(index, &self.service, context) {
                self.turn = (index + 1) % count;
                return Poll::Ready(Some(delta));
            }
        }
        if self.choices.iter().all(|choice| choice.done) { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Token counts so far, over all answers. A prompt counts once, however many answers it has.
    pub fn usage(&self) -> Usage {
        let firsts = || self.choices.iter().step_by(self.n.max(1));
        let prompt_tokens = firsts().map(|choice| choice.prompt_tokens as u64).sum();
        let completion_tokens = self.choices.iter().map(|choice| choice.num_generated as u64).sum();
        let cached_tokens = firsts().map(|choice| choice.handle.progress().cached() as u64).sum();
        let readers = self.choices.iter().filter_map(|choice| choice.reader.as_ref());
        let reasoning_tokens = readers.map(Reader::num_reasoning_tokens).sum();
        let predicted = self.choices.iter().filter(|choice| choice.is_predicted).map(|choice| choice.guessed);
        let (guessed, accepted) = predicted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
            completion_tokens_details: CompletionTokensDetails {
                reasoning_tokens,
                accepted_prediction_tokens: accepted,
                rejected_prediction_tokens: guessed - accepted,
            },
        }
    }

    /// Where the time of an answer went so far.
    pub fn timings(&self, index: usize) -> Timings {
        self.choices[index].timings()
    }

    /// How much of the first prompt is done, until its answer begins.
    pub fn prompt_progress(&self) -> Option<PromptProgress> {
        let choice = self.choices.first()?;
        let progress = choice.handle.progress();
        (choice.first_token.is_none() && progress.is_running()).then(|| PromptProgress {
            total: choice.prompt_tokens as u64,
            cache: progress.cached() as u64,
            processed: progress.computed().min(choice.prompt_tokens) as u64,
            time_ms: milliseconds(choice.submitted.elapsed()),
        })
    }
}

/// More answers than the server ever holds: waiting would not help.
fn too_many(count: usize, limit: usize, n: usize) -> ApiError {
    let field = if n > 1 { "n" } else { "prompt" };
    let message = format!(
        "the request asks for {count} answers; this server holds at most {limit} of one client (its settings parallel and \
         queue-limit)"
    );
    ApiError::invalid_param(field, message)
}

impl Choice {
    fn start(service: &Arc<Service>, prompt: &[u32], index: usize, plan: &Plan) -> Result<Self, SubmitError> {
        let Plan { valid, origin, prediction, guidance, reading } = plan;
        let mut params = SamplingOverrides::resolve(&[service.defaults.clone(), valid.overrides.clone()]);
        // Answers to one prompt must differ, also with a seed.
        params.seed = params.seed.map(|seed| seed.wrapping_add(index as u64));
        let cache_salt = match &valid.cache {
            Cache::All => None,
            Cache::Salted(salt) => Some(salt.clone()),
            Cache::Alone(salt) => Some(salt.to_string()),
        };
        let prompt_logprobs = params.prompt_logprobs.map(|_| Vec::new());
        let submitted = Instant::now();
        let request = Request {
            prompt: prompt.to_vec(),
            params,
            cache_salt,
            prediction: Arc::clone(prediction),
            party: valid.party,
            tier: valid.tier,
            deadline: valid.timeout.map(|timeout| submitted + timeout),
        };
        let handle = service.engine.submit_constrained(request, guidance.guide(&service.tokenizer))?;
        let options = DecodeOptions { skip_special: valid.skip_special, starts_text: *origin == Origin::Conversation };
        let markers = reading.as_ref().map(|reading| Arc::clone(reading.markers())).unwrap_or_default();
        let detokenizer = Detokenizer::new(Arc::clone(&service.tokenizer), options).showing(markers);
        let stop = StopMatcher::new(valid.stop.clone(), valid.include_stop);
        let slot = service.slots.enter(handle.progress(), prompt.len(), handle.max_tokens());
        service.metrics.request_started();
        Ok(Self {
            handle,
            output: Some(Output::new(detokenizer, stop)),
            reader: reading.as_ref().map(Reading::reader),
            ended: None,
            scored: Vec::new(),
            num_text_bytes: 0,
            prompt_logprobs,
            done: false,
            slot: Some(slot),
            logged: service.log_prompts.then(String::new),
            prompt_tokens: prompt.len(),
            num_generated: 0,
            submitted,
            first_token: None,
            last_token: None,
            engine_timings: engine::Timings::default(),
            guessed: (0, 0),
            is_predicted: !prediction.is_empty(),
            is_only: false,
        })
    }

    fn poll_delta(&mut self, index: usize, service: &Service, context: &mut Context<'_>) -> Poll<Delta> {
        loop {
            if let Some(logprobs) = self.prompt_logprobs.take_if(|logprobs| logprobs.len() + 1 >= self.prompt_tokens) {
                return Poll::Ready(Delta::Prompt { index, logprobs });
            }
            let Poll::Ready(event) = self.handle.poll_recv(context) else { return Poll::Pending };
            match event {
                Some(Event::Prompt { logprobs }) => {
                    self.prompt_logprobs.get_or_insert_default().extend(logprobs);
                }
                Some(Event::Token { id, logprobs, .. }) => {
                    if let Some(output) = &self.output {
                        let token = logprobs.map(|logprobs| ScoredToken { id, logprobs });
                        self.scored.extend(token.map(|token| (output.num_bytes(), token)));
                    }
                    let text = self.take_token(id, service);
                    if let Some(logged) = &mut self.logged {
                        logged.push_str(&text);
                    }
                    if self.ended.is_some() {
                        continue;
                    }
                    let pieces = self.pieces_of(&text, service);
                    if !pieces.is_empty() {
                        return Poll::Ready(Delta::Added { index, pieces, scored: self.take_scored() });
                    }
                }
                Some(Event::Finished { reason, usage, timings }) => {
                    self.engine_timings = timings;
                    self.guessed = (usage.draft_tokens as u64, usage.accepted_tokens as u64);
                    return Poll::Ready(self.finish(index, reason, service));
                }
                // `Finished` is the last event, and after it this choice is done.
                None => return Poll::Ready(self.finish(index, engine::FinishReason::Cancelled, service)),
            }
        }
    }

    /// The text that a token adds. A stop string ends the text here and the request in the engine.
    fn take_token(&mut self, id: u32, service: &Service) -> String {
        let Some(output) = &mut self.output else { return String::new() };
        let step = output.push(id);
        self.num_text_bytes += step.text.len();
        self.count_token(service);
        if step.stopped_by.is_some() {
            self.output = None;
            self.handle.cancel();
            self.cut_scored();
            self.ended = Some((step.text, FinishReason::Stop));
            return String::new();
        }
        step.text
    }

    /// What the text of one more token holds. Counts what could not be read.
    fn pieces_of(&mut self, text: &str, service: &Service) -> Vec<Piece> {
        let pieces = match &mut self.reader {
            None if text.is_empty() => Vec::new(),
            None => vec![Piece::Text(text.to_owned())],
            Some(reader) => reader.push_token(text),
        };
        service.metrics.note_pieces(&pieces);
        pieces
    }

    /// The end of an answer, whose last text is `text`.
    fn last(
        &mut self,
        index: usize,
        text: &str,
        scored: Vec<ScoredToken>,
        reason: FinishReason,
        service: &Service,
    ) -> Delta {
        if let Some(logged) = &mut self.logged {
            logged.push_str(text);
        }
        let Some(reader) = &mut self.reader else {
            let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Text(text.to_owned())] };
            return Delta::Finished { index, pieces, scored, reason };
        };
        let mut pieces = reader.push(text);
        pieces.extend(reader.finish());
        service.metrics.note_pieces(&pieces);
        let reason = if reason == FinishReason::Stop && reader.has_called() { FinishReason::ToolCalls } else { reason };
        Delta::Finished { index, pieces, scored, reason }
    }

    /// Leaves out the tokens behind the end of the text: they are the stop string's.
    fn cut_scored(&mut self) {
        let end = self.num_text_bytes;
        self.scored.retain(|(start, _)| *start < end);
    }

    fn take_scored(&mut self) -> Vec<ScoredToken> {
        std::mem::take(&mut self.scored).into_iter().map(|(_, token)| token).collect()
    }

    fn count_token(&mut self, service: &Service) {
        let now = Instant::now();
        match self.last_token {
            None => service.metrics.first_token(now - self.submitted),
            Some(last) => service.metrics.next_token(now - last),
        }
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
        self.num_generated += 1;
        if let Some(slot) = &self.slot {
            slot.set_decoded(self.num_generated);
        }
    }

    /// The engine's last word on this answer.
    fn finish(&mut self, index: usize, reason: engine::FinishReason, service: &Service) -> Delta {
        self.done = true;
        if let engine::FinishReason::Stop { .. } = reason
            && self.output.is_some()
        {
            // The stop token is not sent, but it was sampled.
            self.count_token(service);
        }
        self.slot = None;
        let rest = self.output.take().map(Output::finish);
        if let Some(rest) = rest.as_ref().filter(|rest| rest.stopped_by.is_some()) {
            self.num_text_bytes += rest.text.len();
            self.cut_scored();
        }
        let scored = self.take_scored();
        let delta = match (self.ended.take(), rest, reason) {
            (Some((text, reason)), ..) => self.last(index, &text, scored, reason, service),
            (None, _, engine::FinishReason::Error(message)) => Delta::Failed(service.failed(message)),
            (None, _, engine::FinishReason::Impossible(message)) => Delta::Failed(ApiError::invalid(message)),
            (None, _, engine::FinishReason::Cancelled) => {
                Delta::Failed(service.failed("the request was cancelled".to_owned()))
            }
            // Of several answers, the others are no worse for one that has not begun.
            (None, _, engine::FinishReason::Deadline) if self.num_generated == 0 && self.is_only => {
                Delta::Failed(ApiError::too_late())
            }
            (None, rest, reason) => {
                let rest = rest.unwrap_or_default();
                let is_stop = rest.stopped_by.is_some()
                    || matches!(reason, engine::FinishReason::Stop { .. } | engine::FinishReason::Complete);
                let reason = match reason {
                    _ if is_stop => FinishReason::Stop,
                    engine::FinishReason::Repetition => FinishReason::Repetition,
                    _ => FinishReason::Length,
                };
                self.last(index, &rest.text, scored, reason, service)
            }
        };
        if let (Some(logged), Delta::Finished { .. }) = (&self.logged, &delta) {
            tracing::info!(target: "taper::prompts", answer = logged, "answer");
        }
        service.request_finished(&delta, self.submitted.elapsed(), self.engine_timings);
        delta
    }

    fn timings(&self) -> Timings {
        let progress = self.handle.progress();
        let cached = progress.cached().min(self.prompt_tokens) as u64;
        let prompt_n = self.prompt_tokens as u64 - cached;
        let predicted_n = self.num_generated as u64;
        let since = |from: Option<Instant>, to: Option<Instant>| {
            from.zip(to).map_or(0.0, |(from, to)| milliseconds(to.saturating_duration_since(from)))
        };
        // While it runs, the engine has not told its own timings yet; those here depend on how fast the client reads.
        let (queue_ms, prompt_ms, predicted_ms) = if self.done {
            let engine::Timings { queue, prefill, decode } = self.engine_timings;
            (milliseconds(queue), milliseconds(prefill), milliseconds(decode))
        } else {
            (0.0, since(Some(self.submitted), self.first_token), since(self.first_token, self.last_token))
        };
        let per = |ms: f64, n: u64| if n == 0 { 0.0 } else { ms / n as f64 };
        let rate = |n: u64, ms: f64| if ms > 0.0 { n as f64 * 1e3 / ms } else { 0.0 };
        // Between n tokens lie n - 1 steps.
        let steps = predicted_n.saturating_sub(1);
        Timings {
            cache_n: cached,
            prompt_n,
            prompt_ms,
            prompt_per_token_ms: per(prompt_ms, prompt_n),
            prompt_per_second: rate(prompt_n, prompt_ms),
            predicted_n,
            predicted_ms,
            predicted_per_token_ms: per(predicted_ms, steps),
            predicted_per_second: rate(steps, predicted_ms),
            draft_n: self.guessed.0,
            draft_n_accepted: self.guessed.1,
            queue_ms,
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.choices.iter().filter(|choice| !choice.done).for_each(|_| self.service.request_abandoned());
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
