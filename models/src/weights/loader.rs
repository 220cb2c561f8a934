//! Brings tensors from a checkpoint onto a device: shapes checked, storage type kept where Candle computes with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use half::{bf16, f16};

use super::directory::{TensorDirectory, TensorEntry};
use super::error::LoadError;
use crate::quant::{GgmlType, Linear, Weight};

/// Told how far loading has come: `(bytes done, bytes in all)`. Returning false ends it with [`LoadError::Interrupted`].
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// Reads the tensors of one checkpoint.
pub struct Loader<'a, 'p> {
    directory: &'a TensorDirectory,
    device: Device,
    used: BTreeSet<String>,
    done: u64,
    total: u64,
    /// `None`: nothing is read, see [`Loader::checking`].
    progress: Option<&'a mut Progress<'p>>,
}

impl<'a, 'p> Loader<'a, 'p> {
    /// A loader onto `device`. `read` tells which tensors will be asked for; progress counts their bytes.
    pub fn new(
        directory: &'a TensorDirectory,
        device: &Device,
        read: impl Fn(&str) -> bool,
        progress: &'a mut Progress<'p>,
    ) -> Self {
        let total = directory.tensors.iter().filter(|(name, _)| read(name)).map(|(_, entry)| entry.bytes).sum();
        Self { directory, device: device.clone(), used: BTreeSet::new(), done: 0, total, progress: Some(progress) }
    }

    /// A loader that finds all that is wrong with names, shapes and types, and gives empty tensors: what is built from them
    /// tells whether a checkpoint is complete without a byte of its weights read.
    pub fn checking(directory: &'a TensorDirectory) -> Self {
        Self { directory, device: Device::Cpu, used: BTreeSet::new(), done: 0, total: 0, progress: None }
    }

    /// Tensors that were never asked for.
    pub fn unused(&self) -> Vec<&'a str> {
        self.directory.tensors.keys().map(String::as_str).filter(|name| !self.used.contains(*name)).collect()
    }

    /// A vector of `len` numbers as f32, each plus `offset`.
    pub fn vector(&mut self, name: &str, len: usize, offset: f32) -> Result<Tensor, LoadError> {
        let entry = self.checked(name, &[len])?;
        let mut values = self.floats(name, entry)?;
        if offset != 0.0 {
            values.iter_mut().for_each(|value| *value += offset);
        }
        // Not `len`: a loader that checks reads none.
        let len = values.len();
        Tensor::from_vec(values, len, &self.device).map_err(|e| tensor_error(name, e))
    }

    /// A matrix of `[rows, columns]`.
    pub fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Weight, LoadError> {
        self.stacked(&[(name, rows)], columns)
    }

    /// Projections of one input, `(name, rows)` each, as a single layer whose output holds theirs side by side.
    /// Neighbours of one storage type become one matrix. With `bias`, each has `name` with `.bias` for `.weight`.
    pub fn linear(&mut self, parts: &[(String, usize)], columns: usize, bias: bool) -> Result<Linear, LoadError> {
        let mut weights = Vec::new();
        let ty = |loader: &Self, name: &str| loader.directory.require(name).map(|entry| entry.type_name().to_owned());
        let mut start = 0;
        while start < parts.len() {
            let first = ty(self, &parts[start].0)?;
            let mut end = start + 1;
            while end < parts.len() && ty(self, &parts[end].0)? == first {
                end += 1;
            }
            let run: Vec<(&str, usize)> = parts[start..end].iter().map(|(name, rows)| (name.as_str(), *rows)).collect();
            weights.push(self.stacked(&run, columns)?);
            start = end;
        }
        let bias = if bias { Some(self.biases(parts)?) } else { None };
        Ok(Linear::new(weights, bias))
    }

    fn biases(&mut self, parts: &[(String, usize)]) -> Result<Tensor, LoadError> {
        let mut values = Vec::new();
        for (name, rows) in parts {
            let name = name.replace(".weight", ".bias");
            let entry = self.checked(&name, &[*rows])?;
            values.extend(self.floats(&name, entry)?);
        }
        let len = values.len();
        Tensor::from_vec(values, len, &self.device).map_err(|e| tensor_error(&parts[0].0, e))
    }

    /// Matrices of one storage type and width, one below the other.
    fn stacked(&mut self, parts: &[(&str, usize)], columns: usize) -> Result<Weight, LoadError> {
        let (first, rows) = (parts[0].0, parts.iter().map(|(_, rows)| rows).sum::<usize>());
        let entries: Vec<(&str, &TensorEntry)> = parts
            .iter()
            .map(|(name, rows)| Ok((*name, self.checked(name, &[*rows, columns])?)))
            .collect::<Result<_, LoadError>>()?;
        let (ty, dtype) = supported(self.directory, first, entries[0].1)?;
        if self.progress.is_none() {
            let empty = Tensor::zeros((0, columns), candle_core::DType::F32, &self.device);
            return empty.map(Weight::Dense).map_err(|e| tensor_error(first, e));
        }
        if matches!(dtype, GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16) {
            let mut values = Vec::with_capacity(rows * columns);
            for (name, entry) in entries {
                self.append_floats(name, entry, &mut values)?;
            }
            let weight = Tensor::from_vec(values, (rows, columns), &self.device).map_err(|e| tensor_error(first, e))?;
            return Ok(Weight::Dense(weight));
        }
        let total: u64 = entries.iter().map(|(_, entry)| entry.bytes).sum();
        let mut bytes = Vec::with_capacity(total as usize);
        for (_, entry) in entries {
            let directory = self.directory;
            directory.read(entry, ty.block_bytes, |piece| {
                bytes.extend_from_slice(piece);
                self.advance(piece.len())
            })?;
        }
        let storage = QStorage::from_data(bytes.into(), &self.device, dtype).map_err(|e| tensor_error(first, e))?;
        let tensor = QTensor::new(storage, (rows, columns)).map_err(|e| tensor_error(first, e))?;
        Ok(Weight::Quantised(Arc::new(tensor)))
    }

    fn checked(&mut self, name: &str, shape: &[usize]) -> Result<&'a TensorEntry, LoadError> {
        let entry = self.directory.require(name)?;
        if entry.shape != shape {
            return Err(LoadError::Shape {
                path: self.directory.files[entry.file].clone(),
                tensor: name.to_owned(),
                found: entry.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        self.used.insert(name.to_owned());
        Ok(entry)
    }

    fn floats(&mut self, name: &str, entry: &TensorEntry) -> Result<Vec<f32>, LoadError> {
        if self.progress.is_none() {
            return supported(self.directory, name, entry).map(|_| Vec::new());
        }
        let mut values = Vec::with_capacity(entry.shape.iter().product());
        self.append_floats(name, entry, &mut values)?;
        Ok(values)
    }

    fn append_floats(&mut self, name: &str, entry: &TensorEntry, values: &mut Vec<f32>) -> Result<(), LoadError> {
        let directory = self.directory;
        stream_f32(directory, name, entry, |piece| {
            values.extend_from_slice(piece);
            self.advance(piece.len() * entry.bytes as usize / entry.shape.iter().product::<usize>().max(1))
        })
    }

    fn advance(&mut self, bytes: usize) -> Result<(), LoadError> {
        self.done += bytes as u64;
        let (done, total) = (self.done.min(self.total), self.total);
        let go_on = self.progress.as_mut().is_none_or(|progress| progress(done, total));
        if go_on { Ok(()) } else { Err(LoadError::Interrupted) }
    }
}

/// A tensor's values as f32, whatever it is stored as.
pub(super) fn read_f32(directory: &TensorDirectory, name: &str, entry: &TensorEntry) -> Result<Vec<f32>, LoadError> {
    // Before anything is allocated: the shape of a tensor of unknown type is not checked against the file.
    supported(directory, name, entry)?;
    let mut values = Vec::with_capacity(entry.shape.iter().product());
    stream_f32(directory, name, entry, |piece| {
        values.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(values)
}

fn stream_f32(
    directory: &TensorDirectory,
    name: &str,
    entry: &TensorEntry,
    mut sink: impl FnMut(&[f32]) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let (ty, dtype) = supported(directory, name, entry)?;
    let mut floats = Vec::new();
    directory.read(entry, ty.block_bytes, |bytes| {
        floats.clear();
        match dtype {
            GgmlDType::F32 => {
                floats.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            }
            GgmlDType::F16 => floats.extend(bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())),
            GgmlDType::BF16 => floats.extend(bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())),
            quantised => floats.extend(dequantise(bytes, ty, quantised).map_err(|e| tensor_error(name, e))?),
        }
        sink(&floats)
    })
}

fn dequantise(bytes: &[u8], ty: &GgmlType, dtype: GgmlDType) -> candle_core::Result<Vec<f32>> {
    let elements = bytes.len() / ty.block_bytes * ty.block_size;
    let storage = QStorage::from_data(bytes.into(), &Device::Cpu, dtype)?;
    QTensor::new(storage, elements)?.dequantize(&Device::Cpu)?.to_vec1()
}

fn supported(
    directory: &TensorDirectory,
    name: &str,
    entry: &TensorEntry,
) -> Result<(&'static GgmlType, GgmlDType), LoadError> {
    if let Ok(ty) = entry.ty
        && let Some(dtype) = ty.dtype
    {
        return Ok((ty, dtype));
    }
    let names: Vec<&str> = GgmlType::all().iter().filter(|ty| ty.dtype.is_some()).map(|ty| ty.name).collect();
    Err(LoadError::TensorType {
        path: directory.files[entry.file].clone(),
        tensor: name.to_owned(),
        found: entry.type_name().to_owned(),
        supported: names.join(", "),
    })
}

fn tensor_error(what: &str, source: candle_core::Error) -> LoadError {
    LoadError::Tensor { what: what.to_owned(), source: Box::new(source) }
}
