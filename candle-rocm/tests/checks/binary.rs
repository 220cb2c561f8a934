use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::binary::{Comparison, Function, Operand, Pair, Where, binary, compare, where_cond};

use super::copy::places;
use super::data::{FLOATS, Random, assert_close, input, output, rounding, run, smallest};

/// A kernel's function, and what it computes.
type Case<F, Y> = (F, fn(f64, f64) -> Y);

const FUNCTIONS: [Case<Function, f64>; 6] = [
    (Function::Add, |a, b| a + b),
    (Function::Mul, |a, b| a * b),
    (Function::Sub, |a, b| a - b),
    (Function::Div, |a, b| a / b),
    (Function::Maximum, |a, b| if a < b { b } else { a }),
    (Function::Minimum, |a, b| if b < a { b } else { a }),
];
const COMPARISONS: [Case<Comparison, bool>; 6] = [
    (Comparison::Eq, |a, b| a == b),
    (Comparison::Ne, |a, b| a != b),
    (Comparison::Le, |a, b| a <= b),
    (Comparison::Ge, |a, b| a >= b),
    (Comparison::Lt, |a, b| a < b),
    (Comparison::Gt, |a, b| a > b),
];
/// Shape, and the strides of both operands: in order, transposed, broadcast, and of five dimensions.
const LAYOUTS: [(&[usize], &[usize], &[usize]); 5] = [
    (&[1543], &[1], &[1]),
    (&[31, 43], &[43, 1], &[1, 31]),
    (&[7, 33], &[0, 1], &[1, 0]),
    (&[1], &[0], &[0]),
    (&[3, 5, 2, 4, 3], &[1, 3, 15, 30, 120], &[120, 0, 12, 3, 1]),
];

pub fn check(context: &Context) {
    for (shape, a, b) in LAYOUTS {
        for dtype in FLOATS {
            floats(context, dtype, shape, [a, b]);
        }
        integers(context, shape, [a, b]);
        choices(context, shape, [a, b]);
    }
    nan_and_division_by_zero(context);
}

fn floats(context: &Context, dtype: Dtype, shape: &[usize], [a, b]: [&[usize]; 2]) {
    let (at_a, at_b) = (places(shape, a, 0), places(shape, b, 0));
    let mut random = Random(21);
    let mut values = |places: &[usize]| -> Vec<f32> {
        // Some are equal.
        (0..=*places.iter().max().unwrap()).map(|_| (random.unit() * 64.0).round() / 8.0).collect()
    };
    let (x, z) = (input(context, dtype, &values(&at_a)), input(context, dtype, &values(&at_b)));
    let y = output(context, at_a.len() * dtype.size() as usize);
    let operands = (Operand { ptr: x.buffer.ptr(), strides: a }, Operand { ptr: z.buffer.ptr(), strides: b });
    let pair = Pair { dtype, shape, a: operands.0, b: operands.1, y: y.buffer.ptr() };
    let pairs: Vec<(f64, f64)> = at_a.iter().zip(&at_b).map(|(a, b)| (x.values[*a], z.values[*b])).collect();
    for (function, reference) in FUNCTIONS {
        run(context, &binary(function, &pair).unwrap());
        let want: Vec<f64> = pairs.iter().map(|(a, b)| reference(*a, *b)).collect();
        let bound = |i: usize| want[i].abs() * 1.01 * rounding(dtype) + smallest(dtype);
        assert_close(&format!("{function:?} {dtype} {shape:?}"), &y.values(dtype), &want, bound);
    }
    for (comparison, reference) in COMPARISONS {
        let y = output(context, at_a.len());
        run(context, &compare(comparison, &Pair { y: y.buffer.ptr(), ..pair }).unwrap());
        let want: Vec<u8> = pairs.iter().map(|(a, b)| reference(*a, *b).into()).collect();
        assert_eq!(y.bytes(), want, "{comparison:?} {dtype} {shape:?}");
    }
}

fn integers(context: &Context, shape: &[usize], [a, b]: [&[usize]; 2]) {
    let (at_a, at_b) = (places(shape, a, 0), places(shape, b, 0));
    let mut random = Random(22);
    let mut values = |places: &[usize]| -> Vec<i64> {
        (0..=*places.iter().max().unwrap()).map(|_| random.next() as i64 >> random.below(63)).collect()
    };
    let (x, z) = (values(&at_a), values(&at_b));
    // The low bits, as a number of the type.
    macro_rules! check_as {
        ($($dtype:ident: $type:ident;)*) => {$({
            let [x, z] = [&x, &z].map(|values| values.iter().map(|x| *x as $type).collect::<Vec<_>>());
            integers_of(context, Dtype::$dtype, shape, [a, b], &x, &z, $type::to_le_bytes, |function, a, b| match function {
                Function::Add => a.wrapping_add(b),
                Function::Mul => a.wrapping_mul(b),
                Function::Sub => a.wrapping_sub(b),
                Function::Div if b == 0 => 0,
                Function::Div => a.wrapping_div(b),
                Function::Maximum => a.max(b),
                Function::Minimum => a.min(b),
            });
        })*};
    }
    check_as! { I64: i64; U32: u32; U8: u8; }
}

#[allow(clippy::too_many_arguments)] // Two operands, and how their type is written and computed.
fn integers_of<T: Copy + PartialOrd, const N: usize>(
    context: &Context,
    dtype: Dtype,
    shape: &[usize],
    [a, b]: [&[usize]; 2],
    x: &[T],
    z: &[T],
    bytes: fn(T) -> [u8; N],
    reference: fn(Function, T, T) -> T,
) {
    let upload = |values: &[T]| context.upload(&values.iter().flat_map(|x| bytes(*x)).collect::<Vec<u8>>()).unwrap();
    let (on_a, on_b) = (upload(x), upload(z));
    let (at_a, at_b) = (places(shape, a, 0), places(shape, b, 0));
    let pairs: Vec<(T, T)> = at_a.iter().zip(&at_b).map(|(a, b)| (x[*a], z[*b])).collect();
    let operands = (Operand { ptr: on_a.ptr(), strides: a }, Operand { ptr: on_b.ptr(), strides: b });
    for (function, _) in FUNCTIONS {
        let y = output(context, N * at_a.len());
        let pair = Pair { dtype, shape, a: operands.0, b: operands.1, y: y.buffer.ptr() };
        run(context, &binary(function, &pair).unwrap());
        let want: Vec<u8> = pairs.iter().flat_map(|(a, b)| bytes(reference(function, *a, *b))).collect();
        assert_eq!(y.bytes(), want, "{function:?} {dtype} {shape:?}");
    }
    let y = output(context, at_a.len());
    let pair = Pair { dtype, shape, a: operands.0, b: operands.1, y: y.buffer.ptr() };
    run(context, &compare(Comparison::Lt, &pair).unwrap());
    assert_eq!(y.bytes(), pairs.iter().map(|(a, b)| u8::from(a < b)).collect::<Vec<_>>(), "Lt {dtype} {shape:?}");
}

/// Bits of every size by a condition of every type.
fn choices(context: &Context, shape: &[usize], [a, b]: [&[usize]; 2]) {
    let (at_a, at_b) = (places(shape, a, 0), places(shape, b, 0));
    for (condition_dtype, size) in [(Dtype::U8, 2), (Dtype::U32, 4), (Dtype::I64, 8), (Dtype::U8, 1)] {
        let mut random = Random(23);
        let conditions: Vec<u8> = (0..at_a.len()).map(|_| random.below(2) as u8).collect();
        let of_type = |c: &u8| [u64::from(*c).to_le_bytes()[..condition_dtype.size() as usize].to_vec()].concat();
        let condition = context.upload(&conditions.iter().flat_map(of_type).collect::<Vec<u8>>()).unwrap();
        let mut bytes = |places: &[usize]| random.bytes((places.iter().max().unwrap() + 1) * size);
        let (t, f) = (bytes(&at_a), bytes(&at_b));
        let (on_t, on_f) = (context.upload(&t).unwrap(), context.upload(&f).unwrap());
        let y = output(context, at_a.len() * size);
        let contiguous: Vec<usize> = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product::<usize>()).collect();
        let launch = where_cond(&Where {
            condition_dtype,
            element_size: size as u64,
            shape,
            condition: Operand { ptr: condition.ptr(), strides: &contiguous },
            on_true: Operand { ptr: on_t.ptr(), strides: a },
            on_false: Operand { ptr: on_f.ptr(), strides: b },
            y: y.buffer.ptr(),
        });
        run(context, &launch.unwrap());
        let choose = |i: usize| {
            let (from, at) = if conditions[i] != 0 { (&t, at_a[i]) } else { (&f, at_b[i]) };
            from[at * size..(at + 1) * size].to_vec()
        };
        assert_eq!(y.bytes(), (0..at_a.len()).flat_map(choose).collect::<Vec<u8>>(), "where {size} {shape:?}");
    }
}

fn nan_and_division_by_zero(context: &Context) {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let (a, b) =
        (input(context, Dtype::F32, &[nan, 1.0, 1.0, -1.0]), input(context, Dtype::F32, &[1.0, nan, 0.0, 0.0]));
    let y = output(context, 16);
    let operand = |buffer: &candle_rocm::Buffer| Operand { ptr: buffer.ptr(), strides: &[1] };
    let (x, z) = (operand(&a.buffer), operand(&b.buffer));
    let pair = Pair { dtype: Dtype::F32, shape: &[4], a: x, b: z, y: y.buffer.ptr() };
    let (nan64, inf64) = (f64::NAN, f64::from(inf));
    for (function, want) in
        [(Function::Maximum, [nan64, 1.0, 1.0, 0.0]), (Function::Div, [nan64, nan64, inf64, -inf64])]
    {
        run(context, &binary(function, &pair).unwrap());
        assert_close(&format!("{function:?}"), &y.values(Dtype::F32), &want, |_| 0.0);
    }
}
