//! What the server counts, for `/metrics`: its own names, and vLLM's for boards that were made for it.
//!
//! Requests and latencies are counted here as clients see them; queue and cache come from the engine when asked.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use taper_formats::Piece;
use taper_openapi::usage::FinishReason;

use super::generation::Delta;
use crate::engine::{EngineStats, SubmitError, Timings};

/// Upper bounds in seconds: from a fast GPU's step to a long prompt on a CPU.
const LATENCIES: [f64; 17] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// How much the latest interval between two finished requests weighs against those before.
const RATE_WEIGHT: f64 = 0.2;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Finished {
    finished_reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    reason: &'static str,
}

/// All of it.
pub struct Metrics {
    registry: Registry,
    finished: Family<Finished, Counter>,
    refused: Family<Refused, Counter>,
    started: Counter,
    tool_calls: Counter,
    tool_parse_failures: Counter,
    prompt_tokens: Counter,
    generated_tokens: Counter,
    time_to_first_token: Histogram,
    inter_token_latency: Histogram,
    total_time: Histogram,
    queue_time: Histogram,
    prefill_time: Histogram,
    decode_time: Histogram,
    engine: EngineMetrics,
    /// When the last request finished, and the smoothed interval between finished ones.
    finish_rate: Mutex<Option<(Instant, f64)>>,
}

/// Copies of the engine's numbers, brought up to date before they are written out.
struct EngineMetrics {
    running: Gauge,
    waiting: Gauge,
    blocks: Family<BlockState, Gauge>,
    cache_usage: Gauge<f64, std::sync::atomic::AtomicU64>,
    prefix_queries: Counter,
    prefix_hits: Counter,
    preemptions: Counter,
    draft_tokens: Counter,
    accepted_tokens: Counter,
    steps: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BlockState {
    state: &'static str,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let histogram = || Histogram::new(LATENCIES);
        let metrics = EngineMetrics {
            running: register(
                &mut registry,
                "requests_running",
                "num_requests_running",
                "Requests in the running batch",
            ),
            waiting: register(&mut registry, "requests_waiting", "num_requests_waiting", "Requests that wait"),
            blocks: own(
                &mut registry,
                "kv_blocks",
                "KV blocks by state: free, cached (reusable) or used",
                Family::default(),
            ),
            cache_usage: register(
                &mut registry,
                "kv_cache_usage",
                "kv_cache_usage_perc",
                "Share of the KV blocks in use, 0 to 1",
            ),
            prefix_queries: register(
                &mut registry,
                "prefix_cache_queries",
                "prefix_cache_queries",
                "Prompt tokens looked up in the prefix cache",
            ),
            prefix_hits: register(
                &mut registry,
                "prefix_cache_hits",
                "prefix_cache_hits",
                "Prompt tokens found in the prefix cache",
            ),
            preemptions: register(
                &mut registry,
                "preemptions",
                "num_preemptions",
                "Times a running request lost its blocks to an older one",
            ),
            draft_tokens: register(
                &mut registry,
                "draft_tokens",
                "spec_decode_num_draft_tokens",
                "Tokens that were guessed from what came before, or from a prediction",
            ),
            accepted_tokens: register(
                &mut registry,
                "accepted_tokens",
                "spec_decode_num_accepted_tokens",
                "Guessed tokens that were right",
            ),
            steps: own(&mut registry, "engine_steps", "Steps of the engine", Counter::default()),
        };
        let latency = |registry: &mut Registry, name, vllm, help| both(registry, name, vllm, help, histogram());
        Self {
            finished: register(
                &mut registry,
                "requests_finished",
                "request_success",
                "Requests that have ended, by reason",
            ),
            refused: own(
                &mut registry,
                "requests_refused",
                "Requests that the engine did not take, by reason",
                Family::default(),
            ),
            tool_calls: own(&mut registry, "tool_calls", "Tool calls that models made", Counter::default()),
            tool_parse_failures: own(
                &mut registry,
                "tool_parse_failures",
                "Texts that were marked as a tool call and could not be read as one",
                Counter::default(),
            ),
            started: own(&mut registry, "requests_started", "Requests that the engine took", Counter::default()),
            prompt_tokens: register(
                &mut registry,
                "prompt_tokens",
                "prompt_tokens",
                "Prompt tokens, cached ones included",
            ),
            generated_tokens: register(&mut registry, "generation_tokens", "generation_tokens", "Tokens generated"),
            time_to_first_token: latency(
                &mut registry,
                "time_to_first_token_seconds",
                "time_to_first_token_seconds",
                "From a request's arrival to its first token",
            ),
            inter_token_latency: latency(
                &mut registry,
                "inter_token_latency_seconds",
                "inter_token_latency_seconds",
                "Between two tokens of a request",
            ),
            total_time: latency(
                &mut registry,
                "request_seconds",
                "e2e_request_latency_seconds",
                "From a request's arrival to its end",
            ),
            queue_time: latency(
                &mut registry,
                "request_queue_seconds",
                "request_queue_time_seconds",
                "Waiting for the first step",
            ),
            prefill_time: latency(
                &mut registry,
                "request_prefill_seconds",
                "request_prefill_time_seconds",
                "From the first step to the first token",
            ),
            decode_time: latency(
                &mut registry,
                "request_decode_seconds",
                "request_decode_time_seconds",
                "From the first token to the last",
            ),
            engine: metrics,
            finish_rate: Mutex::new(None),
            registry,
        }
    }

    /// A prompt came, whatever number of answers it gets.
    pub fn prompt(&self, tokens: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
    }

    /// The engine took a request.
    pub fn request_started(&self) {
        self.started.inc();
    }

    /// The engine did not take a request.
    pub fn request_refused(&self, error: &SubmitError) {
        let reason = match error {
            SubmitError::QueueFull { .. } => "queue_full",
            SubmitError::ShareTaken { .. } => "share_taken",
            SubmitError::PromptTooLong { .. } | SubmitError::DoesNotFit { .. } => "too_long",
            SubmitError::Stopped => "stopped",
            SubmitError::EmptyPrompt | SubmitError::UnknownToken { .. } | SubmitError::Params(_) => "invalid",
        };
        self.refused.get_or_create(&Refused { reason }).inc();
    }

    pub fn first_token(&self, since_arrival: Duration) {
        self.generated_tokens.inc();
        self.time_to_first_token.observe(since_arrival.as_secs_f64());
    }

    pub fn next_token(&self, since_last: Duration) {
        self.generated_tokens.inc();
        self.inter_token_latency.observe(since_last.as_secs_f64());
    }

    /// Counts the calls of an answer.
    pub fn note_pieces(&self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::CallEnd { .. } => self.tool_calls.inc(),
                Piece::Malformed { .. } => self.tool_parse_failures.inc(),
                _ => continue,
            };
        }
    }

    /// A request has ended by itself; one whose client left is counted by [`Metrics::request_abandoned`].
    /// `busy`: others wait for its place.
    pub fn request_finished(&self, delta: &Delta, total: Duration, timings: Timings, busy: bool) {
        let finished_reason = match delta {
            Delta::Finished { reason: FinishReason::Stop, .. } => "stop",
            Delta::Finished { reason: FinishReason::ToolCalls, .. } => "tool_calls",
            Delta::Finished { reason: FinishReason::Repetition, .. } => "repetition",
            Delta::Finished { .. } => "length",
            Delta::Failed(_) | Delta::Prompt { .. } | Delta::Added { .. } => "error",
        };
        self.finished.get_or_create(&Finished { finished_reason }).inc();
        self.total_time.observe(total.as_secs_f64());
        self.queue_time.observe(timings.queue.as_secs_f64());
        self.prefill_time.observe(timings.prefill.as_secs_f64());
        self.decode_time.observe(timings.decode.as_secs_f64());
        self.note_place(busy);
    }

    /// The client left before the end.
    pub fn request_abandoned(&self, busy: bool) {
        self.finished.get_or_create(&Finished { finished_reason: "abort" }).inc();
        self.note_place(busy);
    }

    /// A place is free. Time in which nobody waited says nothing about how fast places become free.
    fn note_place(&self, busy: bool) {
        let now = Instant::now();
        let mut rate = self.finish_rate.lock().unwrap_or_else(PoisonError::into_inner);
        *rate = Some(match *rate {
            None => (now, 1.0),
            Some((_, interval)) if !busy => (now, interval),
            Some((last, interval)) => {
                let latest = (now - last).as_secs_f64();
                (now, interval + RATE_WEIGHT * (latest - interval))
            }
        });
    }

    /// About how long until a place in the queue is free, by the rate at which requests have been ending: 1 to 60 s.
    pub fn seconds_until_place(&self) -> u64 {
        let rate = *self.finish_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.map_or(1, |(_, interval)| interval.ceil().clamp(1.0, 60.0) as u64)
    }

    /// All metrics in the text format.
    pub fn text(&self, stats: &EngineStats) -> String {
        self.engine.update(stats);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a String cannot fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl EngineMetrics {
    fn update(&self, stats: &EngineStats) {
        self.running.set(stats.running_seqs as i64);
        self.waiting.set(stats.waiting_seqs as i64);
        for (state, count) in
            [("free", stats.free_blocks), ("cached", stats.cached_blocks), ("used", stats.used_blocks)]
        {
            self.blocks.get_or_create(&BlockState { state }).set(count as i64);
        }
        let total = stats.free_blocks + stats.cached_blocks + stats.used_blocks;
        self.cache_usage.set(if total == 0 { 0.0 } else { stats.used_blocks as f64 / total as f64 });
        catch_up(&self.prefix_queries, stats.prefill_tokens + stats.prefix_hit_tokens);
        catch_up(&self.prefix_hits, stats.prefix_hit_tokens);
        catch_up(&self.preemptions, stats.preemptions);
        catch_up(&self.draft_tokens, stats.draft_tokens);
        catch_up(&self.accepted_tokens, stats.accepted_tokens);
        catch_up(&self.steps, stats.steps);
    }
}

/// Brings a counter to the engine's total. Two scrapes at once may each see the other's half: so never backwards.
fn catch_up(counter: &Counter, total: u64) {
    counter.inner().fetch_max(total, std::sync::atomic::Ordering::Relaxed);
}

fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, vllm: &str, help: &str) -> M {
    both(registry, name, vllm, help, M::default())
}

/// Registers one metric under our name and under vLLM's.
fn both<M: Metric + Clone>(registry: &mut Registry, name: &str, vllm: &str, help: &str, metric: M) -> M {
    let metric = own(registry, name, help, metric);
    registry.register(format!("vllm:{vllm}"), format!("{help} (vLLM's name)"), metric.clone());
    metric
}

fn own<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(format!("taper_{name}"), help, metric.clone());
    metric
}
