//! What is in a workgroup's LDS, and who touched it since the last barrier? Checks bounds, and finds accesses of two
//! waves to the same bytes, one of them a write, that no barrier puts in order. Waves run one after the other here, so
//! such a kernel may give the right numbers by luck; on hardware it does not.

use crate::fault::Trap;
use crate::memory::POISON;
use crate::wave::{Lanes, NUM_LANES, lanes_of};

/// Who accesses LDS: a wave of the workgroup, and the index of its instruction.
#[derive(Clone, Copy)]
pub struct Access {
    pub wave: u32,
    pub pc: u32,
}

/// An access as it is remembered: the epoch in the upper half, the instruction in bits 8 to 31, and these.
type Tag = u64;
const WAVE: Tag = 0x3F;
/// In place of a wave: several of them.
const MANY: Tag = 0x3F;
/// The access was atomic; any number of such may meet.
const ATOMIC: Tag = 0x40;
/// Bytes of the word were accessed by themselves, and each has a tag of its own.
const SPLIT: Tag = 0x80;
const PC_SHIFT: u32 = 8;
const MAX_PC: Tag = 0xFF_FFFF;
const EPOCH_SHIFT: u32 = 32;

/// All bytes of a word.
const WHOLE: u32 = 0b1111;

/// The last accesses of one kind: for each word or, where waves share a word, for each byte.
struct Tags {
    words: Vec<Tag>,
    bytes: Vec<[Tag; 4]>,
}

impl Tags {
    fn new(num_words: usize) -> Tags {
        Tags { words: vec![0; num_words], bytes: vec![[0; 4]; num_words] }
    }

    /// The access of another wave since the last barrier to one of the bytes in `mask`; `me` is the tag of this one.
    #[inline]
    fn other(&self, word: usize, mask: u32, me: Tag) -> Option<Tag> {
        let tag = self.words[word];
        if !is_current(tag, me) {
            None
        } else if tag & SPLIT == 0 {
            is_other(tag, me).then_some(tag)
        } else {
            bytes_of(mask).map(|byte| self.bytes[word][byte]).find(|tag| is_other(*tag, me))
        }
    }

    /// Remembers an access, as `join` makes it from the one that was remembered.
    #[inline]
    fn note(&mut self, word: usize, mask: u32, me: Tag, join: impl Fn(Tag) -> Tag) {
        let tag = self.words[word];
        let is_split = is_current(tag, me) && tag & SPLIT != 0;
        if mask == WHOLE && !is_split {
            self.words[word] = join(tag);
            return;
        }
        if !is_split {
            self.bytes[word] = [if is_current(tag, me) { tag } else { 0 }; 4];
            self.words[word] = me | SPLIT;
        }
        for byte in bytes_of(mask) {
            self.bytes[word][byte] = join(self.bytes[word][byte]);
        }
    }
}

#[inline]
fn is_current(tag: Tag, me: Tag) -> bool {
    tag >> EPOCH_SHIFT == me >> EPOCH_SHIFT
}

#[inline]
fn is_other(tag: Tag, me: Tag) -> bool {
    is_current(tag, me) && (tag ^ me) & WAVE != 0
}

/// Since the last barrier; epochs ascend, so that one comparison of whole tags says it.
#[inline]
fn is_since(tag: Tag, me: Tag) -> bool {
    tag >= me >> EPOCH_SHIFT << EPOCH_SHIFT
}

/// Another wave's, or one of single bytes.
#[inline]
fn is_in_the_way(tag: Tag, me: Tag) -> bool {
    is_since(tag, me) & ((tag ^ me) & (WAVE | SPLIT) != 0)
}

fn bytes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..4).filter(move |byte| mask >> byte & 1 == 1)
}

/// A read beside those before it: the readers' number is all that counts.
#[inline]
fn join_read(before: Tag, me: Tag) -> Tag {
    if is_other(before, me) { me | MANY } else { me }
}

/// An atomic update beside writes before it; a plain write of the same wave stays, since others must not pass it.
fn join_update(before: Tag, me: Tag) -> Tag {
    match (is_current(before, me), before & ATOMIC != 0) {
        (true, true) if is_other(before, me) => me | MANY,
        (true, false) => before,
        _ => me,
    }
}

/// The words that `len` bytes at an address lie in, with the bytes in each.
fn parts(at: usize, len: usize) -> impl Iterator<Item = (usize, u32)> {
    let mask = ((1u32 << len) - 1) << (at % 4);
    [(at / 4, mask & WHOLE), (at / 4 + 1, mask >> 4)].into_iter().filter(|(_, mask)| *mask != 0)
}

/// Memory of one workgroup. It is kept for the next one, and so are the tags: the epoch tells old ones.
pub struct Lds {
    bytes: Vec<u8>,
    writers: Tags,
    readers: Tags,
    /// Counts barriers; unique for what lies between two of them. No launch has 2^32.
    epoch: u32,
}

impl Lds {
    pub fn new(size: usize) -> Lds {
        let num_words = size.div_ceil(4) + 1;
        Lds { bytes: vec![0; size], writers: Tags::new(num_words), readers: Tags::new(num_words), epoch: 0 }
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
        self.epoch += 1;
    }

    #[inline]
    fn tag(&self, access: Access) -> Tag {
        let pc = Tag::from(access.pc).min(MAX_PC);
        Tag::from(self.epoch) << EPOCH_SHIFT | pc << PC_SHIFT | Tag::from(access.wave + 1)
    }

    /// Reads `LEN` bytes (1, 2 or 4).
    #[inline]
    pub fn load<const LEN: usize>(&mut self, address: u32, access: Access, lane: usize) -> Result<u32, Box<Trap>> {
        let at = address as usize;
        let Some(bytes) = self.bytes.get(at..at + LEN) else {
            return Err(self.out_of_bounds("reads", address, LEN, lane));
        };
        let mut value = [0; 4];
        value[..LEN].copy_from_slice(bytes);
        if LEN == 4 && at.is_multiple_of(4) {
            self.note_read(at / 4, WHOLE, address, access, lane)?;
        } else {
            for (word, mask) in parts(at, LEN) {
                self.note_read(word, mask, address, access, lane)?;
            }
        }
        Ok(u32::from_le_bytes(value))
    }

    #[inline]
    fn note_read(
        &mut self,
        word: usize,
        mask: u32,
        address: u32,
        access: Access,
        lane: usize,
    ) -> Result<(), Box<Trap>> {
        let me = self.tag(access);
        if let Some(other) = self.writers.other(word, mask, me) {
            return Err(race("reads", address, "wrote", other, lane, access.wave));
        }
        self.readers.note(word, mask, me, |before| join_read(before, me));
        Ok(())
    }

    /// `N` words for each active lane; `None` where an access is unaligned, out of bounds, a race or of a word that waves
    /// share: reading lane by lane then does the rest.
    #[inline]
    pub fn gather<const N: usize>(&mut self, addresses: &Lanes, exec: u32, access: Access) -> Option<[Lanes; N]> {
        let me = self.tag(access);
        let mut result = [[0; NUM_LANES]; N];
        for lane in lanes_of(exec) {
            let at = addresses[lane] as usize;
            let bytes = self.bytes.get(at..at.checked_add(4 * N)?)?;
            let writers = self.writers.words.get(at / 4..at / 4 + N)?;
            let readers = self.readers.words.get_mut(at / 4..at / 4 + N)?;
            let is_split = |tag: Tag| is_since(tag, me) && tag & SPLIT != 0;
            let is_hard = |word: usize| is_in_the_way(writers[word], me) | is_split(readers[word]);
            if !at.is_multiple_of(4) || (0..N).fold(false, |any, word| any | is_hard(word)) {
                return None;
            }
            for word in 0..N {
                result[word][lane] = u32::from_le_bytes(bytes[4 * word..][..4].try_into().expect("4 bytes"));
                readers[word] = join_read(readers[word], me);
            }
        }
        Some(result)
    }

    /// Writes `N` words of one lane where that is simple; `false` where word by word has to see.
    #[inline]
    pub fn scatter<const N: usize>(&mut self, address: u32, values: [u32; N], access: Access) -> bool {
        let (at, me) = (address as usize, self.tag(access));
        let places = (
            self.bytes.get_mut(at..at + 4 * N),
            self.writers.words.get_mut(at / 4..at / 4 + N),
            self.readers.words.get(at / 4..at / 4 + N),
        );
        let (Some(bytes), Some(writers), Some(readers)) = places else { return false };
        let is_hard = |word: usize| is_in_the_way(writers[word], me) | is_in_the_way(readers[word], me);
        if !at.is_multiple_of(4) || (0..N).fold(false, |any, word| any | is_hard(word)) {
            return false;
        }
        for word in 0..N {
            bytes[4 * word..][..4].copy_from_slice(&values[word].to_le_bytes());
            writers[word] = me;
        }
        true
    }

    /// Writes the low `LEN` bytes (1, 2 or 4) of a value.
    #[inline]
    pub fn store<const LEN: usize>(
        &mut self,
        address: u32,
        value: u32,
        access: Access,
        lane: usize,
    ) -> Result<(), Box<Trap>> {
        let at = address as usize;
        let Some(bytes) = self.bytes.get_mut(at..at + LEN) else {
            return Err(self.out_of_bounds("writes", address, LEN, lane));
        };
        let value = value.to_le_bytes();
        // Several waves that write the same value do no harm.
        let is_change = bytes != &value[..LEN];
        bytes.copy_from_slice(&value[..LEN]);
        let check = is_change.then_some((address, lane));
        if LEN == 4 && at.is_multiple_of(4) {
            return self.note_write(at / 4, WHOLE, access, check);
        }
        parts(at, LEN).try_for_each(|(word, mask)| self.note_write(word, mask, access, check))
    }

    /// With an address and a lane to report, looks for a race first.
    #[inline]
    fn note_write(
        &mut self,
        word: usize,
        mask: u32,
        access: Access,
        check: Option<(u32, usize)>,
    ) -> Result<(), Box<Trap>> {
        let me = self.tag(access);
        if let Some((address, lane)) = check {
            if let Some(other) = self.writers.other(word, mask, me) {
                return Err(race("writes", address, "wrote", other, lane, access.wave));
            }
            if let Some(other) = self.readers.other(word, mask, me) {
                return Err(race("writes", address, "read", other, lane, access.wave));
            }
        }
        self.writers.note(word, mask, me, |_| me);
        Ok(())
    }

    /// Replaces an aligned word by a function of it, and returns what it was. Among themselves, atomic accesses need no
    /// barrier.
    pub fn update(
        &mut self,
        address: u32,
        access: Access,
        lane: usize,
        f: impl FnOnce(u32) -> u32,
    ) -> Result<u32, Box<Trap>> {
        let at = address as usize;
        if !at.is_multiple_of(4) {
            return Err(Trap::new(format!(
                "lane {lane} updates 4 bytes at LDS address {address:#x}, which is not aligned to them"
            )));
        }
        let Some(bytes) = self.bytes.get_mut(at..at + 4) else {
            return Err(self.out_of_bounds("updates", address, 4, lane));
        };
        let old = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        bytes.copy_from_slice(&f(old).to_le_bytes());
        let me = self.tag(access) | ATOMIC;
        if let Some(other) = self.writers.other(at / 4, WHOLE, me).filter(|other| other & ATOMIC == 0) {
            return Err(race("updates", address, "wrote", other, lane, access.wave));
        }
        if let Some(other) = self.readers.other(at / 4, WHOLE, me) {
            return Err(race("updates", address, "read", other, lane, access.wave));
        }
        self.writers.note(at / 4, WHOLE, me, |before| join_update(before, me));
        Ok(old)
    }

    fn out_of_bounds(&self, verb: &str, address: u32, len: usize, lane: usize) -> Box<Trap> {
        let size = self.bytes.len();
        Trap::new(format!(
            "lane {lane} {verb} {len} bytes at LDS address {address:#x}, and the workgroup has {size:#x} bytes of LDS"
        ))
    }
}

fn race(verb: &str, address: u32, other_verb: &str, other: Tag, lane: usize, wave: u32) -> Box<Trap> {
    let who = match other & WAVE {
        MANY => "other waves".to_string(),
        other => format!("wave {}", other - 1),
    };
    let other_verb = if other & ATOMIC == 0 { other_verb } else { "updated" };
    let what = format!("wave {wave} lane {lane} {verb} LDS address {address:#x}, which {who} {other_verb}");
    let rest = "and there is no barrier in between".to_string();
    Box::new(Trap { what, other_side: Some(((other >> PC_SHIFT & MAX_PC) as u32, rest)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(wave: u32) -> Access {
        Access { wave, pc: 0 }
    }

    fn lds(size: usize) -> Lds {
        let mut lds = Lds::new(size);
        lds.reset();
        lds
    }

    #[test]
    fn a_read_of_what_another_wave_wrote_needs_a_barrier() {
        let mut lds = lds(16);
        lds.store::<4>(8, 7, Access { wave: 0, pc: 42 }, 0).unwrap();
        let trap = lds.load::<4>(8, by(1), 3).unwrap_err();
        assert_eq!(trap.what, "wave 1 lane 3 reads LDS address 0x8, which wave 0 wrote");
        assert_eq!(trap.other_side.map(|side| side.0), Some(42));
        lds.pass_barrier();
        assert_eq!(lds.load::<4>(8, by(1), 3), Ok(7));
    }

    #[test]
    fn a_write_over_what_another_wave_read_needs_a_barrier() {
        let mut lds = lds(16);
        lds.load::<4>(0, by(0), 0).unwrap();
        lds.load::<4>(0, by(1), 0).unwrap();
        assert!(lds.store::<4>(0, 1, by(1), 0).unwrap_err().what.contains("which other waves read"));
    }

    #[test]
    fn halves_of_a_word_belong_to_different_waves() {
        let mut lds = lds(16);
        lds.store::<2>(0, 1, by(0), 0).unwrap();
        lds.store::<2>(2, 2, by(1), 0).unwrap();
        assert_eq!(lds.load::<2>(0, by(0), 0), Ok(1), "each reads its own");
        assert_eq!(lds.load::<2>(2, by(1), 0), Ok(2));
        assert!(lds.load::<4>(0, by(0), 0).is_err(), "one half is the other wave's");
        assert!(lds.gather::<1>(&[0; NUM_LANES], 1, by(0)).is_none());
        assert!(!lds.scatter(0, [7], by(0)));
    }

    #[test]
    fn two_waves_at_the_same_half_or_byte_need_a_barrier() {
        let mut lds = lds(16);
        lds.store::<2>(2, 1, by(0), 0).unwrap();
        lds.store::<2>(0, 1, by(1), 0).unwrap();
        assert!(
            lds.load::<2>(2, by(1), 0).unwrap_err().what.contains("which wave 0 wrote"),
            "the first writer is kept"
        );
        assert!(lds.store::<1>(3, 9, by(1), 0).is_err());
        assert!(lds.load::<1>(0, by(0), 0).is_err());
        lds.load::<1>(8, by(0), 0).unwrap();
        lds.store::<1>(9, 1, by(1), 0).unwrap();
        assert!(lds.store::<1>(8, 1, by(1), 0).unwrap_err().what.contains("which wave 0 read"));
    }

    #[test]
    fn halves_of_a_word_that_another_wave_wrote_whole_need_a_barrier() {
        let mut lds = lds(16);
        lds.store::<4>(4, 1, by(0), 0).unwrap();
        assert!(lds.load::<2>(6, by(1), 0).is_err());
    }

    #[test]
    fn atomics_meet_each_other_but_not_plain_accesses() {
        let mut lds = lds(16);
        lds.update(0, by(0), 0, |_| 1).unwrap();
        assert_eq!(lds.update(0, by(1), 0, |x| x + 1), Ok(1));
        assert!(lds.load::<4>(0, by(2), 0).unwrap_err().what.contains("which other waves updated"));
        assert!(lds.load::<4>(0, by(0), 0).is_err(), "also by one of the waves that updated it");
        lds.pass_barrier();
        lds.store::<4>(0, 5, by(0), 0).unwrap();
        lds.update(0, by(0), 0, |x| x).unwrap();
        assert!(lds.update(0, by(1), 0, |x| x).unwrap_err().what.contains("which wave 0 wrote"));
        assert!(lds.update(2, by(1), 0, |x| x).unwrap_err().what.contains("not aligned"));
    }

    #[test]
    fn the_last_byte_is_inside_and_the_next_is_not() {
        let mut lds = lds(6);
        assert!(lds.load::<2>(4, by(0), 0).is_ok());
        assert!(lds.load::<4>(4, by(0), 0).is_err());
        assert!(lds.store::<1>(6, 0, by(0), 0).is_err());
    }
}
