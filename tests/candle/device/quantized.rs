//! Quantised weights on a device: made, loaded, read, multiplied with.

use candle_core::quantized::{gguf_file, GgmlDType, QMatMul, QTensor};
use candle_core::{Device, IndexOp, Module, Result, Tensor};
use candle_reference_device::Reference;
use std::io::Cursor;
use taper_candle_tests::{assert_close, data, elements, first_line, same_everywhere};

const FORMATS: [GgmlDType; 7] =
    [GgmlDType::Q4_0, GgmlDType::Q5_1, GgmlDType::Q8_0, GgmlDType::Q3K, GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::F16];

#[test]
fn quantised_weights_are_as_on_the_cpu() {
    for format in FORMATS {
        // F16 is multiplied as a plain matrix, by the device itself.
        let (reference, _) = same_everywhere(1e-6, |device| {
            let weights = data(&[16, 256], &Device::Cpu)?;
            let quantised = QTensor::quantize(&weights.to_device(device)?, format)?;
            assert_eq!(quantised.data()?, QTensor::quantize_onto(&weights, format, device)?.data()?);
            assert_eq!(quantised.data()?, QTensor::quantize(&weights, format)?.data()?);
            assert!(quantised.device().same_device(device));
            let rows = quantised.embedding(&Tensor::new(&[2u32, 15], device)?)?;
            let plain = quantised.dequantize(device)?.i(0..2)?;
            let half = quantised.dequantize_f16(device)?.to_dtype(candle_core::DType::F32)?.i(2..3)?;
            let product = QMatMul::from_qtensor(quantised)?.forward(&data(&[3, 256], device)?)?;
            Tensor::cat(
                &[&product.flatten_all()?, &rows.flatten_all()?, &plain.flatten_all()?, &half.flatten_all()?],
                0,
            )
        });
        if format != GgmlDType::F16 {
            assert_eq!(reference_trips(&reference, "qmatmul"), 1);
        }
    }
}

fn reference_trips(reference: &Reference, op: &str) -> u64 {
    use candle_core::CustomDevice;
    reference.round_trips().counts().get(op).copied().unwrap_or_default()
}

#[test]
fn weights_of_a_gguf_file_are_loaded_straight_onto_the_device() -> Result<()> {
    let weights = QTensor::quantize(&data(&[4, 256], &Device::Cpu)?, GgmlDType::Q4K)?;
    let mut file = Cursor::new(vec![]);
    gguf_file::write(&mut file, &[], &[("a", &weights), ("b", &weights)])?;
    file.set_position(0);
    let content = gguf_file::Content::read(&mut file)?;
    let reference = Reference::new(0);
    for name in ["a", "b"] {
        assert_eq!(content.tensor(&mut file, name, &reference.device())?.data()?, weights.data()?);
    }
    assert_eq!(reference.calls().into_iter().collect::<Vec<_>>(), [("download_quantized", 2), ("load_quantized", 2)]);
    Ok(())
}

/// Candle's CPU backend has no such product: the oracle is one matrix product for each token and chosen expert.
#[test]
fn a_mixture_of_experts_multiplies_by_the_chosen_ones() -> Result<()> {
    let (experts, n, k, tokens, chosen) = (3, 8, 256, 2, 2);
    let reference = Reference::new(0);
    let device = reference.device();
    let weights = QTensor::quantize(&data(&[experts, n, k], &device)?, GgmlDType::Q8_0)?;
    let plain = weights.dequantize(&Device::Cpu)?;
    let x = data(&[tokens, chosen, k], &device)?;
    let ids = [[2u32, 0], [1, 2]];
    let found = weights.indexed_moe_forward(&x, &Tensor::new(&ids, &device)?)?;
    assert_eq!(found.dims(), [tokens, chosen, n]);
    for (token, ids) in ids.iter().enumerate() {
        for (slot, &expert) in ids.iter().enumerate() {
            let row = x.to_device(&Device::Cpu)?.i((token, slot))?.unsqueeze(0)?;
            let expected = row.matmul(&plain.i(expert as usize)?.t()?)?;
            assert_close(&elements(&found.i((token, slot))?), &elements(&expected), 0.02);
        }
    }
    assert_eq!(reference_trips(&reference, "indexed_moe_forward"), 1);
    Ok(())
}

/// Two devices that give the same location.
#[test]
fn weights_and_input_of_different_devices_do_not_meet() -> Result<()> {
    let (here, there) = (Reference::new(0).device(), Reference::new(0).device());
    let weights = QTensor::quantize(&data(&[2, 4, 32], &here)?, GgmlDType::Q8_0)?;
    let (x, ids) = (data(&[1, 1, 32], &there)?, Tensor::new(&[[0u32]], &there)?);
    let elsewhere = "indexed_moe_forward: operands are not on the weights' device";
    assert_eq!(first_line(weights.indexed_moe_forward(&x, &ids.to_device(&here)?)), elsewhere);
    assert_eq!(first_line(weights.indexed_moe_forward(&x.to_device(&here)?, &ids)), elsewhere);
    let weights = QMatMul::from_qtensor(QTensor::quantize(&data(&[4, 32], &here)?, GgmlDType::Q8_0)?)?;
    assert_eq!(first_line(weights.forward(&x)), "qmatmul: the weights are not on the device of the input");
    Ok(())
}

#[test]
fn an_expert_that_does_not_exist_is_an_error() -> Result<()> {
    let device = Reference::new(0).device();
    let weights = QTensor::quantize(&data(&[2, 4, 32], &device)?, GgmlDType::Q8_0)?;
    let error =
        weights.indexed_moe_forward(&data(&[1, 1, 32], &device)?, &Tensor::new(&[[2u32]], &device)?).unwrap_err();
    assert!(error.to_string().contains("expert 2 of 2"), "{error}");
    Ok(())
}
