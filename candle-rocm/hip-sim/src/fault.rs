//! What went wrong while a kernel ran? A [`Trap`] is what one instruction found; a [`Fault`] adds where that was.

use std::fmt;

/// The reason why an instruction could not be executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trap {
    pub what: String,
    /// The index of the other instruction, where there are two sides, and what follows it in the message.
    pub other_side: Option<(u32, String)>,
}

impl Trap {
    pub fn new(message: impl Into<String>) -> Box<Trap> {
        Box::new(Trap { what: message.into(), other_side: None })
    }
}

/// A kernel that was stopped, and where.
#[derive(Debug, Clone)]
pub struct Fault {
    pub kernel: String,
    pub workgroup: [u32; 3],
    pub wave: u32,
    /// Byte offset of the instruction from the kernel's first one, and its text; `None` where no single instruction is
    /// to blame.
    pub instruction: Option<(u64, String)>,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(f, "kernel '{}', workgroup ({x},{y},{z}), wave {}", self.kernel, self.wave)?;
        if let Some((offset, text)) = &self.instruction {
            write!(f, ", at +{offset:#x} `{text}`")?;
        }
        write!(f, ": {}", self.what)
    }
}
