//! Whether tokens are being made, which an open port does not show.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::sampling::SamplingParams;
use crate::engine::{EngineHandle, Event, Request, SubmitError};

/// How often the engine is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long one proof that the engine works is believed while it is idle.
const PROOF_HOLDS: Duration = Duration::from_secs(10);

/// Every vocabulary has it.
const ANY_TOKEN: u32 = 0;

/// The engine's sign of life.
#[derive(Debug)]
pub struct Pulse {
    state: Mutex<State>,
    probing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    steps: u64,
    /// When a step had last ended, or there was nothing to do.
    alive: Instant,
    /// When a token had last been made.
    proved: Option<Instant>,
}

impl Default for Pulse {
    fn default() -> Self {
        let state = State { steps: 0, alive: Instant::now(), proved: None };
        Self { state: Mutex::new(state), probing: tokio::sync::Mutex::default() }
    }
}

impl Pulse {
    /// Looks at the engine again and again.
    pub async fn watch(&self, engine: &EngineHandle) {
        loop {
            self.look(engine);
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn look(&self, engine: &EngineHandle) -> State {
        let stats = engine.stats();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if stats.steps != state.steps {
            *state = State { steps: stats.steps, alive: now, proved: Some(now) };
        } else if stats.running_seqs + stats.waiting_seqs == 0 {
            state.alive = now;
        }
        *state
    }

    /// Says why, if the engine has work and has ended no step for longer than `stall_timeout`.
    pub fn check(&self, engine: &EngineHandle, stall_timeout: Duration) -> Result<(), String> {
        if !engine.is_accepting() {
            return Err("the engine has stopped".to_owned());
        }
        let silence = self.look(engine).alive.elapsed();
        if silence > stall_timeout {
            return Err(format!("the engine has ended no step for {} s", silence.as_secs()));
        }
        Ok(())
    }

    /// The same; and if the engine has been idle for a while, has it make a token.
    pub async fn prove(&self, engine: &EngineHandle, stall_timeout: Duration) -> Result<(), String> {
        // One at a time: the others hear what it found.
        let _probing = self.probing.lock().await;
        self.check(engine, stall_timeout)?;
        let stats = engine.stats();
        let proved = self.state.lock().unwrap_or_else(PoisonError::into_inner).proved;
        if stats.running_seqs + stats.waiting_seqs > 0 || proved.is_some_and(|at| at.elapsed() < PROOF_HOLDS) {
            return Ok(());
        }
        let params = SamplingParams { max_tokens: Some(1), temperature: 0.0, ..SamplingParams::default() };
        let mut probe = match engine.submit(Request { prompt: vec![ANY_TOKEN], params, ..Request::default() }) {
            Ok(probe) => probe,
            // It got busy since we looked.
            Err(SubmitError::QueueFull { .. }) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        // A stop token is a token, too, but it comes as the end alone.
        let made = async { !matches!(probe.recv().await, Some(Event::Finished { reason, .. }) if reason.is_error()) };
        match tokio::time::timeout(stall_timeout, made).await {
            Ok(true) => {
                self.look(engine);
                Ok(())
            }
            Ok(false) => Err("the engine failed to make a token".to_owned()),
            Err(_) => Err(format!("the engine has made no token for {} s", stall_timeout.as_secs())),
        }
    }
}
