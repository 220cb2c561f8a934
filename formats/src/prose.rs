//! A stretch of prose between markers: which white space belongs to it, and which to the template.
//!
//! Templates put newlines around their tags. So newlines are held until what follows them is known, and dropped before a
//! marker and, where a marker came before, at the beginning.

#[derive(Debug, Default)]
pub(crate) struct Prose {
    after_marker: bool,
    started: bool,
    held: String,
}

impl Prose {
    pub fn after_marker() -> Self {
        Self { after_marker: true, ..Self::default() }
    }

    /// Whether anything but white space came.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Adds a character; what is certain goes to `out`.
    pub fn feed(&mut self, c: char, out: &mut String) {
        let may_be_the_templates = c == '\n' || (c.is_whitespace() && !(self.started && self.held.is_empty()));
        if may_be_the_templates {
            self.held.push(c);
            return;
        }
        out.push_str(self.leading());
        self.held.clear();
        self.started = true;
        out.push(c);
    }

    /// The stretch ends before a marker: the white space that the template put there.
    pub fn before_marker(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The answer ends.
    pub fn finish(&mut self, out: &mut String) {
        if self.started || !self.after_marker {
            out.push_str(&self.held);
        }
        self.held.clear();
    }

    fn leading(&self) -> &str {
        if self.started || !self.after_marker { &self.held } else { self.held.trim_start_matches(['\n', '\r']) }
    }
}
