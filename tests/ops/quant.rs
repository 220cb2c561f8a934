//! Linear layers over every GGUF type that Candle computes with.

use std::sync::Arc;

use candle_core::quantized::QTensor;
use candle_core::{Device, Tensor};
use taper_models::quant::{Embedding, GgmlType, Linear, Weight};

use crate::{assert_close, noise};

/// Types that a file may hold weights in: Q8_1 and Q8_K are for activations, and the floats are loaded dense.
fn weight_types() -> impl Iterator<Item = &'static GgmlType> {
    GgmlType::all().iter().filter(|ty| ty.dtype.is_some() && ty.block_size > 1 && !["Q8_1", "Q8_K"].contains(&ty.name))
}

fn quantised(ty: &GgmlType, rows: usize, columns: usize) -> (Weight, Tensor) {
    let dtype = ty.dtype.unwrap();
    let tensor = QTensor::quantize(&noise(1, &[rows, columns]), dtype).unwrap();
    let dense = tensor.dequantize(&Device::Cpu).unwrap();
    (Weight::Quantised(Arc::new(tensor)), dense)
}

/// The product with the dequantised matrix, up to the rounding of activations to 8 bits.
#[test]
fn quantised_layers_equal_their_dequantised_ones() {
    for ty in weight_types() {
        for (tokens, rows) in [(1, 48), (3, 33), (9, 64)] {
            let (weight, dense) = quantised(ty, rows, 256);
            let x = noise(2, &[tokens, 256]);
            let found = Linear::new(vec![weight], None).forward(&x).unwrap();
            let expected = x.matmul(&dense.t().unwrap()).unwrap();
            assert_close(&format!("{} {tokens}x{rows}", ty.name), &found, &expected, 0.12);
        }
    }
}

#[test]
fn embedding_rows_equal_the_dequantised_table() {
    for ty in weight_types() {
        let (weight, dense) = quantised(ty, 10, 512);
        let ids = Tensor::new(&[9u32, 0, 3, 3], &Device::Cpu).unwrap();
        let found = Embedding::new(weight).forward(&ids).unwrap();
        assert_close(ty.name, &found, &dense.index_select(&ids, 0).unwrap(), 0.0);
    }
}

#[test]
fn parts_of_different_types_lie_side_by_side() {
    let types: Vec<&GgmlType> = weight_types().collect();
    let (first, first_dense) = quantised(types[0], 5, 256);
    let (second, second_dense) = quantised(types[3], 7, 256);
    let bias = noise(3, &[12]);
    let x = noise(2, &[4, 256]);
    let found = Linear::new(vec![first, second], Some(bias.clone())).forward(&x).unwrap();
    let dense = Tensor::cat(&[first_dense, second_dense], 0).unwrap();
    let expected = x.matmul(&dense.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
    assert_close("parts", &found, &expected, 0.12);
}

#[test]
fn block_sizes_agree_with_candle() {
    for ty in GgmlType::all() {
        if let Some(dtype) = ty.dtype {
            assert_eq!((ty.block_size, ty.block_bytes), (dtype.block_size(), dtype.type_size()), "{}", ty.name);
        }
    }
}
