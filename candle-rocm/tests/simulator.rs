//! hip-sim as the one device of a test program: opened from where cargo put it, started over for every test.

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libloading::Library;

static TURN: Mutex<()> = Mutex::new(());

/// The directory that cargo puts hip-sim's `libamdhip64.so` into: this test's own.
pub fn directory() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    program.parent().expect("a program lies in a directory").to_owned()
}

/// hip-sim's library, for what it offers beyond HIP.
pub struct Simulator {
    library: Library,
    _turn: MutexGuard<'static, ()>,
}

impl Simulator {
    /// Starts over with this target; everything that was made before is gone.
    pub fn start(target: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: hip-sim's initialisers do nothing.
        let library =
            unsafe { Library::new(directory().join("libamdhip64.so")) }.expect("hip-sim is built with this test");
        let options = CString::new(format!("gpu={target} seed=1")).unwrap();
        // SAFETY: the type is that of hip-sim's function; nothing made earlier is left.
        let code = unsafe {
            let reset = library.get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"hipSimReset").unwrap();
            reset(options.as_ptr())
        };
        assert_eq!(code, 0, "hip-sim refuses {target}");
        Self { library, _turn: turn }
    }

    /// What the interpreter found, for a panic's reader.
    pub fn last_fault(&self) -> String {
        let mut text = vec![0u8; 4096];
        // SAFETY: the type is that of hip-sim's function, which writes at most so many bytes.
        let len = unsafe {
            let fault =
                self.library.get::<unsafe extern "C" fn(*mut c_char, usize) -> usize>(b"hipSimLastFault").unwrap();
            fault(text.as_mut_ptr().cast(), text.len())
        };
        String::from_utf8_lossy(&text[..len.min(text.len())]).into_owned()
    }
}
