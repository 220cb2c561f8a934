//! Modules, functions and launches.

use super::status::{
    FILE_NOT_FOUND, INVALID_CONFIGURATION, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_BINARY_FOR_GPU, NOT_FOUND,
    NOT_SUPPORTED, Outcome, Status,
};
use super::{call, put, report};
use crate::code_object::KernelCode;
use crate::launch::{Dispatch, MAX_LDS};
use crate::metadata::KernelMetadata;
use crate::program::{LoadError, Program};
use crate::simulator::{Simulator, Work};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use taper_kernels::occupancy::waves_by_registers;

/// Loads a code object from memory. Its length is in its ELF header, as with the real runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int {
    call(|simulator| {
        if module.is_null() || image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller promises a whole code object.
        let bytes = unsafe { code_object_at(image.cast()) }.ok_or(INVALID_IMAGE)?;
        let handle = load(simulator, bytes)?;
        // SAFETY: not null, and otherwise the caller's promise.
        unsafe { put(module, handle as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoad(module: *mut *mut c_void, path: *const c_char) -> c_int {
    call(|simulator| {
        if module.is_null() || path.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller promises a string that ends with a zero byte.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        let bytes = std::fs::read(path.as_ref()).map_err(|_| FILE_NOT_FOUND)?;
        let handle = load(simulator, &bytes)?;
        // SAFETY: not null, and otherwise the caller's promise.
        unsafe { put(module, handle as *mut c_void) }
    })
}

/// The bytes of an ELF file in memory: its section headers are its end.
///
/// # Safety
/// `image` points to a whole ELF file, or to at least 4 bytes that are none.
unsafe fn code_object_at<'a>(image: *const u8) -> Option<&'a [u8]> {
    const HEADER_BYTES: usize = 64;
    // SAFETY: the caller's promise.
    if unsafe { std::slice::from_raw_parts(image, 4) } != b"\x7fELF" {
        return None;
    }
    // SAFETY: an ELF file has a header.
    let header = unsafe { std::slice::from_raw_parts(image, HEADER_BYTES) };
    let sections_at = u64::from_le_bytes(header[40..48].try_into().ok()?) as usize;
    let section_bytes = usize::from(u16::from_le_bytes([header[58], header[59]]));
    let num_sections = usize::from(u16::from_le_bytes([header[60], header[61]]));
    let len = sections_at.checked_add(section_bytes * num_sections)?;
    // SAFETY: the file is whole, so it reaches to the end of its section headers.
    Some(unsafe { std::slice::from_raw_parts(image, len.max(HEADER_BYTES)) })
}

fn load(simulator: &mut Simulator, bytes: &[u8]) -> Result<usize, Status> {
    let program = Program::load(bytes, &simulator.options, &mut simulator.memory).map_err(|error| {
        let (status, message) = match error {
            LoadError::Invalid(message) => (INVALID_IMAGE, message),
            LoadError::OtherTarget(message) => (NO_BINARY_FOR_GPU, message),
            LoadError::Unsupported(message) => (NOT_SUPPORTED, message),
        };
        report(&message);
        simulator.last_message = message;
        status
    })?;
    let handle = simulator.new_handle();
    simulator.programs.insert(handle, Arc::new(program));
    Ok(handle)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipModuleUnload(module: *mut c_void) -> c_int {
    call(|simulator| {
        let program = simulator.programs.remove(&(module as usize)).ok_or(INVALID_HANDLE)?;
        simulator.finish_all();
        simulator.functions.retain(|_, (owner, _)| !Arc::ptr_eq(owner, &program));
        simulator.memory.remove(program.base);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    call(|simulator| {
        if function.is_null() || name.is_null() {
            return Err(INVALID_VALUE);
        }
        let program = simulator.programs.get(&(module as usize)).ok_or(INVALID_HANDLE)?.clone();
        // SAFETY: the caller promises a string that ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        if !program.kernels.contains_key(&name) {
            return Err(NOT_FOUND);
        }
        let handle = simulator.new_handle();
        simulator.functions.insert(handle, (program, name));
        // SAFETY: not null, and otherwise the caller's promise.
        unsafe { put(function, handle as *mut c_void) }
    })
}

/// The address and size of a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetGlobal(
    pointer: *mut *mut c_void,
    size: *mut usize,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    call(|simulator| {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        let program = simulator.programs.get(&(module as usize)).ok_or(INVALID_HANDLE)?;
        // SAFETY: the caller promises a string that ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let (offset, len) = *program.globals.get(name.as_ref()).ok_or(NOT_FOUND)?;
        // SAFETY: `put` checks for null; otherwise the caller's promise.
        unsafe {
            put(pointer, (program.base + offset) as *mut c_void)?;
            put(size, len as usize)
        }
    })
}

fn kernel_of(simulator: &Simulator, function: *mut c_void) -> Result<(&Arc<Program>, &KernelCode), Status> {
    let (program, name) = simulator.functions.get(&(function as usize)).ok_or(INVALID_HANDLE)?;
    Ok((program, &program.kernels[name]))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipFuncGetAttribute(value: *mut c_int, attribute: c_int, function: *mut c_void) -> c_int {
    call(|simulator| {
        let metadata = &kernel_of(simulator, function)?.1.metadata;
        let number = match attribute {
            0 => metadata.max_threads as c_int,
            1 => metadata.lds_size as c_int,
            2 => 0,
            3 => metadata.private_size as c_int,
            4 => metadata.num_vgprs as c_int,
            8 => (MAX_LDS - metadata.lds_size) as c_int,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: `put` checks for null; otherwise the caller's promise.
        unsafe { put(value, number) }
    })
}

/// The only attributes that can be set (dynamic LDS, carve-out) limit nothing on these GPUs.
#[unsafe(no_mangle)]
pub extern "C" fn hipFuncSetAttribute(function: *const c_void, attribute: c_int, value: c_int) -> c_int {
    call(|simulator| {
        let metadata = &kernel_of(simulator, function.cast_mut())?.1.metadata;
        match attribute {
            8 if value >= 0 && value as usize + metadata.lds_size <= MAX_LDS => Ok(()),
            9 => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: *mut c_void,
    block_size: c_int,
    dynamic_lds: usize,
) -> c_int {
    call(|simulator| {
        let metadata = &kernel_of(simulator, function)?.1.metadata;
        if block_size <= 0 || block_size as u32 > metadata.max_threads {
            return Err(INVALID_VALUE);
        }
        let waves_per_simd = waves_by_registers(simulator.target.name, metadata.num_vgprs as u32) as usize;
        let by_waves = 4 * waves_per_simd / (block_size as usize).div_ceil(32);
        let by_lds = (2 * MAX_LDS).checked_div(metadata.lds_size + dynamic_lds).unwrap_or(usize::MAX);
        // SAFETY: `put` checks for null; otherwise the caller's promise.
        unsafe { put(blocks, by_waves.min(by_lds) as c_int) }
    })
}

/// `grid` counts workgroups. Arguments come as an array of pointers or as one buffer (`extra`), not both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    call(|simulator| {
        let (program, kernel) = kernel_of(simulator, function)?;
        let (program, kernel) = (program.clone(), kernel.clone());
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        check_geometry(&kernel.metadata, grid, block, dynamic_lds)?;
        // SAFETY: the caller promises arguments as the kernel's metadata describes them.
        let arguments = unsafe { collect_arguments(&kernel.metadata, parameters, extra)? };
        let dispatch = Box::new(Dispatch { kernel, grid, block, dynamic_lds, arguments });
        simulator.submit(stream as usize, Work::Launch { program, dispatch })
    })
}

fn check_geometry(metadata: &KernelMetadata, grid: [u32; 3], block: [u32; 3], dynamic_lds: u32) -> Outcome {
    let num_threads = block.iter().try_fold(1u32, |product, n| product.checked_mul(*n)).unwrap_or(u32::MAX);
    let total_x = u64::from(grid[0]) * u64::from(block[0]);
    let fits = total_x <= u64::from(u32::MAX) && grid[1].max(grid[2]) <= 65_535;
    if num_threads == 0 || grid.contains(&0) || num_threads > metadata.max_threads || !fits {
        report(&format!(
            "launch of '{}' with grid {grid:?} and block {block:?} refused: the kernel takes 1 to {} threads, and a grid has at most 65535 blocks along y and z",
            metadata.name, metadata.max_threads
        ));
        return Err(INVALID_CONFIGURATION);
    }
    let lds = metadata.lds_size + dynamic_lds as usize;
    if lds > MAX_LDS {
        report(&format!("launch of '{}' with {lds} bytes of LDS refused: {MAX_LDS} is the limit", metadata.name));
        return Err(INVALID_VALUE);
    }
    Ok(())
}

/// The tags of the `extra` array.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 3;

/// The explicit arguments as the kernel reads them.
///
/// # Safety
/// `parameters` is null or has a pointer to each explicit argument; `extra` is null or a list of tags and values.
unsafe fn collect_arguments(
    metadata: &KernelMetadata,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, Status> {
    let explicit: Vec<_> = metadata.arguments.iter().filter(|argument| !argument.is_hidden()).collect();
    let len = explicit.iter().map(|argument| argument.offset + argument.size).max().unwrap_or(0);
    match (parameters.is_null(), extra.is_null()) {
        (false, false) => Err(INVALID_VALUE),
        (true, true) if len == 0 => Ok(Vec::new()),
        (true, true) => Err(INVALID_VALUE),
        (false, true) => {
            let mut bytes = vec![0; len];
            for (i, argument) in explicit.iter().enumerate() {
                // SAFETY: the caller's promise; `bytes` is as long as the last argument's end.
                unsafe {
                    let source = *parameters.add(i);
                    if source.is_null() {
                        return Err(INVALID_VALUE);
                    }
                    let place = bytes[argument.offset..argument.offset + argument.size].as_mut_ptr();
                    place.copy_from_nonoverlapping(source.cast(), argument.size);
                }
            }
            Ok(bytes)
        }
        (true, false) => {
            // SAFETY: the caller's promise.
            let bytes = unsafe { argument_buffer(extra)? };
            let is_plausible = bytes.len() >= len && bytes.len() <= metadata.kernarg_size.max(len);
            is_plausible.then(|| bytes.to_vec()).ok_or_else(|| wrong_buffer(metadata, bytes.len(), len))
        }
    }
}

fn wrong_buffer(metadata: &KernelMetadata, given: usize, expected: usize) -> Status {
    report(&format!("launch of '{}' with {given} bytes of arguments refused: it takes {expected}", metadata.name));
    INVALID_VALUE
}

/// # Safety
/// `extra` is a list of tags, each but the last followed by a value, which is a buffer or a pointer to its size.
unsafe fn argument_buffer<'a>(extra: *mut *mut c_void) -> Result<&'a [u8], Status> {
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), None);
    let mut at = 0;
    loop {
        // SAFETY: the list goes on until its end tag, which the loop stops at.
        let (tag, value) = unsafe {
            let tag = *extra.add(at) as usize;
            (tag, if tag == END { std::ptr::null_mut() } else { *extra.add(at + 1) })
        };
        match tag {
            BUFFER_POINTER => buffer = value.cast(),
            // SAFETY: the value of this tag points to a size.
            BUFFER_SIZE if !value.is_null() => size = Some(unsafe { *value.cast::<usize>() }),
            END => break,
            _ => return Err(INVALID_VALUE),
        }
        at += 2;
    }
    match (buffer.is_null(), size) {
        // SAFETY: the caller promises that the buffer has this size.
        (false, Some(size)) => Ok(unsafe { std::slice::from_raw_parts(buffer, size) }),
        _ => Err(INVALID_VALUE),
    }
}
