//! Reads rotary-embedding parameters: `rope_parameters` and the older `rope_scaling` of `config.json`, and GGUF's keys.

use serde_json::Value as Json;

use super::common::MAX_POSITIONS;
use crate::ops::rope::{RopeScaling, RopeSpec, RopeStyle};
use crate::weights::file::{brief, brief_message};
use crate::weights::{Config, Key, LoadError};

const BASE: Key = Key::new("rope_theta", "rope.freq_base");
const PARTIAL: Key = Key::new("partial_rotary_factor", "");
const ROTARY_DIM: Key = Key::new("", "rope.dimension_count");
const ORIGINAL: Key = Key::new("original_max_position_embeddings", "rope.scaling.original_context_length");
const SCALING_TYPE: Key = Key::new("", "rope.scaling.type");
const SCALING_FACTOR: Key = Key::new("", "rope.scaling.factor");
/// What older files have instead of a type and a factor.
const SCALE_LINEAR: Key = Key::new("", "rope.scale_linear");
const ATTENTION_FACTOR: Key = Key::new("", "rope.scaling.attn_factor");
const BETA_FAST: Key = Key::new("", "rope.scaling.yarn_beta_fast");
const BETA_SLOW: Key = Key::new("", "rope.scaling.yarn_beta_slow");

/// The rotary embedding of a model that has one for all layers.
pub fn read(
    config: &Config,
    default_base: f64,
    head_dim: usize,
    max_position: usize,
    style: RopeStyle,
) -> Result<RopeSpec, LoadError> {
    if config.is_gguf() {
        return from_gguf(config, default_base, head_dim, max_position, style);
    }
    let parameters = config.json("rope_parameters").or(config.json("rope_scaling"));
    from_json(config, parameters, default_base, head_dim, max_position)
}

/// The rotary embedding that `parameters` describes, an object of `config.json` in the newer or older form.
pub fn from_json(
    config: &Config,
    parameters: Option<&Json>,
    default_base: f64,
    head_dim: usize,
    max_position: usize,
) -> Result<RopeSpec, LoadError> {
    if let Some(other) = parameters.filter(|parameters| !parameters.is_object()) {
        return Err(config.bad("rope_parameters", brief_message(other), "an object"));
    }
    let number = |key: &str| parameters.map_or(Ok(None), |parameters| number(config, parameters, key));
    let base = match number("rope_theta")? {
        Some(base) => base,
        None => config.f64(BASE)?.unwrap_or(default_base),
    };
    let partial = match number("partial_rotary_factor")? {
        Some(partial) => partial,
        None => config.f64(PARTIAL)?.unwrap_or(1.0),
    };
    let rotary_dim = (head_dim as f64 * partial) as usize;
    let scaling = match parameters {
        None => RopeScaling::None,
        Some(parameters) => scaling_from_json(config, parameters, max_position)?,
    };
    checked(config, RopeSpec { base, rotary_dim, style: RopeStyle::Half, scaling }, BASE, head_dim)
}

fn scaling_from_json(config: &Config, parameters: &Json, max_position: usize) -> Result<RopeScaling, LoadError> {
    let number = |key: &str| number(config, parameters, key);
    let require =
        |key: &str| number(key)?.ok_or_else(|| config.bad(&format!("rope_parameters.{key}"), "missing", "a number"));
    let original = match number(ORIGINAL.hf)? {
        Some(original) => original as usize,
        None => config.usize(ORIGINAL)?.unwrap_or(max_position),
    };
    let kind = match parameters.get("rope_type").or(parameters.get("type")) {
        None | Some(Json::Null) => "default",
        Some(Json::String(kind)) => kind,
        Some(other) => return Err(config.bad("rope_type", brief_message(other), "text")),
    };
    match kind {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: require("factor")? }),
        "dynamic" => Ok(RopeScaling::Dynamic { factor: require("factor")?, original_max_position: original }),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: require("factor")?,
            low_freq_factor: require("low_freq_factor")?,
            high_freq_factor: require("high_freq_factor")?,
            original_max_position: original,
        }),
        "yarn" => {
            let factor = number("factor")?.unwrap_or(max_position as f64 / original as f64);
            let attention_factor = match number("attention_factor")? {
                Some(given) => given,
                None => yarn_attention_factor(factor, number("mscale")?, number("mscale_all_dim")?),
            };
            Ok(RopeScaling::Yarn {
                factor,
                beta_fast: number("beta_fast")?.unwrap_or(32.0),
                beta_slow: number("beta_slow")?.unwrap_or(1.0),
                truncate: parameters.get("truncate").and_then(Json::as_bool).unwrap_or(true),
                attention_factor,
                original_max_position: original,
            })
        }
        "longrope" | "su" => {
            let factor = number("factor")?.unwrap_or(max_position as f64 / original as f64);
            Ok(RopeScaling::Long {
                short_factor: numbers(config, parameters, "short_factor")?,
                long_factor: numbers(config, parameters, "long_factor")?,
                attention_factor: number("attention_factor")?
                    .unwrap_or_else(|| long_attention_factor(factor, original)),
                original_max_position: original,
            })
        }
        other => Err(config.bad("rope_type", brief(other), "default, linear, dynamic, llama3, yarn or longrope")),
    }
}

fn from_gguf(
    config: &Config,
    default_base: f64,
    head_dim: usize,
    max_position: usize,
    style: RopeStyle,
) -> Result<RopeSpec, LoadError> {
    let base = config.f64(BASE)?.unwrap_or(default_base);
    let rotary_dim = config.usize(ROTARY_DIM)?.unwrap_or(head_dim);
    let scaling = scaling_from_gguf(config, max_position)?;
    checked(config, RopeSpec { base, rotary_dim, style, scaling }, BASE, head_dim)
}

fn scaling_from_gguf(config: &Config, max_position: usize) -> Result<RopeScaling, LoadError> {
    let widened = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
    let factor =
        config.f64(SCALING_FACTOR)?.or(config.f64(SCALE_LINEAR)?).filter(|factor| *factor != 0.0 && *factor != 1.0);
    if let Some(divisors) = config.tensor_f32("rope_freqs.weight")? {
        return match factor {
            None => Ok(RopeScaling::Divisors(widened(divisors))),
            Some(factor) => {
                let found = format!("{factor} beside a tensor rope_freqs.weight");
                Err(config.bad(SCALING_FACTOR.gguf, found, "one of the two; both together are not supported"))
            }
        };
    }
    let original = config.usize(ORIGINAL)?.unwrap_or(max_position);
    let long = (config.tensor_f32("rope_factors_short.weight")?, config.tensor_f32("rope_factors_long.weight")?);
    if let (Some(short), Some(long)) = long {
        let attention_factor = match config.f64(ATTENTION_FACTOR)? {
            Some(given) => given,
            None => long_attention_factor(max_position as f64 / original as f64, original),
        };
        let (short_factor, long_factor) = (widened(short), widened(long));
        return Ok(RopeScaling::Long { short_factor, long_factor, attention_factor, original_max_position: original });
    }
    match (config.str(SCALING_TYPE)?.as_deref(), factor) {
        // Without a type, a factor is a linear one.
        (Some("none"), _) | (None | Some("linear"), None) => Ok(RopeScaling::None),
        (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
        (Some("yarn"), Some(factor)) => Ok(RopeScaling::Yarn {
            factor,
            beta_fast: config.f64(BETA_FAST)?.unwrap_or(32.0),
            beta_slow: config.f64(BETA_SLOW)?.unwrap_or(1.0),
            truncate: true,
            attention_factor: config.f64(ATTENTION_FACTOR)?.unwrap_or(1.0) * yarn_attention_factor(factor, None, None),
            original_max_position: original,
        }),
        (Some(kind), _) => {
            Err(config.bad(SCALING_TYPE.gguf, brief(kind), "none, linear, or yarn with a factor other than 1"))
        }
    }
}

/// `key` of rope parameters as a number. `None` if absent or null.
fn number(config: &Config, parameters: &Json, key: &str) -> Result<Option<f64>, LoadError> {
    match parameters.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(config.bad(&format!("rope_parameters.{key}"), brief_message(value), "a number")),
        },
    }
}

/// YaRN's attention temperature, `0.1 ln(factor) + 1`, or the quotient of two such where both weights are given.
fn yarn_attention_factor(factor: f64, mscale: Option<f64>, mscale_all_dim: Option<f64>) -> f64 {
    let scale = |weight: f64| if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 };
    match (mscale, mscale_all_dim) {
        (Some(m), Some(all)) if m != 0.0 && all != 0.0 => scale(m) / scale(all),
        _ => scale(1.0),
    }
}

fn long_attention_factor(factor: f64, original: usize) -> f64 {
    if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (original as f64).ln()).sqrt() }
}

fn numbers(config: &Config, parameters: &Json, key: &str) -> Result<Vec<f64>, LoadError> {
    let list = parameters.get(key).and_then(Json::as_array);
    list.and_then(|list| list.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>())
        .ok_or_else(|| config.bad(&format!("rope_parameters.{key}"), "missing or not numbers", "a list of numbers"))
}

/// How much a rule stretches the context; published models do by 40 at most.
const MAX_STRETCH: f64 = 65_536.0;

fn stretch(scaling: &RopeScaling) -> Option<f64> {
    match scaling {
        RopeScaling::Linear { factor } | RopeScaling::Dynamic { factor, .. } | RopeScaling::Yarn { factor, .. } => {
            Some(*factor)
        }
        _ => None,
    }
}

/// Refuses parameters that would divide by zero or rotate more than a head has. `base_key` is where the base is from.
pub fn checked(config: &Config, spec: RopeSpec, base_key: Key, head_dim: usize) -> Result<RopeSpec, LoadError> {
    let pairs = spec.rotary_dim / 2;
    if spec.rotary_dim == 0 || !spec.rotary_dim.is_multiple_of(2) || spec.rotary_dim > head_dim {
        return Err(config.bad(
            "rotary dimensions",
            spec.rotary_dim.to_string(),
            format!("an even number up to the head size {head_dim}"),
        ));
    }
    if !(spec.base.is_finite() && spec.base > 1.0) {
        return Err(config.bad(&base_key.name(config), spec.base.to_string(), "a number above 1"));
    }
    if let Some(original) = spec.scaling.original_max_position().filter(|n| !(1..=MAX_POSITIONS).contains(n)) {
        return Err(config.bad(&ORIGINAL.name(config), original.to_string(), format!("between 1 and {MAX_POSITIONS}")));
    }
    if let Some(factor) = stretch(&spec.scaling).filter(|factor| *factor > MAX_STRETCH) {
        return Err(config.bad("rope scaling factor", factor.to_string(), format!("at most {MAX_STRETCH}")));
    }
    let (positive, lengths): (Vec<f64>, Vec<usize>) = match &spec.scaling {
        RopeScaling::None => (vec![], vec![]),
        RopeScaling::Linear { factor } | RopeScaling::Dynamic { factor, .. } => (vec![*factor], vec![]),
        RopeScaling::Llama3 { factor, low_freq_factor: low, high_freq_factor: high, .. } => {
            (vec![*factor, *low, high - low], vec![])
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, attention_factor, .. } => {
            (vec![*factor, *beta_fast, *beta_slow, *attention_factor], vec![])
        }
        RopeScaling::Long { short_factor, long_factor, attention_factor, .. } => {
            let all = short_factor.iter().chain(long_factor).chain([attention_factor]).copied().collect();
            (all, vec![short_factor.len(), long_factor.len()])
        }
        RopeScaling::Divisors(divisors) => (divisors.clone(), vec![divisors.len()]),
    };
    // Beyond these, frequencies are no longer numbers in f32.
    if let Some(bad) = positive.iter().find(|value| !(1e-6..=1e9).contains(*value)) {
        return Err(config.bad("rope scaling", bad.to_string(), "numbers between 1e-6 and 1e9"));
    }
    if let Some(len) = lengths.iter().find(|len| **len != pairs) {
        return Err(config.bad(
            "rope factors",
            format!("a list of {len}"),
            format!("a list of {pairs}, half the rotary dimensions"),
        ));
    }
    Ok(spec)
}
