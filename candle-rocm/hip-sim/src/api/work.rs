//! When is work of a stream done? Once it is submitted; with the option `lazy`, some time before somebody waits for it; or,
//! while the stream is captured, it is recorded instead.

use super::report;
use super::status::{INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILURE, NOT_READY, Outcome, Status};
use crate::memory::AddressSpace;
use crate::simulator::{Handle, Simulator, Work};
use crate::streams::{Clock, Done, Pending};
use crate::touched::Touched;

impl Simulator {
    /// The stream whose capture records what is sent to this one; `None` where work runs.
    pub fn capture_of(&self, stream: Handle) -> Result<Option<Handle>, Status> {
        self.streams.contains_key(&stream).then_some(()).ok_or(INVALID_HANDLE)?;
        Ok(self.captures.iter().find(|(_, capture)| capture.has(stream)).map(|(origin, _)| *origin))
    }

    pub fn check_fault(&self) -> Outcome {
        if self.fault.is_some() { Err(LAUNCH_FAILURE) } else { Ok(()) }
    }

    /// Takes work on, or records it.
    pub fn submit(&mut self, stream: Handle, work: Work) -> Outcome {
        if let Some(origin) = self.capture_of(stream)? {
            self.captures.get_mut(&origin).ok_or(INVALID_HANDLE)?.record(stream, work);
            return Ok(());
        }
        self.num_works += 1;
        let mut clock = self.clock_of(stream);
        clock.set(stream, clock.get(stream) + 1);
        let staged = if self.options.lazy == 0 { None } else { staged(&work) };
        let pending = Pending { number: self.num_works, work, clock: clock.clone(), staged };
        let target = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        target.clock = clock;
        target.pending.push_back(pending);
        match self.options.lazy {
            0 => self.run_until(stream, u64::MAX),
            _ => self.run_some(),
        }
        Ok(())
    }

    /// What the next work of a stream comes after: what is on it, what the host has waited for, and where the null stream
    /// is concerned, what is on that or on all that wait for it.
    pub fn clock_of(&self, stream: Handle) -> Clock {
        let mut clock = self.host_clock.clone();
        let is_blocking = self.streams.get(&stream).is_some_and(|stream| stream.is_blocking);
        for (handle, other) in &self.streams {
            if *handle == stream || (is_blocking && other.is_blocking && (stream == 0 || *handle == 0)) {
                clock.join(&other.clock);
            }
        }
        clock
    }

    /// Runs what a clock stands for; the host knows then that it is done.
    pub fn finish(&mut self, clock: &Clock) {
        for (stream, position) in clock.iter() {
            self.run_until(stream, position);
            // Who waits for a launch that never ends waits for ever, and so do all others: the device is one.
            while self.is_hung && self.streams.get(&stream).is_some_and(|stream| stream.num_done < position) {
                std::thread::park();
            }
        }
        self.host_clock.join(clock);
    }

    pub fn finish_stream(&mut self, stream: Handle) {
        let clock = self.clock_of(stream);
        self.finish(&clock);
    }

    pub fn finish_all(&mut self) {
        let streams: Vec<Handle> = self.streams.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.finish_stream(stream));
    }

    /// Whether what a clock stands for is done, which the host then knows.
    pub fn ask(&mut self, clock: &Clock) -> Outcome {
        let is_done = |(stream, position)| self.streams.get(&stream).is_none_or(|s| s.num_done >= position);
        if !clock.iter().all(is_done) {
            return Err(NOT_READY);
        }
        self.host_clock.join(clock);
        Ok(())
    }

    /// Runs some of what is pending, as the option `lazy` decides: one work in two calls.
    pub fn run_some(&mut self) {
        let choice = self.next_choice();
        let mut waiting: Vec<Handle> =
            self.streams.iter().filter(|(_, stream)| !stream.pending.is_empty()).map(|(handle, _)| *handle).collect();
        waiting.sort_unstable();
        if choice.is_multiple_of(2) && !waiting.is_empty() {
            let stream = waiting[(choice >> 8) as usize % waiting.len()];
            let position = self.streams[&stream].num_done + 1;
            self.run_until(stream, position);
        }
    }

    /// xorshift: any order will do, as long as it is the same for the same seed.
    fn next_choice(&mut self) -> u64 {
        self.choices ^= self.choices << 13;
        self.choices ^= self.choices >> 7;
        self.choices ^= self.choices << 17;
        self.choices
    }

    /// Runs a stream's works up to a position, each after all that come before it.
    fn run_until(&mut self, stream: Handle, position: u64) {
        loop {
            let Some(target) = self.streams.get_mut(&stream) else { return };
            if target.num_done >= position {
                return;
            }
            let Some(pending) = target.pending.pop_front() else { return };
            if matches!(pending.work, Work::Launch { .. }) && self.num_launches + 1 == self.options.hang {
                self.is_hung = true;
            }
            if self.is_hung {
                return target.pending.push_front(pending);
            }
            for (other, before) in pending.clock.iter().filter(|(other, _)| *other != stream) {
                self.run_until(other, before);
            }
            let Some(target) = self.streams.get_mut(&stream) else { return };
            // What waits for a hung launch hangs with it.
            if self.is_hung {
                return target.pending.push_front(pending);
            }
            target.num_done += 1;
            // What comes after a fault is never done.
            if self.fault.is_none() {
                self.execute(stream, &pending);
            }
        }
    }

    fn execute(&mut self, stream: Handle, pending: &Pending) {
        let mut touched = self.options.races.then(Touched::default);
        let outcome = match &pending.work {
            Work::Launch { program, dispatch } => {
                self.num_launches += 1;
                if self.num_launches == self.options.fail_launch {
                    self.fail(format!("launch {} failed as the option fail_launch asks", self.num_launches));
                    return;
                }
                match dispatch.run(program, &mut self.memory, &self.options, &self.pool) {
                    Ok((counts, of_launch)) => {
                        self.counts += counts;
                        touched = of_launch;
                    }
                    // As on hardware, a launch succeeds, and the fault is what the next calls meet.
                    Err(fault) => self.fail(fault.to_string()),
                }
                Ok(())
            }
            Work::Copy { to, from, len } => self.copy(stream, pending, *to, *from, *len),
            Work::Fill { to, byte, len } => self.fill(*to, *byte, *len),
        };
        if outcome.is_err() {
            self.fail(format!("{} reaches memory that has been freed", name_of(stream, pending)));
        } else if let Some(touched) = touched {
            self.look_for_race(stream, pending, touched);
        }
    }

    /// What a work touches must not meet what another touched that does not come before it.
    fn look_for_race(&mut self, stream: Handle, pending: &Pending, mut touched: Touched) {
        let mut add = |address: u64, len: usize, is_write| {
            if AddressSpace::is_device_address(address) {
                touched.add(address, len as u64, is_write);
            }
        };
        match pending.work {
            Work::Copy { to, from, len } => {
                add(from, len, false);
                add(to, len, true);
            }
            Work::Fill { to, len, .. } => add(to, len, true),
            Work::Launch { .. } => {}
        }
        let verb = |is_write| if is_write { "writes" } else { "reads" };
        let unordered = self.done.iter().filter(|done| pending.clock.get(done.stream) < done.position);
        let mut races = unordered.filter_map(|done| Some((done, touched.meets(&done.touched)?)));
        let message = races.next().map(|(done, meeting)| {
            format!(
                "{} {} memory at {:#x}, which {} {}, and nothing puts the two in order: an event or a wait is missing",
                name_of(stream, pending),
                verb(meeting.first_writes),
                meeting.address,
                done.name,
                verb(meeting.second_writes)
            )
        });
        if let Some(message) = message {
            return self.fail(message);
        }
        // What the host has waited for comes before all that it submits; what is pending was submitted earlier.
        if self.streams.values().all(|stream| stream.pending.is_empty()) {
            let known = &self.host_clock;
            self.done.retain(|done| known.get(done.stream) < done.position);
        }
        let position = pending.clock.get(stream);
        self.done.push(Done { stream, position, name: name_of(stream, pending), touched });
    }

    fn fill(&mut self, to: u64, byte: u8, len: usize) -> Outcome {
        let (allocation, offset) = self.memory.find(to, len as u64).ok_or(INVALID_VALUE)?;
        allocation.write(offset, &vec![byte; len]);
        Ok(())
    }

    /// Stops the device for good.
    fn fail(&mut self, message: String) {
        report(&message);
        self.last_message.clone_from(&message);
        self.fault = Some(message);
    }

    /// Copies between any two of device memory and host memory.
    fn copy(&mut self, stream: Handle, pending: &Pending, to: u64, from: u64, len: usize) -> Outcome {
        self.num_copies += 1;
        if self.num_copies == self.options.fail_copy {
            self.fail(format!("copy {} failed as the option fail_copy asks", self.num_copies));
            return Ok(());
        }
        self.bytes_copied += len as u64;
        let mut bytes = vec![0; len];
        if AddressSpace::is_device_address(from) {
            let (allocation, offset) = self.memory.find(from, len as u64).ok_or(INVALID_VALUE)?;
            allocation.read(offset, &mut bytes);
        } else {
            // SAFETY: who calls a copy promises that the host range is readable; `bytes` is new, so they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), len) };
        }
        if pending.staged.as_ref().is_some_and(|staged| *staged != bytes) {
            self.fail(format!(
                "{} from host address {from:#x} to {to:#x} ran after the host had changed what is there: a staging buffer was used \
                 again before its copy was done",
                name_of(stream, pending)
            ));
            return Ok(());
        }
        if AddressSpace::is_device_address(to) {
            let (allocation, offset) = self.memory.find(to, len as u64).ok_or(INVALID_VALUE)?;
            allocation.write(offset, &bytes);
        } else {
            // SAFETY: as above, for a writable range.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, len) };
        }
        Ok(())
    }
}

/// A work as messages name it.
fn name_of(stream: Handle, pending: &Pending) -> String {
    let what = match &pending.work {
        Work::Launch { dispatch, .. } => format!("launch of '{}'", dispatch.kernel.metadata.name),
        Work::Copy { len, .. } => format!("copy of {len} bytes"),
        Work::Fill { len, .. } => format!("fill of {len} bytes"),
    };
    format!("work {} (the {what} on stream {stream:#x})", pending.number)
}

/// What a copy from host memory finds there when it is submitted.
fn staged(work: &Work) -> Option<Vec<u8>> {
    let Work::Copy { from, len, .. } = work else { return None };
    if AddressSpace::is_device_address(*from) {
        return None;
    }
    // SAFETY: who calls a copy promises that the host range is readable.
    Some(unsafe { std::slice::from_raw_parts(*from as *const u8, *len) }.to_vec())
}
