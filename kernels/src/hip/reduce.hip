// Sums, maxima, minima and the place of the maximum, of rows. Limited by bandwidth. A row is read by one wave or one
// block, so few long rows leave most of the device idle: 128k values take some microseconds.
//
// x: [rows, n], T. y: [rows], T, or u32 for the place of the maximum (the first of equals; never a NaN: a row of
// nothing else gives 0xffffffff). Sums are made in f32.
#include "device.h"

constexpr u32 BLOCK = 512;

// The row that this thread's wave or block reads; rows may end before it.
template <u32 THREADS> DEVICE u32 row_of_block() {
    return block_x() * (BLOCK / THREADS) + (THREADS < BLOCK ? wave_in_block() : 0);
}

template <class Op, class T, u32 THREADS, u32 V> DEVICE f32 reduce_row(const T *x, u32 n) {
    // Independent sums: consecutive loads do not wait for each other's additions.
    Vec<f32, V> lanes;
    UNROLL for (u32 e = 0; e < V; e++) lanes.at[e] = Op::NONE;
    for (u32 i = thread() % THREADS * V; i < n; i += THREADS * V) {
        Vec<f32, V> values = to_f32(load<V>(x + i));
        UNROLL for (u32 e = 0; e < V; e++) lanes.at[e] = Op::join(lanes.at[e], values.at[e]);
    }
    f32 result = lanes.at[0];
    UNROLL for (u32 e = 1; e < V; e++) result = Op::join(result, lanes.at[e]);
    return result;
}

template <class Op, class T, u32 THREADS> DEVICE void reduce_rows(const T *x, T *y, u32 rows, u32 n) {
    SHARED f32 partial[BLOCK / WAVE];
    u32 row = row_of_block<THREADS>();
    if (row >= rows) return;
    x += (u64)row * n;
    f32 mine = n % WIDE<T> == 0 ? reduce_row<Op, T, THREADS, WIDE<T>>(x, n) : reduce_row<Op, T, THREADS, 1>(x, n);
    f32 all = reduce<Op, THREADS>(mine, partial);
    if (thread() % THREADS == 0) y[row] = from_f32<T>(all);
}

struct Best {
    f32 value;
    u32 index;
};

DEVICE Best better(Best a, Best b) {
    bool second = b.value > a.value || (b.value == a.value && b.index < a.index);
    return second ? b : a;
}

template <u32 MASK> DEVICE Best better_of_pair(Best best) {
    return better(best, {lane_xor<MASK>(best.value), lane_xor<MASK>(best.index)});
}

DEVICE Best best_of_wave(Best best) {
    best = better_of_pair<1>(best);
    best = better_of_pair<2>(best);
    best = better_of_pair<4>(best);
    best = better_of_pair<8>(best);
    return better_of_pair<16>(best);
}

template <class T, u32 THREADS, u32 V> DEVICE Best best_of_thread(const T *x, u32 n) {
    Best best = {Max::NONE, ~0u};
    for (u32 i = thread() % THREADS * V; i < n; i += THREADS * V) {
        Vec<f32, V> values = to_f32(load<V>(x + i));
        // Indices grow: only a higher value is better. No comparison with a NaN holds.
        UNROLL for (u32 e = 0; e < V; e++)
            if (values.at[e] > best.value || (values.at[e] == best.value && best.index == ~0u))
                best = {values.at[e], i + e};
    }
    return best;
}

template <class T, u32 THREADS> DEVICE void argmax_rows(const T *x, u32 *y, u32 rows, u32 n) {
    SHARED Best partial[BLOCK / WAVE];
    u32 row = row_of_block<THREADS>();
    if (row >= rows) return;
    x += (u64)row * n;
    Best best = n % WIDE<T> == 0 ? best_of_thread<T, THREADS, WIDE<T>>(x, n) : best_of_thread<T, THREADS, 1>(x, n);
    best = best_of_wave(best);
    if constexpr (THREADS > WAVE) {
        if (lane() == 0) partial[wave_in_block()] = best;
        lds_barrier();
        best = best_of_wave(partial[lane() % (BLOCK / WAVE)]);
    }
    if (thread() % THREADS == 0) y[row] = best.index;
}

#define REDUCE(name, Op, T)                                                                                            \
    KERNEL(BLOCK) name##_wave_##T(const T *x, T *y, u32 rows, u32 n) { reduce_rows<Op, T, WAVE>(x, y, rows, n); }      \
    KERNEL(BLOCK) name##_block_##T(const T *x, T *y, u32 rows, u32 n) { reduce_rows<Op, T, BLOCK>(x, y, rows, n); }
#define REDUCTIONS(T)                                                                                                  \
    REDUCE(sum, Sum, T)                                                                                                \
    REDUCE(max, Max, T)                                                                                                \
    REDUCE(min, Min, T)                                                                                                \
    KERNEL(BLOCK) argmax_wave_##T(const T *x, u32 *y, u32 rows, u32 n) { argmax_rows<T, WAVE>(x, y, rows, n); }        \
    KERNEL(BLOCK) argmax_block_##T(const T *x, u32 *y, u32 rows, u32 n) { argmax_rows<T, BLOCK>(x, y, rows, n); }
REDUCTIONS(f32)
REDUCTIONS(f16)
REDUCTIONS(bf16)
