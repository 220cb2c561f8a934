// Where the elements of a strided tensor lie. Filled in by `strided.rs`.
#pragma once
#include "device.h"

constexpr u32 MAX_RANK = 6;

// `multiplier` and `shift` divide numbers below 2^31 by `size` without a division.
struct Dim {
    u32 size, multiplier, shift;
    u32 stride_low, stride_high;
};

// Dimensions from the innermost to the outermost; rank 0 is a contiguous tensor.
struct Strided {
    u32 rank;
    Dim dims[MAX_RANK];
};

// The place of the element that comes `index`th in order. The loop is unrolled because an index into a parameter would
// put the parameter into private memory.
DEVICE u64 place_of(const Strided &tensor, u32 index) {
    if (tensor.rank == 0) return index;
    u64 place = 0;
    UNROLL for (u32 r = 0; r < MAX_RANK; r++) {
        if (r < tensor.rank) {
            const Dim &dim = tensor.dims[r];
            u32 high = (u32)((u64)index * dim.multiplier >> 32);
            u32 quotient = (high + index) >> dim.shift;
            place += (u64)(index - quotient * dim.size) * ((u64)dim.stride_high << 32 | dim.stride_low);
            index = quotient;
        }
    }
    return place;
}
