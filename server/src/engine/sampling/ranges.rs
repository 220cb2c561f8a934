//! Which numbers a sampling parameter may be: one table for the engine, the HTTP layer and their messages.

use std::fmt;

/// The numbers that `field` may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub field: &'static str,
    min: f32,
    max: f32,
    /// Whether `min` itself is one of them.
    with_min: bool,
}

/// Any temperature.
pub const TEMPERATURE: Range = Range::from_to("temperature", 0.0, f32::INFINITY);
pub const DYNATEMP_RANGE: Range = Range::from_to("dynatemp_range", 0.0, 10.0);
pub const DYNATEMP_EXPONENT: Range = Range::from_to("dynatemp_exponent", 0.0, 10.0);
pub const TOP_P: Range = Range::above("top_p", 0.0, 1.0);
pub const TYPICAL_P: Range = Range::above("typical_p", 0.0, 1.0);
pub const MIN_P: Range = Range::from_to("min_p", 0.0, 1.0);
/// llama.cpp's -1 stands for "off", as does 0.
pub const TOP_N_SIGMA: Range = Range::from_to("top_n_sigma", -1.0, 100.0);
pub const XTC_PROBABILITY: Range = Range::from_to("xtc_probability", 0.0, 1.0);
pub const XTC_THRESHOLD: Range = Range::from_to("xtc_threshold", 0.0, 1.0);
/// A smaller or larger factor could push a finite logit out of the range of f32.
pub const REPETITION_PENALTY: Range = Range::from_to("repetition_penalty", 0.01, 100.0);
pub const FREQUENCY_PENALTY: Range = Range::from_to("frequency_penalty", -2.0, 2.0);
pub const PRESENCE_PENALTY: Range = Range::from_to("presence_penalty", -2.0, 2.0);
pub const DRY_MULTIPLIER: Range = Range::from_to("dry_multiplier", 0.0, 100.0);
/// A base below 1 would punish the longer of two repetitions less.
pub const DRY_BASE: Range = Range::from_to("dry_base", 1.0, 100.0);
pub const MIROSTAT_TAU: Range = Range::from_to("mirostat_tau", 0.0, 100.0);
/// At 1 a single token moves the threshold by all of its error.
pub const MIROSTAT_ETA: Range = Range::from_to("mirostat_eta", 0.0, 1.0);

impl Range {
    /// From `min` to `max`, both included; `max` may be infinite, which no number may be.
    pub const fn from_to(field: &'static str, min: f32, max: f32) -> Self {
        Self { field, min, max, with_min: true }
    }

    /// Above `min`, up to `max`.
    pub const fn above(field: &'static str, min: f32, max: f32) -> Self {
        Self { field, min, max, with_min: false }
    }

    /// The same for a field of another name.
    pub const fn named(self, field: &'static str) -> Self {
        Self { field, ..self }
    }

    /// Whether `value` is one of the numbers; NaN and infinity never are.
    pub fn contains(&self, value: f32) -> bool {
        value.is_finite() && value <= self.max && (value > self.min || self.with_min && value == self.min)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, .. } = self;
        match (self.with_min, max.is_infinite()) {
            (true, true) => write!(f, "finite and at least {min}"),
            (true, false) => write!(f, "from {min} to {max}"),
            (false, _) => write!(f, "above {min} and at most {max}"),
        }
    }
}
