//! Files that no one should have to fear, as `tests/hostile/make.py` writes them: each ends the command with its message, in
//! bounded memory and time. The table in `docs/hostile-files.md` is made from the same list.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{TAPER, command, stderr};

/// Address space of each command, in KiB. A read that a file's size does not justify fails in it, and ends the process.
const MAX_KIB: u32 = 3_000_000;

fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Writes the files into `folder`; the list of them.
fn corpus(folder: &Path) -> Vec<Value> {
    let made = command("python3").arg(repository("tests/hostile/make.py")).arg(folder).output().expect("python3 runs");
    assert!(made.status.success(), "{}", stderr(&made));
    let list = std::fs::read(folder.join("corpus.json")).expect("the list has been written");
    serde_json::from_slice(&list).expect("the list is JSON")
}

/// What `taper` says of a file, in bounds. Python's pickles and the like are named in it, panics are not.
fn said(entry: &Value, folder: &Path) -> Result<String, String> {
    let name = entry["name"].as_str().expect("every file has a name");
    let path = folder.join(name);
    let mut bounded = command("timeout");
    bounded.args(["60", "sh", "-c", &format!("ulimit -v {MAX_KIB}; exec \"$@\""), "sh", TAPER]);
    match entry["command"].as_str() {
        Some("run") => bounded.arg("run").arg(&path).args(["-p", &"a".repeat(40), "-n", "4", "--temp", "0"]),
        _ => bounded.arg("inspect").arg(&path),
    };
    let output = bounded.output().expect("timeout runs");
    let text = stderr(&output);
    let error = text.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or_default();
    let is_refused = matches!(output.status.code(), Some(1 | 5));
    if !is_refused || error.is_empty() || text.contains("panicked") {
        return Err(format!("{name} ended with {:?}: {text}", output.status.code()));
    }
    // Other lines of the message, if it has any.
    let all = text[text.find("error: ").unwrap_or(0) + 7..].trim_end().to_owned();
    Ok(all.replace(path.to_str().expect("UTF-8"), "{path}").replace(folder.to_str().expect("UTF-8"), "{dir}"))
}

#[test]
fn every_hostile_file_is_refused_with_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let mut differ = Vec::new();
    for entry in corpus(folder.path()) {
        let (name, expected) = (entry["name"].to_string(), entry["message"].as_str().unwrap_or_default());
        match said(&entry, folder.path()) {
            Ok(message) if message == expected => {}
            Ok(message) => differ.push(format!("{name}: {message}\n  expected: {expected}")),
            Err(what) => differ.push(what),
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn tensors_that_nothing_reads_are_named() {
    let folder = tempfile::tempdir().unwrap();
    corpus(folder.path());
    let path = folder.path().join("unused_tensors.gguf");
    let output = command(TAPER).arg("run").arg(path).args(["-p", "a", "-n", "1"]).output().expect("taper was built");
    let said = stderr(&output);
    let expected = "the text model does not use, 4 in all: [\"extra.0\", \"extra.1\", \"extra.2\"]";
    assert!(output.status.success() && said.contains(expected), "{said}");
}

/// The files of the table: one of each kind of damage.
const DOCUMENTED: [&str; 20] = [
    "empty.gguf",
    "cut_in_data.gguf",
    "tensors_without_end.gguf",
    "sparse.gguf",
    "misaligned.gguf",
    "overlap.gguf",
    "pytorch_model.bin",
    "pointer.gguf",
    "pipe.gguf",
    "loop.gguf",
    "family.gguf",
    "layers.gguf",
    "unknown_tensor_type.gguf",
    "nan.gguf",
    "hole",
    "outside",
    "deep",
    "huge_id",
    "expression",
    "doubled",
];

fn markdown(entries: &[Value]) -> String {
    let mut out = "# Hostile files\n\nA model's files come from strangers. What is damaged or made to hurt is refused with the file and the\n\
        place, in bounded time and memory; a fault that shows only while a model runs ends the one request. Nothing in a model's\n\
        files is ever run: no pickles are read, and chat templates have no access to anything but the conversation.\n\n\
        Twenty of the files that [tests/hostile/make.py](../tests/hostile/make.py) writes, each of which a test opens in 3 GB of\n\
        address space. `{path}` is the file, `{dir}` the folder that it lies in. Written by\n\
        `TAPER_UPDATE_DOCS=1 make test ARGS='-p taper-server --test cli hostile'`.\n\n\
        | File | What is wrong | Message |\n|---|---|---|\n"
        .to_owned();
    for name in DOCUMENTED {
        let entry = entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("there is no {name}"));
        let cell = |key: &str| entry[key].as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ");
        out += &format!("| `{name}` | {} | `{}` |\n", cell("wrong"), cell("message"));
    }
    out
}

#[test]
fn the_documented_files_are_those_of_the_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let expected = markdown(&corpus(folder.path()));
    let path = repository("docs/hostile-files.md");
    if std::env::var_os("TAPER_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, expected, "docs/hostile-files.md is out of date: TAPER_UPDATE_DOCS=1 make test writes it");
}
