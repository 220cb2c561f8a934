//! How many threads Candle computes with. Candle reads it from the environment when it first computes.

/// Why the number of threads could not be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    #[error(
        "the number of threads must be chosen before other threads run, and whether any do is not known here; set RAYON_NUM_THREADS={0} instead of --threads"
    )]
    TooLate(usize),
}

/// One per physical core, but no more than this process may use: a container's CPU limit counts.
pub fn default_num_threads() -> usize {
    num_cpus::get_physical().min(num_cpus::get()).max(1)
}

/// Threads that Candle computes with in this process.
pub fn num_threads() -> usize {
    candle_core::utils::get_num_threads()
}

/// Logical CPUs that this process may use; more threads than these take turns.
pub fn num_cpus() -> usize {
    num_cpus::get()
}

/// Makes Candle compute with `count` threads, or without a wish with as many as the environment says, else one per
/// core. To be called once, at the start of the process.
pub fn set_num_threads(count: Option<usize>) -> Result<(), ThreadsError> {
    let value = match (count, std::env::var("RAYON_NUM_THREADS")) {
        (None, Ok(_)) => return Ok(()),
        (Some(count), Ok(set)) if set == count.to_string() => return Ok(()),
        (count, _) => count.unwrap_or_else(default_num_threads).to_string(),
    };
    match (is_single_threaded(), count) {
        (true, _) => {}
        (false, Some(count)) => return Err(ThreadsError::TooLate(count)),
        // Candle's own default is one per core, too.
        (false, None) => return Ok(()),
    }
    // SAFETY: no other thread exists that could read the environment meanwhile; that was checked just now, and only
    // this thread could start one.
    #[allow(unsafe_code)]
    unsafe {
        std::env::set_var("RAYON_NUM_THREADS", value);
    }
    Ok(())
}

/// Whether this process has one thread; false where the system does not tell.
fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}
