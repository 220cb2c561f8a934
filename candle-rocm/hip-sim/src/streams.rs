//! In which order may work run? Streams with what is pending on them, the clocks that say what comes before what, and
//! captures. A clock says how far each stream must be: that is all that events, waits and synchronisation pass on.

use crate::simulator::{Graph, Handle, Work};
use crate::touched::Touched;
use std::collections::{HashMap, VecDeque};

/// For each stream the number of its works that come before. Streams that are not named count as 0.
#[derive(Clone, Default, Debug)]
pub struct Clock(HashMap<Handle, u64>);

impl Clock {
    pub fn get(&self, stream: Handle) -> u64 {
        self.0.get(&stream).copied().unwrap_or(0)
    }

    pub fn set(&mut self, stream: Handle, position: u64) {
        self.0.insert(stream, position);
    }

    /// After this as well.
    pub fn join(&mut self, other: &Clock) {
        for (stream, position) in &other.0 {
            let own = self.0.entry(*stream).or_default();
            *own = (*own).max(*position);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle, u64)> + '_ {
        self.0.iter().map(|(stream, position)| (*stream, *position))
    }
}

/// Work that was submitted and has not run.
pub struct Pending {
    /// Number among all works of the device.
    pub number: u32,
    pub work: Work,
    /// What must have run before, and the work's own place in its stream.
    pub clock: Clock,
    /// What a copy found in host memory when it was submitted.
    pub staged: Option<Vec<u8>>,
}

/// Work that has run, with what it touched.
pub struct Done {
    pub stream: Handle,
    /// Its place in the stream.
    pub position: u64,
    /// What it is, for a message.
    pub name: String,
    pub touched: Touched,
}

/// A stream. Work on it is pending or done, in order.
#[derive(Default)]
pub struct Stream {
    /// Waits for the null stream and makes that wait.
    pub is_blocking: bool,
    /// What the next work comes after; the stream's own entry counts the works that were submitted.
    pub clock: Clock,
    pub pending: VecDeque<Pending>,
    /// Works that have run.
    pub num_done: u64,
}

/// An event, from its last recording on.
#[derive(Clone, Default)]
pub struct Event {
    pub moment: Option<std::time::Instant>,
    pub clock: Clock,
    /// The capture that it was recorded in, by the stream that began it.
    pub capture: Option<Handle>,
}

/// A capture: the streams that take part record instead of working.
#[derive(Default)]
pub struct Capture {
    pub graph: Graph,
    /// A call that is not allowed while capturing was made: there will be no graph.
    pub is_invalid: bool,
    /// How far each stream that takes part is, and what it knows of the others.
    clocks: HashMap<Handle, Clock>,
}

impl Capture {
    pub fn begin(origin: Handle) -> Capture {
        Capture { clocks: HashMap::from([(origin, Clock::default())]), ..Capture::default() }
    }

    pub fn has(&self, stream: Handle) -> bool {
        self.clocks.contains_key(&stream)
    }

    fn advance(&mut self, stream: Handle) {
        let clock = self.clocks.entry(stream).or_default();
        clock.set(stream, clock.get(stream) + 1);
    }

    pub fn record(&mut self, stream: Handle, work: Work) {
        self.advance(stream);
        self.graph.work.push(work);
    }

    /// What an event that is recorded on a stream stands for.
    pub fn clock(&self, stream: Handle) -> Clock {
        self.clocks.get(&stream).cloned().unwrap_or_default()
    }

    /// A stream waits for an event of this capture, and so takes part in it.
    pub fn wait(&mut self, stream: Handle, event: &Clock) {
        if !self.has(stream) {
            self.advance(stream);
        }
        self.clocks.entry(stream).or_default().join(event);
    }

    /// A stream whose last work the stream that began the capture has not waited for.
    pub fn unjoined(&self, origin: Handle) -> Option<Handle> {
        let known = self.clocks.get(&origin)?;
        let behind = |(stream, clock): &(&Handle, &Clock)| known.get(**stream) < clock.get(**stream);
        self.clocks.iter().find(behind).map(|(stream, _)| *stream)
    }
}
