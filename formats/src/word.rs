//! Bare words of JSON, Python and their relatives as JSON: numbers, truth values, nothing.

/// The JSON of a bare word, if there is one.
pub(crate) fn to_json(word: &str) -> Option<String> {
    match word {
        "true" | "True" => return Some("true".to_owned()),
        "false" | "False" => return Some("false".to_owned()),
        "null" | "None" | "none" => return Some("null".to_owned()),
        _ => {}
    }
    if serde_json::from_str::<serde_json::Number>(word).is_ok() {
        return Some(word.to_owned());
    }
    number(&word.replace('_', "")).map(|number| number.to_string())
}

/// Numbers that Python has and JSON does not, as `+1`, `.5` and `1.`.
fn number(word: &str) -> Option<serde_json::Number> {
    if !word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    match word.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => serde_json::Number::from_f64(word.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::to_json;

    #[test]
    fn numbers_of_python_become_numbers_of_json() {
        let json = ["+1", ".5", "1.", "1_000", "-2e3", "01"].map(|word| to_json(word).unwrap());
        assert_eq!(json, ["1", "0.5", "1.0", "1000", "-2e3", "1"]);
    }

    #[test]
    fn what_json_cannot_hold_is_no_word() {
        assert_eq!(["1e999", "inf", "nan", "-inf", "abc", ""].map(to_json), [const { None }; 6]);
    }
}
