use candle_rocm::Context;
use taper_kernels::Dtype;
use taper_kernels::index::{IndexSelect, index_select};

use super::data::{Random, output, run};

pub fn check(context: &Context) {
    for (ids_dtype, size) in [(Dtype::U8, 1), (Dtype::U32, 2), (Dtype::I64, 4), (Dtype::U32, 8)] {
        // More slices than u8 has numbers, too.
        for (left, dim, right, ids_count) in [(1, 40, 33, 7), (3, 5, 1, 9), (2, 3, 700, 1), (1, 300, 2, 5)] {
            one(context, ids_dtype, size, [left, dim, right, ids_count]);
        }
    }
    a_number_out_of_range_is_told(context);
}

fn ids_of(dtype: Dtype, ids: &[i64]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()[..dtype.size() as usize].to_vec()).collect()
}

/// The largest number of the type names zeros.
fn one(context: &Context, ids_dtype: Dtype, size: usize, [left, dim, right, ids_count]: [usize; 4]) {
    let mut random = Random(24);
    let x = random.bytes(left * dim * right * size);
    let mut ids: Vec<i64> = (0..ids_count).map(|_| random.below(dim.min(255)) as i64).collect();
    let none = if ids_dtype == Dtype::I64 { i64::MAX } else { (1 << (8 * ids_dtype.size())) - 1 };
    ids[ids_count / 2] = none;
    let (on_x, on_ids) = (context.upload(&x).unwrap(), context.upload(&ids_of(ids_dtype, &ids)).unwrap());
    let (y, fault) = (output(context, left * ids_count * right * size), output(context, 8));
    let launch = index_select(&IndexSelect {
        element_size: size as u64,
        ids_dtype,
        left: left as u32,
        size: dim as u32,
        right: right as u32,
        ids_count: ids_count as u32,
        x: on_x.ptr(),
        ids: on_ids.ptr(),
        y: y.buffer.ptr(),
        fault: fault.buffer.ptr(),
    });
    run(context, &launch.unwrap());
    let mut want: Vec<u8> = Vec::new();
    for left in x.chunks(dim * right * size) {
        for id in &ids {
            let zeros = vec![0; right * size];
            want.extend(if *id == none { &zeros } else { &left[*id as usize * right * size..][..right * size] });
        }
    }
    assert_eq!(y.bytes(), want, "{ids_dtype} {size} [{left}, {dim}, {right}] {ids_count}");
    assert_eq!(fault.bytes(), [0xff; 8], "nothing was out of range");
}

fn a_number_out_of_range_is_told(context: &Context) {
    for (ids_dtype, id) in [(Dtype::U8, 4), (Dtype::U32, 1 << 20), (Dtype::I64, -2)] {
        let (x, ids) = (context.upload(&[7; 12]).unwrap(), context.upload(&ids_of(ids_dtype, &[2, id, 1])).unwrap());
        let (y, fault) = (output(context, 9), output(context, 8));
        let (x, ids, y_ptr, fault_ptr) = (x.ptr(), ids.ptr(), y.buffer.ptr(), fault.buffer.ptr());
        let select = IndexSelect {
            element_size: 1,
            ids_dtype,
            left: 1,
            size: 4,
            right: 3,
            ids_count: 3,
            x,
            ids,
            y: y_ptr,
            fault: fault_ptr,
        };
        run(context, &index_select(&select).unwrap());
        assert_eq!(y.bytes(), [7, 7, 7, 0, 0, 0, 7, 7, 7]);
        assert_eq!(fault.bytes(), id.to_le_bytes(), "{ids_dtype}");
    }
}
