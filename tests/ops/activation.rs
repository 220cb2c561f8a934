//! Gated activations.

use taper_models::ops::activation::{Activation, gated_activation, reference};

use crate::{assert_close, noise, poisoned_view};

const ALL: [Activation; 3] = [Activation::Silu, Activation::GeluTanh, Activation::GeluErf];

#[test]
fn gated_activations_equal_their_references() {
    for activation in ALL {
        for (tokens, width) in [(1, 1), (1, 1536), (3, 17), (40, 500)] {
            let x = (noise(1, &[tokens, 2 * width]) * 8.0).unwrap();
            let found = gated_activation(&x, activation).unwrap();
            assert_close(
                &format!("{activation:?} {tokens}x{width}"),
                &found,
                &reference(&x, activation).unwrap(),
                1e-5,
            );
        }
    }
}

#[test]
fn gated_activations_read_rows_of_a_view() {
    for activation in ALL {
        let x = noise(1, &[5, 22]);
        let found = gated_activation(&poisoned_view(&x), activation).unwrap();
        assert_close(&format!("{activation:?}"), &found, &reference(&x, activation).unwrap(), 1e-5);
    }
}

/// Far from zero a gate is open or shut: `x` or 0, without overflow on the way.
#[test]
fn gates_saturate() {
    for activation in ALL {
        let x = candle_core::Tensor::new(&[[200f32, -200.0, 3.0, 3.0]], &candle_core::Device::Cpu).unwrap();
        let found = gated_activation(&x, activation).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(found, [[600.0, 0.0]], "{activation:?}");
    }
}
