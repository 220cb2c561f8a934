//! Who is served before whom: a higher tier first, within it who has had less compute time, and then who came first.
//!
//! Fair queueing by virtual time, as "Fairness in Serving Large Language Models" (Sheng et al., 2024) has it for tokens, but
//! counted in the seconds that steps really took. Who was idle gets no credit for it: else they could come back and hold up
//! everyone else until it is used.

use std::collections::HashMap;

/// Whose requests share what they get: a key, or a user. Requests that say nothing share one, [`ANYONE`].
pub type Party = u64;

/// The party of requests that say nothing.
pub const ANYONE: Party = 0;

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

/// The seconds that each party has had in each tier, of those that have requests there. Tiers do not share: whoever waits in a
/// low one for long would else give newcomers in another the little that it had.
#[derive(Debug, Default)]
pub struct Shares {
    tiers: [HashMap<Party, Share, ahash::RandomState>; 3],
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    seconds: f64,
    /// Requests, running and waiting.
    requests: usize,
}

impl Shares {
    /// A request of `party` has come. The first one of a party counts from where the least served of the others is.
    pub fn enter(&mut self, tier: Tier, party: Party) {
        let least = self.least(tier).unwrap_or(0.0);
        let share = self.tiers[tier as usize].entry(party).or_default();
        if share.requests == 0 {
            share.seconds = share.seconds.max(least);
        }
        share.requests += 1;
    }

    /// A request of `party` has ended.
    pub fn leave(&mut self, tier: Tier, party: Party) {
        if let Some(share) = self.tiers[tier as usize].get_mut(&party) {
            share.requests -= 1;
        }
        // Whom the least served of the others has caught up with begins as if new.
        let least = self.least(tier);
        let is_owed = |share: &Share| least.is_some_and(|least| share.seconds > least);
        self.tiers[tier as usize].retain(|_, share| share.requests > 0 || is_owed(share));
    }

    /// `party` has had `seconds` of a step.
    pub fn charge(&mut self, tier: Tier, party: Party, seconds: f64) {
        if let Some(share) = self.tiers[tier as usize].get_mut(&party) {
            share.seconds += seconds;
        }
    }

    /// Seconds that `party` has had.
    pub fn seconds(&self, tier: Tier, party: Party) -> f64 {
        self.tiers[tier as usize].get(&party).map_or(0.0, |share| share.seconds)
    }

    /// Seconds of the least served party that has requests.
    fn least(&self, tier: Tier) -> Option<f64> {
        let present = self.tiers[tier as usize].values().filter(|share| share.requests > 0);
        present.map(|share| share.seconds).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_idle_begins_with_the_least_served_of_the_others() {
        let mut shares = Shares::default();
        shares.enter(Tier::Default, 1);
        shares.enter(Tier::Default, 2);
        shares.charge(Tier::Default, 1, 5.0);
        shares.charge(Tier::Default, 2, 3.0);
        shares.enter(Tier::Default, 3);
        assert_eq!(shares.seconds(Tier::Default, 3), 3.0);
    }

    #[test]
    fn who_comes_back_at_once_has_not_lost_what_they_had_too_much() {
        let mut shares = Shares::default();
        shares.enter(Tier::Default, 1);
        shares.enter(Tier::Default, 2);
        shares.charge(Tier::Default, 1, 5.0);
        shares.leave(Tier::Default, 1);
        shares.enter(Tier::Default, 1);
        assert_eq!(shares.seconds(Tier::Default, 1), 5.0);
    }

    #[test]
    fn nobody_is_remembered_who_has_been_caught_up_with() {
        let mut shares = Shares::default();
        for party in 0..1000 {
            shares.enter(Tier::Default, party);
            shares.charge(Tier::Default, party, 1.0);
            shares.leave(Tier::Default, party);
        }
        assert_eq!(shares.tiers[Tier::Default as usize].len(), 0);
    }

    #[test]
    fn who_waits_in_a_low_tier_is_no_measure_for_others() {
        let mut shares = Shares::default();
        shares.enter(Tier::Flex, 1);
        shares.enter(Tier::Default, 2);
        shares.charge(Tier::Default, 2, 100.0);
        shares.enter(Tier::Default, 3);
        assert_eq!(shares.seconds(Tier::Default, 3), 100.0);
    }
}
