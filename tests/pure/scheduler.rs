//! The scheduler with a fake model that checks every read: fixed cases, then random traces.

use std::collections::HashMap;

use proptest::prelude::*;
use taper_models::batch::Batch;
use taper_server::engine::scheduler::{Draft, Room, Scheduler, StepRows};
use taper_server::engine::sequence::{NewSequence, Sequence, SequenceId, StopRules};
use taper_server::engine::{BlockCounts, EngineConfig, ModelRunner, Party, Tier};

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
    /// There are several parties or tiers.
    are_several: bool,
    /// Makes guesses of which some are right, if it is not 0.
    draft_seed: usize,
    /// Token-steps that suffice even if only the oldest sequence made progress, one token a step.
    step_bound: usize,
    steps: usize,
    /// Whose tokens the last step computed, in order of the batch.
    last_ids: Vec<SequenceId>,
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
        draft_max: 0,
        weigh_drafts: false,
        prefix_caching: true,
        eos_token_ids: Vec::new(),
    }
}

impl Rig {
    fn new(config: EngineConfig) -> Self {
        let scheduler = Scheduler::new(&config);
        let model = FakeModel::new(config.num_blocks, config.block_size, &config.windows);
        let (prompts, outputs, scored) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self {
            config,
            scheduler,
            model,
            prompts,
            outputs,
            scored,
            are_several: false,
            draft_seed: 0,
            step_bound: 0,
            steps: 0,
            last_ids: Vec::new(),
        }
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

    /// The same for one of a party and tier.
    fn submit_of(&mut self, party: Party, tier: Tier, prompt: Vec<u32>, max_new_tokens: usize) -> Option<SequenceId> {
        self.are_several = true;
        self.submit_any(NewSequence { prompt, party, tier, ..NewSequence::default() }, max_new_tokens)
    }

    fn submit_new(&mut self, prompt: Vec<u32>, max_new_tokens: usize, scores_prompt: bool) -> Option<SequenceId> {
        self.submit_any(NewSequence { prompt, scores_prompt, ..NewSequence::default() }, max_new_tokens)
    }

    fn submit_any(&mut self, new: NewSequence, max_new_tokens: usize) -> Option<SequenceId> {
        let prompt = new.prompt.clone();
        let len = prompt.len() + max_new_tokens - 1;
        if len > self.scheduler.blocks().capacity(self.config.max_model_len, self.config.max_num_batched_tokens) {
            return None;
        }
        let id = SequenceId(self.prompts.len() as u64);
        let stop = StopRules { max_new_tokens, ..StopRules::default() };
        self.scheduler.submit(NewSequence { id, stop, ..new });
        self.prompts.insert(id, prompt);
        self.outputs.insert(id, Vec::new());
        self.step_bound += len;
        Some(id)
    }

    /// One step, with every invariant checked; the batch, unless there was nothing to do.
    fn step(&mut self) -> Option<Batch> {
        let (windows, seed) = (self.config.windows.clone(), self.draft_seed);
        self.step_with(&mut |sequence, room| draft(sequence, room.guesses, seed, &windows))
    }

    fn step_with(&mut self, draft: &mut Draft<'_>) -> Option<Batch> {
        let batch = self.scheduler.schedule(draft);
        self.check_invariants();
        let batch = batch?;
        self.steps += 1;
        self.last_ids = self.scheduler.scheduled().map(Sequence::id).collect();
        assert!(batch.num_tokens() <= self.config.max_num_batched_tokens, "{} tokens", batch.num_tokens());
        let logits = self.model.forward(&batch).expect("the fake model never fails");
        for (sequence, share) in self.scheduler.scheduled().zip(&batch.sequences) {
            self.model.assert_holds(share, &[sequence.tokens(), sequence.draft()].concat());
        }
        let mut rows = logits.rows.chunks(VOCAB);
        for StepRows { id, scored, sampled } in self.scheduler.commit(batch.num_tokens() as f64) {
            for token in scored {
                self.check_score(id, token, rows.next().expect("a row for each scored token"));
            }
            let sampled: Vec<_> = rows.by_ref().take(sampled).collect();
            if !sampled.is_empty() && self.sample(id, &sampled) {
                self.scheduler.remove(id);
            }
        }
        assert_eq!(rows.next(), None, "every row is somebody's");
        self.check_invariants();
        Some(batch)
    }

    /// Samples from each row that the one before has confirmed; whether the sequence has ended.
    fn sample(&mut self, id: SequenceId, rows: &[&[f32]]) -> bool {
        let mut has_ended = false;
        for (guesses, row) in rows.iter().enumerate() {
            let sequence = self.scheduler.running_mut(id).expect("complete sequences run");
            if has_ended || !sequence.confirms(guesses) {
                break;
            }
            let token = argmax(row);
            self.outputs.get_mut(&id).expect("submitted").push(token);
            has_ended = sequence.append(token).is_some();
        }
        self.scheduler.settle(id);
        has_ended
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
        if !self.are_several {
            // Whose prompt is scored waits for rows, and is overtaken meanwhile.
            let plain = self.scheduler.sequences().map(Sequence::id).filter(|id| !self.scored.contains_key(id));
            let ids: Vec<_> = plain.collect();
            assert!(ids.is_sorted(), "running, then waiting, is the order of arrival: {ids:?}");
        }
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

/// Guesses up to five tokens as the model would choose them; one of them is wrong, or none.
fn draft(sequence: &Sequence, room: usize, seed: usize, windows: &[Option<usize>]) -> Vec<u32> {
    if seed == 0 {
        return Vec::new();
    }
    let chance = seed.wrapping_mul(sequence.tokens().len() + 31 * sequence.id().0 as usize) >> 7;
    let mut guess = reference_greedy(sequence.tokens(), room.min(chance % 6), windows);
    if let Some(token) = guess.get_mut(chance / 6 % 8) {
        *token = (*token + 1) % VOCAB as u32;
    }
    guess
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
fn guesses_that_are_right_save_steps_and_wrong_ones_cost_none() {
    let mut steps = Vec::new();
    for right in [0, 2, 3] {
        let mut rig = Rig::new(config(100, 4, &[None, Some(6)]));
        let id = rig.submit(prompt(5), 13).expect("it fits");
        let windows = rig.config.windows.clone();
        let mut guess = |sequence: &Sequence, room: Room| {
            let mut guess = reference_greedy(sequence.tokens(), 3.min(room.guesses), &windows);
            guess.iter_mut().skip(right).for_each(|token| *token = (*token + 1) % VOCAB as u32);
            guess
        };
        while rig.step_with(&mut guess).is_some() {}
        assert_eq!(rig.output(id).len(), 13);
        rig.check_outputs();
        steps.push(rig.steps);
    }
    // A step gives a token and as many more as were guessed right.
    assert_eq!(steps, [13, 5, 4]);
}

/// As several answers to one prompt are: its tokens are computed once.
#[test]
fn who_has_the_prompt_of_another_waits_until_it_is_computed() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    let equal: Vec<_> = (0..3).map(|_| rig.submit(prompt(26), 3).expect("it fits")).collect();
    let other = rig.submit(vec![7; 9], 3).expect("it fits");
    for _ in 0..2 {
        rig.step();
        assert_eq!(rig.last_ids, [equal[0]]);
    }
    rig.step();
    assert_eq!(rig.last_ids, [&equal[..], &[other]].concat());
    rig.run_to_end();
    rig.check_outputs();
    // The last block of a prompt is computed by each: of 26 tokens, 24 are in whole blocks.
    assert_eq!(rig.scheduler.totals().prefill_tokens, 26 + 2 + 2 + 9);
}

#[test]
fn who_is_more_urgent_does_not_wait_for_the_same_prompt_of_another() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    rig.submit_of(1, Tier::Flex, prompt(60), 1);
    rig.step();
    let urgent = rig.submit_of(2, Tier::Priority, prompt(60), 1).expect("it fits");
    rig.step();
    assert!(rig.last_ids.contains(&urgent));
}

/// Sequences of the next step and their tokens.
fn shares(rig: &mut Rig) -> Vec<(u64, usize)> {
    let batch = rig.step().expect("work");
    let ids: Vec<_> = rig.last_ids.iter().map(|id| id.0).collect();
    ids.into_iter().zip(batch.sequences.iter().map(|sequence| sequence.query_len)).collect()
}

#[test]
fn a_user_with_a_long_prompt_does_not_hold_up_another() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    rig.submit_of(1, Tier::Default, prompt(60), 1);
    rig.step();
    rig.submit_of(2, Tier::Default, vec![7; 20], 1);
    // The first has had 16 tokens; the second counts from there, and came later.
    assert_eq!(shares(&mut rig), [(0, 16)]);
    assert_eq!(shares(&mut rig), [(0, 1), (1, 15)]);
    // 33 against 31.
    assert_eq!(shares(&mut rig), [(1, 5), (0, 11)]);
    rig.run_to_end();
    rig.check_outputs();
}

#[test]
fn users_take_turns_however_many_requests_one_has() {
    let mut rig = Rig::new(EngineConfig { max_num_seqs: 1, ..config(100, 4, &[None]) });
    let greedy: Vec<_> = (0..4).map(|_| rig.submit_of(1, Tier::Default, prompt(16), 1).expect("it fits")).collect();
    let modest = rig.submit_of(2, Tier::Default, prompt(16), 1).expect("it fits");
    rig.step();
    // The first one's prefix is cached from then on, so each step ends one of them.
    let ended: Vec<_> = (0..4)
        .map(|_| {
            rig.step();
            rig.last_ids[0]
        })
        .collect();
    assert_eq!(ended, [modest, greedy[1], greedy[2], greedy[3]]);
}

#[test]
fn every_running_sequence_gets_a_token_beside_a_long_prompt() {
    let mut rig = Rig::new(config(100, 4, &[None]));
    for party in 0..3 {
        rig.submit_of(party, Tier::Default, prompt(3), 10);
    }
    rig.step();
    rig.submit_of(9, Tier::Priority, prompt(60), 2);
    assert_eq!(shares(&mut rig), [(0, 1), (1, 1), (2, 1), (3, 13)]);
    assert_eq!(shares(&mut rig), [(3, 13), (0, 1), (1, 1), (2, 1)]);
}

#[test]
fn a_higher_tier_takes_the_place_of_a_lower_one() {
    let mut rig = Rig::new(EngineConfig { max_num_seqs: 2, ..config(100, 4, &[None]) });
    let [flex, usual] = [Tier::Flex, Tier::Default].map(|tier| rig.submit_of(1, tier, prompt(5), 9).expect("it fits"));
    rig.step();
    let later = rig.submit_of(2, Tier::Default, prompt(6), 3).expect("it fits");
    let urgent = rig.submit_of(2, Tier::Priority, prompt(7), 3).expect("it fits");
    let running = |rig: &mut Rig| {
        rig.step();
        rig.last_ids.clone()
    };
    assert_eq!(running(&mut rig), [usual, urgent], "the flexible one has gone, the other default one waits");
    rig.step();
    rig.step();
    assert_eq!(running(&mut rig), [usual, later]);
    rig.run_to_end();
    assert_eq!(rig.output(flex).len(), 9);
    rig.check_outputs();
}

#[test]
fn nothing_is_guessed_while_others_wait() {
    let mut rig = Rig::new(EngineConfig { max_num_seqs: 1, ..config(100, 4, &[None]) });
    rig.submit(prompt(5), 3);
    rig.submit(prompt(5), 3);
    let batch = rig.step_with(&mut |_, _| panic!("the second one waits")).expect("work");
    assert_eq!(batch.num_tokens(), 5);
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
    rig.scheduler.schedule(&mut |_, _| Vec::new()).expect("work");
    rig.scheduler.remove(id);
    assert_eq!(rig.scheduler.blocks().counts(), BlockCounts { free: 20, cached: 0, used: 0 });
}

#[derive(Debug, Clone)]
enum Action {
    Submit {
        prompt: Vec<u32>,
        max_new_tokens: usize,
        scores_prompt: bool,
        /// Of both few, so that they meet.
        party: Party,
        tier: Tier,
    },
    Step,
    /// Removes one of the live sequences, as a cancel or a stop token does.
    Remove(prop::sample::Index),
}

/// A prompt is the head of one of two texts, then a tail over three tokens: so many share a prefix.
fn action() -> impl Strategy<Value = Action> {
    let prompt = (0..2u32, 1..24usize, prop::collection::vec(0..3u32, 0..8))
        .prop_map(|(text, head, tail)| [(text..).take(head).collect(), tail].concat());
    let tier = prop_oneof![3 => Just(Tier::Default), 1 => Just(Tier::Flex), 1 => Just(Tier::Priority)];
    let submit = (prompt, 1..20usize, prop::bool::weighted(0.2), 0..3u64, tier).prop_map(
        |(prompt, max_new_tokens, scores_prompt, party, tier)| Action::Submit {
            prompt,
            max_new_tokens,
            scores_prompt,
            party,
            tier,
        },
    );
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
    fn any_trace_gives_the_output_of_lone_runs(
        config in any_config(),
        draft_seed in prop_oneof![Just(0), any::<usize>()],
        are_several in any::<bool>(),
        actions in prop::collection::vec(action(), 1..80),
    ) {
        let mut rig = Rig { draft_seed, are_several, ..Rig::new(config) };
        for action in actions {
            match action {
                Action::Submit { prompt, max_new_tokens, scores_prompt, party, tier } => {
                    let (party, tier) = if are_several { (party, tier) } else { Default::default() };
                    let new = NewSequence { prompt, scores_prompt, party, tier, ..NewSequence::default() };
                    let id = rig.submit_any(new, max_new_tokens);
                    rig.scored.extend(id.filter(|_| scores_prompt).map(|id| (id, 1)));
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
