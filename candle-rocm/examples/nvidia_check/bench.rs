//! Times of kernels at sizes of real models, against the card's bandwidth or arithmetic.
//!
//! Launches are replayed from a graph. Buffers rotate, so that weights come from memory and not from the cache.

use candle_rocm::{Buffer, Context};
use taper_kernels::attention::{Decode, decode, splits};
use taper_kernels::copy::{Copy, copy};
use taper_kernels::gemm::{Gemm, Kind, gemm};
use taper_kernels::norm::{RmsNorm, rms_norm};
use taper_kernels::quant::{Format, Matvec, matvec};
use taper_kernels::reduce::{Reduce, Reduction, reduce};
use taper_kernels::softmax::{Softmax, softmax};
use taper_kernels::unary::{Function, Unary, unary};
use taper_kernels::{Dtype, Launch, cast};

use crate::checks::data::{Random, encode, input_u32};

/// More than any cache holds.
const ROTATED_BYTES: usize = 1 << 30;
const MOST_COPIES: usize = 16;
const REPLAYS: u32 = 5;

/// One line of the table.
struct Case {
    name: String,
    /// Read and written by one launch.
    bytes: f64,
    /// Multiplications and additions of one launch; 0 where bandwidth is the limit.
    operations: f64,
}

pub fn all(context: &Context) {
    println!("{:<44} {:>10} {:>9} {:>9} {:>6}", "kernel", "us", "GB/s", "TFLOP/s", "peak");
    rows(context);
    elements(context);
    products(context);
    matrices(context);
    attention(context);
}

/// Memory of random 16-bit floats of usual size, good as any weights, too.
fn random(context: &Context, bytes: usize) -> Buffer {
    let mut random = Random(14);
    let piece = encode(Dtype::F16, &random.units(1 << 15));
    let content: Vec<u8> = piece.iter().cycle().take(bytes).copied().collect();
    context.upload(&content).expect("the card has room")
}

/// As many copies as a rotation needs.
fn rotation(context: &Context, bytes: usize) -> Vec<Buffer> {
    let copies = (ROTATED_BYTES / bytes).clamp(1, MOST_COPIES);
    (0..copies).map(|_| random(context, bytes)).collect()
}

/// Records the launches several times, replays them, and prints the time of one.
fn measure(context: &Context, case: &Case, launches: &[Vec<Launch>]) {
    let stream = context.stream();
    let rounds = 48usize.div_ceil(launches.len());
    launches.iter().flatten().for_each(|launch| context.load(launch).expect("images hold every kernel"));
    let record = || {
        stream.capture(|stream| {
            for launch in (0..rounds).flat_map(|_| launches.iter().flatten()) {
                // SAFETY: recorded only; buffers outlive the replays below.
                unsafe { stream.launch(launch)? };
            }
            Ok(())
        })
    };
    let graph = record().expect("launches can be recorded");
    let (start, end) = (context.new_event().expect("an event"), context.new_event().expect("an event"));
    let replay = || {
        // SAFETY: the caller of `measure` holds all buffers.
        unsafe { stream.replay(&graph) }.expect("a graph replays");
    };
    replay();
    stream.record(&start).expect("an event is recorded");
    (0..REPLAYS).for_each(|_| replay());
    stream.record(&end).expect("an event is recorded");
    let milliseconds = end.elapsed_since(&start).expect("both have passed");
    let count = f64::from(REPLAYS) * (rounds * launches.len()) as f64;
    print(context, case, f64::from(milliseconds) * 1e3 / count);
}

fn print(context: &Context, case: &Case, microseconds: f64) {
    let properties = context.properties();
    // Two transfers a clock.
    let bandwidth = 2e3 * f64::from(properties.memory_clock_khz) * f64::from(properties.memory_bus_bits) / 8.0;
    // Dense 16-bit floats a clock and processor; twice as many for bytes are not counted.
    let per_clock = if properties.target.starts_with("sm_9") { 4096.0 } else { 2048.0 };
    let arithmetic = 1e3 * f64::from(properties.clock_khz) * f64::from(properties.num_processors) * per_clock;
    let (rate, speed) = (case.bytes / microseconds * 1e6, case.operations / microseconds * 1e6);
    let share = (rate / bandwidth).max(speed / arithmetic);
    let name = &case.name;
    println!("{name:<44} {microseconds:>10.2} {:>9.0} {:>9.1} {:>5.0}%", rate / 1e9, speed / 1e12, 100.0 * share);
}

fn rows(context: &Context) {
    let (rows, n) = (8192u32, 4096u32);
    let elements = (rows * n) as usize;
    let buffers = rotation(context, 4 * elements);
    let y = random(context, 4 * elements);
    let case = |name: &str, bytes: usize| Case { name: name.to_owned(), bytes: bytes as f64, operations: 0.0 };
    let each = |make: &dyn Fn(&Buffer) -> Launch| buffers.iter().map(|x| vec![make(x)]).collect::<Vec<_>>();
    let (dtype, eps, weight) = (Dtype::Bf16, 1e-5, random(context, 2 * n as usize));
    let launches = each(&|x| {
        let (x, weight, y) = (x.ptr(), weight.ptr(), y.ptr());
        rms_norm(&RmsNorm { dtype, rows, n, eps, x, weight, y, residual: None }).expect("a good shape")
    });
    measure(context, &case("rms_norm bf16 8192 x 4096", 4 * elements), &launches);
    let launches =
        each(&|x| softmax(&Softmax { dtype: Dtype::F32, rows, n, x: x.ptr(), y: y.ptr() }).expect("a good shape"));
    measure(context, &case("softmax f32 8192 x 4096", 8 * elements), &launches);
    let (reduction, dtype) = (Reduction::Sum, Dtype::F32);
    let launches =
        each(&|x| reduce(&Reduce { reduction, dtype, rows, n, x: x.ptr(), y: y.ptr() }).expect("a good shape"));
    measure(context, &case("sum f32 8192 x 4096", 4 * elements), &launches);
    let (reduction, n) = (Reduction::ArgMax, 131_072);
    let launches =
        each(&|x| reduce(&Reduce { reduction, dtype, rows: 1, n, x: x.ptr(), y: y.ptr() }).expect("a good shape"));
    measure(context, &case("argmax f32 1 x 131072", 4 * n as usize), &launches);
}

fn elements(context: &Context) {
    let side = 8192usize;
    let count = side * side;
    let buffers = rotation(context, 4 * count);
    let y = random(context, 4 * count);
    let case = |name: &str, bytes: usize| Case { name: name.to_owned(), bytes: bytes as f64, operations: 0.0 };
    let each = |make: &dyn Fn(&Buffer) -> Launch| buffers.iter().map(|x| vec![make(x)]).collect::<Vec<_>>();
    let launches = each(&|x| {
        // Heads before tokens, as attention wants them.
        let (shape, strides) = (&[64, 8192, 128][..], &[128, 8192, 1][..]);
        copy(&Copy { element_size: 2, shape, strides, x: x.ptr(), y: y.ptr() }).expect("a good shape")
    });
    measure(context, &case("copy f16 [8192, 64, 128] permuted", 4 * count), &launches);
    let launches = each(&|x| {
        let (shape, strides) = (&[side, side][..], &[1, side][..]);
        copy(&Copy { element_size: 4, shape, strides, x: x.ptr(), y: y.ptr() }).expect("a good shape")
    });
    measure(context, &case("copy f32 8192 x 8192 transposed", 8 * count), &launches);
    let launches = each(&|x| {
        let (from, to, shape, strides) = (Dtype::F32, Dtype::Bf16, &[count][..], &[1][..]);
        cast::cast(&cast::Cast { from, to, shape, strides, x: x.ptr(), y: y.ptr() }).expect("a good shape")
    });
    measure(context, &case("cast f32 to bf16 67M", 6 * count), &launches);
    let launches = each(&|x| {
        let (function, dtype, count) = (Function::Silu, Dtype::Bf16, count as u32);
        unary(&Unary { function, dtype, count, x: x.ptr(), y: y.ptr(), parameters: [0.0; 2] }).expect("a good shape")
    });
    measure(context, &case("silu bf16 67M", 4 * count), &launches);
}

fn products(context: &Context) {
    for (format, name) in [(Format::Q8_0, "q8_0"), (Format::Q4K, "q4_k")] {
        for (rows, k) in [(28_672u32, 4096u32), (4096, 14_336), (4096, 4096)] {
            let bytes = (u64::from(rows) * u64::from(k)) as usize / format.block_values() as usize
                * format.block_bytes() as usize;
            let weights = rotation(context, bytes);
            let (q, d) = (random(context, 8 * k as usize), random(context, 8 * k as usize));
            let y = random(context, 4 * 8 * rows as usize);
            for tokens in [1, 2, 4, 8] {
                let dtype = Dtype::F32;
                let of = |w: &Buffer| {
                    let (w, q, d, y) = (w.ptr(), q.ptr(), d.ptr(), y.ptr());
                    vec![matvec(&Matvec { format, dtype, rows, k, tokens, w, q, d, y }).expect("a good shape")]
                };
                let launches: Vec<_> = weights.iter().map(of).collect();
                let name = format!("{name} {rows} x {k}, {tokens} tokens");
                measure(context, &Case { name, bytes: bytes as f64, operations: 0.0 }, &launches);
            }
        }
    }
}

fn matrices(context: &Context) {
    let cases = [(Kind::Bf16, "bf16"), (Kind::F16, "f16"), (Kind::I8, "i8")];
    for (m, n, k) in [(4096u32, 4096u32, 4096u32), (512, 28_672, 4096), (64, 28_672, 4096), (16, 4096, 4096)] {
        let size = |rows: u32, columns: u32, bytes: usize| bytes * rows as usize * columns as usize;
        let (a, b, c) =
            (random(context, size(m, k, 2)), random(context, size(n, k, 2)), random(context, size(m, n, 4)));
        for (kind, name) in cases {
            let (stride_a, stride_b, stride_c, batch) = (0, 0, 0, 1);
            let (a, b, c) = (a.ptr(), b.ptr(), c.ptr());
            let launch = gemm(&Gemm { kind, batch, m, n, k, a, b, c, stride_a, stride_b, stride_c });
            let operations = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
            let name = format!("gemm {name} {m} x {n} x {k}");
            measure(context, &Case { name, bytes: 0.0, operations }, &[vec![launch.expect("a good shape")]]);
        }
    }
}

fn attention(context: &Context) {
    for (sequences, length, group) in
        [(1u32, 32_768u32, 4u32), (1, 4096, 4), (64, 2048, 4), (64, 2048, 8), (64, 2048, 1)]
    {
        let (kv_heads, head_dim, block_size) = (8, 128, 16);
        let table_width = length / block_size;
        let bytes = 2 * 2 * (sequences * length * kv_heads) as usize * head_dim as usize;
        let caches = rotation(context, bytes);
        let table = input_u32(context, &(0..sequences * table_width).collect::<Vec<_>>());
        let lengths = input_u32(context, &vec![length; sequences as usize]);
        let heads = kv_heads * group;
        let small = random(context, 2 * (sequences * heads * head_dim) as usize);
        let out = random(context, 2 * (sequences * heads * head_dim) as usize);
        let splits = splits(sequences, kv_heads, length, context.properties().num_processors);
        let partial = random(context, 4 * (sequences * heads * splits * (head_dim + 2)) as usize);
        let of = |cache: &Buffer| {
            let (first, second) = decode(&Decode {
                dtype: Dtype::F16,
                sequences,
                heads,
                kv_heads,
                head_dim,
                block_size,
                table_width,
                window: None,
                scale: 0.088,
                splits,
                q: small.ptr(),
                keys: cache.ptr(),
                values: cache.ptr().offset(bytes as u64 / 2),
                table: table.ptr(),
                lengths: lengths.ptr(),
                out: out.ptr(),
                partial: partial.ptr(),
            })
            .expect("a good shape");
            [first].into_iter().chain(second).collect::<Vec<_>>()
        };
        let launches: Vec<_> = caches.iter().map(of).collect();
        let name = format!("attention f16 {sequences} x {length}, {heads}/{kv_heads} heads, {splits} splits");
        measure(context, &Case { name, bytes: bytes as f64, operations: 0.0 }, &launches);
    }
}
