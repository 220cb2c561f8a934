//! `taper completions`: a script that completes commands and flags in a shell.

use anyhow::Result;
use taper_server::settings::{Settings, completions};

/// Prints the script.
pub fn run(settings: &Settings) -> Result<()> {
    Ok(completions(&settings.shell, &mut std::io::stdout().lock())?)
}
