//! How do lanes reach device memory? `global_*`, `flat_*` and `scratch_*` loads, stores and atomics. A wave's accesses are
//! checked together where one allocation holds them all, and lane by lane where not.

use super::operands::{PRIVATE_APERTURE, SHARED_APERTURE};
use super::{Context, Outcome, Step};
use crate::asm::{Line, NULL, Place};
use crate::fault::Trap;
use crate::memory::Allocation;
use crate::wave::{Flow, NUM_LANES, Wave, lanes_of};
use crate::workgroup::Workgroup;
use half::{bf16, f16};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone, Copy, PartialEq)]
enum Space {
    Global,
    /// Device memory, LDS or private memory, told apart by the upper half of each address.
    Flat,
    Scratch,
}

/// What an access moves between memory and registers.
#[derive(Clone, Copy, PartialEq)]
pub enum Transfer {
    Words(usize),
    /// Bytes in memory, whether the sign is extended, and which half of a register it is (`None`: all of it).
    Part {
        len: usize,
        is_signed: bool,
        half: Option<u32>,
    },
}

impl Transfer {
    pub fn num_bytes(self) -> usize {
        match self {
            Transfer::Words(count) => 4 * count,
            Transfer::Part { len, .. } => len,
        }
    }

    /// The type at the end of a load's or store's name.
    pub fn named(name: &str) -> Option<Transfer> {
        let part = |len, is_signed, half| Some(Transfer::Part { len, is_signed, half });
        match name {
            "b32" => Some(Transfer::Words(1)),
            "b64" => Some(Transfer::Words(2)),
            "b96" => Some(Transfer::Words(3)),
            "b128" => Some(Transfer::Words(4)),
            "u8" | "b8" => part(1, false, None),
            "i8" => part(1, true, None),
            "u16" | "b16" => part(2, false, None),
            "i16" => part(2, true, None),
            "d16_u8" | "u8_d16" => part(1, false, Some(0)),
            "d16_i8" | "i8_d16" => part(1, true, Some(0)),
            "d16_b16" | "u16_d16" => part(2, false, Some(0)),
            "d16_hi_u8" | "u8_d16_hi" | "d16_hi_b8" | "b8_d16_hi" => part(1, false, Some(1)),
            "d16_hi_i8" | "i8_d16_hi" => part(1, true, Some(1)),
            "d16_hi_b16" | "u16_d16_hi" | "b16_d16_hi" => part(2, false, Some(1)),
            _ => None,
        }
    }

    /// The register's new value after a load of less than a word.
    pub fn merge(self, old: u32, loaded: u32) -> u32 {
        let Transfer::Part { len, is_signed, half } = self else { return loaded };
        let extended = match (len, is_signed) {
            (1, false) => loaded & 0xFF,
            (1, true) => loaded as i8 as u32,
            (_, false) => loaded & 0xFFFF,
            (_, true) => loaded as i16 as u32,
        };
        match half {
            None => extended,
            Some(0) => (old & 0xFFFF_0000) | (extended & 0xFFFF),
            Some(_) => (old & 0xFFFF) | extended << 16,
        }
    }

    /// The part of a register that a store of less than a word writes.
    pub fn stored(self, register: u32) -> u32 {
        match self {
            Transfer::Part { half: Some(1), .. } => register >> 16,
            _ => register,
        }
    }
}

/// Where the lanes' addresses come from: `vector + scalar + offset`, each part optional.
#[derive(Clone, Copy)]
struct Address {
    space: Space,
    vector: Option<usize>,
    /// The vector part is a whole address of 64 bits.
    is_wide: bool,
    scalar: Option<usize>,
    offset: i64,
}

impl Address {
    /// `vaddr` and `saddr` are at these places of the operand list; flat accesses have no `saddr`.
    fn take(line: &mut Line, space: Space, vaddr: usize, saddr: usize) -> Result<Address, String> {
        let offset = line.take_number("offset")?;
        let vector = match line.operand(vaddr)?.place {
            Place::Off => None,
            _ => Some(line.vector_register(vaddr)?),
        };
        let scalar = match line.operands.get(saddr).map(|operand| &operand.place) {
            None | Some(Place::Off | Place::Scalar(NULL)) => None,
            Some(_) => Some(line.scalar_register(saddr)?),
        };
        Ok(Address { space, vector, is_wide: space != Space::Scratch && scalar.is_none(), scalar, offset })
    }

    #[inline]
    fn lanes(&self, wave: &Wave) -> [u64; NUM_LANES] {
        let scalar = match (self.scalar, self.space) {
            (None, _) => 0,
            (Some(register), Space::Scratch) => u64::from(wave.sgprs[register]),
            (Some(register), _) => wave.scalar64(register),
        };
        let base = scalar.wrapping_add_signed(self.offset);
        let mut addresses = [base; NUM_LANES];
        if let Some(register) = self.vector {
            let low = &wave.vgprs[register];
            for lane in 0..NUM_LANES {
                addresses[lane] = base.wrapping_add(u64::from(low[lane]));
            }
            if self.is_wide {
                let high = &wave.vgprs[register + 1];
                for lane in 0..NUM_LANES {
                    addresses[lane] = addresses[lane].wrapping_add(u64::from(high[lane]) << 32);
                }
            }
        }
        if self.space == Space::Scratch {
            addresses.iter_mut().for_each(|address| *address = (*address & 0xFFFF_FFFF) | PRIVATE_APERTURE << 32);
        }
        addresses
    }
}

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let mnemonic = line.mnemonic.clone();
    let Some((space, rest)) = mnemonic.split_once('_') else { return Ok(None) };
    let space = match space {
        "global" => Space::Global,
        "flat" => Space::Flat,
        "scratch" => Space::Scratch,
        _ => return Ok(None),
    };
    if let Some(transfer) = rest.strip_prefix("load_").and_then(Transfer::named) {
        return load(line, space, transfer).map(Some);
    }
    if let Some(transfer) = rest.strip_prefix("store_").and_then(Transfer::named) {
        return store(line, space, transfer).map(Some);
    }
    match rest.strip_prefix("atomic_") {
        Some(name) if space != Space::Scratch => atomic(line, space, name),
        _ => Ok(None),
    }
}

fn load(line: &mut Line, space: Space, transfer: Transfer) -> Result<Step, String> {
    let target = line.vector_register(0)?;
    let address = Address::take(line, space, 1, 2)?;
    Ok(match (space, transfer) {
        (Space::Global, Transfer::Words(1)) => {
            Box::new(move |wave, group| load_words::<1>(wave, group, &address, target))
        }
        (Space::Global, Transfer::Words(2)) => {
            Box::new(move |wave, group| load_words::<2>(wave, group, &address, target))
        }
        (Space::Global, Transfer::Words(3)) => {
            Box::new(move |wave, group| load_words::<3>(wave, group, &address, target))
        }
        (Space::Global, Transfer::Words(4)) => {
            Box::new(move |wave, group| load_words::<4>(wave, group, &address, target))
        }
        (Space::Global, _) => Box::new(move |wave, group| load_parts(wave, group, &address, target, transfer)),
        _ => Box::new(move |wave, group| load_anywhere(wave, group, &address, target, transfer)),
    })
}

/// Accesses of a wave that all lie in one allocation.
struct Common<'a> {
    allocation: &'a Allocation,
    /// Each lane's byte offset in the allocation; 0 for inactive lanes.
    offsets: [u64; NUM_LANES],
}

/// Checks all active lanes, of which there is one at least, against the allocation that the first one hits.
#[inline]
fn common_allocation<'a>(
    wave: &mut Wave,
    group: &'a Workgroup<'_>,
    addresses: &[u64; NUM_LANES],
    len: u64,
) -> Option<Common<'a>> {
    let exec = wave.exec();
    let first = addresses[exec.trailing_zeros() as usize];
    let allocation = group.memory.find(first, len, &mut wave.last_allocation)?;
    let last_offset = allocation.size - len;
    let mut offsets = [0; NUM_LANES];
    let mut outside = 0;
    for lane in 0..NUM_LANES {
        let active = 0u64.wrapping_sub(u64::from(exec >> lane & 1));
        let offset = addresses[lane].wrapping_sub(allocation.base) & active;
        // One of the two has its highest bit set where the offset is negative or too large.
        outside |= offset | last_offset.wrapping_sub(offset);
        offsets[lane] = offset;
    }
    (outside >> 63 == 0).then_some(Common { allocation, offsets })
}

/// The allocation that one lane's access lies in, or the message that none does.
fn allocation_of<'a>(
    wave: &mut Wave,
    group: &'a Workgroup<'_>,
    verb: &str,
    address: u64,
    len: u64,
    lane: usize,
) -> Result<&'a Allocation, Box<Trap>> {
    group.note(&[address; NUM_LANES], 1, len, verb != "reads");
    match group.memory.find(address, len, &mut wave.last_allocation) {
        Some(allocation) => Ok(allocation),
        None => Err(group.memory.describe_miss(verb, address, len, Some(lane))),
    }
}

fn load_words<const N: usize>(wave: &mut Wave, group: &Workgroup<'_>, address: &Address, target: usize) -> Outcome {
    let exec = wave.exec();
    if exec == 0 {
        return Ok(Flow::Next);
    }
    wave.counts.bytes_read += u64::from(exec.count_ones()) * 4 * N as u64;
    let addresses = address.lanes(wave);
    group.note(&addresses, exec, 4 * N as u64, false);
    let mut words = [[0; NUM_LANES]; N];
    match common_allocation(wave, group, &addresses, 4 * N as u64) {
        Some(common) => words = common.allocation.gather(&common.offsets),
        None => {
            for lane in lanes_of(exec) {
                let allocation = allocation_of(wave, group, "reads", addresses[lane], 4 * N as u64, lane)?;
                for word in 0..N {
                    words[word][lane] = allocation.word(addresses[lane] - allocation.base + 4 * word as u64);
                }
            }
        }
    }
    for word in 0..N {
        wave.write_masked(target + word, &words[word], exec);
    }
    Ok(Flow::Next)
}

fn load_parts(wave: &mut Wave, group: &Workgroup<'_>, address: &Address, target: usize, transfer: Transfer) -> Outcome {
    let exec = wave.exec();
    if exec == 0 {
        return Ok(Flow::Next);
    }
    let addresses = address.lanes(wave);
    let len = transfer.num_bytes() as u64;
    wave.counts.bytes_read += u64::from(exec.count_ones()) * len;
    group.note(&addresses, exec, len, false);
    let mut merged = [0; NUM_LANES];
    match common_allocation(wave, group, &addresses, len) {
        Some(common) => [merged] = common.allocation.gather(&common.offsets),
        None => {
            for lane in lanes_of(exec) {
                let allocation = allocation_of(wave, group, "reads", addresses[lane], len, lane)?;
                merged[lane] = allocation.word(addresses[lane] - allocation.base);
            }
        }
    }
    for lane in 0..NUM_LANES {
        merged[lane] = transfer.merge(wave.vgprs[target][lane], merged[lane]);
    }
    wave.write_masked(target, &merged, exec);
    Ok(Flow::Next)
}

fn load_anywhere(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: &Address,
    target: usize,
    transfer: Transfer,
) -> Outcome {
    let addresses = address.lanes(wave);
    for lane in lanes_of(wave.exec()) {
        for word in 0..transfer.num_bytes().div_ceil(4) {
            let at = addresses[lane].wrapping_add(4 * word as u64);
            let value = read_anywhere(wave, group, at, transfer.num_bytes().min(4), lane)?;
            let register = &mut wave.vgprs[target + word][lane];
            *register = transfer.merge(*register, value);
        }
    }
    Ok(Flow::Next)
}

/// Reads up to a word from device memory, LDS or private memory.
fn read_anywhere(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: u64,
    len: usize,
    lane: usize,
) -> Result<u32, Box<Trap>> {
    match address >> 32 {
        SHARED_APERTURE => {
            let access = wave.lds_access()?;
            match len {
                1 => group.lds.load::<1>(address as u32, access, lane),
                2 => group.lds.load::<2>(address as u32, access, lane),
                _ => group.lds.load::<4>(address as u32, access, lane),
            }
        }
        PRIVATE_APERTURE => {
            let at = private_offset(wave, "reads", address as u32, len, lane)?;
            let mut word = [0; 4];
            word[..len].copy_from_slice(&wave.scratch[at..at + len]);
            Ok(u32::from_le_bytes(word))
        }
        _ => {
            let allocation = allocation_of(wave, group, "reads", address, len as u64, lane)?;
            Ok(allocation.word(address - allocation.base))
        }
    }
}

fn write_anywhere(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: u64,
    value: u32,
    len: usize,
    lane: usize,
) -> Result<(), Box<Trap>> {
    match address >> 32 {
        SHARED_APERTURE => {
            let access = wave.lds_access()?;
            match len {
                1 => group.lds.store::<1>(address as u32, value, access, lane),
                2 => group.lds.store::<2>(address as u32, value, access, lane),
                _ => group.lds.store::<4>(address as u32, value, access, lane),
            }
        }
        PRIVATE_APERTURE => {
            let at = private_offset(wave, "writes", address as u32, len, lane)?;
            wave.scratch[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            Ok(())
        }
        _ => {
            let allocation = allocation_of(wave, group, "writes", address, len as u64, lane)?;
            allocation.write(address - allocation.base, &value.to_le_bytes()[..len]);
            Ok(())
        }
    }
}

/// Where a lane's private byte lies in the wave's scratch memory.
fn private_offset(wave: &Wave, verb: &str, address: u32, len: usize, lane: usize) -> Result<usize, Box<Trap>> {
    let size = wave.scratch.len() / NUM_LANES;
    let at = address as usize;
    if at + len > size {
        return Err(Trap::new(format!(
            "lane {lane} {verb} {len} bytes at private address {at:#x}, and a lane has {size:#x} bytes"
        )));
    }
    Ok(lane * size + at)
}

fn store(line: &mut Line, space: Space, transfer: Transfer) -> Result<Step, String> {
    let source = line.vector_register(1)?;
    let address = Address::take(line, space, 0, 2)?;
    Ok(match (space, transfer) {
        (Space::Global, Transfer::Words(count)) => {
            Box::new(move |wave, group| store_words(wave, group, &address, source, count))
        }
        (Space::Global, _) => Box::new(move |wave, group| store_parts(wave, group, &address, source, transfer)),
        _ => Box::new(move |wave, group| store_anywhere(wave, group, &address, source, transfer)),
    })
}

fn store_words(wave: &mut Wave, group: &Workgroup<'_>, address: &Address, source: usize, count: usize) -> Outcome {
    let exec = wave.exec();
    if exec == 0 {
        return Ok(Flow::Next);
    }
    let addresses = address.lanes(wave);
    let len = 4 * count as u64;
    wave.counts.bytes_written += u64::from(exec.count_ones()) * len;
    group.note(&addresses, exec, len, true);
    let common = common_allocation(wave, group, &addresses, len);
    for lane in lanes_of(exec) {
        let allocation = match &common {
            Some(Common { allocation, .. }) => allocation,
            None => allocation_of(wave, group, "writes", addresses[lane], len, lane)?,
        };
        for word in 0..count {
            allocation.set_word(addresses[lane] - allocation.base + 4 * word as u64, wave.vgprs[source + word][lane]);
        }
    }
    Ok(Flow::Next)
}

fn store_parts(
    wave: &mut Wave,
    group: &Workgroup<'_>,
    address: &Address,
    source: usize,
    transfer: Transfer,
) -> Outcome {
    let exec = wave.exec();
    if exec == 0 {
        return Ok(Flow::Next);
    }
    let addresses = address.lanes(wave);
    let len = transfer.num_bytes() as u64;
    wave.counts.bytes_written += u64::from(exec.count_ones()) * len;
    group.note(&addresses, exec, len, true);
    let common = common_allocation(wave, group, &addresses, len);
    let mut lane = 0;
    while lane < NUM_LANES {
        if exec >> lane & 1 == 1 {
            let allocation = match &common {
                Some(Common { allocation, .. }) => allocation,
                None => allocation_of(wave, group, "writes", addresses[lane], len, lane)?,
            };
            let offset = addresses[lane] - allocation.base;
            let value = transfer.stored(wave.vgprs[source][lane]);
            // Neighbouring halves of one word, which is how rows are written, need no read of the word.
            let has_neighbour = len == 2
                && common.is_some()
                && offset.is_multiple_of(4)
                && lane + 1 < NUM_LANES
                && exec >> (lane + 1) & 1 == 1
                && addresses[lane + 1] == addresses[lane] + 2;
            if has_neighbour {
                lane += 1;
                allocation.set_aligned_pair(offset, value, transfer.stored(wave.vgprs[source][lane]));
            } else {
                allocation.set_part(offset, value, len);
            }
        }
        lane += 1;
    }
    Ok(Flow::Next)
}

fn store_anywhere(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: &Address,
    source: usize,
    transfer: Transfer,
) -> Outcome {
    let addresses = address.lanes(wave);
    for lane in lanes_of(wave.exec()) {
        for word in 0..transfer.num_bytes().div_ceil(4) {
            let at = addresses[lane].wrapping_add(4 * word as u64);
            let value = transfer.stored(wave.vgprs[source + word][lane]);
            write_anywhere(wave, group, at, value, transfer.num_bytes().min(4), lane)?;
        }
    }
    Ok(Flow::Next)
}

/// The new value of a word from the old one and the operand.
pub type Update = fn(u32, u32) -> u32;
type WideUpdate = fn(u64, u64) -> u64;

/// Updates of 32 bits, by the name that global and LDS atomics share.
pub fn update_named(name: &str) -> Option<Update> {
    Some(match name {
        "add_u32" => u32::wrapping_add,
        "sub_u32" => u32::wrapping_sub,
        "and_b32" => |a, b| a & b,
        "or_b32" => |a, b| a | b,
        "xor_b32" => |a, b| a ^ b,
        "min_u32" => u32::min,
        "max_u32" => u32::max,
        "min_i32" => |a, b| (a as i32).min(b as i32) as u32,
        "max_i32" => |a, b| (a as i32).max(b as i32) as u32,
        "swap_b32" => |_, b| b,
        "inc_u32" => |a, b| if a >= b { 0 } else { a + 1 },
        "dec_u32" => |a, b| if a == 0 || a > b { b } else { a - 1 },
        "add_f32" => |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits(),
        "min_f32" | "min_num_f32" => |a, b| super::arithmetic::min_num(f32::from_bits(a), f32::from_bits(b)).to_bits(),
        "max_f32" | "max_num_f32" => |a, b| super::arithmetic::max_num(f32::from_bits(a), f32::from_bits(b)).to_bits(),
        "pk_add_f16" => |a, b| by_halves(a, b, |x, y| (f16::from_bits(x) + f16::from_bits(y)).to_bits()),
        "pk_add_bf16" => |a, b| by_halves(a, b, |x, y| (bf16::from_bits(x) + bf16::from_bits(y)).to_bits()),
        _ => return None,
    })
}

fn by_halves(a: u32, b: u32, f: fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn wide_update_named(name: &str) -> Option<WideUpdate> {
    Some(match name {
        "add_u64" => u64::wrapping_add,
        "sub_u64" => u64::wrapping_sub,
        "and_b64" => |a, b| a & b,
        "or_b64" => |a, b| a | b,
        "xor_b64" => |a, b| a ^ b,
        "min_u64" => u64::min,
        "max_u64" => u64::max,
        "min_i64" => |a, b| (a as i64).min(b as i64) as u64,
        "max_i64" => |a, b| (a as i64).max(b as i64) as u64,
        "swap_b64" => |_, b| b,
        _ => return None,
    })
}

/// What an atomic does to memory.
#[derive(Clone, Copy)]
enum Atomic {
    Update(Update),
    CompareSwap,
    WideUpdate(WideUpdate),
    WideCompareSwap,
}

/// `[vdst,] vaddr, vdata[, saddr]`: with a target the old value is returned.
fn atomic(line: &mut Line, space: Space, name: &str) -> Result<Option<Step>, String> {
    let operation = match name {
        "cmpswap_b32" => Atomic::CompareSwap,
        "cmpswap_b64" => Atomic::WideCompareSwap,
        _ => match (update_named(name), wide_update_named(name)) {
            (Some(update), _) => Atomic::Update(update),
            (_, Some(update)) => Atomic::WideUpdate(update),
            _ => return Ok(None),
        },
    };
    let num_operands = if space == Space::Flat { 2 } else { 3 };
    let has_target = line.operands.len() > num_operands;
    let first = usize::from(has_target);
    let target = if has_target { Some(line.vector_register(0)?) } else { None };
    let data = line.vector_register(first + 1)?;
    let address = Address::take(line, space, first, first + 2)?;
    Ok(Some(Box::new(move |wave, group| {
        let addresses = address.lanes(wave);
        for lane in lanes_of(wave.exec()) {
            run_atomic(wave, group, operation, addresses[lane], data, target, lane)?;
        }
        Ok(Flow::Next)
    })))
}

fn run_atomic(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    operation: Atomic,
    address: u64,
    data: usize,
    target: Option<usize>,
    lane: usize,
) -> Result<(), Box<Trap>> {
    let len = if matches!(operation, Atomic::WideUpdate(_) | Atomic::WideCompareSwap) { 8 } else { 4 };
    if !address.is_multiple_of(len) {
        return Err(Trap::new(format!(
            "lane {lane} updates {len} bytes at {address:#x}, which is not aligned to them"
        )));
    }
    let narrow = |wave: &Wave| (wave.vgprs[data][lane], wave.vgprs[data + 1][lane]);
    match operation {
        Atomic::Update(update) => {
            let operand = wave.vgprs[data][lane];
            let old = update_word(wave, group, address, lane, |old| update(old, operand))?;
            target.into_iter().for_each(|target| wave.vgprs[target][lane] = old);
        }
        Atomic::CompareSwap => {
            let (new, expected) = narrow(wave);
            let old = update_word(wave, group, address, lane, |old| if old == expected { new } else { old })?;
            target.into_iter().for_each(|target| wave.vgprs[target][lane] = old);
        }
        Atomic::WideUpdate(update) => {
            let operand = wave.lane64(data, lane);
            let old = update_pair(wave, group, address, lane, |old| update(old, operand))?;
            target.into_iter().for_each(|target| wave.set_lane64(target, lane, old));
        }
        Atomic::WideCompareSwap => {
            let (new, expected) = (wave.lane64(data, lane), wave.lane64(data + 2, lane));
            let old = update_pair(wave, group, address, lane, |old| if old == expected { new } else { old })?;
            target.into_iter().for_each(|target| wave.set_lane64(target, lane, old));
        }
    }
    Ok(())
}

fn update_word(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: u64,
    lane: usize,
    f: impl Fn(u32) -> u32,
) -> Result<u32, Box<Trap>> {
    if address >> 32 == SHARED_APERTURE {
        return group.lds.update(address as u32, wave.lds_access()?, lane, f);
    }
    let allocation = allocation_of(wave, group, "updates", address, 4, lane)?;
    let word = allocation.atomic(address - allocation.base);
    Ok(word.fetch_update(SeqCst, SeqCst, |old| Some(f(old))).expect("the closure always gives a value"))
}

/// Memory is kept in words of 32 bits, so updates of 64 bits exclude each other.
static WIDE_ATOMICS: Mutex<()> = Mutex::new(());

fn update_pair(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: u64,
    lane: usize,
    f: impl Fn(u64) -> u64,
) -> Result<u64, Box<Trap>> {
    let allocation = allocation_of(wave, group, "updates", address, 8, lane)?;
    let offset = address - allocation.base;
    let _guard = WIDE_ATOMICS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let old = u64::from(allocation.word(offset)) | u64::from(allocation.word(offset + 4)) << 32;
    let new = f(old);
    allocation.set_word(offset, new as u32);
    allocation.set_word(offset + 4, (new >> 32) as u32);
    Ok(old)
}
