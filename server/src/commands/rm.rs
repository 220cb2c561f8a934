//! `taper rm`: takes models out of the Hub's cache, after saying what goes.

use std::io::{IsTerminal, Write, stdin};

use anyhow::{Context, Result, bail};
use serde_json::json;
use taper_server::capacity::bytes;
use taper_server::settings::Settings;
use taper_server::store::cache::HubCache;
use taper_server::store::name::{HubName, ModelName};
use taper_server::store::remove::plan_removal;
use taper_server::store::resolve::NotHere;

use super::model::named;
use crate::exit::Usage;

/// Says what will go, asks, and removes it.
pub fn run(settings: &Settings) -> Result<()> {
    let cache = HubCache::from_env()?;
    // All names are looked up before the first model goes.
    let mut planned = Vec::new();
    for text in &settings.models {
        let name = in_cache(text, settings)?;
        let removal = plan_removal(&name, &cache).with_context(|| format!("{text} cannot be removed"))?;
        planned.push((name, removal));
    }
    for (name, removal) in &planned {
        eprintln!("{name}: {}, {}", removal.what, bytes(removal.bytes));
    }
    if !settings.yes {
        confirm()?;
    }
    let mut removed = Vec::new();
    let result = planned.into_iter().try_for_each(|(name, _)| remove(name, &cache, &mut removed));
    // What is gone is said even if the next could not go.
    if result.is_ok() || !removed.is_empty() {
        report(&removed, settings.json)?;
    }
    result
}

/// The model that `text` names, if it is one of the cache and not a file of the user's.
fn in_cache(text: &str, settings: &Settings) -> Result<HubName> {
    match named(text, settings)? {
        ModelName::Hub(name) => Ok(name),
        ModelName::Path(path) => {
            let ours = format!("{} is a file or directory of yours, which is left alone", path.display());
            let on_hub = HubName::parse(&format!("hf://{text}"), None).map(|name| name.id());
            Err(Usage(match on_hub {
                Ok(id) => format!("{ours}; the model of the cache with the same name is hf://{id}"),
                Err(_) => format!("{ours}; `taper list` shows the models of the cache"),
            }))?
        }
    }
}

fn confirm() -> Result<()> {
    if !stdin().is_terminal() {
        Err(Usage("nothing was removed: there is no terminal to ask on; --yes removes without asking".to_owned()))?;
    }
    eprint!("Remove? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        bail!("nothing was removed");
    }
    Ok(())
}

fn remove(name: HubName, cache: &HubCache, removed: &mut Vec<(HubName, u64)>) -> Result<()> {
    // Planned anew: two names may share files, which go with the last of them, and the question may have stood long.
    let removal = match plan_removal(&name, cache) {
        Ok(removal) => removal,
        // It went with the one before.
        Err(NotHere::Repository(_) | NotHere::Revision { .. } | NotHere::Other(_)) if !removed.is_empty() => {
            return Ok(());
        }
        Err(error) => return Err(error).with_context(|| format!("{name} cannot be removed")),
    };
    removal.carry_out()?;
    removed.push((name, removal.bytes));
    Ok(())
}

fn report(removed: &[(HubName, u64)], json: bool) -> Result<()> {
    let total: u64 = removed.iter().map(|(_, bytes)| bytes).sum();
    let mut stdout = std::io::stdout().lock();
    if json {
        let names: Vec<String> = removed.iter().map(|(name, _)| name.to_string()).collect();
        writeln!(stdout, "{:#}", json!({ "removed": names, "bytes": total }))?;
    } else {
        writeln!(stdout, "removed, {} are free", bytes(total))?;
    }
    Ok(())
}
