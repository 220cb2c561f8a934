//! RMS normalisation.

use taper_models::ops::norm::{add_reference, add_rms_norm, reference, rms_norm, rms_norm_heads};

use crate::{assert_close, noise, poisoned_view};

const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 576), (3, 17), (5, 640), (70, 333), (2, 16)];

#[test]
fn rms_norm_equals_its_reference() {
    for (tokens, width) in SHAPES {
        let (x, weight) = (noise(1, &[tokens, width]), noise(2, &[width]));
        let found = rms_norm(&x, &weight, 1e-5).unwrap();
        assert_close(&format!("{tokens}x{width}"), &found, &reference(&x, &weight, 1e-5).unwrap(), 1e-5);
    }
}

#[test]
fn rms_norm_reads_rows_of_a_view() {
    let (x, weight) = (noise(1, &[7, 33]), noise(2, &[33]));
    let found = rms_norm(&poisoned_view(&x), &weight, 1e-6).unwrap();
    assert_close("view", &found, &reference(&x, &weight, 1e-6).unwrap(), 1e-5);
}

#[test]
fn add_rms_norm_equals_its_reference() {
    for (tokens, width) in SHAPES {
        let (x, residual, weight) = (noise(1, &[tokens, width]), noise(2, &[tokens, width]), noise(3, &[width]));
        let (normalised, sum) = add_rms_norm(&x, &residual, &weight, 1e-6).unwrap();
        let (expected_normalised, expected_sum) = add_reference(&x, &residual, &weight, 1e-6).unwrap();
        assert_close(&format!("sum {tokens}x{width}"), &sum, &expected_sum, 0.0);
        assert_close(&format!("norm {tokens}x{width}"), &normalised, &expected_normalised, 1e-5);
    }
}

#[test]
fn rms_norm_heads_changes_its_view_and_nothing_else() {
    for (tokens, heads, head_dim) in [(1, 1, 16), (4, 3, 20), (65, 9, 64)] {
        let (x, weight) = (noise(4, &[tokens, heads, head_dim]), noise(5, &[head_dim]));
        let wide =
            candle_core::Tensor::cat(&[&noise(6, &[tokens, 2, head_dim]), &x, &noise(7, &[tokens, 1, head_dim])], 1)
                .unwrap();
        let found = rms_norm_heads(&wide.narrow(1, 2, heads).unwrap(), &weight, 1e-6).unwrap();
        assert_close("heads", &found.contiguous().unwrap(), &reference(&x, &weight, 1e-6).unwrap(), 1e-5);
        assert_close("before", &wide.narrow(1, 0, 2).unwrap(), &noise(6, &[tokens, 2, head_dim]), 0.0);
        assert_close("after", &wide.narrow(1, heads + 2, 1).unwrap(), &noise(7, &[tokens, 1, head_dim]), 0.0);
    }
}

#[test]
fn a_weight_of_another_width_is_an_error() {
    let error = rms_norm(&noise(1, &[2, 8]), &noise(2, &[7]), 1e-6).unwrap_err().to_string();
    assert!(error.contains("8 contiguous"), "{error}");
}
