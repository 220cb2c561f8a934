//! Are whole kernels right, as clang compiles them, on every target? Small ones here, for one mechanism each; those that are
//! shipped have their own tests, against f64, in the crate that launches them.

use crate::shipped::{image, norm};
use crate::support::{Gpu, Random, TARGETS};
use half::bf16;

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
        let x: Vec<bf16> = (0..4 * 2048).map(|_| bf16::from_f32(random.next_f32())).collect();
        let y = gpu.upload(&vec![bf16::ZERO; 4 * 2048]);
        let (weight, x) = (gpu.upload(&x[..2048]), gpu.upload(&x));
        assert_eq!(gpu.launch_shipped(&image("norm", "gfx1151"), &norm(4, x, weight, y)), 0);
        gpu.download(y)
    };
    let expected = run("threads=1");
    for options in ["threads=4", "seed=1", "seed=99 threads=3"] {
        assert_eq!(run(options), expected, "{options}");
    }
}
