//! Every operation that a device may leave to a round trip, by its name: each is refused by that name under the strict switch, and
//! each can be made to fail on the reference device.

use candle_core::custom::{BoxedStorage, CustomQStorage};
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::scalar::Scalar;
use candle_core::{
    CpuStorage, CustomDevice, CustomOp1, CustomOp2, CustomOp3, DType, Device, InplaceOp1, InplaceOp2, InplaceOp3,
    Layout, Module, Result, Shape, Storage, Tensor, Var,
};
use candle_nn::{ops, rotary_emb};
use candle_reference_device::{Minimal, Reference};
use taper_candle_tests::{data, first_line};

/// What the operations are called with, all on one device.
struct Operands {
    device: Device,
    /// `[4, 4]`, with others of the same shape.
    x: Tensor,
    y: Tensor,
    var: Var,
    /// `[1, 1, 4]` and `[1, 1, 4, 4]`
    signal: Tensor,
    image: Tensor,
    /// `[4, 4]` of u32 below 4, and its first row.
    ids: Tensor,
    row: Tensor,
    /// `[4]`
    weight: Tensor,
    /// `[1, 1, 4, 8]`; its angles, `[4, 4]`, are `x`.
    heads: Tensor,
    /// `[4, 256]`, and an input for it.
    quantised: QTensor,
    wide: Tensor,
    /// `[2, 4, 256]`
    experts: QTensor,
}

impl Operands {
    fn new(device: &Device) -> Result<Self> {
        let ids = Tensor::new(&[[0u32, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]], device)?;
        let quantised = |shape: &[usize]| QTensor::quantize_onto(&data(shape, &Device::Cpu)?, GgmlDType::Q4K, device);
        Ok(Self {
            x: data(&[4, 4], device)?,
            y: data(&[4, 4], device)?,
            var: Var::from_tensor(&data(&[4, 4], device)?)?,
            signal: data(&[1, 1, 4], device)?,
            image: data(&[1, 1, 4, 4], device)?,
            row: Tensor::new(&[0u32, 1, 2, 3], device)?,
            weight: data(&[4], device)?,
            heads: data(&[1, 1, 4, 8], device)?,
            quantised: quantised(&[4, 256])?,
            wide: data(&[1, 1, 256], device)?,
            experts: quantised(&[2, 4, 256])?,
            ids,
            device: device.clone(),
        })
    }

    /// A block for 256 elements.
    fn blocks(&self) -> Result<Box<dyn CustomQStorage>> {
        self.device.as_custom_device()?.load_quantized(&[0; 144], GgmlDType::Q4K)
    }
}

fn elements_of(tensor: &Tensor) -> Result<BoxedStorage> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Custom(storage) => storage.try_clone(layout),
        _ => candle_core::bail!("{tensor:?} is on one of Candle's own devices"),
    }
}

type Call = fn(&Operands) -> Result<()>;

macro_rules! calls {
    ($($name:literal: |$o:ident| $call:expr;)*) => {
        &[$(($name, |$o: &Operands| $call.map(|_| ()))),*]
    };
}

const CALLS: &[(&str, Call)] = calls! {
    "zeros": |o| Tensor::zeros(3, DType::F32, &o.device);
    "rand_uniform": |o| Tensor::rand(0f32, 1., 3, &o.device);
    "rand_normal": |o| Tensor::randn(0f32, 1., 3, &o.device);
    "qzeros": |o| QTensor::quantize(&o.wide, GgmlDType::Q4K);
    "affine": |o| o.x.affine(2., 1.);
    "powf": |o| o.x.powf(2.);
    "elu": |o| o.x.elu(1.);
    "sum": |o| o.x.sum(1);
    "min": |o| o.x.min(1);
    "max": |o| o.x.max(1);
    "argmin": |o| o.x.argmin(1);
    "argmax": |o| o.x.argmax(1);
    "cmp": |o| o.x.lt(&o.y);
    "to_dtype": |o| o.x.to_dtype(DType::BF16);
    "exp": |o| o.x.exp();
    "log": |o| o.x.log();
    "sin": |o| o.x.sin();
    "cos": |o| o.x.cos();
    "abs": |o| o.x.abs();
    "neg": |o| o.x.neg();
    "recip": |o| o.x.recip();
    "sqr": |o| o.x.sqr();
    "sqrt": |o| o.x.sqrt();
    "gelu": |o| o.x.gelu();
    "gelu_erf": |o| o.x.gelu_erf();
    "erf": |o| o.x.erf();
    "relu": |o| o.x.relu();
    "silu": |o| o.x.silu();
    "tanh": |o| o.x.tanh();
    "floor": |o| o.x.floor();
    "ceil": |o| o.x.ceil();
    "round": |o| o.x.round();
    "sign": |o| o.x.sign();
    "add": |o| o.x.add(&o.y);
    "mul": |o| o.x.mul(&o.y);
    "sub": |o| o.x.sub(&o.y);
    "div": |o| o.x.div(&o.y);
    "maximum": |o| o.x.maximum(&o.y);
    "minimum": |o| o.x.minimum(&o.y);
    "where_cond": |o| o.ids.where_cond(&o.x, &o.y);
    "conv1d": |o| o.signal.conv1d(&o.signal, 0, 1, 1, 1);
    "conv_transpose1d": |o| o.signal.conv_transpose1d(&o.signal, 0, 0, 1, 1, 1);
    "conv2d": |o| o.image.conv2d(&o.image, 0, 1, 1, 1);
    "conv_transpose2d": |o| o.image.conv_transpose2d(&o.image, 0, 0, 1, 1);
    "avg_pool2d": |o| o.image.avg_pool2d(2);
    "max_pool2d": |o| o.image.max_pool2d(2);
    "upsample_nearest1d": |o| o.signal.upsample_nearest1d(8);
    "upsample_nearest2d": |o| o.image.upsample_nearest2d(8, 8);
    "upsample_bilinear2d": |o| o.image.upsample_bilinear2d(8, 8, false);
    "gather": |o| o.x.gather(&o.ids, 1);
    "scatter_set": |o| o.x.scatter_set(&o.ids, &o.y, 1);
    "scatter_add": |o| o.x.scatter_add_set(&o.ids, &o.y, 1);
    "index_select": |o| o.x.index_select(&o.row, 1);
    "index_add": |o| o.x.index_add(&o.row, &o.y, 1);
    "matmul": |o| o.x.matmul(&o.y);
    "copy_strided_src": |o| o.var.set(&o.y);
    "copy2d": |o| o.x.slice_set(&o.y, 0, 0);
    "const_set": |o| o.x.const_set(Scalar::F32(1.));
    "qmatmul": |o| QMatMul::from_arc(std::sync::Arc::new(copy_of(&o.quantised)?))?.forward(&o.wide);
    "dequantize": |o| o.quantised.dequantize(&o.device);
    "quantize": |o| o.blocks()?.quantize(elements_of(&o.wide)?.as_ref());
    "quantize_imatrix": |o| o.blocks()?.quantize_imatrix(elements_of(&o.wide)?.as_ref(), &[1.; 256], 256);
    "qembedding": |o| o.quantised.embedding(&o.row);
    "indexed_moe_forward": |o| o.experts.indexed_moe_forward(&o.wide, &o.row.narrow(0, 0, 1)?.unsqueeze(0)?);
    "argsort": |o| o.x.arg_sort_last_dim(true);
    "softmax-last-dim": |o| ops::softmax_last_dim(&o.x);
    "sigmoid": |o| ops::sigmoid(&o.x);
    "rms-norm": |o| ops::rms_norm(&o.x, &o.weight, 1e-5);
    "layer-norm": |o| ops::layer_norm(&o.x, &o.weight, &o.weight, 1e-5);
    "metal-sdpa": |o| ops::sdpa(&o.heads, &o.heads, &o.heads, None, true, 1., 1.);
    "rotary-emb": |o| rotary_emb::rope(&o.heads, &o.x, &o.x);
    "rotary-emb-int": |o| rotary_emb::rope_i(&o.heads, &o.x, &o.x);
    "first-of-1": |o| o.x.apply_op1_no_bwd(&First::<1>);
    "first-of-2": |o| o.x.apply_op2_no_bwd(&o.y, &First::<2>);
    "first-of-3": |o| o.x.apply_op3_no_bwd(&o.y, &o.y, &First::<3>);
    "in-place-of-1": |o| o.x.inplace_op1(&InPlace::<1>);
    "in-place-of-2": |o| o.x.inplace_op2(&o.y, &InPlace::<2>);
    "in-place-of-3": |o| o.x.inplace_op3(&o.y, &o.y, &InPlace::<3>);
};

/// A product needs weights that it owns.
fn copy_of(weights: &QTensor) -> Result<QTensor> {
    let device = weights.device();
    let storage = device.as_custom_device()?.load_quantized(&weights.data()?, weights.dtype())?;
    QTensor::new(candle_core::quantized::QStorage::Custom(storage), weights.shape())
}

#[test]
fn a_strict_device_refuses_every_operation_by_its_name() -> Result<()> {
    let minimal = Minimal::new(0);
    let operands = Operands::new(&minimal.device())?;
    minimal.round_trips().set_strict(true);
    let before = minimal.round_trips().total();
    for (name, call) in CALLS {
        let error = first_line(call(&operands));
        assert!(error.starts_with(&format!("minimal does not implement {name}, and")), "{name}: {error}");
    }
    assert_eq!(minimal.round_trips().total(), before);
    Ok(())
}

#[test]
fn every_operation_can_be_made_to_fail() -> Result<()> {
    let reference = Reference::new(0);
    let operands = Operands::new(&reference.device())?;
    for (name, call) in CALLS {
        call(&operands)?;
        reference.fail(Some(name));
        assert_eq!(first_line(call(&operands)), format!("reference:0 was told to fail in {name}"));
        reference.fail(None);
    }
    Ok(())
}

/// The names in the sources of the traits' defaults: one that is added there without a line here would go untested.
#[test]
fn the_table_has_every_name_of_the_defaults() {
    let sources = concat!(
        include_str!("../../../candle-rocm/candle-core/src/custom/device.rs"),
        include_str!("../../../candle-rocm/candle-core/src/custom/storage.rs"),
        include_str!("../../../candle-rocm/candle-core/src/custom/quantized.rs"),
    );
    let literals = |start: &str| -> Vec<&str> {
        let calls = sources.lines().filter(|line| line.contains(start));
        calls.filter_map(|line| line.split(start).nth(1)?.split('"').nth(1)).collect()
    };
    let names: Vec<&str> = ["via_cpu(", "leave(", "round_trip("].into_iter().flat_map(literals).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(CALLS.iter().any(|(listed, _)| *listed == name), "{name} is not in the table");
    }
}

/// A custom op of N operands that no device knows: its result is the first.
struct First<const N: usize>;

fn first(storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
    Ok((storage.clone(), layout.shape().clone()))
}

impl CustomOp1 for First<1> {
    fn name(&self) -> &'static str {
        "first-of-1"
    }
    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> Result<(CpuStorage, Shape)> {
        first(s, l)
    }
}

impl CustomOp2 for First<2> {
    fn name(&self) -> &'static str {
        "first-of-2"
    }
    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        first(s, l)
    }
}

impl CustomOp3 for First<3> {
    fn name(&self) -> &'static str {
        "first-of-3"
    }
    fn cpu_fwd(
        &self,
        s: &CpuStorage,
        l: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        first(s, l)
    }
}

/// An op in place that no device knows, and that leaves everything as it is.
struct InPlace<const N: usize>;

impl InplaceOp1 for InPlace<1> {
    fn name(&self) -> &'static str {
        "in-place-of-1"
    }
    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        Ok(())
    }
}

impl InplaceOp2 for InPlace<2> {
    fn name(&self) -> &'static str {
        "in-place-of-2"
    }
    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<()> {
        Ok(())
    }
}

impl InplaceOp3 for InPlace<3> {
    fn name(&self) -> &'static str {
        "in-place-of-3"
    }
    fn cpu_fwd(
        &self,
        _: &mut CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<()> {
        Ok(())
    }
}
