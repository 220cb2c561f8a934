//! The keyboard while an answer streams: what is typed is neither shown nor kept, and Ctrl-C ends the answer.
//!
//! Ctrl-C is read as a key here, not taken as a signal: the signal would also go to the other programs of the
//! terminal, and at the second one `make run` would leave without us.

use std::io::stdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

const CTRL_C: u8 = 3;
/// As shells report a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// The keyboard in that state; dropping it gives it back as it was.
pub struct Keyboard {
    before: Termios,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Calls `interrupt` at the first Ctrl-C, and leaves the program at the second. `None` where standard input is
    /// not a terminal: there Ctrl-C is the signal that ends the program.
    pub fn watch(interrupt: impl Fn() + Send + 'static) -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        tcsetattr(stdin(), OptionalActions::Now, &quiet(before.clone())).ok()?;
        let done = Arc::new(AtomicBool::new(false));
        let mut keyboard = Self { before, done: Arc::clone(&done), thread: None };
        let before = keyboard.before.clone();
        let watch = move || {
            if !wait_for_ctrl_c(&done) {
                return;
            }
            interrupt();
            if wait_for_ctrl_c(&done) {
                restore(&before);
                std::process::exit(INTERRUPTED);
            }
        };
        keyboard.thread = std::thread::Builder::new().name("keyboard".to_owned()).spawn(watch).ok();
        Some(keyboard)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // Its panic would be no reason to end the chat.
            let _ = thread.join();
        }
        restore(&self.before);
    }
}

/// Keys arrive one by one and unseen, and Ctrl-C is one of them. A read waits for a tenth of a second.
fn quiet(mut modes: Termios) -> Termios {
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    modes.special_codes[SpecialCodeIndex::VINTR] = 0; // no key at all
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 1;
    modes
}

/// Drops what was typed meanwhile. A terminal that has gone needs no restoring.
fn restore(before: &Termios) {
    let _ = tcsetattr(stdin(), OptionalActions::Flush, before);
}

/// Reads keys until Ctrl-C; false if `done` came first, and no more keys with it.
fn wait_for_ctrl_c(done: &AtomicBool) -> bool {
    loop {
        let mut key = [0];
        match rustix::io::read(stdin(), &mut key) {
            Ok(1) if key == [CTRL_C] => return true,
            Ok(1) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) if !done.load(Ordering::Acquire) => {}
            Ok(_) | Err(_) => return false,
        }
    }
}
