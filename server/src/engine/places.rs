//! Places for requests, running and queued: how many there are, and how many of them one party may have.
//!
//! Callers take them under a lock; the worker gives them back without one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::config::EngineConfig;
use super::request::SubmitError;
use super::shares::{ANYONE, Party};

/// The places of one engine.
pub(super) struct Places {
    limit: usize,
    /// Most places of one party. [`ANYONE`] is many, and may have them all.
    share: usize,
    taken: AtomicUsize,
    /// Places taken, of parties that have some.
    by_party: Mutex<HashMap<Party, Arc<AtomicUsize>, ahash::RandomState>>,
}

/// One of the places; given back when dropped.
pub(super) struct Place {
    places: Arc<Places>,
    of_party: Arc<AtomicUsize>,
}

impl Places {
    /// A place for each sequence that runs or waits. One party has at most as many as may run and half of the queue.
    pub(super) fn new(config: &EngineConfig) -> Self {
        let EngineConfig { max_num_seqs, max_queued_seqs, .. } = *config;
        let (limit, share) = (max_num_seqs + max_queued_seqs, max_num_seqs + max_queued_seqs.div_ceil(2));
        Self { limit, share, taken: AtomicUsize::new(0), by_party: Mutex::default() }
    }

    /// Most places that `party` can have.
    pub(super) fn limit_of(&self, party: Party) -> usize {
        if party == ANYONE { self.limit } else { self.share }
    }

    pub(super) fn take(self: &Arc<Self>, party: Party) -> Result<Place, SubmitError> {
        let mut by_party = self.by_party.lock().unwrap_or_else(PoisonError::into_inner);
        // Others only give back meanwhile, so what is free now stays free.
        if self.taken.load(Ordering::Acquire) >= self.limit {
            return Err(SubmitError::QueueFull { limit: self.limit });
        }
        by_party.retain(|_, taken| taken.load(Ordering::Acquire) > 0);
        let of_party = Arc::clone(by_party.entry(party).or_default());
        let limit = self.limit_of(party);
        if of_party.load(Ordering::Acquire) >= limit {
            return Err(SubmitError::ShareTaken { limit });
        }
        self.taken.fetch_add(1, Ordering::AcqRel);
        of_party.fetch_add(1, Ordering::AcqRel);
        Ok(Place { places: Arc::clone(self), of_party })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of_party.fetch_sub(1, Ordering::AcqRel);
        self.places.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(max_num_seqs: usize, max_queued_seqs: usize) -> Arc<Places> {
        Arc::new(Places {
            limit: max_num_seqs + max_queued_seqs,
            share: max_num_seqs + max_queued_seqs.div_ceil(2),
            taken: AtomicUsize::new(0),
            by_party: Mutex::default(),
        })
    }

    fn take(places: &Arc<Places>, party: Party, count: usize) -> Vec<Place> {
        (0..count).map(|_| places.take(party).map_err(|error| error.to_string()).expect("free")).collect()
    }

    #[test]
    fn one_party_leaves_half_of_the_queue_to_others() {
        let places = places(2, 5);
        let held = take(&places, 7, 5);
        assert_eq!(places.take(7).err(), Some(SubmitError::ShareTaken { limit: 5 }));
        let others = [take(&places, 8, 1), take(&places, ANYONE, 1)];
        assert_eq!(places.take(8).err(), Some(SubmitError::QueueFull { limit: 7 }));
        drop(held);
        take(&places, 7, 5);
        drop(others);
    }

    #[test]
    fn those_that_say_nothing_are_many_and_may_fill_the_queue() {
        let places = places(1, 3);
        let _held = take(&places, ANYONE, 4);
        assert_eq!(places.take(ANYONE).err(), Some(SubmitError::QueueFull { limit: 4 }));
    }

    #[test]
    fn nobody_is_remembered_who_has_given_all_back() {
        let places = places(10, 10);
        (1..1000).for_each(|party| drop(take(&places, party, 1)));
        assert!(places.by_party.lock().expect("no one has panicked").len() <= 1);
    }
}
