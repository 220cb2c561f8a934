//! A progress bar for loading, on a terminal's standard error only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that is told bytes.
pub struct LoadBar {
    bar: ProgressBar,
}

impl LoadBar {
    /// A bar that says `loading`; indicatif hides it where standard error is not a terminal.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let template = "loading {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
        Self { bar }
    }

    /// For [`taper_models::weights::Progress`].
    pub fn update(&mut self, done: u64, total: u64) -> bool {
        self.bar.set_length(total);
        self.bar.set_position(done);
        true
    }

    /// Takes the bar off the screen.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
