//! A cache of the Hub's tools, and what is in it.

use std::path::{Path, PathBuf};

/// An empty home of the Hub's tools.
pub struct Cache(tempfile::TempDir);

impl Cache {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// For `HF_HOME`.
    pub fn home(&self) -> &Path {
        self.0.path()
    }

    pub fn repository(&self, name: &str) -> PathBuf {
        self.home().join("hub").join(format!("models--{}", name.replace('/', "--")))
    }

    /// Paths of all files below the repository's directory, in order; links are files.
    pub fn files(&self, repository: &str) -> Vec<String> {
        let root = self.repository(repository);
        let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned()),
                }
            }
        }
        found.sort();
        found
    }

    /// Nothing that anyone could take for a model: blobs, snapshots, refs.
    #[track_caller]
    pub fn holds_no_model(&self, repository: &str) {
        let usable: Vec<_> = self.files(repository).into_iter().filter(|file| !file.ends_with(".incomplete")).collect();
        assert_eq!(usable, [""; 0]);
    }
}
