//! The kernels that are shipped (crate `taper-kernels`), as they are or with a fault planted in their source.

use crate::support::{Buffer, Gpu, compile_in};
use half::bf16;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use taper_kernels::attention::{Decode, decode as decode_attention};
use taper_kernels::gemm::{Gemm, Kind, gemm};
use taper_kernels::norm::{RmsNorm, rms_norm};
use taper_kernels::{DevicePtr, Dtype, Launch};

/// The sources of the kernels that are shipped.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/src/hip")
}

/// The code object that is shipped, compiled here: the crate's feature for it would have all other tests wait for all targets.
pub fn image(module: &str, target: &str) -> Vec<u8> {
    compile_in(&sources(), &format!("{module}.hip"), target, &["-std=c++20"])
}

/// One planted fault: in this file of the kernels' sources, this text becomes that one.
pub struct Plant(pub &'static str, pub &'static str, pub &'static str);

/// A module compiled from sources with a fault; the text that it replaces must be there once.
pub fn planted(module: &str, target: &str, plant: &Plant) -> Vec<u8> {
    let Plant(file, from, to) = plant;
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(sources()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        if name == *file {
            assert_eq!(text.matches(from).count(), 1, "{file} has once: {from}");
            text = text.replace(from, to);
        }
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    compile_in(folder.path(), &format!("{module}.hip"), target, &["-std=c++20"])
}

impl Gpu {
    /// Launches what a geometry function of the kernels' crate returned, from this code object.
    pub fn launch_shipped(&self, code: &[u8], launch: &Launch) -> c_int {
        let function = self.function(code, &launch.kernel);
        self.launch_bytes(function, launch.grid, launch.block, launch.args.bytes())
    }
}

pub fn pointer<T>(buffer: Buffer<T>) -> DevicePtr {
    DevicePtr(buffer.address.addr() as u64)
}

/// The norm of rows of 2048 values, each by a block of eight waves.
pub fn norm(rows: u32, x: Buffer<bf16>, weight: Buffer<bf16>, y: Buffer<bf16>) -> Launch {
    let (x, weight, y) = (pointer(x), pointer(weight), pointer(y));
    let norm = RmsNorm { dtype: Dtype::Bf16, rows, n: 2048, eps: 1e-6, x, weight, y, residual: None };
    rms_norm(&norm).unwrap()
}

/// A product of matrices of f16, `m x k` and `n x k`.
pub fn product(m: u32, n: u32, k: u32, a: Buffer<u16>, b: Buffer<u16>, c: Buffer<u16>) -> Launch {
    let (a, b, c) = (pointer(a), pointer(b), pointer(c));
    gemm(&Gemm { kind: Kind::F16, batch: 1, m, n, k, a, stride_a: 0, b, stride_b: 0, c, stride_c: 0 }).unwrap()
}

/// What attention reads and writes: one sequence of four heads of 64 values, in pages of 16 tokens.
pub struct Cache {
    pub q: Buffer<u16>,
    pub keys: Buffer<u16>,
    pub table: Buffer<u32>,
    pub lengths: Buffer<u32>,
    pub out: Buffer<u16>,
}

impl Cache {
    /// As many pages as `length` tokens need, and no more.
    pub fn new(gpu: &Gpu, length: u32) -> Cache {
        let pages = length.div_ceil(16);
        Cache {
            q: gpu.upload(&[0x3400u16; 4 * 64]),
            keys: gpu.upload(&vec![0x3400u16; pages as usize * 16 * 4 * 64]),
            table: gpu.upload(&(0..pages).collect::<Vec<_>>()),
            lengths: gpu.upload(&[length]),
            out: gpu.allocate(4 * 64),
        }
    }

    /// The keys are the values as well.
    pub fn attention(&self) -> Launch {
        let decode = Decode {
            dtype: Dtype::F16,
            sequences: 1,
            heads: 4,
            kv_heads: 4,
            head_dim: 64,
            block_size: 16,
            table_width: self.table.len as u32,
            // Tokens then begin within a page, and the last loads go past the last one.
            window: Some(40),
            scale: 0.125,
            splits: 1,
            q: pointer(self.q),
            keys: pointer(self.keys),
            values: pointer(self.keys),
            table: pointer(self.table),
            lengths: pointer(self.lengths),
            out: pointer(self.out),
            partial: DevicePtr::NULL,
        };
        decode_attention(&decode).unwrap().0
    }
}
