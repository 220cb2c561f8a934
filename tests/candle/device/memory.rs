//! Where tensors are, how they get there, and what memory holds before it is written.

use candle_core::{CustomDevice, DType, Device, DeviceLocation, IndexOp, Result, Shape, Tensor, Var};
use candle_reference_device::{Minimal, Reference};
use std::collections::HashMap;
use taper_candle_tests::{data, elements, first_line, same_everywhere};

#[test]
fn location_and_display_name_the_device() -> Result<()> {
    let device = Minimal::new(2).device();
    assert_eq!(device.location(), DeviceLocation::Custom { name: "minimal", ordinal: 2 });
    let tensor = Tensor::new(&[1f32], &device)?;
    assert_eq!(tensor.to_string(), "[1.]\nTensor[[1], f32, minimal:2]");
    assert_eq!(format!("{tensor:?}"), "Tensor[1; f32, minimal:2]");
    Ok(())
}

#[test]
fn devices_are_the_same_when_they_say_so() {
    let reference = Reference::new(0);
    assert!(reference.device().same_device(&reference.device()));
    // Two of them keep their own memory, although they give the same location.
    assert!(!reference.device().same_device(&Reference::new(0).device()));
    let minimal = Minimal::new(1);
    assert!(minimal.device().same_device(&minimal.device()));
    assert!(!minimal.device().same_device(&Minimal::new(1).device()));
    assert!(!Minimal::new(0).device().same_device(&Device::Cpu));
}

#[test]
fn tensors_of_different_devices_do_not_meet() -> Result<()> {
    let x = data(&[3], &Device::Cpu)?;
    let (a, b) = (x.to_device(&Minimal::new(0).device())?, x.to_device(&Minimal::new(1).device())?);
    // The same location, and yet two devices.
    let (c, d) = (x.to_device(&Reference::new(0).device())?, x.to_device(&Reference::new(0).device())?);
    for (a, b) in [(&a, &b), (&a, &x), (&x, &a), (&c, &d)] {
        assert!(first_line(a.add(b)).contains("device mismatch in add"));
        assert!(first_line(Var::from_tensor(a)?.set(b)).contains("device mismatch in copy"));
        for dim in [0, 1] {
            let error = first_line(Tensor::cat(&[a.unsqueeze(0)?, b.unsqueeze(0)?], dim));
            assert!(error.contains("device mismatch in c"), "{error}");
        }
        assert!(first_line(a.slice_set(b, 0, 0)).contains("device mismatch in "));
    }
    Ok(())
}

#[test]
fn a_tensor_moves_between_any_two_devices() -> Result<()> {
    let devices = [Device::Cpu, Reference::new(0).device(), Reference::new(1).device(), Minimal::new(0).device()];
    let x = data(&[3, 4], &Device::Cpu)?.t()?;
    for from in &devices {
        for to in &devices {
            let moved = x.to_device(from)?.i(1..3)?.to_device(to)?;
            assert!(moved.device().same_device(to));
            assert_eq!(elements(&moved), elements(&x.i(1..3)?));
        }
    }
    Ok(())
}

#[test]
fn two_devices_of_a_kind_need_no_cpu_between_them() -> Result<()> {
    let (a, b) = (Reference::new(0), Reference::new(1));
    data(&[8], &a.device())?.to_device(&b.device())?;
    assert_eq!(b.calls().into_iter().collect::<Vec<_>>(), [("copy_from_device", 1)]);
    assert!(!a.calls().contains_key("download"));
    Ok(())
}

#[test]
fn memory_is_poisoned_before_it_is_written_and_after_it_is_freed() -> Result<()> {
    let reference = Reference::new(0);
    let fresh = || -> Result<Vec<f32>> {
        #[allow(unsafe_code, reason = "reads memory that was not written, which this device allows")]
        let storage = unsafe { reference.alloc_uninit(&Shape::from(4), DType::F32)? };
        Ok(storage.to_cpu_storage()?.as_slice::<f32>()?.to_vec())
    };
    assert!(fresh()?.iter().all(|x| x.is_nan()));
    // Of the same size, so that its memory is the next to be given out.
    drop(Tensor::new(&[1f32, 2., 3., 4.], &reference.device())?);
    assert!(fresh()?.iter().all(|x| x.is_nan()));
    Ok(())
}

#[test]
fn a_seed_repeats_the_same_numbers() -> Result<()> {
    let device = Reference::new(0).device();
    let draw = |seed| -> Result<Vec<f32>> {
        device.set_seed(seed)?;
        let (uniform, normal) = (Tensor::rand(0f32, 1., 500, &device)?, Tensor::randn(0f32, 1., 500, &device)?);
        Ok(elements(&Tensor::cat(&[&uniform, &normal], 0)?))
    };
    let first = draw(7)?;
    assert_eq!(device.get_current_seed()?, 7);
    assert_eq!(draw(7)?, first);
    assert_ne!(draw(8)?, first);
    assert!(first[..500].iter().all(|x| (0. ..1.).contains(x)));
    let variance = first[500..].iter().map(|x| x * x).sum::<f32>() / 500.;
    assert!((0.8..1.25).contains(&variance), "{variance}");
    Ok(())
}

#[test]
fn a_device_without_random_numbers_says_why_it_takes_no_seed() {
    let error = first_line(Minimal::new(0).device().set_seed(1));
    assert_eq!(
        error,
        "minimal cannot be seeded with 1: it draws random numbers on the CPU, whose generator takes no seed"
    );
}

#[test]
fn safetensors_are_loaded_straight_onto_the_device() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("weights.safetensors");
    let weights: HashMap<_, _> = [DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8]
        .into_iter()
        .map(|dtype| Ok((format!("{dtype:?}"), data(&[3, 5], &Device::Cpu)?.abs()?.affine(9., 0.)?.to_dtype(dtype)?)))
        .collect::<Result<_>>()?;
    candle_core::safetensors::save(&weights, &path)?;
    let reference = Reference::new(0);
    for (name, tensor) in candle_core::safetensors::load(&path, &reference.device())? {
        assert_eq!(tensor.dtype(), weights[&name].dtype());
        assert_eq!(elements(&tensor.to_device(&Device::Cpu)?), elements(&weights[&name]));
    }
    assert_eq!(reference.calls().into_iter().collect::<Vec<_>>(), [("download", 5), ("upload_bytes", 5)]);
    Ok(())
}

#[test]
fn a_tensor_is_saved_from_the_device() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("x.npy");
    data(&[3, 4], &Reference::new(0).device())?.t()?.write_npy(&path)?;
    assert_eq!(elements(&Tensor::read_npy(&path)?), elements(&data(&[3, 4], &Device::Cpu)?.t()?));
    Ok(())
}

#[test]
fn index_operations_and_sort_are_as_on_the_cpu() {
    let (reference, minimal) = same_everywhere(0., |device| {
        let x = data(&[5, 9], device)?;
        let (sorted, order) = x.sort_last_dim(false)?;
        assert_eq!(elements(&x.gather(&order, 1)?), elements(&sorted));
        let rows = sorted.index_select(&Tensor::new(&[3u32, 0, 4], device)?, 0)?;
        let added = rows.index_add(&Tensor::new(&[1u32, 1], device)?, &x.i((0..3, 0..2))?.contiguous()?, 1)?;
        let scattered = added.scatter(&Tensor::zeros((3, 9), DType::U32, device)?, &rows, 1)?;
        scattered.slice_set(&rows.narrow(0, 0, 1)?.contiguous()?, 0, 2)?;
        Tensor::cat(&[&scattered, &scattered.gt(&rows)?.where_cond(&scattered, &rows)?], 1)
    });
    assert_eq!(reference.calls()["argsort"], 1);
    assert!(!reference.round_trips().counts().contains_key("argsort"));
    assert_eq!(minimal.round_trips().counts()["argsort"], 1);
}
