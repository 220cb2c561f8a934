//! Which lane does a lane read? Data-parallel primitives: the permutations of `v_..._dpp`, as a table of source lanes.

use crate::asm::{Line, parse_integer};
use crate::wave::{Lanes, NUM_LANES};

/// A permutation of the first input.
pub struct Dpp {
    source: [u8; NUM_LANES],
    /// Lanes whose source lies within the row.
    in_row: u32,
    /// Lanes that row and bank masks leave enabled.
    enabled: u32,
    /// A lane with no source reads 0 and is written; otherwise it keeps its old result.
    zero_missing: bool,
    /// Inactive lanes can be read, too.
    reads_inactive: bool,
}

impl Dpp {
    /// Takes the modifiers of a permutation out of a line, if it has one.
    pub fn take(line: &mut Line) -> Result<Option<Dpp>, String> {
        let Some((source, in_row, is_dpp8)) = take_pattern(line)? else { return Ok(None) };
        let row_mask = line.take_number_or("row_mask", 0xF)?;
        let bank_mask = line.take_number_or("bank_mask", 0xF)?;
        let is_enabled = |lane: &usize| row_mask >> (lane / 16) & 1 == 1 && bank_mask >> (lane % 16 / 4) & 1 == 1;
        let enabled = (0..NUM_LANES).filter(is_enabled).fold(0, |mask, lane| mask | 1 << lane);
        // In groups of 8 every lane has a source, and one that is inactive counts as 0.
        let zero_missing = line.take_number("bound_ctrl")? == 1 || is_dpp8;
        Ok(Some(Dpp { source, in_row, enabled, zero_missing, reads_inactive: line.take_number("fi")? == 1 }))
    }

    /// The permuted values, and the lanes that are written.
    pub fn apply(&self, values: &Lanes, exec: u32) -> (Lanes, u32) {
        let readable = if self.reads_inactive { u32::MAX } else { exec };
        if readable == u32::MAX && self.in_row == u32::MAX {
            let result = std::array::from_fn(|lane| values[usize::from(self.source[lane]) % NUM_LANES]);
            return (result, exec & self.enabled);
        }
        let mut result = [0; NUM_LANES];
        let mut found = 0;
        for (lane, out) in result.iter_mut().enumerate() {
            let source = self.source[lane] as usize;
            if self.in_row >> lane & 1 == 1 && readable >> source & 1 == 1 {
                *out = values[source];
                found |= 1 << lane;
            }
        }
        let written = if self.zero_missing { u32::MAX } else { found };
        (result, exec & self.enabled & written)
    }
}

/// Source lanes, which lanes have one, and whether the permutation is one of groups of 8.
type Pattern = ([u8; NUM_LANES], u32, bool);

fn take_pattern(line: &mut Line) -> Result<Option<Pattern>, String> {
    if let Some(text) = line.take("quad_perm") {
        let quad = numbers::<4>(&text)?;
        return Ok(Some(pattern(|lane| Some((lane & !3) + quad[lane & 3]))));
    }
    if let Some(text) = line.take("dpp8") {
        let group = numbers::<8>(&text)?;
        let (lanes, in_row, _) = pattern(|lane| Some((lane & !7) + group[lane & 7]));
        return Ok(Some((lanes, in_row, true)));
    }
    if line.take_flag("row_mirror") {
        return Ok(Some(pattern(|lane| Some(lane ^ 15))));
    }
    if line.take_flag("row_half_mirror") {
        return Ok(Some(pattern(|lane| Some(lane ^ 7))));
    }
    for (name, source) in ROW_PATTERNS {
        if let Some(text) = line.take(name) {
            let amount = parse_integer(&text).ok_or_else(|| format!("'{name}:{text}' is not a number"))? as usize;
            return Ok(Some(pattern(|lane| source(lane % 16, amount).map(|source| (lane & !15) + source))));
        }
    }
    Ok(None)
}

/// The lane within a row of 16 that a lane reads, from its own number there and the pattern's amount.
type RowPattern = fn(usize, usize) -> Option<usize>;

/// Patterns within a row of 16, for lane `i`.
#[rustfmt::skip]
const ROW_PATTERNS: [(&str, RowPattern); 5] = [
    ("row_shl",   |i, n| Some(i + n).filter(|source| *source < 16)),
    ("row_shr",   |i, n| i.checked_sub(n)),
    ("row_ror",   |i, n| Some((i + 16 - n) % 16)),
    ("row_share", |_, n| Some(n)),
    ("row_xmask", |i, n| Some(i ^ n)),
];

fn pattern(source: impl Fn(usize) -> Option<usize>) -> Pattern {
    let mut lanes = [0; NUM_LANES];
    let mut in_row = 0;
    for (lane, entry) in lanes.iter_mut().enumerate() {
        if let Some(source) = source(lane) {
            *entry = source as u8;
            in_row |= 1 << lane;
        }
    }
    (lanes, in_row, false)
}

fn numbers<const N: usize>(text: &str) -> Result<[usize; N], String> {
    let numbers: Option<Vec<usize>> = text.trim_matches(['[', ']']).split(',').map(|n| n.trim().parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| format!("'{text}' is no list of {N} lanes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each lane reads, where lane `i` holds `i + 100`.
    fn permute(modifiers: &str, exec: u32) -> (Lanes, u32) {
        let mut line = Line::parse(&format!("v_mov_b32_dpp v0, v1 {modifiers}")).unwrap();
        let dpp = Dpp::take(&mut line).unwrap().expect("has a pattern");
        line.finish().unwrap();
        dpp.apply(&std::array::from_fn(|lane| lane as u32 + 100), exec)
    }

    #[test]
    fn row_shr_moves_values_to_higher_lanes_and_leaves_the_first_unwritten() {
        let (lanes, written) = permute("row_shr:1 row_mask:0xf bank_mask:0xf", u32::MAX);
        assert_eq!((lanes[1], lanes[15], lanes[17]), (100, 114, 116));
        assert_eq!(written, 0xFFFE_FFFE);
    }

    #[test]
    fn bound_ctrl_writes_zero_where_there_is_no_source() {
        let (lanes, written) = permute("row_shl:4 row_mask:0xf bank_mask:0xf bound_ctrl:1", u32::MAX);
        assert_eq!((lanes[0], lanes[11], lanes[12], lanes[16]), (104, 115, 0, 120));
        assert_eq!(written, u32::MAX);
    }

    #[test]
    fn patterns_within_rows() {
        let at = |modifiers: &str, lane: usize| permute(modifiers, u32::MAX).0[lane];
        assert_eq!(at("row_ror:1", 0), 115);
        assert_eq!(at("row_mirror", 16), 131);
        assert_eq!(at("row_half_mirror", 9), 114);
        assert_eq!(at("row_share:3", 20), 119);
        assert_eq!(at("row_xmask:8", 3), 111);
        assert_eq!(at("quad_perm:[3,2,1,0]", 5), 106);
        assert_eq!(at("dpp8:[7,6,5,4,3,2,1,0]", 8), 115);
    }

    #[test]
    fn groups_of_8_take_inactive_lanes_as_zero_unless_told_to_read_them() {
        let (lanes, written) = permute("dpp8:[1,0,3,2,5,4,7,6]", 0b0111);
        assert_eq!((lanes[..3].to_vec(), written), (vec![101, 100, 0], 0b0111));
        let (lanes, written) = permute("dpp8:[1,0,3,2,5,4,7,6] fi:1", 0b0111);
        assert_eq!((lanes[2], written), (103, 0b0111));
    }

    #[test]
    fn masks_and_inactive_sources_limit_what_is_written() {
        assert_eq!(permute("row_xmask:1 row_mask:0x1 bank_mask:0x3", u32::MAX).1, 0x0000_00FF);
        assert_eq!(permute("row_xmask:1 row_mask:0xf bank_mask:0xf", 0b01).1, 0, "lane 1 is inactive");
        assert_eq!(permute("row_xmask:1 row_mask:0xf bank_mask:0xf fi:1", 0b01), {
            let (lanes, _) = permute("row_xmask:1", u32::MAX);
            (lanes, 0b01)
        });
    }
}
