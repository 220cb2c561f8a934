//! Runs code of libraries that panic on some inputs: the panic becomes an error, and its report a line for debugging.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `run` returns, or what it said when it panicked. Whatever it was changing is not to be used afterwards.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    report_quietly();
    let outer = IS_GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(outer);
    result.map_err(|panic| message(&*panic))
}

/// Reports of panics that are handled would alarm whoever reads standard error.
fn report_quietly() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_GUARDED.get() {
                tracing::debug!("handled: {info}");
            } else {
                report(info);
            }
        }));
    });
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        assert_eq!(guarded(|| 7), Ok(7));
        assert_eq!(guarded(|| -> u32 { panic!("at {}", 3) }), Err("at 3".to_owned()));
    }
}
