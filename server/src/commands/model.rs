//! From the name that a user gave to the file or directory that is opened.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use taper_models::weights::LoadError;
use taper_server::loading::{Opened, StartError};
use taper_server::settings::Settings;
use taper_server::store::cache::HubCache;
use taper_server::store::gguf_names::gguf_models;
use taper_server::store::name::{HubName, ModelName, NameError, without_alias};
use taper_server::store::resolve::{Local, NotHere, resolve_local};
use taper_server::store::select::RepoFile;

/// What `text` means, aliases and `--revision` applied.
pub fn named(text: &str, settings: &Settings) -> Result<ModelName, NameError> {
    match ModelName::parse(without_alias(text, &settings.aliases))? {
        ModelName::Hub(name) => match &settings.revision {
            Some(revision) => name.at(revision, &settings.spelled("revision")).map(ModelName::Hub),
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
        Err(not_here) if settings.offline => Err(offline(not_here, settings)),
        Err(not_here) => pull_missing(&name, settings, not_here),
    }
}

/// That a model is not here, and why that is not mended.
pub fn offline(not_here: NotHere, settings: &Settings) -> Error {
    let words = format!("{not_here}; nothing is downloaded, since {} is set", settings.spelled("offline"));
    Error::new(not_here).context(words)
}

/// Opens the model that the settings name, after [`local_path`].
pub fn open(settings: &Settings) -> Result<Opened> {
    open_at(&local_path(settings)?, settings)
}

/// Opens the model at `path`, which is what the settings name. A damaged file of the cache can be had anew, unlike one of
/// the user's.
pub fn open_at(path: &Path, settings: &Settings) -> Result<Opened> {
    let error = match Opened::open(path) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    let is_damaged = matches!(error, StartError::Load(LoadError::Damaged { .. } | LoadError::Gguf(_)));
    match named(&settings.model, settings)? {
        ModelName::Hub(name) if is_damaged => {
            let words = format!("{error}; `taper rm {name}` and `taper pull {name}` bring it anew");
            Err(Error::new(error).context(words))
        }
        _ => Err(error.into()),
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
fn pull_missing(name: &HubName, settings: &Settings, _not_here: NotHere) -> Result<PathBuf> {
    Ok(super::pull::download(name, None, &settings.model)?.path)
}

#[cfg(not(feature = "hub"))]
fn pull_missing(_name: &HubName, _settings: &Settings, not_here: NotHere) -> Result<PathBuf> {
    let words = format!("{not_here}; this build downloads nothing, since it was made without the feature hub");
    Err(Error::new(not_here).context(words))
}

/// What a served model is called.
pub struct Served {
    pub name: String,
    /// Further names that requests may use.
    pub others: Vec<String>,
    /// The file's or the repository's name: what may be told to clients of where the model is.
    pub file: String,
}

/// The names of the model at `path`.
pub fn served(settings: &Settings, path: &Path) -> Result<Served> {
    let (default, further, file) = match named(&settings.model, settings)? {
        ModelName::Path(_) => {
            let file = file_name(path);
            let stem = if path.is_dir() { &file } else { file.strip_suffix(".gguf").unwrap_or(&file) };
            (stem.to_owned(), Vec::new(), file)
        }
        ModelName::Hub(name) => {
            // A snapshot's directory is named for its commit.
            let file = if path.is_dir() { name.name.clone() } else { base_name(path) };
            (HubName { revision: None, ..name.clone() }.to_string(), further_names(&name, &file, settings), file)
        }
    };
    let name = settings.server.alias.clone().unwrap_or_else(|| default.clone());
    let others = [vec![default], further].concat().into_iter().filter(|other| *other != name).collect();
    Ok(Served { name, others, file })
}

/// `owner/name`, `owner/name:QUANT`, and the alias that was typed: all of them mean `file` of the model `name`.
fn further_names(name: &HubName, file: &str, settings: &Settings) -> Vec<String> {
    let one = [RepoFile { name: file.to_owned(), size: 0 }];
    let quant = gguf_models(&one).into_iter().find_map(|model| model.quant);
    let tagged = quant.map(|quant| format!("{}:{quant}", name.id()));
    let typed = settings.aliases.contains_key(&settings.model).then(|| settings.model.clone());
    [name.id()].into_iter().chain(tagged).chain(typed).collect()
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

    /// The name, the other names, and what clients are told of the file.
    fn names(model: &str, alias: Option<&str>, path: &str) -> [String; 3] {
        let aliases = BTreeMap::from([("small".to_owned(), "o/n:Q8_0".to_owned())]);
        let mut settings = Settings { model: model.to_owned(), aliases, ..Settings::default() };
        settings.server.alias = alias.map(str::to_owned);
        let Served { name, others, file } = served(&settings, Path::new(path)).expect(model);
        [name, others.join(" "), file]
    }

    #[test]
    fn a_model_of_the_hub_is_served_as_it_was_named() {
        let path = "/hub/snapshots/0123/n-Q8_0.gguf";
        assert_eq!(names("o/n:q8_0", None, path), ["o/n:q8_0", "o/n o/n:Q8_0", "n-Q8_0.gguf"]);
        assert_eq!(names("hf.co/o/n@dev", None, path), ["o/n", "o/n:Q8_0", "n-Q8_0.gguf"]);
        assert_eq!(names("small", None, path), ["o/n:Q8_0", "o/n small", "n-Q8_0.gguf"]);
        assert_eq!(names("o/n:Q8_0", Some("mine"), path), ["mine", "o/n:Q8_0 o/n o/n:Q8_0", "n-Q8_0.gguf"]);
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
