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

    use anyhow::bail;
    use taper_server::capacity::{bytes, plural};
    use taper_server::hub::{Limits, PullError, PullRequest, Pulled, pull};
    use taper_server::store::cache::HubCache;
    use taper_server::store::name::{HubName, ModelName};

    use super::{Result, Settings};
    use crate::commands::download_progress::DownloadProgress;
    use crate::commands::interrupt::Interruptible;
    use crate::commands::model::named;

    /// Downloads the model that the settings name, and says where it is.
    pub fn run(settings: &Settings) -> Result<()> {
        let name = match named(&settings.model, settings)? {
            ModelName::Hub(name) => name,
            ModelName::Path(path) => bail!("{} is here already; it is no name on the Hub", path.display()),
        };
        if settings.offline {
            bail!("{name} is not downloaded, since {} is set", settings.spelled("offline"));
        }
        let pulled = download(&name, Some(settings.jobs))?;
        let mut stdout = std::io::stdout().lock();
        if settings.json {
            writeln!(stdout, "{}", serde_json::to_string_pretty(&pulled)?)?;
        } else {
            writeln!(stdout, "{}", in_words(&pulled))?;
        }
        Ok(())
    }

    /// Brings `name` into the cache, with progress on standard error.
    pub fn download(name: &HubName, jobs: Option<usize>) -> Result<Pulled, PullError> {
        let cache = HubCache::from_env()?;
        let mut limits = Limits::from_env();
        limits.connections = jobs.unwrap_or(limits.connections);
        let interruptible = Interruptible::begin();
        let request = PullRequest { name, cache: &cache, limits, interrupt: interruptible.0.clone() };
        let mut progress = DownloadProgress::new(name.to_string());
        let pulled = pull(&request, &mut |event| progress.show(event));
        progress.finish();
        pulled
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
