//! What an image says about its kernels: arguments, block size, and for AMD the registers and memory they use.
//!
//! A code object carries an ELF note (`NT_AMDGPU_METADATA`, MessagePack); PTX is text that declares its kernels.

mod msgpack;
mod note;
mod ptx;

/// The kernels of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// As the image names it: `amdgcn-amd-amdhsa--gfx1151`, `sm_90`.
    pub target: String,
    pub kernels: Vec<Kernel>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    /// Without those that a compiler adds.
    pub args: Vec<Arg>,
    /// Threads of a block that the kernel was compiled for; our kernels take exactly so many.
    pub max_block_threads: u32,
    /// Bytes of LDS that the kernel declares; 0 in PTX, which does not say.
    pub lds: u32,
    /// Known for code objects: PTX has no registers yet.
    pub resources: Option<Resources>,
}

/// Where an argument lies in the buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arg {
    pub offset: u32,
    pub size: u32,
}

/// What a kernel takes from a SIMD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub vgprs: u32,
    pub sgprs: u32,
    pub vgpr_spills: u32,
    pub sgpr_spills: u32,
    /// Bytes of private memory a thread.
    pub scratch: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Arguments that the compiler added, which a runtime fills in.
    pub hidden_args: u32,
}

/// An image that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error("the image is neither a 64-bit ELF code object nor PTX text")]
    Format,
    #[error("the code object is cut short or damaged: {0}")]
    Damaged(&'static str),
    #[error("the code object has no AMDGPU metadata note")]
    NoNote,
    #[error("the metadata of the kernel {kernel} has no {field}")]
    Missing { kernel: String, field: &'static str },
}

impl Metadata {
    pub fn parse(image: &[u8]) -> Result<Self, MetadataError> {
        if image.starts_with(b"\x7fELF") {
            return note::parse(note::find(image)?);
        }
        let text = std::str::from_utf8(image).map_err(|_| MetadataError::Format)?;
        ptx::parse(text)
    }

    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}
