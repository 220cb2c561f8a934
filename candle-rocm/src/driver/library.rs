//! A driver's library: where it is looked for, and how a table of functions is taken from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use super::{DriverError, Result};

/// A library that was opened, and what to say where it lacks something.
#[derive(Clone)]
pub(super) struct Opened {
    pub library: Arc<Library>,
    pub path: String,
    pub fix: &'static str,
}

/// Opens the first of `names` that exists: in `directory` alone if there is one, else where the system's loader
/// looks, else in `elsewhere`.
pub(super) fn open(
    driver: &'static str,
    names: &[&str],
    directory: Option<&Path>,
    elsewhere: &[PathBuf],
    fix: &'static str,
) -> Result<Opened> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    match directory {
        Some(directory) => candidates.extend(names.iter().map(|name| directory.join(name))),
        None => {
            candidates.extend(names.iter().map(PathBuf::from));
            candidates.extend(elsewhere.iter().flat_map(|place| names.iter().map(|name| place.join(name))));
        }
    }
    let mut unusable = None;
    for candidate in &candidates {
        // SAFETY: the driver's initialisers run, as they do for every program that links to it.
        match unsafe { Library::new(candidate) } {
            Ok(library) => return Ok(Opened { library: library.into(), path: candidate.display().to_string(), fix }),
            Err(error) => {
                let reason = loader_words(&error);
                if unusable.is_none() && is_there(candidate, &reason) {
                    unusable = Some(DriverError::UnusableLibrary { driver, reason, fix });
                }
            }
        }
    }
    let tried = candidates.iter().map(|candidate| candidate.display().to_string()).collect();
    Err(unusable.unwrap_or(DriverError::NoLibrary { driver, tried, fix }))
}

fn loader_words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whether the loader found the file and could not use it: it complains of another one then, or of what is in it.
fn is_there(candidate: &Path, reason: &str) -> bool {
    let is_name = candidate.components().count() == 1;
    let is_missing =
        reason.starts_with(&format!("{}: cannot open shared object file: No such file", candidate.display()));
    if is_name { !is_missing } else { candidate.exists() }
}

/// A call that was made: the function's name in its library, and what it answered.
#[derive(Clone, Copy)]
#[must_use]
pub(super) struct Status {
    pub call: &'static str,
    pub code: i32,
}

/// Declares a table of functions, all of which answer with a status, under our names. Each row has a symbol for every
/// vendor, in the same order.
macro_rules! functions {
    (
        $(#[$doc:meta])*
        $table:ident {
            $($function:ident = $($symbol:literal)|+ ($($arg:ident: $type:ty),* $(,)?);)*
        }
    ) => {
        $(#[$doc])*
        pub(super) struct $table {
            $($function: (&'static str, unsafe extern "C" fn($($type),*) -> i32),)*
            /// Keeps the functions in memory.
            _library: std::sync::Arc<libloading::Library>,
        }

        impl $table {
            /// Takes the functions by the symbols of this place in the rows.
            pub(super) fn load(opened: &$crate::driver::library::Opened, vendor: usize) -> $crate::driver::Result<Self> {
                Ok(Self {
                    $($function: {
                        let symbol = [$($symbol),+][vendor];
                        let missing = |_| $crate::DriverError::NoSymbol {
                            library: opened.path.clone(),
                            symbol,
                            fix: opened.fix,
                        };
                        // SAFETY: the declared type is that of the driver's C interface, and `_library` outlives it.
                        (symbol, unsafe { *opened.library.get(symbol.as_bytes()).map_err(missing)? })
                    },)*
                    _library: opened.library.clone(),
                })
            }

            $(
                /// # Safety
                /// As the driver's documentation says of the function.
                #[allow(clippy::too_many_arguments)] // As many as the driver's.
                pub(super) unsafe fn $function(&self, $($arg: $type),*) -> $crate::driver::library::Status {
                    let (call, function) = self.$function;
                    // SAFETY: the caller's promise.
                    let code = unsafe { function($($arg),*) };
                    $crate::driver::library::Status { call, code }
                }
            )*
        }
    };
}
pub(super) use functions;
