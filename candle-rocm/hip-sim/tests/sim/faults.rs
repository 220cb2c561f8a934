//! Is each kind of planted fault found, and does the message say what and where?

use crate::support::{Gpu, Random, TARGETS, assemble, compile};
use amdhip64::api::{hipDeviceSynchronize, hipFree, hipGetLastError};

const LAUNCH_FAILURE: i32 = 719;

/// Asserts that the device has failed and that the message has all these parts.
fn assert_fault(gpu: &Gpu, parts: &[&str]) {
    assert_eq!(hipDeviceSynchronize(), LAUNCH_FAILURE);
    assert_eq!(hipGetLastError(), LAUNCH_FAILURE);
    let message = gpu.fault();
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn a_removed_barrier_is_a_race_between_waves() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("rms_norm.hip", target, &["WITHOUT_BARRIER"]), "rms_norm");
        let buffer = gpu.upload(&[0u16; 512]);
        let arguments = [buffer.into(), buffer.into(), buffer.into(), 512u32.into(), 1e-6f32.into()];
        assert_eq!(gpu.launch(function, [1, 1, 1], 256, 0, &arguments), 0);
        assert_fault(&gpu, &["kernel 'rms_norm', workgroup (0,0,0)", "LDS address", "there is no barrier in between"]);
    }
}

#[test]
fn a_load_one_past_the_end_names_lane_and_allocation() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("misc.hip", target, &[]), "copy");
        let (x, y) = (gpu.upload(&[1u32; 100]), gpu.allocate::<u32>(100));
        assert_eq!(gpu.launch(function, [2, 1, 1], 64, 0, &[x.into(), y.into(), 100u32.into(), 1u32.into()]), 0);
        assert_fault(
            &gpu,
            &[
                "workgroup (1,0,0), wave 1",
                "`global_load_b32",
                "lane 3 reads 4 bytes at",
                "0 bytes past the end",
                "(400 bytes at",
            ],
        );
    }
}

#[test]
fn a_store_one_past_the_end_is_not_written() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("misc.hip", target, &[]), "store_past_end");
        let y = gpu.allocate::<u32>(10);
        assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[y.into(), 10u32.into()]), 0);
        assert_fault(&gpu, &["kernel 'store_past_end'", "`global_store_b32", "lane 10 writes 4 bytes"]);
    }
}

#[test]
fn a_stale_pointer_is_called_stale() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("misc.hip", target, &[]), "copy");
        let (x, y) = (gpu.upload(&[1u32; 64]), gpu.allocate::<u32>(64));
        assert_eq!(hipFree(x.address), 0);
        assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[x.into(), y.into(), 64u32.into(), 0u32.into()]), 0);
        assert_fault(&gpu, &["lane 0 reads", "inside a freed allocation (256 bytes", "a stale pointer"]);
    }
}

#[test]
fn a_host_pointer_is_not_visible_to_kernels() {
    let gpu = Gpu::new("gfx1151");
    let function = gpu.function(&compile("misc.hip", "gfx1151", &[]), "copy");
    let host = [0u32; 64];
    let y = gpu.allocate::<u32>(64);
    let pointer = crate::support::Argument::Pointer(host.as_ptr().cast_mut().cast());
    assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[pointer, y.into(), 64u32.into(), 0u32.into()]), 0);
    assert_fault(&gpu, &["host memory is not visible to kernels"]);
}

#[test]
fn lanes_that_do_not_repeat_the_tile_are_found_on_gfx11() {
    for target in ["gfx1100", "gfx1151"] {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("gemm.hip", target, &["WITHOUT_REPLICATION"]), "gemm_f16");
        let mut random = Random::new(1);
        let values: Vec<u16> = (0..32 * 16).map(|_| (random.next_u32() & 0x3BFF) as u16).collect();
        let (a, c) = (gpu.upload(&values), gpu.allocate::<f32>(256));
        assert_eq!(
            gpu.launch(function, [1, 1, 1], 32, 0, &[a.into(), a.into(), c.into(), 16u32.into(), 16u32.into()]),
            0
        );
        assert_fault(
            &gpu,
            &["`v_wmma_f32_16x16x16_f16", "lanes 16 to 31 must hold the same rows of B as lanes 0 to 15"],
        );
    }
}

#[test]
fn a_grid_that_is_one_workgroup_too_large_reads_past_the_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("rms_norm.hip", target, &[]), "rms_norm");
        let rows = gpu.upload(&[0x3F80u16; 2 * 512]);
        let arguments = [rows.into(), rows.into(), rows.into(), 512u32.into(), 1e-6f32.into()];
        assert_eq!(gpu.launch(function, [3, 1, 1], 256, 0, &arguments), 0);
        assert_fault(&gpu, &["workgroup (2,0,0)", "past the end of the nearest allocation (2048 bytes"]);
    }
}

#[test]
fn waves_that_end_before_a_barrier_are_reported_and_nothing_hangs() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("misc.hip", target, &[]), "some_waves_wait");
        let y = gpu.allocate::<u32>(64);
        assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[y.into()]), 0);
        assert_fault(&gpu, &["wave 1", "waits at a barrier that wave 0 never reaches"]);
    }
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    let gpu = Gpu::with_options("gfx1151", "budget=10000");
    let function = gpu.function(&compile("misc.hip", "gfx1151", &[]), "never_ends");
    let y = gpu.upload(&[7u32]);
    assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[y.into()]), 0);
    assert_fault(&gpu, &["kernel 'never_ends'", "an endless loop?"]);
}

#[test]
fn lds_is_as_large_as_the_launch_says() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let function = gpu.function(&compile("misc.hip", target, &[]), "lds_past_end");
        let y = gpu.allocate::<u32>(64);
        assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[y.into(), 1u32.into()]), 0);
        assert_fault(&gpu, &["wave 1", "lane 31 reads 4 bytes at LDS address 0x100", "has 0x100 bytes of LDS"]);
    }
}

#[test]
fn memory_that_was_never_written_is_not_zero() {
    let gpu = Gpu::new("gfx1151");
    let fresh = gpu.download(gpu.allocate::<f32>(64));
    assert!(fresh.iter().all(|x| x.is_nan()));
}

#[test]
fn instructions_that_are_not_supported_are_all_listed_with_their_kernel() {
    let gpu = Gpu::new("gfx1151");
    let code = assemble("v_movreld_b32 v1, v2\n s_sendmsg_rtn_b32 s4, sendmsg(MSG_RTN_GET_TMA)", "gfx1151");
    assert_eq!(gpu.try_load(&code), Err(801));
    let message = gpu.fault();
    assert!(message.starts_with("2 instructions are not supported"), "{message}");
    assert!(message.contains("kernel 'test': `v_movreld_b32"), "{message}");
    assert!(message.contains("s_sendmsg_rtn_b32"), "{message}");
}

#[test]
fn a_launch_that_was_asked_to_fail_fails() {
    let gpu = Gpu::with_options("gfx1151", "fail_launch=2");
    let function = gpu.function(&compile("misc.hip", "gfx1151", &[]), "block_size");
    let y = gpu.allocate::<u32>(64);
    assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[y.into()]), 0);
    assert_eq!(hipDeviceSynchronize(), 0);
    assert_eq!(gpu.launch(function, [1, 1, 1], 64, 0, &[y.into()]), 0);
    assert_fault(&gpu, &["launch 2 failed as the option fail_launch asks"]);
}
