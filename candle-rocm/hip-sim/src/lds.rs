//! What is in a workgroup's LDS, and who touched it since the last barrier? Checks bounds, and finds accesses of two
//! waves to the same bytes, one of them a write, that no barrier puts in order. Waves run one after the other here, so
//! such a kernel may give the right numbers by luck; on hardware it does not.

use crate::fault::Trap;
use crate::memory::POISON;
use crate::wave::{Lanes, NUM_LANES, lanes_of};

/// Marks a word that more than one wave has read since the last barrier.
const MANY: u32 = 0x3F;
const WAVE: u32 = 0x3F;
/// The access covered only a part of the word. Two such accesses may be to different bytes, and are not compared.
const PARTIAL: u32 = 0x40;
const EPOCH_SHIFT: u32 = 8;
const MAX_EPOCH: u32 = u32::MAX >> EPOCH_SHIFT;

/// Memory of one workgroup. It is kept for the next one, and so are the tags: the epoch tells old ones.
pub struct Lds {
    bytes: Vec<u8>,
    /// For each word its last writer, and its reader or `MANY`: the epoch, `PARTIAL`, and the wave's index + 1.
    writers: Vec<u32>,
    readers: Vec<u32>,
    /// Counts barriers; unique for what lies between two of them.
    epoch: u32,
}

impl Lds {
    pub fn new(size: usize) -> Lds {
        let words = size.div_ceil(4) + 1;
        Lds { bytes: vec![0; size], writers: vec![0; words], readers: vec![0; words], epoch: 0 }
    }

    /// Poisons all bytes, for the next workgroup.
    pub fn reset(&mut self) {
        for (i, byte) in self.bytes.iter_mut().enumerate() {
            *byte = POISON.to_le_bytes()[i % 4];
        }
        self.pass_barrier();
    }

    /// Accesses from here on are ordered after all earlier ones.
    pub fn pass_barrier(&mut self) {
        if self.epoch == MAX_EPOCH {
            self.writers.fill(0);
            self.readers.fill(0);
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    /// Reads `LEN` bytes (1, 2 or 4).
    #[inline]
    pub fn load<const LEN: usize>(&mut self, address: u32, wave: u32, lane: usize) -> Result<u32, Box<Trap>> {
        let at = address as usize;
        let Some(bytes) = self.bytes.get(at..at + LEN) else {
            return Err(self.out_of_bounds("reads", address, LEN, lane));
        };
        let mut word = [0; 4];
        word[..LEN].copy_from_slice(bytes);
        if LEN == 4 && at.is_multiple_of(4) {
            self.note_read(at / 4, 0, wave, lane)?;
        } else {
            for word in at / 4..=(at + LEN - 1) / 4 {
                self.note_read(word, PARTIAL, wave, lane)?;
            }
        }
        Ok(u32::from_le_bytes(word))
    }

    /// A word for each active lane; `None` where an access is unaligned, out of bounds or a race, which reading lane by
    /// lane then reports.
    #[inline]
    pub fn gather(&mut self, addresses: &Lanes, exec: u32, wave: u32) -> Option<Lanes> {
        let me = self.epoch << EPOCH_SHIFT | (wave + 1);
        let mut result = [0; NUM_LANES];
        for lane in lanes_of(exec) {
            let at = addresses[lane] as usize;
            let word = at / 4;
            let bytes = self.bytes.get(at..at.checked_add(4)?)?;
            if !at.is_multiple_of(4) || self.is_race(self.writers[word], me) {
                return None;
            }
            result[lane] = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
            let is_other = self.readers[word] >> EPOCH_SHIFT == self.epoch && self.readers[word] & WAVE != me & WAVE;
            self.readers[word] = if is_other { self.epoch << EPOCH_SHIFT | MANY } else { me };
        }
        Some(result)
    }

    /// Writes the low `LEN` bytes (1, 2 or 4) of a value.
    #[inline]
    pub fn store<const LEN: usize>(
        &mut self,
        address: u32,
        value: u32,
        wave: u32,
        lane: usize,
    ) -> Result<(), Box<Trap>> {
        let at = address as usize;
        let Some(bytes) = self.bytes.get_mut(at..at + LEN) else {
            return Err(self.out_of_bounds("writes", address, LEN, lane));
        };
        let value = value.to_le_bytes();
        let is_change = bytes != &value[..LEN];
        bytes.copy_from_slice(&value[..LEN]);
        if LEN == 4 && at.is_multiple_of(4) {
            self.note_write(at / 4, 0, is_change, wave, lane)?;
        } else {
            for word in at / 4..=(at + LEN - 1) / 4 {
                self.note_write(word, PARTIAL, is_change, wave, lane)?;
            }
        }
        Ok(())
    }

    /// Replaces an aligned word by a function of it, and returns what it was. Atomic accesses need no barrier.
    pub fn update(&mut self, address: u32, lane: usize, f: impl FnOnce(u32) -> u32) -> Result<u32, Box<Trap>> {
        let at = address as usize;
        let Some(bytes) = self.bytes.get_mut(at..at + 4) else {
            return Err(self.out_of_bounds("updates", address, 4, lane));
        };
        let old = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        bytes.copy_from_slice(&f(old).to_le_bytes());
        Ok(old)
    }

    #[inline]
    fn note_read(&mut self, word: usize, partial: u32, wave: u32, lane: usize) -> Result<(), Box<Trap>> {
        let me = self.epoch << EPOCH_SHIFT | partial | (wave + 1);
        if self.is_race(self.writers[word], me) {
            return Err(race("reads", "wrote", word, self.writers[word], wave, lane));
        }
        let before = self.readers[word];
        self.readers[word] = match before >> EPOCH_SHIFT == self.epoch {
            true if before & WAVE != wave + 1 => self.epoch << EPOCH_SHIFT | (before & partial & PARTIAL) | MANY,
            true => me & !(PARTIAL & !before),
            false => me,
        };
        Ok(())
    }

    #[inline]
    fn note_write(
        &mut self,
        word: usize,
        partial: u32,
        is_change: bool,
        wave: u32,
        lane: usize,
    ) -> Result<(), Box<Trap>> {
        let me = self.epoch << EPOCH_SHIFT | partial | (wave + 1);
        // Several waves that write the same value do no harm.
        if is_change && self.is_race(self.writers[word], me) {
            return Err(race("writes", "wrote", word, self.writers[word], wave, lane));
        }
        if is_change && self.is_race(self.readers[word], me) {
            return Err(race("writes", "read", word, self.readers[word], wave, lane));
        }
        self.writers[word] = me;
        Ok(())
    }

    #[inline]
    fn is_race(&self, other: u32, me: u32) -> bool {
        other >> EPOCH_SHIFT == self.epoch && other & WAVE != me & WAVE && other & me & PARTIAL == 0
    }

    fn out_of_bounds(&self, verb: &str, address: u32, len: usize, lane: usize) -> Box<Trap> {
        let size = self.bytes.len();
        Trap::new(format!(
            "lane {lane} {verb} {len} bytes at LDS address {address:#x}, and the workgroup has {size:#x} bytes of LDS"
        ))
    }
}

fn race(verb: &str, other_verb: &str, word: usize, other: u32, wave: u32, lane: usize) -> Box<Trap> {
    let who = match other & WAVE {
        MANY => "other waves".to_string(),
        other => format!("wave {}", other - 1),
    };
    Trap::new(format!(
        "wave {wave} lane {lane} {verb} LDS address {:#x}, which {who} {other_verb}, and there is no barrier in between",
        word * 4
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_what_another_wave_wrote_needs_a_barrier() {
        let mut lds = Lds::new(16);
        lds.reset();
        lds.store::<4>(8, 7, 0, 0).unwrap();
        let message = lds.load::<4>(8, 1, 3).unwrap_err().0;
        assert!(message.contains("wave 1 lane 3 reads LDS address 0x8, which wave 0 wrote"), "{message}");
        lds.pass_barrier();
        assert_eq!(lds.load::<4>(8, 1, 3), Ok(7));
    }

    #[test]
    fn a_write_over_what_another_wave_read_needs_a_barrier() {
        let mut lds = Lds::new(16);
        lds.reset();
        lds.load::<4>(0, 0, 0).unwrap();
        lds.load::<4>(0, 1, 0).unwrap();
        assert!(lds.store::<4>(0, 1, 1, 0).unwrap_err().0.contains("which other waves read"));
    }

    #[test]
    fn halves_of_a_word_belong_to_different_waves() {
        let mut lds = Lds::new(16);
        lds.reset();
        lds.store::<2>(0, 1, 0, 0).unwrap();
        lds.store::<2>(2, 2, 1, 0).unwrap();
        assert!(lds.load::<4>(0, 0, 0).is_err(), "one half is the other wave's");
    }

    #[test]
    fn the_last_byte_is_inside_and_the_next_is_not() {
        let mut lds = Lds::new(6);
        lds.reset();
        assert!(lds.load::<2>(4, 0, 0).is_ok());
        assert!(lds.load::<4>(4, 0, 0).is_err());
        assert!(lds.store::<1>(6, 0, 0, 0).is_err());
    }
}
