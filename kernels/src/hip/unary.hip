// Functions of single elements. Limited by bandwidth. x, y: [count], T, contiguous; y may be x.
#include "device.h"

constexpr u32 BLOCK = 256;

constexpr f32 SQRT_2_OVER_PI = 0.7978845608028654f;
constexpr f32 SQRT_HALF = 0.7071067811865476f;

#define FUNCTION(Name, expression)                                                                                     \
    struct Name {                                                                                                      \
        static DEVICE f32 of(f32 x) { return expression; }                                                             \
    };
FUNCTION(Exp, exp(x))
FUNCTION(Log, log(x))
FUNCTION(Tanh, tanh(x))
FUNCTION(Erf, erf(x))
FUNCTION(Sigmoid, sigmoid(x))
FUNCTION(Silu, x * sigmoid(x))
FUNCTION(Gelu, 0.5f * x * (1.0f + tanh(SQRT_2_OVER_PI * fma(0.044715f * x, x * x, x))))
FUNCTION(GeluErf, 0.5f * x * (1.0f + erf(x * SQRT_HALF)))

template <class F, class T> DEVICE void apply(const T *x, T *y, u32 count) {
    u32 first = (block_x() * BLOCK + thread()) * WIDE<T>;
    if (first + WIDE<T> <= count) {
        Vec<f32, WIDE<T>> values = to_f32(load<WIDE<T>>(x + first));
        UNROLL for (u32 e = 0; e < WIDE<T>; e++) values.at[e] = F::of(values.at[e]);
        store(y + first, from_f32<T>(values));
    } else {
        for (u32 i = first; i < count; i++) y[i] = from_f32<T>(F::of(to_f32(x[i])));
    }
}

#define UNARY(name, F)                                                                                                 \
    KERNEL(BLOCK) name##_f32(const f32 *x, f32 *y, u32 count) { apply<F>(x, y, count); }                               \
    KERNEL(BLOCK) name##_f16(const f16 *x, f16 *y, u32 count) { apply<F>(x, y, count); }                               \
    KERNEL(BLOCK) name##_bf16(const bf16 *x, bf16 *y, u32 count) { apply<F>(x, y, count); }
UNARY(exp, Exp)
UNARY(log, Log)
UNARY(tanh, Tanh)
UNARY(erf, Erf)
UNARY(sigmoid, Sigmoid)
UNARY(silu, Silu)
UNARY(gelu, Gelu)
UNARY(gelu_erf, GeluErf)
