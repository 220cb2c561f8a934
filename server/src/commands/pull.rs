//! `taper pull`: brings a model into the Hub's cache.

use anyhow::{Result, bail};
use taper_server::settings::Settings;

/// Downloads the model.
pub fn run(_settings: &Settings) -> Result<()> {
    bail!("`taper pull` is not built in yet")
}
