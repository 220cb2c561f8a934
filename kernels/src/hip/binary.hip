// Functions of pairs of elements, their comparison, and the choice between two. Limited by bandwidth; which function is
// the same for all threads, so choosing it costs a scalar branch. f16 and bf16 are computed in f32.
//
// a, b, t, f: places of T; c: places of an integer; y: [count], contiguous. count < 2^31.
#include "strided.h"

constexpr u32 BLOCK = 256;
constexpr u32 PER_THREAD = 4;

// What elements are computed in.
template <class T> struct Number { typedef T Type; };
template <> struct Number<f16> { typedef f32 Type; };
template <> struct Number<bf16> { typedef f32 Type; };

template <class T> DEVICE typename Number<T>::Type number(T x) {
    if constexpr (sizeof(T) == 2) return to_f32(x);
    else return x;
}
template <class T> DEVICE T element(typename Number<T>::Type x) {
    if constexpr (sizeof(T) == 2) return from_f32<T>(x);
    else return x;
}

// As in `binary.rs`.
enum Function : u32 { ADD, MUL, SUB, DIV, MAXIMUM, MINIMUM };
enum Comparison : u32 { EQ, NE, LE, GE, LT, GT };

// Where one of the two is NaN, the larger and the smaller are the first, as on Candle's CPU. Integers wrap; what is
// divided by zero is 0.
template <class N> DEVICE N function(u32 which, N a, N b) {
    switch (which) {
    case ADD: return a + b;
    case MUL: return a * b;
    case SUB: return a - b;
    case MAXIMUM: return a < b ? b : a;
    case MINIMUM: return b < a ? b : a;
    default:
        // The compiler's division of integers is undefined for zero, and for the lowest number by -1.
        if constexpr ((N)0.5f == (N)0) return b == 0 ? 0 : (N)-1 < (N)0 && b == (N)-1 ? 0 - a : a / b;
        else return a / b;
    }
}

template <class N> DEVICE bool compare(u32 which, N a, N b) {
    switch (which) {
    case EQ: return a == b;
    case NE: return a != b;
    case LE: return a <= b;
    case GE: return a >= b;
    case LT: return a < b;
    default: return a > b;
    }
}

template <class Y, class Element> DEVICE void for_each(Y *y, u32 count, Element element) {
    // Not unrolled: strided places are long, and many loads of other waves are under way.
    _Pragma("nounroll") for (u32 p = 0; p < PER_THREAD; p++) {
        u32 i = (block_x() * PER_THREAD + p) * BLOCK + thread();
        if (i < count) y[i] = element(i);
    }
}

template <class T> DEVICE void binary(const T *a, const T *b, T *y, u32 count, u32 which, const Strided<2> &from) {
    for_each(y, count, [&](u32 i) {
        Places<2> places = places_of(from, i);
        return element<T>(function(which, number(a[places.at[0]]), number(b[places.at[1]])));
    });
}

template <class T> DEVICE void comparison(const T *a, const T *b, u8 *y, u32 count, u32 which, const Strided<2> &from) {
    for_each(y, count, [&](u32 i) -> u8 {
        Places<2> places = places_of(from, i);
        return compare(which, number(a[places.at[0]]), number(b[places.at[1]]));
    });
}

#define BINARY(T)                                                                                                      \
    KERNEL(BLOCK) binary_##T(const T *a, const T *b, T *y, u32 count, u32 which, Strided<2> from) {                    \
        binary(a, b, y, count, which, from);                                                                           \
    }                                                                                                                  \
    KERNEL(BLOCK) compare_##T(const T *a, const T *b, u8 *y, u32 count, u32 which, Strided<2> from) {                  \
        comparison(a, b, y, count, which, from);                                                                       \
    }
BINARY(u8)
BINARY(u32)
BINARY(i64)
BINARY(f16)
BINARY(bf16)
BINARY(f32)

// Elements of any type are moved as so many bits.
#define WHERE(C, BITS, T)                                                                                              \
    KERNEL(BLOCK) where_##C##_##BITS(const C *c, const T *t, const T *f, T *y, u32 count, Strided<3> from) {           \
        for_each(y, count, [&](u32 i) {                                                                                \
            Places<3> places = places_of(from, i);                                                                     \
            return c[places.at[0]] ? t[places.at[1]] : f[places.at[2]];                                                \
        });                                                                                                            \
    }
#define WHERES(C) WHERE(C, 8, u8) WHERE(C, 16, u16) WHERE(C, 32, u32) WHERE(C, 64, u64)
WHERES(u8)
WHERES(u32)
WHERES(i64)
