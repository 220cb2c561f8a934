//! How do the tests reach the simulator? Through its C interface, as any program does; with kernels that clang compiles or
//! assembles when a test asks for them.
#![allow(unsafe_code)] // The interface is C's.
#![allow(clippy::unused_self)] // A method needs the device that only one test has at a time.

use amdhip64::api::*;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The targets that every kernel runs on.
pub const TARGETS: [&str; 4] = ["gfx1100", "gfx1151", "gfx1200", "gfx1201"];

/// One simulated device; there is one in a process, so tests that use it run one after the other.
pub struct Gpu {
    pub target: String,
    _guard: MutexGuard<'static, ()>,
}

static DEVICE: Mutex<()> = Mutex::new(());

/// Device memory with `len` elements.
#[derive(Clone, Copy)]
pub struct Buffer<T> {
    pub address: *mut c_void,
    pub len: usize,
    element: std::marker::PhantomData<T>,
}

pub enum Argument {
    Pointer(*mut c_void),
    U32(u32),
    F32(f32),
}

impl<T> From<Buffer<T>> for Argument {
    fn from(buffer: Buffer<T>) -> Argument {
        Argument::Pointer(buffer.address)
    }
}

impl From<u32> for Argument {
    fn from(value: u32) -> Argument {
        Argument::U32(value)
    }
}

impl From<f32> for Argument {
    fn from(value: f32) -> Argument {
        Argument::F32(value)
    }
}

impl Gpu {
    pub fn new(target: &str) -> Gpu {
        Gpu::with_options(target, "")
    }

    pub fn with_options(target: &str, options: &str) -> Gpu {
        let guard = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
        let options = CString::new(format!("gpu={target} {options}")).unwrap();
        // SAFETY: the string ends with a zero byte.
        assert_eq!(unsafe { hipSimReset(options.as_ptr()) }, 0);
        Gpu { target: target.to_string(), _guard: guard }
    }

    pub fn allocate<T>(&self, len: usize) -> Buffer<T> {
        let mut address = std::ptr::null_mut();
        // SAFETY: `address` is valid for a write.
        assert_eq!(unsafe { hipMalloc(&mut address, len * size_of::<T>()) }, 0);
        Buffer { address, len, element: std::marker::PhantomData }
    }

    pub fn upload<T: Copy>(&self, values: &[T]) -> Buffer<T> {
        let buffer = self.allocate(values.len());
        // SAFETY: the source has as many bytes.
        assert_eq!(unsafe { hipMemcpy(buffer.address, values.as_ptr().cast(), size_of_val(values), 1) }, 0);
        buffer
    }

    pub fn download<T: Copy + Default>(&self, buffer: Buffer<T>) -> Vec<T> {
        let mut values = vec![T::default(); buffer.len];
        let len = size_of_val(values.as_slice());
        // SAFETY: the target has as many bytes.
        assert_eq!(unsafe { hipMemcpy(values.as_mut_ptr().cast(), buffer.address, len, 2) }, 0, "{}", self.fault());
        values
    }

    /// Loads a code object and answers with the status.
    pub fn try_load(&self, code: &[u8]) -> Result<*mut c_void, c_int> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a whole file.
        match unsafe { hipModuleLoadData(&mut module, code.as_ptr().cast()) } {
            0 => Ok(module),
            status => Err(status),
        }
    }

    pub fn function(&self, code: &[u8], name: &str) -> *mut c_void {
        let module = self.try_load(code).unwrap_or_else(|status| panic!("status {status}: {}", self.fault()));
        self.function_of(module, name)
    }

    pub fn function_of(&self, module: *mut c_void, name: &str) -> *mut c_void {
        let mut function = std::ptr::null_mut();
        let name = CString::new(name).unwrap();
        // SAFETY: `function` is valid for a write, and the name ends with a zero byte.
        assert_eq!(unsafe { hipModuleGetFunction(&mut function, module, name.as_ptr()) }, 0);
        function
    }

    /// Launches with the arguments as an array of pointers.
    pub fn launch(&self, function: *mut c_void, grid: [u32; 3], block: u32, lds: u32, arguments: &[Argument]) -> c_int {
        let mut pointers: Vec<*mut c_void> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Pointer(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Argument::U32(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Argument::F32(value) => std::ptr::from_ref(value).cast_mut().cast(),
            })
            .collect();
        let [x, y, z] = grid;
        let (stream, extra) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: there is a pointer to each argument.
        unsafe { hipModuleLaunchKernel(function, x, y, z, block, 1, 1, lds, stream, pointers.as_mut_ptr(), extra) }
    }

    /// Launches with the arguments as one buffer.
    pub fn launch_bytes(&self, function: *mut c_void, grid: [u32; 3], block: u32, bytes: &[u8]) -> c_int {
        let [x, y, z] = grid;
        let tag = std::ptr::without_provenance_mut;
        let mut size = bytes.len();
        let arguments = bytes.as_ptr().cast_mut().cast();
        let mut extra: [*mut c_void; 5] = [tag(1), arguments, tag(2), (&raw mut size).cast(), tag(3)];
        let null = std::ptr::null_mut();
        // SAFETY: the list names a buffer and its size, and has its end.
        unsafe { hipModuleLaunchKernel(function, x, y, z, block, 1, 1, 0, null, null.cast(), extra.as_mut_ptr()) }
    }

    /// A number that the device counts.
    pub fn counter(&self, name: &std::ffi::CStr) -> u64 {
        let mut count = 0;
        // SAFETY: the name ends with a zero byte, and `count` is valid for a write.
        assert_eq!(unsafe { hipSimCounter(name.as_ptr(), &mut count) }, 0);
        count
    }

    /// Runs a kernel of a source file in `tests/kernels` to its end.
    pub fn run(&self, file: &str, kernel: &str, grid: [u32; 3], block: u32, lds: u32, arguments: &[Argument]) {
        let function = self.function(&compile(file, &self.target, &[]), kernel);
        assert_eq!(self.launch(function, grid, block, lds, arguments), 0);
        assert_eq!(hipDeviceSynchronize(), 0, "{}", self.fault());
    }

    /// The message of the last fault or refusal.
    pub fn fault(&self) -> String {
        let mut buffer = vec![0u8; 1 << 16];
        // SAFETY: the buffer has the length that is said.
        let len = unsafe { hipSimLastFault(buffer.as_mut_ptr().cast(), buffer.len()) };
        String::from_utf8_lossy(&buffer[..len.min(buffer.len() - 1)]).into_owned()
    }
}

/// Compiles a file of `tests/kernels` with these definitions; each result is made once in a process.
pub fn compile(file: &str, target: &str, definitions: &[&str]) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let definitions: Vec<String> = definitions.iter().map(|definition| format!("-D{definition}")).collect();
    compile_in(&folder, file, target, &definitions.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Compiles a file of a folder.
pub fn compile_in(folder: &Path, file: &str, target: &str, flags: &[&str]) -> Vec<u8> {
    let source = folder.join(file);
    let mut arguments: Vec<String> =
        ["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O3"]
            .map(String::from)
            .to_vec();
    arguments.push("-fuse-cuid=none".to_string());
    arguments.push(format!("--offload-arch={target}"));
    arguments.extend(flags.iter().map(ToString::to_string));
    clang(&arguments, &source, headers(folder))
}

/// Assembles a kernel `test(input, output)` around instructions. They find in `v1` to `v4` four rows of 32 inputs, and leave
/// in `v10` and `v11` (0 before) two rows of results; `v31` is the thread, `v0` is the lane's offset in a row, scalars from `s4` on are free.
pub fn assemble(instructions: &str, target: &str) -> Vec<u8> {
    assemble_with(instructions, target, &[])
}

/// As [`assemble`], with other text in places of what stands around the instructions.
pub fn assemble_with(instructions: &str, target: &str, changes: &[(&str, &str)]) -> Vec<u8> {
    let mut source = format!(".amdgcn_target \"amdgcn-amd-amdhsa--{target}\"\n{}", kernel("test", instructions));
    source += &metadata(&["test".to_string()], target);
    for (from, to) in changes {
        assert!(source.contains(from), "{from}");
        source = source.replace(from, to);
    }
    assemble_source(&source, target)
}

/// Kernels `row0`, `row1` and so on around instructions as [`assemble`] takes them, in one code object.
pub fn assemble_all(bodies: &[&str], target: &str) -> Vec<u8> {
    let names: Vec<String> = (0..bodies.len()).map(|i| format!("row{i}")).collect();
    let kernels: String = names.iter().zip(bodies).map(|(name, body)| kernel(name, body)).collect();
    assemble_source(
        &format!(".amdgcn_target \"amdgcn-amd-amdhsa--{target}\"\n{kernels}{}", metadata(&names, target)),
        target,
    )
}

fn assemble_source(source: &str, target: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.s");
    std::fs::write(&path, source).unwrap();
    let arguments = ["-x", "assembler", "-target", "amdgcn-amd-amdhsa"].map(String::from);
    clang(&[arguments.as_slice(), &[format!("-mcpu={target}")]].concat(), &path, Vec::new())
}

/// The text of one kernel, with its descriptor.
fn kernel(name: &str, instructions: &str) -> String {
    format!(
        r#"
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
  s_load_b128 s[0:3], s[0:1], 0x0
  v_mov_b32 v31, v0
  v_and_b32 v0, 31, v0
  v_lshlrev_b32 v0, 2, v0
  global_load_b32 v1, v0, s[0:1]
  global_load_b32 v2, v0, s[0:1] offset:128
  global_load_b32 v3, v0, s[0:1] offset:256
  global_load_b32 v4, v0, s[0:1] offset:384
  v_mov_b32 v10, 0
  v_mov_b32 v11, 0
{instructions}
  s_mov_b32 exec_lo, -1
  global_store_b32 v0, v10, s[2:3]
  global_store_b32 v0, v11, s[2:3] offset:128
  s_endpgm
.Lend_{name}:
.size {name}, .Lend_{name}-{name}
.rodata
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_next_free_vgpr 96
  .amdhsa_next_free_sgpr 96
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_wavefront_size32 1
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_group_segment_fixed_size 1024
.end_amdhsa_kernel
"#
    )
}

/// What the code object says of its kernels.
fn metadata(names: &[String], target: &str) -> String {
    let kernel = |name: &String| {
        format!(
            r#"  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 96
    .vgpr_count: 96
    .max_flat_workgroup_size: 1024
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
"#
        )
    };
    let kernels: String = names.iter().map(kernel).collect();
    format!(
        ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--{target}\namdhsa.kernels:\n{kernels}...\n.end_amdgpu_metadata\n"
    )
}

/// What the headers of a folder say: they may be other ones under the same names.
fn headers(folder: &Path) -> Vec<u8> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
    paths.sort();
    paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

/// Code objects by clang's arguments, the source and its headers.
type Cache = HashMap<(Vec<String>, Vec<u8>), Vec<u8>>;

static CODE: Mutex<Option<Cache>> = Mutex::new(None);

fn clang(arguments: &[String], source: &PathBuf, headers: Vec<u8>) -> Vec<u8> {
    let key = (arguments.to_vec(), [std::fs::read(source).unwrap(), headers].concat());
    let mut cache = CODE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = cache.get_or_insert_default();
    if let Some(code) = cache.get(&key) {
        return code.clone();
    }
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("code.hsaco");
    let result = Command::new("clang-19").args(arguments).arg(source).arg("-o").arg(&output).output();
    let result =
        result.expect("clang-19 is needed to build the test kernels: on Debian, apt-get install clang-19 lld-19");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let code = std::fs::read(&output).unwrap();
    cache.insert(key, code.clone());
    code
}

/// Runs instructions (see [`assemble`]) in one wave.
pub fn execute(gpu: &Gpu, instructions: &str, inputs: &[[u32; 32]; 4]) -> [[u32; 32]; 2] {
    let function = gpu.function(&assemble(instructions, &gpu.target), "test");
    let input = gpu.upload(inputs.as_flattened());
    let output = gpu.allocate::<u32>(64);
    assert_eq!(gpu.launch(function, [1, 1, 1], 32, 0, &[input.into(), output.into()]), 0);
    assert_eq!(hipDeviceSynchronize(), 0, "{}", gpu.fault());
    let values = gpu.download(output);
    [std::array::from_fn(|i| values[i]), std::array::from_fn(|i| values[32 + i])]
}

/// A sequence of numbers without a pattern, the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// Between -1 and 1.
    pub fn next_f32(&mut self) -> f32 {
        self.next_u32() as i32 as f32 / 2f32.powi(31)
    }
}
