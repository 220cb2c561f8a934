//! Upstream's own test files, from the crates that cargo downloaded, compiled against ours: what they assert on the CPU, and the
//! same on the reference device and on the minimal one.

// Upstream's code is not ours to tidy.
#![allow(clippy::all, unused, unexpected_cfgs)]

extern crate candle_core as candle;

use candle_core::{quantized, quantized::k_quants};

/// Stands for upstream's `test_device!`, which makes a test for the CPU and one for each backend that is compiled in.
macro_rules! on_devices {
    ($test:ident, $cpu:ident, $cuda:ident, $metal:ident) => {
        mod $test {
            #[test]
            fn on_cpu() {
                super::$test(&candle_core::Device::Cpu).unwrap();
            }

            #[test]
            fn on_reference() {
                let device = candle_reference_device::Reference::new(0);
                super::$test(&device.device()).unwrap();
                assert!(!device.calls().is_empty(), "nothing ran on the device");
            }

            #[test]
            fn on_minimal() {
                super::$test(&candle_reference_device::Minimal::new(0).device()).unwrap();
            }
        }
    };
}

macro_rules! files_of {
    ($krate:literal: $($file:ident)*) => {
        $(mod $file {
            include!(concat!(env!("OUT_DIR"), "/", $krate, "/", stringify!($file), ".rs"));
        })*
    };
}

files_of!("candle-core": bilinear_tests conv_tests custom_op_tests display_tests gguf_tests grad_tests indexing_tests layout_tests
    matmul_tests pool_tests pth_tests quantized_tests serialization_tests tensor_tests);
files_of!("candle-nn": batch_norm group_norm kv_cache layer_norm loss one_hot ops optim rnn);

/// A file that upstream renames, or a macro that no longer reaches us, would take its tests away without a word.
#[test]
fn as_many_tests_as_upstream_has() {
    let tests = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format=terse"])
        .output()
        .unwrap();
    let tests = String::from_utf8(tests.stdout).unwrap();
    let count = |end: &str| tests.lines().filter(|line| line.ends_with(&format!("{end}: test"))).count();
    let (cpu, reference, minimal) = (count("::on_cpu"), count("::on_reference"), count("::on_minimal"));
    let plain = count("") - cpu - reference - minimal - 1;
    assert_eq!((cpu, reference, minimal, plain), (118, 118, 118, 97));
}
