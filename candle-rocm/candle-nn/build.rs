//! Makes the sources of this crate from those of the published one: see `candle-overlay-build`.

fn main() {
    candle_overlay_build::run(&[]);
}
