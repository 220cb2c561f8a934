use candle_rocm::Context;
use taper_kernels::copy::{Copy, CopyBetween, Fill, copy, copy_between, fill};

use super::data::{Random, output, run};

/// A source: shape, strides and first element.
type Case = (&'static [usize], &'static [usize], usize);

const CASES: [Case; 9] = [
    (&[7], &[1], 3),
    (&[1], &[5], 0),
    (&[33, 65], &[65, 1], 0),
    // Transposed; permuted; with a dimension repeated; cut from larger ones, aligned and not.
    (&[65, 33], &[1, 65], 0),
    (&[3, 5, 7, 11], &[7, 1155 / 5, 1, 21], 1),
    (&[4, 5, 8], &[8, 0, 1], 0),
    (&[6, 64], &[128, 1], 64),
    (&[6, 62], &[128, 1], 33),
    (&[2, 1, 3, 2, 2, 2, 3], &[216, 1, 1, 3, 6, 12, 24], 2),
];

pub fn check(context: &Context) {
    for element_size in [1, 2, 4, 8] {
        for case in CASES {
            one(context, element_size, case);
            between(context, element_size, case);
            filled(context, element_size, case);
        }
    }
}

/// To the same places of another tensor; what lies between stays.
fn between(context: &Context, element_size: usize, (shape, strides, first): Case) {
    // A destination has no two elements in one place.
    if strides.contains(&0) {
        return;
    }
    let contiguous: Vec<usize> = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
    let places = places(shape, strides, first);
    let size_of_y = places.iter().max().map_or(0, |last| last + 1);
    let source = Random(26).bytes(places.len() * element_size);
    let x = context.upload(&source).unwrap();
    let y = context.upload(&vec![0xee; size_of_y * element_size]).unwrap();
    let launch = copy_between(&CopyBetween {
        element_size: element_size as u64,
        shape,
        x: x.ptr(),
        strides_x: &contiguous,
        y: y.ptr().offset((first * element_size) as u64),
        strides_y: strides,
    });
    run(context, &launch.unwrap());
    let mut want = vec![0xee; size_of_y * element_size];
    for (place, element) in places.iter().zip(source.chunks(element_size)) {
        want[place * element_size..][..element_size].copy_from_slice(element);
    }
    assert!(y.download().unwrap() == want, "copy of {element_size}-byte elements to {shape:?} by {strides:?}");
}

fn filled(context: &Context, element_size: usize, (shape, strides, first): Case) {
    let places = places(shape, strides, first);
    let size_of_y = places.iter().max().map_or(0, |last| last + 1);
    let y = context.upload(&vec![0xee; size_of_y * element_size]).unwrap();
    let value = 0x0807_0605_0403_0201u64;
    let launch = fill(&Fill {
        element_size: element_size as u64,
        value,
        shape,
        strides,
        y: y.ptr().offset((first * element_size) as u64),
    });
    run(context, &launch.unwrap());
    let mut want = vec![0xee; size_of_y * element_size];
    for place in places {
        want[place * element_size..][..element_size].copy_from_slice(&value.to_le_bytes()[..element_size]);
    }
    assert!(y.download().unwrap() == want, "fill of {element_size}-byte elements, {shape:?} by {strides:?}");
}

fn one(context: &Context, element_size: usize, (shape, strides, first): Case) {
    let places = places(shape, strides, first);
    let num_elements = places.iter().max().map_or(0, |last| last + 1);
    let source = Random(5).bytes(num_elements * element_size);
    let x = context.upload(&source).unwrap();
    let y = output(context, places.len() * element_size);
    let (x, element_bytes) = (x.ptr().offset((first * element_size) as u64), element_size as u64);
    run(context, &copy(&Copy { element_size: element_bytes, shape, strides, x, y: y.buffer.ptr() }).unwrap());
    let want: Vec<u8> =
        places.iter().flat_map(|place| &source[place * element_size..][..element_size]).copied().collect();
    assert!(y.bytes() == want, "copy of {element_size}-byte elements, {shape:?} by {strides:?}");
}

/// Where elements lie, in order.
pub fn places(shape: &[usize], strides: &[usize], first: usize) -> Vec<usize> {
    let mut places = vec![first];
    for (size, stride) in shape.iter().zip(strides) {
        places = places.iter().flat_map(|place| (0..*size).map(move |i| place + i * stride)).collect();
    }
    places
}
