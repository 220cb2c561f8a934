//! Progress of a download on standard error: a bar on a terminal, else a line at every tenth.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use taper_server::capacity::{bytes, plural};
use taper_server::hub::Event;

/// What was told so far.
pub struct DownloadProgress {
    name: String,
    bar: ProgressBar,
    total: u64,
    here: u64,
    has_received: bool,
    /// Tenths that a line was written for.
    tenths: u64,
}

impl DownloadProgress {
    /// Of the model `name`.
    pub fn new(name: String) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
        bar.set_message(name.clone());
        Self { name, bar, total: 0, here: 0, has_received: false, tenths: 0 }
    }

    /// Shows what has happened.
    pub fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Choice(choice) => self.say(choice),
            Event::Begin { files, bytes, present } => self.begin(files, bytes, present),
            Event::Received(bytes) => {
                // Until the first byte the Hub prepares; that silence is no speed.
                if !std::mem::replace(&mut self.has_received, true) {
                    self.bar.reset_eta();
                }
                self.move_to(self.here + bytes);
            }
            Event::Lost(bytes) => self.move_to(self.here.saturating_sub(bytes)),
            Event::Again { file, why } => self.say(&format!("{file}: {why}; asking again")),
            Event::Waiting { file } => self.say(&format!("{file} is being downloaded by another process; waiting")),
            Event::Checking { file } => self.bar.set_message(format!("checking {file}")),
        }
    }

    /// Takes the bar off the screen.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn begin(&mut self, files: usize, total: u64, present: u64) {
        (self.total, self.here) = (total, present);
        self.bar.set_length(total);
        self.bar.set_position(present);
        // What was here before has no speed.
        self.bar.reset_eta();
        if present == total {
            return;
        }
        self.tenths = self.tenths_of(present);
        let continued = if present > 0 { format!(", {} of it here already", bytes(present)) } else { String::new() };
        let files = plural(files, "file");
        self.say(&format!("downloading {}: {files}, {}{continued}", self.name, bytes(total)));
    }

    fn move_to(&mut self, here: u64) {
        self.here = here;
        self.bar.set_position(here);
        let tenths = self.tenths_of(here);
        if self.bar.is_hidden() && tenths > self.tenths {
            self.tenths = tenths;
            eprintln!("{}: {}0% of {}", self.name, tenths, bytes(self.total));
        }
    }

    fn tenths_of(&self, here: u64) -> u64 {
        (u128::from(here) * 10 / u128::from(self.total.max(1))) as u64
    }

    fn say(&self, words: &str) {
        self.bar.suspend(|| eprintln!("{words}"));
    }
}
