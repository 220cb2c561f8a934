//! A blob whose download has not ended: which of its bytes are here, and what file it is to become.
//!
//! The bytes lie in one file, written in any order, and a note beside it says which of them can be trusted: a line for each
//! range, written after its bytes are on the disk. The first line has the size and the name of the whole file. Both names
//! end in `.incomplete`, so that other tools see what they are, but are not those that `huggingface_hub` continues: it would
//! take the length of the bytes' file, which may have holes, for what is there.

use std::fs::Metadata;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::name::is_file;
use super::open_own;

/// A download that has not ended, of ours or of another tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The files that it consists of.
    pub paths: Vec<PathBuf>,
    /// Its name in the repository. `None`: another tool's, which does not say.
    pub file: Option<String>,
    /// Bytes that are here.
    pub present: u64,
    /// Bytes of the whole file, where that is known.
    pub size: Option<u64>,
}

/// What a note says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub size: u64,
    pub file: String,
    /// In order, joined, and within `size`.
    pub present: Vec<Range<u64>>,
}

/// No note of ours is longer: a range a line, of pieces of at least a MiB.
const MAX_NOTE_BYTES: u64 = 16 << 20;
/// What follows a blob's name.
const BYTES: &str = ".taper.incomplete";
const NOTE: &str = ".taper-ranges.incomplete";

/// Where the bytes and the note of an unfinished `blob` lie.
pub fn paths(blob: &Path) -> (PathBuf, PathBuf) {
    let name = blob.file_name().unwrap_or_default().to_string_lossy();
    let beside = |ending: &str| blob.with_file_name(format!("{name}{ending}"));
    (beside(BYTES), beside(NOTE))
}

/// The unfinished download whose file in `blobs` is called `name`; `None` if that is no such file, or the note of one.
pub fn begun(blobs: &Path, name: &str, len: u64) -> Option<Begun> {
    if name.ends_with(NOTE) {
        return None;
    }
    if let Some(blob) = name.strip_suffix(BYTES).map(|blob| blobs.join(blob)) {
        let note = read_note(&blob);
        let present = note.as_ref().map_or(0, |note| length(&note.present));
        let size = note.as_ref().map(|note| note.size);
        let paths = <[PathBuf; 2]>::from(paths(&blob)).to_vec();
        return Some(Begun { paths, present, size, file: note.map(|note| note.file) });
    }
    // As `huggingface_hub` and llama.cpp name what they have not finished.
    let of_others = name.ends_with(".incomplete") || name.ends_with(".downloadInProgress");
    of_others.then(|| Begun { paths: vec![blobs.join(name)], file: None, present: len, size: None })
}

/// The note of `blob`, without the ranges that the bytes' file is too short for. `None`: there is none that means anything.
pub fn read_note(blob: &Path) -> Option<Note> {
    let (bytes, note) = paths(blob);
    let end = bytes.symlink_metadata().ok().filter(Metadata::is_file).map_or(0, |metadata| metadata.len());
    let mut text = String::new();
    // A pipe in its place would keep us waiting.
    note.symlink_metadata().ok().filter(Metadata::is_file)?;
    let mut options = std::fs::OpenOptions::new();
    open_own(options.read(true), &note).ok()?.take(MAX_NOTE_BYTES).read_to_string(&mut text).ok()?;
    let mut note = noted(&text)?;
    note.present.retain(|range| range.end <= end);
    note.present = joined(note.present);
    Some(note)
}

/// How many bytes are in `ranges`.
pub fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The first line.
pub fn header(size: u64, file: &str) -> String {
    format!("of {size} {file}\n")
}

/// The line of a range.
pub fn line(range: &Range<u64>) -> String {
    format!("{} {}\n", range.start, range.end)
}

/// What `text` says. It ends at the first line that is not whole.
fn noted(text: &str) -> Option<Note> {
    let mut lines = text.split_inclusive('\n');
    let (size, file) = lines.next()?.strip_suffix('\n')?.strip_prefix("of ")?.split_once(' ')?;
    let size = size.parse().ok()?;
    if !is_file(file) {
        return None;
    }
    Some(Note { size, file: file.to_owned(), present: lines.map_while(|line| range(line, size)).collect() })
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

    #[test]
    fn a_note_ends_at_the_line_that_a_crash_has_torn() {
        for text in ["0 10\n10 2", "0 10\n10\n20 30\n", "0 10\n90 101\n"] {
            let note = noted(&format!("of 100 a b.gguf\n{text}")).unwrap();
            assert_eq!((note.size, note.file.as_str()), (100, "a b.gguf"));
            assert!(note.present.iter().eq([&(0..10)]));
        }
        assert_eq!(noted("of 100 a.gg"), None);
    }

    #[test]
    fn ranges_are_joined_in_any_order() {
        assert_eq!(joined(vec![20..30, 0..10, 10..15, 25..40]), [0..15, 20..40]);
    }

    #[test]
    fn a_link_in_place_of_a_note_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (elsewhere, blob) = (directory.path().join("elsewhere"), directory.path().join("abc"));
        std::fs::write(&elsewhere, "of 10 a.gguf\n0 10\n").unwrap();
        std::fs::write(paths(&blob).0, [0; 10]).unwrap();
        std::os::unix::fs::symlink(&elsewhere, paths(&blob).1).unwrap();
        assert_eq!(read_note(&blob), None);
    }
}
