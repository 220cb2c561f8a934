// RMS norm of rows, y = x / sqrt(mean(x^2) + eps) * weight, with an optional addition before it: sum = x + residual is
// rounded, stored, and then normalised, which is what a transformer block does between its parts. Limited by bandwidth:
// each value is read once and kept in registers.
//
// x, residual, sum, y: [rows, n], weight: [n], all T. `residual` and `sum` are both null or both not. Rows of up to
// 1024 values take a wave each, eight to a block; longer ones a block.
#include "device.h"

constexpr u32 BLOCK = 256;
constexpr u32 KEPT = 4;

template <class T> struct Row {
    const T *x, *residual, *weight;
    T *sum, *y;
    u32 n;
    f32 eps;
};

// Neighbouring values of a row, as they come from memory. Behind the row's end the first ones stand for them: a load
// that depends on nothing does not wait for others.
template <class T, u32 V, bool ADD> struct Piece {
    Vec<T, V> x, residual, weight;

    DEVICE void read(const Row<T> &row, u32 i) {
        u32 at = i < row.n ? i : 0;
        x = load<V>(row.x + at);
        if constexpr (ADD) residual = load<V>(row.residual + at);
        weight = load<V>(row.weight + at);
    }

    // The values to normalise, after the addition; zeros behind the end.
    DEVICE Vec<f32, V> take(const Row<T> &row, u32 i) const {
        Vec<f32, V> values = to_f32(x);
        if constexpr (ADD) {
            Vec<f32, V> other = to_f32(residual);
            UNROLL for (u32 e = 0; e < V; e++) values.at[e] += other.at[e];
            Vec<T, V> rounded = from_f32<T>(values);
            if (i < row.n) store(row.sum + i, rounded);
            values = to_f32(rounded);
        }
        UNROLL for (u32 e = 0; e < V; e++) values.at[e] = i < row.n ? values.at[e] : 0.0f;
        return values;
    }

    DEVICE void put(const Row<T> &row, u32 i, Vec<f32, V> values, f32 scale) const {
        Vec<f32, V> factor = to_f32(weight);
        UNROLL for (u32 e = 0; e < V; e++) values.at[e] *= scale * factor.at[e];
        if (i < row.n) store(row.y + i, from_f32<T>(values));
    }
};

template <u32 V> DEVICE f32 add_squares(Vec<f32, V> values, f32 sum) {
    UNROLL for (u32 e = 0; e < V; e++) sum = fma(values.at[e], values.at[e], sum);
    return sum;
}

template <class T, u32 THREADS, u32 V, bool ADD> DEVICE void norm_row(const Row<T> &row, f32 *partial) {
    u32 first = thread() % THREADS * V;
    constexpr u32 STEP = THREADS * V;
    Piece<T, V, ADD> pieces[KEPT];
    Vec<f32, V> kept[KEPT];
    f32 squares = 0.0f;
    UNROLL for (u32 k = 0; k < KEPT; k++) pieces[k].read(row, first + k * STEP);
    UNROLL for (u32 k = 0; k < KEPT; k++) {
        kept[k] = pieces[k].take(row, first + k * STEP);
        squares = add_squares(kept[k], squares);
    }
    for (u32 i = first + KEPT * STEP; i < row.n; i += STEP) {
        Piece<T, V, ADD> piece;
        piece.read(row, i);
        squares = add_squares(piece.take(row, i), squares);
    }
    f32 scale = reciprocal_sqrt(fma(reduce<Sum, THREADS>(squares, partial), reciprocal((f32)row.n), row.eps));
    UNROLL for (u32 k = 0; k < KEPT; k++) pieces[k].put(row, first + k * STEP, kept[k], scale);
    Row<T> again = row;
    if (ADD) again.x = row.sum;
    for (u32 i = first + KEPT * STEP; i < row.n; i += STEP) {
        Piece<T, V, false> piece;
        piece.read(again, i);
        piece.put(again, i, to_f32(piece.x), scale);
    }
}

template <class T, u32 THREADS, u32 V> DEVICE void norm_row(const Row<T> &row, f32 *partial) {
    if (row.residual) norm_row<T, THREADS, V, true>(row, partial);
    else norm_row<T, THREADS, V, false>(row, partial);
}

template <class T, u32 THREADS>
DEVICE void rms_norm(const T *x, const T *residual, const T *weight, T *sum, T *y, u32 rows, u32 n, f32 eps) {
    SHARED f32 partial[BLOCK / WAVE];
    u32 index = block_x() * (BLOCK / THREADS) + (THREADS < BLOCK ? wave_in_block() : 0);
    if (index >= rows) return;
    u64 at = (u64)index * n;
    Row<T> row = {x + at, residual ? residual + at : nullptr, weight, sum + at, y + at, n, eps};
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
