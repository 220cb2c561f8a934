//! Which requests are there and how far they are, for `/slots`. No text is kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taper_openapi::props::{NextToken, Slot};

use crate::engine::Progress;

/// The requests that have been submitted and not ended.
#[derive(Debug, Default)]
pub struct Slots {
    next_task: AtomicU64,
    tasks: Mutex<BTreeMap<u64, Arc<Task>>>,
}

#[derive(Debug)]
struct Task {
    progress: Arc<Progress>,
    prompt_tokens: usize,
    max_tokens: usize,
    decoded: AtomicUsize,
}

impl Slots {
    /// Notes a request until the guard is dropped.
    pub fn enter(self: &Arc<Self>, progress: &Arc<Progress>, prompt_tokens: usize, max_tokens: usize) -> SlotGuard {
        let id = self.next_task.fetch_add(1, Ordering::Relaxed);
        let decoded = AtomicUsize::new(0);
        let task = Arc::new(Task { progress: Arc::clone(progress), prompt_tokens, max_tokens, decoded });
        self.lock().insert(id, Arc::clone(&task));
        SlotGuard { slots: Arc::clone(self), id, task }
    }

    /// `count` slots: first those of running requests, then free ones.
    pub fn list(&self, count: usize, context: usize) -> Vec<Slot> {
        let tasks = self.lock().clone();
        let running = tasks.iter().filter(|(_, task)| task.progress.is_running()).map(Some);
        let slots = running.chain(std::iter::repeat(None)).take(count).enumerate();
        slots.map(|(id, task)| slot(id as u64, task, context as u64)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Task>>> {
        // The map is whole after every operation, so a panic elsewhere does not spoil it.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn slot(id: u64, task: Option<(&u64, &Arc<Task>)>, n_ctx: u64) -> Slot {
    let free = Slot {
        id,
        id_task: -1,
        n_ctx,
        speculative: false,
        is_processing: false,
        n_prompt_tokens: 0,
        n_prompt_tokens_processed: 0,
        n_prompt_tokens_cache: 0,
        n_decoded: 0,
        next_token: vec![NextToken::default()],
    };
    let Some((task_id, task)) = task else { return free };
    let decoded = task.decoded.load(Ordering::Relaxed);
    let cached = task.progress.cached().min(task.prompt_tokens);
    let processed = task.progress.computed().min(task.prompt_tokens).saturating_sub(cached);
    let n_remain = task.max_tokens.saturating_sub(decoded) as i64;
    Slot {
        id_task: *task_id as i64,
        is_processing: true,
        n_prompt_tokens: task.prompt_tokens as u64,
        n_prompt_tokens_processed: processed as u64,
        n_prompt_tokens_cache: cached as u64,
        n_decoded: decoded as u64,
        next_token: vec![NextToken { has_next_token: n_remain > 0, n_decoded: decoded as u64, n_remain }],
        ..free
    }
}

/// One request's entry; gone when dropped.
#[derive(Debug)]
pub struct SlotGuard {
    slots: Arc<Slots>,
    id: u64,
    task: Arc<Task>,
}

impl SlotGuard {
    pub fn set_decoded(&self, count: usize) {
        self.task.decoded.store(count, Ordering::Relaxed);
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.id);
    }
}
