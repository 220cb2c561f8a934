//! What do the matrix instructions compute? `v_wmma`: D = A B + C for a 16 x 16 tile by a whole wave, with the layouts of
//! gfx11 and gfx12 in registers.
//!
//! A and B: lane `l` holds row `l % 16` of A and column `l % 16` of B, as consecutive elements along k. On gfx11 each of
//! the two halves of the wave holds all of k, and both must hold the same; on gfx12 the lower half has the first half
//! of k, the upper half the rest. C and D: lane `l` has column `l % 16`; register `i` has row `2i + l / 16` on gfx11, row
//! `i + 8 (l / 16)` on gfx12.

use super::lane_ops::half_to_f32;
use super::operands::{Kind, Source};
use super::{Context, Step};
use crate::asm::Line;
use crate::fault::Trap;
use crate::target::Generation;
use crate::wave::{FULL, Flow, NUM_LANES, Wave};

const SIZE: usize = 16;

/// Elements along k for each row (of A) or column (of B): `tile[k][row]`.
type Tile<T> = [[T; SIZE]; SIZE];

/// The element in the low bits of a word.
trait Decode<T>: Fn(u32) -> T + Copy + Send + Sync + 'static {}
impl<T, F: Fn(u32) -> T + Copy + Send + Sync + 'static> Decode<T> for F {}

pub fn build(line: &mut Line, context: &Context<'_>) -> Result<Option<Step>, String> {
    let generation = context.generation;
    match line.mnemonic.as_str() {
        "v_wmma_f32_16x16x16_f16" => floats(line, generation, |word: u32| half_to_f32(word as u16)).map(Some),
        "v_wmma_f32_16x16x16_bf16" => floats(line, generation, |word: u32| f32::from_bits(word << 16)).map(Some),
        "v_wmma_i32_16x16x16_iu8" => {
            let (signed, unsigned) = (|word: u32| i32::from(word as i8), |word: u32| i32::from(word as u8));
            integers_by_sign::<8>(line, generation, signed, unsigned).map(Some)
        }
        _ => Ok(None),
    }
}

/// Registers of D, A and B, and C, which can be a constant.
struct Operands {
    d: usize,
    a: usize,
    b: usize,
    c: [Source; 8],
}

impl Operands {
    fn new(line: &Line, kind: Kind) -> Result<Operands, String> {
        let operand = line.operand(3)?;
        let c = match line.vector_register(3) {
            Ok(first) => std::array::from_fn(|i| Source::vector(first + i)),
            Err(_) => {
                let bits = super::operands::literal(&operand.place, kind)? as u32;
                std::array::from_fn(|_| Source::constant(bits))
            }
        };
        Ok(Operands { d: line.vector_register(0)?, a: line.vector_register(1)?, b: line.vector_register(2)?, c })
    }

    /// gfx11 writes rows of D before it has read all of A and B, of `num_words` registers each.
    fn check_overlap(&self, generation: Generation, num_words: usize) -> Result<(), String> {
        let overlaps = |first: usize| first < self.d + 8 && self.d < first + num_words;
        match generation {
            Generation::Gfx11 if overlaps(self.a) || overlaps(self.b) => {
                Err("D in registers of A or B, which gfx11 reads while it writes D".to_string())
            }
            _ => Ok(()),
        }
    }
}

fn floats(line: &mut Line, generation: Generation, decode: impl Decode<f32>) -> Result<Step, String> {
    let operands = Operands::new(line, Kind::F32)?;
    operands.check_overlap(generation, num_words::<16>(generation))?;
    Ok(Box::new(move |wave, _| {
        check_all_active(wave)?;
        let a = tile::<16, f32>(wave, operands.a, decode, generation, "A")?;
        let b = tile::<16, f32>(wave, operands.b, decode, generation, "B")?;
        let mut c = read_rows(wave, &operands.c, generation).map(|row| row.map(f32::from_bits));
        for (row, sums) in c.iter_mut().enumerate() {
            for k in 0..SIZE {
                for column in 0..SIZE {
                    sums[column] = a[k][row].mul_add(b[k][column], sums[column]);
                }
            }
        }
        write_rows(wave, operands.d, &c.map(|row| row.map(f32::to_bits)), generation);
        Ok(Flow::Next)
    }))
}

/// `neg_lo` says which of A and B are signed.
fn integers_by_sign<const BITS: usize>(
    line: &mut Line,
    generation: Generation,
    signed: impl Decode<i32>,
    unsigned: impl Decode<i32>,
) -> Result<Step, String> {
    match line.take_bits("neg_lo").unwrap_or(0) & 0b11 {
        0b00 => integers::<BITS>(line, generation, unsigned, unsigned),
        0b01 => integers::<BITS>(line, generation, signed, unsigned),
        0b10 => integers::<BITS>(line, generation, unsigned, signed),
        _ => integers::<BITS>(line, generation, signed, signed),
    }
}

fn integers<const BITS: usize>(
    line: &mut Line,
    generation: Generation,
    decode_a: impl Decode<i32>,
    decode_b: impl Decode<i32>,
) -> Result<Step, String> {
    let clamp = line.take_flag("clamp");
    let operands = Operands::new(line, Kind::B32)?;
    operands.check_overlap(generation, num_words::<BITS>(generation))?;
    Ok(Box::new(move |wave, _| {
        check_all_active(wave)?;
        let a = tile::<BITS, f32>(wave, operands.a, move |word: u32| decode_a(word) as f32, generation, "A")?;
        let b = tile::<BITS, f32>(wave, operands.b, move |word: u32| decode_b(word) as f32, generation, "B")?;
        let mut c = read_rows(wave, &operands.c, generation);
        for (row, sums) in c.iter_mut().enumerate() {
            // Sums of 16 products of bytes lie within 2^20, so they are exact in f32, which multiplies faster.
            let mut products = [0.0f32; SIZE];
            for k in 0..SIZE {
                for column in 0..SIZE {
                    products[column] = a[k][row].mul_add(b[k][column], products[column]);
                }
            }
            for (sum, product) in sums.iter_mut().zip(products.map(to_integer)) {
                *sum =
                    if clamp { (*sum as i32).saturating_add(product) as u32 } else { sum.wrapping_add(product as u32) };
            }
        }
        write_rows(wave, operands.d, &c, generation);
        Ok(Flow::Next)
    }))
}

/// A whole number within 2^22 as an integer: adding this float leaves it in the low bits, which is quicker than a conversion
/// that has to think of everything else.
#[inline(always)]
fn to_integer(x: f32) -> i32 {
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i32
}

fn check_all_active(wave: &Wave) -> Result<(), Box<Trap>> {
    if wave.exec() != FULL {
        let exec = wave.exec();
        return Err(Trap::new(format!(
            "a matrix instruction needs all 32 lanes, and the active ones are {exec:#010x}"
        )));
    }
    Ok(())
}

/// Registers that hold A or B, of elements of `BITS` bits.
fn num_words<const BITS: usize>(generation: Generation) -> usize {
    match generation {
        Generation::Gfx11 => SIZE * BITS / 32,
        Generation::Gfx12 => SIZE * BITS / 64,
    }
}

/// The elements of A or B, of `BITS` bits, from the registers at `first`.
#[inline]
fn tile<const BITS: usize, T: Copy + Default>(
    wave: &Wave,
    first: usize,
    decode: impl Decode<T>,
    generation: Generation,
    name: &str,
) -> Result<Tile<T>, Box<Trap>> {
    let per_word = 32 / BITS;
    let mut tile = [[T::default(); SIZE]; SIZE];
    for word in 0..num_words::<BITS>(generation) {
        let (lower, upper) = wave.vgprs[first + word].split_at(SIZE);
        if generation == Generation::Gfx11 && lower != upper {
            return Err(replication_fault(lower, upper, first + word, name));
        }
        for part in 0..per_word {
            let k = word * per_word + part;
            for row in 0..SIZE {
                tile[k][row] = decode(lower[row] >> (part * BITS));
            }
            if generation == Generation::Gfx12 {
                for row in 0..SIZE {
                    tile[k + SIZE / 2][row] = decode(upper[row] >> (part * BITS));
                }
            }
        }
    }
    Ok(tile)
}

fn replication_fault(lower: &[u32], upper: &[u32], register: usize, name: &str) -> Box<Trap> {
    let lane = (0..SIZE).find(|lane| lower[*lane] != upper[*lane]).unwrap_or(0);
    Trap::new(format!(
        "on gfx11 lanes 16 to 31 must hold the same rows of {name} as lanes 0 to 15; in v{register} lane {} has {:#010x} and lane {lane} {:#010x}",
        lane + SIZE,
        upper[lane],
        lower[lane],
    ))
}

/// The two rows of C or D that register `i` holds, in its lower and its upper lanes.
fn rows_of(register: usize, generation: Generation) -> (usize, usize) {
    match generation {
        Generation::Gfx11 => (2 * register, 2 * register + 1),
        Generation::Gfx12 => (register, register + 8),
    }
}

fn read_rows(wave: &Wave, sources: &[Source; 8], generation: Generation) -> Tile<u32> {
    let mut rows = [[0; SIZE]; SIZE];
    for (register, source) in sources.iter().enumerate() {
        let mut buffer = [0; NUM_LANES];
        let (lower, upper) = source.read(wave, &mut buffer).split_at(SIZE);
        let (first, second) = rows_of(register, generation);
        rows[first].copy_from_slice(lower);
        rows[second].copy_from_slice(upper);
    }
    rows
}

fn write_rows(wave: &mut Wave, target: usize, rows: &Tile<u32>, generation: Generation) {
    for register in 0..8 {
        let (first, second) = rows_of(register, generation);
        let (lower, upper) = wave.vgprs[target + register].split_at_mut(SIZE);
        lower.copy_from_slice(&rows[first]);
        upper.copy_from_slice(&rows[second]);
    }
}
