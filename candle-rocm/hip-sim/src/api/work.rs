//! How is work of a stream executed? At once and in order; or, while the stream is captured, recorded.

use super::report;
use super::status::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::memory::AddressSpace;
use crate::simulator::{Handle, Simulator, Work};

impl Simulator {
    /// The stream whose capture records what is sent to this one; `None` where work runs at once.
    pub fn capturing_stream(&self, stream: Handle) -> Result<Option<Handle>, super::Status> {
        let origin = *self.joined.get(&stream).unwrap_or(&stream);
        let capture = self.streams.get(&origin).ok_or(INVALID_HANDLE)?;
        self.streams.contains_key(&stream).then_some(()).ok_or(INVALID_HANDLE)?;
        Ok(capture.as_ref().map(|_| origin))
    }

    /// Executes or records.
    pub fn submit(&mut self, stream: Handle, work: Work) -> Outcome {
        match self.capturing_stream(stream)? {
            Some(origin) => {
                let capture = self.streams.get_mut(&origin).and_then(Option::as_mut);
                capture.ok_or(INVALID_HANDLE)?.work.push(work);
                Ok(())
            }
            None => self.execute(&work),
        }
    }

    pub fn execute(&mut self, work: &Work) -> Outcome {
        match work {
            Work::Launch { program, dispatch } => {
                self.num_launches += 1;
                if self.num_launches == self.options.fail_launch {
                    self.fail(format!("launch {} failed as the option fail_launch asks", self.num_launches));
                    return Ok(());
                }
                match dispatch.run(program, &mut self.memory, &self.options, &self.pool) {
                    Ok(count) => self.num_instructions += count,
                    // As on hardware, a launch succeeds, and the fault is what the next calls meet.
                    Err(fault) => self.fail(fault.to_string()),
                }
                Ok(())
            }
            Work::Copy { to, from, len } => self.copy(*to, *from, *len),
            Work::Fill { to, byte, len } => {
                let (allocation, offset) = self.memory.find(*to, *len as u64).ok_or(INVALID_VALUE)?;
                allocation.write(offset, &vec![*byte; *len]);
                Ok(())
            }
        }
    }

    /// Stops the device for good.
    fn fail(&mut self, message: String) {
        report(&message);
        self.last_message.clone_from(&message);
        self.fault = Some(message);
    }

    /// Copies between any two of device memory and host memory.
    fn copy(&mut self, to: u64, from: u64, len: usize) -> Outcome {
        let mut bytes = vec![0; len];
        if AddressSpace::is_device_address(from) {
            let (allocation, offset) = self.memory.find(from, len as u64).ok_or(INVALID_VALUE)?;
            allocation.read(offset, &mut bytes);
        } else {
            // SAFETY: who calls a copy promises that the host range is readable; `bytes` is new, so they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), len) };
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
