//! A code object's note: found in the ELF file, and read.

use super::msgpack::Value;
use super::{Arg, Kernel, Metadata, MetadataError, Resources};

const PT_NOTE: u32 = 4;
const NT_AMDGPU_METADATA: u32 = 32;

/// The note's MessagePack document. Program headers are read, since section headers may be stripped.
pub fn find(image: &[u8]) -> Result<&[u8], MetadataError> {
    // 64-bit, little-endian.
    if image.get(4..6) != Some(&[2, 1]) {
        return Err(MetadataError::Format);
    }
    let headers = u64_at(image, 32)?;
    let (size, count) = (u64::from(u16_at(image, 54)?), u64::from(u16_at(image, 56)?));
    for index in 0..count {
        let header = headers.checked_add(index * size).ok_or(CUT)?;
        if u32_at(image, header)? == PT_NOTE {
            let segment = slice(image, u64_at(image, header + 8)?, u64_at(image, header + 32)?)?;
            if let Some(document) = find_in_segment(segment)? {
                return Ok(document);
            }
        }
    }
    Err(MetadataError::NoNote)
}

/// A segment is a list of notes: sizes of name and content, type, then both, each padded to four bytes.
fn find_in_segment(segment: &[u8]) -> Result<Option<&[u8]>, MetadataError> {
    let mut at = 0;
    while at + 12 <= segment.len() as u64 {
        let (name_size, size) = (u64::from(u32_at(segment, at)?), u64::from(u32_at(segment, at + 4)?));
        let content = at + 12 + name_size.next_multiple_of(4);
        if u32_at(segment, at + 8)? == NT_AMDGPU_METADATA && slice(segment, at + 12, name_size)? == b"AMDGPU\0" {
            return slice(segment, content, size).map(Some);
        }
        at = content + size.next_multiple_of(4);
    }
    Ok(None)
}

const CUT: MetadataError = MetadataError::Damaged("an offset points behind its end");

fn slice(from: &[u8], start: u64, len: u64) -> Result<&[u8], MetadataError> {
    let (start, len) = (usize::try_from(start).map_err(|_| CUT)?, usize::try_from(len).map_err(|_| CUT)?);
    from.get(start..start.checked_add(len).ok_or(CUT)?).ok_or(CUT)
}

fn u64_at(from: &[u8], at: u64) -> Result<u64, MetadataError> {
    slice(from, at, 8).map(|bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn u32_at(from: &[u8], at: u64) -> Result<u32, MetadataError> {
    slice(from, at, 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn u16_at(from: &[u8], at: u64) -> Result<u16, MetadataError> {
    slice(from, at, 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

pub fn parse(document: &[u8]) -> Result<Metadata, MetadataError> {
    let root = Value::parse(document)?;
    let target = root.get("amdhsa.target").and_then(Value::as_str).unwrap_or_default().to_owned();
    let kernels = root.get("amdhsa.kernels").map_or(&[][..], Value::items);
    Ok(Metadata { target, kernels: kernels.iter().map(kernel).collect::<Result<_, _>>()? })
}

fn kernel(entry: &Value) -> Result<Kernel, MetadataError> {
    let name = entry.get(".name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |field| {
        let missing = || MetadataError::Missing { kernel: name.clone(), field };
        entry.get(field).and_then(Value::as_u32).ok_or_else(missing)
    };
    let all = entry.get(".args").map_or(&[][..], Value::items);
    let (hidden, own): (Vec<_>, Vec<_>) = all.iter().partition(|arg| is_hidden(arg));
    Ok(Kernel {
        args: own.into_iter().map(|each| arg(each, &name)).collect::<Result<_, _>>()?,
        max_block_threads: number(".max_flat_workgroup_size")?,
        lds: number(".group_segment_fixed_size")?,
        resources: Some(Resources {
            vgprs: number(".vgpr_count")?,
            sgprs: number(".sgpr_count")?,
            vgpr_spills: number(".vgpr_spill_count")?,
            sgpr_spills: number(".sgpr_spill_count")?,
            scratch: number(".private_segment_fixed_size")?,
            wave_size: number(".wavefront_size")?,
            hidden_args: hidden.len() as u32,
        }),
        name,
    })
}

fn is_hidden(arg: &Value) -> bool {
    arg.get(".value_kind").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("hidden_"))
}

fn arg(entry: &Value, kernel: &str) -> Result<Arg, MetadataError> {
    let number = |field| {
        let missing = || MetadataError::Missing { kernel: kernel.to_owned(), field };
        entry.get(field).and_then(Value::as_u32).ok_or_else(missing)
    };
    Ok(Arg { offset: number(".offset")?, size: number(".size")? })
}
