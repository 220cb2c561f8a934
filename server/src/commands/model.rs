//! From the name that a user gave to the file or directory that is opened.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use taper_server::settings::Settings;
use taper_server::store::cache::HubCache;
use taper_server::store::name::{HubName, ModelName, NameError, without_alias};
use taper_server::store::resolve::{Local, NotHere, resolve_local};

/// What `text` means, aliases and `--revision` applied.
pub fn named(text: &str, settings: &Settings) -> Result<ModelName, NameError> {
    match ModelName::parse(without_alias(text, &settings.aliases))? {
        ModelName::Hub(name) => match &settings.revision {
            Some(revision) => name.at(revision).map(ModelName::Hub),
            None => Ok(ModelName::Hub(name)),
        },
        path @ ModelName::Path(_) => Ok(path),
    }
}

/// The path of the model that the settings name; one that is not here is downloaded first, where that may be.
pub fn local_path(settings: &Settings) -> Result<PathBuf> {
    let name = match named(&settings.model, settings)? {
        ModelName::Path(path) => {
            if settings.revision.is_some() {
                let given = settings.spelled("revision");
                tracing::warn!("{given} says nothing about {}, which is a file or directory", path.display());
            }
            return Ok(path);
        }
        ModelName::Hub(name) => name,
    };
    match resolve_local(&name, &HubCache::from_env()?) {
        Ok(local) => {
            note_choice(&local);
            Ok(local.path)
        }
        Err(error @ NotHere::Cache(_)) => Err(error.into()),
        Err(not_here) if settings.offline => {
            let given = settings.spelled("offline");
            let words = format!("{not_here}; nothing is downloaded, since {given} is set");
            Err(Error::new(not_here).context(words))
        }
        Err(not_here) => pull_missing(&name, settings, not_here),
    }
}

/// Says which of several quantisations a name without one stands for.
pub fn note_choice(local: &Local) {
    if let Some(choice) = &local.selection.choice {
        tracing::info!("{choice}");
    }
}

/// Brings the model `name` into the cache, and says where it is.
#[cfg(feature = "hub")]
fn pull_missing(name: &HubName, _settings: &Settings, _not_here: NotHere) -> Result<PathBuf> {
    Ok(super::pull::download(name, None)?.path)
}

#[cfg(not(feature = "hub"))]
fn pull_missing(_name: &HubName, _settings: &Settings, not_here: NotHere) -> Result<PathBuf> {
    let words = format!("{not_here}; this build downloads nothing, since it was made without the feature hub");
    Err(Error::new(not_here).context(words))
}

/// What a served model is called.
pub struct Served {
    pub name: String,
    /// A second name that requests may use.
    pub other: Option<String>,
    /// The file's or the repository's name: what may be told to clients of where the model is.
    pub file: String,
}

/// The names of the model at `path`.
pub fn served(settings: &Settings, path: &Path) -> Result<Served> {
    let alias = settings.server.alias.clone();
    let (default, second, file) = match named(&settings.model, settings)? {
        ModelName::Path(_) => {
            let file = file_name(path);
            let stem = if path.is_dir() { &file } else { file.strip_suffix(".gguf").unwrap_or(&file) };
            (stem.to_owned(), None, file)
        }
        ModelName::Hub(name) => {
            // A snapshot's directory is named for its commit.
            let file = if path.is_dir() { name.name.clone() } else { base_name(path) };
            let typed = (settings.aliases.contains_key(&settings.model)).then(|| settings.model.clone());
            let id = name.id();
            (HubName { revision: None, ..name }.to_string(), Some(typed.unwrap_or(id)), file)
        }
    };
    let name = alias.clone().unwrap_or_else(|| default.clone());
    let other = if alias.is_some() { Some(default) } else { second };
    Ok(Served { other: other.filter(|other| *other != name), name, file })
}

/// The last part of the path, links followed: `.` and a link named `current` say nothing.
pub fn file_name(path: &Path) -> String {
    base_name(&path.canonicalize().unwrap_or_else(|_| path.to_owned()))
}

fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The name, the other name, and what clients are told of the file.
    fn names(model: &str, alias: Option<&str>, path: &str) -> [String; 3] {
        let aliases = BTreeMap::from([("small".to_owned(), "o/n:Q8_0".to_owned())]);
        let mut settings = Settings { model: model.to_owned(), aliases, ..Settings::default() };
        settings.server.alias = alias.map(str::to_owned);
        let Served { name, other, file } = served(&settings, Path::new(path)).expect(model);
        [name, other.unwrap_or_default(), file]
    }

    #[test]
    fn a_model_of_the_hub_is_served_as_it_was_named() {
        let path = "/hub/snapshots/0123/n-Q8_0.gguf";
        assert_eq!(names("o/n:q8_0", None, path), ["o/n:q8_0", "o/n", "n-Q8_0.gguf"]);
        assert_eq!(names("hf.co/o/n@dev", None, path), ["o/n", "", "n-Q8_0.gguf"]);
        assert_eq!(names("small", None, path), ["o/n:Q8_0", "small", "n-Q8_0.gguf"]);
        assert_eq!(names("o/n:Q8_0", Some("mine"), path), ["mine", "o/n:Q8_0", "n-Q8_0.gguf"]);
    }

    #[test]
    fn a_snapshot_is_told_by_its_repositorys_name() {
        // Any directory does.
        assert_eq!(names("o/n", None, "src"), ["o/n", "", "n"]);
    }

    #[test]
    fn a_file_is_served_under_its_name() {
        assert_eq!(names("Cargo.toml", None, "Cargo.toml"), ["Cargo.toml", "", "Cargo.toml"]);
        assert_eq!(names("src/commands", Some("mine"), "src/commands"), ["mine", "commands", "commands"]);
    }
}
