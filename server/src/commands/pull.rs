//! `taper pull`: brings a model into the Hub's cache. The commands that open a model do the same where it is missing.

use anyhow::Result;
use taper_server::settings::Settings;

#[cfg(feature = "hub")]
pub use with_hub::{download, run};

/// Says that this build cannot.
#[cfg(not(feature = "hub"))]
pub fn run(_settings: &Settings) -> Result<()> {
    anyhow::bail!("this build downloads nothing, since it was made without the feature hub")
}

#[cfg(feature = "hub")]
mod with_hub {
    use std::io::Write;

    use anyhow::{Error, bail};
    use taper_server::capacity::{bytes, plural};
    use taper_server::hub::{Limits, PullError, PullRequest, Pulled, pull};
    use taper_server::store::cache::HubCache;
    use taper_server::store::name::{HubName, ModelName};
    use taper_server::store::resolve::resolve_local;

    use super::{Result, Settings};
    use crate::commands::download_progress::DownloadProgress;
    use crate::commands::interrupt::Interruptible;
    use crate::commands::model::{named, offline};

    /// Downloads the model that the settings name, and says where it is.
    pub fn run(settings: &Settings) -> Result<()> {
        let name = match named(&settings.model, settings)? {
            ModelName::Hub(name) => name,
            ModelName::Path(path) => bail!("{} is here already; it is no name on the Hub", path.display()),
        };
        let mut stdout = std::io::stdout().lock();
        if settings.offline {
            let local = resolve_local(&name, &HubCache::from_env()?).map_err(|lacking| offline(lacking, settings))?;
            let path = local.path.display();
            if settings.json {
                let here = serde_json::json!({ "name": name.to_string(), "commit": local.revision.commit, "path": local.path });
                writeln!(stdout, "{here:#}")?;
            } else {
                writeln!(stdout, "{name} is here, and nothing newer was asked for: {path}")?;
            }
            return Ok(());
        }
        let pulled = download(&name, Some(settings.jobs), &settings.model)?;
        if settings.json {
            writeln!(stdout, "{}", serde_json::to_string_pretty(&pulled)?)?;
        } else {
            writeln!(stdout, "{}", in_words(&pulled))?;
        }
        Ok(())
    }

    /// Brings `name`, which was typed as `text`, into the cache, with progress on standard error.
    pub fn download(name: &HubName, jobs: Option<usize>, text: &str) -> Result<Pulled> {
        let cache = HubCache::from_env()?;
        let mut limits = Limits::from_env();
        limits.connections = jobs.unwrap_or(limits.connections);
        let interruptible = Interruptible::begin();
        let request = PullRequest { name, cache: &cache, limits, interrupt: interruptible.0.clone() };
        let mut progress = DownloadProgress::new(name.to_string());
        let pulled = pull(&request, &mut |event| progress.show(event));
        progress.finish();
        pulled.map_err(|error| about_files(error, text))
    }

    /// What is no repository may have been meant for a file.
    fn about_files(error: PullError, text: &str) -> Error {
        let could_be_path = !text.contains([':', '@']) && !text.starts_with("hf.co/");
        match error {
            PullError::NotFound { .. } if could_be_path => {
                let words = format!("there is no file or directory {text:?}, and {error}");
                Error::new(error).context(words)
            }
            error => error.into(),
        }
    }

    fn in_words(pulled: &Pulled) -> String {
        let Pulled { name, commit, downloaded, path, .. } = pulled;
        let commit = &commit[..commit.len().min(12)];
        let held = format!("{} in {}", bytes(pulled.bytes), plural(pulled.files.len(), "file"));
        match downloaded {
            0 => format!("{name} is up to date: commit {commit}, {held}, {}", path.display()),
            _ => format!("{name} is here: commit {commit}, {held}, {}", path.display()),
        }
    }
}
