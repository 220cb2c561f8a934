//! Whether the libraries of CUDA that a device needs are on this machine. They are opened at run time, and cudarc panics where one
//! is missing; a program that asks for a device should get an error instead.

use crate::Result;
use cudarc::{cublas, curand, driver};

/// An error that names the first library that is missing.
pub(crate) fn check() -> Result<()> {
    // SAFETY: these only try to open a library by its name, whose initialisers may run: they are the vendor's.
    let libraries = unsafe {
        [
            ("libcuda (the driver)", driver::sys::is_culib_present()),
            ("libcublas", cublas::sys::is_culib_present()),
            ("libcurand", curand::sys::is_culib_present()),
        ]
    };
    match libraries.iter().find(|(_, present)| !present) {
        Some((name, _)) => bail!("CUDA cannot be used: {name} was not found on this machine"),
        None => Ok(()),
    }
}
