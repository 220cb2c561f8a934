//! How do lanes reach LDS, and each other through its crossbar? `ds_*` loads, stores and atomics, swizzles, permutes.

use super::memory::{Transfer, Update, update_named};
use super::operands::{Kind, Source};
use super::{Context, Outcome, Step};
use crate::asm::{Line, parse_integer};
use crate::fault::Trap;
use crate::lds::Access;
use crate::wave::{Flow, Lanes, NUM_LANES, Wave, lanes_of};
use crate::workgroup::Workgroup;

pub fn build(line: &mut Line, _: &Context<'_>) -> Result<Option<Step>, String> {
    let mnemonic = line.mnemonic.clone();
    let Some(name) = mnemonic.strip_prefix("ds_") else { return Ok(None) };
    match name {
        "swizzle_b32" => return swizzle(line).map(Some),
        "bpermute_b32" => return pull(line).map(Some),
        "permute_b32" => return push(line).map(Some),
        "nop" => return Ok(Some(Box::new(|_, _| Ok(Flow::Next)))),
        _ => {}
    }
    if let Some((transfer, unit)) = pair_named(name, "load_2addr_") {
        return load_pair(line, transfer, unit).map(Some);
    }
    if let Some((transfer, unit)) = pair_named(name, "store_2addr_") {
        return store_pair(line, transfer, unit).map(Some);
    }
    if let Some(transfer) = name.strip_prefix("load_").and_then(Transfer::named) {
        return load(line, transfer).map(Some);
    }
    if let Some(transfer) = name.strip_prefix("store_").and_then(Transfer::named) {
        return store(line, transfer).map(Some);
    }
    atomic(line, name)
}

/// The transfer of each half of a two-address access, and the unit of its offsets in bytes.
fn pair_named(name: &str, prefix: &str) -> Option<(Transfer, u32)> {
    let rest = name.strip_prefix(prefix)?;
    let (factor, width) = rest.strip_prefix("stride64_").map_or((1, rest), |width| (64, width));
    let transfer = Transfer::named(width)?;
    Some((transfer, factor * transfer.num_bytes() as u32))
}

fn read(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    address: u32,
    target: usize,
    transfer: Transfer,
    access: Access,
    lane: usize,
) -> Result<(), Box<Trap>> {
    match transfer {
        Transfer::Words(count) => {
            for word in 0..count {
                let value = group.lds.load::<4>(address.wrapping_add(4 * word as u32), access, lane)?;
                wave.vgprs[target + word][lane] = value;
            }
        }
        Transfer::Part { len, .. } => {
            let value = match len {
                1 => group.lds.load::<1>(address, access, lane)?,
                _ => group.lds.load::<2>(address, access, lane)?,
            };
            let register = &mut wave.vgprs[target][lane];
            *register = transfer.merge(*register, value);
        }
    }
    Ok(())
}

fn write(
    wave: &Wave,
    group: &mut Workgroup<'_>,
    address: u32,
    source: usize,
    transfer: Transfer,
    access: Access,
    lane: usize,
) -> Result<(), Box<Trap>> {
    match transfer {
        Transfer::Words(count) => {
            if scatter(wave, group, address, source, count, access, lane) {
                return Ok(());
            }
            for word in 0..count {
                let value = wave.vgprs[source + word][lane];
                group.lds.store::<4>(address.wrapping_add(4 * word as u32), value, access, lane)?;
            }
            Ok(())
        }
        Transfer::Part { len, .. } => {
            let value = transfer.stored(wave.vgprs[source][lane]);
            match len {
                1 => group.lds.store::<1>(address, value, access, lane),
                _ => group.lds.store::<2>(address, value, access, lane),
            }
        }
    }
}

/// All words of a lane at once; `false` where that is not possible.
#[inline]
fn scatter(
    wave: &Wave,
    group: &mut Workgroup<'_>,
    address: u32,
    source: usize,
    count: usize,
    access: Access,
    lane: usize,
) -> bool {
    let word = |word: usize| wave.vgprs[source + word][lane];
    match count {
        1 => group.lds.scatter(address, [word(0)], access),
        2 => group.lds.scatter(address, [word(0), word(1)], access),
        4 => group.lds.scatter(address, [word(0), word(1), word(2), word(3)], access),
        _ => false,
    }
}

/// Words for all active lanes at once. `false` where that is not possible; lane by lane then says why.
fn read_words(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    addresses: &Lanes,
    offset: u32,
    target: usize,
    transfer: Transfer,
    access: Access,
) -> bool {
    match transfer {
        Transfer::Words(1) => gather::<1>(wave, group, addresses, offset, target, access),
        Transfer::Words(2) => gather::<2>(wave, group, addresses, offset, target, access),
        Transfer::Words(3) => gather::<3>(wave, group, addresses, offset, target, access),
        Transfer::Words(4) => gather::<4>(wave, group, addresses, offset, target, access),
        _ => false,
    }
}

fn gather<const N: usize>(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    addresses: &Lanes,
    offset: u32,
    target: usize,
    access: Access,
) -> bool {
    let exec = wave.exec();
    let first = exec.trailing_zeros() as usize % NUM_LANES;
    // All lanes often read the same address: then one does.
    let differing = (0..NUM_LANES)
        .fold(0, |all, lane| all | ((addresses[lane] ^ addresses[first]) & 0u32.wrapping_sub(exec >> lane & 1)));
    let readers = if differing == 0 { exec & (1 << first) } else { exec };
    let places = addresses.map(|address| address.wrapping_add(offset));
    let Some(mut values) = group.lds.gather::<N>(&places, readers, access) else { return false };
    for (word, lanes) in values.iter_mut().enumerate() {
        if differing == 0 {
            *lanes = [lanes[first]; NUM_LANES];
        }
        wave.write_masked(target + word, lanes, exec);
    }
    true
}

fn load(line: &mut Line, transfer: Transfer) -> Result<Step, String> {
    let (target, address) = (line.vector_register(0)?, line.vector_register(1)?);
    let offset = line.take_number("offset")? as u32;
    Ok(Box::new(move |wave, group| {
        let access = wave.lds_access()?;
        let addresses = wave.vgprs[address];
        if read_words(wave, group, &addresses, offset, target, transfer, access) {
            return Ok(Flow::Next);
        }
        for lane in lanes_of(wave.exec()) {
            read(wave, group, addresses[lane].wrapping_add(offset), target, transfer, access, lane)?;
        }
        Ok(Flow::Next)
    }))
}

fn store(line: &mut Line, transfer: Transfer) -> Result<Step, String> {
    let (address, source) = (line.vector_register(0)?, line.vector_register(1)?);
    let offset = line.take_number("offset")? as u32;
    Ok(Box::new(move |wave, group| {
        let access = wave.lds_access()?;
        for lane in lanes_of(wave.exec()) {
            write(wave, group, wave.vgprs[address][lane].wrapping_add(offset), source, transfer, access, lane)?;
        }
        Ok(Flow::Next)
    }))
}

fn take_offsets(line: &mut Line, unit: u32) -> Result<[u32; 2], String> {
    Ok([line.take_number("offset0")? as u32 * unit, line.take_number("offset1")? as u32 * unit])
}

fn load_pair(line: &mut Line, transfer: Transfer, unit: u32) -> Result<Step, String> {
    let (target, address) = (line.vector_register(0)?, line.vector_register(1)?);
    let [first, second] = take_offsets(line, unit)?;
    let next = target + transfer.num_bytes() / 4;
    Ok(Box::new(move |wave, group| {
        let access = wave.lds_access()?;
        let addresses = wave.vgprs[address];
        for (offset, target) in [(first, target), (second, next)] {
            if !read_words(wave, group, &addresses, offset, target, transfer, access) {
                for lane in lanes_of(wave.exec()) {
                    read(wave, group, addresses[lane].wrapping_add(offset), target, transfer, access, lane)?;
                }
            }
        }
        Ok(Flow::Next)
    }))
}

fn store_pair(line: &mut Line, transfer: Transfer, unit: u32) -> Result<Step, String> {
    let (address, a, b) = (line.vector_register(0)?, line.vector_register(1)?, line.vector_register(2)?);
    let [first, second] = take_offsets(line, unit)?;
    Ok(Box::new(move |wave, group| {
        let access = wave.lds_access()?;
        for lane in lanes_of(wave.exec()) {
            let base = wave.vgprs[address][lane];
            write(wave, group, base.wrapping_add(first), a, transfer, access, lane)?;
            write(wave, group, base.wrapping_add(second), b, transfer, access, lane)?;
        }
        Ok(Flow::Next)
    }))
}

/// `add_u32` and, with the old value returned, `add_rtn_u32`; compare-and-store has the new value first.
fn atomic(line: &mut Line, name: &str) -> Result<Option<Step>, String> {
    let (plain, has_target) = match name.split_once("_rtn") {
        Some((operation, width)) => (format!("{operation}{width}"), true),
        None => (name.to_string(), false),
    };
    let plain = plain.replace("storexchg_", "swap_");
    let first = usize::from(has_target);
    let target = if has_target { Some(line.vector_register(0)?) } else { None };
    if plain == "cmpstore_b32" {
        return compare_store(line, target, first).map(Some);
    }
    let Some(update) = update_named(&plain) else { return Ok(None) };
    let (address, data) = (line.vector_register(first)?, line.vector_register(first + 1)?);
    let offset = line.take_number("offset")? as u32;
    Ok(Some(Box::new(move |wave, group| run_update(wave, group, update, address, offset, data, target))))
}

fn run_update(
    wave: &mut Wave,
    group: &mut Workgroup<'_>,
    update: Update,
    address: usize,
    offset: u32,
    data: usize,
    target: Option<usize>,
) -> Outcome {
    let access = wave.lds_access()?;
    for lane in lanes_of(wave.exec()) {
        let operand = wave.vgprs[data][lane];
        let old = group
            .lds
            .update(wave.vgprs[address][lane].wrapping_add(offset), access, lane, |old| update(old, operand))?;
        target.into_iter().for_each(|target| wave.vgprs[target][lane] = old);
    }
    Ok(Flow::Next)
}

fn compare_store(line: &mut Line, target: Option<usize>, first: usize) -> Result<Step, String> {
    let address = line.vector_register(first)?;
    let (new, expected) = (line.vector_register(first + 1)?, line.vector_register(first + 2)?);
    let offset = line.take_number("offset")? as u32;
    Ok(Box::new(move |wave, group| {
        let access = wave.lds_access()?;
        for lane in lanes_of(wave.exec()) {
            let (new, expected) = (wave.vgprs[new][lane], wave.vgprs[expected][lane]);
            let swap = |old| if old == expected { new } else { old };
            let old = group.lds.update(wave.vgprs[address][lane].wrapping_add(offset), access, lane, swap)?;
            target.into_iter().for_each(|target| wave.vgprs[target][lane] = old);
        }
        Ok(Flow::Next)
    }))
}

/// A fixed permutation; lanes whose source is inactive get 0.
fn swizzle(line: &mut Line) -> Result<Step, String> {
    let (target, source) = (line.vector_register(0)?, line.vector_register(1)?);
    let text = line.take("offset").unwrap_or_else(|| "0".to_string());
    let pattern = swizzle_pattern(&text).ok_or_else(|| format!("swizzle '{text}'"))?;
    Ok(Box::new(move |wave, _| {
        let (exec, values) = (wave.exec(), wave.vgprs[source]);
        let pick = |lane: usize| if exec >> pattern[lane] & 1 == 1 { values[pattern[lane]] } else { 0 };
        wave.write(target, &std::array::from_fn(pick));
        Ok(Flow::Next)
    }))
}

/// The lane that each lane reads.
fn swizzle_pattern(text: &str) -> Option<[usize; NUM_LANES]> {
    let masks = |and: usize, or: usize, xor: usize| Some(std::array::from_fn(|lane| ((lane & and) | or) ^ xor));
    let Some(arguments) = text.strip_prefix("swizzle(").and_then(|rest| rest.strip_suffix(')')) else {
        return encoded_pattern(parse_integer(text)? as usize);
    };
    let mut arguments = arguments.split(',').map(str::trim);
    let kind = arguments.next()?;
    let arguments: Vec<&str> = arguments.collect();
    let number = |i: usize| arguments.get(i)?.parse::<usize>().ok();
    match kind {
        "SWAP" => masks(31, 0, number(0)?),
        "REVERSE" => masks(31, 0, number(0)? - 1),
        "BROADCAST" => masks(31 & !(number(0)? - 1), number(1)?, 0),
        "QUAD_PERM" => {
            let quad = [number(0)?, number(1)?, number(2)?, number(3)?];
            Some(std::array::from_fn(|lane| (lane & !3) + quad[lane & 3]))
        }
        "BITMASK_PERM" => {
            let bits = arguments.first()?.trim_matches('"');
            let select = |chars: [char; 2]| bits.chars().fold(0, |mask, c| mask << 1 | usize::from(chars.contains(&c)));
            masks(select(['p', 'i']), select(['1', '1']), select(['i', 'i']))
        }
        _ => None,
    }
}

/// Bit 15 chooses between a permutation of four and the masks and, or, xor.
fn encoded_pattern(code: usize) -> Option<[usize; NUM_LANES]> {
    if code & 0x8000 != 0 {
        return (code < 0xC000).then(|| std::array::from_fn(|lane| (lane & !3) + (code >> (2 * (lane & 3)) & 3)));
    }
    Some(std::array::from_fn(|lane| ((lane & code & 31) | (code >> 5 & 31)) ^ (code >> 10 & 31)))
}

/// Each lane names the lane that it reads from; inactive ones give 0.
fn pull(line: &mut Line) -> Result<Step, String> {
    let (target, address) = (line.vector_register(0)?, line.vector_register(1)?);
    let source = Source::new(line.operand(2)?, Kind::B32)?;
    let offset = line.take_number("offset")? as u32;
    Ok(Box::new(move |wave, _| {
        let exec = wave.exec();
        let (addresses, mut buffer) = (&wave.vgprs[address], [0; NUM_LANES]);
        let values = source.read(wave, &mut buffer);
        let mut out = [0; NUM_LANES];
        for (lane, value) in out.iter_mut().enumerate() {
            let from = (addresses[lane].wrapping_add(offset) >> 2) as usize % NUM_LANES;
            *value = if exec >> from & 1 == 1 { values[from] } else { 0 };
        }
        wave.write(target, &out);
        Ok(Flow::Next)
    }))
}

/// Each lane names the lane that gets its value; the highest wins, and lanes that nobody names get 0.
fn push(line: &mut Line) -> Result<Step, String> {
    let (target, address) = (line.vector_register(0)?, line.vector_register(1)?);
    let source = Source::new(line.operand(2)?, Kind::B32)?;
    let offset = line.take_number("offset")? as u32;
    Ok(Box::new(move |wave, _| {
        let mut out = [0; NUM_LANES];
        let mut buffer = [0; NUM_LANES];
        let values = source.read(wave, &mut buffer);
        for lane in lanes_of(wave.exec()) {
            out[(wave.vgprs[address][lane].wrapping_add(offset) >> 2) as usize % NUM_LANES] = values[lane];
        }
        wave.write(target, &out);
        Ok(Flow::Next)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_in_words_and_in_code_are_the_same() {
        let pairs = [
            ("swizzle(SWAP,16)", "0x401f"),
            ("swizzle(REVERSE,8)", "0x1c1f"),
            ("swizzle(BROADCAST,32,5)", "0xa0"),
            ("swizzle(QUAD_PERM,3,2,1,0)", "0x801b"),
            ("swizzle(BITMASK_PERM, \"01pip\")", "0x907"),
        ];
        for (words, code) in pairs {
            let pattern = swizzle_pattern(words);
            assert!(pattern.is_some(), "{words}");
            assert_eq!(pattern, swizzle_pattern(code), "{words}");
        }
    }
}
