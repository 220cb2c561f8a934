//! Finds markers in text that arrives character by character, and holds back only what may still become one.

/// The text held back is always the longest end of what came that begins a marker.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    held: String,
}

impl Matcher {
    /// Adds a character. Text that is no marker goes to `free`; the answer is the place in `markers` of one that is whole.
    ///
    /// No marker may begin another. The list may change between calls: what is held is measured by the new one.
    pub fn feed(&mut self, c: char, markers: &[&str], free: &mut String) -> Option<usize> {
        self.held.push(c);
        let mut from = 0;
        while from < self.held.len() {
            let rest = &self.held[from..];
            if let Some(hit) = markers.iter().position(|marker| *marker == rest) {
                self.held.clear();
                return Some(hit);
            }
            if markers.iter().any(|marker| marker.starts_with(rest)) {
                break;
            }
            let first = rest.chars().next().expect("the loop ends where the text does");
            free.push(first);
            from += first.len_utf8();
        }
        self.held.drain(..from);
        None
    }

    /// What is held back, given up.
    pub fn release(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Matcher;

    fn run(text: &str, markers: &[&str]) -> (String, Vec<usize>, String) {
        let (mut matcher, mut free) = (Matcher::default(), String::new());
        let hits = text.chars().filter_map(|c| matcher.feed(c, markers, &mut free)).collect();
        (free, hits, matcher.release())
    }

    #[test]
    fn a_marker_after_a_false_start_is_found() {
        assert_eq!(run("a<<<tool>b", &["<tool>"]), ("a<<b".to_owned(), vec![0], String::new()));
    }

    #[test]
    fn only_the_beginning_of_a_marker_is_held() {
        assert_eq!(run("x</too", &["<tool>", "</tool>"]), ("x".to_owned(), vec![], "</too".to_owned()));
    }
}
