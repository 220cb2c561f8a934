//! GGUF headers: metadata and tensor directory, read without touching a tensor's bytes.
//!
//! Written for files from strangers: every count and length is checked against what is left of the file before
//! anything is allocated, and an error names the file, the key or tensor, and the value. Arrays are kept compact
//! (strings share one buffer), since a vocabulary of 262,144 tokens is ordinary.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little-endian.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::file::{self, brief};

const MAGIC: &[u8; 4] = b"GGUF";
const DEFAULT_ALIGNMENT: u64 = 32;
/// ggml's own limit on tensor dimensions.
const MAX_DIMS: u32 = 4;
/// Arrays may nest; files in the wild do not go beyond two levels.
const MAX_ARRAY_DEPTH: u32 = 4;
/// Header bytes that are read. The largest vocabularies take 20 MB; a sparse file may claim terabytes and have none.
const MAX_HEADER_BYTES: u64 = 128 << 20;
/// The format's limit on keys, and twice as much as ggml itself allows for names.
const MAX_KEY_BYTES: u64 = u16::MAX as u64;
const MAX_NAME_BYTES: u64 = 128;

/// Why a GGUF file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is not a GGUF file: it {}", looks_like(.start))]
    NotGguf { path: PathBuf, start: Vec<u8> },
    #[error("{path}: GGUF version {version} is not supported; versions 2 and 3 (little-endian) are")]
    Version { path: PathBuf, version: u32 },
    #[error("{path} is damaged or cut off: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path}: metadata key {key:?} is missing")]
    MissingKey { path: PathBuf, key: String },
    #[error("{path}: metadata key {key:?} is {found}, expected {expected}")]
    WrongType { path: PathBuf, key: String, expected: &'static str, found: String },
}

/// What a file is that begins otherwise.
fn looks_like(start: &[u8]) -> String {
    let is_safetensors = start.len() > 8 && start[8] == b'{' && start[5..8] == [0; 3];
    match file::known_other(start) {
        Some(what) => format!("is {what}"),
        None if is_safetensors => {
            "is a safetensors file; name the directory that holds it and its config.json".to_owned()
        }
        None => "does not begin with the letters GGUF; is it a model, and was it downloaded whole?".to_owned(),
    }
}

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// A metadata array, stored by element kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    Unsigned(Vec<u32>),
    Signed(Vec<i32>),
    /// 64-bit integers, which no known key uses for anything long.
    Wide(Vec<i64>),
    Float(Vec<f32>),
    Bool(Vec<bool>),
    String(StringArray),
    Nested(Vec<Array>),
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::Unsigned(v) => v.len(),
            Array::Signed(v) => v.len(),
            Array::Wide(v) => v.len(),
            Array::Float(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::String(v) => v.len(),
            Array::Nested(v) => v.len(),
        }
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Many byte strings in one buffer. GGUF calls them strings, yet vocabularies hold pieces that are not UTF-8.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StringArray {
    bytes: Vec<u8>,
    /// `ends[i]` is where string `i` ends in `bytes`.
    ends: Vec<u32>,
}

impl StringArray {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `index`, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        self.bytes.get(start..end)
    }

    /// All strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// Where a tensor lies and how it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    pub name: String,
    /// Row-major shape: the last dimension is contiguous (GGUF stores it the other way round).
    pub shape: Vec<usize>,
    /// ggml's type number, see [`crate::quant::GgmlType`].
    pub ggml_type: u32,
    /// Byte offset from the start of the file.
    pub offset: u64,
}

/// A GGUF file's header.
#[derive(Debug, Clone)]
pub struct Gguf {
    pub path: PathBuf,
    pub metadata: BTreeMap<String, Value>,
    pub tensors: Vec<TensorInfo>,
    pub file_len: u64,
}

impl Gguf {
    /// Reads the header of the file at `path`.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let (file, file_len) = file::open(path).map_err(|source| GgufError::Io { path: path.to_owned(), source })?;
        Self::read(path, BufReader::with_capacity(1 << 20, file), file_len)
    }

    /// Reads the header at the beginning of `input`, a file of `file_len` bytes that errors call `path`.
    pub fn read(path: &Path, input: impl Read, file_len: u64) -> Result<Self, GgufError> {
        Reader { path, input, pos: 0, file_len }.header()
    }

    /// The value of `key`, if present.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// `key` as an unsigned number. `None` if absent; an error if it is something else.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(v)) => Ok(Some(*v)),
            Some(Value::Signed(v)) if *v >= 0 => Ok(Some(*v as u64)),
            Some(other) => Err(self.wrong_type(key, "an unsigned integer", other)),
        }
    }

    /// `key` as a floating-point number; integers are taken too.
    pub fn f64(&self, key: &str) -> Result<Option<f64>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(v)) => Ok(Some(*v)),
            Some(Value::Unsigned(v)) => Ok(Some(*v as f64)),
            Some(Value::Signed(v)) => Ok(Some(*v as f64)),
            Some(other) => Err(self.wrong_type(key, "a number", other)),
        }
    }

    /// `key` as a string.
    pub fn str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong_type(key, "a string", other)),
        }
    }

    /// `key` as a truth value.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(self.wrong_type(key, "a boolean", other)),
        }
    }

    /// `key` as an array.
    pub fn array(&self, key: &str) -> Result<Option<&Array>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong_type(key, "an array", other)),
        }
    }

    /// `value`, or the error that `key` is missing.
    pub fn require<T>(&self, key: &str, value: Option<T>) -> Result<T, GgufError> {
        value.ok_or_else(|| GgufError::MissingKey { path: self.path.clone(), key: key.to_owned() })
    }

    /// The error that `key` holds something other than `expected`.
    pub fn wrong_type(&self, key: &str, expected: &'static str, found: &Value) -> GgufError {
        let found = match found {
            Value::Array(array) => format!("an array of {} elements", array.len()),
            scalar => brief(scalar),
        };
        GgufError::WrongType { path: self.path.clone(), key: key.to_owned(), expected, found }
    }
}

/// Reads forward and knows how much of the file is left.
struct Reader<'a, R> {
    path: &'a Path,
    input: R,
    pos: u64,
    file_len: u64,
}

impl<R: Read> Reader<'_, R> {
    fn header(mut self) -> Result<Gguf, GgufError> {
        if self.file_len == 0 {
            return Err(self.damaged("it is empty".to_owned()));
        }
        let magic = self.bytes::<4>("the magic number")?;
        if &magic != MAGIC {
            let io_error = |source| GgufError::Io { path: self.path.to_owned(), source };
            let start = file::start_of((&magic[..]).chain(&mut self.input)).map_err(io_error)?;
            return Err(GgufError::NotGguf { path: self.path.to_owned(), start });
        }
        let version = self.u32("the version")?;
        if (1..=3).contains(&version.swap_bytes()) {
            let what = "its numbers are big-endian, and only little-endian files are supported".to_owned();
            return Err(self.damaged(what));
        }
        if !(2..=3).contains(&version) {
            return Err(GgufError::Version { path: self.path.to_owned(), version });
        }
        let tensor_count = self.u64("the number of tensors")?;
        let metadata_count = self.u64("the number of metadata entries")?;
        let metadata = self.metadata(metadata_count)?;
        let mut tensors = self.tensor_infos(tensor_count)?;
        self.place_tensors(&metadata, &mut tensors)?;
        Ok(Gguf { path: self.path.to_owned(), metadata, tensors, file_len: self.file_len })
    }

    fn metadata(&mut self, count: u64) -> Result<BTreeMap<String, Value>, GgufError> {
        // The smallest entry: an empty key (8), a type (4), one byte.
        self.check_count(count, 13, "metadata entries")?;
        let mut metadata = BTreeMap::new();
        for _ in 0..count {
            let key = self.short_string("a metadata key", MAX_KEY_BYTES)?;
            let kind = self.u32(&key)?;
            let value = self.value(kind, &key)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(self.damaged(format!("metadata key {} occurs twice", brief(&key))));
            }
        }
        Ok(metadata)
    }

    fn tensor_infos(&mut self, count: u64) -> Result<Vec<TensorInfo>, GgufError> {
        // The smallest entry: an empty name (8), a rank (4), a type (4), an offset (8).
        self.check_count(count, 24, "tensors")?;
        (0..count).map(|_| self.tensor_info()).collect()
    }

    fn tensor_info(&mut self) -> Result<TensorInfo, GgufError> {
        let name = self.short_string("a tensor name", MAX_NAME_BYTES)?;
        let rank = self.u32(&name)?;
        if rank > MAX_DIMS {
            return Err(self.damaged(format!("tensor {name:?} has {rank} dimensions, at most {MAX_DIMS} are possible")));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let dim = self.u64(&name)?;
            shape.push(
                usize::try_from(dim).map_err(|_| self.damaged(format!("tensor {name:?} has a dimension of {dim}")))?,
            );
        }
        shape.reverse();
        // No type takes less than a bit for a number, not even those that are not known here.
        let most = usize::try_from(self.file_len.saturating_mul(8)).unwrap_or(usize::MAX);
        let elements = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        if elements.is_none_or(|elements| elements > most) {
            return Err(self.damaged(format!(
                "tensor {name:?} has the shape {shape:?}, more than a file of {} bytes can hold",
                self.file_len
            )));
        }
        let ggml_type = self.u32(&name)?;
        let offset = self.u64(&name)?;
        Ok(TensorInfo { name, shape, ggml_type, offset })
    }

    /// Turns offsets within the data section into offsets within the file.
    fn place_tensors(&self, metadata: &BTreeMap<String, Value>, tensors: &mut [TensorInfo]) -> Result<(), GgufError> {
        let alignment = match metadata.get("general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some(Value::Unsigned(v)) if v.is_power_of_two() && *v <= 1 << 20 => *v,
            Some(other) => {
                let found = brief(other);
                return Err(self.damaged(format!("general.alignment is {found}, which is not a small power of two")));
            }
        };
        let data_start = self.pos.next_multiple_of(alignment);
        for tensor in tensors {
            if !tensor.offset.is_multiple_of(alignment) {
                return Err(self.damaged(format!(
                    "tensor {:?} starts at byte {} of the data, which is not a multiple of the alignment {alignment}",
                    tensor.name, tensor.offset
                )));
            }
            let offset = data_start.checked_add(tensor.offset).filter(|offset| *offset <= self.file_len);
            tensor.offset = offset.ok_or_else(|| {
                self.damaged(format!(
                    "tensor {:?} starts at byte {} of the data, past the end of the file ({} bytes)",
                    tensor.name, tensor.offset, self.file_len
                ))
            })?;
        }
        Ok(())
    }

    fn value(&mut self, kind: u32, key: &str) -> Result<Value, GgufError> {
        Ok(match kind {
            0 => Value::Unsigned(self.bytes::<1>(key)?[0].into()),
            1 => Value::Signed(i8::from_le_bytes(self.bytes(key)?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.bytes(key)?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.bytes(key)?).into()),
            4 => Value::Unsigned(self.u32(key)?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.bytes(key)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.bytes(key)?).into()),
            7 => Value::Bool(self.bytes::<1>(key)?[0] != 0),
            8 => Value::String(self.string(key)?),
            9 => Value::Array(self.array(key, 0)?),
            10 => Value::Unsigned(self.u64(key)?),
            11 => Value::Signed(i64::from_le_bytes(self.bytes(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes(key)?)),
            _ => return Err(self.damaged(format!("metadata key {} has the unknown type {kind}", brief(key)))),
        })
    }

    fn array(&mut self, key: &str, depth: u32) -> Result<Array, GgufError> {
        if depth == MAX_ARRAY_DEPTH {
            let key = brief(key);
            return Err(self.damaged(format!("metadata key {key} nests arrays more than {MAX_ARRAY_DEPTH} deep")));
        }
        let kind = self.u32(key)?;
        let count = self.u64(key)?;
        Ok(match kind {
            0 => Array::Unsigned(self.numbers(count, key, |b: [u8; 1]| b[0].into())?),
            1 => Array::Signed(self.numbers(count, key, |b| i8::from_le_bytes(b).into())?),
            2 => Array::Unsigned(self.numbers(count, key, |b| u16::from_le_bytes(b).into())?),
            3 => Array::Signed(self.numbers(count, key, |b| i16::from_le_bytes(b).into())?),
            4 => Array::Unsigned(self.numbers(count, key, u32::from_le_bytes)?),
            5 => Array::Signed(self.numbers(count, key, i32::from_le_bytes)?),
            6 => Array::Float(self.numbers(count, key, f32::from_le_bytes)?),
            7 => Array::Bool(self.numbers(count, key, |b: [u8; 1]| b[0] != 0)?),
            8 => Array::String(self.strings(count, key)?),
            9 => {
                self.check_count(count, 12, key)?;
                Array::Nested((0..count).map(|_| self.array(key, depth + 1)).collect::<Result<_, _>>()?)
            }
            10 | 11 => Array::Wide(self.numbers(count, key, i64::from_le_bytes)?),
            12 => Array::Float(self.numbers(count, key, |b| f64::from_le_bytes(b) as f32)?),
            _ => {
                return Err(self.damaged(format!("metadata key {} is an array of the unknown type {kind}", brief(key))));
            }
        })
    }

    fn numbers<const N: usize, T>(
        &mut self,
        count: u64,
        key: &str,
        decode: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufError> {
        self.check_count(count, N as u64, key)?;
        let mut numbers = Vec::with_capacity(count as usize);
        for _ in 0..count {
            numbers.push(decode(self.bytes::<N>(key)?));
        }
        Ok(numbers)
    }

    fn strings(&mut self, count: u64, key: &str) -> Result<StringArray, GgufError> {
        self.check_count(count, 8, key)?;
        let mut strings = StringArray { bytes: Vec::new(), ends: Vec::with_capacity(count as usize) };
        for _ in 0..count {
            let len = self.string_len(key)?;
            let start = strings.bytes.len();
            let end = u32::try_from(start + len).expect("a header is far smaller than 4 GiB");
            strings.bytes.resize(start + len, 0);
            self.fill(&mut strings.bytes[start..], key)?;
            strings.ends.push(end);
        }
        strings.bytes.shrink_to_fit();
        Ok(strings)
    }

    fn string(&mut self, what: &str) -> Result<String, GgufError> {
        let len = self.string_len(what)?;
        self.text(len, what)
    }

    /// A string that appears in messages.
    fn short_string(&mut self, what: &str, most: u64) -> Result<String, GgufError> {
        let len = self.string_len(what)?;
        if len as u64 > most {
            return Err(
                self.damaged(format!("{what} before byte {} has {len} bytes, at most {most} are allowed", self.pos))
            );
        }
        self.text(len, what)
    }

    fn text(&mut self, len: usize, what: &str) -> Result<String, GgufError> {
        let start = self.pos;
        let mut bytes = vec![0; len];
        self.fill(&mut bytes, what)?;
        String::from_utf8(bytes).map_err(|error| {
            let at = start + error.utf8_error().valid_up_to() as u64;
            self.damaged(format!("the text of {} is not UTF-8, see byte {at} of the file", brief(what)))
        })
    }

    fn string_len(&mut self, what: &str) -> Result<usize, GgufError> {
        let len = self.u64(what)?;
        self.check_count(len, 1, what)?;
        Ok(len as usize)
    }

    /// Refuses a count that what is left of the file cannot hold, before anything is allocated for it.
    fn check_count(&self, count: u64, bytes_each: u64, what: &str) -> Result<(), GgufError> {
        let left = self.file_len.saturating_sub(self.pos);
        let bytes = count.checked_mul(bytes_each);
        if bytes.is_none_or(|bytes| bytes > left) {
            let what = brief(what);
            return Err(
                self.damaged(format!("{what} claims {count} elements, but only {left} bytes of the file are left"))
            );
        }
        if bytes.is_none_or(|bytes| bytes > MAX_HEADER_BYTES.saturating_sub(self.pos)) {
            let what = brief(what);
            return Err(
                self.damaged(format!("with the {count} elements of {what} the header passes {MAX_HEADER_BYTES} bytes"))
            );
        }
        Ok(())
    }

    fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<(), GgufError> {
        self.input.read_exact(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damaged(format!("it ends at byte {} within {}", self.file_len, brief(what)))
            }
            _ => GgufError::Io { path: self.path.to_owned(), source },
        })?;
        self.pos += bytes.len() as u64;
        Ok(())
    }

    fn damaged(&self, what: String) -> GgufError {
        GgufError::Damaged { path: self.path.to_owned(), what }
    }
}
