//! What do the bytes of an instruction say? Asks LLVM, whose shared library is opened when it is first needed: encodings
//! are LLVM's business, so none can be read wrongly here.

#![allow(unsafe_code)] // A C library is called.

use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Names of the library on Debian, Ubuntu, Fedora and Arch.
const LIBRARIES: [&str; 4] =
    ["libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so", "/usr/lib/llvm-19/lib/libLLVM.so.1"];

const TRIPLE: &CStr = c"amdgcn-amd-amdhsa";

type CreateDisassembler =
    unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void, c_int, *mut c_void, *mut c_void) -> *mut c_void;
type DisassembleOne = unsafe extern "C" fn(*mut c_void, *mut u8, u64, u64, *mut c_char, usize) -> usize;
type Dispose = unsafe extern "C" fn(*mut c_void);

/// LLVM's disassembler for one target.
pub struct Disassembler {
    context: *mut c_void,
    disassemble_one: DisassembleOne,
    dispose: Dispose,
    /// Keeps the functions above alive.
    _library: Library,
}

impl Disassembler {
    /// A disassembler for a target such as `gfx1151`.
    pub fn new(target: &str) -> Result<Disassembler, String> {
        let library = open_library()?;
        for part in ["TargetInfo", "TargetMC", "Disassembler"] {
            let name = format!("LLVMInitializeAMDGPU{part}");
            // SAFETY: these functions of LLVM's C API take nothing and return nothing.
            let initialize = unsafe { symbol::<unsafe extern "C" fn()>(&library, &name)? };
            // SAFETY: as above; calling one more than once is allowed.
            unsafe { initialize() };
        }
        // SAFETY: the three types are the signatures of these functions in llvm-c/Disassembler.h.
        let create = unsafe { symbol::<CreateDisassembler>(&library, "LLVMCreateDisasmCPU")? };
        // SAFETY: as above.
        let disassemble_one = unsafe { symbol::<DisassembleOne>(&library, "LLVMDisasmInstruction")? };
        // SAFETY: as above.
        let dispose = unsafe { symbol::<Dispose>(&library, "LLVMDisasmDispose")? };
        let cpu = CString::new(target).map_err(|_| "the name of the target has a zero byte".to_string())?;
        let null = std::ptr::null_mut();
        // SAFETY: both strings end with a zero byte and outlive the call; no callbacks are given.
        let context = unsafe { create(TRIPLE.as_ptr(), cpu.as_ptr(), null, 0, null, null) };
        if context.is_null() {
            return Err(format!("LLVM has no disassembler for {target}"));
        }
        Ok(Disassembler { context, disassemble_one, dispose, _library: library })
    }

    /// The text of the first instruction of `bytes`, and its length in bytes; `None` where there is no instruction.
    pub fn decode(&mut self, bytes: &[u8]) -> Option<(String, usize)> {
        // LLVM's signature is not const, although it only reads.
        let mut window = bytes[..bytes.len().min(MAX_INSTRUCTION_BYTES)].to_vec();
        let mut text = [0u8; 512];
        // SAFETY: the context is live until `drop`; both buffers are as long as is said, and LLVM ends the text with a zero.
        let len = unsafe {
            (self.disassemble_one)(
                self.context,
                window.as_mut_ptr(),
                window.len() as u64,
                0,
                text.as_mut_ptr().cast(),
                text.len(),
            )
        };
        let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy();
        (len != 0).then(|| (text.trim().replace('\t', " "), len))
    }
}

const MAX_INSTRUCTION_BYTES: usize = 32;

impl Drop for Disassembler {
    fn drop(&mut self) {
        // SAFETY: the context came from `LLVMCreateDisasmCPU` and is not used again.
        unsafe { (self.dispose)(self.context) };
    }
}

fn open_library() -> Result<Library, String> {
    let open = |name: &&str| {
        // SAFETY: loading LLVM runs its constructors, which have no preconditions.
        unsafe { Library::new(*name) }.ok()
    };
    LIBRARIES.iter().find_map(open).ok_or_else(|| {
        format!(
            "LLVM 19's library was not found ({}): install it, on Debian with `apt-get install libllvm19`",
            LIBRARIES.join(", ")
        )
    })
}

/// # Safety
/// `T` must be the type of the function with this name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller's promise.
    let symbol: Result<Symbol<'_, T>, _> = unsafe { library.get(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| format!("LLVM's library has no function {name}: it must be LLVM 19's"))
}
