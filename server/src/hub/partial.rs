//! A file that is not whole yet: its bytes, written in any order, and a note of which of them can be trusted.
//!
//! The note lies beside the bytes: a line for each range, written after its bytes are on the disk. What is not noted is
//! downloaded again, so a crash at any moment costs time only. Both names end in `.incomplete`, so that other tools see
//! what they are, but are not those that `huggingface_hub` continues: it would take the length of the file, which may
//! have holes, for what is there.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

/// The bytes and the note. While it exists, nobody else writes to either.
pub(super) struct Partial {
    size: u64,
    /// Bytes that the user was told are here.
    pub reported: AtomicU64,
    bytes: File,
    note: Mutex<File>,
    blob: PathBuf,
    bytes_path: PathBuf,
    note_path: PathBuf,
    /// Held to the end, even by a task that outlives the pull.
    _lock: File,
}

impl Partial {
    /// Opens what an earlier pull left of `blob`, or begins; and says which ranges are there.
    pub fn open(blob: &Path, size: u64, lock: File) -> io::Result<(Self, Vec<Range<u64>>)> {
        let (bytes_path, note_path) = paths(blob);
        let present = present(blob, size);
        if present.is_empty() {
            remove(blob)?;
        }
        let mut options = OpenOptions::new();
        let bytes = options.create(true).truncate(false).write(true).open(&bytes_path)?;
        let note = Mutex::new(fresh_note(&note_path, size, &present)?);
        let blob = blob.to_owned();
        let reported = AtomicU64::new(length(&present));
        Ok((Self { size, reported, bytes, note, blob, bytes_path, note_path, _lock: lock }, present))
    }

    /// Writes `bytes` at `offset`. They do not count before they are noted.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.bytes.write_all_at(bytes, offset)
    }

    /// Notes that `range` was written.
    pub fn note(&self, range: &Range<u64>) -> io::Result<()> {
        // The order matters: a note of bytes that are not on the disk would be a lie after a crash.
        self.bytes.sync_data()?;
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        note.write_all(line(range).as_bytes())?;
        note.sync_data()
    }

    /// Forgets all that is noted.
    pub fn forget(&self) -> io::Result<()> {
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        *note = fresh_note(&self.note_path, self.size, &[])?;
        Ok(())
    }

    /// Where the bytes lie.
    pub fn path(&self) -> &Path {
        &self.bytes_path
    }

    /// Makes the file, which is whole now, the blob.
    pub fn finish(&self) -> io::Result<()> {
        self.bytes.sync_all()?;
        std::fs::rename(&self.bytes_path, &self.blob)?;
        remove(&self.blob)
    }
}

/// Removes what there is of an unfinished `blob`.
pub(super) fn remove(blob: &Path) -> io::Result<()> {
    let (bytes, note) = paths(blob);
    // The note first: bytes without a note are worth nothing, and do no harm.
    for path in [note, bytes] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The ranges of `blob` that an earlier pull has noted, in order and joined.
pub(super) fn present(blob: &Path, size: u64) -> Vec<Range<u64>> {
    let (bytes, note) = paths(blob);
    let end = bytes.metadata().map_or(0, |metadata| metadata.len());
    let note = std::fs::read_to_string(note).unwrap_or_default();
    joined(noted(&note, size).into_iter().filter(|range| range.end <= end).collect())
}

/// How many bytes are in `ranges`.
pub(super) fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// What of `size` bytes is not in `present`, in pieces of at most `piece` bytes.
pub(super) fn missing(present: &[Range<u64>], size: u64, piece: u64) -> Vec<Range<u64>> {
    let starts = std::iter::once(0).chain(present.iter().map(|range| range.end));
    let ends = present.iter().map(|range| range.start).chain([size]);
    starts.zip(ends).flat_map(|(start, end)| pieces(start..end, piece)).collect()
}

fn pieces(range: Range<u64>, piece: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(usize::try_from(piece).unwrap_or(usize::MAX)).map(move |start| start..end.min(start + piece))
}

fn paths(blob: &Path) -> (PathBuf, PathBuf) {
    let name = blob.file_name().unwrap_or_default().to_string_lossy();
    let beside = |ending: &str| blob.with_file_name(format!("{name}{ending}"));
    (beside(".taper.incomplete"), beside(".taper-ranges.incomplete"))
}

/// Writes a note of `present`, without the half line that a crash may have left in the old one.
fn fresh_note(path: &Path, size: u64, present: &[Range<u64>]) -> io::Result<File> {
    let mut note = File::create(path)?;
    note.write_all(header(size).as_bytes())?;
    present.iter().try_for_each(|range| note.write_all(line(range).as_bytes()))?;
    note.sync_data()?;
    Ok(note)
}

/// The first line: what is meant for another size says nothing about this file.
fn header(size: u64) -> String {
    format!("of {size}\n")
}

fn line(range: &Range<u64>) -> String {
    format!("{} {}\n", range.start, range.end)
}

/// The ranges in a note. It ends at the first line that is not whole.
fn noted(note: &str, size: u64) -> Vec<Range<u64>> {
    let Some(lines) = note.strip_prefix(&header(size)) else { return Vec::new() };
    lines.split_inclusive('\n').map_while(|line| range(line, size)).collect()
}

fn range(line: &str, size: u64) -> Option<Range<u64>> {
    let (start, end) = line.strip_suffix('\n')?.split_once(' ')?;
    let range = start.parse().ok()?..end.parse().ok()?;
    (range.start < range.end && range.end <= size).then_some(range)
}

fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(range: Range<u64>) -> Vec<Range<u64>> {
        vec![range]
    }

    fn lock() -> File {
        tempfile::tempfile().unwrap()
    }

    #[test]
    fn what_was_noted_is_there_when_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let blob = directory.path().join("abc");
        let (partial, present) = Partial::open(&blob, 100, lock()).unwrap();
        assert_eq!(present, []);
        partial.write(&[7; 20], 40).unwrap();
        partial.note(&(40..60)).unwrap();
        partial.write(&[7; 20], 60).unwrap();
        drop(partial);
        assert_eq!(Partial::open(&blob, 100, lock()).unwrap().1, only(40..60));
    }

    #[test]
    fn bytes_that_someone_cut_off_are_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let blob = directory.path().join("abc");
        let (partial, _) = Partial::open(&blob, 100, lock()).unwrap();
        partial.write(&[7; 100], 0).unwrap();
        partial.note(&(0..10)).unwrap();
        partial.note(&(50..100)).unwrap();
        partial.bytes.set_len(99).unwrap();
        assert_eq!(present(&blob, 100), only(0..10));
    }

    #[test]
    fn a_note_of_another_size_says_nothing() {
        assert_eq!(noted("of 99\n0 10\n", 100), []);
    }

    #[test]
    fn a_note_ends_at_the_line_that_a_crash_has_torn() {
        assert_eq!(noted("of 100\n0 10\n10 2", 100), only(0..10));
        assert_eq!(noted("of 100\n0 10\n10\n20 30\n", 100), only(0..10));
        assert_eq!(noted("of 100\n0 10\n90 101\n", 100), only(0..10));
    }

    #[test]
    fn ranges_are_joined_in_any_order() {
        assert_eq!(joined(vec![20..30, 0..10, 10..15, 25..40]), [0..15, 20..40]);
    }

    #[test]
    fn what_is_missing_comes_in_pieces() {
        assert_eq!(missing(&[10..20, 50..60], 75, 20), [0..10, 20..40, 40..50, 60..75]);
        assert_eq!(missing(&[], 40, 20), [0..20, 20..40]);
        assert_eq!(missing(std::slice::from_ref(&(0..40)), 40, 20), []);
    }
}
