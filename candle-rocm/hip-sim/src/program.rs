//! What runs when a kernel is launched? A code object with all its instructions translated, at an address of the device.

use crate::code_object::{CodeObject, KernelCode};
use crate::disassembler::Disassembler;
use crate::fault::Trap;
use crate::isa::{Context, Step, translate};
use crate::memory::{AddressSpace, Allocation};
use crate::options::Options;
use crate::target::{Generation, Target};
use std::borrow::Cow;
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
    pub fn load(bytes: &[u8], options: &Options, memory: &mut AddressSpace) -> Result<Program, LoadError> {
        let target = options.gpu.ok_or_else(|| LoadError::Invalid("there is no device".to_string()))?;
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
        check_kernels(&code, &sources, &index_at).map_err(LoadError::Invalid)?;
        let steps = translate_all(&code, &sources, &index_at, options).map_err(LoadError::Unsupported)?;
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
        let (text, len) = disassembler.decode(bytes).unwrap_or_else(|| undecodable(bytes));
        sources.push(Source { offset, text });
        bytes = &bytes[len..];
        offset += len as u64;
    }
    Ok(sources)
}

/// Between kernels there is padding that is no instruction; it is an error only inside of one, or for who runs into it.
fn undecodable(bytes: &[u8]) -> (String, usize) {
    let bytes = &bytes[..bytes.len().min(4)];
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("{NO_INSTRUCTION} {}", digits.join(" ")), bytes.len())
}

/// Stands before the bytes in place of a mnemonic.
const NO_INSTRUCTION: &str = "bytes";

/// Translates every instruction, or lists all those that are not supported, with the kernel that each is in.
fn translate_all(
    code: &CodeObject,
    sources: &[Source],
    index_at: &HashMap<u64, u32>,
    options: &Options,
) -> Result<Vec<Step>, String> {
    let generation = options.gpu.map_or(Generation::Gfx11, |target| target.generation);
    let mut steps = Vec::new();
    let mut unsupported = BTreeSet::new();
    for (i, source) in sources.iter().enumerate() {
        let next_offset = sources.get(i + 1).map_or(code.text.end, |next| next.offset);
        let context = Context { generation, next_offset, index_at };
        let translated = match source.text.strip_prefix(NO_INSTRUCTION) {
            Some(_) if code.is_inside_function(source.offset, sources) => {
                Err("no instruction that LLVM 19 knows".to_string())
            }
            Some(bytes) => Ok(no_instruction(bytes)),
            None => translate(&with_mistake(&source.text, options), &context),
        };
        match translated {
            Ok(step) => steps.push(step),
            Err(why) => {
                let kernel = kernel_at(code, source.offset).map_or("?", |kernel| &kernel.metadata.name);
                unsupported.insert(format!("kernel '{kernel}': `{}` ({why})", source.text));
            }
        }
    }
    if unsupported.is_empty() {
        return Ok(steps);
    }
    let list: Vec<String> = unsupported.into_iter().collect();
    Err(format!("{} instructions are not supported by hip-sim:\n  {}", list.len(), list.join("\n  ")))
}

/// The text of an instruction, or of the one that the option `mistake` takes it for.
fn with_mistake<'a>(text: &'a str, options: &Options) -> Cow<'a, str> {
    match &options.mistake {
        Some((from, to)) if is_mnemonic(text, from) => Cow::Owned(text.replacen(from, to, 1)),
        _ => Cow::Borrowed(text),
    }
}

/// Whether a text begins with this mnemonic, in any of its encodings.
fn is_mnemonic(text: &str, mnemonic: &str) -> bool {
    let name = text.split_whitespace().next().unwrap_or_default();
    name.strip_prefix(mnemonic).is_some_and(|rest| ["", "_e32", "_e64", "_dpp", "_e64_dpp"].contains(&rest))
}

fn no_instruction(bytes: &str) -> Step {
    let message = format!("the bytes{bytes} are no instruction that LLVM 19 knows");
    Box::new(move |_, _| Err(Trap::new(message.clone())))
}

/// Every kernel begins at an instruction, and has the registers that it names.
fn check_kernels(code: &CodeObject, sources: &[Source], index_at: &HashMap<u64, u32>) -> Result<(), String> {
    if let Some(kernel) = code.kernels.iter().find(|kernel| !index_at.contains_key(&kernel.entry)) {
        let (name, entry) = (&kernel.metadata.name, kernel.entry);
        return Err(format!("kernel '{name}' begins at {entry:#x}, where no instruction is"));
    }
    for source in sources {
        if let (Some(kernel), Some(highest)) = (kernel_at(code, source.offset), highest_vgpr(&source.text))
            && highest >= kernel.descriptor.num_vgprs
        {
            let (name, has) = (&kernel.metadata.name, kernel.descriptor.num_vgprs);
            return Err(format!("kernel '{name}' has {has} vector registers: `{}`", source.text));
        }
    }
    Ok(())
}

/// The number of the highest vector register that an instruction names: `v7`, or the end of `v[4:7]`.
fn highest_vgpr(text: &str) -> Option<usize> {
    let tokens = text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '[' | ']' | ':'));
    let register = |token: &str| {
        let digits = token.strip_prefix('v')?.trim_matches(['[', ']']);
        digits.rsplit(':').next()?.parse().ok()
    };
    tokens.filter_map(register).max()
}

/// The kernel that an offset lies in: the last one that begins before it.
fn kernel_at(code: &CodeObject, offset: u64) -> Option<&KernelCode> {
    code.kernels.iter().filter(|kernel| kernel.entry <= offset).max_by_key(|kernel| kernel.entry)
}
