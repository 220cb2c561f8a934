//! Memory for tensors: blocks of an [`Arena`] over what the driver gave. All work of a device is on one stream, so a block
//! that is given back may be taken again at once: what is queued later runs later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taper_kernels::DevicePtr;

use crate::arena::{Arena, MemoryStats};
use crate::{Buffer, Context, DriverError};

/// Where a device's memory comes from. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Allocator(Arc<State>);

#[derive(Debug)]
struct State {
    context: Context,
    /// Every request is one of the driver's, at its exact size.
    exact: bool,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    arena: Arena,
    segments: BTreeMap<u64, Buffer>,
}

impl Allocator {
    pub(crate) fn new(context: Context, exact: bool) -> Self {
        Self(Arc::new(State { context, exact, held: Mutex::default() }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        self.held().arena.stats()
    }

    /// Gives the driver back what nothing is in use of.
    pub(crate) fn trim(&self) {
        self.held().trim();
    }

    /// Memory whose content is not defined.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<Memory, DriverError> {
        if self.0.exact {
            let buffer = self.0.context.alloc(bytes)?;
            return Ok(Memory { ptr: buffer.ptr(), bytes, holder: Holder::Driver(buffer) });
        }
        let mut held = self.held();
        let ptr = match held.arena.take(bytes as u64) {
            Some(ptr) => ptr,
            None => held.grow(&self.0.context, bytes as u64)?,
        };
        Ok(Memory { ptr: DevicePtr(ptr), bytes, holder: Holder::Arena(self.clone()) })
    }
}

impl Held {
    /// Takes a segment from the driver, and the block from it.
    fn grow(&mut self, context: &Context, bytes: u64) -> Result<u64, DriverError> {
        let mut segment = Arena::segment_for(bytes);
        let buffer = context.alloc(segment as usize).or_else(|_| {
            // What lies about may be what is missing, or what the segment has beyond the request.
            self.trim();
            segment = Arena::smallest_segment_for(bytes);
            context.alloc(segment as usize)
        })?;
        let address = buffer.ptr().0;
        self.arena.add_segment(address, segment, bytes);
        self.segments.insert(address, buffer);
        Ok(self.arena.take(bytes).expect("a segment is made for its request"))
    }

    fn trim(&mut self) {
        // A buffer waits for the stream before it goes.
        self.arena.trim().iter().for_each(|address| drop(self.segments.remove(address)));
    }
}

/// A block of device memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    ptr: DevicePtr,
    bytes: usize,
    holder: Holder,
}

#[derive(Debug)]
enum Holder {
    Arena(Allocator),
    Driver(#[allow(dead_code, reason = "held for its drop")] Buffer),
}

impl Memory {
    pub(crate) fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// As many as were asked for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Holder::Arena(allocator) = &self.holder {
            allocator.held().arena.give_back(self.ptr.0);
        }
    }
}
