//! `taper serve`: the HTTP server.

use anyhow::{Result, bail};
use taper_server::settings::Settings;

/// Loads the model and serves it until a signal ends it.
pub fn run(_settings: &Settings) -> Result<()> {
    bail!("the HTTP server is under construction")
}
