//! `taper show`: a model that is here: where its files are, and all that `taper inspect` tells.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use taper_server::capacity::bytes;
use taper_server::settings::Settings;
use taper_server::store::cache::HubCache;
use taper_server::store::name::ModelName;
use taper_server::store::resolve::resolve_local;

use super::inspect::{Report, print};
use super::model::{named, note_choice, open_at};

/// Prints the store's facts and the report, as text or JSON. Downloads nothing.
pub fn run(settings: &Settings) -> Result<()> {
    let facts = Facts::new(settings)?;
    let (report, usable) = Report::of(&open_at(&facts.path, settings)?, settings)?;
    if settings.json {
        print(&Shown { store: facts, report }, &[], true)?;
    } else {
        print(&report, &[facts.lines(), report.lines()].concat(), false)?;
    }
    Ok(usable?)
}

#[derive(Serialize)]
struct Shown {
    store: Facts,
    #[serde(flatten)]
    report: Report,
}

/// What the store knows of a model.
#[derive(Serialize)]
struct Facts {
    name: String,
    /// What is opened.
    path: PathBuf,
    /// `None`: no model of the Hub.
    revision: Option<String>,
    refs: Vec<String>,
    /// Of its files, also those beside the weights.
    bytes_on_disk: Option<u64>,
    aliases: Vec<String>,
}

impl Facts {
    fn new(settings: &Settings) -> Result<Self> {
        let name = named(&settings.model, settings)?;
        let means = |alias: &str| named(alias, settings).is_ok_and(|other| other == name);
        let aliases = settings.aliases.keys().filter(|alias| means(alias)).cloned().collect();
        let name = match name {
            ModelName::Path(path) => {
                let (name, refs) = (path.display().to_string(), Vec::new());
                return Ok(Self { name, path, revision: None, refs, bytes_on_disk: None, aliases });
            }
            ModelName::Hub(name) => name,
        };
        let local = resolve_local(&name, &HubCache::from_env()?)
            .with_context(|| format!("{name} is not here, `taper pull {name}` downloads it"))?;
        note_choice(&local);
        Ok(Self {
            name: name.to_string(),
            bytes_on_disk: Some(local.selection.size()),
            revision: Some(local.revision.commit),
            refs: local.revision.refs,
            path: local.path,
            aliases,
        })
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("name", self.name.clone())];
        if let Some(revision) = &self.revision {
            let refs = if self.refs.is_empty() { String::new() } else { format!(" ({})", self.refs.join(", ")) };
            lines.push(("revision", format!("{revision}{refs}")));
        }
        lines.push(("path", self.path.display().to_string()));
        lines.extend(self.bytes_on_disk.map(|size| ("on disk", bytes(size))));
        if !self.aliases.is_empty() {
            lines.push(("aliases", self.aliases.join(", ")));
        }
        lines
    }
}
