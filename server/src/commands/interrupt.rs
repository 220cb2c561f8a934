//! Ctrl-C and SIGTERM while a model is downloaded: the download ends in order, and says that it can go on.
//!
//! Once the runtime has taken these signals from the system it never gives them back. So from then on this listener does
//! what the system would have done, until someone else takes over.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use taper_server::hub::Interrupt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

static DOWNLOAD: Mutex<Option<Interrupt>> = Mutex::new(None);
static TAKEN_OVER: AtomicBool = AtomicBool::new(false);
static STARTED: OnceLock<()> = OnceLock::new();

/// A download that signals end, until this is dropped.
pub struct Interruptible(pub Interrupt);

impl Interruptible {
    /// Begins to listen. Where that is not possible, a signal ends the program as always, which loses little.
    pub fn begin() -> Self {
        let interrupt = Interrupt::default();
        set(Some(interrupt.clone()));
        STARTED.get_or_init(|| {
            let thread = std::thread::Builder::new().name("signals".to_owned());
            if let Err(error) = thread.spawn(listen) {
                tracing::debug!("signals are not listened to: {error}");
            }
        });
        Self(interrupt)
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        set(None);
    }
}

/// Someone else listens from here on.
pub fn hand_over() {
    TAKEN_OVER.store(true, Ordering::Release);
}

fn set(download: Option<Interrupt>) -> Option<Interrupt> {
    std::mem::replace(&mut *DOWNLOAD.lock().unwrap_or_else(PoisonError::into_inner), download)
}

fn listen() -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        loop {
            next(&mut interrupt, &mut terminate).await;
            match set(None) {
                Some(download) => download.raise(),
                None if TAKEN_OVER.load(Ordering::Acquire) => {}
                // The second signal, or nothing is downloaded any more.
                None => std::process::exit(Exit::Interrupted as i32),
            }
        }
    })
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
