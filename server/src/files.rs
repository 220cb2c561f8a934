//! Text files that a user names: read whole, with an error that says what is wrong with the file.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The text of the file at `path`.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_text_from(std::fs::File::open(path)?)
}

/// The text that `source` holds.
pub fn read_text_from(mut source: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    text_of(bytes)
}

/// `bytes` as text.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("it is not text in UTF-8, see its byte {at}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_told_with_its_place() {
        let error = read_text_from(&b"caf\xe9"[..]).unwrap_err();
        assert_eq!(error.to_string(), "it is not text in UTF-8, see its byte 3");
    }
}
