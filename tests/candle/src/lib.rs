//! What the tiers share: tensors to compute with, and how results are compared.

use candle_core::{DType, Device, Result, Tensor};
use candle_reference_device::{Minimal, Reference};

/// f32 between -1 and 1 that look random and are the same everywhere.
pub fn data(shape: &[usize], device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i * 7919 % 1009) as f32 / 504.5 - 1.).collect();
    Tensor::from_vec(values, shape, device)
}

/// The first line of an error: with `RUST_BACKTRACE` set, the others say where it was made.
pub fn first_line<T>(result: Result<T>) -> String {
    let message = result.err().expect("an error").to_string();
    message.lines().next().unwrap_or_default().to_owned()
}

/// The elements in f32.
pub fn elements(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()?.to_vec1()).expect("a tensor can be read")
}

/// Computes on the CPU and on both devices. The minimal device must give the CPU's numbers bit by bit, the reference device, whose
/// sums run in another order, the same to within `tolerance` of the largest. Returns the devices with what they have counted.
pub fn same_everywhere(tolerance: f32, compute: impl Fn(&Device) -> Result<Tensor>) -> (Reference, Minimal) {
    let expected = compute(&Device::Cpu).expect("it works on the CPU");
    let (reference, minimal) = (Reference::new(0), Minimal::new(0));
    let exact = compute(&minimal.device()).expect("it works on the minimal device");
    assert_eq!(exact.dims(), expected.dims());
    let (exact, wanted) = (elements(&exact), elements(&expected));
    assert!(
        exact.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits()),
        "the minimal device differs from the CPU"
    );
    let own = compute(&reference.device()).expect("it works on the reference device");
    assert_eq!(own.dims(), expected.dims());
    assert_close(&elements(&own), &wanted, tolerance);
    (reference, minimal)
}

/// Prints the worst element when it is further off than `tolerance` times the largest of `expected`.
pub fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let distance =
        |i: &usize| if (found[*i] - expected[*i]).is_nan() { f32::INFINITY } else { (found[*i] - expected[*i]).abs() };
    let worst = (0..found.len()).max_by(|a, b| distance(a).total_cmp(&distance(b)));
    if let Some(i) = worst.filter(|i| distance(i) > tolerance * scale) {
        panic!("element {i} is {} instead of {}, further off than {tolerance} of {scale}", found[i], expected[i]);
    }
}
