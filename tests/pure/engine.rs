//! The whole engine on its thread, with the fake model. A hook inside the model's step lets a test stop time there.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use taper_models::batch::Batch;
use taper_server::engine::sampling::{ParamError, RepetitionDetection, SamplingParams};
use taper_server::engine::{
    ConfigError, Constraint, ConstraintError, EngineConfig, EngineHandle, Event, FinishReason, Logits, ModelRunner,
    Request, RequestHandle, RunnerError, Shutdown, SpawnError, SubmitError, Usage, spawn,
};

use crate::fake_model::{FakeModel, VOCAB, argmax, reference_greedy, reference_logits};

/// The fake model, with a function that may change or refuse what it returns.
struct Hooked<F> {
    model: FakeModel,
    hook: F,
}

impl<F: FnMut(&Batch, Logits) -> Result<Logits, RunnerError>> ModelRunner for Hooked<F> {
    fn forward(&mut self, batch: &Batch) -> Result<Logits, RunnerError> {
        let logits = self.model.forward(batch)?;
        (self.hook)(batch, logits)
    }

    fn vocab_size(&self) -> usize {
        VOCAB
    }
}

fn config() -> EngineConfig {
    EngineConfig {
        num_blocks: 200,
        block_size: 4,
        windows: vec![None, Some(6)],
        max_model_len: 200,
        max_num_seqs: 8,
        max_num_batched_tokens: 16,
        max_scored_rows: 4,
        max_queued_seqs: 32,
        draft_max: 0,
        weigh_drafts: false,
        prefix_caching: true,
        eos_token_ids: Vec::new(),
    }
}

fn start(config: &EngineConfig) -> (EngineHandle, JoinHandle<()>) {
    start_hooked(config, |_, logits| Ok(logits))
}

fn start_hooked<F>(config: &EngineConfig, hook: F) -> (EngineHandle, JoinHandle<()>)
where
    F: FnMut(&Batch, Logits) -> Result<Logits, RunnerError> + Send + 'static,
{
    let model = FakeModel::new(config.num_blocks, config.block_size, &config.windows);
    spawn(config, Hooked { model, hook }).expect("a valid configuration")
}

/// Holds the engine inside each step, once the model has run, until told to go on.
struct Gate {
    batches: Receiver<Batch>,
    go: Sender<()>,
}

impl Gate {
    /// The batch of the step that the engine is in now.
    fn batch(&self) -> Batch {
        self.batches.recv().expect("the engine is in a step")
    }

    fn go(&self) {
        self.go.send(()).expect("the engine waits");
    }
}

fn start_gated(config: &EngineConfig) -> (EngineHandle, JoinHandle<()>, Gate) {
    let (announce, batches) = channel();
    let (go, wait) = channel();
    let (engine, thread) = start_hooked(config, move |batch, logits| {
        // A test that has dropped its gate no longer wants to hold the engine.
        let _ = announce.send(batch.clone());
        let _ = wait.recv();
        Ok(logits)
    });
    (engine, thread, Gate { batches, go })
}

fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Request {
    let params = SamplingParams { temperature: 0.0, max_tokens: Some(max_tokens), ..SamplingParams::default() };
    Request { prompt, params, ..Request::default() }
}

/// All tokens of a request, why it ended, and its usage.
fn collect(mut request: RequestHandle) -> (Vec<u32>, FinishReason, Usage) {
    let mut tokens = Vec::new();
    loop {
        match request.blocking_recv().expect("the last event is Finished") {
            Event::Token { id, index, .. } => {
                assert_eq!(index, tokens.len(), "output indices count up");
                tokens.push(id);
            }
            Event::Prompt { .. } => panic!("nobody asked for log probabilities of the prompt"),
            Event::Finished { reason, usage, .. } => {
                assert_eq!(request.blocking_recv(), None, "nothing comes after Finished");
                return (tokens, reason, usage);
            }
        }
    }
}

fn run(engine: &EngineHandle, request: Request) -> (Vec<u32>, FinishReason, Usage) {
    collect(engine.submit(request).expect("accepted"))
}

fn stop(engine: &EngineHandle, thread: JoinHandle<()>) {
    engine.shutdown(Shutdown::Drain);
    thread.join().expect("the engine does not panic");
}

fn prompt(len: usize) -> Vec<u32> {
    (0..len as u32).map(|position| position * 7 % VOCAB as u32).collect()
}

#[test]
fn a_greedy_request_gives_the_models_tokens_up_to_max_tokens() {
    let (engine, thread) = start(&config());
    let (tokens, reason, usage) = run(&engine, greedy(prompt(21), 30));
    assert_eq!(tokens, reference_greedy(&prompt(21), 30, &config().windows));
    assert_eq!(reason, FinishReason::Length);
    assert_eq!(usage, Usage { prompt_tokens: 21, completion_tokens: 30, ..Usage::default() });
    stop(&engine, thread);
}

#[test]
fn a_stop_token_ends_the_request_and_is_counted_but_not_sent() {
    let expected = reference_greedy(&prompt(5), 20, &config().windows);
    let token = expected[7];
    let first = expected.iter().position(|id| *id == token).expect("it is there");
    let (engine, thread) = start(&EngineConfig { eos_token_ids: vec![token], ..config() });

    let (tokens, reason, usage) = run(&engine, greedy(prompt(5), 20));
    assert_eq!((tokens.as_slice(), reason), (&expected[..first], FinishReason::Stop { token }));
    assert_eq!(usage.completion_tokens, first + 1);

    let mut ignoring = greedy(prompt(5), 20);
    ignoring.params.ignore_eos = true;
    assert_eq!(run(&engine, ignoring.clone()).0, expected);

    ignoring.params.stop_token_ids = vec![token];
    assert_eq!(run(&engine, ignoring).1, FinishReason::Stop { token });
    stop(&engine, thread);
}

#[test]
fn no_stop_token_is_sampled_before_min_tokens() {
    let all_but_two: Vec<u32> = (2..VOCAB as u32).collect();
    let (engine, thread) = start(&EngineConfig { eos_token_ids: all_but_two, ..config() });
    let mut request = greedy(prompt(5), 30);
    request.params.min_tokens = 12;
    let (tokens, reason, _) = run(&engine, request);
    assert!(tokens.len() >= 12 && tokens.iter().all(|token| *token < 2), "{tokens:?}");
    assert!(matches!(reason, FinishReason::Stop { .. }), "59 of 61 tokens stop: {reason:?} after {tokens:?}");
    stop(&engine, thread);
}

#[test]
fn the_second_of_two_equal_prompts_reports_its_cached_tokens() {
    let (engine, thread) = start(&config());
    let first = run(&engine, greedy(prompt(21), 5));
    let second = run(&engine, greedy(prompt(21), 5));
    assert_eq!((first.2.cached_tokens, second.2.cached_tokens), (0, 20));
    assert_eq!(first.0, second.0);
    stop(&engine, thread);
    let stats = engine.stats();
    assert_eq!((stats.prefix_hit_tokens, stats.prefill_tokens, stats.generated_tokens), (20, 22, 10));
    assert_eq!((stats.used_blocks, stats.free_blocks + stats.cached_blocks), (0, 200));
}

/// A random request must not depend on its neighbours, on chunks, on the cache, or on being preempted.
#[test]
fn the_same_seed_gives_the_same_tokens_alone_and_in_company() {
    let request = || {
        let params = SamplingParams {
            seed: Some(99),
            top_p: 0.9,
            repetition_penalty: 1.2,
            frequency_penalty: 0.3,
            max_tokens: Some(25),
            ..SamplingParams::default()
        };
        Request { prompt: prompt(23), params, ..Request::default() }
    };
    let (engine, thread) = start(&config());
    let (alone, ..) = run(&engine, request());
    let (warm, _, usage) = run(&engine, request());
    assert_eq!((&warm, usage.cached_tokens > 0), (&alone, true), "warm cache");
    stop(&engine, thread);
    // The last pool has room for two such requests, so most of the eight are preempted or wait.
    for (max_num_batched_tokens, prefix_caching, num_blocks) in [(8, true, 200), (64, false, 200), (11, true, 48)] {
        let config = EngineConfig { max_num_batched_tokens, prefix_caching, num_blocks, ..config() };
        let (engine, thread) = start(&config);
        let neighbours: Vec<_> =
            (1..8).map(|seed| engine.submit(greedy(prompt(seed * 3), 25)).expect("accepted")).collect();
        let (tokens, ..) = run(&engine, request());
        assert_eq!(tokens, alone, "{config:?}");
        for (len, neighbour) in (1..8).zip(neighbours) {
            assert_eq!(collect(neighbour).0, reference_greedy(&prompt(len * 3), 25, &config.windows));
        }
        stop(&engine, thread);
    }
}

#[test]
fn cancelling_during_prefill_takes_effect_before_the_next_step() {
    let (engine, thread, gate) = start_gated(&config());
    let request = engine.submit(greedy(prompt(100), 5)).expect("accepted");
    assert_eq!(gate.batch().num_tokens(), 16, "the first of seven chunks");
    request.cancel();
    let other = engine.submit(greedy(vec![60], 1)).expect("accepted");
    gate.go();
    assert_eq!(gate.batch().tokens, [60], "the next step is the other request's alone");
    gate.go();
    let (tokens, reason, usage) = collect(request);
    assert_eq!((tokens, reason, usage.completion_tokens), (vec![], FinishReason::Cancelled, 0));
    assert_eq!(collect(other).0.len(), 1);
    stop(&engine, thread);
    assert_eq!(engine.stats().used_blocks, 0);
}

#[test]
fn dropping_the_handle_of_a_decoding_request_frees_it_before_the_next_step() {
    let (engine, thread, gate) = start_gated(&config());
    let request = engine.submit(greedy(prompt(3), 50)).expect("accepted");
    gate.batch();
    gate.go();
    assert_eq!(gate.batch().num_tokens(), 1, "it decodes");
    drop(request);
    let other = engine.submit(greedy(vec![60], 1)).expect("accepted");
    gate.go();
    assert_eq!(gate.batch().tokens, [60]);
    gate.go();
    collect(other);
    stop(&engine, thread);
    assert_eq!(engine.stats().used_blocks, 0);
}

#[test]
fn a_cancelled_request_in_the_queue_never_runs() {
    let (engine, thread, gate) = start_gated(&EngineConfig { max_num_seqs: 1, ..config() });
    let running = engine.submit(greedy(prompt(3), 2)).expect("accepted");
    gate.batch();
    let queued = engine.submit(greedy(vec![60], 5)).expect("accepted");
    queued.cancel();
    gate.go();
    assert_eq!(collect(queued).1, FinishReason::Cancelled, "while the other one still runs");
    drop(gate);
    assert_eq!(collect(running).1, FinishReason::Length);
    stop(&engine, thread);
    assert_eq!(engine.stats().prefill_tokens, 3);
}

#[test]
fn a_full_queue_refuses_at_once_and_takes_the_next_when_one_has_ended() {
    let (engine, thread, gate) = start_gated(&EngineConfig { max_num_seqs: 1, max_queued_seqs: 2, ..config() });
    let accepted: Vec<_> = (0..3).map(|_| engine.submit(greedy(prompt(3), 1)).expect("accepted")).collect();
    let refused = engine.submit(greedy(prompt(3), 1)).err();
    assert_eq!(refused, Some(SubmitError::QueueFull { limit: 3 }));
    drop(gate);
    for request in accepted {
        assert_eq!(collect(request).1, FinishReason::Length);
    }
    assert_eq!(run(&engine, greedy(prompt(3), 1)).1, FinishReason::Length);
    stop(&engine, thread);
}

#[test]
fn what_can_never_run_is_refused_with_the_numbers() {
    // 40 blocks of 4 tokens in one group: 160 tokens.
    let (engine, thread) = start(&EngineConfig { num_blocks: 40, windows: vec![None], ..config() });
    let refused = |request: Request| engine.submit(request).err();
    assert_eq!(refused(greedy(vec![], 5)), Some(SubmitError::EmptyPrompt));
    let unknown = SubmitError::UnknownToken { token: 61, vocab_size: 61 };
    assert_eq!(refused(greedy(vec![3, 61], 5)), Some(unknown));
    let too_long = SubmitError::PromptTooLong { prompt_tokens: 200, max_model_len: 200 };
    assert_eq!(refused(greedy(prompt(200), 5)), Some(too_long));
    let does_not_fit =
        SubmitError::DoesNotFit { prompt_tokens: 100, max_tokens: 62, kv_capacity: 160, max_model_len: 200 };
    assert_eq!(refused(greedy(prompt(100), 62)), Some(does_not_fit));
    let mut bad = greedy(prompt(3), 5);
    bad.params.top_p = 2.0;
    let error = ParamError { field: "top_p", value: "2".into(), range: "above 0 and at most 1".into() };
    assert_eq!(refused(bad), Some(SubmitError::Params(error)));
    stop(&engine, thread);
}

#[test]
fn max_tokens_is_cut_to_what_context_and_cache_leave() {
    let (engine, thread) = start(&config());
    let (tokens, reason, _) = run(&engine, greedy(prompt(190), 1000));
    assert_eq!((tokens.len(), reason), (10, FinishReason::Length), "the context has 200 tokens");
    stop(&engine, thread);

    let (engine, thread) = start(&EngineConfig { num_blocks: 40, windows: vec![None], ..config() });
    let mut open_ended = greedy(prompt(150), 1);
    open_ended.params.max_tokens = None;
    let (tokens, reason, _) = run(&engine, open_ended);
    assert_eq!((tokens.len(), reason), (11, FinishReason::Length), "the cache has 160 tokens; the last needs no place");
    stop(&engine, thread);
}

#[test]
fn a_batch_error_ends_the_sequences_of_the_batch_and_no_others() {
    let mut steps = 0;
    let (engine, thread) = start_hooked(&EngineConfig { max_num_seqs: 1, ..config() }, move |_, logits| {
        steps += 1;
        if steps == 3 { Err(RunnerError::Batch("out of luck".into())) } else { Ok(logits) }
    });
    let first = engine.submit(greedy(prompt(3), 10)).expect("accepted");
    let second = engine.submit(greedy(prompt(9), 10)).expect("accepted");
    let (tokens, reason, _) = collect(first);
    assert_eq!(tokens.len(), 2);
    assert_eq!(reason, FinishReason::Error("the model failed on this batch: out of luck".into()));
    assert_eq!(collect(second).0, reference_greedy(&prompt(9), 10, &config().windows));
    stop(&engine, thread);
}

#[test]
fn logits_of_the_wrong_shape_end_the_batch() {
    let (engine, thread) = start_hooked(&config(), |_, mut logits| {
        logits.rows.pop();
        Ok(logits)
    });
    let (_, reason, _) = run(&engine, greedy(prompt(3), 10));
    let message = "the model failed on this batch: it returned 60 logits in rows of 61, expected 1 rows of 61";
    assert_eq!(reason, FinishReason::Error(message.into()));
    stop(&engine, thread);
}

#[test]
fn a_fatal_error_ends_all_requests_and_the_engine() {
    let (go, wait) = channel::<()>();
    let (engine, thread) = start_hooked(&EngineConfig { max_num_seqs: 1, ..config() }, move |_, _| {
        let _ = wait.recv();
        Err(RunnerError::Fatal("device lost".into()))
    });
    let requests: Vec<_> = (0..3).map(|_| engine.submit(greedy(prompt(3), 10)).expect("accepted")).collect();
    go.send(()).expect("the engine waits");
    thread.join().expect("the engine does not panic");
    for request in requests {
        // A request that the worker had not yet taken in hears only that the engine has stopped.
        assert!(matches!(collect(request).1, FinishReason::Error(_)));
    }
    assert_eq!(engine.submit(greedy(prompt(3), 10)).err(), Some(SubmitError::Stopped));
}

#[test]
fn nan_logits_end_only_their_own_request() {
    let (engine, thread) = start_hooked(&config(), |batch, mut logits| {
        // Token 60 is in the prompt of the unlucky request only.
        for (row, logit_row) in batch.logit_rows.iter().enumerate() {
            if batch.tokens[*logit_row as usize] == 60 {
                logits.rows[row * VOCAB] = f32::NAN;
            }
        }
        Ok(logits)
    });
    let lucky = engine.submit(greedy(vec![1, 2, 3], 1)).expect("accepted");
    let unlucky = engine.submit(greedy(vec![60], 1)).expect("accepted");
    assert_eq!(collect(lucky).1, FinishReason::Length);
    let (_, reason, _) = collect(unlucky);
    assert!(matches!(&reason, FinishReason::Error(message) if message.contains("NaN")), "{reason:?}");
    stop(&engine, thread);
}

#[test]
fn a_panic_in_the_model_is_a_last_event_for_every_request() {
    let (engine, thread) = start_hooked(&config(), |_, _| panic!("expected by this test"));
    let (_, reason, _) = run(&engine, greedy(prompt(3), 10));
    assert_eq!(reason, FinishReason::Error("the engine has stopped".into()));
    assert!(thread.join().is_err());
    assert_eq!(engine.submit(greedy(prompt(3), 10)).err(), Some(SubmitError::Stopped));
}

#[test]
fn a_drain_lets_accepted_requests_end_and_takes_no_more() {
    let (engine, thread, gate) = start_gated(&EngineConfig { max_num_seqs: 1, ..config() });
    let requests: Vec<_> = (0..3).map(|_| engine.submit(greedy(prompt(3), 10)).expect("accepted")).collect();
    gate.batch();
    engine.shutdown(Shutdown::Drain);
    assert_eq!(engine.submit(greedy(prompt(3), 10)).err(), Some(SubmitError::Stopped));
    drop(gate);
    for request in requests {
        assert_eq!(collect(request).1, FinishReason::Length);
    }
    thread.join().expect("the engine does not panic");
}

#[test]
fn an_abort_ends_running_and_queued_requests() {
    let (engine, thread, gate) = start_gated(&EngineConfig { max_num_seqs: 1, ..config() });
    let requests: Vec<_> = (0..3).map(|_| engine.submit(greedy(prompt(3), 10)).expect("accepted")).collect();
    gate.batch();
    engine.shutdown(Shutdown::Abort);
    drop(gate);
    for request in requests {
        assert_eq!(collect(request).1, FinishReason::Error("the server is shutting down".into()));
    }
    thread.join().expect("the engine does not panic");
}

#[test]
fn the_thread_ends_when_all_handles_are_gone() {
    let (engine, thread) = start(&config());
    drop(engine);
    thread.join().expect("the engine does not panic");
}

/// Together the sequences want four times the pool, and every third is cancelled somewhere on its way.
#[test]
fn thirty_two_sequences_with_cancels_in_a_quarter_of_the_cache_all_finish() {
    const PROMPT: usize = 40;
    const OUTPUT: usize = 24;
    // 16 blocks per sequence in the full group, 7 in the window group (6 + 16 tokens): 32 * 23 / 4.
    let config = EngineConfig { num_blocks: 184, max_num_seqs: 32, max_num_batched_tokens: 32, ..config() };
    let (engine, thread) = start(&config);
    // Each prompt shares its first half with seven others.
    let prompts: Vec<Vec<u32>> = (0..32u32)
        .map(|index| (0..PROMPT as u32).map(|position| if position < 20 { index % 4 } else { index }).collect())
        .collect();
    let submit = |prompt: &Vec<u32>| engine.submit(greedy(prompt.clone(), OUTPUT)).expect("accepted");
    let mut requests: Vec<_> = prompts.iter().map(submit).collect();
    for (index, request) in requests.iter_mut().enumerate().filter(|(index, _)| index % 3 == 0) {
        for _ in 0..index % 5 {
            request.blocking_recv();
        }
        request.cancel();
    }
    for (index, mut request) in requests.into_iter().enumerate() {
        let expected = reference_greedy(&prompts[index], OUTPUT, &config.windows);
        let cancelled = index % 3 == 0;
        loop {
            match request.blocking_recv().expect("the last event is Finished") {
                Event::Token { id, index: output, .. } => assert_eq!(id, expected[output], "sequence {index}"),
                Event::Finished { reason: FinishReason::Length, usage, .. } => {
                    assert_eq!(usage.completion_tokens, OUTPUT, "sequence {index}");
                    break;
                }
                Event::Prompt { .. } => panic!("nobody asked for log probabilities of the prompt"),
                Event::Finished { reason, .. } => {
                    assert_eq!((reason, cancelled), (FinishReason::Cancelled, true), "sequence {index}");
                    break;
                }
            }
        }
    }
    stop(&engine, thread);
    let stats = engine.stats();
    assert_eq!((stats.free_blocks + stats.cached_blocks, stats.used_blocks), (184, 0), "{stats:?}");
    assert_eq!((stats.running_seqs, stats.waiting_seqs), (0, 0));
}

#[test]
fn a_configuration_that_cannot_run_is_refused() {
    let refused = |config: EngineConfig| {
        let model = FakeModel::new(1, 1, &config.windows);
        match spawn(&config, model) {
            Err(SpawnError::Config(error)) => Some(error),
            _ => None,
        }
    };
    let cases = [
        (EngineConfig { block_size: 0, ..config() }, ConfigError::Zero { field: "block_size" }),
        (EngineConfig { windows: vec![None, Some(0)], ..config() }, ConfigError::Zero { field: "window" }),
        (EngineConfig { windows: vec![], ..config() }, ConfigError::NoGroups),
        (
            EngineConfig { max_num_batched_tokens: 7, ..config() },
            ConfigError::BudgetBelowSequences { max_num_batched_tokens: 7, max_num_seqs: 8 },
        ),
        (
            EngineConfig { num_blocks: 1 << 30, ..config() },
            ConfigError::TooManySlots { num_blocks: 1 << 30, block_size: 4 },
        ),
        (EngineConfig { num_blocks: 1, ..config() }, ConfigError::PoolTooSmall { num_blocks: 1 }),
    ];
    for (config, expected) in cases {
        assert_eq!(refused(config.clone()), Some(expected), "{config:?}");
    }
}

/// A checkpoint's end tokens may lie outside its vocabulary; banning them until `min_tokens` must not reach for their
/// logits.
#[test]
fn an_end_token_outside_the_vocabulary_is_ignored() {
    let (engine, thread) = start(&EngineConfig { eos_token_ids: vec![u32::MAX], ..config() });
    let mut request = greedy(vec![1, 2, 3], 4);
    request.params.min_tokens = 3;
    let mut handle = engine.submit(request).expect("accepted");
    let mut tokens = 0;
    while let Some(Event::Token { .. }) = handle.blocking_recv() {
        tokens += 1;
    }
    assert_eq!(tokens, 4);
    stop(&engine, thread);
}

/// Allows only tokens that are not multiples of three, and sometimes leaves no choice.
#[derive(Debug)]
struct NoThirds {
    forced: Vec<u32>,
    rest: usize,
}

impl Constraint for NoThirds {
    fn mask(&mut self, row: &mut [f32]) -> Result<(), ConstraintError> {
        row.iter_mut().step_by(3).for_each(|logit| *logit = f32::NEG_INFINITY);
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        assert!(!token.is_multiple_of(3), "{token} was banned");
        if self.rest == 0 {
            return Err(ConstraintError("spent".to_owned()));
        }
        self.rest -= 1;
        Ok(())
    }

    fn forced(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.forced)
    }

    fn is_complete(&self) -> bool {
        self.rest == 0
    }
}

#[test]
fn forced_tokens_are_sent_without_a_step_and_what_follows_knows_them() {
    let (engine, thread) = start(&config());
    let constraint = NoThirds { forced: vec![4, 5, 7], rest: 2 };
    let request = engine.submit_constrained(greedy(prompt(6), 30), Some(Box::new(constraint))).expect("accepted");
    let (tokens, reason, usage) = collect(request);
    assert_eq!((reason, usage.completion_tokens, &tokens[1..4]), (FinishReason::Complete, 5, &[4, 5, 7][..]));
    let likeliest = |tokens: &[u32]| {
        let mut row = reference_logits(tokens, &config().windows);
        row.iter_mut().step_by(3).for_each(|logit| *logit = f32::NEG_INFINITY);
        argmax(&row)
    };
    let before_last = [prompt(6), tokens[..4].to_vec()].concat();
    assert_eq!((tokens[0], tokens[4]), (likeliest(&prompt(6)), likeliest(&before_last)));
    stop(&engine, thread);
    assert_eq!(engine.stats().steps, 2, "one for the prompt and one for the forced tokens");
}

#[test]
fn a_constraint_that_fails_ends_only_its_own_request() {
    let (engine, thread) = start(&config());
    let constraint = NoThirds { forced: Vec::new(), rest: 0 };
    let failing = engine.submit_constrained(greedy(prompt(3), 5), Some(Box::new(constraint))).expect("accepted");
    let other = engine.submit(greedy(prompt(3), 5)).expect("accepted");
    assert_eq!(collect(failing).1, FinishReason::Impossible("the constraint on the answer failed: spent".into()));
    assert_eq!(collect(other).1, FinishReason::Length);
    stop(&engine, thread);
}

/// The answer with its first tokens, then three wrong ones, then its rest.
fn spoiled(answer: &[u32]) -> Vec<u32> {
    let mut prediction = answer.to_vec();
    prediction[12..15].iter_mut().for_each(|token| *token = (*token + 1) % VOCAB as u32);
    prediction
}

#[test]
fn a_prediction_saves_steps_and_changes_no_token() {
    let expected = reference_greedy(&prompt(9), 40, &config().windows);
    let mut steps = Vec::new();
    for prediction in [Vec::new(), spoiled(&expected), expected.clone()] {
        let (engine, thread) = start(&EngineConfig { max_scored_rows: 12, ..config() });
        let (tokens, reason, usage) = run(&engine, Request { prediction: prediction.into(), ..greedy(prompt(9), 40) });
        assert_eq!((&tokens, reason), (&expected, FinishReason::Length));
        stop(&engine, thread);
        let stats = engine.stats();
        let accepted = [stats.accepted_tokens, usage.accepted_tokens as u64];
        assert_eq!((accepted, stats.draft_tokens), ([40 - stats.steps; 2], usage.draft_tokens as u64));
        steps.push(stats.steps);
    }
    // Guesses of 12 at a time, as many as the rows of logits allow, each with one token more.
    assert_eq!((steps[0], steps[2]), (40, 4));
    assert!(steps[1] < 20, "{steps:?}");
}

#[test]
fn what_repeats_is_guessed_where_the_engine_may() {
    let repeated = |draft_max: usize| {
        let (engine, thread) = start(&EngineConfig { draft_max, ..config() });
        // Bias leaves one token to choose, again and again.
        let params = SamplingParams { logit_bias: vec![(5, 100.0)], ..greedy(prompt(4), 20).params };
        let (tokens, ..) = run(&engine, Request { params, ..greedy(prompt(4), 20) });
        stop(&engine, thread);
        (tokens, engine.stats().steps)
    };
    let ((plain, slow), (guessed, fast)) = (repeated(0), repeated(8));
    assert_eq!((plain, slow), (guessed, 20));
    assert!(fast < 10, "{fast}");
}

#[test]
fn sampled_tokens_are_the_same_with_a_prediction() {
    let (engine, thread) = start(&config());
    let params = SamplingParams { seed: Some(3), repetition_penalty: 1.3, ..SamplingParams::default() };
    let request = Request { params: SamplingParams { max_tokens: Some(40), ..params }, ..greedy(prompt(9), 40) };
    let (expected, ..) = run(&engine, request.clone());
    let (tokens, _, usage) = run(&engine, Request { prediction: spoiled(&expected).into(), ..request });
    assert_eq!(tokens, expected);
    assert!(usage.accepted_tokens > 15, "{usage:?}");
    stop(&engine, thread);
}

#[test]
fn a_stop_token_ends_a_predicted_answer_where_it_would_have_ended() {
    let (engine, thread) = start(&config());
    let expected = reference_greedy(&prompt(9), 40, &config().windows);
    let stop_at = expected.iter().position(|token| expected.iter().filter(|other| *other == token).count() == 1);
    let stop_at = stop_at.expect("some token comes once");
    let params = SamplingParams { stop_token_ids: vec![expected[stop_at]], ..greedy(prompt(9), 40).params };
    let (tokens, reason, _) =
        run(&engine, Request { prediction: expected.clone().into(), params, ..greedy(prompt(9), 40) });
    assert_eq!((tokens.as_slice(), reason), (&expected[..stop_at], FinishReason::Stop { token: expected[stop_at] }));
    stop(&engine, thread);
}

#[test]
fn forced_tokens_that_were_predicted_are_computed_once() {
    let constrained = |prediction: Vec<u32>| {
        let (engine, thread) = start(&config());
        let constraint = NoThirds { forced: vec![4, 5, 7], rest: 6 };
        let request = Request { prediction: prediction.into(), ..greedy(prompt(6), 30) };
        let answer = collect(engine.submit_constrained(request, Some(Box::new(constraint))).expect("accepted"));
        stop(&engine, thread);
        (answer.0, engine.stats().steps, answer.2.accepted_tokens)
    };
    let (expected, steps, _) = constrained(Vec::new());
    let (tokens, fewer, accepted) = constrained(expected.clone());
    assert_eq!((tokens, expected.len(), steps), (expected, 9, 6));
    assert!(fewer < steps && accepted > 4, "{fewer} steps, {accepted} accepted");
}

#[test]
fn a_deadline_ends_a_request_that_waits_and_one_that_runs() {
    let (engine, thread, gate) = start_gated(&EngineConfig { max_num_seqs: 1, ..config() });
    let soon = Instant::now() + Duration::from_secs(2);
    let running = engine.submit(Request { deadline: Some(soon), ..greedy(prompt(3), 50) }).expect("accepted");
    gate.batch();
    let past = Some(Instant::now());
    let waiting = engine.submit(Request { deadline: past, ..greedy(prompt(3), 50) }).expect("accepted");
    let without = engine.submit(greedy(prompt(3), 2)).expect("accepted");
    std::thread::sleep(soon.saturating_duration_since(Instant::now()));
    gate.go();
    let (tokens, reason, _) = collect(running);
    assert_eq!((tokens.len(), reason), (1, FinishReason::Deadline));
    assert_eq!(collect(waiting).1, FinishReason::Deadline);
    drop(gate);
    assert_eq!(collect(without).1, FinishReason::Length);
    stop(&engine, thread);
}

/// An engine whose output is `script`, whatever the prompt, which must be of one token.
fn start_scripted(script: Vec<u32>) -> (EngineHandle, JoinHandle<()>) {
    start_hooked(&config(), move |batch, mut logits| {
        for (row, logit_row) in batch.logit_rows.iter().enumerate() {
            let position = batch.positions[*logit_row as usize] as usize;
            logits.rows[row * VOCAB + script[position % script.len()] as usize] = 1000.0;
        }
        Ok(logits)
    })
}

fn with_detection(max_tokens: usize, rule: RepetitionDetection, min_tokens: usize) -> Request {
    let mut request = greedy(vec![1], max_tokens);
    (request.params.repetition_detection, request.params.min_tokens) = (rule, min_tokens);
    request
}

#[test]
fn an_output_that_repeats_itself_ends() {
    let (engine, thread) = start_scripted(vec![5]);
    let rule = |max_pattern_size, min_pattern_size, min_count| RepetitionDetection {
        max_pattern_size,
        min_pattern_size,
        min_count,
    };
    let ended = |rule, min_tokens| {
        let (tokens, reason, _) = run(&engine, with_detection(50, rule, min_tokens));
        (tokens.len(), reason)
    };
    assert_eq!(ended(rule(4, 0, 3), 0), (3, FinishReason::Repetition), "one token, three times");
    assert_eq!(ended(rule(4, 2, 3), 0), (6, FinishReason::Repetition), "two equal tokens are a pattern, too");
    assert_eq!(ended(rule(4, 2, 3), 20), (20, FinishReason::Repetition), "not before min_tokens");
    assert_eq!(ended(rule(0, 2, 3), 0), (50, FinishReason::Length), "switched off");
    stop(&engine, thread);
}

/// vLLM's rule, word by word: the last `size` tokens stand `count` times at the end.
fn ends_in_a_loop(output: &[u32], rule: RepetitionDetection) -> bool {
    (rule.min_pattern_size.max(1)..=rule.max_pattern_size).any(|size| {
        let Some(start) = output.len().checked_sub(size * rule.min_count) else { return false };
        let mut parts = output[start..].chunks(size);
        let first = parts.next().expect("at least two");
        parts.all(|part| part == first)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_loop_is_what_vllm_calls_one(
        script in prop::collection::vec(0..2u32, 60),
        max_pattern_size in 1..8usize,
        min_pattern_size in 0..8usize,
        min_count in 2..5usize,
    ) {
        let min_pattern_size = min_pattern_size.min(max_pattern_size);
        let rule = RepetitionDetection { max_pattern_size, min_pattern_size, min_count };
        let end = (1..60).find(|len| ends_in_a_loop(&script[..*len], rule));
        let (engine, thread) = start_scripted(script.clone());
        let (tokens, reason, _) = run(&engine, with_detection(60, rule, 0));
        stop(&engine, thread);
        prop_assert_eq!(tokens.len(), end.unwrap_or(60));
        prop_assert_eq!(reason, if end.is_some() { FinishReason::Repetition } else { FinishReason::Length });
    }
}
