//! Prints the first CUDA device's location, or why there is none: the program starts without a driver.

use candle_core::{Device, Tensor};

fn main() -> candle_core::Result<()> {
    match Device::new_cuda(0) {
        Ok(device) => println!("{:?}: {}", device.location(), Tensor::new(&[1f32, 2.], &device)?.sum_all()?.to_scalar::<f32>()?),
        Err(error) => println!("no CUDA device: {error}"),
    }
    Ok(())
}
