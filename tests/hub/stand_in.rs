//! The stand-in of the Hub, `stand_in.py`, as the tests see it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A running stand-in; it ends with this.
pub struct StandIn {
    pub url: String,
    directory: tempfile::TempDir,
    child: Child,
}

impl StandIn {
    /// With one repository of these files.
    pub fn with(repository: &str, files: &[(&str, &[u8])]) -> Self {
        let stand_in = Self::start();
        for (name, bytes) in files {
            stand_in.put(repository, name, bytes);
        }
        stand_in
    }

    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hub/stand_in.py");
        let mut python = Command::new("python3");
        python.arg(script).arg(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().expect("Python 3 is a prerequisite");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addresses: Value = serde_json::from_str(&line).expect("the stand-in says where it is");
        Self { url: addresses["hub"].as_str().unwrap().to_owned(), directory, child }
    }

    /// Adds or replaces a file, which makes a new commit.
    pub fn put(&self, repository: &str, name: &str, bytes: &[u8]) {
        let path = self.path(repository).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn path(&self, repository: &str) -> PathBuf {
        self.directory.path().join(repository)
    }

    /// Replaces its settings.
    pub fn set(&self, settings: Value) {
        ureq::post(format!("{}/_set", self.url)).send_json(settings).unwrap();
    }

    /// Orders one fault for the bodies that the CDN sends.
    pub fn spoil(&self, fault: Value) {
        let mut fault = fault;
        fault["path"] = json!("cdn GET");
        self.set(json!({"faults": [fault]}));
    }

    /// The repository's entries, checksums by Python's hashlib among them.
    pub fn listing(&self, repository: &str) -> Vec<Value> {
        let listing = self.get(&format!("/api/models/{repository}/tree/main"));
        listing.as_array().unwrap().clone()
    }

    pub fn commit(&self, repository: &str) -> String {
        self.get(&format!("/api/models/{repository}"))["sha"].as_str().unwrap().to_owned()
    }

    /// What was asked so far, by whomever.
    pub fn log(&self) -> Vec<Value> {
        self.get("/_log").as_array().unwrap().clone()
    }

    /// Body bytes of files that were sent after the first `before` entries of the log.
    pub fn sent_after(&self, before: usize) -> u64 {
        self.log().iter().skip(before).map(|entry| entry["sent"].as_u64().unwrap()).sum()
    }

    /// Waits until an answer is held back.
    pub fn held(&self) {
        self.get("/_held");
    }

    pub fn release(&self) {
        ureq::post(format!("{}/_release", self.url)).send_json(json!({})).unwrap();
    }

    fn get(&self, path: &str) -> Value {
        ureq::get(format!("{}{path}", self.url)).call().unwrap().body_mut().read_json().unwrap()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
