//! Rotary position embedding (Su et al. 2021, arXiv:2104.09864) and its scaling rules.
//!
//! Angles are computed once a step for the step's own positions and shared by all layers with the same parameters:
//! a few thousand sines cost less than a table of a long context would in memory.

use candle_core::{CpuStorage, D, Device, InplaceOp3, Layout, Result, Tensor, bail};

use super::parallel;
use super::rows::{Rows, row_geometry};

/// Which dimensions of a head form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(i, i + rotary_dim / 2)`: Hugging Face's layout, "neox".
    Half,
    /// `(2i, 2i + 1)`: the original layout, kept by GGUF files of Llama and Mistral.
    Interleaved,
}

/// How frequencies depart from `base^(-2i / rotary_dim)`.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    None,
    /// All frequencies divided by `factor` (position interpolation, Chen et al. 2023, arXiv:2306.15595).
    Linear {
        factor: f64,
    },
    /// A base that grows with the context length once it exceeds the original one ("dynamic NTK"). As the cache keeps
    /// rotated keys, the base is chosen once, for the served context length, instead of at every length.
    Dynamic {
        factor: f64,
        original_max_position: usize,
    },
    /// Llama 3.1's interpolation by wavelength.
    Llama3 {
        factor: f64,
        low_freq_factor: f64,
        high_freq_factor: f64,
        original_max_position: usize,
    },
    /// YaRN (Peng et al. 2023, arXiv:2309.00071).
    Yarn {
        factor: f64,
        beta_fast: f64,
        beta_slow: f64,
        /// Whether the ramp's ends are rounded outwards to whole dimensions.
        truncate: bool,
        attention_factor: f64,
        original_max_position: usize,
    },
    /// LongRoPE (Ding et al. 2024, arXiv:2402.13753): a divisor per frequency, one set up to the original context
    /// length and one beyond it. As with `Dynamic`, the served context length chooses.
    Long {
        short_factor: Vec<f64>,
        long_factor: Vec<f64>,
        attention_factor: f64,
        original_max_position: usize,
    },
    /// A divisor per frequency, as a GGUF file's `rope_freqs.weight` has it.
    Divisors(Vec<f64>),
}

impl RopeScaling {
    /// The context length that the rule stretches, where it depends on one.
    pub fn original_max_position(&self) -> Option<usize> {
        match self {
            RopeScaling::Dynamic { original_max_position, .. }
            | RopeScaling::Llama3 { original_max_position, .. }
            | RopeScaling::Yarn { original_max_position, .. }
            | RopeScaling::Long { original_max_position, .. } => Some(*original_max_position),
            RopeScaling::None | RopeScaling::Linear { .. } | RopeScaling::Divisors(_) => None,
        }
    }
}

/// Parameters of one rotary embedding; layers with equal parameters share its angles.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeSpec {
    pub base: f64,
    /// Leading dimensions of a head that are rotated; the rest pass through.
    pub rotary_dim: usize,
    pub style: RopeStyle,
    pub scaling: RopeScaling,
}

impl RopeSpec {
    /// The angle per position of each pair, `[rotary_dim / 2]`, for sequences of at most `max_model_len` tokens.
    ///
    /// Computed in f32 at the steps where `transformers` rounds to it, since phases of long contexts show the difference.
    pub fn inverse_frequencies(&self, max_model_len: usize) -> Vec<f32> {
        let plain = |base: f64| -> Vec<f32> {
            let exponent = |i: usize| (2 * i) as f32 / self.rotary_dim as f32;
            (0..self.rotary_dim / 2).map(|i| 1.0 / (base as f32).powf(exponent(i))).collect()
        };
        let divided = |divisors: &[f64]| -> Vec<f32> {
            plain(self.base).iter().zip(divisors).map(|(f, d)| (f64::from(*f) / d) as f32).collect()
        };
        match &self.scaling {
            RopeScaling::None => plain(self.base),
            RopeScaling::Linear { factor } => plain(self.base).iter().map(|f| f / *factor as f32).collect(),
            RopeScaling::Dynamic { factor, original_max_position } => {
                plain(dynamic_base(self.base, self.rotary_dim, *factor, *original_max_position, max_model_len))
            }
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position } => {
                let original = *original_max_position as f64;
                plain(self.base)
                    .iter()
                    .map(|f| {
                        llama3_frequency(f64::from(*f), *factor, *low_freq_factor, *high_freq_factor, original) as f32
                    })
                    .collect()
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, truncate, original_max_position, .. } => {
                let ramp = yarn_ramp(self, *beta_fast, *beta_slow, *truncate, *original_max_position as f64);
                plain(self.base)
                    .iter()
                    .zip(ramp)
                    .map(|(f, interpolated)| {
                        let f = f64::from(*f);
                        (f / factor * interpolated + f * (1.0 - interpolated)) as f32
                    })
                    .collect()
            }
            RopeScaling::Long { short_factor, long_factor, original_max_position, .. } => {
                divided(if max_model_len > *original_max_position { long_factor } else { short_factor })
            }
            RopeScaling::Divisors(divisors) => divided(divisors),
        }
    }

    /// What sines and cosines are multiplied by, so that attention keeps its temperature over a stretched context.
    pub fn attention_factor(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn { attention_factor, .. } | RopeScaling::Long { attention_factor, .. } => {
                attention_factor as f32
            }
            _ => 1.0,
        }
    }
}

fn dynamic_base(base: f64, dim: usize, factor: f64, original_max_position: usize, max_model_len: usize) -> f64 {
    if max_model_len <= original_max_position {
        return base;
    }
    let stretch = factor * max_model_len as f64 / original_max_position as f64 - (factor - 1.0);
    base * stretch.powf(dim as f64 / (dim as f64 - 2.0))
}

fn llama3_frequency(frequency: f64, factor: f64, low: f64, high: f64, original: f64) -> f64 {
    let wavelength = 2.0 * std::f64::consts::PI / frequency;
    if wavelength < original / high {
        frequency
    } else if wavelength > original / low {
        frequency / factor
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

/// How much of each pair is interpolated: 0 where it turns `beta_fast` times or more in the original context, 1 where
/// it turns `beta_slow` times or fewer, a straight line between.
fn yarn_ramp(spec: &RopeSpec, beta_fast: f64, beta_slow: f64, truncate: bool, original: f64) -> Vec<f64> {
    let dim = spec.rotary_dim as f64;
    let pair_turning =
        |turns: f64| dim * (original / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * spec.base.ln());
    let (mut low, mut high) = (pair_turning(beta_fast), pair_turning(beta_slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, mut high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001; // a step, not a division by zero
    }
    (0..spec.rotary_dim / 2).map(|i| ((i as f64 - low) / (high - low)).clamp(0.0, 1.0)).collect()
}

/// Cosines and sines of one step's positions. Each `[T, rotary_dim / 2]`, f32.
#[derive(Debug, Clone)]
pub struct RopeAngles {
    pub cos: Tensor,
    pub sin: Tensor,
    pub style: RopeStyle,
}

impl RopeAngles {
    /// Angles of `positions` `[T]` for `inverse_frequencies` `[rotary_dim / 2]`.
    pub fn new(positions: &[u32], inverse_frequencies: &[f32], spec: &RopeSpec, device: &Device) -> Result<Self> {
        let factor = spec.attention_factor();
        let angles = || positions.iter().flat_map(|p| inverse_frequencies.iter().map(move |f| *p as f32 * f));
        let shape = (positions.len(), inverse_frequencies.len());
        let cos = Tensor::from_vec(angles().map(|a| a.cos() * factor).collect::<Vec<_>>(), shape, device)?;
        let sin = Tensor::from_vec(angles().map(|a| a.sin() * factor).collect::<Vec<_>>(), shape, device)?;
        Ok(Self { cos, sin, style: spec.style })
    }
}

/// Rotates `x` `[T, heads, D]` (possibly a view of a wider tensor) by each token's angles. In place on the CPU.
pub fn rope(x: &Tensor, angles: &RopeAngles) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return reference(x, angles);
    }
    x.inplace_op3(&angles.cos, &angles.sin, &Rope { style: angles.style })?;
    Ok(x.clone())
}

/// [`rope`] in plain Candle ops.
pub fn reference(x: &Tensor, angles: &RopeAngles) -> Result<Tensor> {
    let (tokens, heads, head_dim) = x.dims3()?;
    let pairs = angles.cos.dim(1)?;
    let rotated = x.narrow(D::Minus1, 0, 2 * pairs)?;
    let (cos, sin) = (angles.cos.unsqueeze(1)?, angles.sin.unsqueeze(1)?); // [T, 1, pairs]
    let (a, b) = match angles.style {
        RopeStyle::Half => (rotated.narrow(D::Minus1, 0, pairs)?, rotated.narrow(D::Minus1, pairs, pairs)?),
        RopeStyle::Interleaved => {
            let x = rotated.contiguous()?.reshape((tokens, heads, pairs, 2))?;
            (x.narrow(3, 0, 1)?.squeeze(3)?, x.narrow(3, 1, 1)?.squeeze(3)?)
        }
    };
    let new_a = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?; // [T, heads, pairs]
    let new_b = (a.broadcast_mul(&sin)? + b.broadcast_mul(&cos)?)?;
    let rotated = match angles.style {
        RopeStyle::Half => Tensor::cat(&[new_a, new_b], D::Minus1)?,
        RopeStyle::Interleaved => Tensor::stack(&[new_a, new_b], D::Minus1)?.reshape((tokens, heads, 2 * pairs))?,
    };
    if 2 * pairs == head_dim {
        return Ok(rotated);
    }
    Tensor::cat(&[rotated, x.narrow(D::Minus1, 2 * pairs, head_dim - 2 * pairs)?], D::Minus1)
}

struct Rope {
    style: RopeStyle,
}

impl InplaceOp3 for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        lx: &Layout,
        cos: &CpuStorage,
        lc: &Layout,
        sin: &CpuStorage,
        ls: &Layout,
    ) -> Result<()> {
        let (start, stride, count, width) = row_geometry(lx, "rope")?;
        let head_dim = *lx.dims().last().unwrap_or(&0);
        let (cos, sin) = (Rows::new(cos, lc, "rope")?, Rows::new(sin, ls, "rope")?);
        if cos.count != count || sin.count != count || cos.width != sin.width || 2 * cos.width > head_dim {
            bail!("rope: angles {lc:?} do not fit {lx:?}");
        }
        let CpuStorage::F32(data) = x else { bail!("rope: f32 activations expected") };
        let rows: Vec<&mut [f32]> = data[start..].chunks_mut(stride.max(1)).take(count).collect();
        parallel::for_each(rows, count * width, |t, row| {
            for head in row[..width].chunks_exact_mut(head_dim) {
                rotate_head(head, cos.row(t), sin.row(t), self.style);
            }
        });
        Ok(())
    }
}

fn rotate_head(head: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    let pairs = cos.len();
    match style {
        RopeStyle::Half => {
            let (a, b) = head[..2 * pairs].split_at_mut(pairs);
            for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
            }
        }
        RopeStyle::Interleaved => {
            for ((pair, cos), sin) in head[..2 * pairs].chunks_exact_mut(2).zip(cos).zip(sin) {
                (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos);
            }
        }
    }
}
