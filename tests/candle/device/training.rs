//! Variables, gradients and an optimiser on a device.

use candle_core::{Result, Tensor, Var};
use candle_nn::Optimizer;
use taper_candle_tests::{data, same_everywhere};

#[test]
fn training_takes_the_same_steps_as_on_the_cpu() {
    same_everywhere(1e-4, |device| {
        let first = Var::from_tensor(&data(&[8, 4], device)?)?;
        let second = Var::from_tensor(&data(&[1, 8], device)?)?;
        let x = data(&[16, 4], device)?;
        let wanted = x.sum_keepdim(1)?;
        let mut optimiser = candle_nn::AdamW::new(vec![first.clone(), second.clone()], Default::default())?;
        for _ in 0..5 {
            let hidden = x.matmul(&first.t()?)?.silu()?;
            let loss = hidden.matmul(&second.t()?)?.sub(&wanted)?.sqr()?.mean_all()?;
            optimiser.backward_step(&loss)?;
        }
        Ok(first.as_tensor().clone())
    });
}

#[test]
fn gradients_flow_across_devices() -> Result<()> {
    let device = candle_reference_device::Reference::new(0).device();
    let x = Var::new(&[2f32, 3.], &candle_core::Device::Cpu)?;
    let loss = x.to_device(&device)?.sqr()?.sum_all()?;
    let gradients = loss.backward()?;
    let gradient: &Tensor = gradients.get(&x).unwrap();
    assert!(gradient.device().is_cpu());
    assert_eq!(gradient.to_vec1::<f32>()?, [4., 6.]);
    Ok(())
}

#[test]
fn a_variable_is_overwritten_where_it_is() -> Result<()> {
    let device = candle_reference_device::Reference::new(0).device();
    let x = Var::new(&[1f32, 2.], &device)?;
    x.set(&Tensor::new(&[5f32, 6.], &device)?)?;
    assert_eq!(x.to_vec1::<f32>()?, [5., 6.]);
    assert!(x.device().is_custom());
    Ok(())
}
