//! Is each kind of planted fault found, and does the message say what and where?
#![allow(unsafe_code)] // The interface is C's.

use crate::shipped::{Cache, Plant, image, norm, planted, product};
use crate::support::{Buffer, Gpu, Random, TARGETS, assemble, assemble_with, compile};
use amdhip64::api::{hipDeviceSynchronize, hipFree, hipGetLastError, hipModuleLoad};
use half::bf16;

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

const GEMM_BARRIER: Plant = Plant(
    "gemm.hip",
    "        stage_b.write(tile_b[now]);\n        lds_barrier();",
    "        stage_b.write(tile_b[now]);",
);
const ATTENTION_BARRIER: Plant = Plant("attention.hip", "    lds_barrier();\n", "");
const NORM_BARRIER: Plant = Plant("device.h", "        lds_barrier();\n", "");

/// A product of 48 x 80 x 96 from a code object, into memory that nothing has written.
fn run_gemm(gpu: &Gpu, code: &[u8], shrink: u32) -> Buffer<u16> {
    let mut random = Random::new(1);
    let mut values = |len: usize| (0..len).map(|_| (random.next_u32() & 0x3BFF) as u16).collect::<Vec<u16>>();
    let (a, b, c) = (gpu.upload(&values(48 * 96)), gpu.upload(&values(80 * 96)), gpu.allocate(48 * 80));
    let mut launch = product(48, 80, 96, a, b, c);
    launch.grid[1] -= shrink;
    assert_eq!(gpu.launch_shipped(code, &launch), 0);
    c
}

#[test]
fn a_barrier_removed_from_the_shipped_gemm_is_a_race_between_waves() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        run_gemm(&gpu, &planted("gemm", target, &GEMM_BARRIER), 0);
        let both_sides = ["kernel 'gemm_f16_small", "LDS address", "`ds_store", "`ds_load", "no barrier in between"];
        assert_fault(&gpu, &both_sides);
    }
}

#[test]
fn a_barrier_removed_from_the_shipped_attention_is_a_race_between_waves() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let code = planted("attention", target, &ATTENTION_BARRIER);
        assert_eq!(gpu.launch_shipped(&code, &Cache::new(&gpu, 48).attention()), 0);
        assert_fault(&gpu, &["kernel 'attention_decode_f16_64_1'", "LDS address", "no barrier in between"]);
    }
}

#[test]
fn a_barrier_removed_from_the_shipped_sums_of_blocks_is_a_race_between_waves() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let rows = gpu.upload(&vec![bf16::ONE; 2048]);
        let code = planted("norm", target, &NORM_BARRIER);
        assert_eq!(gpu.launch_shipped(&code, &norm(1, rows, rows, gpu.allocate(2048))), 0);
        assert_fault(
            &gpu,
            &["kernel 'rms_norm_block_bf16', workgroup (0,0,0)", "LDS address", "no barrier in between"],
        );
    }
}

#[test]
fn an_index_off_by_one_in_the_shipped_attention_reads_past_the_table() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let plant = Plant("attention.hip", "place_of_token(token < end ? token : end - 1)", "place_of_token(token)");
        let code = planted("attention", target, &plant);
        assert_eq!(gpu.launch_shipped(&code, &Cache::new(&gpu, 48).attention()), 0);
        assert_fault(
            &gpu,
            &["kernel 'attention_decode_f16_64_1'", "0 bytes past the end of the nearest allocation (12 bytes"],
        );
    }
}

#[test]
fn rows_that_are_not_limited_in_the_shipped_gemm_are_read_past_the_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let plant = Plant("gemm.hip", "(u64)(row < rows ? row : rows - 1) * k + at", "(u64)row * k + at");
        run_gemm(&gpu, &planted("gemm", target, &plant), 0);
        assert_fault(&gpu, &["kernel 'gemm_f16_small'", "past the end of the nearest allocation"]);
    }
}

#[test]
fn a_stale_pointer_to_the_shipped_attention_is_called_stale() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let cache = Cache::new(&gpu, 48);
        assert_eq!(hipFree(cache.keys.address), 0);
        assert_eq!(gpu.launch_shipped(&image("attention", target), &cache.attention()), 0);
        assert_fault(&gpu, &["kernel 'attention_decode_f16_64_1'", "inside a freed allocation", "a stale pointer"]);
    }
}

#[test]
fn a_grid_that_is_too_small_leaves_what_nothing_wrote() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let whole = gpu.download(run_gemm(&gpu, &image("gemm", target), 0));
        assert!(whole.iter().all(|x| !half::f16::from_bits(*x).is_nan()), "{target}");
        let cut = gpu.download(run_gemm(&gpu, &image("gemm", target), 1));
        assert!(cut[32 * 80..].iter().all(|x| half::f16::from_bits(*x).is_nan()), "{target}: rows from 32 on");
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
fn lanes_that_do_not_repeat_the_tile_in_the_shipped_gemm_are_found_on_gfx11() {
    for target in ["gfx1100", "gfx1151"] {
        let gpu = Gpu::new(target);
        let plant = Plant(
            "amd.h",
            "const u32x4 *row = (const u32x4 *)(tile + (lane() % 16) * stride);",
            "const u32x4 *row = (const u32x4 *)(tile + (lane() % 16 ^ lane() / 16) * stride);",
        );
        run_gemm(&gpu, &planted("gemm", target, &plant), 0);
        assert_fault(
            &gpu,
            &["`v_wmma_f32_16x16x16_f16", "lanes 16 to 31 must hold the same rows of", "as lanes 0 to 15"],
        );
    }
}

#[test]
fn a_grid_that_is_one_workgroup_too_large_reads_past_the_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let mut launch = Cache::new(&gpu, 48).attention();
        launch.grid[2] += 1;
        assert_eq!(gpu.launch_shipped(&image("attention", target), &launch), 0);
        assert_fault(&gpu, &["workgroup (0,0,1)", "0 bytes past the end of the nearest allocation"]);
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

/// Four waves that run instructions on LDS between a store and a load.
fn four_waves(target: &str, body: &str, parts: &[&str]) {
    let gpu = Gpu::new(target);
    let function = gpu.function(&assemble(body, target), "test");
    let (input, output) = (gpu.upload(&[0u32; 128]), gpu.allocate::<u32>(64));
    assert_eq!(gpu.launch(function, [1, 1, 1], 128, 0, &[input.into(), output.into()]), 0);
    match parts {
        [] => assert_eq!(hipDeviceSynchronize(), 0, "{}", gpu.fault()),
        parts => assert_fault(&gpu, parts),
    }
}

/// The wave's number in the lowest scalar that is free, whatever the target; its first thread tells it.
const WAVE_NUMBER: &str = "v_readfirstlane_b32 s4, v31\n v_mov_b32 v6, s4\n";

#[test]
fn two_waves_at_one_half_of_a_word_need_a_barrier() {
    for target in TARGETS {
        let body = format!("{WAVE_NUMBER} v_mov_b32 v5, 2\n ds_store_b16 v5, v6\n ds_load_u16 v10, v5");
        let both_sides = ["wave 1 lane 0 writes LDS address 0x2, which wave 0", "at +0x", "no barrier in between"];
        four_waves(target, &body, &both_sides);
    }
}

#[test]
fn two_waves_at_different_halves_of_a_word_need_none() {
    for target in TARGETS {
        let body = format!(
            "{WAVE_NUMBER} v_lshrrev_b32 v5, 4, v6\n ds_store_b16 v5, v6\n ds_load_u16 v10, v5\n ds_store_b8 v5, v6 offset:1"
        );
        four_waves(target, &body, &[]);
    }
}

#[test]
fn an_atomic_update_and_a_plain_load_need_a_barrier() {
    for target in TARGETS {
        let update = "v_mov_b32 v5, 8\n v_mov_b32 v6, 1\n ds_add_u32 v5, v6\n ds_add_u32 v5, v6";
        four_waves(target, update, &[]);
        let parts = ["updates LDS address 0x8, which wave 0 read", "no barrier in between"];
        four_waves(target, &format!("{update}\n ds_load_b32 v10, v5"), &parts);
        let unaligned = "v_mov_b32 v5, 9\n ds_add_u32 v5, v5";
        four_waves(target, unaligned, &["updates 4 bytes at LDS address 0x9, which is not aligned"]);
    }
}

#[test]
fn split_barriers_are_signalled_once_and_waited_for_before_lds_is_used() {
    let signal = "s_barrier_signal -1\n";
    for (body, parts) in [
        ("s_barrier_wait -1", "waits at a barrier that it has not signalled"),
        ("s_barrier_signal -1\n s_barrier_signal -1", "signals a barrier twice"),
        ("v_mov_b32 v5, 8\n s_barrier_signal -1\n ds_load_b32 v10, v5", "between the signal of a barrier and the wait"),
    ] {
        four_waves("gfx1201", body, &[parts]);
    }
    four_waves("gfx1201", &format!("{signal} s_barrier_wait -1\n {signal} s_barrier_wait -1"), &[]);
}

#[test]
fn a_matrix_instruction_needs_all_lanes() {
    for (target, words) in [("gfx1151", "v[16:23], v[24:31]"), ("gfx1201", "v[16:19], v[24:27]")] {
        let body = format!("s_mov_b32 exec_lo, 0x7fffffff\n v_wmma_f32_16x16x16_f16 v[40:47], {words}, v[40:47]");
        four_waves(target, &body, &["needs all 32 lanes, and the active ones are 0x7fffffff"]);
    }
}

#[test]
fn a_matrix_instruction_of_gfx11_must_not_write_over_its_inputs() {
    let gpu = Gpu::new("gfx1151");
    let code = assemble("v_wmma_f32_16x16x16_f16 v[16:23], v[16:23], v[24:31], v[16:23]", "gfx1151");
    assert_eq!(gpu.try_load(&code), Err(801));
    assert!(gpu.fault().contains("D in registers of A or B"), "{}", gpu.fault());
}

#[test]
fn lds_and_registers_that_nothing_wrote_are_poisoned() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let rows = [[0; 32]; 4];
        let [lds, register] =
            crate::support::execute(&gpu, "v_mov_b32 v5, 64\n ds_load_b32 v10, v5\n v_mov_b32 v11, v77", &rows);
        assert!(f32::from_bits(lds[0]).is_nan() && f32::from_bits(register[0]).is_nan(), "{target}");
        let [scalar, _] = crate::support::execute(&gpu, "v_mov_b32 v10, s77", &rows);
        assert!(f32::from_bits(scalar[0]).is_nan(), "{target}");
    }
}

#[test]
fn a_lane_exchange_behind_a_branch_gives_nothing_of_the_lanes_that_are_off() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let rows = [[7; 32]; 4];
        let body = "v_lshlrev_b32 v5, 2, 17\n s_mov_b32 exec_lo, 0xffff\n ds_bpermute_b32 v10, v5, v1";
        let [values, _] = crate::support::execute(&gpu, body, &rows);
        assert_eq!((values[0], values[15]), (0, 0), "{target}: lane 17 is off");
    }
}

#[test]
fn a_mode_that_takes_subnormals_as_zeros_is_refused() {
    let gpu = Gpu::new("gfx1151");
    assert_eq!(gpu.try_load(&assemble("s_denorm_mode 0", "gfx1151")), Err(801));
    assert_eq!(gpu.try_load(&assemble("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), 0", "gfx1151")), Err(801));
    gpu.try_load(&assemble("s_denorm_mode 15", "gfx1151")).unwrap();
    let flushing =
        assemble_with("", "gfx1151", &[(".amdhsa_float_denorm_mode_32 3", ".amdhsa_float_denorm_mode_32 0")]);
    assert_eq!(gpu.try_load(&flushing), Err(200));
    assert!(gpu.fault().contains("takes subnormal numbers as zeros"), "{}", gpu.fault());
}

#[test]
fn bytes_inside_of_a_kernel_that_are_no_instruction_are_listed_at_load() {
    let gpu = Gpu::new("gfx1151");
    assert_eq!(gpu.try_load(&assemble(".long 0xfe123456", "gfx1151")), Err(801));
    let message = gpu.fault();
    assert!(message.contains("kernel 'test': `bytes 56 34 12 fe` (no instruction that LLVM 19 knows)"), "{message}");
}

#[test]
fn a_kernel_that_names_more_registers_than_it_has_is_refused() {
    let gpu = Gpu::new("gfx1151");
    gpu.try_load(&assemble("v_mov_b32 v95, 0", "gfx1151")).unwrap();
    assert_eq!(gpu.try_load(&assemble("v_lshlrev_b64 v[95:96], 1, v[2:3]", "gfx1151")), Err(200));
    assert!(gpu.fault().contains("has 96 vector registers"), "{}", gpu.fault());
}

#[test]
fn every_cut_of_a_code_object_is_refused_or_loads_and_nothing_panics() {
    let gpu = Gpu::new("gfx1151");
    let whole = assemble("v_mov_b32 v10, v1", "gfx1151");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = std::ffi::CString::new(file.path().to_str().unwrap()).unwrap();
    let load = |bytes: &[u8]| {
        std::fs::write(file.path(), bytes).unwrap();
        let mut module = std::ptr::null_mut();
        // SAFETY: `module` is valid for a write, and the path ends with a zero byte.
        unsafe { hipModuleLoad(&mut module, path.as_ptr()) }
    };
    for len in (0..whole.len()).step_by(7) {
        assert!([0, 200, 209, 801].contains(&load(&whole[..len])), "{len} bytes of {}", whole.len());
    }
    let mut random = Random::new(3);
    for _ in 0..500 {
        let mut damaged = whole.clone();
        for _ in 0..4 {
            let at = random.next_u32() as usize % damaged.len();
            damaged[at] = random.next_u32() as u8;
        }
        assert!([0, 200, 209, 801].contains(&load(&damaged)));
    }
    assert_eq!(load(&whole), 0);
    drop(gpu);
}

#[test]
fn the_fault_that_is_reported_is_that_of_the_first_workgroup_that_fails() {
    for _ in 0..20 {
        let gpu = Gpu::with_options("gfx1151", "threads=4");
        let function = gpu.function(&compile("misc.hip", "gfx1151", &[]), "copy");
        let (x, y) = (gpu.upload(&[1u32; 640]), gpu.allocate::<u32>(64 * 40));
        let arguments = [x.into(), y.into(), (64u32 * 40).into(), 0u32.into()];
        assert_eq!(gpu.launch(function, [40, 1, 1], 64, 0, &arguments), 0);
        assert_fault(&gpu, &["workgroup (10,0,0)"]);
    }
}
