//! The README says what the code says.

use taper_models::families::FAMILIES;
use taper_tests::repository;

#[test]
fn the_readme_lists_the_registered_families() {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let (_, rest) = readme.split_once("<!-- models:begin -->\n").expect("README.md has lost the table's first marker");
    let (table, _) = rest.split_once("<!-- models:end -->").expect("README.md has lost the table's second marker");
    assert_eq!(table, families_table(), "the table of models in README.md is out of date");
}

fn families_table() -> String {
    let code = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let head = "| Family | `model_type` in config.json | GGUF architecture |\n|---|---|---|\n";
    let row = |family: &taper_models::families::Family| {
        format!("| {} | {} | {} |\n", family.name, code(family.model_types), code(family.gguf_architectures))
    };
    head.to_owned() + &FAMILIES.iter().map(row).collect::<String>()
}

/// Every type that is computed with is listed, and no other.
#[test]
fn the_readme_lists_the_gguf_types() {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let row = readme
        .lines()
        .find(|line| line.starts_with("| GGUF, also split"))
        .expect("README.md has lost the row of GGUF types");
    let listed: Vec<&str> =
        row.trim_matches(['|', ' ']).rsplit('|').next().unwrap().split(',').map(str::trim).collect();
    let supported = taper_models::quant::GgmlType::all().iter().filter(|ty| ty.dtype.is_some()).map(|ty| ty.name);
    let (mut listed, mut supported) = (listed, supported.collect::<Vec<_>>());
    listed.sort_unstable();
    supported.sort_unstable();
    assert_eq!(listed, supported);
}
