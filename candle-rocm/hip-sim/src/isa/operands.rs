//! How does an instruction get its inputs? Operands of the text become sources with all decisions made: which register
//! or constant, which half, which sign bits. Reading one is then a reference to a register or a short loop.

use crate::asm::{Line, NULL, Operand, Place, VCC};
use crate::wave::{Lanes, NUM_LANES, Wave};
use half::{bf16, f16};

/// The type that an instruction reads or writes, as far as operands depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    B32,
    F32,
    B16,
    F16,
    /// Two bf16 in one register. A constant is the lower one, and the upper one is 0; so with pairs of f16 as `F16`.
    PairBf16,
    B64,
    F64,
    /// A scalar register with one bit for each lane.
    Mask,
}

impl Kind {
    pub fn is_half(self) -> bool {
        matches!(self, Kind::B16 | Kind::F16)
    }

    pub fn is_wide(self) -> bool {
        matches!(self, Kind::B64 | Kind::F64)
    }

    fn sign_bit(self) -> u32 {
        if self.is_half() { 0x8000 } else { 0x8000_0000 }
    }
}

enum Origin {
    Vector(usize),
    Scalar(usize),
    Constant(Box<Lanes>),
    Mask(usize),
}

/// Changes to a value on its way: a half is selected first, then bits are cleared (|x|) and flipped (-x).
#[derive(Clone, Copy, PartialEq)]
struct Edit {
    shift: u32,
    keep: u32,
    flip: u32,
}

const NO_EDIT: Edit = Edit { shift: 0, keep: u32::MAX, flip: 0 };

/// An input of a vector instruction, 32 bits or less for each lane.
pub struct Source {
    origin: Origin,
    edit: Edit,
}

impl Source {
    pub fn new(operand: &Operand, kind: Kind) -> Result<Source, String> {
        Source::half(operand, kind, 0, operand.neg, operand.abs)
    }

    /// A source whose half and sign changes come from modifiers (`op_sel`, `neg_lo`) and not from the operand alone.
    /// `half` is 0 or 1, and means nothing for kinds of 32 bits.
    pub fn half(operand: &Operand, kind: Kind, half: u32, neg: bool, abs: bool) -> Result<Source, String> {
        let is_half = kind.is_half();
        let edit = Edit {
            shift: if is_half { 16 * half } else { 0 },
            keep: (if is_half { 0xFFFF } else { u32::MAX }) & !(if abs { kind.sign_bit() } else { 0 }),
            flip: if neg { kind.sign_bit() } else { 0 },
        };
        let origin = match &operand.place {
            Place::Vector(register) => Origin::Vector(*register),
            Place::Scalar(register) if kind == Kind::Mask => Origin::Mask(*register),
            Place::Scalar(NULL) => Origin::Constant(Box::new([0; NUM_LANES])),
            Place::Scalar(register) => Origin::Scalar(*register),
            place => Origin::Constant(Box::new([literal(place, kind)? as u32; NUM_LANES])),
        };
        // Bits above a half are ignored by whoever reads halves, so that a plain half needs no edit.
        let edit = if is_half && edit.shift == 0 && !abs && !neg { NO_EDIT } else { edit };
        Ok(Source { origin, edit }.folded())
    }

    pub fn vector(register: usize) -> Source {
        Source { origin: Origin::Vector(register), edit: NO_EDIT }
    }

    pub fn constant(value: u32) -> Source {
        Source { origin: Origin::Constant(Box::new([value; NUM_LANES])), edit: NO_EDIT }
    }

    /// The implicit mask operand of instructions that read vcc without naming it.
    pub fn vcc() -> Source {
        Source { origin: Origin::Mask(VCC), edit: NO_EDIT }
    }

    fn folded(mut self) -> Source {
        if let Origin::Constant(lanes) = &mut self.origin {
            **lanes = [self.edit.apply(lanes[0]); NUM_LANES];
            self.edit = NO_EDIT;
        }
        self
    }

    /// The value for each lane, active or not. `buffer` holds it where no register does.
    #[inline]
    pub fn read<'a>(&'a self, wave: &'a Wave, buffer: &'a mut Lanes) -> &'a Lanes {
        match &self.origin {
            Origin::Vector(register) if self.edit == NO_EDIT => &wave.vgprs[*register],
            Origin::Constant(lanes) => lanes,
            Origin::Vector(register) => {
                let lanes = &wave.vgprs[*register];
                for lane in 0..NUM_LANES {
                    buffer[lane] = self.edit.apply(lanes[lane]);
                }
                buffer
            }
            Origin::Scalar(register) => {
                *buffer = [self.edit.apply(wave.sgprs[*register]); NUM_LANES];
                buffer
            }
            Origin::Mask(register) => {
                let mask = wave.sgprs[*register];
                for (lane, value) in buffer.iter_mut().enumerate() {
                    *value = 0u32.wrapping_sub(mask >> lane & 1);
                }
                buffer
            }
        }
    }
}

impl Edit {
    #[inline]
    fn apply(self, value: u32) -> u32 {
        ((value >> self.shift) & self.keep) ^ self.flip
    }
}

/// The bits of a literal or inline constant as an instruction of this kind reads them.
pub fn literal(place: &Place, kind: Kind) -> Result<u64, String> {
    Ok(match place {
        // A literal of 32 bits is the high half of an f64; small numbers are inline constants, which are whole integers.
        Place::Int(value) if kind == Kind::F64 && !(-16..=64).contains(value) => (*value as u64) << 32,
        Place::Int(value) => *value as u64,
        Place::Float(value) => float_bits(*value, kind),
        Place::Name(name) => match name.as_str() {
            "src_shared_base" => SHARED_APERTURE << if kind.is_wide() { 32 } else { 0 },
            "src_private_base" => PRIVATE_APERTURE << if kind.is_wide() { 32 } else { 0 },
            "src_shared_limit" | "src_private_limit" => u64::from(u32::MAX),
            _ => return Err(format!("operand '{name}'")),
        },
        place => return Err(format!("operand {place:?} where a value is expected")),
    })
}

/// High words of flat addresses that mean LDS and private memory.
pub const SHARED_APERTURE: u64 = 0x1_0000;
pub const PRIVATE_APERTURE: u64 = 0x2_0000;

fn float_bits(value: f64, kind: Kind) -> u64 {
    // 1/(2 pi) is printed with the digits of the type; as an f64 literal it is the nearest f64.
    let value = if (value - 0.15915494).abs() < 1e-4 { std::f64::consts::FRAC_1_PI / 2.0 } else { value };
    match kind {
        Kind::F16 => u64::from(f16::from_f64(value).to_bits()),
        Kind::PairBf16 => u64::from(bf16::from_f64(value).to_bits()),
        Kind::B64 | Kind::F64 => value.to_bits(),
        // Instructions on 16-bit integers read inline floats as 32 bits and ignore the upper half.
        Kind::B16 | Kind::B32 | Kind::F32 | Kind::Mask => u64::from((value as f32).to_bits()),
    }
}

/// A value of 64 bits for each lane.
pub type WideLanes = [u64; NUM_LANES];

/// An input of 64 bits for each lane.
pub enum WideSource {
    Vector {
        register: usize,
        flip: u64,
        keep: u64,
    },
    Scalar {
        register: usize,
        flip: u64,
        keep: u64,
    },
    Constant(u64),
    /// 32 bits where the rest of the instruction is 64 wide, such as a shift amount.
    Narrow(Source),
}

impl WideSource {
    pub fn new(operand: &Operand, kind: Kind) -> Result<WideSource, String> {
        if !kind.is_wide() {
            return Ok(WideSource::Narrow(Source::new(operand, kind)?));
        }
        let flip = u64::from(operand.neg) << 63;
        let keep = !(u64::from(operand.abs) << 63);
        Ok(match &operand.place {
            Place::Vector(register) => WideSource::Vector { register: *register, flip, keep },
            Place::Scalar(NULL) => WideSource::Constant(0),
            Place::Scalar(register) => WideSource::Scalar { register: *register, flip, keep },
            place => WideSource::Constant((literal(place, kind)? & keep) ^ flip),
        })
    }

    /// The value for each lane, active or not.
    #[inline]
    pub fn read(&self, wave: &Wave, out: &mut WideLanes) {
        match self {
            WideSource::Vector { register, flip, keep } => {
                let (low, high) = (&wave.vgprs[*register], &wave.vgprs[*register + 1]);
                for lane in 0..NUM_LANES {
                    out[lane] = ((u64::from(low[lane]) | u64::from(high[lane]) << 32) & keep) ^ flip;
                }
            }
            WideSource::Scalar { register, flip, keep } => *out = [(wave.scalar64(*register) & keep) ^ flip; NUM_LANES],
            WideSource::Constant(value) => *out = [*value; NUM_LANES],
            WideSource::Narrow(source) => {
                let mut buffer = [0; NUM_LANES];
                let lanes = source.read(wave, &mut buffer);
                for lane in 0..NUM_LANES {
                    out[lane] = u64::from(lanes[lane]);
                }
            }
        }
    }
}

/// An input of a scalar instruction.
#[derive(Clone, Copy)]
pub enum ScalarSource {
    Register(usize),
    Constant(u64),
    /// The condition code as a number.
    Condition,
}

impl ScalarSource {
    pub fn new(operand: &Operand, kind: Kind) -> Result<ScalarSource, String> {
        Ok(match &operand.place {
            Place::Scalar(NULL) => ScalarSource::Constant(0),
            Place::Scalar(register) => ScalarSource::Register(*register),
            Place::Name(name) if name == "src_scc" => ScalarSource::Condition,
            place => ScalarSource::Constant(literal(place, kind)?),
        })
    }

    #[inline]
    pub fn get(self, wave: &Wave) -> u32 {
        match self {
            ScalarSource::Register(register) => wave.sgprs[register],
            ScalarSource::Constant(value) => value as u32,
            ScalarSource::Condition => u32::from(wave.scc),
        }
    }

    #[inline]
    pub fn get64(self, wave: &Wave) -> u64 {
        match self {
            ScalarSource::Register(register) => wave.scalar64(register),
            ScalarSource::Constant(value) => value,
            ScalarSource::Condition => u64::from(wave.scc),
        }
    }
}

impl Line {
    pub fn operand(&self, index: usize) -> Result<&Operand, String> {
        self.operands.get(index).ok_or_else(|| format!("has no operand {index}"))
    }

    /// The number of the vector register at this place.
    pub fn vector_register(&self, index: usize) -> Result<usize, String> {
        match self.operand(index)?.place {
            Place::Vector(register) => Ok(register),
            _ => Err(format!("operand {index} is no vector register")),
        }
    }

    /// The number of the scalar register at this place.
    pub fn scalar_register(&self, index: usize) -> Result<usize, String> {
        match self.operand(index)?.place {
            Place::Scalar(register) => Ok(register),
            _ => Err(format!("operand {index} is no scalar register")),
        }
    }
}
