//! `taper list`: the models in the Hub's cache, and the aliases.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use taper_server::capacity::bytes;
use taper_server::settings::Settings;
use taper_server::store::cache::HubCache;
use taper_server::store::models::{CachedModel, cached_models};

/// Prints the list as text or JSON.
pub fn run(settings: &Settings) -> Result<()> {
    let cache = HubCache::from_env()?;
    let models: Vec<CachedModel> = cache.scan()?.iter().flat_map(cached_models).collect();
    let mut stdout = std::io::stdout().lock();
    if settings.json {
        let models: Vec<Value> = models.iter().map(as_json).collect();
        let report = json!({ "cache": cache.root, "models": models, "aliases": settings.aliases });
        writeln!(stdout, "{report:#}")?;
        return Ok(());
    }
    if models.is_empty() {
        writeln!(stdout, "no models in {}", cache.root.display())?;
    } else {
        let now = SystemTime::now();
        let rows = models.iter().map(|model| row(model, now)).collect::<Vec<_>>();
        print_table(&mut stdout, &rows)?;
    }
    for (alias, model) in &settings.aliases {
        writeln!(stdout, "{alias} = {model}")?;
    }
    Ok(())
}

const TITLES: [&str; 6] = ["NAME", "REVISION", "FORMAT", "SIZE", "USED", "STATE"];

fn row(model: &CachedModel, now: SystemTime) -> [String; 6] {
    let format = match &model.quant {
        Some(quant) => format!("{} {quant}", model.format.name()),
        None => model.format.name().to_owned(),
    };
    [
        model.name.to_string(),
        model.commit.as_deref().map_or("-".to_owned(), |commit| commit.chars().take(7).collect()),
        format,
        bytes(model.size),
        model.used.map_or("-".to_owned(), |used| ago(now.duration_since(used).unwrap_or_default())),
        state(model),
    ]
}

fn state(model: &CachedModel) -> String {
    match model.expected {
        _ if model.complete => "complete".to_owned(),
        Some(expected) => format!("incomplete, of {}", bytes(expected)),
        None => "incomplete".to_owned(),
    }
}

fn print_table(out: &mut impl Write, rows: &[[String; 6]]) -> Result<()> {
    let titles = TITLES.map(str::to_owned);
    let all = || std::iter::once(&titles).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    for row in all() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// `3 days ago`, in the largest unit that there is at least one of.
fn ago(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("year", 365 * 86_400), ("month", 30 * 86_400), ("day", 86_400), ("hour", 3_600), ("minute", 60)];
    match units.into_iter().find(|(_, length)| seconds >= *length) {
        None => "now".to_owned(),
        Some((unit, length)) => match seconds / length {
            1 => format!("1 {unit} ago"),
            number => format!("{number} {unit}s ago"),
        },
    }
}

fn as_json(model: &CachedModel) -> Value {
    let used = model.used.and_then(|used| used.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
    json!({
        "name": model.name.to_string(),
        "revision": model.commit,
        "refs": model.refs,
        "format": model.format.name(),
        "quantization": model.quant,
        "bytes": model.size,
        "expected_bytes": model.expected,
        "used": used,
        "complete": model.complete,
        "missing": model.missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_in_its_largest_unit() {
        for (seconds, expected) in [
            (59, "now"),
            (60, "1 minute ago"),
            (7_199, "1 hour ago"),
            (172_800, "2 days ago"),
            (31_536_000, "1 year ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), expected);
        }
    }
}
