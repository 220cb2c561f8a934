//! The part of MessagePack that code object metadata uses: maps, arrays, strings, integers and booleans.

use super::MetadataError;

const CUT: MetadataError = MetadataError::Damaged("the metadata ends within a value");
/// Deeper than any metadata; bounds the recursion on damaged input.
const MAX_DEPTH: u32 = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    Nil,
    Bool(bool),
    Int(u64),
    Str(&'a str),
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl<'a> Value<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MetadataError> {
        Reader { rest: bytes }.value(0)
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
    }

    pub fn as_str(&self) -> Option<&'a str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    pub fn as_u32(&self) -> Option<u32> {
        if let Self::Int(value) = self { u32::try_from(*value).ok() } else { None }
    }

    pub fn items(&self) -> &[Self] {
        if let Self::Array(items) = self { items } else { &[] }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], MetadataError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A big-endian number of `len` bytes.
    fn number(&mut self, len: usize) -> Result<u64, MetadataError> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>, MetadataError> {
        if depth > MAX_DEPTH {
            return Err(MetadataError::Damaged("the metadata is nested too deeply"));
        }
        let tag = self.take(1)?[0];
        match tag {
            0x00..=0x7f => Ok(Value::Int(u64::from(tag))),
            0x80..=0x8f => self.map(u64::from(tag & 0x0f), depth),
            0x90..=0x9f => self.array(u64::from(tag & 0x0f), depth),
            0xa0..=0xbf => self.string(u64::from(tag & 0x1f)),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Bool(tag == 0xc3)),
            0xcc..=0xcf => self.number(1 << (tag - 0xcc)).map(Value::Int),
            0xd9..=0xdb => self.number(1 << (tag - 0xd9)).and_then(|len| self.string(len)),
            0xdc | 0xdd => self.number(2 << (tag - 0xdc)).and_then(|len| self.array(len, depth)),
            0xde | 0xdf => self.number(2 << (tag - 0xde)).and_then(|len| self.map(len, depth)),
            _ => Err(MetadataError::Damaged("the metadata holds a kind of value that metadata does not have")),
        }
    }

    fn string(&mut self, len: u64) -> Result<Value<'a>, MetadataError> {
        let bytes = self.take(usize::try_from(len).map_err(|_| CUT)?)?;
        std::str::from_utf8(bytes).map(Value::Str).map_err(|_| MetadataError::Damaged("a name is not UTF-8"))
    }

    fn array(&mut self, len: u64, depth: u32) -> Result<Value<'a>, MetadataError> {
        (0..len).map(|_| self.value(depth + 1)).collect::<Result<_, _>>().map(Value::Array)
    }

    fn map(&mut self, len: u64, depth: u32) -> Result<Value<'a>, MetadataError> {
        let entry = |_| Ok((self.value(depth + 1)?, self.value(depth + 1)?));
        (0..len).map(entry).collect::<Result<_, _>>().map(Value::Map)
    }
}
