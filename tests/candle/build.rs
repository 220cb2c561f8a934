//! Takes upstream's test files from the crates that cargo downloaded, so that `upstream` can include them. Three things are
//! changed: what an included file may not contain, where its data files lie, and `test_device!`, which becomes ours.

use candle_overlay_build::{copy_tree, rust_files, upstream};
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    for name in ["candle-core", "candle-nn"] {
        println!("cargo::rerun-if-env-changed={}", upstream::source_variable(name));
        let source = upstream::folder(name, "0.11.1").unwrap_or_else(|error| panic!("{error}")).join("tests");
        let target = Path::new(&out).join(name);
        copy_tree(&source, &target).unwrap_or_else(|error| panic!("{error}"));
        for file in rust_files(&target).unwrap_or_else(|error| panic!("{error}")) {
            let text = fs::read_to_string(&file).expect("a copy that was just made");
            fs::write(&file, includable(&text, &target)).expect("a copy that was just made");
        }
    }
}

fn includable(text: &str, folder: &Path) -> String {
    text.lines()
        .filter(|line| !line.starts_with("#![") && !line.starts_with("//!"))
        .map(|line| format!("{line}\n"))
        .collect::<String>()
        .replace("test_device!(", "on_devices!(")
        // Numbers that differ between backends: a device that falls back to the CPU has the CPU's.
        .replace("Device::Cpu =>", "Device::Cpu | Device::Custom(_) =>")
        .replace("\"tests/", &format!("\"{}/", folder.display()))
}
