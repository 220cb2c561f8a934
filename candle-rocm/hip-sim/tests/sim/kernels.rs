//! Are whole kernels right, as clang compiles them, on every target? Each against the same computation in f64.

use crate::support::{Gpu, Random, TARGETS};
use half::{bf16, f16};

fn assert_close(actual: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    for (i, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let error = (f64::from(*actual) - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1.0), "{what} [{i}]: {actual} instead of {expected}");
    }
}

#[test]
fn rms_norm_is_right_at_a_width_that_fills_no_wave() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let (width, rows, mut random) = (1000usize, 3usize, Random::new(1));
        let mut values = |len: usize| (0..len).map(|_| bf16::from_f32(random.next_f32())).collect::<Vec<_>>();
        let (x, weight) = (values(rows * width), values(width));
        let y = gpu.upload(&vec![bf16::ZERO; rows * width]);
        let arguments =
            [gpu.upload(&x).into(), gpu.upload(&weight).into(), y.into(), (width as u32).into(), 1e-6f32.into()];
        gpu.run("rms_norm.hip", "rms_norm", [rows as u32, 1, 1], 256, 0, &arguments);
        let actual: Vec<f32> = gpu.download(y).into_iter().map(bf16::to_f32).collect();
        let mut expected = Vec::new();
        for row in x.chunks(width) {
            let mean = row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>() / width as f64;
            expected.extend(row.iter().zip(&weight).map(|(x, w)| x.to_f64() / (mean + 1e-6).sqrt() * w.to_f64()));
        }
        assert_close(&actual, &expected, 4e-3, target);
    }
}

#[test]
fn matvec_of_8_bit_blocks_is_right_with_fewer_blocks_than_lanes_and_more() {
    for target in TARGETS {
        for blocks in [5usize, 48] {
            let gpu = Gpu::new(target);
            let (rows, mut random) = (7usize, Random::new(2));
            let mut bytes = |len: usize| (0..len).map(|_| random.next_u32() as i8).collect::<Vec<i8>>();
            let (weights, x) = (bytes(rows * blocks * 32), bytes(blocks * 32));
            let scales: Vec<f16> = (0..rows * blocks).map(|_| f16::from_f32(random.next_f32())).collect();
            let x_scales: Vec<f32> = (0..blocks).map(|_| random.next_f32()).collect();
            let y = gpu.allocate::<f32>(rows);
            let arguments = [
                gpu.upload(&weights).into(),
                gpu.upload(&scales).into(),
                gpu.upload(&x).into(),
                gpu.upload(&x_scales).into(),
                y.into(),
                (blocks as u32).into(),
            ];
            gpu.run("matvec.hip", "matvec_q8", [rows as u32, 1, 1], 32, 0, &arguments);
            let block_dot = |row: usize, b: usize| {
                let w = &weights[(row * blocks + b) * 32..][..32];
                w.iter().zip(&x[b * 32..]).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>()
            };
            let term =
                |row: usize, b: usize| block_dot(row, b) * scales[row * blocks + b].to_f64() * f64::from(x_scales[b]);
            let expected: Vec<f64> = (0..rows).map(|row| (0..blocks).map(|b| term(row, b)).sum()).collect();
            assert_close(&gpu.download(y), &expected, 2e-5, target);
        }
    }
}

/// Sums of products of rows of A and of B, in f64.
fn product(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    a.chunks(k).flat_map(|a| b.chunks(k).map(move |b| dot(a, b))).collect()
}

const M: usize = 32;
const N: usize = 48;
const K: usize = 64;

#[test]
fn matrix_instructions_on_f16_and_bf16_multiply_rectangular_matrices() {
    for target in TARGETS {
        let mut random = Random::new(3);
        let mut values = |len: usize| (0..len).map(|_| random.next_f32()).collect::<Vec<f32>>();
        let (a, b) = (values(M * K), values(N * K));
        for kernel in ["gemm_f16", "gemm_bf16"] {
            let gpu = Gpu::new(target);
            let round =
                |x: &f32| if kernel == "gemm_f16" { f16::from_f32(*x).to_bits() } else { bf16::from_f32(*x).to_bits() };
            let value =
                |x: &u16| if kernel == "gemm_f16" { f16::from_bits(*x).to_f64() } else { bf16::from_bits(*x).to_f64() };
            let (a, b): (Vec<u16>, Vec<u16>) = (a.iter().map(round).collect(), b.iter().map(round).collect());
            let c = gpu.allocate::<f32>(M * N);
            let arguments =
                [gpu.upload(&a).into(), gpu.upload(&b).into(), c.into(), (N as u32).into(), (K as u32).into()];
            gpu.run("gemm.hip", kernel, [N as u32 / 16, M as u32 / 16, 1], 32, 0, &arguments);
            let expand = |x: &[u16]| x.iter().map(value).collect::<Vec<f64>>();
            assert_close(&gpu.download(c), &product(&expand(&a), &expand(&b), K), 2e-5, &format!("{target} {kernel}"));
        }
    }
}

#[test]
fn matrix_instructions_on_8_bit_integers_are_exact() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let mut random = Random::new(4);
        let mut bytes = |len: usize| (0..len).map(|_| random.next_u32() as i8).collect::<Vec<i8>>();
        let (a, b) = (bytes(M * K), bytes(N * K));
        let c = gpu.allocate::<i32>(M * N);
        let arguments = [gpu.upload(&a).into(), gpu.upload(&b).into(), c.into(), (N as u32).into(), (K as u32).into()];
        gpu.run("gemm.hip", "gemm_i8", [N as u32 / 16, M as u32 / 16, 1], 32, 0, &arguments);
        let expand = |x: &[i8]| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let expected: Vec<i32> = product(&expand(&a), &expand(&b), K).into_iter().map(|x| x as i32).collect();
        assert_eq!(gpu.download(c), expected, "{target}");
    }
}

#[test]
fn attention_over_pages_is_right_where_the_last_page_is_not_full() {
    const WIDTH: usize = 128;
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let (heads, length, mut random) = (3usize, 37usize, Random::new(5));
        let mut values = |len: usize| (0..len).map(|_| f16::from_f32(random.next_f32())).collect::<Vec<f16>>();
        let (q, keys, values) = (values(heads * WIDTH), values(64 * WIDTH), values(64 * WIDTH));
        let pages = [2i32, 0, 3];
        let scale = 1.0 / (WIDTH as f64).sqrt();
        let out = gpu.allocate::<f32>(heads * WIDTH);
        let arguments = [
            gpu.upload(&q).into(),
            gpu.upload(&keys).into(),
            gpu.upload(&values).into(),
            gpu.upload(&pages).into(),
            out.into(),
            (length as u32).into(),
            ((scale * std::f64::consts::LOG2_E) as f32).into(),
        ];
        gpu.run("attention.hip", "attention", [heads as u32, 1, 1], 128, 64, &arguments);
        let row = |token: usize| (pages[token / 16] as usize * 16 + token % 16) * WIDTH;
        let mut expected = Vec::new();
        for q in q.chunks(WIDTH) {
            let score =
                |t: usize| q.iter().zip(&keys[row(t)..]).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>() * scale;
            let weights: Vec<f64> = (0..length).map(|t| score(t).exp()).collect();
            let total: f64 = weights.iter().sum();
            let value = |i: usize| {
                weights.iter().enumerate().map(|(t, w)| w * values[row(t) + i].to_f64()).sum::<f64>() / total
            };
            expected.extend((0..WIDTH).map(value));
        }
        assert_close(&gpu.download(out), &expected, 2e-6, target);
    }
}

#[test]
fn a_table_in_the_code_object_is_read_through_its_address() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let index: Vec<u32> = (0..32).map(|i| (i * 7) % 16).collect();
        let y = gpu.allocate::<f32>(32);
        gpu.run("misc.hip", "look_up", [1, 1, 1], 32, 0, &[gpu.upload(&index).into(), y.into()]);
        let table = [0.5f32, 1., 2., 3., 5., 8., 13., 21., 34., 55., 89., 144., 233., 377., 610., 987.];
        let expected: Vec<f32> = index.iter().map(|i| table[*i as usize]).collect();
        assert_eq!(gpu.download(y), expected, "{target}");
    }
}

#[test]
fn division_is_correctly_rounded_over_the_whole_range() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let mut random = Random::new(6);
        let mut a: Vec<f32> = (0..64).map(|_| f32::from_bits(random.next_u32())).collect();
        let mut b: Vec<f32> = (0..64).map(|_| f32::from_bits(random.next_u32())).collect();
        a[..8].copy_from_slice(&[0.0, 1.0, -1.0, f32::INFINITY, f32::MAX, 1e-40, f32::MIN_POSITIVE, 3.0]);
        b[..8].copy_from_slice(&[0.0, 0.0, 3.0, 2.0, 0.5, 3.0, f32::MAX, f32::INFINITY]);
        let y = gpu.allocate::<f32>(64);
        gpu.run("misc.hip", "divide", [1, 1, 1], 64, 0, &[gpu.upload(&a).into(), gpu.upload(&b).into(), y.into()]);
        for (i, actual) in gpu.download(y).into_iter().enumerate() {
            let expected = a[i] / b[i];
            let is_same = actual == expected || (actual.is_nan() && expected.is_nan());
            assert!(is_same, "{target}: {:e} / {:e} is {expected:e}, not {actual:e}", a[i], b[i]);
        }
    }
}

#[test]
fn division_of_f64_is_correctly_rounded() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let mut random = Random::new(7);
        let mut values = || (0..64).map(|_| f64::from(random.next_f32()) * 1e10 + 1e-3).collect::<Vec<f64>>();
        let (a, b) = (values(), values());
        let y = gpu.allocate::<f64>(64);
        gpu.run("misc.hip", "divide_f64", [1, 1, 1], 64, 0, &[gpu.upload(&a).into(), gpu.upload(&b).into(), y.into()]);
        let expected: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a / b).collect();
        assert_eq!(gpu.download(y), expected, "{target}");
    }
}

#[test]
fn remainders_of_64_bits_are_exact() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let mut random = Random::new(8);
        let mut values =
            |shift: u32| (0..64).map(|_| (u64::from(random.next_u32()) << shift) + 12345).collect::<Vec<u64>>();
        let (a, b) = (values(31), values(9));
        let y = gpu.allocate::<u64>(64);
        gpu.run(
            "misc.hip",
            "remainder_u64",
            [1, 1, 1],
            64,
            0,
            &[gpu.upload(&a).into(), gpu.upload(&b).into(), y.into()],
        );
        let expected: Vec<u64> = a.iter().zip(&b).map(|(a, b)| a % b).collect();
        assert_eq!(gpu.download(y), expected, "{target}");
    }
}

#[test]
fn atomic_additions_of_workgroups_on_several_threads_are_all_counted() {
    for target in TARGETS {
        let gpu = Gpu::with_options(target, "threads=4");
        let buckets: Vec<u32> = (0..64 * 50).map(|i| i % 3).collect();
        let counters = gpu.upload(&[0u32; 3]);
        gpu.run("misc.hip", "count", [50, 1, 1], 64, 0, &[counters.into(), gpu.upload(&buckets).into()]);
        assert_eq!(gpu.download(counters), [1067, 1067, 1066], "{target}");
    }
}

#[test]
fn each_lane_has_its_own_private_array() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let order: Vec<u32> = (0..64).map(|i| i * 5).collect();
        let y = gpu.allocate::<u32>(64);
        gpu.run("misc.hip", "private_array", [1, 1, 1], 64, 0, &[gpu.upload(&order).into(), y.into()]);
        let expected: Vec<u32> = (0..64).map(|i| i * 100 + (i * 5) % 16).collect();
        assert_eq!(gpu.download(y), expected, "{target}");
    }
}

#[test]
fn the_block_size_is_filled_in_as_a_hidden_argument() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let y = gpu.allocate::<u32>(128);
        gpu.run("misc.hip", "block_size", [2, 1, 1], 64, 0, &[y.into()]);
        assert_eq!(gpu.download(y), vec![64; 128], "{target}");
    }
}

#[test]
fn results_do_not_depend_on_threads_or_on_the_order_of_waves() {
    let run = |options: &str| {
        let gpu = Gpu::with_options("gfx1151", options);
        let mut random = Random::new(9);
        let x: Vec<bf16> = (0..2048).map(|_| bf16::from_f32(random.next_f32())).collect();
        let y = gpu.upload(&vec![bf16::ZERO; 2048]);
        let arguments = [gpu.upload(&x).into(), gpu.upload(&x[..512]).into(), y.into(), 512u32.into(), 1e-6f32.into()];
        gpu.run("rms_norm.hip", "rms_norm", [4, 1, 1], 256, 0, &arguments);
        gpu.download(y)
    };
    let expected = run("threads=1");
    for options in ["threads=4", "seed=1", "seed=99 threads=3"] {
        assert_eq!(run(options), expected, "{options}");
    }
}
