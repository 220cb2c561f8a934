//! The engine's thread: owns model, scheduler and samplers, and repeats one step until it is told to stop.
//!
//! A step: drain what callers sent, schedule, run the model, sample, send. Nothing in it waits for a caller, and no
//! request can end it: whatever goes wrong with one is that one's last event.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use taper_models::batch::Batch;
use tokio::sync::mpsc::UnboundedSender;

use super::drafter::Drafter;
use super::events::{Event, FinishReason, Timings, Usage};
use super::handle::{Command, Progress, Shared, Shutdown, Submission};
use super::places::Place;
use super::runner::{Logits, ModelRunner, RunnerError};
use super::sampling::{Sample, SampleError, Sampler};
use super::scheduler::{Room, Scheduler, StepRows};
use super::sequence::{Sequence, SequenceId};
use super::stats::EngineStats;
use super::step_costs::StepCosts;

const SHUTDOWN: &str = "the server is shutting down";

pub(super) struct Worker<R> {
    runner: R,
    scheduler: Scheduler,
    requests: HashMap<SequenceId, ActiveRequest>,
    costs: StepCosts,
    inbox: Receiver<Command>,
    shared: Arc<Shared>,
    draining: bool,
    steps: u64,
    generated_tokens: u64,
    draft_tokens: u64,
    accepted_tokens: u64,
}

/// What the worker keeps of a request beside its sequence.
struct ActiveRequest {
    sampler: Sampler,
    /// `None`: nothing is guessed.
    drafter: Option<Drafter>,
    events: UnboundedSender<Event>,
    cached_tokens: usize,
    draft_tokens: usize,
    accepted_tokens: usize,
    submitted: Instant,
    deadline: Option<Instant>,
    started: Option<Instant>,
    first_token: Option<Instant>,
    place: Place,
    progress: Arc<Progress>,
}

impl<R: ModelRunner> Worker<R> {
    /// `weigh_drafts`: guesses are made where they save time.
    pub(super) fn new(
        runner: R,
        scheduler: Scheduler,
        inbox: Receiver<Command>,
        shared: Arc<Shared>,
        weigh_drafts: bool,
    ) -> Self {
        let (requests, costs) = (HashMap::new(), StepCosts::new(weigh_drafts));
        let (steps, generated_tokens, draft_tokens, accepted_tokens) = (0, 0, 0, 0);
        let draining = false;
        Self {
            runner,
            scheduler,
            requests,
            costs,
            inbox,
            shared,
            draining,
            steps,
            generated_tokens,
            draft_tokens,
            accepted_tokens,
        }
    }

    pub(super) fn run(mut self) {
        while self.receive() {
            self.finish_late();
            if let Err(error) = self.step() {
                tracing::error!(%error, "the engine stops");
                self.shared.accepting.store(false, Ordering::Release);
                self.finish_all(&error.to_string());
                break;
            }
        }
        self.publish_stats();
    }

    /// Takes in what callers have sent; waits for it when there is nothing else to do. `false` when it is time to stop.
    fn receive(&mut self) -> bool {
        loop {
            self.publish_stats();
            let idle = self.scheduler.is_idle();
            if idle && self.draining {
                return false;
            }
            let command = if idle { self.inbox.recv().ok() } else { self.inbox.try_recv().ok() };
            match command {
                Some(command) => self.handle(command),
                // Idle and all handles gone, or busy and nothing new.
                None => return !idle,
            }
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.accept(*submission),
            Command::Cancel(id) => self.finish(id, FinishReason::Cancelled),
            Command::Shutdown(how) => {
                self.draining = true;
                if how == Shutdown::Abort {
                    self.finish_all(SHUTDOWN);
                }
            }
        }
    }

    fn accept(&mut self, submission: Submission) {
        let Submission { sequence, sampler, drafter, events, submitted, deadline, place, progress } = submission;
        let id = sequence.id;
        self.scheduler.submit(sequence);
        let request = ActiveRequest {
            sampler,
            drafter,
            events,
            cached_tokens: 0,
            draft_tokens: 0,
            accepted_tokens: 0,
            submitted,
            deadline,
            started: None,
            first_token: None,
            place,
            progress,
        };
        self.requests.insert(id, request);
        // It was on its way when the shutdown was asked for.
        if self.draining {
            self.finish(id, FinishReason::Error(SHUTDOWN.into()));
        }
    }

    /// Runs one step. An error of the batch ends its sequences; only a fatal one is returned.
    fn step(&mut self) -> Result<(), RunnerError> {
        let (requests, costs) = (&mut self.requests, &self.costs);
        let mut draft = |sequence: &Sequence, room: Room| {
            let price = |guesses| costs.price(room.step_tokens, room.step_sequences, guesses);
            let drafter = requests.get_mut(&sequence.id()).and_then(|request| request.drafter.as_mut());
            drafter.map_or_else(Vec::new, |drafter| drafter.guess(sequence.tokens(), room.guesses, &price))
        };
        let Some(batch) = self.scheduler.schedule(&mut draft) else {
            return Ok(());
        };
        debug_assert_eq!(self.scheduler.check_integrity(), Ok(()));
        self.note_started();
        self.steps += 1;
        let begun = Instant::now();
        match self.forward(&batch) {
            Ok(logits) => {
                let seconds = begun.elapsed().as_secs_f64();
                // Otherwise it has read a prompt, whose tokens need no logits and are cheaper.
                if batch.logit_rows.len() == batch.num_tokens() {
                    self.costs.note(batch.num_tokens(), seconds);
                }
                self.apply(logits, seconds);
            }
            Err(RunnerError::Fatal(message)) => return Err(RunnerError::Fatal(message)),
            Err(error) => self.fail_scheduled(&error),
        }
        Ok(())
    }

    /// Runs the model, and checks the one thing about its answer that the sampler relies on.
    fn forward(&mut self, batch: &Batch) -> Result<Logits, RunnerError> {
        let logits = self.runner.forward(batch)?;
        let (rows, vocab_size) = (batch.logit_rows.len(), self.runner.vocab_size());
        if logits.vocab_size != vocab_size || logits.rows.len() != rows * vocab_size {
            let got = format!("{} logits in rows of {}", logits.rows.len(), logits.vocab_size);
            return Err(RunnerError::Batch(format!("it returned {got}, expected {rows} rows of {vocab_size}")));
        }
        Ok(logits)
    }

    fn note_started(&mut self) {
        let now = Instant::now();
        for sequence in self.scheduler.scheduled() {
            let request = self.requests.get_mut(&sequence.id()).expect("every sequence has its request");
            if request.started.is_none() {
                request.started = Some(now);
                request.cached_tokens = sequence.cached();
                request.progress.running.store(true, Ordering::Relaxed);
                request.progress.cached.store(sequence.cached(), Ordering::Relaxed);
            }
        }
    }

    /// Samples from what a step of `seconds` has computed.
    fn apply(&mut self, mut logits: Logits, seconds: f64) {
        let rows_of = self.scheduler.commit(seconds);
        for sequence in self.scheduler.sequences() {
            self.requests[&sequence.id()].progress.computed.store(sequence.computed(), Ordering::Relaxed);
        }
        let mut rows = logits.rows.chunks_exact_mut(logits.vocab_size);
        for StepRows { id, scored, sampled } in rows_of {
            let begun = Instant::now();
            let scores: Vec<_> = rows.by_ref().take(scored.len()).collect();
            let sampled: Vec<_> = rows.by_ref().take(sampled).collect();
            let end = self.score(id, scored, &scores).or_else(|| self.sample_rows(id, sampled));
            // A grammar over a large vocabulary, or a chain of samplers, can take longer than the model.
            self.scheduler.charge_sampling(id, begun.elapsed().as_secs_f64());
            if let Some(reason) = end {
                self.finish(id, reason);
            }
        }
    }

    /// Sends the log probabilities of prompt tokens, a row for each; says why, if the sequence ends here.
    fn score(&self, id: SequenceId, scored: Range<usize>, rows: &[&mut [f32]]) -> Option<FinishReason> {
        if scored.is_empty() {
            return None;
        }
        let sequence = self.scheduler.running(id).expect("a sequence whose step has just run is running");
        let request = &self.requests[&id];
        let tokens = &sequence.tokens()[scored];
        let logprobs = tokens.iter().zip(rows).map(|(token, row)| request.sampler.score(row, *token)).collect();
        match logprobs {
            Ok(logprobs) => {
                // No one listens any more.
                request.events.send(Event::Prompt { logprobs }).is_err().then_some(FinishReason::Cancelled)
            }
            Err(error) => Some(FinishReason::Error(SampleError::to_string(&error))),
        }
    }

    /// Samples from the first row, and from each further one as long as the guesses before it were right; says why, if the
    /// sequence ends here.
    fn sample_rows(&mut self, id: SequenceId, rows: Vec<&mut [f32]>) -> Option<FinishReason> {
        let mut end = None;
        for (guesses, row) in rows.into_iter().enumerate() {
            let sequence = self.scheduler.running(id).expect("a sequence whose step has just run is running");
            if end.is_some() || !sequence.confirms(guesses) {
                break;
            }
            // Otherwise the constraint has left no choice about this token.
            if sequence.num_uncomputed() == guesses {
                end = self.sample(id, row);
            }
        }
        let (guessed, right) = self.scheduler.settle(id);
        let request = self.requests.get_mut(&id).expect("every sequence has its request");
        (request.draft_tokens, request.accepted_tokens) =
            (request.draft_tokens + guessed, request.accepted_tokens + right);
        (self.draft_tokens, self.accepted_tokens) =
            (self.draft_tokens + guessed as u64, self.accepted_tokens + right as u64);
        end
    }

    /// Samples the next token of a sequence and sends it, with those that must follow it; says why, if the sequence ends here.
    fn sample(&mut self, id: SequenceId, row: &mut [f32]) -> Option<FinishReason> {
        let sequence = self.scheduler.running_mut(id).expect("a sequence whose step has just run is running");
        let request = self.requests.get_mut(&id).expect("every sequence has its request");
        let sample = match request.sampler.sample(row, sequence.tokens(), sequence.banned_tokens()) {
            Ok(sample) => sample,
            Err(error @ SampleError::NotFinite) => return Some(FinishReason::Error(error.to_string())),
            Err(error) => return Some(FinishReason::Impossible(error.to_string())),
        };
        request.first_token.get_or_insert_with(Instant::now);
        let forced = request.sampler.forced().into_iter().map(|token| Sample { token, logprobs: None });
        let mut samples = std::iter::once(sample).chain(forced).peekable();
        let mut end = None;
        while let Some(sample) = samples.next_if(|_| end.is_none()) {
            self.generated_tokens += 1;
            end = request.append(sequence, sample);
        }
        // An answer that is complete is not cut, even if there is no room for more.
        let is_complete = samples.next().is_none() && request.sampler.is_complete();
        if is_complete && end.as_ref().is_none_or(|end| *end == FinishReason::Length) {
            return Some(FinishReason::Complete);
        }
        end
    }

    fn fail_scheduled(&mut self, error: &RunnerError) {
        tracing::error!(%error, "a step failed; its sequences end");
        let failed: Vec<_> = self.scheduler.scheduled().map(Sequence::id).collect();
        for id in failed {
            self.finish(id, FinishReason::Error(error.to_string()));
        }
    }

    /// Ends requests whose deadline has passed, running or waiting.
    fn finish_late(&mut self) {
        let now = Instant::now();
        let is_late = |request: &ActiveRequest| request.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<_> = self.requests.iter().filter(|(_, request)| is_late(request)).map(|(id, _)| *id).collect();
        for id in late {
            self.finish(id, FinishReason::Deadline);
        }
    }

    fn finish_all(&mut self, message: &str) {
        let all: Vec<_> = self.scheduler.sequences().map(Sequence::id).collect();
        for id in all {
            self.finish(id, FinishReason::Error(message.into()));
        }
    }

    /// Frees a request's blocks and sends its last event. A request that has already ended is left in peace.
    fn finish(&mut self, id: SequenceId, reason: FinishReason) {
        let (Some(sequence), Some(request)) = (self.scheduler.remove(id), self.requests.remove(&id)) else {
            return;
        };
        let usage = Usage {
            prompt_tokens: sequence.prompt_len(),
            completion_tokens: sequence.num_new_tokens(),
            cached_tokens: request.cached_tokens,
            draft_tokens: request.draft_tokens,
            accepted_tokens: request.accepted_tokens,
        };
        let event = Event::Finished { reason, usage, timings: request.timings(Instant::now()) };
        // Before the event: who hears that a request has ended may submit the next one.
        drop(request.place);
        // No one may be listening: the caller has dropped its handle.
        let _ = request.events.send(event);
    }

    /// Tells the engine's numbers.
    pub(super) fn publish_stats(&self) {
        let (blocks, totals) = (self.scheduler.blocks().counts(), self.scheduler.totals());
        self.shared.stats.store(&EngineStats {
            running_seqs: self.scheduler.num_running() as u64,
            waiting_seqs: self.scheduler.num_waiting() as u64,
            free_blocks: blocks.free as u64,
            cached_blocks: blocks.cached as u64,
            used_blocks: blocks.used as u64,
            steps: self.steps,
            generated_tokens: self.generated_tokens,
            prefill_tokens: totals.prefill_tokens as u64,
            prefix_hit_tokens: totals.prefix_hit_tokens as u64,
            preemptions: totals.preemptions as u64,
            draft_tokens: self.draft_tokens,
            accepted_tokens: self.accepted_tokens,
        });
    }
}

impl ActiveRequest {
    /// Adds a token to the sequence and sends it; says why, if the sequence ends with it.
    fn append(&self, sequence: &mut Sequence, sample: Sample) -> Option<FinishReason> {
        let Sample { token, logprobs } = sample;
        let index = sequence.num_new_tokens();
        let end = sequence.append(token);
        if matches!(end, Some(FinishReason::Stop { .. })) {
            return end;
        }
        // No one listens any more.
        let is_heard = self.events.send(Event::Token { id: token, index, logprobs }).is_ok();
        if is_heard { end } else { Some(FinishReason::Cancelled) }
    }

    /// A phase ends when the next begins, or now.
    fn timings(&self, now: Instant) -> Timings {
        let (started, first_token) = (self.started.unwrap_or(now), self.first_token.unwrap_or(now));
        Timings { queue: started - self.submitted, prefill: first_token - started, decode: now - first_token }
    }
}
