//! The path before all routes. It ends up in links of pages that we send, so what a header says is held to the same
//! strict rule as what the user says.

const MAX_BYTES: usize = 256;

#[derive(Debug, thiserror::Error)]
#[error(
    "--api-prefix is {0:?}; it must be a path such as /llm or /a/b, of letters, digits and - . _ ~, of at most \
     {MAX_BYTES} bytes"
)]
pub struct PrefixError(String);

/// `llm`, `/llm/` and `/llm` all mean `/llm`; an empty text and `/` mean none.
pub fn normalise(given: &str) -> Result<String, PrefixError> {
    let rooted = if given.starts_with('/') { given.to_owned() } else { format!("/{given}") };
    of_header(&rooted).ok_or_else(|| PrefixError(given.to_owned()))
}

/// The prefix of `X-Forwarded-Prefix`, without a slash at its end. `None`: it is not one.
pub(super) fn of_header(given: &str) -> Option<String> {
    let path = given.strip_suffix('/').unwrap_or(given);
    let valid = path.is_empty() || path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_segment));
    (valid && !given.is_empty() && path.len() <= MAX_BYTES).then(|| path.to_owned())
}

fn is_segment(segment: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(unreserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_prefix_has_several_spellings() {
        for (given, meant) in
            [("", ""), ("/", ""), ("llm", "/llm"), ("/llm", "/llm"), ("llm/", "/llm"), ("/a/b/", "/a/b")]
        {
            assert_eq!(normalise(given).unwrap(), meant);
        }
    }

    #[test]
    fn what_is_no_path_is_refused_by_name() {
        let long = "a".repeat(MAX_BYTES);
        for given in
            ["//evil", "//", "/a//b", "/a/../b", ".", "/a b", "/{x}", "/a?b", "/a#b", "/ä", "/%2e", "\\a", &long]
        {
            let error = normalise(given).unwrap_err().to_string();
            assert!(error.contains(&format!("{given:?}")), "{error}");
        }
        for given in ["", "llm", "//evil.example", "/a\r\nb"] {
            assert_eq!(of_header(given), None, "{given:?}");
        }
    }
}
