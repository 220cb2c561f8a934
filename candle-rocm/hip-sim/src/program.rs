//! What runs when a kernel is launched? A code object with all its instructions translated, at an address of the device.

use crate::code_object::{CodeObject, KernelCode};
use crate::disassembler::Disassembler;
use crate::isa::{Context, Step, translate};
use crate::memory::{AddressSpace, Allocation};
use crate::target::Target;
use std::collections::{BTreeSet, HashMap};

/// An instruction's place and text, for messages.
pub struct Source {
    /// Offset in the code object.
    pub offset: u64,
    pub text: String,
}

pub struct Program {
    pub steps: Vec<Step>,
    pub sources: Vec<Source>,
    pub index_at: HashMap<u64, u32>,
    pub kernels: HashMap<String, KernelCode>,
    pub globals: HashMap<String, (u64, u64)>,
    /// Device address of offset 0.
    pub base: u64,
    pub target: &'static Target,
}

/// Why a code object cannot be loaded.
#[derive(Debug, PartialEq)]
pub enum LoadError {
    /// Not a code object, or damaged.
    Invalid(String),
    /// A code object for another GPU.
    OtherTarget(String),
    /// Valid, but not supported here.
    Unsupported(String),
}

impl Program {
    /// Reads, disassembles and translates a code object, and places it in device memory.
    pub fn load(bytes: &[u8], target: &'static Target, memory: &mut AddressSpace) -> Result<Program, LoadError> {
        let code = CodeObject::parse(bytes).map_err(LoadError::Invalid)?;
        if !target.runs(code.metadata.target_name()) {
            return Err(LoadError::OtherTarget(format!(
                "the code object is for {} and the simulated GPU is {}",
                code.metadata.target_name(),
                target.name
            )));
        }
        let sources = disassemble(&code).map_err(LoadError::Unsupported)?;
        let index_at: HashMap<u64, u32> = (0..).zip(&sources).map(|(i, source)| (source.offset, i)).collect();
        let steps = translate_all(&code, &sources, &index_at, target).map_err(LoadError::Unsupported)?;
        let base = memory.reserve(code.size());
        memory.insert(Allocation::with_contents(base, &code.image_at(base)));
        let kernels = code.kernels.into_iter().map(|kernel| (kernel.metadata.name.clone(), kernel)).collect();
        Ok(Program { steps, sources, index_at, kernels, globals: code.globals, base, target })
    }
}

fn disassemble(code: &CodeObject) -> Result<Vec<Source>, String> {
    let mut disassembler = Disassembler::new(code.metadata.target_name())?;
    let mut bytes = code.text_bytes();
    let mut sources = Vec::new();
    let mut offset = code.text.start;
    while !bytes.is_empty() {
        // Between kernels there is padding that is no instruction; it is an error only for who runs into it.
        let (text, len) = disassembler.decode(bytes).unwrap_or(("s_code_end".to_string(), 4.min(bytes.len())));
        sources.push(Source { offset, text });
        bytes = &bytes[len..];
        offset += len as u64;
    }
    Ok(sources)
}

/// Translates every instruction, or lists all those that are not supported, with the kernel that each is in.
fn translate_all(
    code: &CodeObject,
    sources: &[Source],
    index_at: &HashMap<u64, u32>,
    target: &Target,
) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut unsupported = BTreeSet::new();
    for (i, source) in sources.iter().enumerate() {
        let next_offset = sources.get(i + 1).map_or(code.text.end, |next| next.offset);
        let context = Context { generation: target.generation, next_offset, index_at };
        match translate(&source.text, &context) {
            Ok(step) => steps.push(step),
            Err(why) => {
                unsupported.insert(format!("kernel '{}': `{}` ({why})", kernel_at(code, source.offset), source.text));
            }
        }
    }
    if unsupported.is_empty() {
        return Ok(steps);
    }
    let list: Vec<String> = unsupported.into_iter().collect();
    Err(format!("{} instructions are not supported by hip-sim:\n  {}", list.len(), list.join("\n  ")))
}

/// The name of the kernel that an offset lies in: the last one that begins before it.
fn kernel_at(code: &CodeObject, offset: u64) -> &str {
    let before = code.kernels.iter().filter(|kernel| kernel.entry <= offset);
    before.max_by_key(|kernel| kernel.entry).map_or("?", |kernel| &kernel.metadata.name)
}
