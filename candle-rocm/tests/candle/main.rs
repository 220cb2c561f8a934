//! The Candle device over hip-sim: every operation that it has kernels for against Candle's own CPU code, on every layout that
//! tensors come in, without a round trip over the CPU; and what happens to memory and to indices that are out of range.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

#[path = "../simulator.rs"]
mod simulator;

mod memory;
mod operations;

use candle_core::{CustomDevice, DType, Device, Result, Tensor};
use candle_rocm::{Options, RocmDevice};
use simulator::{Simulator, directory};
use taper_kernels::images;

/// One of each generation: kernels have been compared on all kinds of targets.
const TARGETS: [&str; 2] = ["gfx1151", "gfx1201"];

/// Runs a test on every target that this build holds.
fn on_targets(options: &Options, test: impl Fn(&RocmDevice)) {
    let built = images::targets();
    let targets: Vec<_> = TARGETS.into_iter().filter(|target| built.contains(target)).collect();
    assert!(!targets.is_empty(), "this build has kernels for {built:?} only");
    for target in targets {
        let simulator = Simulator::start(target);
        let options = Options { library_directory: Some(directory()), ..options.clone() };
        let device = RocmDevice::new(0, &options).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&device)));
        if let Err(panic) = result {
            eprintln!("on {target}; hip-sim: {}", simulator.last_fault());
            std::panic::resume_unwind(panic);
        }
    }
}

/// Reads behind the end of a tensor are faults.
fn exact() -> Options {
    Options { exact_allocations: true, ..Options::default() }
}

/// Between -2 and 2, and the same everywhere.
fn data(shape: &[usize], dtype: DType, seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i + 31 * seed) * 7919 % 1009) as f32 / 252.0 - 2.0).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// Computes on the CPU and on the device from the same tensors: equal to within `tolerance` of the largest, and never over the CPU.
fn assert_same(
    device: &RocmDevice,
    what: &str,
    tolerance: f64,
    inputs: &[Tensor],
    compute: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let want = compute(inputs).unwrap();
    let candle = device.device();
    let moved: Vec<Tensor> = inputs.iter().map(|tensor| tensor.to_device(&candle).unwrap()).collect();
    let got = compute(&moved).unwrap_or_else(|error| panic!("{what}: {error}"));
    let trips = device.round_trips().counts();
    assert!(trips.is_empty(), "{what} went over the CPU: {trips:?}");
    assert_eq!((got.dtype(), got.dims()), (want.dtype(), want.dims()), "{what}");
    let numbers = |tensor: &Tensor| -> Vec<f64> {
        let tensor = tensor.to_device(&Device::Cpu).unwrap();
        tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
    };
    let (got, want) = (numbers(&got), numbers(&want));
    let largest = want.iter().filter(|x| x.is_finite()).fold(0.0, |a: f64, b| a.max(b.abs()));
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        let equal = got == want || (got.is_nan() && want.is_nan());
        assert!(equal || (got - want).abs() <= tolerance * largest, "{what}: element {i} is {got}, not {want}");
    }
}
