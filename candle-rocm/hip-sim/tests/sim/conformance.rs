//! Does each instruction do what AMD's text says? Against `tests/conformance/vectors.txt.gz`: inputs, and what an evaluator of
//! the ISA documents' pseudocode computed from them. `tests/conformance/record.py` makes that file; nothing of this crate
//! takes part in it.

use crate::support::{Gpu, assemble_all};
use amdhip64::api::hipDeviceSynchronize;
use half::f16;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// One instruction, its inputs and what it must leave in `v10` and `v11`.
struct Row {
    target: String,
    mnemonic: String,
    inputs: String,
    /// In units in the last place, for functions that the hardware approximates.
    tolerance: u32,
    kind: String,
    body: String,
    expected: [Vec<u32>; 2],
}

/// Eight rows of 32 words by name, and the recorded rows.
type Vectors = (BTreeMap<String, Vec<u32>>, Vec<Row>);

fn vectors() -> &'static Vectors {
    static VECTORS: OnceLock<Vectors> = OnceLock::new();
    VECTORS.get_or_init(read_vectors)
}

fn read_vectors() -> Vectors {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/vectors.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let words = |text: &str| text.split(',').map(|word| u32::from_str_radix(word, 16).unwrap()).collect::<Vec<u32>>();
    let (mut inputs, mut rows) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        if let ["input", name, lanes @ ..] = fields.as_slice() {
            inputs.insert(name.to_string(), lanes.iter().flat_map(|row| words(row)).collect());
            continue;
        }
        // A body may have bars of its own, around operands.
        let (first, rest) = fields.split_at(5);
        let (body, expected) = rest.split_at(rest.len() - 2);
        rows.push(Row {
            target: first[0].to_string(),
            mnemonic: first[1].to_string(),
            inputs: first[2].to_string(),
            tolerance: first[3].parse().unwrap(),
            kind: first[4].to_string(),
            body: body.join("|").replace("; ", "\n "),
            expected: [words(expected[0]), words(expected[1])],
        });
    }
    (inputs, rows)
}

/// Equal; or both NaN, whose bits the text leaves open; or as close as the row asks.
fn agrees(row: &Row, actual: u32, expected: u32) -> bool {
    let as_float = |bits: u32| match row.kind.as_str() {
        "f16" => f16::from_bits(bits as u16).to_f32(),
        _ => f32::from_bits(bits),
    };
    let (x, y) = (as_float(actual), as_float(expected));
    let is_float = row.kind == "f16" || row.kind == "f32";
    actual == expected
        || (is_float && x.is_nan() && y.is_nan())
        || (is_float && row.tolerance > 0 && (x == y || actual.abs_diff(expected) <= row.tolerance))
}

/// NaNs of f64 and of packed halves are compared by what they are, not by their bits.
fn agrees_wide(row: &Row, actual: [u32; 2], expected: [u32; 2]) -> bool {
    let wide = |[low, high]: [u32; 2]| f64::from_bits(u64::from(low) | u64::from(high) << 32);
    let halves = |x: u32| [x as u16, (x >> 16) as u16].map(f16::from_bits);
    let (x, y) = (wide(actual), wide(expected));
    let same_half = |(a, b): (f16, f16)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let is_packed = row.mnemonic.starts_with("v_pk_")
        || row.mnemonic.starts_with("v_cvt_pk")
        || matches!(row.mnemonic.as_str(), "v_fma_mixhi_f16" | "v_pack_b32_f16");
    (row.kind == "f64" && x.is_nan() && y.is_nan())
        || (row.kind == "f64" && row.tolerance > 0 && ((x - y).abs() <= 1e-15 * y.abs()))
        || (is_packed
            && actual[1] == expected[1]
            && halves(actual[0]).into_iter().zip(halves(expected[0])).all(same_half))
}

/// What disagrees, a line for each row; of one instruction, or of all.
fn disagreements(target: &str, mnemonic: Option<&str>, options: &str) -> Vec<String> {
    let (inputs, rows) = vectors();
    let is_meant = |row: &Row| row.target == target && mnemonic.is_none_or(|mnemonic| row.mnemonic == mnemonic);
    let rows: Vec<&Row> = rows.iter().filter(|row| is_meant(row)).collect();
    let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
    let code = assemble_all(&bodies, target);
    let gpu = Gpu::with_options(target, &format!("threads=1 {options}"));
    let module = gpu.try_load(&code).unwrap_or_else(|status| panic!("{status}: {}", gpu.fault()));
    let buffers: BTreeMap<_, _> = inputs.iter().map(|(name, words)| (name.clone(), gpu.upload(words))).collect();
    let output = gpu.allocate::<u32>(64);
    let mut wrong = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let function = gpu.function_of(module, &format!("row{i}"));
        assert_eq!(gpu.launch(function, [1, 1, 1], 32, 0, &[buffers[&row.inputs].into(), output.into()]), 0);
        assert_eq!(hipDeviceSynchronize(), 0, "{}", gpu.fault());
        let actual = gpu.download(output);
        let [low, high] = &row.expected;
        let bad = (0..32).find(|lane| {
            let (x, y) = ([actual[*lane], actual[32 + lane]], [low[*lane], high[*lane]]);
            let is_right = (agrees(row, x[0], y[0]) && agrees(row, x[1], y[1])) || agrees_wide(row, x, y);
            !is_right
        });
        if let Some(lane) = bad {
            let words: Vec<String> = (0..4).map(|r| format!("{:x}", inputs[&row.inputs][32 * r + lane])).collect();
            wrong.push(format!(
                "{target} {} in lane {lane}: {:x} {:x} instead of {:x} {:x}, of {} ({})",
                row.mnemonic,
                actual[lane],
                actual[32 + lane],
                low[lane],
                high[lane],
                words.join(" "),
                row.body.replace('\n', ";")
            ));
        }
    }
    wrong
}

#[test]
fn instructions_of_gfx11_agree_with_amds_pseudocode() {
    let wrong = disagreements("gfx1151", None, "");
    assert!(wrong.is_empty(), "{} disagree:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn instructions_of_gfx12_agree_with_amds_pseudocode() {
    let wrong = disagreements("gfx1201", None, "");
    assert!(wrong.is_empty(), "{} disagree:\n{}", wrong.len(), wrong.join("\n"));
}

/// Mistakes that an author of the interpreter could make in one instruction: it does what another one does.
const MISTAKES: [(&str, &str); 24] = [
    ("v_sub_f32", "v_subrev_f32"),
    ("v_max_f32", "v_min_f32"),
    ("v_rndne_f32", "v_trunc_f32"),
    ("v_cvt_i32_f32", "v_cvt_floor_i32_f32"),
    ("v_cvt_f32_ubyte1", "v_cvt_f32_ubyte2"),
    ("v_cvt_f32_i32", "v_cvt_f32_u32"),
    ("v_fma_f32", "v_max3_f32"),
    ("v_add_f16", "v_sub_f16"),
    ("v_bfe_i32", "v_bfe_u32"),
    ("v_ashrrev_i32", "v_lshrrev_b32"),
    ("v_mul_hi_i32", "v_mul_hi_u32"),
    ("v_mad_u32_u24", "v_mad_i32_i24"),
    ("v_alignbit_b32", "v_alignbyte_b32"),
    ("v_lshl_add_u32", "v_add_lshl_u32"),
    ("v_med3_i32", "v_med3_u32"),
    ("v_cls_i32", "v_clz_i32_u32"),
    ("v_cmp_nlt_f32", "v_cmp_ge_f32"),
    ("v_cmp_lt_u32", "v_cmp_le_u32"),
    ("v_sub_co_ci_u32", "v_subrev_co_ci_u32"),
    ("v_pk_add_f16", "v_pk_mul_f16"),
    ("s_add_i32", "s_add_u32"),
    ("s_addc_u32", "s_add_u32"),
    ("s_ashr_i32", "s_lshr_b32"),
    ("s_cmp_gt_i32", "s_cmp_gt_u32"),
];

#[test]
fn one_wrong_instruction_is_noticed_whichever_it_is() {
    for (instruction, other) in MISTAKES {
        let wrong = disagreements("gfx1151", Some(instruction), &format!("mistake={instruction}:{other}"));
        assert!(!wrong.is_empty(), "{instruction} does what {other} should, and no vector says so");
    }
}

#[test]
fn the_table_in_the_documents_lists_the_instructions_that_have_vectors() {
    let recorded: BTreeSet<String> = vectors().1.iter().map(|row| row.mnemonic.clone()).collect();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hip-sim-instructions.md");
    let text = std::fs::read_to_string(document).unwrap();
    let listed: BTreeSet<String> = text
        .lines()
        .filter(|line| line.contains("| pseudocode"))
        .filter_map(|line| line.split('`').nth(1).map(String::from))
        .collect();
    assert_eq!(listed, recorded, "docs/hip-sim-instructions.md: run tests/conformance/table.py");
}
