//! Whether the bytes that arrived are those that the Hub has.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What the Hub names a file's bytes by. It is also the name of the blob in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Checksum {
    /// Of large files, which are stored beside git.
    Sha256(String),
    /// Of a git object: of the bytes behind a header with their number.
    GitSha1(String),
}

impl Checksum {
    /// From the hexadecimal digits. `None`: they are not that; the text becomes a file name, so nothing else will do.
    pub fn sha256(digits: &str) -> Option<Self> {
        is_hex(digits, 64).then(|| Self::Sha256(digits.to_ascii_lowercase()))
    }

    /// As [`Self::sha256`].
    pub fn git_sha1(digits: &str) -> Option<Self> {
        is_hex(digits, 40).then(|| Self::GitSha1(digits.to_ascii_lowercase()))
    }

    /// The blob's name.
    pub fn etag(&self) -> &str {
        match self {
            Self::Sha256(digits) | Self::GitSha1(digits) => digits,
        }
    }

    /// Its name for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA-256",
            Self::GitSha1(_) => "git SHA-1",
        }
    }

    /// What the file at `path` has instead. `None`: the same.
    pub fn mismatch(&self, path: &Path) -> io::Result<Option<String>> {
        let mut file = File::open(path)?;
        let found = match self {
            Self::Sha256(_) => digits_of(Sha256::new(), &mut file)?,
            Self::GitSha1(_) => {
                let header = format!("blob {}\0", file.metadata()?.len());
                digits_of(Sha1::new_with_prefix(header), &mut file)?
            }
        };
        Ok((found != self.etag()).then_some(found))
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn digits_of(mut digest: impl Digest, source: &mut impl Read) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => digest.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn git_names_hello_as_git_hash_object_does() {
        let checksum = Checksum::git_sha1("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        assert_eq!(checksum.mismatch(written(b"hello\n").path()).unwrap(), None);
    }

    #[test]
    fn the_sha256_of_other_bytes_is_told() {
        let checksum = Checksum::sha256(&"0".repeat(64)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; // sha256sum </dev/null
        assert_eq!(checksum.mismatch(written(b"").path()).unwrap().as_deref(), Some(empty));
    }

    #[test]
    fn what_could_be_a_path_is_no_checksum() {
        assert_eq!(Checksum::git_sha1("../../../../../../../../../etc/passwd000"), None);
    }
}
