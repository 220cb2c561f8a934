// A strided tensor to a contiguous one, by the size of its elements. Limited by bandwidth; where inner runs are
// contiguous, `copy.rs` passes them as elements of up to 16 bytes. A transposed source is read across its rows, a
// cache line for an element.
//
// x: places of `from`; y: [count]. count < 2^31.
#include "strided.h"

constexpr u32 BLOCK = 256;
constexpr u32 PER_THREAD = 4;

template <class Raw> DEVICE void copy(const Raw *x, Raw *y, u32 count, const Strided<> &from) {
    u32 first = block_x() * (BLOCK * PER_THREAD) + thread();
    Raw values[PER_THREAD];
    UNROLL for (u32 p = 0; p < PER_THREAD; p++) {
        u32 i = first + p * BLOCK;
        if (i < count) values[p] = x[place_of(from, i)];
    }
    UNROLL for (u32 p = 0; p < PER_THREAD; p++) {
        u32 i = first + p * BLOCK;
        if (i < count) y[i] = values[p];
    }
}

KERNEL(BLOCK) copy_1(const u8 *x, u8 *y, u32 count, Strided<> from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_2(const u16 *x, u16 *y, u32 count, Strided<> from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_4(const u32 *x, u32 *y, u32 count, Strided<> from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_8(const u32x2 *x, u32x2 *y, u32 count, Strided<> from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_16(const u32x4 *x, u32x4 *y, u32 count, Strided<> from) { copy(x, y, count, from); }

// x, y: places of as many elements. A unit holds one element or more.
template <class Raw> DEVICE void copy_between(const Raw *x, Raw *y, u32 count, const Strided<2> &both) {
    u32 first = block_x() * (BLOCK * PER_THREAD) + thread();
    _Pragma("nounroll") for (u32 i = first; i < count && i < first + BLOCK * PER_THREAD; i += BLOCK) {
        Places<2> places = places_of(both, i);
        y[places.at[1]] = x[places.at[0]];
    }
}

#define BETWEEN(BYTES, Raw)                                                                                            \
    KERNEL(BLOCK) copy_between_##BYTES(const Raw *x, Raw *y, u32 count, Strided<2> both) { copy_between(x, y, count, both); }
BETWEEN(1, u8)
BETWEEN(2, u16)
BETWEEN(4, u32)
BETWEEN(8, u32x2)
BETWEEN(16, u32x4)

// One value, as bits, at every place of y.
template <class Raw> DEVICE void fill(Raw *y, u32 count, u64 value, const Strided<> &to) {
    u32 first = block_x() * (BLOCK * PER_THREAD) + thread();
    _Pragma("nounroll") for (u32 i = first; i < count && i < first + BLOCK * PER_THREAD; i += BLOCK)
        y[place_of(to, i)] = (Raw)value;
}

#define FILL(BYTES, Raw)                                                                                               \
    KERNEL(BLOCK) fill_##BYTES(Raw *y, u32 count, u64 value, Strided<> to) { fill(y, count, value, to); }
FILL(1, u8)
FILL(2, u16)
FILL(4, u32)
FILL(8, u64)
