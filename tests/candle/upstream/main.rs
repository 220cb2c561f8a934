//! Upstream's own test files, from the crates that cargo downloaded, compiled against ours: what they assert on the CPU, and the
//! same on the reference device and on the minimal one.

// Upstream's code is not ours to tidy.
#![allow(clippy::all, clippy::uninlined_format_args, clippy::dbg_macro, clippy::todo, unused, unexpected_cfgs)]

extern crate candle_core as candle;

use candle_core::{quantized, quantized::k_quants};

/// What the reference device counts without having computed anything.
const MOVES: [&str; 3] = ["upload", "upload_bytes", "download"];

/// Tests that ask for nothing else: they read what they wrote, or a part of it.
const ONLY_MOVE: [&str; 4] = ["arange", "broadcast", "narrow", "tensor_2d"];

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
                let computed = device.calls().keys().any(|op| !crate::MOVES.contains(op));
                let computed = computed || candle_core::CustomDevice::round_trips(&device).total() > 0;
                assert_eq!(
                    computed,
                    !crate::ONLY_MOVE.contains(&stringify!($test)),
                    "whether the device was asked to compute"
                );
            }

            #[test]
            fn on_minimal() {
                super::$test(&candle_reference_device::Minimal::new(0).device()).unwrap();
            }
        }
    };
}

macro_rules! files_of {
    ($($krate:literal: $($file:ident)*;)*) => {
        $($(mod $file {
            include!(concat!(env!("OUT_DIR"), "/", $krate, "/", stringify!($file), ".rs"));
        })*)*

        /// Crates of upstream's, and their files that are included here.
        const INCLUDED: &[(&str, &[&str])] = &[$(($krate, &[$(stringify!($file)),*])),*];
    };
}

files_of! {
    "candle-core": bilinear_tests conv_tests custom_op_tests display_tests gguf_tests grad_tests indexing_tests layout_tests
        matmul_tests pool_tests pth_tests quantized_tests serialization_tests tensor_tests;
    "candle-nn": batch_norm bf16_add_bisect bf16_conv_bench bf16_cpu_ops cpu_flash_attn group_norm kv_cache layer_norm loss
        one_hot ops optim rnn varlen_flash_attention;
}

/// Upstream's files that are not included, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("cutile_tests", "needs the feature cutile, and with it the CUDA compiler"),
    ("metal_concurrent_tests", "needs the feature metal, and with it macOS"),
    ("cutile_moe", "needs the feature cutile, and with it the CUDA compiler"),
    ("sdpa", "needs the feature metal, and with it macOS"),
];

fn upstreams_tests(krate: &str) -> std::path::PathBuf {
    candle_overlay_build::upstream::folder(krate, "0.11.1").unwrap().join("tests")
}

/// A file that upstream adds would otherwise be missing without a word.
#[test]
fn every_file_of_upstreams_is_included_or_left_out_for_a_reason() {
    for (krate, included) in INCLUDED {
        for file in candle_overlay_build::rust_files(&upstreams_tests(krate)).unwrap() {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let left_out = LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
            assert!(included.contains(&name) != left_out, "{krate}: tests/{name}.rs");
        }
    }
}

/// A macro that no longer reaches us would take its tests away without a word.
#[test]
fn every_test_of_the_files_is_here() {
    let listed = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format=terse"])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for (krate, files) in INCLUDED {
        for file in *files {
            let source = std::fs::read_to_string(upstreams_tests(krate).join(file).with_extension("rs")).unwrap();
            let is_here = |name: &str| {
                listed
                    .lines()
                    .any(|line| line.starts_with(&format!("{file}::")) && line.ends_with(&format!("::{name}: test")))
            };
            let plain = plain_tests(&source);
            let on_devices = device_tests(&source);
            assert!(plain.len() + on_devices.len() > 0, "{file} has no tests");
            for name in plain {
                assert!(is_here(name), "{file}::{name}");
            }
            for name in on_devices {
                for device in ["on_cpu", "on_reference", "on_minimal"] {
                    assert!(is_here(&format!("{name}::{device}")), "{file}::{name}::{device}");
                }
            }
        }
    }
}

/// The functions marked as tests, but for those that need a feature, or another processor than this build is for.
fn plain_tests(source: &str) -> Vec<&str> {
    let mut attributes = vec![];
    let mut names = vec![];
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            attributes.push(line);
            continue;
        }
        let elsewhere = |attribute: &&str| {
            attribute.starts_with("#[cfg(feature")
                || attribute.starts_with("#[cfg(target_arch") && !attribute.contains(std::env::consts::ARCH)
        };
        if attributes.contains(&"#[test]") && !attributes.iter().any(elsewhere) {
            names.push(line.trim_start_matches("fn ").split('(').next().unwrap());
        }
        attributes.clear();
    }
    names
}

/// The functions named to `test_device!`, or to a macro of the file's own that names them to it.
fn device_tests(source: &str) -> Vec<&str> {
    let own = source
        .split("macro_rules! ")
        .skip(1)
        .filter(|macros| macros.split("\n}\n").next().unwrap().contains("test_device!("));
    let own = own.map(|macros| macros.split_whitespace().next().unwrap());
    std::iter::once("test_device")
        .chain(own)
        .flat_map(|name| {
            // At the start of a line: a call within a macro names a variable.
            source.split(&format!("\n{name}!(")).skip(1).collect::<Vec<_>>()
        })
        .map(|call| call.split(',').next().unwrap().trim())
        .collect()
}
