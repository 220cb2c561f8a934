//! The command `taper`.

mod commands;

use std::io::ErrorKind;
use std::process::ExitCode;

use taper_models::threads::set_num_threads;
use taper_server::settings::{Command, Settings};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let (command, settings) = match Settings::from_process() {
        Ok(found) => found,
        Err(error) => return error.report(),
    };
    let filter = match EnvFilter::try_new(&settings.log_level) {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("error: --log-level is {:?}: {error}", settings.log_level);
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    // Before anything starts a thread: the compute library reads the number once.
    if let Err(error) = set_num_threads(settings.engine.threads) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let result = match command {
        Command::Serve => commands::serve::run(&settings),
        Command::Run => commands::run::run(&settings),
        Command::Inspect => commands::inspect::run(&settings),
        Command::Bench => commands::bench::run(&settings),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough, as in `taper run ... | head`, is not a failure.
        Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
