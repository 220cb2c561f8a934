// A strided tensor to a contiguous one of another type. Numbers convert as Rust's `as` does: floats to integers towards
// zero, saturating, NaN to 0; integers to narrower integers by cutting bits off. Limited by bandwidth.
//
// x: places of `from`; y: [count]. count < 2^31.
#include "strided.h"

constexpr u32 BLOCK = 256;
constexpr u32 PER_THREAD = 4;

template <class T> constexpr bool IS_FLOAT = false;
template <> constexpr bool IS_FLOAT<f32> = true;
template <> constexpr bool IS_FLOAT<f16> = true;
template <> constexpr bool IS_FLOAT<bf16> = true;

template <class T> constexpr T LOWEST = T(-1) < T(0) ? T(1ull << (8 * sizeof(T) - 1)) : T(0);
template <class T> constexpr T HIGHEST = T(~LOWEST<T>);

template <class To> DEVICE To saturate(f32 x) {
    // The highest value may round up to one that does not fit: so `>=`.
    if (x >= (f32)HIGHEST<To>) return HIGHEST<To>;
    if (x <= (f32)LOWEST<To>) return LOWEST<To>;
    return x == x ? (To)x : (To)0;
}

template <class To, class From> DEVICE To convert(From x) {
    if constexpr (IS_FLOAT<From> && IS_FLOAT<To>) return from_f32<To>(to_f32(x));
    else if constexpr (IS_FLOAT<From>) return saturate<To>(to_f32(x));
    else if constexpr (IS_FLOAT<To>) return from_f32<To>((f32)x);
    else return (To)x;
}

template <class To, class From> DEVICE void cast_together(const From *x, To *y, u32 count) {
    u32 first = (block_x() * BLOCK + thread()) * PER_THREAD;
    if (first + PER_THREAD <= count) {
        Vec<From, PER_THREAD / 2> from[2] = {load<PER_THREAD / 2>(x + first), load<PER_THREAD / 2>(x + first + 2)};
        Vec<To, PER_THREAD / 2> to[2];
        UNROLL for (u32 p = 0; p < PER_THREAD; p++) to[p / 2].at[p % 2] = convert<To>(from[p / 2].at[p % 2]);
        store(y + first, to[0]);
        store(y + first + 2, to[1]);
    } else {
        for (u32 i = first; i < count; i++) y[i] = convert<To>(x[i]);
    }
}

template <class To, class From> DEVICE void cast(const From *x, To *y, u32 count, const Strided<> &from) {
    if (from.rank == 0) return cast_together(x, y, count);
    // Not unrolled: 54 kernels of which few run, and each would be four times as long.
    _Pragma("nounroll") for (u32 p = 0; p < PER_THREAD; p++) {
        u32 i = (block_x() * PER_THREAD + p) * BLOCK + thread();
        if (i < count) y[i] = convert<To>(x[place_of(from, i)]);
    }
}

#define CAST(From, To)                                                                                                 \
    KERNEL(BLOCK) cast_##From##_##To(const From *x, To *y, u32 count, Strided<> from) { cast(x, y, count, from); }
#define CASTS(A, B)                                                                                                    \
    CAST(A, B)                                                                                                         \
    CAST(B, A)
CASTS(u8, u32) CASTS(u8, i16) CASTS(u8, i32) CASTS(u8, i64) CASTS(u8, f16) CASTS(u8, bf16) CASTS(u8, f32)
CASTS(u32, i16) CASTS(u32, i64) CASTS(u32, f16) CASTS(u32, bf16) CASTS(u32, f32)
CASTS(i16, i32) CASTS(i16, i64) CASTS(i16, f16) CASTS(i16, bf16) CASTS(i16, f32)
CASTS(i32, i64) CASTS(i32, f16) CASTS(i32, bf16) CASTS(i32, f32)
CASTS(i64, f16) CASTS(i64, bf16) CASTS(i64, f32)
CASTS(f16, bf16) CASTS(f16, f32) CASTS(bf16, f32)
