//! Makes the sources of this crate from those of the published one: see `candle-overlay-build`.

/// Macros that an included file exports may not be named by their path in the crate that includes it: `src/lib.rs` defines
/// them once more, by these plain names.
const PLAIN_MACRO_NAMES: &[(&str, &str)] =
    &[("crate::bail!", "bail!"), ("use crate::{bail, ", "use crate::{"), ("{builder_arg as barg, ", "{")];

fn main() {
    candle_overlay_build::run(PLAIN_MACRO_NAMES);
}
