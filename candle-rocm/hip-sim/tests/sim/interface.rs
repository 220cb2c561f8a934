//! Does the C interface keep the real one's preconditions, and its answers when they are broken?
#![allow(unsafe_code)] // The interface is C's.
#![allow(clippy::undocumented_unsafe_blocks)] // Out pointers are of locals, strings are literals.

use crate::support::{Gpu, assemble, assemble_with, compile};
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
    let within = |to: usize, len| unsafe {
        hipMemcpyDtoDAsync(buffer.address.wrapping_byte_add(to), buffer.address, len, null_mut())
    };
    assert_eq!([within(2, 2), within(1, 2), within(0, 4)], [0, 1, 1], "ranges may touch, not overlap");
    assert_eq!(unsafe { hipMemsetAsync(buffer.address, 0x1AB, 3, null_mut()) }, 0);
    assert_eq!(gpu.download(buffer), [0xAB, 0xAB, 0xAB, 2]);
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

fn new_event() -> *mut c_void {
    let mut event = null_mut();
    assert_eq!(unsafe { hipEventCreateWithFlags(&mut event, 2) }, 0);
    event
}

fn end_capture(stream: *mut c_void) -> (i32, *mut c_void) {
    let mut graph = std::ptr::dangling_mut();
    (unsafe { hipStreamEndCapture(stream, &mut graph) }, graph)
}

#[test]
fn a_second_stream_joins_a_capture_through_an_event_and_is_joined_back() {
    let gpu = Gpu::new("gfx1151");
    let (first, second, fork, join) = (new_stream(), new_stream(), new_event(), new_event());
    let buffer = gpu.upload(&[0u8; 4]);
    assert_eq!(hipStreamBeginCapture(first, 2), 0);
    assert_eq!([hipEventRecord(fork, first), hipStreamWaitEvent(second, fork, 0)], [0, 0]);
    assert_eq!(unsafe { hipMemsetAsync(buffer.address, 5, 4, second) }, 0);
    assert_eq!([hipEventRecord(join, second), hipStreamWaitEvent(first, join, 0)], [0, 0]);
    assert_eq!(end_capture(second).0, 903, "it began on the first");
    let (status, graph) = end_capture(first);
    assert_eq!((status, graph.is_null()), (0, false));
    assert_eq!(gpu.download(buffer), [0; 4], "the second stream recorded");
    assert_eq!(hipStreamSynchronize(second), 0, "and is free again");
}

#[test]
fn work_of_a_second_stream_that_the_first_does_not_wait_for_is_unjoined() {
    let gpu = Gpu::new("gfx1151");
    let (first, second, fork, join) = (new_stream(), new_stream(), new_event(), new_event());
    let buffer = gpu.upload(&[0u8; 4]);
    assert_eq!(hipStreamBeginCapture(first, 2), 0);
    assert_eq!([hipEventRecord(fork, first), hipStreamWaitEvent(second, fork, 0)], [0, 0]);
    assert_eq!([hipEventRecord(join, second), hipStreamWaitEvent(first, join, 0)], [0, 0]);
    assert_eq!(unsafe { hipMemsetAsync(buffer.address, 5, 4, second) }, 0, "after the event");
    let (status, graph) = end_capture(first);
    assert_eq!((status, graph.is_null()), (904, true));
    assert_eq!([hipStreamSynchronize(first), hipStreamSynchronize(second)], [0, 0], "the capture has ended");
}

#[test]
fn a_call_that_is_not_allowed_invalidates_the_capture() {
    let gpu = Gpu::new("gfx1151");
    let buffer = gpu.upload(&[0u8; 4]);
    let (stream, event) = (new_stream(), new_event());
    let calls: [(&str, &dyn Fn() -> i32, i32); 7] = [
        ("synchronise", &|| hipStreamSynchronize(stream), 900),
        ("query", &|| hipStreamQuery(stream), 900),
        ("query an event", &|| hipEventRecord(event, stream) + hipEventQuery(event), 900),
        ("wait for the device", &|| hipDeviceSynchronize(), 900),
        ("allocate", &|| unsafe { hipMalloc(&mut null_mut(), 16) }, 900),
        ("copy and wait", &|| unsafe { hipMemcpy([0u8; 4].as_mut_ptr().cast(), buffer.address, 4, 2) }, 900),
        ("wait for work outside", &|| hipStreamWaitEvent(stream, new_event(), 0), 905),
    ];
    for (what, call, expected) in calls {
        assert_eq!(hipStreamBeginCapture(stream, 2), 0);
        assert_eq!(call(), expected, "{what}");
        let mut state = -1;
        assert_eq!((unsafe { hipStreamIsCapturing(stream, &mut state) }, state), (0, 2), "{what}");
        let (status, graph) = end_capture(stream);
        assert_eq!((status, graph.is_null()), (901, true), "{what}");
        assert_eq!(end_capture(stream).0, 401, "no longer captured");
    }
}

#[test]
fn two_captures_do_not_meet() {
    let _gpu = Gpu::new("gfx1151");
    let (first, second, event) = (new_stream(), new_stream(), new_event());
    assert_eq!([hipStreamBeginCapture(first, 2), hipStreamBeginCapture(second, 2)], [0, 0]);
    assert_eq!([hipEventRecord(event, first), hipStreamWaitEvent(second, event, 0)], [0, 902]);
    assert_eq!([end_capture(first).0, end_capture(second).0], [901, 901]);
}

#[test]
fn pinned_memory_is_page_aligned_and_freed_once() {
    let _gpu = Gpu::new("gfx1151");
    let mut pointer: *mut c_void = null_mut();
    assert_eq!(unsafe { hipHostMalloc(&mut pointer, 100, 0) }, 0);
    assert!(pointer.addr().is_multiple_of(4096));
    assert_eq!(unsafe { (hipHostFree(pointer), hipHostFree(pointer), hipHostFree(null_mut())) }, (0, 1, 0));
    assert_eq!(unsafe { hipHostMalloc(null_mut(), 100, 0) }, 1);
}

#[test]
fn functions_tell_what_they_need_and_take_limits() {
    let gpu = Gpu::new("gfx1151");
    let function = gpu.function(&assemble("", "gfx1151"), "test");
    let attribute = |id| {
        let mut value = -1;
        (unsafe { hipFuncGetAttribute(&mut value, id, function) }, value)
    };
    let expected = [(0, 1024), (0, 1024), (0, 0), (0, 0), (0, 96), (0, 65_536 - 1024)];
    assert_eq!([0, 1, 2, 3, 4, 8].map(attribute), expected);
    assert_eq!(attribute(99).0, 1);
    let set = |id, value| hipFuncSetAttribute(function, id, value);
    assert_eq!([set(8, 64_512), set(8, 64_513), set(8, -1), set(9, 50), set(1, 0)], [0, 1, 1, 0, 1]);
}

#[test]
fn occupancy_counts_registers_in_the_granules_of_the_target() {
    // Of 1536 registers a SIMD of gfx1151 hands out 24 at once, of 1024 one of gfx1150 16.
    for (target, registers, blocks) in
        [("gfx1151", "147", 9), ("gfx1151", "96", 16), ("gfx1150", "147", 6), ("gfx1201", "97", 12)]
    {
        let gpu = Gpu::new(target);
        let count = format!(".vgpr_count: {registers}");
        let code =
            assemble_with("", target, &[(".vgpr_count: 96", &count), (": 1024\n    .private", ": 0\n    .private")]);
        let function = gpu.function(&code, "test");
        let mut value = -1;
        assert_eq!(unsafe { hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut value, function, 128, 0) }, 0);
        assert_eq!(value, blocks, "{target} with {registers} registers");
        assert_eq!(unsafe { hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut value, function, 1025, 0) }, 1);
        assert_eq!(unsafe { hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut value, function, 128, 65_536) }, 0);
        assert_eq!(value, 2, "128 KiB of LDS for two blocks of 64");
    }
}

#[test]
fn variables_of_a_module_have_an_address_and_a_size() {
    let gpu = Gpu::new("gfx1151");
    let module = gpu.try_load(&compile("misc.hip", "gfx1151", &[])).unwrap();
    let (mut pointer, mut size) = (null_mut(), 0);
    assert_eq!(unsafe { hipModuleGetGlobal(&mut pointer, &mut size, module, c"primes".as_ptr()) }, 0);
    assert_eq!(size, 16);
    let mut values = [0u32; 4];
    assert_eq!(unsafe { hipMemcpy(values.as_mut_ptr().cast(), pointer, 16, 2) }, 0);
    assert_eq!(values, [2, 3, 5, 7]);
    assert_eq!(unsafe { hipModuleGetGlobal(&mut pointer, &mut size, module, c"nothing".as_ptr()) }, 500);
}

#[test]
fn a_grid_is_limited_along_y_and_z() {
    let gpu = Gpu::new("gfx1151");
    let function = gpu.function(&compile("misc.hip", "gfx1151", &[]), "block_size");
    let y = gpu.allocate::<u32>(64);
    assert_eq!(gpu.launch(function, [1, 65_536, 1], 64, 0, &[y.into()]), 9);
    assert_eq!(gpu.launch(function, [1, 1, 65_536], 64, 0, &[y.into()]), 9);
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
