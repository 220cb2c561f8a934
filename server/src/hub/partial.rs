//! A file while it is being downloaded: its bytes, written in any order, and the note of which of them can be trusted; see
//! `store/begun.rs` for how they lie on the disk. What is not noted is downloaded again, so a crash at any moment costs time
//! only.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use crate::store::begun::{header, length, line, paths, read_note};
use crate::store::open_own;

/// The bytes and the note. While it exists, nobody else writes to either.
pub(super) struct Partial {
    /// First line of the note.
    header: String,
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
    /// Opens what an earlier pull left of `blob`, the bytes of `file`, or begins; and says which ranges are there.
    pub fn open(blob: &Path, size: u64, file: &str, lock: File) -> io::Result<(Self, Vec<Range<u64>>)> {
        let (bytes_path, note_path) = paths(blob);
        let present = present(blob, size);
        if present.is_empty() {
            remove(blob)?;
        }
        let bytes = open_own(OpenOptions::new().create(true).truncate(false).write(true), &bytes_path)?;
        let header = header(size, file);
        let note = Mutex::new(fresh_note(&note_path, &header, &present)?);
        let blob = blob.to_owned();
        let reported = AtomicU64::new(length(&present));
        Ok((Self { header, reported, bytes, note, blob, bytes_path, note_path, _lock: lock }, present))
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
        *note = fresh_note(&self.note_path, &self.header, &[])?;
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

/// The ranges of `blob` that an earlier pull has noted, in order and joined. A note of another size says nothing.
pub(super) fn present(blob: &Path, size: u64) -> Vec<Range<u64>> {
    read_note(blob).filter(|note| note.size == size).map_or_else(Vec::new, |note| note.present)
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

/// Writes a note of `present`, without the half line that a crash may have left in the old one.
fn fresh_note(path: &Path, header: &str, present: &[Range<u64>]) -> io::Result<File> {
    let mut note = open_own(OpenOptions::new().create(true).truncate(true).write(true), path)?;
    note.write_all(header.as_bytes())?;
    present.iter().try_for_each(|range| note.write_all(line(range).as_bytes()))?;
    note.sync_data()?;
    Ok(note)
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
        let (partial, present) = Partial::open(&blob, 100, "a.gguf", lock()).unwrap();
        assert_eq!(present, []);
        partial.write(&[7; 20], 40).unwrap();
        partial.note(&(40..60)).unwrap();
        partial.write(&[7; 20], 60).unwrap();
        drop(partial);
        assert_eq!(Partial::open(&blob, 100, "a.gguf", lock()).unwrap().1, only(40..60));
    }

    #[test]
    fn bytes_that_someone_cut_off_are_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let blob = directory.path().join("abc");
        let (partial, _) = Partial::open(&blob, 100, "a.gguf", lock()).unwrap();
        partial.write(&[7; 100], 0).unwrap();
        partial.note(&(0..10)).unwrap();
        partial.note(&(50..100)).unwrap();
        partial.bytes.set_len(99).unwrap();
        assert_eq!(present(&blob, 100), only(0..10));
    }

    #[test]
    fn a_note_of_another_size_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let blob = directory.path().join("abc");
        let (partial, _) = Partial::open(&blob, 99, "a.gguf", lock()).unwrap();
        partial.write(&[7; 99], 0).unwrap();
        partial.note(&(0..10)).unwrap();
        assert_eq!((present(&blob, 99), present(&blob, 100)), (only(0..10), Vec::new()));
    }

    #[test]
    fn a_link_in_place_of_a_begun_file_is_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let (elsewhere, blob) = (directory.path().join("elsewhere"), directory.path().join("abc"));
        std::fs::write(&elsewhere, "mine").unwrap();
        for path in [paths(&blob).0, paths(&blob).1] {
            std::os::unix::fs::symlink(&elsewhere, path).unwrap();
        }
        let (partial, present) = Partial::open(&blob, 100, "a.gguf", lock()).unwrap();
        partial.write(&[7; 100], 0).unwrap();
        assert_eq!((present, std::fs::read_to_string(&elsewhere).unwrap().as_str()), (Vec::new(), "mine"));
    }

    #[test]
    fn what_is_missing_comes_in_pieces() {
        assert_eq!(missing(&[10..20, 50..60], 75, 20), [0..10, 20..40, 40..50, 60..75]);
        assert_eq!(missing(&[], 40, 20), [0..20, 20..40]);
        assert_eq!(missing(std::slice::from_ref(&(0..40)), 40, 20), []);
    }
}
