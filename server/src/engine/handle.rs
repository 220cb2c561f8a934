//! The callers' side of the engine: start it, submit requests, receive their events, read its numbers, stop it.
//!
//! Requests are checked here, on the caller's thread (`request.rs`); the worker hears only of those that can run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::config::{ConfigError, EngineConfig};
use super::constraint::Constraint;
use super::drafter::Drafter;
use super::events::{Event, FinishReason, Timings, Usage};
use super::places::{Place, Places};
use super::request::{Limits, Request, SubmitError};
use super::runner::ModelRunner;
use super::sampling::Sampler;
use super::scheduler::Scheduler;
use super::sequence::{NewSequence, SequenceId};
use super::shares::Party;
use super::stats::{EngineStats, StatsCell};
use super::worker::Worker;

/// Why an engine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the operating system refused to start the engine thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Accepted requests run to their end.
    Drain,
    /// Accepted requests end at once, with an error.
    Abort,
}

/// What the worker is told between two steps.
pub(super) enum Command {
    Submit(Box<Submission>),
    Cancel(SequenceId),
    Shutdown(Shutdown),
}

/// An accepted request on its way to the worker.
pub(super) struct Submission {
    pub(super) sequence: NewSequence,
    pub(super) sampler: Sampler,
    pub(super) drafter: Option<Drafter>,
    pub(super) events: UnboundedSender<Event>,
    pub(super) submitted: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) place: Place,
    pub(super) progress: Arc<Progress>,
}

/// How far a request is, for whoever looks: the worker stores, anyone loads.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) running: AtomicBool,
    pub(super) cached: AtomicUsize,
    pub(super) computed: AtomicUsize,
}

impl Progress {
    /// Whether it has taken part in a step; before that it waits.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// Tokens that were found in the prefix cache.
    pub fn cached(&self) -> usize {
        self.cached.load(Ordering::Relaxed)
    }

    /// Tokens whose K and V exist, cached ones included; after a preemption it begins again.
    pub fn computed(&self) -> usize {
        self.computed.load(Ordering::Relaxed)
    }
}

/// What the callers' threads and the worker share. The worker takes none of its locks.
pub(super) struct Shared {
    limits: Limits,
    draft_max: usize,
    pub(super) stats: StatsCell,
    pub(super) accepting: AtomicBool,
    places: Arc<Places>,
    next_id: AtomicU64,
}

/// Tokens of a guess from a request's own prediction, where the engine guesses fewer or none by itself.
const PREDICTION_WIDTH: usize = 16;

impl Shared {
    /// What guesses for a request with `prediction`, which may be empty.
    fn drafter(&self, prediction: &[u32], prompt: &[u32]) -> Option<Drafter> {
        let width = if prediction.is_empty() { self.draft_max } else { self.draft_max.max(PREDICTION_WIDTH) };
        (width > 0).then(|| Drafter::new(prediction, prompt, width))
    }
}

/// Starts an engine on a thread of its own. The thread ends after a shutdown, after a fatal error of the runner, or
/// when all handles are gone; it can be joined to wait for that.
pub fn spawn<R: ModelRunner + Send + 'static>(
    config: &EngineConfig,
    runner: R,
) -> Result<(EngineHandle, JoinHandle<()>), SpawnError> {
    config.validate()?;
    let scheduler = Scheduler::new(config);
    let kv_capacity = scheduler.blocks().capacity(config.max_model_len, config.max_num_batched_tokens);
    if kv_capacity == 0 {
        return Err(ConfigError::PoolTooSmall { num_blocks: config.num_blocks }.into());
    }
    let limits = Limits {
        max_model_len: config.max_model_len,
        kv_capacity,
        vocab_size: runner.vocab_size(),
        // A checkpoint may name end tokens that its vocabulary does not have; none of them can be sampled.
        eos_token_ids: config.eos_token_ids.iter().copied().filter(|id| (*id as usize) < runner.vocab_size()).collect(),
    };
    let shared = Arc::new(Shared {
        limits,
        draft_max: config.draft_max,
        stats: StatsCell::default(),
        accepting: AtomicBool::new(true),
        places: Arc::new(Places::new(config)),
        next_id: AtomicU64::new(0),
    });
    let (commands, inbox): (Sender<Command>, Receiver<Command>) = channel();
    let worker = Worker::new(runner, scheduler, inbox, Arc::clone(&shared), config.weigh_drafts);
    // Now, so that nobody sees an engine without blocks before its thread has begun.
    worker.publish_stats();
    let thread = std::thread::Builder::new().name("engine".into()).spawn(move || worker.run())?;
    Ok((EngineHandle { shared, commands }, thread))
}

/// A way to talk to the engine; clones talk to the same one.
#[derive(Clone)]
pub struct EngineHandle {
    shared: Arc<Shared>,
    commands: Sender<Command>,
}

impl EngineHandle {
    /// Queues a request. Never waits: what cannot be accepted now is an error now.
    pub fn submit(&self, request: Request) -> Result<RequestHandle, SubmitError> {
        self.submit_constrained(request, None)
    }

    /// The same for a request whose tokens must follow `constraint`.
    pub fn submit_constrained(
        &self,
        request: Request,
        constraint: Option<Box<dyn Constraint>>,
    ) -> Result<RequestHandle, SubmitError> {
        if !self.shared.accepting.load(Ordering::Acquire) {
            return Err(SubmitError::Stopped);
        }
        let stop = self.shared.limits.check(&request)?;
        let place = self.shared.places.take(request.party)?;
        let id = SequenceId(self.shared.next_id.fetch_add(1, Ordering::Relaxed));
        let Request { prompt, params, cache_salt, prediction, party, tier, deadline } = request;
        let drafter = self.shared.drafter(&prediction, &prompt);
        let (events, receiver) = unbounded_channel();
        let scores_prompt = params.prompt_logprobs.is_some();
        let sampler = Sampler::new(params, prompt.len()).constrained(constraint);
        let (seed, max_tokens) = (sampler.seed(), stop.max_new_tokens);
        let submitted = Instant::now();
        let progress = Arc::new(Progress::default());
        let watched = Arc::clone(&progress);
        let sequence = NewSequence { id, prompt, stop, cache_salt, scores_prompt, party, tier };
        let submission = Submission { sequence, sampler, drafter, events, submitted, deadline, place, progress };
        self.commands.send(Command::Submit(Box::new(submission))).ok().ok_or(SubmitError::Stopped)?;
        let canceller = Canceller { id, commands: self.commands.clone() };
        Ok(RequestHandle { canceller, seed, max_tokens, events: receiver, progress: watched, finished: false })
    }

    /// The engine's numbers as of its last step.
    pub fn stats(&self) -> EngineStats {
        self.shared.stats.load()
    }

    /// Whether requests are taken: no after a shutdown was asked for or the engine's thread has failed.
    pub fn is_accepting(&self) -> bool {
        self.shared.accepting.load(Ordering::Acquire)
    }

    /// Tokens of the longest sequence, prompt and output, that context and cache have room for.
    pub fn max_sequence_len(&self) -> usize {
        self.shared.limits.kv_capacity
    }

    /// Requests of `party` that are held at most, running and queued.
    pub fn max_requests(&self, party: Party) -> usize {
        self.shared.places.limit_of(party)
    }

    /// Stops the engine; from now on `submit` fails. Returns at once: join the thread to wait.
    pub fn shutdown(&self, how: Shutdown) {
        self.shared.accepting.store(false, Ordering::Release);
        // An error means that the thread has already ended, which is what was asked for.
        let _ = self.commands.send(Command::Shutdown(how));
    }
}

/// Ends one request, from wherever that is decided.
#[derive(Clone)]
pub struct Canceller {
    id: SequenceId,
    commands: Sender<Command>,
}

impl Canceller {
    /// Ends the request before the next step; its last event follows.
    pub fn cancel(&self) {
        // An error means that the engine has stopped, and the request with it.
        let _ = self.commands.send(Command::Cancel(self.id));
    }
}

/// The receiving end of one request. Dropping it cancels the request.
pub struct RequestHandle {
    canceller: Canceller,
    seed: u64,
    max_tokens: usize,
    /// Holds at most an event for each token of prompt and answer and the last one, so it needs no bound of its own.
    events: UnboundedReceiver<Event>,
    progress: Arc<Progress>,
    finished: bool,
}

impl RequestHandle {
    /// The seed in use: the request's own, or the one drawn for it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Tokens that will be generated at most: the request's `max_tokens` cut to what context and cache have room for.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// How far the request is.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The next event; `None` after [`Event::Finished`], which always comes.
    pub async fn recv(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    /// The same for callers that wait for several requests at once.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.finished {
            return Poll::Ready(None);
        }
        self.events.poll_recv(context).map(|event| Some(self.note(event)))
    }

    /// The same for callers outside an async runtime.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        if self.finished {
            return None;
        }
        let event = self.events.blocking_recv();
        Some(self.note(event))
    }

    /// Ends the request before the next step; its last event follows.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// A way to cancel while another thread waits for events.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// A closed channel without a last event means that the engine's thread has died: that is an event too.
    fn note(&mut self, event: Option<Event>) -> Event {
        let event = event.unwrap_or_else(|| Event::Finished {
            reason: FinishReason::Error("the engine has stopped".into()),
            usage: Usage::default(),
            timings: Timings::default(),
        });
        self.finished = matches!(event, Event::Finished { .. });
        event
    }
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        if !self.finished {
            self.cancel();
        }
    }
}
