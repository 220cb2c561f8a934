//! Which device memory does a piece of work touch? With the option `races`, pieces of 64 bytes that copies, fills and
//! launches read and write, so that two works that nothing orders are found when they meet.

use crate::wave::{NUM_LANES, lanes_of};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const PIECE: u64 = 64;
const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// Pieces by number, and whether each is read, written or both.
#[derive(Clone, Default)]
pub struct Touched(BTreeMap<u64, u8>);

/// Two works that meet: the address, and whether the first and the second write there.
#[derive(Debug, PartialEq)]
pub struct Meeting {
    pub address: u64,
    pub first_writes: bool,
    pub second_writes: bool,
}

impl Touched {
    pub fn add(&mut self, address: u64, len: u64, is_write: bool) {
        let flag = if is_write { WRITTEN } else { READ };
        for piece in address / PIECE..=address.saturating_add(len.max(1) - 1) / PIECE {
            *self.0.entry(piece).or_default() |= flag;
        }
    }

    /// A piece that both touch and one writes.
    pub fn meets(&self, other: &Touched) -> Option<Meeting> {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let is_conflict = |piece: &&u64| {
            let both = few.0[*piece] | many.0.get(*piece).copied().unwrap_or(0);
            many.0.contains_key(*piece) && both & WRITTEN != 0
        };
        let piece = few.0.keys().find(is_conflict)?;
        let writes = |touched: &Touched| touched.0[piece] & WRITTEN != 0;
        Some(Meeting { address: piece * PIECE, first_writes: writes(self), second_writes: writes(other) })
    }
}

/// What the workgroups of one launch touch together.
#[derive(Default)]
pub struct Recorder(Mutex<Touched>);

impl Recorder {
    pub fn add(&self, addresses: &[u64; NUM_LANES], exec: u32, len: u64, is_write: bool) {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lanes_of(exec).for_each(|lane| touched.add(addresses[lane], len, is_write));
    }

    pub fn into_touched(self) -> Touched {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readers_do_not_meet_and_a_writer_meets_both_kinds() {
        let range = |address, len, is_write| {
            let mut touched = Touched::default();
            touched.add(address, len, is_write);
            touched
        };
        assert_eq!(range(0, 100, false).meets(&range(64, 1, false)), None);
        assert_eq!(range(0, 64, true).meets(&range(64, 64, false)), None, "neighbours");
        let meeting = range(0, 65, false).meets(&range(64, 64, true));
        assert_eq!(meeting, Some(Meeting { address: 64, first_writes: false, second_writes: true }));
    }
}
