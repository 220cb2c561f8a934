//! Does each instruction compute what the ISA says? Single instructions, assembled by clang, against Rust's own arithmetic
//! (IEEE), the `half` crate, or values worked out by hand from the ISA's pseudocode.

use crate::support::{Gpu, Random, execute};
use half::{bf16, f16};

type Rows = [[u32; 32]; 4];
type Function = fn(f64) -> f64;
/// The result of a lane, from its number.
type ExpectedLane = fn(usize) -> u32;

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn h(bits: u32) -> f16 {
    f16::from_bits(bits as u16)
}

/// Floats of all kinds: zeros, subnormals, ordinary and huge numbers, infinities, NaN.
fn float_rows() -> Rows {
    const SPECIAL: [u32; 8] = [0, 0x8000_0000, 1, 0x007F_FFFF, 0x7F7F_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000];
    let mut random = Random::new(11);
    std::array::from_fn(|row| {
        std::array::from_fn(|lane| match lane {
            0..8 => SPECIAL[(lane + row * 3) % 8],
            8..16 => random.next_u32(),
            _ => (random.next_f32() * 100.0).to_bits(),
        })
    })
}

fn integer_rows() -> Rows {
    const SPECIAL: [u32; 8] = [0, 1, 31, 32, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x00FF_FFFF];
    let mut random = Random::new(12);
    std::array::from_fn(|row| {
        std::array::from_fn(|lane| if lane < 8 { SPECIAL[(lane + row * 3) % 8] } else { random.next_u32() })
    })
}

/// Runs one instruction on both generations and compares `v10` lane by lane; NaNs are equal to each other.
fn check(rows: &Rows, gfx11: &str, gfx12: &str, is_float: bool, expected: impl Fn(u32, u32, u32) -> u32) {
    for (target, instruction) in [("gfx1151", gfx11), ("gfx1201", gfx12)] {
        let gpu = Gpu::new(target);
        let [actual, _] = execute(&gpu, instruction, rows);
        for lane in 0..32 {
            let (a, b, c) = (rows[0][lane], rows[1][lane], rows[2][lane]);
            let expected = expected(a, b, c);
            let both_nan = is_float && f(actual[lane]).is_nan() && f(expected).is_nan();
            assert!(
                actual[lane] == expected || both_nan,
                "{target} `{instruction}` of {a:#x}, {b:#x}, {c:#x}: {:#x} instead of {expected:#x}",
                actual[lane]
            );
        }
    }
}

fn check_float(instruction: &str, expected: impl Fn(f32, f32, f32) -> f32) {
    check(&float_rows(), instruction, instruction, true, |a, b, c| expected(f(a), f(b), f(c)).to_bits());
}

fn check_integer(instruction: &str, expected: impl Fn(u32, u32, u32) -> u32) {
    check(&integer_rows(), instruction, instruction, false, expected);
}

#[test]
fn arithmetic_of_f32_is_ieee_with_subnormals() {
    check_float("v_add_f32 v10, v1, v2", |a, b, _| a + b);
    check_float("v_sub_f32 v10, v1, v2", |a, b, _| a - b);
    check_float("v_subrev_f32 v10, v1, v2", |a, b, _| b - a);
    check_float("v_mul_f32 v10, v1, v2", |a, b, _| a * b);
    check_float("v_fma_f32 v10, v1, v2, v3", f32::mul_add);
}

#[test]
fn input_modifiers_negate_after_taking_the_magnitude() {
    check_float("v_fma_f32 v10, -v1, |v2|, -|v3|", |a, b, c| (-a).mul_add(b.abs(), -c.abs()));
    check_float("v_add_f32_e64 v10, |v1|, -v2", |a, b, _| a.abs() - b);
}

#[test]
fn output_modifiers_clamp_to_zero_and_one() {
    check_float("v_add_f32_e64 v10, v1, v2 clamp", |a, b, _| {
        let sum = a + b;
        if sum.is_nan() { 0.0 } else { sum.clamp(0.0, 1.0) + 0.0 }
    });
}

#[test]
fn constants_are_those_of_the_type() {
    check_float("v_mul_f32 v10, 0.5, v1", |a, _, _| a * 0.5);
    check_float("v_mul_f32 v10, 0x40490fdb, v1", |a, _, _| a * std::f32::consts::PI);
    check_float("v_mul_f32_e64 v10, 0.15915494, v1", |a, _, _| a * f(0x3e22f983));
    check(&float_rows(), "v_add_f16 v10, 1.0, v1", "v_add_f16 v10, 1.0, v1", false, |a, _, _| {
        u32::from(f16::from_f32(h(a).to_f32() + 1.0).to_bits())
    });
}

#[test]
fn minimum_and_maximum_prefer_numbers_to_nans() {
    let max = |a: f32, b: f32| {
        if a.is_nan() {
            b
        } else if b.is_nan() {
            a
        } else if a == b {
            f(a.to_bits() & b.to_bits())
        } else {
            a.max(b)
        }
    };
    let min = |a: f32, b: f32| {
        if a.is_nan() {
            b
        } else if b.is_nan() {
            a
        } else if a == b {
            f(a.to_bits() | b.to_bits())
        } else {
            a.min(b)
        }
    };
    let bits = |g: &dyn Fn(f32, f32) -> f32, a, b| g(f(a), f(b)).to_bits();
    check(&float_rows(), "v_max_f32 v10, v1, v2", "v_max_num_f32 v10, v1, v2", true, |a, b, _| bits(&max, a, b));
    check(&float_rows(), "v_min_f32 v10, v1, v2", "v_min_num_f32 v10, v1, v2", true, |a, b, _| bits(&min, a, b));
}

#[test]
fn rounding_and_conversions() {
    check_float("v_rndne_f32 v10, v1", |a, _, _| a.round_ties_even());
    check_float("v_floor_f32 v10, v1", |a, _, _| a.floor());
    check_float("v_trunc_f32 v10, v1", |a, _, _| a.trunc());
    check(&float_rows(), "v_cvt_i32_f32 v10, v1", "v_cvt_i32_f32 v10, v1", false, |a, _, _| f(a) as i32 as u32);
    check(&float_rows(), "v_cvt_u32_f32 v10, v1", "v_cvt_u32_f32 v10, v1", false, |a, _, _| f(a) as u32);
    check_integer("v_cvt_f32_i32 v10, v1", |a, _, _| (a as i32 as f32).to_bits());
    check_integer("v_cvt_f32_u32 v10, v1", |a, _, _| (a as f32).to_bits());
    check_integer("v_cvt_f32_ubyte2 v10, v1", |a, _, _| ((a >> 16 & 0xFF) as f32).to_bits());
    check(&float_rows(), "v_cvt_f32_f16 v10, v1", "v_cvt_f32_f16 v10, v1", true, |a, _, _| h(a).to_f32().to_bits());
}

#[test]
fn results_of_16_bits_keep_the_upper_half() {
    let instruction = "v_mov_b32 v10, v2\n v_cvt_f16_f32 v10, v1";
    let rows: Rows =
        std::array::from_fn(|row| std::array::from_fn(|lane| ((lane as f32 - 7.3) * (row as f32 + 0.1)).to_bits()));
    check(&rows, instruction, instruction, false, |a, b, _| {
        (b & 0xFFFF_0000) | u32::from(f16::from_f32(f(a)).to_bits())
    });
}

#[test]
fn transcendental_functions_are_within_one_unit_and_flush_subnormals() {
    let close = |actual: u32, expected: f64| {
        let (actual, expected) = (f64::from(f(actual)), expected as f32);
        let unit = f64::from((f(expected.to_bits() + 1) - expected).abs());
        (actual - f64::from(expected)).abs() <= unit
    };
    let rows: Rows =
        std::array::from_fn(|row| std::array::from_fn(|lane| (0.01 + lane as f32 * 0.37 + row as f32).to_bits()));
    let functions: [(&str, Function); 5] = [
        ("v_exp_f32", f64::exp2),
        ("v_log_f32", f64::log2),
        ("v_rcp_f32", f64::recip),
        ("v_rsq_f32", |x| 1.0 / x.sqrt()),
        ("v_sqrt_f32", f64::sqrt),
    ];
    for (name, function) in functions {
        let gpu = Gpu::new("gfx1151");
        let [actual, _] = execute(&gpu, &format!("{name} v10, v1"), &rows);
        for lane in 0..32 {
            let x = f64::from(f(rows[0][lane]));
            assert!(close(actual[lane], function(x)), "{name}({x}) is {}", f(actual[lane]));
        }
    }
    let gpu = Gpu::new("gfx1151");
    let tiny: Rows = std::array::from_fn(|_| [(-140.0f32).to_bits(); 32]);
    assert_eq!(execute(&gpu, "v_exp_f32 v10, v1", &tiny)[0], [0; 32]);
}

#[test]
fn integers_wrap_and_shifts_use_five_bits() {
    check_integer("v_add_nc_u32 v10, v1, v2", |a, b, _| a.wrapping_add(b));
    check_integer("v_sub_nc_u32 v10, v1, v2", |a, b, _| a.wrapping_sub(b));
    check_integer("v_subrev_nc_u32 v10, v1, v2", |a, b, _| b.wrapping_sub(a));
    check_integer("v_mul_lo_u32 v10, v1, v2", |a, b, _| a.wrapping_mul(b));
    check_integer("v_mul_hi_u32 v10, v1, v2", |a, b, _| ((u128::from(a) * u128::from(b)) >> 32) as u32);
    check_integer("v_mul_hi_i32 v10, v1, v2", |a, b, _| ((i128::from(a as i32) * i128::from(b as i32)) >> 32) as u32);
    check_integer("v_mad_u32_u24 v10, v1, v2, v3", |a, b, c| {
        (a & 0xFF_FFFF).wrapping_mul(b & 0xFF_FFFF).wrapping_add(c)
    });
    check_integer("v_lshlrev_b32 v10, v1, v2", |a, b, _| b.wrapping_shl(a));
    check_integer("v_ashrrev_i32 v10, v1, v2", |a, b, _| (b as i32).wrapping_shr(a) as u32);
    check_integer("v_lshl_add_u32 v10, v1, v2, v3", |a, b, c| a.wrapping_shl(b).wrapping_add(c));
    check_integer("v_add3_u32 v10, v1, v2, v3", |a, b, c| a.wrapping_add(b).wrapping_add(c));
    check_integer("v_max_i32 v10, v1, v2", |a, b, _| (a as i32).max(b as i32) as u32);
}

#[test]
fn bit_fields_and_bytes() {
    check_integer("v_bfe_u32 v10, v1, 3, 7", |a, _, _| a >> 3 & 127);
    check_integer("v_bfe_i32 v10, v1, 28, 4", |a, _, _| (a as i32 >> 28) as u32);
    check_integer("v_bfi_b32 v10, v1, v2, v3", |a, b, c| (a & b) | (!a & c));
    check_integer("v_alignbit_b32 v10, v1, v2, 8", |a, b, _| a << 24 | b >> 8);
    check_integer("v_perm_b32 v10, v1, v2, 0x07060100", |a, b, _| (a & 0xFFFF_0000) | (b & 0xFFFF));
    check_integer("v_bcnt_u32_b32 v10, v1, v2", |a, b, _| a.count_ones().wrapping_add(b));
    check_integer("v_clz_i32_u32 v10, v1", |a, _, _| if a == 0 { u32::MAX } else { a.leading_zeros() });
}

#[test]
fn carries_go_through_vcc_and_named_registers() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows = integer_rows();
        let add = "v_add_co_u32 v10, vcc_lo, v1, v2\n v_add_co_ci_u32_e32 v11, vcc_lo, v3, v4, vcc_lo";
        let [low, high] = execute(&gpu, add, &rows);
        let subtract = "v_sub_co_u32 v10, s4, v1, v2\n v_sub_co_ci_u32_e64 v11, null, v3, v4, s4";
        let [low_difference, high_difference] = execute(&gpu, subtract, &rows);
        for lane in 0..32 {
            let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let (a, b) = (wide(rows[0][lane], rows[2][lane]), wide(rows[1][lane], rows[3][lane]));
            assert_eq!(wide(low[lane], high[lane]), a.wrapping_add(b), "{target}");
            assert_eq!(wide(low_difference[lane], high_difference[lane]), a.wrapping_sub(b), "{target}");
        }
    }
}

#[test]
fn wide_multiply_add_and_shifts() {
    for (target, name) in [("gfx1151", "v_mad_u64_u32"), ("gfx1201", "v_mad_co_u64_u32")] {
        let gpu = Gpu::new(target);
        let rows = integer_rows();
        let [low, high] = execute(&gpu, &format!("{name} v[10:11], null, v1, v2, v[3:4]"), &rows);
        let [shifted_low, shifted_high] = execute(&gpu, "v_lshlrev_b64 v[10:11], 5, v[3:4]", &rows);
        for lane in 0..32 {
            let c = u64::from(rows[2][lane]) | u64::from(rows[3][lane]) << 32;
            let sum = (u64::from(rows[0][lane]) * u64::from(rows[1][lane])).wrapping_add(c);
            assert_eq!([low[lane], high[lane]], [sum as u32, (sum >> 32) as u32], "{target}");
            let shifted = c << 5;
            assert_eq!([shifted_low[lane], shifted_high[lane]], [shifted as u32, (shifted >> 32) as u32], "{target}");
        }
    }
}

#[test]
fn comparisons_write_a_bit_for_each_active_lane() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows = float_rows();
        let body = "s_mov_b32 exec_lo, 0xffff00ff\n v_cmp_nlt_f32 s4, v1, v2\n v_mov_b32 v10, s4";
        let [mask, _] = execute(&gpu, body, &rows);
        #[allow(clippy::neg_cmp_op_on_partial_ord)] // What the instruction says.
        let expected =
            (0..32).filter(|l| !(f(rows[0][*l]) < f(rows[1][*l]))).fold(0u32, |m, l| m | 1 << l) & 0xFFFF_00FF;
        assert_eq!(mask[0], expected, "{target}");
        assert_eq!(mask[8], 0, "inactive lanes keep their value");
    }
}

#[test]
fn classes_of_floats_are_those_of_the_mask() {
    let gpu = Gpu::new("gfx1151");
    let mut rows = float_rows();
    rows[0][..8].copy_from_slice(&[0x7FC0_0000, 0xFF80_0000, 0xBF80_0000, 0x8000_0001, 0x8000_0000, 0, 1, 0x3F80_0000]);
    let [mask, _] = execute(&gpu, "v_cmp_class_f32 s4, v1, 0x78\n v_mov_b32 v10, s4", &rows);
    assert_eq!(mask[0] & 0xFF, 0b0011_1100, "from negative normal numbers, bit 3, to positive zero, bit 6");
}

#[test]
fn selection_reads_its_mask_from_any_scalar() {
    let gpu = Gpu::new("gfx1201");
    let rows = integer_rows();
    let [result, _] = execute(&gpu, "s_mov_b32 s4, 0xff00ff00\n v_cndmask_b32_e64 v10, v1, v2, s4", &rows);
    for lane in 0..32 {
        assert_eq!(result[lane], if 0xFF00_FF00u32 >> lane & 1 == 1 { rows[1][lane] } else { rows[0][lane] });
    }
}

#[test]
fn packed_halves_select_and_negate_each_half() {
    let pair = |low: f16, high: f16| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
    let mut random = Random::new(13);
    let rows: Rows = std::array::from_fn(|_| {
        std::array::from_fn(|_| pair(f16::from_f32(random.next_f32() * 9.0), f16::from_f32(random.next_f32())))
    });
    let low = |x: u32| h(x).to_f64();
    let high = |x: u32| h(x >> 16).to_f64();
    let round = f16::from_f64;
    let fma = "v_pk_fma_f16 v10, v1, v2, v3";
    check(&rows, fma, fma, false, |a, b, c| pair(round(low(a) * low(b) + low(c)), round(high(a) * high(b) + high(c))));
    let swapped = "v_pk_add_f16 v10, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]";
    check(&rows, swapped, swapped, false, |a, b, _| pair(round(high(a) - low(b)), round(low(a) + high(b))));
}

#[test]
fn mixed_multiply_add_takes_halves_where_it_is_told_to() {
    let rows = {
        let mut random = Random::new(14);
        let rows: Rows = std::array::from_fn(|_| std::array::from_fn(|_| random.next_f32().to_bits() & 0xBFFF_BFFF));
        rows
    };
    let mix = "v_fma_mix_f32 v10, v1, v2, v3 op_sel:[0,1,0] op_sel_hi:[0,1,0]";
    check(&rows, mix, mix, true, |a, b, c| f(a).mul_add(h(b >> 16).to_f32(), f(c)).to_bits());
    let high = "v_mov_b32 v10, v3\n v_fma_mixhi_f16 v10, -v1, v2, |v3|";
    check(&rows, high, high, false, |a, b, c| {
        (c & 0xFFFF) | u32::from(f16::from_f32((-f(a)).mul_add(f(b), f(c).abs())).to_bits()) << 16
    });
}

#[test]
fn dot_products_of_bytes_have_the_signs_of_their_modifiers() {
    let dot = |a: u32, b: u32, c: u32, x: fn(u8) -> i32, y: fn(u8) -> i32| {
        let terms = a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(|(p, q)| x(p) * y(q));
        terms.fold(c as i32, i32::wrapping_add) as u32
    };
    let signed = |x: u8| i32::from(x as i8);
    let unsigned = |x: u8| i32::from(x);
    check_integer("v_dot4_i32_iu8 v10, v1, v2, v3 neg_lo:[1,1,0]", |a, b, c| dot(a, b, c, signed, signed));
    check_integer("v_dot4_i32_iu8 v10, v1, v2, v3 neg_lo:[0,1,0]", |a, b, c| dot(a, b, c, unsigned, signed));
    check_integer("v_dot4_i32_iu8 v10, v1, v2, v3", |a, b, c| dot(a, b, c, unsigned, unsigned));
    check_integer("v_dot4_i32_iu8 v10, v1, v2, 0x7fffffff neg_lo:[1,1,0] clamp", |a, b, _| {
        let sum = i64::from(i32::MAX) + i64::from(dot(a, b, 0, signed, signed) as i32);
        sum.min(i64::from(i32::MAX)) as u32
    });
}

#[test]
fn dot_products_of_pairs_of_halves() {
    let mut random = Random::new(15);
    let rows: Rows =
        std::array::from_fn(|_| std::array::from_fn(|_| (random.next_f32() * 4.0).to_bits() & 0xBFF0_BFF0));
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let [halves, bf16s] = execute(&gpu, "v_dot2_f32_f16 v10, v1, v2, v3\n v_dot2_f32_bf16 v11, v1, v2, v3", &rows);
        for lane in 0..32 {
            let (a, b, c) = (rows[0][lane], rows[1][lane], f64::from(f(rows[2][lane])));
            let exact = |g: fn(u16) -> f64| g(a as u16) * g(b as u16) + g((a >> 16) as u16) * g((b >> 16) as u16) + c;
            let is_close = |x: u32, y: f64| (f64::from(f(x)) - y).abs() <= 1e-5 * y.abs().max(1.0);
            assert!(is_close(halves[lane], exact(|x| f16::from_bits(x).to_f64())), "{target}");
            assert!(is_close(bf16s[lane], exact(|x| bf16::from_bits(x).to_f64())), "{target}");
        }
    }
}

#[test]
fn permutations_of_lanes() {
    let rows: Rows = std::array::from_fn(|row| std::array::from_fn(|lane| (row * 100 + lane) as u32));
    let cases: [(&str, ExpectedLane); 9] = [
        ("v_mov_b32_dpp v10, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", |l| {
            if l % 16 == 0 { 0 } else { l as u32 - 1 }
        }),
        ("v_mov_b32_dpp v10, v1 row_ror:4 row_mask:0xf bank_mask:0xf", |l| ((l & 16) | ((l + 12) % 16)) as u32),
        ("v_mov_b32_dpp v10, v1 row_xmask:5 row_mask:0xf bank_mask:0xf", |l| l as u32 ^ 5),
        ("v_mov_b32_dpp v10, v1 dpp8:[1,0,3,2,5,4,7,6]", |l| l as u32 ^ 1),
        ("v_add_nc_u32_dpp v10, v1, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", |l| {
            (l as u32 ^ 3) + 100 + l as u32
        }),
        ("s_mov_b32 s4, 0x76543210\n s_mov_b32 s5, 0xfedcba98\n v_permlanex16_b32 v10, v1, s4, s5", |l| l as u32 ^ 16),
        ("s_mov_b32 s4, 0x01234567\n s_mov_b32 s5, 0x89abcdef\n v_permlane16_b32 v10, v1, s4, s5", |l| {
            ((l & 16) | (15 - ((l & 15) ^ 8))) as u32
        }),
        ("ds_swizzle_b32 v10, v1 offset:swizzle(SWAP,16)", |l| l as u32 ^ 16),
        ("v_lshlrev_b32 v5, 2, v1\n v_xor_b32 v5, 12, v5\n ds_bpermute_b32 v10, v5, v2", |l| 100 + (l as u32 ^ 3)),
    ];
    for target in ["gfx1151", "gfx1201"] {
        for (instruction, expected) in cases {
            let gpu = Gpu::new(target);
            let [actual, _] = execute(&gpu, instruction, &rows);
            assert_eq!(actual, std::array::from_fn(expected), "{target} `{instruction}`");
        }
    }
}

#[test]
fn scalars_from_lanes() {
    let rows: Rows = std::array::from_fn(|row| std::array::from_fn(|lane| (row * 100 + lane) as u32));
    let gpu = Gpu::new("gfx1151");
    let body = "s_mov_b32 exec_lo, 0xfffffff0\n v_readfirstlane_b32 s4, v1\n s_mov_b32 exec_lo, -1\n v_readlane_b32 s5, v2, 9\n v_mov_b32 v10, s4\n v_mov_b32 v11, s5";
    let [first, ninth] = execute(&gpu, body, &rows);
    assert_eq!([first[0], ninth[0]], [4, 109]);
    let [counts, _] = execute(&gpu, "v_mbcnt_lo_u32_b32 v10, -1, 0", &rows);
    assert_eq!(counts, std::array::from_fn(|lane| lane as u32));
}

#[test]
fn scalar_arithmetic_sets_the_condition_code() {
    // Each leaves its value in s4 and its condition code in s5.
    let cases: [(&str, u32, u32); 14] = [
        ("s_mov_b32 s4, -1\n s_add_u32 s4, s4, 2", 1, 1),
        ("s_mov_b32 s4, 1\n s_sub_u32 s4, s4, 2", u32::MAX, 1),
        ("s_brev_b32 s4, 1\n s_add_i32 s4, s4, -1", 0x7FFF_FFFF, 1),
        ("s_mov_b32 s4, 5\n s_and_b32 s4, s4, 10", 0, 0),
        ("s_mov_b32 s4, 0x12345678\n s_bfe_u32 s4, s4, 0x80008", 0x56, 1),
        ("s_mov_b32 s4, 0xf0000000\n s_ashr_i32 s4, s4, 28", u32::MAX, 1),
        ("s_mov_b32 s4, -3\n s_min_i32 s4, s4, 2", -3i32 as u32, 1),
        ("s_mov_b32 s4, 3\n s_mul_hi_u32 s4, s4, -1", 2, 0),
        ("s_mov_b32 s4, 0x10000\n s_ctz_i32_b32 s4, s4", 16, 0),
        ("s_mov_b32 s4, 7\n s_bcnt1_i32_b32 s4, s4", 3, 1),
        ("s_movk_i32 s4, 0xfff0", -16i32 as u32, 0),
        ("s_mov_b32 s4, 0x80\n s_sext_i32_i8 s4, s4", -128i32 as u32, 0),
        ("s_mov_b32 s4, 9\n s_cmp_gt_i32 s4, -1", 9, 1),
        ("s_mov_b32 s4, 9\n s_cmp_lt_u32 s4, 9", 9, 0),
    ];
    let gpu = Gpu::new("gfx1151");
    for (instructions, value, condition) in cases {
        // Comparing different constants clears the condition code first.
        let body = format!(
            "s_cmp_eq_u32 0, 1\n {instructions}\n s_cselect_b32 s5, 1, 0\n v_mov_b32 v10, s4\n v_mov_b32 v11, s5"
        );
        let [values, conditions] = execute(&gpu, &body, &integer_rows());
        assert_eq!((values[0], conditions[0]), (value, condition), "`{instructions}`");
    }
}

#[test]
fn scalar_floats_of_gfx11_5() {
    let gpu = Gpu::new("gfx1151");
    let body = "s_mov_b32 s4, 3.0\n s_mul_f32 s4, s4, 0x3f400000\n s_add_f32 s4, s4, 0.5\n s_mov_b32 s5, 7\n s_cvt_f32_u32 s5, s5\n s_fmac_f32 s5, s4, s4\n v_mov_b32 v10, s4\n v_mov_b32 v11, s5";
    let [a, b] = execute(&gpu, body, &integer_rows());
    assert_eq!([f(a[0]), f(b[0])], [2.75, 7.0 + 2.75 * 2.75]);
}

#[test]
fn sixty_four_bit_scalars_of_gfx12() {
    let gpu = Gpu::new("gfx1201");
    let body = "s_mov_b32 s4, -1\n s_mov_b32 s5, 3\n s_mov_b32 s6, 5\n s_mov_b32 s7, 0\n s_mul_u64 s[8:9], s[4:5], s[6:7]\n s_add_nc_u64 s[8:9], s[8:9], s[4:5]\n v_mov_b32 v10, s8\n v_mov_b32 v11, s9";
    let [low, high] = execute(&gpu, body, &integer_rows());
    let x = 0x3_FFFF_FFFFu64;
    assert_eq!(u64::from(low[0]) | u64::from(high[0]) << 32, x * 6);
}

#[test]
fn exec_masks_nest() {
    let gpu = Gpu::new("gfx1151");
    let body = "v_cmp_gt_u32 vcc_lo, 16, v1\n s_and_saveexec_b32 s4, vcc_lo\n v_mov_b32 v10, 1\n s_xor_b32 exec_lo, exec_lo, s4\n v_mov_b32 v10, 2\n s_or_b32 exec_lo, exec_lo, s4\n v_add_nc_u32 v10, 10, v10";
    let rows: Rows = std::array::from_fn(|_| std::array::from_fn(|lane| lane as u32));
    let [values, _] = execute(&gpu, body, &rows);
    assert_eq!(values, std::array::from_fn(|lane| if lane < 16 { 11 } else { 12 }));
}

#[test]
fn dual_instructions_both_read_before_either_writes() {
    let gpu = Gpu::new("gfx1151");
    let rows: Rows = std::array::from_fn(|row| std::array::from_fn(|lane| (row * 100 + lane) as u32));
    let body = "v_mov_b32 v10, v1\n v_mov_b32 v11, v2\n v_dual_mov_b32 v10, v11 :: v_dual_mov_b32 v11, v10";
    assert_eq!(execute(&gpu, body, &rows), [rows[1], rows[0]]);
}

#[test]
fn lds_holds_bytes_halves_and_pairs() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows = integer_rows();
        let body = "v_lshlrev_b32 v5, 3, v0\n  ds_store_2addr_b32 v5, v1, v2 offset1:1\n ds_load_u8 v10, v5 offset:3\n ds_load_i16 v11, v5 offset:4";
        let [byte, half] = execute(&gpu, body, &rows);
        for lane in 0..32 {
            assert_eq!(byte[lane], rows[0][lane] >> 24, "{target}");
            assert_eq!(half[lane], rows[1][lane] as i16 as u32, "{target}");
        }
    }
}

#[test]
fn lds_atomics_of_all_lanes_add_up() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows: Rows = std::array::from_fn(|_| std::array::from_fn(|lane| lane as u32));
        let body = "v_mov_b32 v5, 0\n ds_store_b32 v5, v5\n ds_add_u32 v5, v1\n ds_add_rtn_u32 v11, v5, v1\n ds_load_b32 v10, v5";
        let [sum, before] = execute(&gpu, body, &rows);
        assert_eq!((sum[0], before[0], before[31]), (992, 496, 496 + 465), "{target}");
    }
}

#[test]
fn unaligned_and_partial_accesses_of_memory() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows = integer_rows();
        let body = "global_load_b32 v10, v0, s[0:1] offset:2\n global_load_d16_hi_b16 v11, v0, s[0:1] offset:128\n global_store_b8 v0, v1, s[2:3] offset:1\n";
        let [shifted, upper] = execute(&gpu, body, &rows);
        for lane in 0..32 {
            let next = rows.as_flattened()[lane + 1];
            assert_eq!(shifted[lane], rows[0][lane] >> 16 | next << 16, "{target}");
            assert_eq!(upper[lane], rows[1][lane] << 16, "{target}");
        }
    }
}

#[test]
fn scalar_halves_have_constants_of_their_type() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let body = "s_mov_b32 s4, 0x4200\n s_add_f16 s5, s4, 1.0\n s_mul_f16 s6, 0.5, s4\n v_mov_b32 v10, s5\n v_mov_b32 v11, s6";
        let [sum, product] = execute(&gpu, body, &integer_rows());
        assert_eq!([h(sum[0]).to_f32(), h(product[0]).to_f32()], [4.0, 1.5], "{target}");
        let body = "s_cvt_f32_f16 s5, 2.0\n s_sub_f16 s6, s4, 0x4000\n v_mov_b32 v10, s5\n v_mov_b32 v11, s6";
        let [wide, difference] = execute(&gpu, &format!("s_mov_b32 s4, 0x4200\n {body}"), &integer_rows());
        assert_eq!([f(wide[0]), h(difference[0]).to_f32()], [2.0, 1.0], "{target}");
    }
}

#[test]
fn a_constant_of_a_pair_of_halves_is_the_lower_one() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows: Rows = std::array::from_fn(|_| [0x4200_4000; 32]);
        let body = "v_mov_b32 v3, 0\n v_dot2_f32_f16 v10, v1, 1.0, v3\n v_dot2_f32_bf16 v11, v1, 1.0, v3";
        let [halves, bf16s] = execute(&gpu, body, &rows);
        assert_eq!([f(halves[0]), f(bf16s[0])], [2.0, 2.0], "{target}: 0x4000 is 2 in both");
    }
}

#[test]
fn groups_of_eight_write_zero_where_the_source_is_inactive() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows: Rows = std::array::from_fn(|_| [7; 32]);
        let body = "v_mov_b32 v10, 9\n v_mov_b32 v11, 9\n s_mov_b32 exec_lo, 1\n v_mov_b32_dpp v10, v1 dpp8:[1,0,3,2,5,4,7,6]\n v_mov_b32_dpp v11, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf";
        let [eight, four] = execute(&gpu, body, &rows);
        assert_eq!((eight[0], four[0], eight[1]), (0, 9, 9), "{target}");
    }
}

#[test]
fn lanes_send_values_and_take_them_by_a_selector_of_their_own() {
    let rows: Rows = std::array::from_fn(|row| std::array::from_fn(|lane| (row * 100 + lane) as u32));
    let lane = "v_lshrrev_b32 v5, 2, v0\n v_xor_b32 v5, 3, v5\n";
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let send = format!(
            "{lane} v_lshlrev_b32 v5, 2, v5\n ds_permute_b32 v10, v5, v1\n s_mov_b32 s4, 77\n v_writelane_b32 v11, s4, 5"
        );
        let [sent, written] = execute(&gpu, &send, &rows);
        assert_eq!(sent, std::array::from_fn(|lane| lane as u32 ^ 3), "{target}");
        assert_eq!(written, std::array::from_fn(|lane| if lane == 5 { 77 } else { 0 }), "{target}");
    }
    let gpu = Gpu::new("gfx1201");
    let take = format!("{lane} v_permlane16_var_b32 v10, v1, v5\n v_permlanex16_var_b32 v11, v1, v5");
    let [same, other] = execute(&gpu, &take, &rows);
    assert_eq!(same, std::array::from_fn(|lane| lane as u32 ^ 3));
    assert_eq!(other, std::array::from_fn(|lane| lane as u32 ^ 19));
}

#[test]
fn a_call_comes_back() {
    let gpu = Gpu::new("gfx1151");
    let body = "s_getpc_b64 s[4:5]\n.Lhere:\n s_add_u32 s4, s4, .Lcallee-.Lhere\n s_addc_u32 s5, s5, 0\n s_swappc_b64 s[6:7], s[4:5]\n v_add_nc_u32 v10, 1, v10\n s_branch .Lback\n.Lcallee:\n v_mov_b32 v10, 41\n s_setpc_b64 s[6:7]\n.Lback:";
    assert_eq!(execute(&gpu, body, &integer_rows())[0], [42; 32]);
}

#[test]
fn conversions_towards_zero_never_grow() {
    for target in ["gfx1151", "gfx1201"] {
        let gpu = Gpu::new(target);
        let rows: Rows = [[1.0009f32, 65535.0], [-1.0009, 2.9e-8], [0.0; 2], [0.0; 2]]
            .map(|pair| std::array::from_fn(|lane| pair[lane % 2].to_bits()));
        let [vector, _] = execute(&gpu, "v_cvt_pk_rtz_f16_f32 v10, v1, v2", &rows);
        assert_eq!([vector[0], vector[1]], [0xBC00_3C00, 0x0000_7BFF], "{target}");
        let scalar = "s_mov_b32 s4, 0x3f801d7e\n s_cvt_pk_rtz_f16_f32 s5, s4, 1.0\n v_mov_b32 v10, s5\n s_fmaak_f32 s6, 2.0, s4, 0x40400000\n s_fmamk_f32 s7, s4, 0x40000000, s4\n v_sub_f32 v11, s6, s7";
        let [packed, difference] = execute(&gpu, scalar, &rows);
        let x = f(0x3F80_1D7E);
        assert_eq!((packed[0], f(difference[0])), (0x3C00_3C00, x.mul_add(2.0, 3.0) - x.mul_add(2.0, x)), "{target}");
    }
}

#[test]
fn waits_and_hints_change_nothing_and_are_counted_as_idle() {
    let gpu = Gpu::new("gfx1151");
    let hints = "s_nop 1\n v_nop\n s_sleep 1\n s_setprio 1\n s_icache_inv\n s_clause 0x1\n s_delay_alu instid0(VALU_DEP_1)\n s_waitcnt vmcnt(0)\n s_waitcnt_vscnt null, 0x0\n s_set_inst_prefetch_distance 0x1\n s_round_mode 0x0\n s_getreg_b32 s4, hwreg(HW_REG_SHADER_CYCLES)";
    let rows = integer_rows();
    assert_eq!(execute(&gpu, &format!("v_mov_b32 v10, v1\n {hints}"), &rows)[0], rows[0]);
    assert_eq!(gpu.counter(c"idle"), 10);
}
