//! From a value's text to the field it sets, by the rule of its row in the table.

use std::path::PathBuf;

use super::table::Kind;
use super::types::Settings;
use crate::engine::sampling::SamplerKind;

/// A value that breaks its setting's rule.
#[derive(Debug)]
pub(super) struct Refused {
    pub value: String,
    pub rule: String,
}

impl Kind {
    /// What a value must be, to follow "must be".
    pub(super) fn rule(&self) -> String {
        match self {
            Self::Switch { .. } => "true or false".to_owned(),
            Self::Integer { min, max, .. } if *max >= i64::from(i32::MAX) => {
                format!("a whole number of at least {min}")
            }
            Self::Integer { min, max, .. } => format!("a whole number from {min} to {max}"),
            Self::Limit { .. } => "a whole number of at least 1, or -1".to_owned(),
            Self::Number { min, max, .. } if *min == f64::MIN_POSITIVE => {
                format!("a number above 0 and at most {max}")
            }
            Self::Number { min, max, .. } if max.is_infinite() => format!("a number of at least {min}"),
            Self::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Self::Bytes { .. } => "auto, or bytes such as 512M or 4G".to_owned(),
            Self::Text { .. } | Self::Texts { .. } => "a text".to_owned(),
            Self::Path { .. } => "a path".to_owned(),
            Self::Choice { values, .. } => values.join(" or "),
            Self::Integers { min, .. } => format!("whole numbers of at least {min}, separated by commas"),
            Self::Samplers { by_letter: true, .. } => "letters out of edskypmxt".to_owned(),
            Self::Samplers { by_letter: false, .. } => {
                let names = SamplerKind::default_order().into_iter().map(SamplerKind::name);
                format!("names out of {}, separated by ;", names.collect::<Vec<_>>().join(", "))
            }
            Self::Biases { .. } => {
                "a token id, a sign and a number up to 100, such as 15043+1 or 15043-0.5, or 15043-inf to ban it"
                    .to_owned()
            }
        }
    }

    /// Checks `values` and writes them to their field. Of several where one is meant the last counts.
    pub(super) fn set(&self, settings: &mut Settings, values: &[String]) -> Result<(), Refused> {
        let refused = |value: &String| Refused { value: value.clone(), rule: self.rule() };
        let Some(last) = values.last() else { return Ok(()) };
        match self {
            Self::Switch { set } => set(settings, switch(last).ok_or_else(|| refused(last))?),
            Self::Integer { min, max, set } => {
                let value = last.parse().ok().filter(|value| (min..=max).contains(&value));
                set(settings, value.ok_or_else(|| refused(last))?);
            }
            Self::Limit { set } if last == "-1" => set(settings, None),
            Self::Limit { set } => {
                let limit = last.parse().ok().filter(|&limit| limit > 0);
                set(settings, Some(limit.ok_or_else(|| refused(last))?));
            }
            Self::Number { min, max, set } => {
                let value = last.parse::<f64>().ok().filter(|value| (min..=max).contains(&value));
                let value = value.map(|value| value as f32).filter(|value| value.is_finite());
                set(settings, value.ok_or_else(|| refused(last))?);
            }
            Self::Bytes { set } if last == "auto" => set(settings, None),
            Self::Bytes { set } => set(settings, Some(bytes(last).ok_or_else(|| refused(last))?)),
            Self::Text { set } => set(settings, last.clone()),
            Self::Path { set } => set(settings, PathBuf::from(last)),
            Self::Choice { values, set } if values.contains(&last.as_str()) => set(settings, last),
            Self::Choice { .. } => return Err(refused(last)),
            Self::Integers { min, set } => {
                let items = values.iter().flat_map(|value| value.split(','));
                let numbers = items.map(|item| item.trim().parse().ok().filter(|number| number >= min));
                set(settings, numbers.collect::<Option<_>>().ok_or_else(|| refused(&values.join(",")))?);
            }
            Self::Texts { set } => set(settings, values.to_vec()),
            Self::Samplers { by_letter, set } => {
                let order = if *by_letter {
                    SamplerKind::from_letters(last)
                } else {
                    SamplerKind::from_names(last.split([';', ',']).map(str::trim).filter(|name| !name.is_empty()))
                };
                set(settings, order.map_err(|_| refused(last))?);
            }
            Self::Biases { set } => {
                let biases = values.iter().map(|value| bias(value).ok_or_else(|| refused(value)));
                set(settings, biases.collect::<Result<_, _>>()?);
            }
        }
        Ok(())
    }
}

fn switch(text: &str) -> Option<bool> {
    // The Hub's tools take any case.
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// `4096`, `512M`, `1.5GiB`: suffixes are powers of 1024, with or without `B` or `iB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let power = match suffix.trim().to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * 1024f64.powi(power);
    (bytes >= 1.0 && bytes < 2f64.powi(63)).then_some(bytes as u64)
}

/// `15043+1`, `15043-0.5`, `15043-inf` (never that token).
fn bias(text: &str) -> Option<(u32, f32)> {
    let (id, bias) = text.split_at_checked(text.find(['+', '-'])?)?;
    let bias: f32 = bias.parse().ok()?;
    ((-100.0..=100.0).contains(&bias) || bias == f32::NEG_INFINITY).then_some((id.parse().ok()?, bias))
}
