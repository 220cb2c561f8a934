//! Gated activations: `act(gate) * up`, with gate and up side by side as one projection leaves them.

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor, bail};

use super::parallel;
use super::rows::Rows;

/// The function applied to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`
    Silu,
    /// GELU with the tanh approximation, `gelu_pytorch_tanh`.
    GeluTanh,
    /// GELU with the error function.
    GeluErf,
}

/// `act(x[.., ..F]) * x[.., F..]` for `x` `[T, 2F]`. `[T, F]`
pub fn gated_activation(x: &Tensor, activation: Activation) -> Result<Tensor> {
    if x.device().is_cpu() { x.apply_op1_no_bwd(&GatedActivation { activation }) } else { reference(x, activation) }
}

/// [`gated_activation`] in plain Candle ops.
pub fn reference(x: &Tensor, activation: Activation) -> Result<Tensor> {
    let width = x.dim(D::Minus1)? / 2;
    let gate = x.narrow(D::Minus1, 0, width)?;
    let up = x.narrow(D::Minus1, width, width)?;
    let gate = match activation {
        Activation::Silu => gate.silu()?,
        Activation::GeluTanh => gate.gelu()?,
        Activation::GeluErf => gate.gelu_erf()?,
    };
    gate * up
}

struct GatedActivation {
    activation: Activation,
}

impl CustomOp1 for GatedActivation {
    fn name(&self) -> &'static str {
        "gated_activation"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = Rows::new(x, layout, "gated_activation")?;
        if !x.width.is_multiple_of(2) {
            bail!("gated_activation: a width of {} cannot be gate and up", x.width);
        }
        let width = x.width / 2;
        let mut out = vec![0f32; x.count * width];
        let rows = out.chunks_mut(width.max(1)).collect();
        parallel::for_each(rows, x.count * width, |t, out| {
            let (gate, up) = x.row(t).split_at(width);
            match self.activation {
                Activation::Silu => gated(gate, up, out, silu),
                Activation::GeluTanh => gated(gate, up, out, gelu_tanh),
                Activation::GeluErf => gated(gate, up, out, gelu_erf),
            }
        });
        Ok((CpuStorage::F32(out), (x.count, width).into()))
    }
}

fn gated(gate: &[f32], up: &[f32], out: &mut [f32], activation: impl Fn(f32) -> f32) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = activation(*gate) * up;
    }
}

fn silu(x: f32) -> f32 {
    x / (1.0 + super::math::exp(-x))
}

fn gelu_tanh(x: f32) -> f32 {
    // 0.5 * (1 + tanh(u)) is the logistic function of 2u, which needs one exponential.
    let u = 0.797_884_6 * x * (1.0 + 0.044_715 * x * x);
    x / (1.0 + super::math::exp(-2.0 * u))
}

fn gelu_erf(x: f32) -> f32 {
    0.5 * x * (1.0 + candle_core::cpu::erf::erf_f32(x * std::f32::consts::FRAC_1_SQRT_2))
}
