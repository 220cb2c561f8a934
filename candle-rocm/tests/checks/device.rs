//! Memory, events, streams and graphs.

use candle_rocm::{Context, DriverError};
use taper_kernels::unary::{Function, Unary, unary};
use taper_kernels::{Dtype, LaunchError};

use super::data::{Random, decode, input, output};

pub fn check(context: &Context) {
    bytes_go_and_come_back(context);
    a_launch_of_another_shape_is_refused(context);
    a_graph_replays_with_new_data(context);
    streams_wait_for_events(context);
    a_capture_ends_with_the_error_of_what_it_recorded(context);
}

fn bytes_go_and_come_back(context: &Context) {
    let content = Random(13).bytes(1001);
    let buffer = context.upload(&content).unwrap();
    let copy = context.alloc(1001).unwrap();
    copy.copy_from(&buffer).unwrap();
    assert_eq!(copy.download().unwrap(), content);
    copy.copy_from(&copy).unwrap();
    assert_eq!(copy.download().unwrap(), content);
    copy.fill(7).unwrap();
    assert_eq!(copy.download().unwrap(), vec![7; 1001]);
    let refused = copy.write(1000, &[1, 2]).unwrap_err().to_string();
    assert_eq!(refused, "write: 2 bytes at 1000 are outside a buffer of 1001");
    let memory = context.memory_info().unwrap();
    assert!(memory.free > 0 && memory.total > 0);
}

fn silu(x: taper_kernels::DevicePtr, y: taper_kernels::DevicePtr, count: u32) -> taper_kernels::Launch {
    unary(&Unary { function: Function::Silu, dtype: Dtype::F32, count, x, y, parameters: [0.0; 2] }).unwrap()
}

/// Arguments or a block that the loaded kernel does not have never reach the driver.
fn a_launch_of_another_shape_is_refused(context: &Context) {
    let x = input(context, Dtype::F32, &[1.0; 8]);
    let good = silu(x.buffer.ptr(), x.buffer.ptr(), 8);
    let mut wrong_block = good.clone();
    wrong_block.block = 64;
    let mut wrong_args = good.clone();
    wrong_args.args = good.args.u32(1);
    let mut wrong_name = good;
    wrong_name.kernel = "silu_f64".to_owned();
    // SAFETY: none of these runs.
    let refused = |launch| unsafe { context.stream().launch(launch) }.unwrap_err();
    assert!(matches!(refused(&wrong_block), DriverError::Launch(LaunchError::Block { takes: 256, has: 64, .. })));
    assert!(matches!(refused(&wrong_args), DriverError::Launch(LaunchError::NumArgs { takes: 5, has: 6, .. })));
    assert_eq!(refused(&wrong_name).to_string(), "the module unary has no kernel silu_f64");
}

fn a_graph_replays_with_new_data(context: &Context) {
    let x = input(context, Dtype::F32, &[0.0; 100]);
    let (middle, y) = (output(context, 400), output(context, 400));
    let launches = [silu(x.buffer.ptr(), middle.buffer.ptr(), 100), silu(middle.buffer.ptr(), y.buffer.ptr(), 100)];
    let stream = context.stream();
    context.load(&launches[0]).unwrap();
    let graph = stream
        .capture(|stream| {
            launches.iter().try_for_each(|launch| {
                // SAFETY: recorded only; the buffers outlive the replays below.
                unsafe { stream.launch(launch) }
            })
        })
        .unwrap();
    for value in [1.0f32, 2.0] {
        x.buffer.write(0, &value.to_le_bytes().repeat(100)).unwrap();
        // SAFETY: the buffers live.
        unsafe { stream.replay(&graph) }.unwrap();
        let silu = |x: f64| x / (1.0 + (-x).exp());
        let want = silu(silu(value.into()));
        assert!(decode(Dtype::F32, &y.bytes()).iter().all(|y| (y - want).abs() < 1e-6), "silu(silu({value}))");
    }
}

fn streams_wait_for_events(context: &Context) {
    let (x, y) = (input(context, Dtype::F32, &[3.0; 50]), output(context, 200));
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let (start, end) = (context.new_event().unwrap(), context.new_event().unwrap());
    context.stream().synchronize().unwrap();
    first.record(&start).unwrap();
    // SAFETY: both buffers outlive the wait below, and the second launch waits for the first.
    unsafe {
        first.launch(&silu(x.buffer.ptr(), y.buffer.ptr(), 50)).unwrap();
        first.record(&end).unwrap();
        second.wait_for(&end).unwrap();
        second.launch(&silu(y.buffer.ptr(), y.buffer.ptr(), 50)).unwrap();
    }
    second.synchronize().unwrap();
    assert!(end.elapsed_since(&start).unwrap() >= 0.0);
    let silu = |x: f64| x / (1.0 + (-x).exp());
    assert!(y.values(Dtype::F32).iter().all(|y| (y - silu(silu(3.0))).abs() < 1e-6));
}

/// And the stream runs again after it, also where the recording panics.
fn a_capture_ends_with_the_error_of_what_it_recorded(context: &Context) {
    let stream = context.stream();
    let x = context.upload(&[1; 8]).unwrap();
    let failed = stream.capture(|_| x.write(7, &[0; 2])).err().expect("outside the buffer");
    assert!(matches!(failed, DriverError::OutOfBounds { .. }), "{failed}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|_| std::panic::resume_unwind(Box::new("while recording"))).map(drop)
    }));
    assert!(panicked.is_err());
    x.write(0, &[2; 8]).unwrap();
    assert_eq!(x.download().unwrap(), [2; 8]);
}
