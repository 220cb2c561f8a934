//! What does the runtime hold? One simulated device: its memory, loaded programs, streams, events and graphs. Handles are
//! numbers that are looked up, so a stale one is an error and never a crash.

use crate::api::status::{CAPTURE_UNSUPPORTED, Status};
use crate::launch::{Counts, Dispatch};
use crate::memory::AddressSpace;
use crate::options::Options;
use crate::program::Program;
use crate::streams::{Capture, Clock, Done, Event, Stream};
use crate::target::Target;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::HashMap;
use std::sync::Arc;

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
    /// Stream 0 always exists.
    pub streams: HashMap<Handle, Stream>,
    pub events: HashMap<Handle, Event>,
    /// Captures, by the stream that each began on.
    pub captures: HashMap<Handle, Capture>,
    /// What the host has waited for.
    pub host_clock: Clock,
    pub graphs: HashMap<Handle, Graph>,
    pub executables: HashMap<Handle, Graph>,
    /// Pinned host memory: addresses and layouts.
    pub host_allocations: HashMap<usize, std::alloc::Layout>,
    /// The last message about a refused module or a failed launch.
    pub last_message: String,
    /// The message of the fault after which the device accepts nothing more.
    pub fault: Option<String>,
    /// What waves have done, of all launches.
    pub counts: Counts,
    pub num_copies: u64,
    pub bytes_copied: u64,
    pub num_mallocs: u64,
    pub num_launches: u64,
    /// Works that have run and that later ones may still meet.
    pub done: Vec<Done>,
    /// Whether a launch never ends, as the option `hang` asks.
    pub is_hung: bool,
    /// Works that were submitted.
    pub num_works: u32,
    /// State of what decides when lazy work is done.
    pub choices: u64,
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
            pool,
            programs: HashMap::new(),
            functions: HashMap::new(),
            streams: HashMap::from([(0, Stream { is_blocking: true, ..Stream::default() })]),
            events: HashMap::new(),
            captures: HashMap::new(),
            host_clock: Clock::default(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            host_allocations: HashMap::new(),
            last_message: String::new(),
            fault: None,
            counts: Counts::default(),
            num_copies: 0,
            bytes_copied: 0,
            done: Vec::new(),
            is_hung: false,
            num_works: 0,
            choices: options.lazy.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            num_mallocs: 0,
            num_launches: 0,
            options,
            next_handle: 0x1000,
        })
    }

    /// A number that no object has had.
    pub fn new_handle(&mut self) -> Handle {
        self.next_handle += 16;
        self.next_handle
    }

    /// An error while any stream is captured, which ends all captures without a graph.
    pub fn refuse_while_capturing(&mut self) -> Result<(), Status> {
        if self.captures.is_empty() {
            return Ok(());
        }
        self.captures.values_mut().for_each(|capture| capture.is_invalid = true);
        Err(CAPTURE_UNSUPPORTED)
    }
}
