//! How many wave instructions a second does one core execute? The kernels of the tests at sizes of real models; waits and
//! hints count as instructions.
#![allow(unsafe_code, clippy::unwrap_used, clippy::too_many_arguments)] // The interface is C's; a benchmark may stop.

#[path = "../tests/sim/support.rs"]
#[allow(dead_code)]
mod support;

use amdhip64::api::{hipDeviceSynchronize, hipSimInstructions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use support::{Argument, Gpu, compile};

/// Measures a launch; its throughput is in wave instructions.
fn measure(
    criterion: &mut Criterion,
    gpu: &Gpu,
    file: &str,
    kernel: &str,
    grid: [u32; 3],
    block: u32,
    lds: u32,
    arguments: &[Argument],
) {
    let function = gpu.function(&compile(file, &gpu.target, &[]), kernel);
    let run = || {
        assert_eq!(gpu.launch(function, grid, block, lds, arguments), 0);
        assert_eq!(hipDeviceSynchronize(), 0, "{}", gpu.fault());
    };
    let count = || {
        let mut count = 0;
        // SAFETY: `count` is valid for a write.
        assert_eq!(unsafe { hipSimInstructions(&mut count) }, 0);
        count
    };
    let before = count();
    run();
    let mut group = criterion.benchmark_group(&gpu.target);
    group.throughput(Throughput::Elements(count() - before));
    group.sample_size(10);
    group.bench_function(kernel, |bencher| bencher.iter(&run));
    group.finish();
}

fn kernels(criterion: &mut Criterion) {
    for target in ["gfx1151", "gfx1201"] {
        matvec(criterion, target);
        attention(criterion, target);
        gemm(criterion, target);
    }
}

fn matvec(criterion: &mut Criterion, target: &str) {
    let gpu = Gpu::with_options(target, "threads=1");
    let (rows, blocks) = (256u32, 128u32);
    let len = (rows * blocks) as usize;
    let arguments = [
        gpu.upload(&vec![3i8; len * 32]).into(),
        gpu.upload(&vec![0x3C00u16; len]).into(),
        gpu.upload(&vec![5i8; blocks as usize * 32]).into(),
        gpu.upload(&vec![1f32; blocks as usize]).into(),
        gpu.allocate::<f32>(rows as usize).into(),
        blocks.into(),
    ];
    measure(criterion, &gpu, "matvec.hip", "matvec_q8", [rows, 1, 1], 32, 0, &arguments);
}

fn attention(criterion: &mut Criterion, target: &str) {
    let gpu = Gpu::with_options(target, "threads=1");
    let (heads, length) = (8u32, 256u32);
    let cache = gpu.upload(&vec![0x3400u16; length as usize * 128]);
    let pages: Vec<i32> = (0..length as i32 / 16).collect();
    let arguments = [
        gpu.upload(&vec![0x3400u16; heads as usize * 128]).into(),
        cache.into(),
        cache.into(),
        gpu.upload(&pages).into(),
        gpu.allocate::<f32>(heads as usize * 128).into(),
        length.into(),
        0.1f32.into(),
    ];
    measure(criterion, &gpu, "attention.hip", "attention", [heads, 1, 1], 128, 64, &arguments);
}

fn gemm(criterion: &mut Criterion, target: &str) {
    let size = 256u32;
    let len = (size * size) as usize;
    for kernel in ["gemm_f16", "gemm_bf16", "gemm_i8"] {
        let gpu = Gpu::with_options(target, "threads=1");
        let values = gpu.upload(&vec![0x3400u16; len]);
        let arguments = [values.into(), values.into(), gpu.allocate::<f32>(len).into(), size.into(), size.into()];
        measure(criterion, &gpu, "gemm.hip", kernel, [size / 16, size / 16, 1], 32, 0, &arguments);
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
