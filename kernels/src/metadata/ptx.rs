//! What PTX declares: `.entry name(.param .u64 name_param_0, ...)` followed by `.maxntid`.

use super::{Arg, Kernel, Metadata, MetadataError};

pub fn parse(text: &str) -> Result<Metadata, MetadataError> {
    let (_, after) = text.split_once(".target ").ok_or(MetadataError::Format)?;
    let target = after.split([',', '\n']).next().unwrap_or_default().trim().to_owned();
    let kernels = text.split(".entry ").skip(1).map(kernel).collect::<Result<_, _>>()?;
    Ok(Metadata { target, kernels })
}

/// `text` begins with the kernel's name.
fn kernel(text: &str) -> Result<Kernel, MetadataError> {
    let damaged = || MetadataError::Damaged("a kernel's declaration in PTX");
    let (name, rest) = text.split_once('(').ok_or_else(damaged)?;
    let (params, rest) = rest.split_once(')').ok_or_else(damaged)?;
    let (directives, _) = rest.split_once('{').ok_or_else(damaged)?;
    let mut end = 0;
    let mut args = Vec::new();
    for param in params.split(',').filter(|param| !param.trim().is_empty()) {
        let (size, align) = size_and_align(param).ok_or_else(damaged)?;
        let offset = u32::next_multiple_of(end, align);
        args.push(Arg { offset, size });
        end = offset + size;
    }
    let missing = || MetadataError::Missing { kernel: name.trim().to_owned(), field: ".maxntid" };
    Ok(Kernel {
        max_block_threads: max_threads(directives).ok_or_else(missing)?,
        name: name.trim().to_owned(),
        args,
        lds: 0,
        resources: None,
    })
}

/// Of `.param .u64 .ptr .align 1 name` or `.param .align 4 .b8 name[72]`. A pointer's `.align` is that of what it
/// points to.
fn size_and_align(param: &str) -> Option<(u32, u32)> {
    let words: Vec<&str> = param.split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| *word == ".b8") {
        let size = words.get(at + 1)?.split(['[', ']']).nth(1)?.parse().ok()?;
        let align = words.iter().position(|word| *word == ".align").and_then(|at| words.get(at + 1)?.parse().ok());
        return Some((size, align.unwrap_or(1)));
    }
    let kind = words.get(1)?;
    let bits: u32 = kind.get(2..)?.parse().ok()?;
    Some((bits / 8, bits / 8))
}

/// Of `.maxntid 256, 1, 1`, or of only one number.
fn max_threads(directives: &str) -> Option<u32> {
    let (_, numbers) = directives.split_once(".maxntid ")?;
    // The compiler may write a remark behind them.
    let line = numbers.lines().next()?.split("//").next()?;
    line.split(',').map(|number| number.trim().parse::<u32>().ok()).try_fold(1, |all, one| Some(all * one?))
}
