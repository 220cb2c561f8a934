//! The images that this build holds, by module and target.

use std::io::Read;

/// One compiled `.hip` file, compressed.
struct Embedded {
    module: &'static str,
    target: &'static str,
    gzip: &'static [u8],
}

/// What the images were made from, a line a file with a hash of its content: `report --write` puts it beside images, so
/// that a build which takes them can tell whether they are its own.
pub const SOURCE_LIST: &str = include_str!(concat!(env!("OUT_DIR"), "/sources.txt"));

const TABLE: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// Target, compiler and flags; empty where images came prebuilt.
const COMMANDS: &[(&str, &str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/commands.rs"));

/// The compiler and the flags that made the images for a target, without source and output; nothing where they came
/// prebuilt.
#[must_use]
pub fn command(target: &str) -> Option<(&'static str, &'static [&'static str])> {
    COMMANDS.iter().find(|(name, ..)| *name == target).map(|(_, compiler, flags)| (*compiler, *flags))
}

/// Targets that images were built for, in the order of their numbers.
#[must_use]
pub fn targets() -> Vec<&'static str> {
    let mut targets: Vec<_> = TABLE.iter().map(|image| image.target).collect();
    targets.dedup();
    targets
}

/// The files that kernels come from, without `.hip`.
#[must_use]
pub fn modules() -> Vec<&'static str> {
    let mut modules: Vec<_> = TABLE.iter().map(|image| image.module).collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}

/// The code object or PTX text of a module, or nothing if this build has none for the target.
#[must_use]
pub fn image(module: &str, target: &str) -> Option<Vec<u8>> {
    let found = TABLE.iter().find(|image| image.module == module && image.target == target)?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(found.gzip).read_to_end(&mut bytes).expect("build.rs compressed these bytes");
    Some(bytes)
}

/// The target to load on an NVIDIA card of this compute capability (`major * 10 + minor`): the newest that is not
/// newer.
#[must_use]
pub fn ptx_target(capability: u32) -> Option<&'static str> {
    let number = |target: &str| target.strip_prefix("sm_")?.parse::<u32>().ok();
    targets().into_iter().filter(|target| number(target).is_some_and(|n| n <= capability)).max_by_key(|t| number(t))
}

/// Bytes that all images take in the binary.
#[must_use]
pub fn embedded_bytes() -> usize {
    TABLE.iter().map(|image| image.gzip.len()).sum()
}
