//! A driver's library: where it is looked for, and the table of functions taken from it.

use std::path::{Path, PathBuf};

use libloading::Library;

use super::{DriverError, Result};

/// Opens the first of `names` that exists: in `directory` alone if there is one, else where the system's loader
/// looks, else in `elsewhere`.
pub(crate) fn open(
    driver: &'static str,
    names: &[&str],
    directory: Option<&Path>,
    elsewhere: &[PathBuf],
    fix: &'static str,
) -> Result<(Library, String)> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    match directory {
        Some(directory) => candidates.extend(names.iter().map(|name| directory.join(name))),
        None => {
            candidates.extend(names.iter().map(PathBuf::from));
            candidates.extend(elsewhere.iter().flat_map(|place| names.iter().map(|name| place.join(name))));
        }
    }
    for candidate in &candidates {
        // SAFETY: the driver's initialisers run, as they do for every program that links to it.
        if let Ok(library) = unsafe { Library::new(candidate) } {
            return Ok((library, candidate.display().to_string()));
        }
    }
    let tried = candidates.iter().map(|candidate| candidate.display().to_string()).collect();
    Err(DriverError::NoLibrary { driver, tried, fix })
}

/// Declares a structure of functions, all of which return a status, and how it is filled from a library.
macro_rules! functions {
    ($(#[$doc:meta])* $name:ident { $($function:ident($($arg:ty),*);)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        struct $name {
            $($function: unsafe extern "C" fn($($arg),*) -> i32,)*
            /// Keeps the functions in memory.
            _library: libloading::Library,
        }

        impl $name {
            fn load(library: libloading::Library, path: &str, fix: &'static str) -> $crate::driver::Result<Self> {
                Ok(Self {
                    $($function: {
                        let symbol = stringify!($function);
                        let missing = |_| $crate::DriverError::NoSymbol { library: path.to_owned(), symbol, fix };
                        // SAFETY: the declared type is that of the driver's C interface, and `_library` outlives it.
                        unsafe { *library.get(symbol.as_bytes()).map_err(missing)? }
                    },)*
                    _library: library,
                })
            }
        }
    };
}
pub(crate) use functions;
