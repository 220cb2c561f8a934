//! What does the runtime hold? One simulated device: its memory, loaded programs, streams, events and graphs. Handles are
//! numbers that are looked up, so a stale one is an error and never a crash.

use crate::launch::Dispatch;
use crate::memory::AddressSpace;
use crate::options::Options;
use crate::program::Program;
use crate::target::Target;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A number that a program holds instead of a pointer to one of our objects.
pub type Handle = usize;

/// One piece of work on a stream, executed at once or recorded into a graph.
#[derive(Clone)]
pub enum Work {
    Launch { program: Arc<Program>, dispatch: Box<Dispatch> },
    Copy { to: u64, from: u64, len: usize },
    Fill { to: u64, byte: u8, len: usize },
}

/// Work that a stream recorded while it was captured, in order.
#[derive(Clone, Default)]
pub struct Graph {
    pub work: Vec<Work>,
}

pub struct Simulator {
    pub options: Options,
    pub target: &'static Target,
    pub memory: AddressSpace,
    pub pool: ThreadPool,
    pub programs: HashMap<Handle, Arc<Program>>,
    pub functions: HashMap<Handle, (Arc<Program>, String)>,
    /// Streams, with what each has recorded if it is being captured. Stream 0 always exists.
    pub streams: HashMap<Handle, Option<Graph>>,
    /// Events, with the moment when each was recorded.
    pub events: HashMap<Handle, Option<Instant>>,
    /// Events that were recorded on a stream while it was captured, and on which.
    pub captured_events: HashMap<Handle, Handle>,
    /// Streams that joined a capture by waiting for one of its events: their work goes to the stream that began it.
    pub joined: HashMap<Handle, Handle>,
    pub graphs: HashMap<Handle, Graph>,
    pub executables: HashMap<Handle, Graph>,
    /// Pinned host memory: addresses and layouts.
    pub host_allocations: HashMap<usize, std::alloc::Layout>,
    /// The last message about a refused module or a failed launch.
    pub last_message: String,
    /// The message of the fault after which the device accepts nothing more.
    pub fault: Option<String>,
    /// Instructions that waves have executed, of all launches.
    pub num_instructions: u64,
    pub num_mallocs: u64,
    pub num_launches: u64,
    next_handle: Handle,
}

impl Simulator {
    /// A fresh device; `None` where the options say that there is none.
    pub fn new(options: Options) -> Option<Simulator> {
        let target = options.gpu?;
        let pool = ThreadPoolBuilder::new().num_threads(options.threads).build().ok()?;
        Some(Simulator {
            memory: AddressSpace::new(options.memory),
            target,
            options,
            pool,
            programs: HashMap::new(),
            functions: HashMap::new(),
            streams: HashMap::from([(0, None)]),
            events: HashMap::new(),
            captured_events: HashMap::new(),
            joined: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            host_allocations: HashMap::new(),
            last_message: String::new(),
            fault: None,
            num_instructions: 0,
            num_mallocs: 0,
            num_launches: 0,
            next_handle: 0x1000,
        })
    }

    /// A number that no object has had.
    pub fn new_handle(&mut self) -> Handle {
        self.next_handle += 16;
        self.next_handle
    }

    pub fn is_capturing(&self) -> bool {
        self.streams.values().any(Option::is_some)
    }
}
