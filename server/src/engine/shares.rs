//! Who is served before whom: a higher tier first, within it who has had less compute time, and then who came first.
//!
//! Fair queueing by virtual time, as "Fairness in Serving Large Language Models" (Sheng et al., 2024) has it for tokens, but
//! counted in the seconds that steps really took. Who was idle gets no credit for it: else they could come back and hold up
//! everyone else until it is used.

use std::collections::HashMap;

/// Whose requests share what they get: a key, or a user. Requests that say nothing share one.
pub type Party = u64;

/// How urgent a request is; OpenAI's `service_tier`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// When nothing else is to be done.
    Flex,
    #[default]
    Default,
    /// Before all others.
    Priority,
}

/// The seconds that each party has had, of those that have requests here.
#[derive(Debug, Default)]
pub struct Shares {
    parties: HashMap<Party, Share>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    seconds: f64,
    /// Requests, running and waiting.
    requests: usize,
}

impl Shares {
    /// A request of `party` has come. The first one of a party counts from where the least served of the others is.
    pub fn enter(&mut self, party: Party) {
        let least = self.parties.values().filter(|share| share.requests > 0).map(|share| share.seconds);
        let least = least.min_by(f64::total_cmp).unwrap_or(0.0);
        let share = self.parties.entry(party).or_default();
        if share.requests == 0 {
            share.seconds = share.seconds.max(least);
        }
        share.requests += 1;
    }

    /// A request of `party` has ended.
    pub fn leave(&mut self, party: Party) {
        if let Some(share) = self.parties.get_mut(&party) {
            share.requests -= 1;
        }
        // Whom the least served of the others has caught up with begins as if new.
        let present = self.parties.values().filter(|share| share.requests > 0).map(|share| share.seconds);
        let least = present.min_by(f64::total_cmp);
        self.parties.retain(|_, share| share.requests > 0 || least.is_some_and(|least| share.seconds > least));
    }

    /// `party` has had `seconds` of a step.
    pub fn charge(&mut self, party: Party, seconds: f64) {
        if let Some(share) = self.parties.get_mut(&party) {
            share.seconds += seconds;
        }
    }

    /// Seconds that `party` has had.
    pub fn seconds(&self, party: Party) -> f64 {
        self.parties.get(&party).map_or(0.0, |share| share.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_idle_begins_with_the_least_served_of_the_others() {
        let mut shares = Shares::default();
        shares.enter(1);
        shares.enter(2);
        shares.charge(1, 5.0);
        shares.charge(2, 3.0);
        shares.enter(3);
        assert_eq!(shares.seconds(3), 3.0);
    }

    #[test]
    fn who_comes_back_at_once_has_not_lost_what_they_had_too_much() {
        let mut shares = Shares::default();
        shares.enter(1);
        shares.enter(2);
        shares.charge(1, 5.0);
        shares.leave(1);
        shares.enter(1);
        assert_eq!(shares.seconds(1), 5.0);
    }

    #[test]
    fn nobody_is_remembered_who_has_been_caught_up_with() {
        let mut shares = Shares::default();
        for party in 0..1000 {
            shares.enter(party);
            shares.charge(party, 1.0);
            shares.leave(party);
        }
        assert_eq!(shares.parties.len(), 0);
    }
}
