//! Operations that a device lacks: counted, warned of once, refused under the strict switch.

use candle_core::quantized::GgmlDType;
use candle_core::{CpuStorage, CustomDevice, CustomOp1, Device, InplaceOp2, Layout, Result, Shape, Tensor};
use candle_reference_device::{Minimal, Reference};
use std::sync::{Arc, Mutex};
use taper_candle_tests::{data, elements, first_line, same_everywhere};

#[test]
fn each_operation_is_counted_by_its_name() -> Result<()> {
    let minimal = Minimal::new(0);
    let x = data(&[1, 1, 4, 4], &minimal.device())?;
    x.exp()?.exp()?.max_pool2d(2)?.add(&x.avg_pool2d(2)?)?.argmax(3)?;
    let counts: Vec<_> = minimal.round_trips().counts().into_iter().collect();
    assert_eq!(counts, [("add", 1), ("argmax", 1), ("avg_pool2d", 1), ("exp", 2), ("max_pool2d", 1)]);
    assert_eq!(minimal.round_trips().total(), 6);
    Ok(())
}

#[test]
fn what_the_device_does_itself_is_no_round_trip() -> Result<()> {
    let (reference, _) = same_everywhere(1e-6, |device| {
        let x = data(&[2, 3, 8, 8], device)?;
        let kernel = data(&[5, 3, 3, 2], device)?;
        let y = x.conv2d(&kernel, 1, 2, 1, 1)?.relu()?.sum(1)?;
        y.matmul(&y.t()?)
    });
    assert_eq!(reference.round_trips().total(), 0, "{:?}", reference.round_trips().counts());
    assert_eq!(reference.calls()["conv2d"], 1);
    Ok(())
}

#[test]
fn one_warning_for_each_operation() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let device = Minimal::new(3).device();
        let x = data(&[4], &device).unwrap();
        x.exp().unwrap().exp().unwrap().tanh().unwrap();
        assert_eq!(x.device().location(), device.location());
    });
    assert_eq!(*log.0.lock().unwrap(), ["minimal exp", "minimal tanh"]);
}

#[test]
fn a_strict_device_refuses_by_name() -> Result<()> {
    let minimal = Minimal::new(0);
    let x = data(&[2, 2], &minimal.device())?;
    minimal.round_trips().set_strict(true);
    let error = first_line(x.matmul(&x));
    assert!(error.starts_with("minimal does not implement matmul, and is told to be strict"), "{error}");
    assert_eq!(minimal.round_trips().total(), 0);
    minimal.round_trips().set_strict(false);
    x.matmul(&x)?;
    Ok(())
}

/// One end of a transfer is elsewhere, whatever a device implements.
#[test]
fn transfers_pass_a_strict_device() -> Result<()> {
    let (here, there) = (Minimal::new(0), Minimal::new(1));
    here.round_trips().set_strict(true);
    there.round_trips().set_strict(true);
    let x = data(&[32], &Device::Cpu)?;
    let moved = x.to_device(&here.device())?.to_device(&there.device())?.to_device(&Device::Cpu)?;
    assert_eq!(elements(&moved), elements(&x));
    // One block of Q8_0 holds 32 elements.
    let mut blocks = here.load_quantized(&[0; 34], GgmlDType::Q8_0)?;
    blocks.quantize_onto(&CpuStorage::F32(elements(&x)))?;
    assert!(blocks.data()?.iter().any(|&byte| byte != 0));
    assert_eq!((here.round_trips().total(), there.round_trips().total()), (0, 0));
    Ok(())
}

#[test]
fn a_custom_op_that_knows_no_device_runs_on_every_device() {
    let (reference, minimal) = same_everywhere(0., |device| data(&[3, 5], device)?.t()?.apply_op1(Halve));
    assert_eq!(minimal.round_trips().counts()["halve"], 1);
    assert_eq!(reference.round_trips().counts()["halve"], 1);
}

#[test]
fn a_strict_device_refuses_custom_ops_and_in_place_ops() -> Result<()> {
    let reference = Reference::new(0);
    reference.round_trips().set_strict(true);
    let x = data(&[4], &reference.device())?;
    assert!(first_line(x.apply_op1_no_bwd(&Halve)).contains("halve"));
    assert!(first_line(x.inplace_op2(&x.copy()?, &AddTo)).contains("add-to"));
    Ok(())
}

#[test]
fn a_device_told_to_fail_says_where() -> Result<()> {
    let reference = Reference::new(1);
    let x = data(&[2, 2], &reference.device())?;
    reference.fail(Some("matmul"));
    assert_eq!(first_line(x.matmul(&x)), "reference:1 was told to fail in matmul");
    reference.fail(None);
    assert_eq!(elements(&x.matmul(&x)?).len(), 4);
    Ok(())
}

#[test]
fn an_in_place_op_overwrites_the_memory_it_was_given() -> Result<()> {
    for device in [Reference::new(0).device(), Device::Cpu] {
        let (x, y) = (Tensor::new(&[1f32, 2., 3.], &device)?, Tensor::new(&[10f32, 20., 30.], &device)?);
        let before = address(&x);
        x.inplace_op2(&y, &AddTo)?;
        assert_eq!(elements(&x), [11., 22., 33.]);
        assert_eq!(address(&x), before);
    }
    Ok(())
}

fn address(tensor: &Tensor) -> Option<*const u8> {
    match &*tensor.storage_and_layout().0 {
        candle_core::Storage::Custom(s) => {
            s.downcast_ref::<candle_reference_device::ReferenceStorage>().map(|s| s.address())
        }
        _ => None,
    }
}

pub struct Halve;
impl CustomOp1 for Halve {
    fn name(&self) -> &'static str {
        "halve"
    }
    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let elements = storage.as_slice::<f32>()?;
        let halves = layout.offsets().map(|at| elements[at] / 2.).collect();
        Ok((CpuStorage::F32(halves), layout.shape().clone()))
    }
}

struct AddTo;
impl InplaceOp2 for AddTo {
    fn name(&self) -> &'static str {
        "add-to"
    }
    fn cpu_fwd(&self, dst: &mut CpuStorage, dst_l: &Layout, src: &CpuStorage, src_l: &Layout) -> Result<()> {
        let (CpuStorage::F32(dst), CpuStorage::F32(src)) = (dst, src) else { candle_core::bail!("f32 only") };
        dst_l.offsets().zip(src_l.offsets()).for_each(|(to, from)| dst[to] += src[from]);
        Ok(())
    }
}

/// Keeps "device op" of every event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut words = Words(vec![]);
        event.record(&mut words);
        self.0.lock().unwrap().push(words.0.join(" "));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Words(Vec<String>);
impl tracing::field::Visit for Words {
    fn record_str(&mut self, _: &tracing::field::Field, value: &str) {
        self.0.push(value.to_owned());
    }
    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}
