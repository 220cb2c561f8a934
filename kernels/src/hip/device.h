// The vocabulary of our GPU kernels, and all of it: types, memory in 128-bit pieces, sums over lanes and blocks, and
// conversions. What differs between vendors stands in amd.h and nvidia.h, functions of real numbers in math.h. A kernel
// includes this file alone, names no builtin, no vendor and no warp size, and takes its block size at compile time.
//
// A wave is 32 lanes everywhere. A block is a number of whole waves in one dimension. There is no libm and no runtime.
#pragma once

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef _Float16 f16;
struct bf16 {
    u16 bits;
};

typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

#define DEVICE __attribute__((device, always_inline)) inline
#define SHARED __attribute__((shared))
#define UNROLL _Pragma("unroll")

constexpr u32 WAVE = 32;

#if defined(__AMDGCN__)
#include "amd.h"
#elif defined(__NVPTX__)
#include "nvidia.h"
#else
#error "device.h: compile for amdgcn or nvptx"
#endif

#include "math.h"

DEVICE u32 wave_in_block() { return uniform(thread() / WAVE); }

// ---- conversions, rounding to nearest even --------------------------------------------------------------------------

DEVICE f32 to_f32(f32 x) { return x; }
DEVICE f32 to_f32(f16 x) { return (f32)x; }
DEVICE f32 to_f32(bf16 x) { return __builtin_bit_cast(f32, (u32)x.bits << 16); }

template <class T> DEVICE T from_f32(f32 x);
template <> DEVICE f32 from_f32<f32>(f32 x) { return x; }
template <> DEVICE f16 from_f32<f16>(f32 x) { return (f16)x; }
template <> DEVICE bf16 from_f32<bf16>(f32 x) { return bf16{bf16_bits(x)}; }

// ---- memory ---------------------------------------------------------------------------------------------------------

// N values that lie together, in registers. Loaded and stored by one instruction of at most 128 bits.
template <class T, u32 N> struct Vec {
    T at[N];
};

// Values of T in 128 bits.
template <class T> constexpr u32 WIDE = 16 / sizeof(T);

template <u32 BYTES> struct Bits;
template <> struct Bits<1> { typedef u8 Type; };
template <> struct Bits<2> { typedef u16 Type; };
template <> struct Bits<4> { typedef u32 Type; };
template <> struct Bits<8> { typedef u32x2 Type; };
template <> struct Bits<16> { typedef u32x4 Type; };

// `from` is aligned to the N values, at most 16 bytes. Loaded as bits: field by field, the compiler may not merge them.
template <u32 N, class T> DEVICE Vec<T, N> load(const T *from) {
    typedef typename Bits<sizeof(T) * N>::Type Raw;
    using Vector = Vec<T, N>;
    return __builtin_bit_cast(Vector, *(const Raw *)from);
}

template <class T, u32 N> DEVICE void store(T *to, Vec<T, N> value) {
    typedef typename Bits<sizeof(T) * N>::Type Raw;
    *(Raw *)to = __builtin_bit_cast(Raw, value);
}

template <class T, u32 N> DEVICE Vec<f32, N> to_f32(Vec<T, N> from) {
    Vec<f32, N> to;
    UNROLL for (u32 i = 0; i < N; i++) to.at[i] = to_f32(from.at[i]);
    return to;
}

template <class T, u32 N> DEVICE Vec<T, N> from_f32(Vec<f32, N> from) {
    Vec<T, N> to;
    UNROLL for (u32 i = 0; i < N; i++) to.at[i] = from_f32<T>(from.at[i]);
    return to;
}

// ---- sums over lanes ------------------------------------------------------------------------------------------------

struct Sum {
    static constexpr f32 NONE = 0.0f;
    static DEVICE f32 join(f32 a, f32 b) { return a + b; }
};
struct Max {
    static constexpr f32 NONE = -__builtin_inff();
    static DEVICE f32 join(f32 a, f32 b) { return maximum(a, b); }
};
struct Min {
    static constexpr f32 NONE = __builtin_inff();
    static DEVICE f32 join(f32 a, f32 b) { return minimum(a, b); }
};

template <u32 MASK> DEVICE f32 lane_xor(f32 x) {
    return __builtin_bit_cast(f32, lane_xor<MASK>(__builtin_bit_cast(u32, x)));
}

// Over groups of LANES neighbouring lanes (a power of two); every lane of a group gets the result. With STEP, over
// the lanes of such a group whose numbers are equal modulo STEP.
template <class Op, u32 LANES = WAVE, u32 STEP = 1> DEVICE f32 wave_reduce(f32 x) {
    if constexpr (STEP <= 1 && LANES > 1) x = Op::join(x, lane_xor<1>(x));
    if constexpr (STEP <= 2 && LANES > 2) x = Op::join(x, lane_xor<2>(x));
    if constexpr (STEP <= 4 && LANES > 4) x = Op::join(x, lane_xor<4>(x));
    if constexpr (STEP <= 8 && LANES > 8) x = Op::join(x, lane_xor<8>(x));
    if constexpr (STEP <= 16 && LANES > 16) x = Op::join(x, lane_xor<16>(x));
    return x;
}
template <u32 LANES = WAVE> DEVICE f32 wave_sum(f32 x) { return wave_reduce<Sum, LANES>(x); }
template <u32 LANES = WAVE> DEVICE f32 wave_max(f32 x) { return wave_reduce<Max, LANES>(x); }

// Over THREADS threads, one wave or a whole block; every thread gets the result. `partial` is LDS for THREADS / WAVE
// values that nothing else uses between this call and the block's next barrier.
template <class Op, u32 THREADS> DEVICE f32 reduce(f32 x, f32 *partial) {
    x = wave_reduce<Op>(x);
    if constexpr (THREADS > WAVE) {
        constexpr u32 WAVES = THREADS / WAVE;
        if (lane() == 0) partial[wave_in_block()] = x;
        lds_barrier();
        x = wave_reduce<Op, WAVES>(partial[lane() % WAVES]);
    }
    return x;
}
