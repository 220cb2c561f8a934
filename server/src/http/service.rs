//! The loaded model as the routes see it, and the server around it from before the model is there until it has drained.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_web::web;
use taper_openapi::models::ModelCard;
use taper_openapi::props::Props;
use tokio::sync::Semaphore;

use super::body::BodyMemory;
use super::dialect::Dialect;
use super::error::ApiError;
use super::generation::Delta;
use super::metrics::Metrics;
use super::pulse::Pulse;
use super::request::Rules;
use super::slots::Slots;
use crate::breakers::BreakerBook;
use crate::engine::sampling::SamplingOverrides;
use crate::engine::{self, EngineHandle, SubmitError};
use crate::grammar::Grammars;
use crate::settings::ServerSettings;
use crate::text::{ChatTemplate, DecodeOptions, Tokenizer};

/// Requests whose text is parsed, written out or tokenised at once.
const TEXT_THREADS: usize = 4;

/// What all routes share.
pub struct Server {
    pub settings: ServerSettings,
    pub metrics: Arc<Metrics>,
    pub body_memory: BodyMemory,
    text_work: Arc<Semaphore>,
    service: OnceLock<Arc<Service>>,
    draining: AtomicBool,
}

impl Server {
    /// A server whose model is still to come.
    pub fn new(settings: ServerSettings) -> Self {
        let metrics = Arc::new(Metrics::new());
        let body_memory = BodyMemory::new(settings.limits.body_memory);
        let text_work = Arc::new(Semaphore::new(TEXT_THREADS));
        Self { settings, metrics, body_memory, text_work, service: OnceLock::new(), draining: AtomicBool::new(false) }
    }

    /// Runs `work`, which takes longer than an async thread should wait, elsewhere. A few at a time: parsing and
    /// tokenising take memory, and cores that the engine needs.
    pub async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        // Closed never, so that an error is a mistake of ours.
        let permit = Arc::clone(&self.text_work).acquire_owned().await;
        let permit = permit.map_err(|error| ApiError::internal(error.to_string()))?;
        let work = move || {
            // A client that leaves does not stop the work: what it takes is free when the work is done.
            let _permit = permit;
            work()
        };
        web::block(work).await.map_err(|error| ApiError::internal(error.to_string()))?
    }

    /// From now on requests are answered.
    pub fn open(&self, service: Arc<Service>) {
        // A server has one model; a second call would be a mistake of ours that changes nothing.
        let _ = self.service.set(service);
    }

    /// From now on new requests are refused.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The model, if it is loaded; also while the server drains.
    pub fn loaded(&self) -> Result<&Arc<Service>, ApiError> {
        self.service.get().ok_or_else(|| ApiError::unavailable("Loading model"))
    }

    /// The model, if it takes requests.
    pub fn service(&self) -> Result<&Arc<Service>, ApiError> {
        if self.is_draining() {
            return Err(ApiError::unavailable("the server is shutting down"));
        }
        self.loaded()
    }
}

/// A loaded model and what is made of it.
pub struct Service {
    /// What clients call it.
    pub name: String,
    /// Further names by which it may be asked for, such as the file's beside an alias.
    pub other_names: Vec<String>,
    pub engine: EngineHandle,
    pub dialect: Dialect,
    pub grammars: Grammars,
    pub tokenizer: Arc<Tokenizer>,
    pub breakers: BreakerBook,
    pub template: ChatTemplate,
    /// The checkpoint's generation settings, then the command line's.
    pub defaults: SamplingOverrides,
    /// Tokens of a sequence, prompt and answer together.
    pub max_model_len: usize,
    pub num_slots: usize,
    /// Prompts and answers go to the log.
    pub log_prompts: bool,
    pub card: ModelCard,
    pub props: Props,
    /// Changes whenever the same request and seed may give another text.
    pub fingerprint: String,
    pub slots: Arc<Slots>,
    pub pulse: Pulse,
    pub metrics: Arc<Metrics>,
}

impl Service {
    /// Refuses any model but this one. Clients that ask for none mean it.
    pub fn check_model(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            // Some clients send an empty name if they were given none.
            None | Some("") => Ok(()),
            Some(asked) if asked == self.name || self.other_names.iter().any(|other| asked == other) => Ok(()),
            Some(asked) => Err(ApiError::model_not_found(asked, &self.name)),
        }
    }

    /// Counts a prompt, and logs it if prompts are to be logged.
    pub fn note_prompt(&self, prompt: &[u32]) {
        self.metrics.prompt(prompt.len());
        if self.log_prompts {
            let prompt = self.tokenizer.decode(prompt, DecodeOptions { skip_special: false, starts_text: true });
            tracing::info!(target: "taper::prompts", prompt, "prompt");
        }
    }

    /// Counts an answer that has ended by itself.
    pub fn request_finished(&self, delta: &Delta, total: Duration, timings: engine::Timings) {
        self.metrics.request_finished(delta, total, timings, self.engine.stats().waiting_seqs > 0);
    }

    /// Counts an answer whose client has left.
    pub fn request_abandoned(&self) {
        self.metrics.request_abandoned(self.engine.stats().waiting_seqs > 0);
    }

    /// What requests are checked against.
    pub fn rules<'a>(&'a self, settings: &'a ServerSettings) -> Rules<'a> {
        Rules {
            limits: &settings.limits,
            strict: settings.strict_params,
            timeout: settings.request_timeout,
            tokenizer: &self.tokenizer,
            breakers: &self.breakers,
            defaults: &self.defaults,
        }
    }

    /// Why the engine did not take a request, as the client hears it; `prompt` is the field that its prompt came from.
    pub fn refused(&self, error: SubmitError, prompt: &str) -> ApiError {
        self.metrics.request_refused(&error);
        ApiError::of_submit(error, prompt, self.metrics.seconds_until_place())
    }

    /// What went wrong with a request that the engine had taken.
    pub fn failed(&self, message: String) -> ApiError {
        if self.engine.is_accepting() { ApiError::internal(message) } else { ApiError::unavailable(message) }
    }
}

/// Seconds since 1970.
pub fn unix_time() -> u64 {
    // A clock before 1970 is no reason to fail.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Numbers completions within this process.
pub fn completion_id(kind: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{kind}-{}{:x}", &random[..20], NEXT.fetch_add(1, Ordering::Relaxed))
}
