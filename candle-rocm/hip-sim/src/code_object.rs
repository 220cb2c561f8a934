//! What is in a code object? Reads the ELF file that a compiler made: its image in memory with relocations applied, its
//! instructions, and a descriptor for each kernel.

use crate::metadata::{Argument, KernelMetadata, Metadata};
use crate::program::Source;
use object::elf::EM_AMDGPU;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationFlags, RelocationTarget};
use std::collections::HashMap;

/// Relocations that the image of a program needs: an address, or one relative to the image's base.
const R_AMDGPU_ABS64: u32 = 3;
const R_AMDGPU_RELATIVE64: u32 = 13;

/// A code object, before it has an address.
pub struct CodeObject {
    pub metadata: Metadata,
    /// The bytes from offset 0 to the end of the last segment; offsets are the file's virtual addresses.
    image: Vec<u8>,
    /// Places in the image that hold an address: the offset, and what the base is added to.
    relocations: Vec<(u64, u64)>,
    /// Range of the instructions in the image.
    pub text: std::ops::Range<u64>,
    pub kernels: Vec<KernelCode>,
    /// Names, offsets and sizes of what a program can look up besides kernels.
    pub globals: HashMap<String, (u64, u64)>,
}

/// One kernel: where it is, and how its waves begin.
#[derive(Clone, Debug)]
pub struct KernelCode {
    pub metadata: KernelMetadata,
    /// Offset of the first instruction.
    pub entry: u64,
    pub descriptor: Descriptor,
}

/// The fields of the 64-byte kernel descriptor that decide how registers are set up.
#[derive(Clone, Debug)]
pub struct Descriptor {
    pub num_user_sgprs: usize,
    /// Whether the workgroup's index in each dimension lies in a scalar register (before gfx12).
    pub has_workgroup_id: [bool; 3],
    pub num_vgprs: usize,
    properties: u16,
}

impl Descriptor {
    fn parse(bytes: &[u8]) -> Result<Descriptor, String> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let (rsrc1, rsrc2) = (u32_at(48), u32_at(52));
        let float_mode = rsrc1 >> 12 & 0xFF;
        if float_mode & 0xF != 0 {
            return Err(format!("float mode {float_mode:#x}: only rounding to nearest even is supported"));
        }
        if float_mode >> 4 != 0xF {
            return Err(format!(
                "float mode {float_mode:#x} takes subnormal numbers as zeros, which is not supported: compile with -fno-gpu-flush-denormals-to-zero"
            ));
        }
        let descriptor = Descriptor {
            num_user_sgprs: (rsrc2 >> 1 & 31) as usize,
            has_workgroup_id: [7, 8, 9].map(|bit| rsrc2 >> bit & 1 == 1),
            num_vgprs: ((rsrc1 & 63) as usize + 1) * 8,
            properties: u16::from_le_bytes([bytes[56], bytes[57]]),
        };
        match descriptor.has(WAVEFRONT_SIZE_32) {
            true => Ok(descriptor),
            false => Err("waves of 64 lanes: compile without -mwavefrontsize64".to_string()),
        }
    }

    pub fn has(&self, property: u16) -> bool {
        self.properties & property != 0
    }
}

/// Properties of a descriptor: which values lie in the first scalar registers, in this order.
pub const PRIVATE_BUFFER: u16 = 1 << 0;
pub const DISPATCH_POINTER: u16 = 1 << 1;
pub const QUEUE_POINTER: u16 = 1 << 2;
pub const KERNARG_POINTER: u16 = 1 << 3;
pub const DISPATCH_ID: u16 = 1 << 4;
pub const SCRATCH_INIT: u16 = 1 << 5;
pub const PRIVATE_SIZE: u16 = 1 << 6;
const WAVEFRONT_SIZE_32: u16 = 1 << 10;

const DESCRIPTOR_BYTES: u64 = 64;

impl CodeObject {
    pub fn parse(bytes: &[u8]) -> Result<CodeObject, String> {
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(|error| format!("not an ELF file: {error}"))?;
        let header = file.elf_header();
        if header.e_machine(Endianness::Little) != EM_AMDGPU {
            return Err("an ELF file, but not for an AMD GPU".to_string());
        }
        let metadata = Metadata::parse(&metadata_note(&file, bytes)?)?;
        let image = load_segments(&file)?;
        let text = file.section_by_name(".text").ok_or("has no instructions")?;
        let text_end = text.address().saturating_add(text.size());
        if text_end > image.len() as u64 {
            return Err(format!("its instructions end at {text_end:#x}, outside of what it loads"));
        }
        let mut code = CodeObject {
            relocations: relocations(&file)?,
            text: text.address()..text_end,
            kernels: Vec::new(),
            globals: HashMap::new(),
            metadata,
            image,
        };
        code.add_symbols(&file)?;
        Ok(code)
    }

    fn add_symbols(&mut self, file: &ElfFile64<'_, Endianness>) -> Result<(), String> {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if let Ok(name) = symbol.name()
                && !symbol.is_undefined()
            {
                self.globals.insert(name.to_string(), (symbol.address(), symbol.size()));
            }
        }
        for metadata in std::mem::take(&mut self.metadata.kernels) {
            let name = metadata.name.clone();
            let kernel = self.kernel(metadata).map_err(|error| format!("kernel '{name}': {error}"))?;
            self.kernels.push(kernel);
        }
        Ok(())
    }

    fn kernel(&self, metadata: KernelMetadata) -> Result<KernelCode, String> {
        let (at, _) = *self.globals.get(&metadata.symbol).ok_or("has no descriptor")?;
        let bytes = self.image_range(at, DESCRIPTOR_BYTES).ok_or("its descriptor lies outside the file")?;
        if metadata.wavefront_size != 32 {
            return Err(format!("waves of {} lanes: only 32 are supported", metadata.wavefront_size));
        }
        if metadata.uses_dynamic_stack {
            return Err("uses a stack of dynamic size (recursion or calls through pointers)".to_string());
        }
        check_sizes(&metadata)?;
        let offset = i64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes"));
        Ok(KernelCode { entry: at.wrapping_add_signed(offset), descriptor: Descriptor::parse(bytes)?, metadata })
    }

    fn image_range(&self, at: u64, len: u64) -> Option<&[u8]> {
        self.image.get(at as usize..at.checked_add(len)? as usize)
    }

    /// The image as it is in memory at this address.
    pub fn image_at(&self, base: u64) -> Vec<u8> {
        let mut image = self.image.clone();
        for (offset, addend) in &self.relocations {
            if let Some(place) = image.get_mut(*offset as usize..offset.saturating_add(8) as usize) {
                place.copy_from_slice(&base.wrapping_add(*addend).to_le_bytes());
            }
        }
        image
    }

    /// Whether an offset lies in a function, before its last `s_endpgm`.
    pub fn is_inside_function(&self, offset: u64, sources: &[Source]) -> bool {
        let mut functions = self.globals.values().filter(|(at, size)| offset.wrapping_sub(*at) < *size);
        functions.any(|(at, size)| {
            let mut rest = sources.iter().filter(|source| source.offset > offset && source.offset - at < *size);
            rest.any(|source| source.text == "s_endpgm")
        })
    }

    /// Bytes of the image.
    pub fn size(&self) -> u64 {
        self.image.len() as u64
    }

    /// The bytes of instructions.
    pub fn text_bytes(&self) -> &[u8] {
        &self.image[self.text.start as usize..self.text.end as usize]
    }
}

/// Bytes of LDS and of private memory for each lane that hardware has at most.
const MAX_LDS_BYTES: usize = crate::launch::MAX_LDS;
const MAX_PRIVATE_BYTES: usize = 1 << 20;

/// A damaged file must not ask for more than there is, nor have arguments outside of their segment.
fn check_sizes(metadata: &KernelMetadata) -> Result<(), String> {
    if metadata.lds_size > MAX_LDS_BYTES || metadata.private_size > MAX_PRIVATE_BYTES {
        let (lds, private) = (metadata.lds_size, metadata.private_size);
        return Err(format!("asks for {lds} bytes of LDS and {private} bytes of private memory a lane"));
    }
    let fits = |argument: &Argument| {
        argument.offset.checked_add(argument.size).is_some_and(|end| end <= metadata.kernarg_size)
    };
    match metadata.kernarg_size <= MAX_KERNARG_BYTES && metadata.arguments.iter().all(fits) {
        true => Ok(()),
        false => Err(format!("has arguments outside of its {} bytes of them", metadata.kernarg_size)),
    }
}

const MAX_KERNARG_BYTES: usize = 1 << 16;

/// The type of the note that holds the metadata.
const NT_AMDGPU_METADATA: u32 = 32;

fn metadata_note(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let endian = Endianness::Little;
    for segment in file.elf_program_headers() {
        let Ok(Some(mut notes)) = segment.notes(endian, bytes) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian).0 == NT_AMDGPU_METADATA {
                return Ok(note.desc().to_vec());
            }
        }
    }
    Err("has no metadata note (a code object of version 2 or older?)".to_string())
}

/// Larger than any code object; a damaged file must not ask for more.
const MAX_IMAGE_BYTES: u64 = 1 << 30;

fn load_segments(file: &ElfFile64<'_, Endianness>) -> Result<Vec<u8>, String> {
    let mut image = Vec::new();
    for segment in file.segments() {
        let end = segment.address().saturating_add(segment.size());
        if end > MAX_IMAGE_BYTES {
            return Err(format!("a segment ends at {end:#x}"));
        }
        if image.len() < end as usize {
            image.resize(end as usize, 0);
        }
        let data = segment.data().map_err(|error| format!("a segment: {error}"))?;
        let start = segment.address() as usize;
        let place = image.get_mut(start..start.saturating_add(data.len()));
        place.ok_or("a segment holds more than it loads")?.copy_from_slice(data);
    }
    Ok(image)
}

fn relocations(file: &ElfFile64<'_, Endianness>) -> Result<Vec<(u64, u64)>, String> {
    let mut places = Vec::new();
    for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        let symbol = match relocation.target() {
            RelocationTarget::Symbol(index) => file
                .dynamic_symbol_table()
                .and_then(|table| object::ObjectSymbolTable::symbol_by_index(&table, index).ok())
                .map_or(0, |symbol| symbol.address()),
            _ => 0,
        };
        match r_type.0 {
            R_AMDGPU_ABS64 | R_AMDGPU_RELATIVE64 => {
                places.push((offset, symbol.wrapping_add_signed(relocation.addend())));
            }
            _ => return Err(format!("relocation of type {}", r_type.0)),
        }
    }
    Ok(places)
}
