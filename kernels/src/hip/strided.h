// Where the elements of strided tensors of one shape lie. Filled in by `strided.rs`.
#pragma once
#include "device.h"

constexpr u32 MAX_RANK = 6;

struct Stride {
    u32 low, high;
};

// `multiplier` and `shift` divide numbers below 2^31 by `size` without a division.
template <u32 N> struct Dim {
    u32 size, multiplier, shift;
    Stride strides[N];
};

// N tensors. Dimensions from the innermost to the outermost; rank 0 says that all are contiguous.
template <u32 N = 1> struct Strided {
    u32 rank;
    Dim<N> dims[MAX_RANK];
};

template <u32 N> struct Places {
    u64 at[N];
};

// The place in each tensor of the element that comes `index`th in order. The loop is unrolled because an index into a
// parameter would put the parameter into private memory.
template <u32 N> DEVICE Places<N> places_of(const Strided<N> &tensors, u32 index) {
    Places<N> places;
    UNROLL for (u32 t = 0; t < N; t++) places.at[t] = tensors.rank == 0 ? index : 0;
    UNROLL for (u32 r = 0; r < MAX_RANK; r++) {
        if (r < tensors.rank) {
            const Dim<N> &dim = tensors.dims[r];
            u32 high = (u32)((u64)index * dim.multiplier >> 32);
            u32 quotient = (high + index) >> dim.shift;
            u64 along = index - quotient * dim.size;
            UNROLL for (u32 t = 0; t < N; t++)
                places.at[t] += along * ((u64)dim.strides[t].high << 32 | dim.strides[t].low);
            index = quotient;
        }
    }
    return places;
}

DEVICE u64 place_of(const Strided<> &tensor, u32 index) { return places_of(tensor, index).at[0]; }
