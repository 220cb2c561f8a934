// RMS norm of rows, y = x / sqrt(mean(x^2) + eps) * weight, with an optional addition before it: sum = x + residual is
// rounded, stored, and then normalised, which is what a transformer block does between its parts. Limited by bandwidth:
// each value is read once and kept in registers.
//
// x, residual, sum, y: [rows, n], weight: [n], all T. `residual` and `sum` are both null or both not. Rows of up to 1024
// values take a wave each, eight to a block; longer ones a block.
#include "device.h"

constexpr u32 BLOCK = 256;
constexpr u32 KEPT = 4;

template <class T> struct Rows {
    const T *x, *residual, *weight;
    T *sum, *y;
    u32 n;
    f32 eps;
};

// The row's values at `i`, after the addition.
template <class T, u32 V> DEVICE Vec<f32, V> take(const Rows<T> &row, u32 i) {
    Vec<f32, V> x = to_f32(load<V>(row.x + i));
    if (row.residual) {
        Vec<f32, V> other = to_f32(load<V>(row.residual + i));
        UNROLL for (u32 e = 0; e < V; e++) x.at[e] += other.at[e];
        Vec<T, V> rounded = from_f32<T>(x);
        store(row.sum + i, rounded);
        x = to_f32(rounded);
    }
    return x;
}

template <class T, u32 V> DEVICE void put(const Rows<T> &row, u32 i, Vec<f32, V> x, f32 scale) {
    Vec<f32, V> weight = to_f32(load<V>(row.weight + i));
    UNROLL for (u32 e = 0; e < V; e++) x.at[e] = x.at[e] * scale * weight.at[e];
    store(row.y + i, from_f32<T>(x));
}

template <class T, u32 THREADS, u32 V> DEVICE void norm_row(const Rows<T> &row, f32 *partial) {
    u32 first = thread() % THREADS * V;
    constexpr u32 STEP = THREADS * V;
    Vec<f32, V> kept[KEPT];
    f32 squares = 0.0f;
    UNROLL for (u32 k = 0; k < KEPT; k++) {
        u32 i = first + k * STEP;
        if (i < row.n) {
            kept[k] = take<T, V>(row, i);
            UNROLL for (u32 e = 0; e < V; e++) squares = fma(kept[k].at[e], kept[k].at[e], squares);
        }
    }
    for (u32 i = first + KEPT * STEP; i < row.n; i += STEP) {
        Vec<f32, V> x = take<T, V>(row, i);
        UNROLL for (u32 e = 0; e < V; e++) squares = fma(x.at[e], x.at[e], squares);
    }
    f32 scale = reciprocal_sqrt(fma(reduce<Sum, THREADS>(squares, partial), reciprocal((f32)row.n), row.eps));
    UNROLL for (u32 k = 0; k < KEPT; k++) {
        u32 i = first + k * STEP;
        if (i < row.n) put<T, V>(row, i, kept[k], scale);
    }
    const T *again = row.residual ? row.sum : row.x;
    for (u32 i = first + KEPT * STEP; i < row.n; i += STEP) put<T, V>(row, i, to_f32(load<V>(again + i)), scale);
}

template <class T, u32 THREADS>
DEVICE void rms_norm(const T *x, const T *residual, const T *weight, T *sum, T *y, u32 rows, u32 n, f32 eps) {
    SHARED f32 partial[BLOCK / WAVE];
    u32 index = block_x() * (BLOCK / THREADS) + (THREADS < BLOCK ? wave_in_block() : 0);
    if (index >= rows) return;
    u64 at = (u64)index * n;
    Rows<T> row = {x + at, residual ? residual + at : nullptr, weight, sum + at, y + at, n, eps};
    if (n % WIDE<T> == 0) norm_row<T, THREADS, WIDE<T>>(row, partial);
    else norm_row<T, THREADS, 1>(row, partial);
}

#define RMS_NORM(T)                                                                                                    \
    KERNEL(BLOCK)                                                                                                      \
    rms_norm_wave_##T(const T *x, const T *residual, const T *weight, T *sum, T *y, u32 rows, u32 n, f32 eps) {        \
        rms_norm<T, WAVE>(x, residual, weight, sum, y, rows, n, eps);                                                  \
    }                                                                                                                  \
    KERNEL(BLOCK)                                                                                                      \
    rms_norm_block_##T(const T *x, const T *residual, const T *weight, T *sum, T *y, u32 rows, u32 n, f32 eps) {       \
        rms_norm<T, BLOCK>(x, residual, weight, sum, y, rows, n, eps);                                                 \
    }
RMS_NORM(f32)
RMS_NORM(f16)
RMS_NORM(bf16)
