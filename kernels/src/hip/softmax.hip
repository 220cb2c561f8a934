// Softmax of rows. Limited by bandwidth: each value is read once and kept in registers, unless a row has more than a
// block can keep.
//
// x, y: [rows, n], T; y may be x. A row whose values are all -inf gives NaN, as in other implementations.
#include "device.h"

constexpr u32 BLOCK = 256;
constexpr u32 KEPT = 4;

// Values of a row from `i` on; -inf behind its end. The load depends on nothing, so that several are under way.
template <class T, u32 V> DEVICE Vec<f32, V> take(const T *x, u32 i, u32 n) {
    Vec<f32, V> values = to_f32(load<V>(x + (i < n ? i : 0)));
    UNROLL for (u32 e = 0; e < V; e++) values.at[e] = i < n ? values.at[e] : Max::NONE;
    return values;
}

template <class T, u32 THREADS, u32 V> DEVICE void softmax_row(const T *x, T *y, u32 n, f32 *maxima, f32 *sums) {
    u32 first = thread() % THREADS * V;
    constexpr u32 STEP = THREADS * V;
    Vec<f32, V> kept[KEPT];
    f32 highest = Max::NONE;
    UNROLL for (u32 k = 0; k < KEPT; k++) kept[k] = take<T, V>(x, first + k * STEP, n);
    UNROLL for (u32 k = 0; k < KEPT; k++)
        UNROLL for (u32 e = 0; e < V; e++) highest = maximum(highest, kept[k].at[e]);
    for (u32 i = first + KEPT * STEP; i < n; i += STEP) {
        Vec<f32, V> values = to_f32(load<V>(x + i));
        UNROLL for (u32 e = 0; e < V; e++) highest = maximum(highest, values.at[e]);
    }
    highest = reduce<Max, THREADS>(highest, maxima);

    f32 sum = 0.0f;
    UNROLL for (u32 k = 0; k < KEPT; k++)
        UNROLL for (u32 e = 0; e < V; e++) sum += kept[k].at[e] = exp(kept[k].at[e] - highest);
    for (u32 i = first + KEPT * STEP; i < n; i += STEP) {
        Vec<f32, V> values = to_f32(load<V>(x + i));
        UNROLL for (u32 e = 0; e < V; e++) sum += exp(values.at[e] - highest);
    }
    f32 scale = reciprocal(reduce<Sum, THREADS>(sum, sums));

    UNROLL for (u32 k = 0; k < KEPT; k++) {
        u32 i = first + k * STEP;
        if (i < n) {
            UNROLL for (u32 e = 0; e < V; e++) kept[k].at[e] *= scale;
            store(y + i, from_f32<T>(kept[k]));
        }
    }
    for (u32 i = first + KEPT * STEP; i < n; i += STEP) {
        Vec<f32, V> values = to_f32(load<V>(x + i));
        UNROLL for (u32 e = 0; e < V; e++) values.at[e] = exp(values.at[e] - highest) * scale;
        store(y + i, from_f32<T>(values));
    }
}

template <class T, u32 THREADS> DEVICE void softmax(const T *x, T *y, u32 rows, u32 n) {
    SHARED f32 maxima[BLOCK / WAVE], sums[BLOCK / WAVE];
    u32 index = block_x() * (BLOCK / THREADS) + (THREADS < BLOCK ? wave_in_block() : 0);
    if (index >= rows) return;
    u64 at = (u64)index * n;
    if (n % WIDE<T> == 0) softmax_row<T, THREADS, WIDE<T>>(x + at, y + at, n, maxima, sums);
    else softmax_row<T, THREADS, 1>(x + at, y + at, n, maxima, sums);
}

#define SOFTMAX(T)                                                                                                     \
    KERNEL(BLOCK) softmax_wave_##T(const T *x, T *y, u32 rows, u32 n) { softmax<T, WAVE>(x, y, rows, n); }             \
    KERNEL(BLOCK) softmax_block_##T(const T *x, T *y, u32 rows, u32 n) { softmax<T, BLOCK>(x, y, rows, n); }
SOFTMAX(f32)
SOFTMAX(f16)
SOFTMAX(bf16)
