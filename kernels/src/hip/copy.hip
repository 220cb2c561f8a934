// A strided tensor to a contiguous one, by the size of its elements. Limited by bandwidth; where inner runs are
// contiguous, `copy.rs` passes them as elements of up to 16 bytes. A transposed source is read across its rows, a
// cache line for an element.
//
// x: places of `from`; y: [count]. count < 2^31.
#include "strided.h"

constexpr u32 BLOCK = 256;
constexpr u32 PER_THREAD = 4;

template <class Raw> DEVICE void copy(const Raw *x, Raw *y, u32 count, const Strided &from) {
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

KERNEL(BLOCK) copy_1(const u8 *x, u8 *y, u32 count, Strided from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_2(const u16 *x, u16 *y, u32 count, Strided from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_4(const u32 *x, u32 *y, u32 count, Strided from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_8(const u32x2 *x, u32x2 *y, u32 count, Strided from) { copy(x, y, count, from); }
KERNEL(BLOCK) copy_16(const u32x4 *x, u32x4 *y, u32 count, Strided from) { copy(x, y, count, from); }
