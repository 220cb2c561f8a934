//! Writes to the paged cache.

use candle_core::{DType, Device, Tensor};
use taper_models::ops::kv_write::{CacheSide, kv_write, reference};

use crate::{assert_close, noise, poisoned_view};

fn empty(side: CacheSide, dtype: DType) -> Tensor {
    let shape = match side {
        CacheSide::Keys => (5, 2, 20, 16),
        CacheSide::Values => (5, 2, 16, 20),
    };
    Tensor::zeros(shape, dtype, &Device::Cpu).unwrap()
}

#[test]
fn kv_write_equals_its_reference() {
    let slots = Tensor::new(&[79u32, 0, 17, 18, 33], &Device::Cpu).unwrap();
    let x = noise(1, &[5, 2, 20]);
    for side in [CacheSide::Keys, CacheSide::Values] {
        for dtype in [DType::F32, DType::F16] {
            let (found, expected) = (empty(side, dtype), empty(side, dtype));
            kv_write(&found, &poisoned_view(&x), &slots, side).unwrap();
            reference(&expected, &x, &slots, side).unwrap();
            assert_close(&format!("{side:?} {dtype:?}"), &found, &expected, 0.0);
        }
    }
}

/// Slot 17 is token 1 of block 1: of the keys that is column 1, of the values row 1.
#[test]
fn a_slot_is_a_column_of_keys_and_a_row_of_values() {
    let slots = Tensor::new(&[17u32], &Device::Cpu).unwrap();
    let x = noise(1, &[1, 2, 20]);
    let (keys, values) = (empty(CacheSide::Keys, DType::F32), empty(CacheSide::Values, DType::F32));
    kv_write(&keys, &x, &slots, CacheSide::Keys).unwrap();
    kv_write(&values, &x, &slots, CacheSide::Values).unwrap();
    let x = x.get(0).unwrap(); // [2, 20]
    assert_close("keys", &keys.get(1).unwrap().narrow(2, 1, 1).unwrap().squeeze(2).unwrap(), &x, 0.0);
    assert_close("values", &values.get(1).unwrap().narrow(1, 1, 1).unwrap().squeeze(1).unwrap(), &x, 0.0);
}

#[test]
fn a_slot_outside_the_cache_is_an_error() {
    let slots = Tensor::new(&[80u32], &Device::Cpu).unwrap();
    let error =
        kv_write(&empty(CacheSide::Keys, DType::F32), &noise(1, &[1, 2, 20]), &slots, CacheSide::Keys).unwrap_err();
    assert!(error.to_string().contains("slot 80"), "{error}");
}
