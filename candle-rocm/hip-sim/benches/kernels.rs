//! How many wave instructions a second does one core execute? The shipped kernels at sizes of real models. Waits and hints
//! count as instructions; their share is printed.
#![allow(unsafe_code, clippy::unwrap_used)] // The interface is C's; a benchmark may stop.

#[path = "../tests/sim/shipped.rs"]
#[allow(dead_code)]
mod shipped;
#[path = "../tests/sim/support.rs"]
#[allow(dead_code)]
mod support;

use amdhip64::api::hipDeviceSynchronize;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shipped::{image, pointer};
use support::Gpu;
use taper_kernels::attention::Decode;
use taper_kernels::gemm::{Gemm, Kind};
use taper_kernels::quant::{Format, Matvec};
use taper_kernels::{DevicePtr, Dtype, Launch};

const TARGETS: [&str; 2] = ["gfx1151", "gfx1201"];

/// Measures a launch; its throughput is in wave instructions.
fn measure(criterion: &mut Criterion, gpu: &Gpu, launch: &Launch) {
    let function = gpu.function(&image(launch.module, &gpu.target), &launch.kernel);
    let run = || {
        assert_eq!(gpu.launch_bytes(function, launch.grid, launch.block, launch.args.bytes()), 0);
        assert_eq!(hipDeviceSynchronize(), 0, "{}", gpu.fault());
    };
    let count = || (gpu.counter(c"instructions"), gpu.counter(c"idle"));
    let before = count();
    run();
    let (instructions, idle) = (count().0 - before.0, count().1 - before.1);
    let best = (0..40).map(|_| cpu_seconds(run)).fold(f64::INFINITY, f64::min);
    let share = 100.0 * idle as f64 / instructions as f64;
    println!(
        "{}/{}: {instructions} instructions, {share:.0} % of them waits and hints; {:.1} million in a second of CPU time",
        gpu.target,
        launch.kernel,
        instructions as f64 / best / 1e6
    );
    let mut group = criterion.benchmark_group(&gpu.target);
    group.throughput(Throughput::Elements(instructions));
    group.sample_size(10);
    group.bench_function(&launch.kernel, |bencher| bencher.iter(&run));
    group.finish();
}

/// Time of this thread on a CPU, which other programs do not lengthen much; the work runs on it alone.
fn cpu_seconds(run: impl Fn()) -> f64 {
    const THREAD_CPU_TIME: i32 = 3;
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    }
    let now = || {
        let mut time = [0i64; 2];
        // SAFETY: the C library's function on Linux of 64 bits, where seconds and nanoseconds are two such numbers.
        assert_eq!(unsafe { clock_gettime(THREAD_CPU_TIME, &mut time) }, 0);
        time[0] as f64 + time[1] as f64 / 1e9
    };
    let before = now();
    run();
    now() - before
}

fn matvec(criterion: &mut Criterion) {
    for target in TARGETS {
        let gpu = Gpu::with_options(target, "threads=1");
        let (rows, k) = (256u32, 4096u32);
        let matvec = Matvec {
            format: Format::Q8_0,
            dtype: Dtype::F16,
            rows,
            k,
            tokens: 1,
            w: pointer(gpu.upload(&vec![0x3Cu8; (rows * k / 32 * 34) as usize])),
            q: pointer(gpu.upload(&vec![5i8; k as usize])),
            d: pointer(gpu.upload(&vec![1f32; k as usize / 32])),
            y: pointer(gpu.allocate::<u16>(rows as usize)),
        };
        measure(criterion, &gpu, &taper_kernels::quant::matvec(&matvec).unwrap());
    }
}

fn attention(criterion: &mut Criterion) {
    for target in TARGETS {
        let gpu = Gpu::with_options(target, "threads=1");
        let (kv_heads, length) = (4u32, 512u32);
        let cache = pointer(gpu.upload(&vec![0x3400u16; (kv_heads * length * 128) as usize]));
        let q = pointer(gpu.upload(&vec![0x3400u16; 4 * kv_heads as usize * 128]));
        let decode = Decode {
            dtype: Dtype::F16,
            sequences: 1,
            heads: 4 * kv_heads,
            kv_heads,
            head_dim: 128,
            block_size: 16,
            table_width: length / 16,
            window: None,
            scale: 0.1,
            splits: 1,
            q,
            keys: cache,
            values: cache,
            table: pointer(gpu.upload(&(0..length / 16).collect::<Vec<_>>())),
            lengths: pointer(gpu.upload(&[length])),
            out: pointer(gpu.allocate::<u16>(4 * kv_heads as usize * 128)),
            partial: DevicePtr::NULL,
        };
        measure(criterion, &gpu, &taper_kernels::attention::decode(&decode).unwrap().0);
    }
}

fn gemm(criterion: &mut Criterion) {
    let size = 256u32;
    for target in TARGETS {
        for kind in [Kind::F16, Kind::Bf16, Kind::I8] {
            let gpu = Gpu::with_options(target, "threads=1");
            let values = pointer(gpu.upload(&vec![0x3400u16; (size * size) as usize]));
            let c = pointer(gpu.allocate::<u32>((size * size) as usize));
            let (m, n, k) = (size, size, size);
            let gemm = Gemm { kind, batch: 1, m, n, k, a: values, stride_a: 0, b: values, stride_b: 0, c, stride_c: 0 };
            measure(criterion, &gpu, &taper_kernels::gemm::gemm(&gemm).unwrap());
        }
    }
}

criterion_group!(benches, matvec, attention, gemm);
criterion_main!(benches);
