//! Is a missing synchronisation seen? Work that is done late (`lazy`), and works that meet without an order (`races`); and
//! what a test can ask the device to do wrong.
#![allow(unsafe_code)] // The interface is C's.
#![allow(clippy::undocumented_unsafe_blocks)] // Out pointers are of locals, host memory outlives the copies.

use crate::support::{Buffer, Gpu, compile};
use amdhip64::api::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const LAUNCH_FAILURE: i32 = 719;

fn stream() -> *mut c_void {
    let mut stream = null_mut();
    assert_eq!(unsafe { hipStreamCreateWithFlags(&mut stream, 1) }, 0);
    stream
}

fn event() -> *mut c_void {
    let mut event = null_mut();
    assert_eq!(unsafe { hipEventCreateWithFlags(&mut event, 2) }, 0);
    event
}

fn upload_on(stream: *mut c_void, buffer: Buffer<u32>, host: &[u32]) -> i32 {
    unsafe { hipMemcpyAsync(buffer.address, host.as_ptr().cast(), 4 * host.len(), 1, stream) }
}

/// `copy` of 64 words on a stream.
fn copy_on(gpu: &Gpu, stream: *mut c_void, x: Buffer<u32>, y: Buffer<u32>) -> i32 {
    let function = gpu.function(&compile("misc.hip", &gpu.target, &[]), "copy");
    let (mut from, mut to, mut count, mut shift) = (x.address, y.address, 64u32, 0u32);
    let mut arguments =
        [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut count).cast(), (&raw mut shift).cast()];
    unsafe { hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut()) }
}

#[test]
fn a_missing_wait_between_two_streams_is_reported_with_both_sides() {
    for options in ["races=1", "races=1 lazy=3"] {
        let gpu = Gpu::with_options("gfx1151", options);
        let (first, second) = (stream(), stream());
        let (x, y, host) = (gpu.allocate::<u32>(64), gpu.allocate::<u32>(64), [7u32; 64]);
        assert_eq!([upload_on(first, x, &host), copy_on(&gpu, second, x, y)], [0, 0]);
        assert_eq!(hipDeviceSynchronize(), LAUNCH_FAILURE, "{options}");
        let message = gpu.fault();
        for part in
            ["the copy of 256 bytes on stream", "the launch of 'copy' on stream", "an event or a wait is missing"]
        {
            assert!(message.contains(part), "'{part}' is not in: {message}");
        }
    }
}

#[test]
fn an_event_between_two_streams_puts_their_works_in_order() {
    for seed in 0..20 {
        let gpu = Gpu::with_options("gfx1151", &format!("races=1 lazy={seed}"));
        let (first, second, uploaded) = (stream(), stream(), event());
        let (x, y, host) = (gpu.allocate::<u32>(64), gpu.allocate::<u32>(64), [7u32; 64]);
        assert_eq!([upload_on(first, x, &host), hipEventRecord(uploaded, first)], [0, 0]);
        assert_eq!([hipStreamWaitEvent(second, uploaded, 0), copy_on(&gpu, second, x, y)], [0, 0]);
        assert_eq!(hipStreamSynchronize(second), 0, "{}", gpu.fault());
        assert_eq!(gpu.download(y), [7; 64], "seed {seed}");
    }
}

#[test]
fn a_result_that_nobody_waited_for_is_not_there_yet() {
    let seeds_that_show_it = (1..20).filter(|seed| {
        let gpu = Gpu::with_options("gfx1151", &format!("lazy={seed}"));
        let x = gpu.upload(&[7u32; 64]);
        let mut host = [0u32; 64];
        let stream = stream();
        assert_eq!(unsafe { hipMemcpyAsync(host.as_mut_ptr().cast(), x.address, 256, 2, stream) }, 0);
        let early = unsafe { host.as_ptr().read_volatile() };
        assert_eq!(hipStreamSynchronize(stream), 0);
        assert_eq!(unsafe { host.as_ptr().read_volatile() }, 7);
        early != 7
    });
    assert!(seeds_that_show_it.count() > 3);
}

#[test]
fn a_staging_buffer_that_is_used_again_too_early_is_reported() {
    let reports = (1..20).filter(|seed| {
        let gpu = Gpu::with_options("gfx1151", &format!("lazy={seed}"));
        let (x, stream, mut host) = (gpu.allocate::<u32>(64), stream(), [7u32; 64]);
        assert_eq!(upload_on(stream, x, &host), 0);
        unsafe { host.as_mut_ptr().write_volatile(8) };
        if hipStreamSynchronize(stream) == 0 {
            return false;
        }
        let message = gpu.fault();
        assert!(
            message.contains("the copy of 256 bytes on stream") && message.contains("a staging buffer"),
            "{message}"
        );
        true
    });
    assert!(reports.count() > 3);
}

#[test]
fn asking_often_enough_sees_the_end() {
    let gpu = Gpu::with_options("gfx1151", "lazy=5");
    let (stream, event) = (stream(), event());
    let x = gpu.allocate::<u32>(64);
    for _ in 0..4 {
        assert_eq!(unsafe { hipMemsetAsync(x.address, 1, 256, stream) }, 0);
    }
    assert_eq!(hipEventRecord(event, stream), 0);
    assert_eq!(hipEventQuery(event), 600, "not yet");
    assert!((0..200).any(|_| hipEventQuery(event) == 0));
    assert_eq!(hipStreamQuery(stream), 0);
}

#[test]
fn the_null_stream_waits_for_streams_that_were_not_told_otherwise() {
    for seed in 1..10 {
        let gpu = Gpu::with_options("gfx1151", &format!("races=1 lazy={seed}"));
        let mut blocking = null_mut();
        assert_eq!(unsafe { hipStreamCreateWithFlags(&mut blocking, 0) }, 0);
        let (x, host) = (gpu.allocate::<u32>(64), [9u32; 64]);
        assert_eq!(upload_on(blocking, x, &host), 0);
        assert_eq!(gpu.download(x), [9; 64], "seed {seed}");
    }
}

#[test]
fn a_launch_that_hangs_is_never_ready() {
    let gpu = Gpu::with_options("gfx1151", "hang=2");
    let (stream, event) = (stream(), event());
    let (x, y) = (gpu.upload(&[1u32; 64]), gpu.allocate::<u32>(64));
    assert_eq!([copy_on(&gpu, stream, x, y), hipStreamQuery(stream)], [0, 0]);
    assert_eq!([copy_on(&gpu, stream, x, y), hipEventRecord(event, stream)], [0, 0]);
    assert!((0..50).all(|_| hipEventQuery(event) == 600 && hipStreamQuery(stream) == 600));
}

#[test]
fn a_copy_that_was_asked_to_fail_fails() {
    let gpu = Gpu::with_options("gfx1151", "fail_copy=2");
    let x = gpu.upload(&[1u32; 4]);
    let mut host = [0u32; 4];
    assert_eq!(unsafe { hipMemcpy(host.as_mut_ptr().cast(), x.address, 16, 2) }, LAUNCH_FAILURE);
    assert!(gpu.fault().contains("copy 2 failed as the option fail_copy asks"), "{}", gpu.fault());
}

#[test]
fn odd_readings_and_other_sizes_are_reported_as_asked() {
    let _gpu = Gpu::with_options(
        "gfx1151",
        "memory=1G reported_total=62M reported_free=120M processors=7 integrated=0 version=50200000",
    );
    let (mut free, mut total, mut version) = (0, 0, 0);
    assert_eq!(unsafe { hipMemGetInfo(&mut free, &mut total) }, 0);
    assert_eq!((free, total), (120 << 20, 62 << 20), "more free than there is, as some machines say");
    let attribute = |id| {
        let mut value = -1;
        (unsafe { hipDeviceGetAttribute(&mut value, id, 0) }, value)
    };
    assert_eq!([attribute(63), attribute(16)], [(0, 7), (0, 0)]);
    assert_eq!((unsafe { hipRuntimeGetVersion(&mut version) }, version), (0, 50_200_000));
}

#[test]
fn the_device_counts_what_is_done() {
    let gpu = Gpu::new("gfx1151");
    let (x, y) = (gpu.upload(&[1u32; 64]), gpu.allocate::<u32>(64));
    assert_eq!(copy_on(&gpu, null_mut(), x, y), 0);
    let counts = [c"launches", c"copies", c"bytes_copied", c"bytes_read", c"bytes_written", c"live"];
    assert_eq!(counts.map(|name| gpu.counter(name)), [1, 1, 256, 256, 256, 2]);
    assert!(gpu.counter(c"instructions") > gpu.counter(c"idle"));
    assert_eq!(hipFree(x.address), 0);
    assert_eq!(gpu.counter(c"live"), 1, "a leak is what is left at the end");
}
