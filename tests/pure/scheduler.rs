//! The scheduler with a fake model that checks every read: fixed cases, then random traces.

use std::collections::HashMap;

use proptest::prelude::*;
use taper_models::batch::Batch;
use taper_server::engine::scheduler::{Scheduler, StepRows};
use taper_server::engine::sequence::{NewSequence, Sequence, SequenceId, StopRules};
use taper_server::engine::{BlockCounts, EngineConfig, ModelRunner};

use crate::fake_model::{FakeModel, VOCAB, argmax, reference_greedy, reference_logits};

/// A scheduler, a model, and what each sequence has generated so far.
struct Rig {
    config: EngineConfig,
    scheduler: Scheduler,
    model: FakeModel,
    prompts: HashMap<SequenceId, Vec<u32>>,
    outputs: HashMap<SequenceId, Vec<u32>>,
    /// The next prompt token to be scored, of the sequences that want that.
    scored: HashMap<SequenceId, usize>,
    /// Token-steps that suffice even if only the oldest sequence made progress, one token a step.
    step_bound: usize,
    steps: usize,
}

fn config(num_blocks: usize, block_size: usize, windows: &[Option<usize>]) -> EngineConfig {
    EngineConfig {
        num_blocks,
        block_size,
        windows: windows.to_vec(),
        max_model_len: 1000,
        max_num_seqs: 8,
        max_num_batched_tokens: 16,
        max_scored_rows: 64,
        max_queued_seqs: 100,
        prefix_caching: true,
        eos_token_ids: Vec::new(),
    }
}

impl Rig {
    fn new(config: EngineConfig) -> Self {
        let scheduler = Scheduler::new(&config);
        let model = FakeModel::new(config.num_blocks, config.block_size, &config.windows);
        let (prompts, outputs, scored) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { config, scheduler, model, prompts, outputs, scored, step_bound: 0, steps: 0 }
    }

    /// Submits, if the pool can ever hold it; says whether it did.
    fn submit(&mut self, prompt: Vec<u32>, max_new_tokens: usize) -> Option<SequenceId> {
        self.submit_new(prompt, max_new_tokens, false)
    }

    /// The same for one whose prompt is to be scored.
    fn submit_scoring(&mut self, prompt: Vec<u32>, max_new_tokens: usize) -> Option<SequenceId> {
        let id = self.submit_new(prompt, max_new_tokens, true)?;
        self.scored.insert(id, 1);
        Some(id)
    }

    fn submit_new(&mut self, prompt: Vec<u32>, max_new_tokens: usize, scores_prompt: bool) -> Option<SequenceId> {
        let len = prompt.len() + max_new_tokens - 1;
        if len > self.scheduler.blocks().capacity(self.config.max_model_len, self.config.max_num_batched_tokens) {
            return None;
        }
        let id = SequenceId(self.prompts.len() as u64);
        let stop = StopRules { max_new_tokens, ..StopRules::default() };
        self.scheduler.submit(NewSequence { id, prompt: prompt.clone(), stop, scores_prompt, ..Default::default() });
        self.prompts.insert(id, prompt);
        self.outputs.insert(id, Vec::new());
        self.step_bound += len;
        Some(id)
    }

    /// One step, with every invariant checked; the batch, unless there was nothing to do.
    fn step(&mut self) -> Option<Batch> {
        let batch = self.scheduler.schedule();
        self.check_invariants();
        let batch = batch?;
        self.steps += 1;
        assert!(batch.num_tokens() <= self.config.max_num_batched_tokens, "{} tokens", batch.num_tokens());
        let logits = self.model.forward(&batch).expect("the fake model never fails");
        for (sequence, share) in self.scheduler.scheduled().zip(&batch.sequences) {
            self.model.assert_holds(share, sequence.tokens());
        }
        let mut rows = logits.rows.chunks(VOCAB);
        for StepRows { id, scored, is_complete } in self.scheduler.commit() {
            for token in scored {
                self.check_score(id, token, rows.next().expect("a row for each scored token"));
            }
            if !is_complete {
                continue;
            }
            let token = argmax(rows.next().expect("a row for each complete sequence"));
            self.outputs.get_mut(&id).expect("submitted").push(token);
            let sequence = self.scheduler.running_mut(id).expect("complete sequences run");
            if sequence.append(token).is_some() {
                self.scheduler.remove(id);
            }
        }
        assert_eq!(rows.next(), None, "every row is somebody's");
        self.check_invariants();
        Some(batch)
    }

    /// A prompt token is scored once, in its turn, by what the model says of the tokens before it.
    fn check_score(&mut self, id: SequenceId, token: usize, row: &[f32]) {
        assert_eq!(self.scored.get(&id), Some(&token), "{id:?}");
        assert_eq!(row, reference_logits(&self.prompts[&id][..token], &self.config.windows), "{id:?}, token {token}");
        self.scored.insert(id, token + 1);
    }

    /// Every prompt that was to be scored has been.
    fn assert_scored(&self) {
        for (id, next) in &self.scored {
            assert_eq!(*next, self.prompts[id].len().max(1), "{id:?}");
        }
    }

    fn check_invariants(&self) {
        assert_eq!(self.scheduler.check_integrity(), Ok(()));
        let BlockCounts { free, cached, used } = self.scheduler.blocks().counts();
        assert_eq!(free + cached + used, self.config.num_blocks);
        assert!(self.scheduler.num_running() <= self.config.max_num_seqs);
        let ids: Vec<_> = self.scheduler.sequences().map(Sequence::id).collect();
        assert!(ids.is_sorted(), "running, then waiting, is the order of arrival: {ids:?}");
    }

    fn run_to_end(&mut self) {
        while self.step().is_some() {
            assert!(self.steps <= self.step_bound, "{} steps for at most {} tokens", self.steps, self.step_bound);
        }
    }

    /// Every output is what a lone run without cache gives, as far as it got.
    fn check_outputs(&self) {
        for (id, output) in &self.outputs {
            let expected = reference_greedy(&self.prompts[id], output.len(), &self.config.windows);
            assert_eq!(*output, expected, "{id:?} after prompt {:?}", self.prompts[id]);
        }
    }

    fn output(&self, id: SequenceId) -> &[u32] {
        &self.outputs[&id]
    }
}

fn prompt(len: usize) -> Vec<u32> {
    (0..len as u32).map(|position| position % VOCAB as u32).collect()
}

#[test]
fn a_long_prompt_is_computed_in_chunks_beside_decoding_sequences() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    rig.submit(prompt(3), 10);
    rig.step();
    rig.submit(prompt(40), 2);
    let chunks: Vec<Vec<usize>> = (0..3)
        .map(|_| rig.step().expect("work").sequences.iter().map(|sequence| sequence.query_len).collect())
        .collect();
    assert_eq!(chunks, [vec![1, 15], vec![1, 15], vec![1, 10]]);
}

#[test]
fn logits_are_asked_for_only_where_a_token_is_sampled() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    rig.submit(prompt(5), 3);
    rig.submit(prompt(20), 3);
    assert_eq!(rig.step().expect("work").logit_rows, [4]);
    assert_eq!(rig.step().expect("work").logit_rows, [0, 9]);
}

#[test]
fn a_scored_prompt_is_computed_whole_in_steps_of_few_rows() {
    let mut rig = Rig::new(EngineConfig { max_scored_rows: 6, ..config(100, 4, &[None]) });
    rig.submit(prompt(14), 1);
    rig.run_to_end();
    rig.submit_scoring(prompt(14), 1);
    let rows: Vec<_> = (0..3).map(|_| rig.step().expect("work").logit_rows.len()).collect();
    // 13 tokens of 14 have one before them, and the last row is the one that is sampled from.
    assert_eq!(rows, [6, 6, 2]);
    rig.assert_scored();
}

#[test]
fn preempted_sequence_resumes_with_same_output() {
    // Each sequence ends at 24 tokens, six of the ten blocks.
    let mut rig = Rig::new(config(10, 4, &[None]));
    let ids: Vec<_> = (0..2).map(|first| rig.submit(vec![first; 8], 17).expect("it fits")).collect();
    rig.run_to_end();
    assert!(rig.scheduler.totals().preemptions > 0, "{:?}", rig.scheduler.totals());
    for id in ids {
        assert_eq!(rig.output(id).len(), 17);
    }
    rig.check_outputs();
}

#[test]
fn the_newest_running_sequence_is_preempted_and_heads_the_queue() {
    let mut rig = Rig::new(EngineConfig { max_num_seqs: 3, ..config(6, 4, &[None]) });
    let ids: Vec<_> = (0..4).map(|first| rig.submit(vec![first; 7], 8).expect("it fits")).collect();
    rig.step();
    rig.step();
    // All three running sequences have filled two blocks and need a third; none is free.
    assert_eq!(rig.scheduler.num_running(), 3);
    rig.step();
    let order: Vec<_> = rig.scheduler.sequences().map(|sequence| (sequence.id(), sequence.computed())).collect();
    assert_eq!(order, [(ids[0], 9), (ids[1], 9), (ids[2], 0), (ids[3], 0)]);
}

#[test]
fn a_finished_sequence_leaves_prompt_and_output_cached() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    let first = rig.submit(prompt(6), 7).expect("it fits");
    rig.run_to_end();
    // The next turn of a chat: the last sampled token was never computed, so 12 of 13 tokens are there.
    let turn = [prompt(6), rig.output(first).to_vec(), vec![1, 2, 3]].concat();
    rig.submit(turn, 2);
    let batch = rig.step().expect("work");
    assert_eq!(batch.positions.first(), Some(&12));
    rig.run_to_end();
    rig.check_outputs();
}

#[test]
fn a_removed_sequence_frees_its_blocks_at_once_running_or_waiting() {
    let mut rig = Rig::new(EngineConfig { max_num_seqs: 1, ..config(20, 4, &[None]) });
    let running = rig.submit(prompt(30), 5).expect("it fits");
    let waiting = rig.submit(prompt(30), 5).expect("it fits");
    rig.step();
    assert!(rig.scheduler.remove(waiting).is_some());
    assert!(rig.scheduler.remove(running).is_some());
    assert!(rig.scheduler.remove(running).is_none(), "it is gone");
    assert_eq!(rig.scheduler.blocks().counts().used, 0);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn a_failed_step_publishes_nothing() {
    let mut rig = Rig::new(config(20, 4, &[None]));
    let id = rig.submit(prompt(12), 5).expect("it fits");
    rig.scheduler.schedule().expect("work");
    rig.scheduler.remove(id);
    assert_eq!(rig.scheduler.blocks().counts(), BlockCounts { free: 20, cached: 0, used: 0 });
}

#[derive(Debug, Clone)]
enum Action {
    Submit {
        prompt: Vec<u32>,
        max_new_tokens: usize,
        scores_prompt: bool,
    },
    Step,
    /// Removes one of the live sequences, as a cancel or a stop token does.
    Remove(prop::sample::Index),
}

/// A prompt is the head of one of two texts, then a tail over three tokens: so many share a prefix.
fn action() -> impl Strategy<Value = Action> {
    let prompt = (0..2u32, 1..24usize, prop::collection::vec(0..3u32, 0..8))
        .prop_map(|(text, head, tail)| [(text..).take(head).collect(), tail].concat());
    let submit = (prompt, 1..20usize, prop::bool::weighted(0.2))
        .prop_map(|(prompt, max_new_tokens, scores_prompt)| Action::Submit { prompt, max_new_tokens, scores_prompt });
    prop_oneof![3 => submit, 6 => Just(Action::Step), 1 => any::<prop::sample::Index>().prop_map(Action::Remove)]
}

fn any_config() -> impl Strategy<Value = EngineConfig> {
    let window = prop_oneof![Just(None), (1..20usize).prop_map(Some)];
    let rows = 1..12usize;
    (4..24usize, 1..6usize, prop::collection::vec(window, 1..4), 1..6usize, 0..24usize, prop::bool::weighted(0.8), rows)
        .prop_map(|(num_blocks, block_size, windows, max_num_seqs, extra_budget, prefix_caching, rows)| EngineConfig {
            max_num_seqs,
            max_scored_rows: rows,
            max_num_batched_tokens: max_num_seqs + extra_budget,
            prefix_caching,
            ..config(num_blocks, block_size, &windows)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any trace the books balance, every read finds the right tokens, every sequence ends in a bounded number of
    /// steps, and the output is that of a lone run without a cache.
    #[test]
    fn any_trace_gives_the_output_of_lone_runs(config in any_config(), actions in prop::collection::vec(action(), 1..80)) {
        let mut rig = Rig::new(config);
        for action in actions {
            match action {
                Action::Submit { prompt, max_new_tokens, scores_prompt: true } => {
                    rig.submit_scoring(prompt, max_new_tokens);
                }
                Action::Submit { prompt, max_new_tokens, scores_prompt: false } => {
                    rig.submit(prompt, max_new_tokens);
                }
                Action::Step => {
                    rig.step();
                }
                Action::Remove(index) => {
                    let live: Vec<_> = rig.scheduler.sequences().map(Sequence::id).collect();
                    if !live.is_empty() {
                        rig.scheduler.remove(*index.get(&live));
                        rig.scored.remove(index.get(&live));
                    }
                }
            }
            rig.check_invariants();
        }
        rig.run_to_end();
        rig.check_outputs();
        rig.assert_scored();
        prop_assert_eq!(rig.scheduler.blocks().counts().used, 0);
    }
}
