//! Does the C interface keep the real one's preconditions, and its answers when they are broken?
#![allow(unsafe_code)] // The interface is C's.
#![allow(clippy::undocumented_unsafe_blocks)] // Out pointers are of locals, strings are literals.

use crate::support::{Gpu, compile};
use amdhip64::api::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

#[test]
fn the_shared_library_beside_the_test_exports_the_functions_by_name() {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let path = folder.join("libamdhip64.so");
    // SAFETY: the library has no constructors.
    let library = unsafe { libloading::Library::new(&path) }.unwrap();
    for name in
        ["hipInit", "hipGetDevicePropertiesR0600", "hipModuleLaunchKernel", "hipGraphExecUpdate", "hipSimLastFault"]
    {
        // SAFETY: the symbol is only looked up.
        assert!(unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok(), "{name}");
    }
}

#[test]
fn properties_lie_at_the_offsets_of_r0600() {
    let _gpu = Gpu::with_options("gfx1151", "memory=64M");
    let mut bytes = [0u8; 1472];
    assert_eq!(unsafe { hipGetDevicePropertiesR0600(&mut bytes, 0) }, 0);
    let number = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(CStr::from_bytes_until_nul(&bytes[1160..]).unwrap(), c"gfx1151");
    assert_eq!(u64::from_le_bytes(bytes[288..296].try_into().unwrap()), 64 << 20);
    assert_eq!([number(308), number(360), number(364), number(388), number(396)], [32, 11, 5, 20, 1]);
    assert_eq!(unsafe { hipGetDevicePropertiesR0600(&mut bytes, 1) }, 101);
}

#[test]
fn attributes_have_the_numbers_of_hip_7() {
    let _gpu = Gpu::new("gfx1201");
    let attribute = |id| {
        let mut value = -1;
        (unsafe { hipDeviceGetAttribute(&mut value, id, 0) }, value)
    };
    assert_eq!(
        [attribute(23), attribute(61), attribute(87), attribute(63), attribute(74)],
        [(0, 12), (0, 0), (0, 32), (0, 32), (0, 65536)]
    );
    assert_eq!(attribute(9999).0, 1);
}

#[test]
fn without_a_device_every_call_says_so() {
    let gpu = Gpu::new("gfx1151");
    assert_eq!(unsafe { hipSimReset(c"gpu=none".as_ptr()) }, 100);
    let mut count = 7;
    assert_eq!((hipInit(0), unsafe { hipGetDeviceCount(&mut count) }, count), (100, 100, 0));
    let mut pointer = null_mut();
    assert_eq!(unsafe { hipMalloc(&mut pointer, 16) }, 100);
    drop(gpu);
}

#[test]
fn memory_is_limited_and_freed_once() {
    let gpu = Gpu::with_options("gfx1151", "memory=1M reported_total=2M");
    let mut pointer: *mut c_void = null_mut();
    assert_eq!(unsafe { hipMalloc(&mut pointer, (1 << 20) + 1) }, 2);
    assert_eq!(hipGetLastError(), 2);
    assert_eq!(hipGetLastError(), 0, "an error is told once");
    let buffer = gpu.allocate::<u8>(1 << 19);
    let (mut free, mut total) = (0, 0);
    assert_eq!(unsafe { hipMemGetInfo(&mut free, &mut total) }, 0);
    assert_eq!((free, total), (1 << 19, 2 << 20));
    assert_eq!([hipFree(buffer.address), hipFree(buffer.address), hipFree(null_mut())], [0, 1, 0]);
    assert_eq!(hipFree(buffer.address.wrapping_byte_add(256)), 1);
}

#[test]
fn the_allocation_that_was_asked_to_fail_fails() {
    let gpu = Gpu::with_options("gfx1151", "fail_malloc=2");
    gpu.allocate::<u8>(16);
    let mut pointer: *mut c_void = null_mut();
    assert_eq!([unsafe { hipMalloc(&mut pointer, 16) }, unsafe { hipMalloc(&mut pointer, 16) }], [2, 0]);
}

#[test]
fn copies_check_direction_and_length() {
    let gpu = Gpu::new("gfx1151");
    let buffer = gpu.upload(&[1u8, 2, 3, 4]);
    let mut host = [0u8; 8];
    let to = host.as_mut_ptr().cast();
    assert_eq!(unsafe { hipMemcpy(to, buffer.address, 4, 1) }, 1, "device to host is 2");
    assert_eq!(unsafe { hipMemcpy(to, buffer.address, 5, 2) }, 1, "past the end");
    assert_eq!(unsafe { hipMemcpy(to, buffer.address.wrapping_byte_add(1), 3, 4) }, 0);
    assert_eq!(host, [2, 3, 4, 0, 0, 0, 0, 0]);
    assert_eq!(unsafe { hipMemsetAsync(buffer.address, 0x1AB, 3, null_mut()) }, 0);
    assert_eq!(gpu.download(buffer), [0xAB, 0xAB, 0xAB, 4]);
}

#[test]
fn a_code_object_for_another_gpu_is_refused_with_both_names() {
    let gpu = Gpu::new("gfx1201");
    assert_eq!(gpu.try_load(&compile("misc.hip", "gfx1151", &[])), Err(209));
    assert!(gpu.fault().contains("is for gfx1151 and the simulated GPU is gfx1201"), "{}", gpu.fault());
}

#[test]
fn what_is_no_code_object_is_an_invalid_image() {
    let gpu = Gpu::new("gfx1151");
    assert_eq!(gpu.try_load(&[0; 64]), Err(200));
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(gpu.try_load(&own), Err(200));
    let mut module = null_mut();
    assert_eq!(unsafe { hipModuleLoad(&mut module, c"/no/such/file".as_ptr()) }, 301);
}

#[test]
fn a_missing_kernel_is_not_found_and_a_stale_handle_is_invalid() {
    let gpu = Gpu::new("gfx1151");
    let module = gpu.try_load(&compile("misc.hip", "gfx1151", &[])).unwrap();
    let mut function = null_mut();
    assert_eq!(unsafe { hipModuleGetFunction(&mut function, module, c"nothing".as_ptr()) }, 500);
    assert_eq!(unsafe { hipModuleGetFunction(&mut function, module, c"copy".as_ptr()) }, 0);
    assert_eq!([hipModuleUnload(module), hipModuleUnload(module)], [0, 400]);
    assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[]), 400);
}

#[test]
fn launches_check_geometry_lds_and_arguments() {
    let gpu = Gpu::new("gfx1151");
    let function = gpu.function(&compile("misc.hip", "gfx1151", &[]), "block_size");
    let y = gpu.allocate::<u32>(64);
    assert_eq!(gpu.launch(function, [1, 1, 1], 128, 0, &[y.into()]), 9, "64 threads are the kernel's limit");
    assert_eq!(gpu.launch(function, [0, 1, 1], 64, 0, &[y.into()]), 9);
    assert_eq!(gpu.launch(function, [1, 1, 1], 64, 65_537, &[y.into()]), 1);
    let launch = |parameters: *mut *mut c_void, extra: *mut *mut c_void| unsafe {
        hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, null_mut(), parameters, extra)
    };
    let mut address = y.address;
    let mut parameters = [(&raw mut address).cast()];
    let mut size = 8usize;
    let tag = std::ptr::without_provenance_mut;
    let mut extra: [*mut c_void; 5] = [tag(1), (&raw mut address).cast(), tag(2), (&raw mut size).cast(), tag(3)];
    assert_eq!(launch(parameters.as_mut_ptr(), extra.as_mut_ptr()), 1, "not both");
    assert_eq!(launch(null_mut(), null_mut()), 1, "the kernel has an argument");
    assert_eq!(launch(null_mut(), extra.as_mut_ptr()), 0);
    assert_eq!(gpu.download(y), vec![64; 64]);
    size = 4;
    extra[3] = (&raw mut size).cast();
    assert_eq!(launch(null_mut(), extra.as_mut_ptr()), 1, "half a pointer");
}

fn new_stream() -> *mut c_void {
    let mut stream = null_mut();
    assert_eq!(unsafe { hipStreamCreateWithFlags(&mut stream, 1) }, 0);
    stream
}

#[test]
fn a_captured_stream_records_and_its_graph_replays() {
    let gpu = Gpu::new("gfx1151");
    let stream = new_stream();
    let buffer = gpu.upload(&[0u8; 4]);
    assert_eq!(hipStreamBeginCapture(stream, 2), 0);
    assert_eq!(unsafe { hipMemsetAsync(buffer.address, 7, 4, stream) }, 0);
    let mut pointer = null_mut();
    assert_eq!(unsafe { hipMalloc(&mut pointer, 16) }, 900, "not while capturing");
    assert_eq!(hipStreamSynchronize(stream), 900);
    let mut graph = null_mut();
    assert_eq!(unsafe { hipStreamEndCapture(stream, &mut graph) }, 0);
    assert_eq!(gpu.download(buffer), [0; 4], "recorded, not executed");
    let mut executable = null_mut();
    assert_eq!(unsafe { hipGraphInstantiate(&mut executable, graph, null_mut(), null_mut(), 0) }, 0);
    assert_eq!(hipGraphLaunch(executable, stream), 0);
    assert_eq!(gpu.download(buffer), [7; 4]);
    assert_eq!([hipGraphExecDestroy(executable), hipGraphDestroy(graph), hipGraphDestroy(graph)], [0, 0, 1]);
}

#[test]
fn an_executable_graph_takes_over_parameters_of_a_graph_with_the_same_nodes() {
    let gpu = Gpu::new("gfx1151");
    let stream = new_stream();
    let buffer = gpu.upload(&[0u8; 4]);
    let capture = |bytes: &[u8]| {
        assert_eq!(hipStreamBeginCapture(stream, 2), 0);
        for byte in bytes {
            assert_eq!(unsafe { hipMemsetAsync(buffer.address, i32::from(*byte), 4, stream) }, 0);
        }
        let mut graph = null_mut();
        assert_eq!(unsafe { hipStreamEndCapture(stream, &mut graph) }, 0);
        graph
    };
    let mut executable = null_mut();
    assert_eq!(unsafe { hipGraphInstantiate(&mut executable, capture(&[1]), null_mut(), null_mut(), 0) }, 0);
    let (mut node, mut result) = (null_mut(), -1);
    assert_eq!(unsafe { hipGraphExecUpdate(executable, capture(&[2]), &mut node, &mut result) }, 0);
    assert_eq!(hipGraphLaunch(executable, stream), 0);
    assert_eq!(gpu.download(buffer), [2; 4]);
    assert_eq!(unsafe { hipGraphExecUpdate(executable, capture(&[3, 4]), &mut node, &mut result) }, 910);
}

#[test]
fn a_second_stream_joins_a_capture_through_an_event() {
    let gpu = Gpu::new("gfx1151");
    let (first, second) = (new_stream(), new_stream());
    let buffer = gpu.upload(&[0u8; 4]);
    let mut event = null_mut();
    assert_eq!(unsafe { hipEventCreateWithFlags(&mut event, 2) }, 0);
    assert_eq!(hipStreamBeginCapture(first, 2), 0);
    assert_eq!([hipEventRecord(event, first), hipStreamWaitEvent(second, event, 0)], [0, 0]);
    assert_eq!(unsafe { hipMemsetAsync(buffer.address, 5, 4, second) }, 0);
    let mut graph = null_mut();
    assert_eq!(unsafe { hipStreamEndCapture(first, &mut graph) }, 0);
    assert_eq!(gpu.download(buffer), [0; 4], "the second stream recorded");
    assert_eq!(hipStreamSynchronize(second), 0, "and is free again");
}

#[test]
fn events_and_streams_are_checked_for_existence_and_order() {
    let _gpu = Gpu::new("gfx1151");
    let stream = new_stream();
    let (mut start, mut stop) = (null_mut(), null_mut());
    assert_eq!(unsafe { hipEventCreateWithFlags(&mut start, 0) | hipEventCreateWithFlags(&mut stop, 0) }, 0);
    let mut elapsed = -1.0;
    assert_eq!(unsafe { hipEventElapsedTime(&mut elapsed, start, stop) }, 400, "not recorded");
    assert_eq!([hipEventRecord(start, stream), hipEventRecord(stop, stream), hipEventQuery(stop)], [0; 3]);
    assert_eq!(unsafe { hipEventElapsedTime(&mut elapsed, start, stop) }, 0);
    assert!(elapsed >= 0.0);
    assert_eq!([hipStreamDestroy(stream), hipStreamDestroy(stream), hipStreamSynchronize(stream)], [0, 400, 400]);
}

#[test]
fn errors_have_names_and_texts() {
    // SAFETY: both are strings of the program.
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_str().unwrap();
    assert_eq!(text(hipGetErrorName(209)), "hipErrorNoBinaryForGpu");
    assert_eq!(text(hipGetErrorString(719)), "unspecified launch failure");
}
