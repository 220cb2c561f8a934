use candle_core::{CustomDevice, DType, Device, Tensor};
use candle_rocm::Options;

use crate::{data, on_targets};

const KIB: usize = 1 << 10;

#[test]
fn what_a_tensor_used_serves_the_next_one() {
    on_targets(&Options::default(), |device| {
        let candle = device.device();
        let first = Tensor::zeros(300 * KIB, DType::F32, &candle).unwrap();
        let reserved = device.memory_stats().reserved;
        drop(first);
        for _ in 0..20 {
            Tensor::zeros(300 * KIB, DType::F32, &candle).unwrap();
        }
        let stats = device.memory_stats();
        assert_eq!(stats.reserved, reserved, "nothing more was taken from the driver");
        // 1200 KiB come from a segment of 2 MiB, whose rest would fit no large request; 512 bytes are the index fault's.
        assert_eq!(stats.peak_allocated, (2 << 20) + 512);
        device.trim_memory();
        assert!(device.memory_stats().reserved < reserved);
    });
}

#[test]
fn no_memory_is_an_error_that_says_how_much_there_is_and_the_device_goes_on() {
    on_targets(&Options::default(), |device| {
        let candle = device.device();
        let free = device.memory_info().unwrap().free as usize;
        let error = Tensor::zeros(free + KIB, DType::U8, &candle).unwrap_err().to_string();
        let wanted = format!("no memory for {} bytes on rocm:0", free + KIB);
        assert!(error.starts_with(&wanted) && error.contains("bytes free"), "{error}");
        let x = data(&[3], DType::F32, 1);
        let moved = x.to_device(&candle).unwrap();
        assert_eq!((&moved + &moved).unwrap().to_vec1::<f32>().unwrap(), (&x + &x).unwrap().to_vec1::<f32>().unwrap());
    });
}

#[test]
fn what_has_no_kernel_goes_over_the_cpu_and_is_counted() {
    on_targets(&Options::default(), |device| {
        let x = data(&[5], DType::F64, 1);
        let got = x.to_device(&device.device()).unwrap().exp().unwrap().to_device(&Device::Cpu).unwrap();
        assert_eq!(got.to_vec1::<f64>().unwrap(), x.exp().unwrap().to_vec1::<f64>().unwrap());
        assert_eq!(device.round_trips().counts().into_iter().collect::<Vec<_>>(), [("exp", 1)]);
    });
}
