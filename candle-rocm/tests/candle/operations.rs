use candle_core::{D, DType, Device, Tensor};
use candle_rocm::RocmDevice;

use crate::{assert_same, data, exact, on_targets};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Some roundings of a result.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 2e-6,
    }
}

/// In order; transposed; cut from a larger one; broadcast; of one element; without any.
fn layouts(dtype: DType, seed: usize) -> Vec<Tensor> {
    let whole = data(&[6, 5, 7], dtype, seed);
    vec![
        whole.clone(),
        whole.transpose(0, 2).unwrap(),
        whole.narrow(1, 1, 3).unwrap().narrow(2, 2, 4).unwrap(),
        data(&[1, 7], dtype, seed).broadcast_as((4, 7)).unwrap(),
        data(&[1], dtype, seed),
        data(&[0, 3], dtype, seed),
    ]
}

#[test]
fn functions_of_one_element() {
    type Function = fn(&Tensor) -> candle_core::Result<Tensor>;
    let functions: [(&str, Function); 21] = [
        ("exp", Tensor::exp),
        ("log", |x| x.abs()?.log()),
        ("sin", Tensor::sin),
        ("cos", Tensor::cos),
        ("abs", Tensor::abs),
        ("neg", Tensor::neg),
        ("recip", |x| (x.abs()? + 0.5)?.recip()),
        ("sqr", Tensor::sqr),
        ("sqrt", |x| x.abs()?.sqrt()),
        ("gelu", Tensor::gelu),
        ("gelu_erf", Tensor::gelu_erf),
        ("erf", Tensor::erf),
        ("relu", Tensor::relu),
        ("silu", Tensor::silu),
        ("tanh", Tensor::tanh),
        ("floor", Tensor::floor),
        ("ceil", Tensor::ceil),
        ("round", Tensor::round),
        ("sign", Tensor::sign),
        ("elu", |x| x.elu(1.5)),
        ("powf", |x| x.abs()?.powf(1.7)),
    ];
    on_targets(&exact(), |device| {
        for dtype in FLOATS {
            for (name, function) in functions {
                for x in layouts(dtype, 1) {
                    let what = format!("{name} of {:?} {dtype:?}", x.layout());
                    assert_same(device, &what, tolerance(dtype), &[x], |x| function(&x[0]));
                }
            }
            let x = data(&[5, 9], dtype, 2);
            assert_same(device, "affine", tolerance(dtype), &[x], |x| x[0].affine(1.25, -0.5));
        }
    });
}

#[test]
fn functions_of_two_elements_and_comparisons() {
    type Function = fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>;
    let functions: [(&str, Function); 12] = [
        ("add", |a, b| a + b),
        ("sub", |a, b| a - b),
        ("mul", |a, b| a * b),
        ("div", |a, b| a / b),
        ("maximum", |a, b| a.maximum(b)),
        ("minimum", |a, b| a.minimum(b)),
        ("eq", |a, b| a.eq(b)),
        ("ne", |a, b| a.ne(b)),
        ("lt", |a, b| a.lt(b)),
        ("le", |a, b| a.le(b)),
        ("gt", |a, b| a.gt(b)),
        ("ge", |a, b| a.ge(b)),
    ];
    on_targets(&exact(), |device| {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::U32, DType::I64, DType::U8] {
            for (name, function) in functions {
                // Candle's CPU code ends the program where an integer is divided by zero, or overflows.
                let shift =
                    |x: Tensor, by: f64| (x.to_dtype(DType::F32).unwrap() + by).unwrap().to_dtype(dtype).unwrap();
                for (a, b) in layouts(dtype, 3).into_iter().zip(layouts(dtype, 4)) {
                    let (a, b) = if dtype.is_float() { (a, b) } else { (shift(a, 9.0), shift(b, 4.0)) };
                    let what = format!("{name} of {:?} and {:?} {dtype:?}", a.layout(), b.layout());
                    assert_same(device, &what, tolerance(dtype), &[a, b], |x| function(&x[0], &x[1]));
                }
            }
            let (a, b) = (data(&[4, 1, 6], dtype, 5), data(&[3, 1], dtype, 6));
            assert_same(device, "broadcast_maximum", tolerance(dtype), &[a, b], |x| x[0].broadcast_maximum(&x[1]));
        }
    });
}

#[test]
fn choices_and_other_types() {
    on_targets(&exact(), |device| {
        for dtype in FLOATS {
            let inputs = [data(&[4, 5], dtype, 1), data(&[4, 5], dtype, 2), data(&[5, 4], dtype, 3).t().unwrap()];
            assert_same(device, "where_cond", 0.0, &inputs, |x| x[0].gt(&x[1])?.where_cond(&x[1], &x[2]));
            for to in [DType::U8, DType::U32, DType::I64, DType::F32, DType::F16, DType::BF16] {
                let x = data(&[3, 11], dtype, 4).abs().unwrap();
                assert_same(device, "to_dtype", 0.0, &[x], |x| x[0].t()?.to_dtype(to));
            }
        }
    });
}

#[test]
fn reductions_over_any_dimensions() {
    on_targets(&exact(), |device| {
        for dtype in FLOATS {
            // Sums are made in f32 here; the CPU's of 16 bits are told to be, too.
            let sum = |x: &Tensor, dims: &[usize]| match x.device() {
                Device::Cpu => x.to_dtype(DType::F32)?.sum(dims)?.to_dtype(dtype),
                _ => x.sum(dims),
            };
            for dims in [vec![0], vec![1], vec![2], vec![0, 2], vec![0, 1, 2]] {
                let x = [data(&[6, 5, 7], dtype, 1)];
                assert_same(device, &format!("sum over {dims:?}"), tolerance(dtype), &x, |x| sum(&x[0], &dims));
            }
            let x = [data(&[6, 5, 7], dtype, 1).transpose(0, 1).unwrap()];
            assert_same(device, "max", 0.0, &x, |x| x[0].max(1));
            assert_same(device, "min", 0.0, &x, |x| x[0].min(D::Minus1));
            assert_same(device, "argmax", 0.0, &x, |x| x[0].argmax(0));
        }
    });
}

#[test]
fn matrix_products() {
    on_targets(&exact(), |device| {
        for dtype in FLOATS {
            // Products of numbers up to 2 are summed, and those of f16 rounded on the CPU on the way.
            let tolerance = if dtype == DType::F32 { 4e-6 } else { 2e-2 };
            for (b, m, n, k) in [(1, 1, 33, 17), (2, 5, 7, 64), (1, 9, 33, 40), (3, 17, 20, 32)] {
                let (x, y) = (data(&[b, m, k], dtype, 1), data(&[b, k, n], dtype, 2));
                let what = format!("matmul {dtype:?} {b} {m} {n} {k}");
                assert_same(device, &what, tolerance, &[x.clone(), y], |x| x[0].matmul(&x[1]));
                let y = data(&[b, n, k], dtype, 3);
                assert_same(device, &what, tolerance, &[x, y], |x| x[0].matmul(&x[1].transpose(1, 2)?));
            }
            // Heads of attention: batches that are no one dimension.
            let (q, k) = (data(&[2, 10, 3, 16], dtype, 4), data(&[2, 12, 3, 16], dtype, 5));
            assert_same(device, "attention scores", tolerance, &[q, k], |x| {
                let (q, k) = (x[0].transpose(1, 2)?, x[1].transpose(1, 2)?.transpose(2, 3)?);
                // Candle's CPU code takes no such batches as they are.
                if x[0].device().is_cpu() { q.contiguous()?.matmul(&k.contiguous()?) } else { q.matmul(&k) }
            });
        }
    });
}

#[test]
fn fused_operations_of_candle_nn() {
    on_targets(&exact(), |device| {
        for dtype in FLOATS {
            for x in layouts(dtype, 6).into_iter().filter(|x| x.elem_count() > 0) {
                let n = *x.dims().last().unwrap();
                let what = format!("{:?} {dtype:?}", x.layout());
                let x = x.contiguous().unwrap();
                assert_same(device, &what, tolerance(dtype), std::slice::from_ref(&x), |x| {
                    candle_nn::ops::softmax_last_dim(&x[0])
                });
                let inputs = [x, data(&[n], dtype, 7)];
                assert_same(device, &what, tolerance(dtype), &inputs, |x| candle_nn::ops::rms_norm(&x[0], &x[1], 1e-5));
            }
        }
    });
}

#[test]
fn copies_and_slices() {
    on_targets(&exact(), |device| {
        for dtype in [DType::F32, DType::F16, DType::U8, DType::I64, DType::F64] {
            let inputs = [data(&[3, 4, 5], dtype, 1), data(&[3, 2, 5], dtype, 2)];
            assert_same(device, "cat", 0.0, &inputs, |x| Tensor::cat(x, 1));
            assert_same(device, "contiguous", 0.0, &inputs, |x| x[0].permute((2, 0, 1))?.contiguous());
            assert_same(device, "copy", 0.0, &inputs, |x| x[0].narrow(1, 1, 2)?.copy());
            assert_same(device, "zeros", 0.0, &inputs, |x| x[0].zeros_like());
            assert_same(device, "ones", 0.0, &inputs, |x| x[0].ones_like());
            for ids_dtype in [DType::U8, DType::U32, DType::I64] {
                let ids = Tensor::new(&[3u32, 0, 3, 1], &Device::Cpu).unwrap().to_dtype(ids_dtype).unwrap();
                let inputs = [inputs[0].clone(), ids];
                assert_same(device, "index_select", 0.0, &inputs, |x| x[0].index_select(&x[1], 1));
                assert_same(device, "embedding", 0.0, &inputs, |x| x[0].reshape((4, 15))?.embedding(&x[1]));
            }
        }
    });
}

#[test]
fn an_index_out_of_range_is_an_error_of_the_next_read() {
    on_targets(&exact(), |device: &RocmDevice| {
        let candle = device.device();
        let x = data(&[4, 3], DType::F32, 1).to_device(&candle).unwrap();
        let ids = Tensor::new(&[1u32, 4], &candle).unwrap();
        let error = x.index_select(&ids, 0).unwrap().to_vec2::<f32>().unwrap_err().to_string();
        assert!(error.starts_with("index_select on rocm:0: the index 4 is out of range"), "{error}");
        assert!(x.to_vec2::<f32>().is_ok(), "the error is told once");
    });
}
