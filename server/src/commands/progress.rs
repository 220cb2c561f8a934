//! Progress of what takes long, on a terminal's standard error only: indicatif hides its bars elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that is told bytes.
pub struct LoadBar {
    bar: ProgressBar,
}

impl LoadBar {
    /// A bar that says `loading`.
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

/// A line that says which measurement runs.
pub struct MeasureBar {
    bar: ProgressBar,
}

impl MeasureBar {
    /// For `runs` runs.
    pub fn new(runs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("measuring {msg}, run {pos} of {len}");
        bar.set_style(style.expect("the template is a constant"));
        Self { bar }
    }

    /// The next run is of `what`.
    pub fn begin(&self, what: String) {
        self.bar.inc(1);
        self.bar.set_message(what);
        self.bar.tick();
    }

    /// Takes the line off the screen.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
