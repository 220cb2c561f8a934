//! What every code object must show: no spills, no private memory, waves of 32 lanes, no hidden arguments, and the
//! instructions that its kernels exist for.

use std::process::Command;

use taper_kernels::metadata::{Kernel, Metadata};
use taper_kernels::{images, occupancy};

/// Kernels by the beginning of their names, and what must stand in their code.
const EXPECTED: [(&str, &[&str]); 20] = [
    ("rms_norm_", &["global_load_b128", "row_xmask", "v_rsq_f32"]),
    ("softmax_", &["global_load_b128", "row_xmask", "v_exp_f32"]),
    ("sum_", &["global_load_b128", "row_xmask"]),
    ("argmax_", &["global_load_b128"]),
    ("copy_16", &["global_load_b128", "global_store_b128"]),
    ("q8_0_matvec_", &["v_dot4_i32_iu8", "global_load_b128"]),
    ("q4_k_matvec_", &["v_dot4_i32_iu8", "global_load_b128"]),
    ("gemm_f16_", &["v_wmma_f32_16x16x16_f16", "ds_load_b128"]),
    ("gemm_bf16_", &["v_wmma_f32_16x16x16_bf16", "ds_load_b128"]),
    ("gemm_i8_", &["v_wmma_i32_16x16x16_iu8"]),
    ("gemm_f16_large", &["global_load_b128"]),
    ("attention_decode_", &["global_load_b128", "row_xmask"]),
    ("copy_between_16", &["global_load_b128", "global_store_b128"]),
    ("fill_8", &["global_store_b64"]),
    ("exp_f16", &["global_load_b128", "v_exp_f32"]),
    ("sin_f32", &["global_load_b128", "v_fma_f64"]),
    ("binary_f32", &["v_add_f32", "global_store_b32"]),
    ("where_u8_64", &["global_store_b64"]),
    ("index_select_u32_64", &["global_load_b64", "global_store_b64"]),
    ("matmul_f32", &["fmac_f32", "ds_load"]),
];
/// Element by element, as their names say.
const WITHOUT_WIDE_LOADS: &str = "_odd";

/// Waves that must fit on a SIMD at least. gfx1151 needs about 130 kB under way to use its memory (215 GB/s for 600 ns);
/// three waves on each of 80 SIMDs with a single 128-bit load each are 123 kB, and every kernel has more loads.
const FEWEST_WAVES: u32 = 3;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kernels.md");
const TABLE_HEAD: &str = "| kernel | VGPR | SGPR | LDS | waves |\n|---|---|---|---|---|\n";

/// The kernel of each file that takes the most registers; another compiler gives other numbers.
#[test]
fn the_documented_resources_are_those_of_the_images() {
    let target = "gfx1151";
    let image = images::image("norm", target);
    if !image.is_some_and(|image| image.windows(18).any(|bytes| bytes == b"clang version 19.1")) {
        eprintln!(
            "SKIPPED: the document's numbers are those of clang 19.1 for {target}, which this build does not have"
        );
        return;
    }
    let mut table = TABLE_HEAD.to_owned();
    for module in images::modules() {
        let kernels = Metadata::parse(&images::image(module, target).unwrap()).unwrap().kernels;
        let largest = kernels.into_iter().rev().max_by_key(|kernel| kernel.resources.unwrap().vgprs).unwrap();
        let (taken, waves) = (largest.resources.unwrap(), occupancy::waves_per_simd(&largest, target).unwrap());
        let row = [taken.vgprs, taken.sgprs, largest.lds, waves].map(|number| number.to_string()).join(" | ");
        table += &format!("| `{}` | {row} |\n", largest.name);
    }
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (before, after) = document.split_once(TABLE_HEAD).expect("docs/kernels.md has the table");
    let rest = after.split_once("\n\n").map_or("", |(_, rest)| rest);
    let current = format!("{before}{table}\n{rest}");
    if std::env::var_os("TAPER_UPDATE_DOCS").is_some() {
        std::fs::write(DOCUMENT, &current).unwrap();
    }
    assert!(
        document == current || std::env::var_os("TAPER_UPDATE_DOCS").is_some(),
        "TAPER_UPDATE_DOCS=1 writes:\n{table}"
    );
}

fn all_kernels() -> Vec<(&'static str, Kernel)> {
    let targets = images::targets().into_iter().filter(|target| target.starts_with("gfx"));
    targets
        .flat_map(|target| images::modules().into_iter().map(move |module| (module, target)))
        .flat_map(|(module, target)| {
            let metadata = Metadata::parse(&images::image(module, target).unwrap()).unwrap();
            metadata.kernels.into_iter().map(move |kernel| (target, kernel))
        })
        .collect()
}

#[test]
fn no_kernel_spills_or_uses_private_memory_and_all_are_wave32() {
    for (target, kernel) in all_kernels() {
        let resources = kernel.resources.unwrap();
        let name = format!("{} for {target}", kernel.name);
        assert_eq!((resources.vgpr_spills, resources.sgpr_spills, resources.scratch), (0, 0, 0), "{name}");
        assert_eq!((resources.wave_size, resources.hidden_args), (32, 0), "{name}");
    }
}

#[test]
fn enough_waves_of_every_kernel_fit_on_a_simd() {
    for (target, kernel) in all_kernels() {
        let waves = occupancy::waves_per_simd(&kernel, target).unwrap();
        assert!(waves >= FEWEST_WAVES, "{} for {target}: {waves}", kernel.name);
    }
}

#[test]
fn kernels_use_the_instructions_that_they_exist_for() {
    let objdump = objdump();
    for target in images::targets().into_iter().filter(|target| target.starts_with("gfx")) {
        let mut looked_at = [0; EXPECTED.len()];
        for module in images::modules() {
            let code = disassemble(objdump, module, target);
            let found = functions(&code);
            let metadata = Metadata::parse(&images::image(module, target).unwrap()).unwrap();
            let is_found = |kernel: &Kernel| found.iter().any(|(name, _)| *name == kernel.name);
            let missing: Vec<_> = metadata.kernels.iter().filter(|kernel| !is_found(kernel)).collect();
            assert!(missing.is_empty(), "{objdump} shows no {} of {module} for {target}", missing[0].name);
            for (name, body) in found {
                assert!(!body.contains("scratch_"), "{name} for {target} uses private memory");
                let rows = EXPECTED.iter().enumerate().filter(|(_, (prefix, _))| name.starts_with(prefix));
                for (row, (prefix, expected)) in rows {
                    looked_at[row] += 1;
                    for mnemonic in *expected {
                        let excused = name.ends_with(WITHOUT_WIDE_LOADS) && *mnemonic == "global_load_b128";
                        assert!(excused || body.contains(mnemonic), "{prefix}: {name} for {target} has no {mnemonic}");
                    }
                }
            }
        }
        for (count, (prefix, _)) in looked_at.iter().zip(EXPECTED) {
            assert!(*count > 0, "no kernel for {target} is named {prefix}...");
        }
    }
}

/// LLVM's disassembler, as old as the compiler or newer.
fn objdump() -> &'static str {
    let names = ["llvm-objdump-19", "llvm-objdump-20", "llvm-objdump-21", "/opt/rocm/llvm/bin/llvm-objdump"];
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(runs).expect("no llvm-objdump to look for instructions with: install llvm-19")
}

fn disassemble(objdump: &str, module: &str, target: &str) -> String {
    let path = std::env::temp_dir().join(format!("taper-{}-{module}-{target}.hsaco", std::process::id()));
    std::fs::write(&path, images::image(module, target).unwrap()).unwrap();
    let output = Command::new(objdump).arg("-d").arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success(), "{objdump}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Name and instructions: `0000000000001900 <name>:` begins a function.
fn functions(code: &str) -> Vec<(&str, &str)> {
    let functions = code.split("\n0000").skip(1).filter_map(|text| text.split_once(">:"));
    functions.filter_map(|(head, body)| Some((head.split_once('<')?.1, body))).collect()
}
