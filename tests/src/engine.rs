//! An engine on a checkpoint, as the program starts it, and the requests that tests send to it.

use std::path::Path;
use std::sync::Mutex;
use std::thread::JoinHandle;

use taper_server::engine::sampling::SamplingParams;
use taper_server::engine::{EngineHandle, EngineStats, Event, FinishReason, Request, RequestHandle, Shutdown, Usage};
use taper_server::loading::{Opened, Running, start};
use taper_server::settings::{EngineSettings, Settings};

/// Held by a test that computes with a real model: two at a time would wait for each other's threads in every step.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A running engine; stops when dropped.
pub struct TestEngine {
    pub opened: Opened,
    pub engine: EngineHandle,
    /// Blocks of the cache.
    num_blocks: u64,
    thread: Option<JoinHandle<()>>,
}

/// The program's own defaults.
pub fn default_settings() -> EngineSettings {
    let arguments = ["taper", "run", "model"].map(str::to_owned).to_vec();
    Settings::load(arguments, |_| None).expect("no argument is wrong").1.engine
}

impl TestEngine {
    /// Loads the checkpoint at `path`.
    pub fn start(path: &Path, settings: &EngineSettings) -> Self {
        let opened = Opened::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let Running { engine, thread, capacity } = start(&opened, Vec::new(), settings, &mut |_, _| true)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { opened, engine, num_blocks: capacity.num_blocks as u64, thread: Some(thread) }
    }

    /// Submits a greedy request for `count` tokens.
    pub fn submit(&self, prompt: &[u32], count: usize) -> RequestHandle {
        self.submit_predicted(prompt, Vec::new(), count)
    }

    /// The same for one whose answer is predicted.
    pub fn submit_predicted(&self, prompt: &[u32], prediction: Vec<u32>, count: usize) -> RequestHandle {
        let params = SamplingParams { temperature: 0.0, max_tokens: Some(count), ..SamplingParams::default() };
        let request = Request { prompt: prompt.to_vec(), params, prediction: prediction.into(), ..Request::default() };
        self.engine.submit(request).expect("the request fits")
    }

    /// Lets all requests end, stops, and gives the number of blocks and the engine's last numbers.
    pub fn stop(mut self) -> (u64, EngineStats) {
        self.engine.shutdown(Shutdown::Drain);
        self.thread.take().expect("stopped once").join().expect("the engine does not panic");
        (self.num_blocks, self.engine.stats())
    }

    /// Greedy continuation of `prompt` by `count` tokens.
    pub fn greedy(&self, prompt: &[u32], count: usize) -> Vec<u32> {
        finish(self.submit(prompt, count)).0
    }
}

impl Drop for TestEngine {
    fn drop(&mut self) {
        self.engine.shutdown(Shutdown::Abort);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the engine does not panic");
        }
    }
}

/// Waits for the end of a request: its tokens, and what was counted.
///
/// # Panics
/// When it ends in an error.
pub fn finish(mut request: RequestHandle) -> (Vec<u32>, Usage) {
    let mut tokens = Vec::new();
    loop {
        match request.blocking_recv().expect("the last event is Finished") {
            Event::Token { id, .. } => tokens.push(id),
            Event::Prompt { .. } => {}
            Event::Finished { reason: FinishReason::Error(message), .. } => panic!("the request failed: {message}"),
            Event::Finished { usage, .. } => return (tokens, usage),
        }
    }
}
