use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::unary::{Function, Unary, unary};

use super::data::{FLOATS, Random, assert_close, input, output, rounding, run, smallest};

/// From here on, f16 rounds to infinity.
const F16_OVERFLOW: f64 = 65520.0;

pub fn check(context: &Context) {
    for dtype in FLOATS {
        for function in Function::ALL {
            one(context, function, dtype, 2053);
        }
    }
    limits(context);
}

/// A power that is no whole number, and what else they are.
const PARAMETERS: [f32; 2] = [2.5, -0.75];

pub fn one(context: &Context, function: Function, dtype: Dtype, count: usize) {
    let mut random = Random(7);
    // All sizes: from 2^-12 to 2^4, of both signs.
    let mut values: Vec<f32> = (0..count).map(|_| random.unit() * 2f32.powi(random.below(17) as i32 - 12)).collect();
    if matches!(function, Function::Floor | Function::Ceil | Function::Round) {
        // Halves, too.
        values.iter_mut().for_each(|x| *x = (*x * 40.0).round() / 2.0);
    }
    if function == Function::Log {
        values.iter_mut().for_each(|x| *x = x.abs().max(1e-3));
    }
    let x = input(context, dtype, &values);
    let got = apply(context, function, dtype, count, &x.buffer);
    let in_range = |y: f64| if dtype == Dtype::F16 && y.abs() > F16_OVERFLOW { f64::INFINITY.copysign(y) } else { y };
    let want: Vec<f64> = x.values.iter().map(|x| in_range(reference(function, *x))).collect();
    let bound = |i: usize| {
        let result = want[i].abs() * 1.01 * rounding(dtype) + smallest(dtype);
        result + computation(function, x.values[i], want[i])
    };
    assert_close(&format!("{} {dtype}", function.name()), &got, &want, bound);
}

fn apply(context: &Context, function: Function, dtype: Dtype, count: usize, x: &candle_rocm::Buffer) -> Vec<f64> {
    let y = output(context, count * dtype.size() as usize);
    let (x, y_ptr) = (x.ptr(), y.buffer.ptr());
    let (count, parameters) = (count as u32, PARAMETERS);
    run(context, &unary(&Unary { function, dtype, count, x, y: y_ptr, parameters }).unwrap());
    y.values(dtype)
}

/// Errors of the f32 computation: some units in the last place of the result, or of 1 where it is a difference to 1.
fn computation(function: Function, x: f64, y: f64) -> f64 {
    match function {
        Function::Exp | Function::Tanh | Function::Sigmoid | Function::Silu => 1e-6 * y.abs(),
        // The logarithm to base 2 near 1 is right to 2^-22 on some devices.
        Function::Log => 1e-6 * y.abs() + 3e-7,
        Function::Erf => 4e-7_f64.max(1e-6 * y.abs()),
        Function::Gelu | Function::GeluErf => 1e-6 * x.abs(),
        Function::Sin | Function::Cos => 2e-7,
        Function::Elu | Function::Affine => 2e-7 * (1.0 + y.abs()),
        // Rounded once, or exact.
        Function::Powf | Function::Recip | Function::Sqr | Function::Sqrt => 1e-7 * y.abs(),
        Function::Abs | Function::Neg | Function::Relu | Function::Sign => 0.0,
        Function::Floor | Function::Ceil | Function::Round => 0.0,
    }
}

fn reference(function: Function, x: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    let [p, q] = PARAMETERS.map(f64::from);
    match function {
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Tanh => x.tanh(),
        Function::Erf => erf(x),
        Function::Sigmoid => sigmoid,
        Function::Silu => x * sigmoid,
        Function::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Function::GeluErf => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Abs => x.abs(),
        Function::Neg => -x,
        Function::Recip => 1.0 / x,
        Function::Sqr => x * x,
        Function::Sqrt => x.sqrt(),
        Function::Relu => x.max(0.0),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => x.round(),
        Function::Sign if x == 0.0 => 0.0,
        Function::Sign => x.signum(),
        Function::Affine => x * p + q,
        Function::Powf => x.powf(p),
        Function::Elu if x > 0.0 => x,
        Function::Elu => p * x.exp_m1(),
    }
}

/// The series whose terms are all positive; 1 where f64 cannot tell the difference.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-18 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

/// Where results are infinite, zero or constant.
fn limits(context: &Context) {
    let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
    let x = input(context, Dtype::F32, &[low, -1e5, 1e5, high, f32::NAN]);
    let (low, high, nan) = (f64::NEG_INFINITY, f64::INFINITY, f64::NAN);
    let cases = [
        (Function::Exp, [0.0, 0.0, high, high, nan]),
        (Function::Tanh, [-1.0, -1.0, 1.0, 1.0, nan]),
        (Function::Erf, [-1.0, -1.0, 1.0, 1.0, nan]),
        (Function::Sigmoid, [0.0, 0.0, 1.0, 1.0, nan]),
    ];
    for (function, want) in cases {
        assert_close(function.name(), &apply(context, function, Dtype::F32, 5, &x.buffer), &want, |_| 1e-7);
    }
    let subnormal = f32::from_bits(0x0000_1234);
    let x = input(context, Dtype::F32, &[subnormal, f32::MIN_POSITIVE]);
    let want = [f64::from(subnormal).ln(), f64::from(f32::MIN_POSITIVE).ln()];
    assert_close("log", &apply(context, Function::Log, Dtype::F32, 2, &x.buffer), &want, |i| 1e-6 * want[i].abs());
    let x = input(context, Dtype::F32, &[0.0, f32::INFINITY, -1.0]);
    assert_close("log", &apply(context, Function::Log, Dtype::F32, 3, &x.buffer), &[low, high, nan], |_| 0.0);
}
