//! What does a line of disassembly say? Splits LLVM's text for one instruction into its mnemonic, operands and
//! modifiers. It knows the syntax of registers and literals, but not what any instruction means.

/// First scalar register numbers of the names that are not `s<n>`; the numbers are those of the encoding.
pub const VCC: usize = 106;
pub const TTMP: usize = 108;
pub const NULL: usize = 124;
pub const M0: usize = 125;
pub const EXEC: usize = 126;

/// Where an operand's value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    Vector(usize),
    Scalar(usize),
    Int(i64),
    /// An inline constant; which bits it has depends on the type that the instruction reads.
    Float(f64),
    /// `off`: no scalar base address.
    Off,
    /// A name whose meaning only one kind of instruction knows, such as `src_shared_base`.
    Name(String),
}

/// One operand with its input modifiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub place: Place,
    pub neg: bool,
    pub abs: bool,
}

/// One instruction, split into its parts. Modifiers are taken out one by one, so that what is left is what nobody knew.
#[derive(Clone, Debug)]
pub struct Line {
    /// Without the suffix of the encoding (`_e32`, `_e64`, `_dpp`).
    pub mnemonic: String,
    pub operands: Vec<Operand>,
    modifiers: Vec<(String, String)>,
    /// The text after the mnemonic, for instructions with a syntax of their own.
    pub rest: String,
}

/// Modifiers about caches and about timing; results do not depend on them.
const HINTS: [&str; 6] = ["glc", "slc", "dlc", "th", "scope", "nv"];

impl Line {
    /// Splits one instruction; a pair of dual-issue instructions has to be split at `::` before.
    pub fn parse(text: &str) -> Result<Line, String> {
        let text = text.trim();
        let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut line = Line {
            mnemonic: strip_encoding(mnemonic).to_string(),
            operands: Vec::new(),
            modifiers: Vec::new(),
            rest: rest.trim().to_string(),
        };
        for part in split_outside_brackets(rest, ',') {
            for token in split_outside_brackets(&part, ' ') {
                line.add(&token)?;
            }
        }
        Ok(line)
    }

    fn add(&mut self, token: &str) -> Result<(), String> {
        if let Some(operand) = parse_operand(token) {
            self.operands.push(operand);
            return Ok(());
        }
        let (name, value) = token.split_once(':').unwrap_or((token, ""));
        let is_modifier =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !is_modifier {
            return Err(format!("operand '{token}' is not understood"));
        }
        if !HINTS.contains(&name) {
            self.modifiers.push((name.to_string(), value.to_string()));
        }
        Ok(())
    }

    /// Takes a modifier out: its text after the colon, which is empty for a flag.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.modifiers.iter().position(|(n, _)| n == name)?;
        Some(self.modifiers.remove(at).1)
    }

    pub fn take_flag(&mut self, name: &str) -> bool {
        self.take(name).is_some()
    }

    /// Takes a modifier that is a number; 0 where it is absent.
    pub fn take_number(&mut self, name: &str) -> Result<i64, String> {
        self.take_number_or(name, 0)
    }

    pub fn take_number_or(&mut self, name: &str, default: i64) -> Result<i64, String> {
        let Some(text) = self.take(name) else { return Ok(default) };
        parse_integer(&text).ok_or_else(|| format!("'{name}:{text}' is not a number"))
    }

    /// Takes a modifier that is a list of bits, such as `op_sel:[0,1,0]`: bit `i` is element `i`.
    pub fn take_bits(&mut self, name: &str) -> Option<u32> {
        let text = self.take(name)?;
        let elements = text.trim_matches(['[', ']']).split(',').enumerate();
        Some(elements.fold(0, |bits, (i, element)| bits | u32::from(element.trim() == "1") << i))
    }

    /// An error when a modifier is left that the instruction's builder did not ask for.
    pub fn finish(&self) -> Result<(), String> {
        match self.modifiers.first() {
            None => Ok(()),
            Some((name, value)) => Err(format!("modifier '{name}{}{value}'", if value.is_empty() { "" } else { ":" })),
        }
    }
}

fn strip_encoding(mnemonic: &str) -> &str {
    ["_e64_dpp", "_e32", "_e64", "_dpp"].iter().find_map(|suffix| mnemonic.strip_suffix(suffix)).unwrap_or(mnemonic)
}

/// Splits at a separator where no bracket is open; empty parts are dropped.
fn split_outside_brackets(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        if c == separator && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("starts with one part").push(c);
        }
    }
    parts.iter().map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

fn parse_operand(token: &str) -> Option<Operand> {
    if let Some(place) = parse_literal(token) {
        return Some(Operand { place, neg: false, abs: false });
    }
    let (neg, token) = strip_wrapper(token, "-", "neg(");
    let (abs, token) = strip_wrapper(token, "|", "abs(");
    let place = parse_register(token).or_else(|| parse_literal(token))?;
    Some(Operand { place, neg, abs })
}

/// Strips an input modifier in its short form (`-x`, `|x|`) or its long one (`neg(x)`, `abs(x)`).
fn strip_wrapper<'a>(token: &'a str, short: &str, long: &str) -> (bool, &'a str) {
    if let Some(inner) = token.strip_prefix(long) {
        return (true, inner.trim_end_matches(')'));
    }
    match token.strip_prefix(short) {
        Some(inner) => (true, inner.trim_end_matches('|')),
        None => (false, token),
    }
}

fn parse_literal(token: &str) -> Option<Place> {
    if let Some(value) = parse_integer(token) {
        return Some(Place::Int(value));
    }
    let is_number = token.contains('.') && token.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    is_number.then(|| token.parse().ok().map(Place::Float)).flatten()
}

pub fn parse_integer(token: &str) -> Option<i64> {
    if let Some(hex) = token.strip_prefix("-0x") {
        return i64::from_str_radix(hex, 16).ok().map(i64::wrapping_neg);
    }
    match token.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(|value| value as i64),
        None => token.parse().ok(),
    }
}

fn parse_register(token: &str) -> Option<Place> {
    Some(match token {
        "vcc" | "vcc_lo" => Place::Scalar(VCC),
        "vcc_hi" => Place::Scalar(VCC + 1),
        "exec" | "exec_lo" => Place::Scalar(EXEC),
        "exec_hi" => Place::Scalar(EXEC + 1),
        "m0" => Place::Scalar(M0),
        "null" => Place::Scalar(NULL),
        "off" => Place::Off,
        _ if token.starts_with("src_") || token.starts_with("hwreg(") => Place::Name(token.to_string()),
        _ => parse_numbered_register(token)?,
    })
}

/// `v7`, `v[7:8]`, `s7`, `s[7:8]`, `ttmp9`, `ttmp[8:9]`: the first register's number.
fn parse_numbered_register(token: &str) -> Option<Place> {
    let digits = token.find(|c: char| c == '[' || c.is_ascii_digit())?;
    let (kind, range) = token.split_at(digits);
    let first = range.trim_matches(['[', ']']).split(':').next()?.parse().ok()?;
    match kind {
        "v" => Some(Place::Vector(first)),
        "s" => Some(Place::Scalar(first)),
        "ttmp" => Some(Place::Scalar(TTMP + first)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_modifiers_are_read_in_both_spellings() {
        let line = Line::parse("v_fma_f32 v1, -|v2|, neg(1.0), abs(s3) clamp mul:2").unwrap();
        let shapes: Vec<_> = line.operands.iter().map(|o| (o.neg, o.abs)).collect();
        assert_eq!(shapes, [(false, false), (true, true), (true, false), (false, true)]);
    }

    #[test]
    fn a_list_of_bits_has_its_first_element_in_bit_0() {
        let mut line = Line::parse("v_fma_mix_f32 v3, v5, v3, 0 op_sel_hi:[0,1,0]").unwrap();
        assert_eq!(line.take_bits("op_sel_hi"), Some(0b010));
        assert_eq!(line.finish(), Ok(()));
    }

    #[test]
    fn a_modifier_that_nobody_took_is_named() {
        let line = Line::parse("v_add_f32_e64 v0, v1, v2 clamp").unwrap();
        assert_eq!(line.finish(), Err("modifier 'clamp'".to_string()));
    }

    #[test]
    fn register_ranges_and_trap_registers_have_their_encoded_numbers() {
        let line = Line::parse("s_mul_u64 s[24:25], ttmp[8:9], vcc").unwrap();
        let places: Vec<_> = line.operands.into_iter().map(|o| o.place).collect();
        assert_eq!(places, [Place::Scalar(24), Place::Scalar(116), Place::Scalar(106)]);
    }
}
