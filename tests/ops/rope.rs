//! Rotary position embedding.

use candle_core::{Device, Tensor};
use taper_models::ops::rope::{RopeAngles, RopeScaling, RopeSpec, RopeStyle, reference, rope};

use crate::{assert_close, noise};

fn spec(rotary_dim: usize, style: RopeStyle) -> RopeSpec {
    RopeSpec { base: 10_000.0, rotary_dim, style, scaling: RopeScaling::None }
}

fn angles(positions: &[u32], spec: &RopeSpec) -> RopeAngles {
    RopeAngles::new(positions, &spec.inverse_frequencies(4096), spec, &Device::Cpu).unwrap()
}

#[test]
fn rope_equals_its_reference_and_leaves_its_neighbours() {
    for style in [RopeStyle::Half, RopeStyle::Interleaved] {
        for (tokens, heads, head_dim, rotary_dim) in [(1, 1, 2, 2), (3, 2, 20, 20), (5, 3, 20, 6), (70, 9, 64, 64)] {
            let positions: Vec<u32> = (0..tokens as u32).map(|t| 7 + t * 13 % 101).collect();
            let angles = angles(&positions, &spec(rotary_dim, style));
            let x = noise(1, &[tokens, heads, head_dim]);
            let wide =
                Tensor::cat(&[&noise(2, &[tokens, 1, head_dim]), &x, &noise(3, &[tokens, 2, head_dim])], 1).unwrap();
            let found = rope(&wide.narrow(1, 1, heads).unwrap(), &angles).unwrap();
            let what = format!("{style:?} {tokens}x{heads}x{head_dim}/{rotary_dim}");
            assert_close(&what, &found.contiguous().unwrap(), &reference(&x, &angles).unwrap(), 1e-6);
            assert_close(&what, &wide.narrow(1, 0, 1).unwrap(), &noise(2, &[tokens, 1, head_dim]), 0.0);
            assert_close(&what, &wide.narrow(1, heads + 1, 2).unwrap(), &noise(3, &[tokens, 2, head_dim]), 0.0);
        }
    }
}

/// The defining law: the product of a query and a key depends on their distance only.
#[test]
fn rotated_products_depend_on_distance_only() {
    for style in [RopeStyle::Half, RopeStyle::Interleaved] {
        let product = |p: u32, k: u32| -> f32 {
            let angles = angles(&[p, k], &spec(32, style));
            let x = noise(9, &[2, 1, 32]);
            let rotated = rope(&x, &angles).unwrap().squeeze(1).unwrap();
            (rotated.get(0).unwrap() * rotated.get(1).unwrap()).unwrap().sum_all().unwrap().to_scalar().unwrap()
        };
        let (near, far) = (product(10, 3), product(1010, 1003));
        assert!((near - far).abs() < 1e-3, "{style:?}: {near} at distance 7, {far} a thousand positions on");
    }
}
