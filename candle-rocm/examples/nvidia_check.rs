//! Our kernels on an NVIDIA card: every check of `tests/checks` and some at large shapes, then times against what the
//! card can do. Needs its driver and nothing else; `scripts/nvidia` builds it. Exits with 1 where a check fails.

#[path = "../tests/checks/mod.rs"]
mod checks;

#[path = "nvidia_check/bench.rs"]
mod bench;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use candle_rocm::Context;
use candle_rocm::driver::Driver;
use taper_kernels::gemm::Kind;
use taper_kernels::quant::Format;
use taper_kernels::{Dtype, images};

fn main() -> ExitCode {
    let driver = match Driver::cuda(None, 0) {
        Ok(driver) => driver,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let context = Context::new(driver).expect("a fresh device makes a stream");
    let properties = context.properties();
    println!("{}, {}, {} processors", properties.name, properties.target, properties.num_processors);
    let mut num_failed = 0;
    for (name, check) in checks::ALL.iter().chain(LARGE) {
        let start = Instant::now();
        let passed = catch_unwind(AssertUnwindSafe(|| check(&context))).is_ok();
        println!("{} {name} in {:.1} s", if passed { "ok    " } else { "FAILED" }, start.elapsed().as_secs_f32());
        num_failed += usize::from(!passed);
    }
    println!("{} bytes of images", images::embedded_bytes());
    bench::all(&context);
    if num_failed > 0 {
        eprintln!("{num_failed} checks failed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// As large as the reference on the host allows within seconds.
const LARGE: &[checks::Check] = &[
    ("large norm", |context| checks::norm::one(context, Dtype::Bf16, 2048, 8192, true)),
    ("large softmax", |context| checks::softmax::one(context, Dtype::F32, 300, 128_257)),
    ("large reduce", |context| checks::reduce::values(context, Dtype::F16, 1000, 32_769)),
    ("large quant", |context| {
        checks::quant::product(context, Format::Q8_0, Dtype::F32, 8, 14_333, 4096);
        checks::quant::product(context, Format::Q4K, Dtype::F16, 1, 14_333, 4096);
    }),
    ("large gemm", |context| {
        checks::gemm::floats(context, Kind::Bf16, Dtype::Bf16, (1, 1031, 1025, 1000, false));
        checks::gemm::floats(context, Kind::F16, Dtype::F16, (1, 515, 2050, 513, false));
    }),
    ("large attention", |context| {
        checks::attention::one(
            context,
            &checks::attention::Case {
                dtype: Dtype::Bf16,
                head_dim: 128,
                kv_heads: 8,
                group: 4,
                block_size: 16,
                lengths: vec![4097, 1, 8191, 333],
                window: None,
                splits: 8,
            },
        );
    }),
];
