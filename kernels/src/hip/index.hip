// Slices by their numbers. Limited by bandwidth. Elements of any type are moved as so many bits.
//
// x: [left, size, right], contiguous; ids: [ids_count], contiguous; y: [left, ids_count, right]. The largest number of
// the ids' type stands for a slice of zeros, as in Candle. A number that is out of range gives zeros, too, and is written to
// `fault`: whoever reads the result looks there.
#include "device.h"

constexpr u32 BLOCK = 256;
constexpr u32 PER_THREAD = 4;

template <class Id> DEVICE bool is_none(Id id) {
    constexpr Id HIGHEST = (Id)-1 < (Id)0 ? (Id)0x7fffffffffffffff : (Id)-1;
    return id == HIGHEST;
}

template <class Id, class T>
DEVICE void index_select(const T *x, const Id *ids, T *y, i64 *fault, u32 count, u32 size, u32 ids_count, u32 right) {
    _Pragma("nounroll") for (u32 p = 0; p < PER_THREAD; p++) {
        u32 i = (block_x() * PER_THREAD + p) * BLOCK + thread();
        if (i >= count) return;
        u32 row = i / right;
        u32 left = row / ids_count;
        Id id = ids[row - left * ids_count];
        // As u64: the size may be more than the type of ids holds, and negative ids become large ones.
        bool none = is_none(id), in_range = !none && (u64)id < size;
        if (!in_range && !none) *fault = (i64)id;
        y[i] = in_range ? x[((u64)left * size + (u64)id) * right + (i - row * right)] : T(0);
    }
}

#define SELECT(Id, BITS, T)                                                                                            \
    KERNEL(BLOCK)                                                                                                      \
    index_select_##Id##_##BITS(const T *x, const Id *ids, T *y, i64 *fault, u32 count, u32 size, u32 ids_count,        \
                               u32 right) {                                                                            \
        index_select(x, ids, y, fault, count, size, ids_count, right);                                                 \
    }
#define SELECTS(Id) SELECT(Id, 8, u8) SELECT(Id, 16, u16) SELECT(Id, 32, u32) SELECT(Id, 64, u64)
SELECTS(u8)
SELECTS(u32)
SELECTS(i64)
