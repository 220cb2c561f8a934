//! Do loads, stores and atomics move the bytes that their names say, in device memory, LDS and through flat addresses?

use crate::support::{Gpu, Random, execute};

type Rows = [[u32; 32]; 4];
/// What memory holds afterwards, from what it held and the operand.
type Update = fn(u32, u32) -> u32;
/// A register after a load, from what it held and the word that was loaded.
type Loaded = fn(u32, u32) -> u32;

const TARGETS: [&str; 2] = ["gfx1151", "gfx1201"];

fn rows() -> Rows {
    const SPECIAL: [u32; 8] = [0, 1, 7, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x8080_8080, 5];
    let mut random = Random::new(21);
    std::array::from_fn(|row| {
        std::array::from_fn(|lane| if lane < 8 { SPECIAL[(lane + 3 * row) % 8] } else { random.next_u32() })
    })
}

const UPDATES: [(&str, Update); 12] = [
    ("add_u32", u32::wrapping_add),
    ("sub_u32", u32::wrapping_sub),
    ("and_b32", |a, b| a & b),
    ("or_b32", |a, b| a | b),
    ("xor_b32", |a, b| a ^ b),
    ("min_i32", |a, b| (a as i32).min(b as i32) as u32),
    ("max_i32", |a, b| (a as i32).max(b as i32) as u32),
    ("min_u32", u32::min),
    ("max_u32", u32::max),
    ("inc_u32", |a, b| if a >= b { 0 } else { a + 1 }),
    ("dec_u32", |a, b| if a == 0 || a > b { b } else { a - 1 }),
    ("add_f32", |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits()),
];

fn is_same(name: &str, a: u32, b: u32) -> bool {
    a == b || (name.ends_with("f32") && f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan())
}

/// Runs instructions that leave the old value in `v10` and the new one in `v11`; memory held `v2`, the operand is `v1`.
fn check_update(target: &str, name: &str, body: &str, update: Update) {
    let (gpu, rows) = (Gpu::new(target), rows());
    let [old, new] = execute(&gpu, body, &rows);
    for lane in 0..32 {
        assert_eq!(old[lane], rows[1][lane], "{target} {name} returns what was there");
        let expected = update(rows[1][lane], rows[0][lane]);
        let (b, a) = (rows[0][lane], rows[1][lane]);
        assert!(is_same(name, new[lane], expected), "{target} {name} of {a:#x} and {b:#x}: {:#x}", new[lane]);
    }
}

#[test]
fn atomics_on_device_memory_return_the_old_value_and_leave_the_new_one() {
    for target in TARGETS {
        let returning = if target == "gfx1151" { "glc" } else { "th:TH_ATOMIC_RETURN" };
        for (name, update) in UPDATES.into_iter().chain([("swap_b32", (|_, b| b) as Update)]) {
            let body = format!(
                "global_store_b32 v0, v2, s[2:3]\n global_atomic_{name} v10, v0, v1, s[2:3] {returning}\n global_load_b32 v11, v0, s[2:3]"
            );
            check_update(target, name, &body, update);
        }
    }
}

#[test]
fn atomics_on_lds_return_the_old_value_and_leave_the_new_one() {
    for target in TARGETS {
        for (name, update) in UPDATES.into_iter().chain([("storexchg_b32", (|_, b| b) as Update)]) {
            let (operation, width) = name.rsplit_once('_').unwrap();
            let body = format!("ds_store_b32 v0, v2\n ds_{operation}_rtn_{width} v10, v0, v1\n ds_load_b32 v11, v0");
            check_update(target, name, &body, update);
        }
    }
}

#[test]
fn a_value_is_exchanged_only_where_it_is_the_expected_one() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let mut rows = rows();
        // The expected value, v4, is what is there, v2, in odd lanes only.
        rows[3] = std::array::from_fn(|lane| if lane % 2 == 1 { rows[1][lane] } else { rows[1][lane] ^ 1 });
        let returning = if target == "gfx1151" { "glc" } else { "th:TH_ATOMIC_RETURN" };
        let device = format!(
            "global_store_b32 v0, v2, s[2:3]\n global_atomic_cmpswap_b32 v10, v0, v[3:4], s[2:3] {returning}\n global_load_b32 v11, v0, s[2:3]"
        );
        let lds = "ds_store_b32 v0, v2\n ds_cmpstore_rtn_b32 v10, v0, v3, v4\n ds_load_b32 v11, v0";
        for body in [device.as_str(), lds] {
            let [old, new] = execute(&gpu, body, &rows);
            assert_eq!(old, rows[1], "{target} {body}");
            let expected = std::array::from_fn(|lane| if lane % 2 == 1 { rows[2][lane] } else { rows[1][lane] });
            assert_eq!(new, expected, "{target} {body}");
        }
    }
}

const LOADS: [(&str, Loaded); 11] = [
    ("b32", |_, x| x),
    ("u8", |_, x| x & 0xFF),
    ("i8", |_, x| x as i8 as u32),
    ("u16", |_, x| x & 0xFFFF),
    ("i16", |_, x| x as i16 as u32),
    ("d16_b16", |old, x| (old & 0xFFFF_0000) | (x & 0xFFFF)),
    ("d16_hi_b16", |old, x| (old & 0xFFFF) | x << 16),
    ("d16_u8", |old, x| (old & 0xFFFF_0000) | (x & 0xFF)),
    ("d16_i8", |old, x| (old & 0xFFFF_0000) | (x as i8 as u32 & 0xFFFF)),
    ("d16_hi_u8", |old, x| (old & 0xFFFF) | (x & 0xFF) << 16),
    ("d16_hi_i8", |old, x| (old & 0xFFFF) | (x as i8 as u32) << 16),
];

#[test]
fn loads_extend_and_place_what_they_load() {
    for target in TARGETS {
        for (name, loaded) in LOADS {
            let (gpu, rows) = (Gpu::new(target), rows());
            // LDS names its 16-bit loads otherwise.
            let lds_name = match name.strip_prefix("d16_hi_") {
                Some("b16") => "u16_d16_hi".to_string(),
                Some(part) => format!("{part}_d16_hi"),
                None => match name.strip_prefix("d16_") {
                    Some("b16") => "u16_d16".to_string(),
                    Some(part) => format!("{part}_d16"),
                    None => name.to_string(),
                },
            };
            let body = format!(
                "v_mov_b32 v10, v2\n v_mov_b32 v11, v2\n global_load_{name} v10, v0, s[0:1]\n ds_store_b32 v0, v1\n ds_load_{lds_name} v11, v0"
            );
            let [device, lds] = execute(&gpu, &body, &rows);
            let expected: [u32; 32] = std::array::from_fn(|lane| loaded(rows[1][lane], rows[0][lane]));
            assert_eq!((device, lds), (expected, expected), "{target} {name}");
        }
    }
}

#[test]
fn stores_of_parts_leave_the_rest() {
    let cases: [(&str, Loaded); 4] = [
        ("b8", |old, x| (old & 0xFFFF_FF00) | (x & 0xFF)),
        ("b16", |old, x| (old & 0xFFFF_0000) | (x & 0xFFFF)),
        ("d16_hi_b8", |old, x| (old & 0xFFFF_FF00) | (x >> 16 & 0xFF)),
        ("d16_hi_b16", |old, x| (old & 0xFFFF_0000) | x >> 16),
    ];
    for target in TARGETS {
        for (name, stored) in cases {
            let (gpu, rows) = (Gpu::new(target), rows());
            let lds_name = name.strip_prefix("d16_hi_").map_or(name.to_string(), |part| format!("{part}_d16_hi"));
            let body = format!(
                "global_store_b32 v0, v2, s[2:3]\n global_store_{name} v0, v1, s[2:3]\n global_load_b32 v10, v0, s[2:3]\n ds_store_b32 v0, v2\n ds_store_{lds_name} v0, v1\n ds_load_b32 v11, v0"
            );
            let [device, lds] = execute(&gpu, &body, &rows);
            let expected: [u32; 32] = std::array::from_fn(|lane| stored(rows[1][lane], rows[0][lane]));
            assert_eq!((device, lds), (expected, expected), "{target} {name}");
        }
    }
}

#[test]
fn several_words_keep_their_order() {
    for target in TARGETS {
        for (width, count) in [("b64", 2), ("b96", 3), ("b128", 4)] {
            let (gpu, rows) = (Gpu::new(target), rows());
            let last = 16 + count - 1;
            // One lane's words are its neighbours' first ones; in LDS, lanes are 16 bytes apart.
            let device = format!(
                "s_mov_b32 exec_lo, 0xffff\n global_load_{width} v[16:{last}], v0, s[0:1]\n v_mov_b32 v10, v{last}\n v_mov_b32 v11, v16"
            );
            let [high, low] = execute(&gpu, &device, &rows);
            for lane in 0..16 {
                assert_eq!((high[lane], low[lane]), (rows[0][lane + count - 1], rows[0][lane]), "{target} {width}");
            }
            let lds = format!(
                "v_lshlrev_b32 v5, 2, v0\n v_mov_b32 v16, v1\n v_mov_b32 v17, v2\n v_mov_b32 v18, v3\n v_mov_b32 v19, v4\n ds_store_{width} v5, v[16:{last}]\n ds_load_{width} v[24:{}], v5\n v_mov_b32 v10, v{}\n v_mov_b32 v11, v24",
                24 + count - 1,
                24 + count - 1
            );
            let [high, low] = execute(&gpu, &lds, &rows);
            assert_eq!((high, low), (rows[count - 1], rows[0]), "{target} {width}");
        }
    }
}

#[test]
fn flat_addresses_reach_device_memory() {
    for target in TARGETS {
        let (gpu, rows) = (Gpu::new(target), rows());
        let body = "v_mov_b32 v6, s1\n v_add_co_u32 v5, vcc_lo, s0, v0\n v_add_co_ci_u32_e32 v6, vcc_lo, 0, v6, vcc_lo\n flat_load_b32 v10, v[5:6] offset:128\n flat_load_i16 v11, v[5:6]";
        let [word, half] = execute(&gpu, body, &rows);
        assert_eq!(word, rows[1], "{target}");
        assert_eq!(half, rows[0].map(|x| x as i16 as u32), "{target}");
    }
}
