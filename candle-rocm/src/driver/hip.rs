//! What is AMD's own: where HIP's library lies, the device's properties, and the device of a thread.
//!
//! Properties are read by offset from the structure of ROCm 6 and later (`hipGetDevicePropertiesR0600`); the function
//! without that suffix fills an older structure. `hipMallocAsync` is not used: several released versions lose or corrupt
//! its memory.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use super::library::{self, functions};
use super::table::{self, Functions, Handle};
use super::{Driver, Properties, Result, Vendor};

/// Newest first. The plain name last: it is there where development files are installed.
const NAMES: [&str; 3] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"];
const FIX: &str = "install ROCm 6 or later (the package hip-runtime-amd), or set ROCM_PATH to where it is";

functions! {
    OwnFunctions {
        set_device = "hipSetDevice" (ordinal: c_int);
        properties = "hipGetDevicePropertiesR0600" (properties: *mut c_void, ordinal: c_int);
        load_module = "hipModuleLoadData" (module: *mut Handle, image: *const c_void);
    }
}

/// One AMD device.
pub(super) struct Hip {
    functions: OwnFunctions,
    ordinal: u32,
}

thread_local! {
    /// The device that HIP has for this thread, as far as we know.
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Opens HIP, from `directory` alone if there is one, and takes a device by its number.
pub(super) fn open(directory: Option<&Path>, ordinal: u32) -> Result<Driver> {
    let rocm = std::env::var_os("ROCM_PATH").map(|path| PathBuf::from(path).join("lib"));
    let elsewhere: Vec<PathBuf> = rocm.into_iter().chain([PathBuf::from("/opt/rocm/lib")]).collect();
    let opened = library::open("ROCm's libamdhip64", &NAMES, directory, &elsewhere, FIX)?;
    let own = OwnFunctions::load(&opened, 0)?;
    let functions = Functions::start(&opened, table::HIP, "HIP", ordinal)?;
    let mut raw = RawProperties([0; 4096]);
    // SAFETY: the structure has 1472 bytes in every version so far; there is room for more than twice as many.
    functions.check(unsafe { own.properties((&raw mut raw).cast(), ordinal as c_int) })?;
    let properties = raw.read();
    let image_target = properties.target.clone();
    Ok(Driver { functions, vendor: Vendor::Hip(Hip { functions: own, ordinal }), properties, image_target })
}

impl Hip {
    /// HIP has a current device for each thread.
    pub(super) fn bind(&self, common: &Functions) -> Result<()> {
        if CURRENT.get() == Some(self.ordinal) {
            return Ok(());
        }
        // SAFETY: the device exists.
        common.check(unsafe { self.functions.set_device(self.ordinal as c_int) })?;
        CURRENT.set(Some(self.ordinal));
        Ok(())
    }

    /// # Safety
    /// As [`Driver::load_module`].
    pub(super) unsafe fn load_module(&self, common: &Functions, image: &[u8]) -> Result<Handle> {
        let mut module = null_mut();
        // SAFETY: the caller's promise; `module` is written.
        common.check(unsafe { self.functions.load_module(&mut module, image.as_ptr().cast()) })?;
        Ok(module)
    }
}

/// `hipDeviceProp_tR0600`, with room to spare.
#[repr(C, align(16))]
struct RawProperties([u8; 4096]);

impl RawProperties {
    /// Offsets as in the headers of HIP 7.1.
    fn read(&self) -> Properties {
        Properties {
            name: self.text(0, 256),
            // May go on like `:sramecc+:xnack-`.
            target: self.text(1160, 256).split(':').next().unwrap_or_default().to_owned(),
            total_memory: u64::from(self.word(288)) | u64::from(self.word(292)) << 32,
            num_processors: self.word(388),
            wave_size: self.word(308),
            max_block_threads: self.word(320),
            lds_per_block: self.word(296),
            integrated: self.word(396) != 0,
            clock_khz: self.word(348),
            memory_clock_khz: self.word(608),
            memory_bus_bits: self.word(612),
            l2_cache: self.word(616),
        }
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.0[at..at + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn text(&self, at: usize, len: usize) -> String {
        let bytes = self.0[at..at + len].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::RawProperties;

    #[test]
    fn properties_are_read_where_hip_7_puts_them() {
        let mut raw = RawProperties([0; 4096]);
        let mut put = |at: usize, bytes: &[u8]| raw.0[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"AMD Radeon Graphics");
        put(288, &(96u64 << 30).to_le_bytes());
        put(308, &32u32.to_le_bytes());
        put(388, &20u32.to_le_bytes());
        put(396, &1u32.to_le_bytes());
        put(1160, b"gfx1151:sramecc-:xnack-");
        let read = raw.read();
        assert_eq!((read.name.as_str(), read.target.as_str()), ("AMD Radeon Graphics", "gfx1151"));
        assert_eq!((read.total_memory, read.wave_size, read.num_processors), (96 << 30, 32, 20));
        assert!(read.integrated);
    }
}
