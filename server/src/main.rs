//! The command `taper`.

mod commands;
mod exit;
mod logging;

use std::io::ErrorKind;
use std::process::ExitCode;

use logging::Lines;
use taper_models::threads::{num_cpus, set_num_threads};
use taper_server::settings::{Command, Settings};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let (command, settings) = match Settings::from_process() {
        Ok(found) => found,
        Err(error) => return error.report(),
    };
    // What hf-hub calls an error there is often none, since we ask again.
    let filter = match EnvFilter::try_new(format!("hf_hub=off,{}", settings.log_level)) {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("error: --log-level is {:?}: {error}", settings.log_level);
            return ExitCode::from(2);
        }
    };
    let lines = match command {
        Command::Serve if settings.log_json => Lines::Json,
        Command::Serve => Lines::Text,
        _ => Lines::Plain,
    };
    logging::start(filter, lines);
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    // Before anything starts a thread: the compute library reads the number once.
    if let Err(error) = set_num_threads(settings.engine.threads) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    note_too_many_threads(&settings);
    let result = match command {
        Command::Serve => commands::serve::run(&settings),
        Command::Run => commands::run::run(&settings),
        Command::Pull => commands::pull::run(&settings),
        Command::List => commands::list::run(&settings),
        Command::Show => commands::show::run(&settings),
        Command::Rm => commands::rm::run(&settings),
        Command::Inspect => commands::inspect::run(&settings),
        Command::Bench => commands::bench::run(&settings),
        Command::Completions => commands::completions::run(&settings),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough, as in `taper run ... | head`, is not a failure.
        Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::from(exit::exit(&error) as u8)
        }
    }
}

/// The numbers are the user's to choose, but a slip of the finger should not crawl without a word.
fn note_too_many_threads(settings: &Settings) {
    let cpus = num_cpus();
    if let Some(threads) = settings.engine.threads.filter(|threads| *threads > cpus) {
        let given = settings.spelled("threads");
        tracing::warn!("{given} {threads} is more than the {cpus} logical CPUs there are; it will be slower");
    }
}

/// The error and its causes; many errors name their cause themselves, and once is enough.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |words, cause| match words.as_str() {
        "" => cause,
        _ if words.contains(&cause) => words,
        _ => format!("{words}: {cause}"),
    })
}
