//! Ops that a device takes by their names and parameters.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomDevice, CustomOp1, Device, Layout, Result, Shape};
use candle_nn::{ops, rotary_emb};
use candle_reference_device::Reference;
use taper_candle_tests::{assert_close, data, elements, first_line, same_everywhere};

#[test]
fn norms_and_softmax_run_on_a_device_that_knows_them() {
    let (reference, minimal) = same_everywhere(1e-5, |device| {
        let (x, weight, bias) = (data(&[2, 5, 8], device)?, data(&[8], device)?, (data(&[8], device)? * 0.5)?);
        // Epsilons that show in the result.
        let normed = ops::layer_norm(&ops::rms_norm(&x, &weight, 0.3)?, &weight, &bias, 0.7)?;
        ops::softmax_last_dim(&normed)
    });
    for op in ["rms-norm", "layer-norm", "softmax-last-dim"] {
        assert_eq!(reference.calls()[op], 1);
        assert_eq!(minimal.round_trips().counts()[op], 1);
    }
    assert_eq!(reference.round_trips().total(), 0);
}

/// Two ops of candle-nn have one name, and only their parameters tell them apart.
#[test]
fn rotary_embeddings_of_both_orders_run_on_a_device_that_knows_them() {
    let (reference, _) = same_everywhere(1e-6, |device| {
        let (x, cos, sin) = (data(&[2, 6, 6, 8], device)?, data(&[2, 6, 4], device)?, data(&[2, 6, 4], device)?);
        rotary_emb::rope_thd(&rotary_emb::rope(&x, &cos, &sin)?, &cos.get(1)?, &sin.get(0)?)
    });
    assert_eq!((reference.calls()["rotary-emb"], reference.round_trips().total()), (2, 0));
}

#[test]
fn interleaved_rotary_embeddings_fall_back() {
    let (reference, _) = same_everywhere(0., |device| {
        let (x, cos, sin) = (data(&[2, 4, 6, 8], device)?, data(&[6, 4], device)?, data(&[6, 4], device)?);
        rotary_emb::rope_i(&x, &cos, &sin)
    });
    assert_eq!(reference.round_trips().counts()["rotary-emb-int"], 1);
}

/// candle-nn has no attention for the CPU, so two of ours that share no code check each other: that of the reference device, which
/// takes the op by its parameters, and the one in plain operations that every other device gets.
#[test]
fn attention_of_candle_nn_has_a_way_over_the_cpu() -> Result<()> {
    let masks = [None, Some(data(&[2, 4, 3, 5], &Device::Cpu)?)];
    for (causal, softcapping, mask) in
        [(false, 1., &masks[0]), (true, 1., &masks[0]), (false, 0.5, &masks[1]), (true, 2., &masks[1])]
    {
        let run = |device: &Device| -> Result<Vec<f32>> {
            let mask = mask.as_ref().map(|mask| mask.to_device(device)).transpose()?;
            let (q, k, v) = (data(&[2, 4, 3, 8], device)?, data(&[2, 2, 5, 8], device)?, data(&[2, 2, 5, 6], device)?);
            let result = ops::sdpa(&q, &k, &v, mask.as_ref(), causal, 1.5, softcapping)?;
            assert_eq!(result.dims(), [2, 4, 3, 6]);
            Ok(elements(&result))
        };
        let (reference, minimal) = (Reference::new(0), candle_reference_device::Minimal::new(0));
        assert_close(&run(&reference.device())?, &run(&minimal.device())?, 1e-5);
        assert_eq!((reference.calls()["metal-sdpa"], minimal.round_trips().counts()["metal-sdpa"]), (1, 1));
    }
    Ok(())
}

/// One query that sees one key gets that key's value, whatever the scores.
#[test]
fn attention_to_one_position_is_its_value() -> Result<()> {
    let device = candle_reference_device::Minimal::new(0).device();
    let (q, v) = (data(&[1, 2, 1, 4], &device)?, data(&[1, 1, 1, 4], &device)?);
    let found = elements(&ops::sdpa(&q, &v, &v, None, true, 1., 1.)?);
    assert_eq!(found, [elements(&v), elements(&v)].concat());
    Ok(())
}

#[test]
fn attention_on_the_cpu_is_still_refused_as_upstream_does() -> Result<()> {
    let x = data(&[1, 1, 2, 4], &Device::Cpu)?;
    assert_eq!(first_line(ops::sdpa(&x, &x, &x, None, false, 1., 1.)), "SDPA has no cpu impl");
    Ok(())
}

/// As candle-nn's are in a program that does not patch it: the name alone is not enough to run an op.
#[test]
fn an_op_that_does_not_tell_its_parameters_runs_itself() {
    struct Untold;
    impl CustomOp1 for Untold {
        fn name(&self) -> &'static str {
            "argsort"
        }
        fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
            Ok((storage.affine(layout, 2., 0.)?, layout.shape().clone()))
        }
    }
    let (reference, _) = same_everywhere(0., |device| data(&[2, 3], device)?.apply_op1(Untold));
    assert_eq!(reference.round_trips().counts()["argsort"], 1);
}
