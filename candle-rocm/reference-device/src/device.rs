//! The reference device: its memory, its random numbers, what it counts and when it fails, and which custom ops it takes.

use crate::fused;
use crate::memory::{Element, Memory, Pool};
use crate::quantized::ReferenceQStorage;
use crate::storage::{ReferenceStorage, of};
use candle_core::custom::{BoxedStorage, Operand, RoundTrips, cpu_storage_as_bytes};
use candle_core::quantized::GgmlDType;
use candle_core::{
    CpuStorage, CustomDevice, CustomOp1, CustomOp2, CustomOp3, CustomQStorage, CustomStorage, DType, Device, Layout,
    Result, Shape, bail,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device over plain memory of the CPU. Clones are the same device.
#[derive(Clone)]
pub struct Reference(Arc<State>);

struct State {
    ordinal: usize,
    round_trips: RoundTrips,
    pool: Arc<Pool>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    calls: BTreeMap<&'static str, usize>,
    failing: Option<&'static str>,
    seed: u64,
    random: u64,
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reference:{}", self.0.ordinal)
    }
}

impl Reference {
    /// A device that has done nothing yet.
    pub fn new(ordinal: usize) -> Self {
        let (round_trips, pool, log) = Default::default();
        Self(Arc::new(State { ordinal, round_trips, pool, log }))
    }

    /// This device for Candle.
    pub fn device(&self) -> Device {
        Device::new_custom(self.clone())
    }

    /// How many times each thing was done on the device itself. Round trips are counted in [`Self::round_trips`].
    pub fn calls(&self) -> BTreeMap<&'static str, usize> {
        self.log().calls.clone()
    }

    /// From now on this operation fails, as `calls` or the round trips name it, or none.
    pub fn fail(&self, op: Option<&'static str>) {
        self.log().failing = op;
    }

    /// Counts a call, or fails it.
    pub(crate) fn count(&self, op: &'static str) -> Result<()> {
        self.check(op)?;
        *self.log().calls.entry(op).or_default() += 1;
        Ok(())
    }

    /// Fails an operation that is to fail.
    fn check(&self, op: &'static str) -> Result<()> {
        if self.log().failing == Some(op) {
            bail!("{self:?} was told to fail in {op}")
        }
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Poisoned memory for `count` elements.
    pub(crate) fn allocate<T: Element>(&self, count: usize) -> Memory {
        self.0.pool.allocate(count * size_of::<T>())
    }

    /// Memory that holds these bytes.
    pub(crate) fn memory_from(&self, bytes: &[u8]) -> Memory {
        let mut memory = self.0.pool.allocate(bytes.len());
        memory.bytes_mut().copy_from_slice(bytes);
        memory
    }

    pub(crate) fn storage(&self, dtype: DType, memory: Memory) -> BoxedStorage {
        Box::new(ReferenceStorage { dtype, memory, device: self.clone() })
    }

    /// New elements, in order.
    pub(crate) fn collect<T: Element>(&self, count: usize, values: impl IntoIterator<Item = T>) -> BoxedStorage {
        let mut memory = self.allocate::<T>(count);
        for (element, value) in memory.elements_mut::<T>().iter_mut().zip(values) {
            *element = value;
        }
        self.storage(T::DTYPE, memory)
    }

    /// The next random number in `0..1`: splitmix64.
    fn random(&self) -> f64 {
        let mut log = self.log();
        log.random = log.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = log.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Random numbers as the float type that was asked for.
    fn random_elements(&self, shape: &Shape, dtype: DType, draw: impl Fn() -> f64) -> Result<BoxedStorage> {
        let count = shape.elem_count();
        let values = (0..count).map(|_| draw());
        match dtype {
            DType::F64 => Ok(self.collect(count, values)),
            DType::F32 => Ok(self.collect(count, values.map(|x| x as f32))),
            DType::F16 | DType::BF16 => {
                self.collect(count, values.map(|x| x as f32)).to_dtype(&Layout::contiguous(shape), dtype)
            }
            _ => bail!("{self:?} draws no random numbers of type {dtype:?}"),
        }
    }
}

impl CustomDevice for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    fn round_trips(&self) -> &RoundTrips {
        &self.0.round_trips
    }

    fn round_trip(&self, op: &'static str) -> Result<()> {
        self.check(op)?;
        self.round_trips().begin(self.name(), op)
    }

    fn same_device(&self, other: &dyn CustomDevice) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| Arc::ptr_eq(&self.0, &other.0))
    }

    fn storage_from_cpu_storage_owned(&self, src: CpuStorage) -> Result<BoxedStorage> {
        self.storage_from_cpu_storage(&src)
    }

    fn storage_from_cpu_storage(&self, src: &CpuStorage) -> Result<BoxedStorage> {
        self.count("upload")?;
        let dtype = candle_core::backend::BackendStorage::dtype(src);
        Ok(self.storage(dtype, self.memory_from(cpu_storage_as_bytes(src))))
    }

    fn storage_from_bytes(&self, dtype: DType, src: &[u8]) -> Result<BoxedStorage> {
        self.count("upload_bytes")?;
        Ok(self.storage(dtype, self.memory_from(src)))
    }

    /// From device to device, without the CPU, where both are of this kind.
    fn storage_from_custom(&self, src: &dyn CustomStorage) -> Result<BoxedStorage> {
        match src.downcast_ref::<ReferenceStorage>() {
            Some(src) => {
                self.count("copy_from_device")?;
                Ok(self.storage(src.dtype, self.memory_from(src.memory.bytes())))
            }
            None => self.storage_from_cpu_storage_owned(src.to_cpu_storage()?),
        }
    }

    fn zeros(&self, shape: &Shape, dtype: DType) -> Result<BoxedStorage> {
        self.count("zeros")?;
        Ok(self.storage(dtype, self.memory_from(&vec![0; shape.elem_count() * dtype.size_in_bytes()])))
    }

    #[allow(unsafe_code, reason = "the trait's contract; this implementation only allocates")]
    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<BoxedStorage> {
        self.count("alloc_uninit")?;
        Ok(self.storage(dtype, self.0.pool.allocate(shape.elem_count() * dtype.size_in_bytes())))
    }

    fn rand_uniform(&self, shape: &Shape, dtype: DType, lo: f64, up: f64) -> Result<BoxedStorage> {
        self.count("rand_uniform")?;
        self.random_elements(shape, dtype, || lo + (up - lo) * self.random())
    }

    /// Box-Muller; `1 - u` is never 0.
    fn rand_normal(&self, shape: &Shape, dtype: DType, mean: f64, std: f64) -> Result<BoxedStorage> {
        self.count("rand_normal")?;
        self.random_elements(shape, dtype, || {
            let radius = (-2. * (1. - self.random()).ln()).sqrt();
            mean + std * radius * (std::f64::consts::TAU * self.random()).cos()
        })
    }

    fn set_seed(&self, seed: u64) -> Result<()> {
        let mut log = self.log();
        (log.seed, log.random) = (seed, seed);
        Ok(())
    }

    fn get_current_seed(&self) -> Result<u64> {
        Ok(self.log().seed)
    }

    fn synchronize(&self) -> Result<()> {
        self.count("synchronize")
    }

    fn qzeros(&self, elem_count: usize, dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>> {
        self.count("qzeros")?;
        let bytes = elem_count / dtype.block_size() * dtype.type_size();
        Ok(Box::new(ReferenceQStorage { memory: self.memory_from(&vec![0; bytes]), dtype, device: self.clone() }))
    }

    fn load_quantized(&self, data: &[u8], dtype: GgmlDType) -> Result<Box<dyn CustomQStorage>> {
        self.count("load_quantized")?;
        Ok(Box::new(ReferenceQStorage { memory: self.memory_from(data), dtype, device: self.clone() }))
    }

    // Parameters are part of the match: an op that comes without them, from a crate that does not tell them, runs itself.
    fn custom_op1(&self, (x, l): Operand, op: &dyn CustomOp1) -> Result<(BoxedStorage, Shape)> {
        match (op.name(), x.dtype(), &op.params().numbers[..]) {
            ("argsort", DType::F32, &[ascending, columns]) => {
                self.count("argsort")?;
                fused::argsort((of(x)?, l), ascending == 1., columns as usize)
            }
            ("softmax-last-dim", DType::F32, []) => {
                self.count("softmax-last-dim")?;
                fused::softmax((of(x)?, l))
            }
            _ => op.custom_fwd(x, l),
        }
    }

    fn custom_op2(&self, [(x1, l1), (x2, l2)]: [Operand; 2], op: &dyn CustomOp2) -> Result<(BoxedStorage, Shape)> {
        match (op.name(), x1.dtype(), &op.params().numbers[..]) {
            ("rms-norm", DType::F32, &[epsilon]) => {
                self.count("rms-norm")?;
                fused::rms_norm((of(x1)?, l1), (of(x2)?, l2), epsilon as f32)
            }
            _ => op.custom_fwd(x1, l1, x2, l2),
        }
    }

    fn custom_op3(&self, operands: [Operand; 3], op: &dyn CustomOp3) -> Result<(BoxedStorage, Shape)> {
        let [(x1, l1), (x2, l2), (x3, l3)] = operands;
        let params = op.params();
        match (op.name(), x1.dtype(), &params.numbers[..]) {
            ("layer-norm", DType::F32, &[epsilon]) => {
                self.count("layer-norm")?;
                fused::layer_norm([(of(x1)?, l1), (of(x2)?, l2), (of(x3)?, l3)], epsilon as f32)
            }
            ("rotary-emb", DType::F32, &[positions_first]) => {
                self.count("rotary-emb")?;
                fused::rotary([(of(x1)?, l1), (of(x2)?, l2), (of(x3)?, l3)], positions_first == 1.)
            }
            ("metal-sdpa", DType::F32, &[scale, cap, causal]) => {
                self.count("metal-sdpa")?;
                let how = fused::Attention { scale: scale as f32, cap: cap as f32, causal: causal == 1. };
                fused::attention([(of(x1)?, l1), (of(x2)?, l2), (of(x3)?, l3)], &how, params.tensors.first().copied())
            }
            _ => op.custom_fwd(x1, l1, x2, l2, x3, l3),
        }
    }
}
