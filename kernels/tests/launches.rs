//! The geometry functions' launches against the metadata of every image: names, arguments, blocks.

use taper_kernels::attention::{Decode, HEAD_DIMS, decode};
use taper_kernels::binary::{Comparison, Function as Function2, Operand, Pair, Where, binary, compare, where_cond};
use taper_kernels::gemm::{Gemm, Kind, gemm};
use taper_kernels::index::{IndexSelect, index_select};
use taper_kernels::matmul::{Matmul, Matrix, matmul};
use taper_kernels::quant::{Format, Matvec, Quantize, matvec, quantize};
use taper_kernels::reduce::{Reduce, Reduction, reduce};
use taper_kernels::unary::{Function, Unary, unary};
use taper_kernels::{DevicePtr, Dtype, Launch, Metadata, ShapeError, images};
use taper_kernels::{cast, copy, norm, softmax};

const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];
const P: DevicePtr = DevicePtr(256);

/// At least one launch of every kernel there is.
fn launches() -> Vec<Launch> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for n in [100, 5000] {
            let norm = norm::RmsNorm { dtype, rows: 9, n, eps: 1e-5, x: P, weight: P, y: P, residual: None };
            all.push(norm::rms_norm(&norm));
            all.push(softmax::softmax(&softmax::Softmax { dtype, rows: 9, n, x: P, y: P }));
            for reduction in [Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::ArgMax] {
                all.push(reduce(&Reduce { reduction, dtype, rows: 9, n, x: P, y: P }));
            }
        }
        all.extend(
            Function::ALL
                .map(|function| unary(&Unary { function, dtype, count: 100, x: P, y: P, parameters: [1.0, 0.0] })),
        );
        all.push(quantize(&Quantize { dtype, count: 320, x: P, q: P, d: P }));
        for format in [Format::Q8_0, Format::Q4K] {
            for tokens in [1, 2, 4, 8] {
                let (rows, k) = (7, 512);
                all.push(matvec(&Matvec { format, dtype, rows, k, tokens, w: P, q: P, d: P, y: P }));
            }
        }
    }
    all.extend(strided());
    all.extend(products());
    all.extend(pairs());
    all.extend(choices());
    let mut all: Vec<Launch> = all.into_iter().map(Result::unwrap).collect();
    all.extend(attention());
    all
}

fn strided() -> Vec<Result<Launch, ShapeError>> {
    let (shape, strides) = (&[3, 16][..], &[32, 1][..]);
    let copies = [(1, 1), (2, 2), (4, 4), (8, 8), (8, 16)];
    let copy_of =
        |(element_size, align)| copy::copy(&copy::Copy { element_size, shape, strides, x: DevicePtr(align), y: P });
    let mut all: Vec<_> = copies.map(copy_of).into();
    all.extend(copies.map(|(element_size, align)| {
        let (x, strides_x, strides_y) = (DevicePtr(align), strides, strides);
        copy::copy_between(&copy::CopyBetween { element_size, shape, x, strides_x, y: P, strides_y })
    }));
    all.extend(
        [1, 2, 4, 8].map(|element_size| copy::fill(&copy::Fill { element_size, value: 1, shape, strides, y: P })),
    );
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            all.push(cast::cast(&cast::Cast { from, to, shape, strides, x: P, y: P }));
        }
    }
    all.retain(|launch| !matches!(launch, Err(ShapeError::Dtype { .. })));
    all
}

fn pairs() -> Vec<Result<Launch, ShapeError>> {
    let operand = Operand { ptr: P, strides: &[1] };
    [Dtype::U8, Dtype::U32, Dtype::I64, Dtype::F16, Dtype::Bf16, Dtype::F32]
        .into_iter()
        .map(|dtype| Pair { dtype, shape: &[9], a: operand, b: operand, y: P })
        .flat_map(|pair| [binary(Function2::Add, &pair), compare(Comparison::Lt, &pair)])
        .collect()
}

/// By conditions and by indices of every type.
fn choices() -> Vec<Result<Launch, ShapeError>> {
    let operand = Operand { ptr: P, strides: &[1] };
    let mut all = Vec::new();
    for dtype in [Dtype::U8, Dtype::U32, Dtype::I64] {
        for element_size in [1, 2, 4, 8] {
            let (condition, on_true, on_false) = (operand, operand, operand);
            all.push(where_cond(&Where {
                condition_dtype: dtype,
                element_size,
                shape: &[9],
                condition,
                on_true,
                on_false,
                y: P,
            }));
            let (left, size, right, ids_count) = (2, 3, 4, 5);
            all.push(index_select(&IndexSelect {
                element_size,
                ids_dtype: dtype,
                left,
                size,
                right,
                ids_count,
                x: P,
                ids: P,
                y: P,
                fault: P,
            }));
        }
    }
    all
}

fn products() -> Vec<Result<Launch, ShapeError>> {
    let matrix = Matrix { ptr: P, row: 65, column: 1, batch: 0 };
    let plain = |dtype| matmul(&Matmul { dtype, batch: 1, m: 8, n: 9, k: 65, a: matrix, b: matrix, c: P });
    let mut all: Vec<_> = FLOATS.map(plain).into();
    for kind in [Kind::F16, Kind::Bf16, Kind::I8] {
        for m in [8, 2000] {
            for k in [64, 65] {
                let (n, strides) = (2000, 0);
                let (stride_a, stride_b, stride_c) = (strides, strides, strides);
                all.push(gemm(&Gemm { kind, batch: 1, m, n, k, a: P, b: P, c: P, stride_a, stride_b, stride_c }));
            }
        }
    }
    all
}

fn attention() -> Vec<Launch> {
    let mut all = Vec::new();
    for dtype in [Dtype::F16, Dtype::Bf16] {
        for head_dim in HEAD_DIMS {
            for group in [1, 2, 4, 8] {
                let (first, second) = decode(&Decode {
                    dtype,
                    sequences: 3,
                    heads: 2 * group,
                    kv_heads: 2,
                    head_dim,
                    block_size: 16,
                    table_width: 4,
                    window: None,
                    scale: 1.0,
                    splits: 2,
                    q: P,
                    keys: P,
                    values: P,
                    table: P,
                    lengths: P,
                    out: P,
                    partial: P,
                })
                .unwrap();
                all.push(first);
                all.extend(second);
            }
        }
    }
    all
}

#[test]
fn every_launch_fits_its_kernel_in_every_image() {
    let launches = launches();
    for target in images::targets() {
        for module in images::modules() {
            let metadata = Metadata::parse(&images::image(module, target).unwrap()).unwrap();
            for launch in launches.iter().filter(|launch| launch.module == module) {
                let kernel = metadata.kernel(&launch.kernel);
                let kernel = kernel.unwrap_or_else(|| panic!("{target}: {module} has no {}", launch.kernel));
                launch.check(kernel).unwrap_or_else(|error| panic!("{target}: {error}"));
            }
        }
    }
}

#[test]
fn every_kernel_has_a_launch() {
    let launches = launches();
    let target = images::targets()[0];
    for module in images::modules() {
        for kernel in Metadata::parse(&images::image(module, target).unwrap()).unwrap().kernels {
            assert!(launches.iter().any(|launch| launch.kernel == kernel.name), "nothing launches {}", kernel.name);
        }
    }
}

#[test]
fn shapes_that_no_kernel_takes_are_refused_with_the_value() {
    let odd = quantize(&Quantize { dtype: Dtype::F32, count: 33, x: P, q: P, d: P }).unwrap_err();
    assert_eq!(odd.to_string(), "quantize: count is 33; it must be a multiple of 32");
    let unaligned = softmax::softmax(&softmax::Softmax { dtype: Dtype::F32, rows: 1, n: 1, x: DevicePtr(8), y: P });
    assert_eq!(unaligned.unwrap_err().to_string(), "softmax: the address of x, 0x8, must be a multiple of 16");
}
