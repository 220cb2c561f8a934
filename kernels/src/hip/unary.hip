// Functions of single elements, computed in f32. Limited by bandwidth. x, y: [count], T, contiguous; y may be x. `p` and `q`
// are parameters of some functions.
#include "device.h"

constexpr u32 BLOCK = 256;

constexpr f32 SQRT_2_OVER_PI = 0.7978845608028654f;
constexpr f32 SQRT_HALF = 0.7071067811865476f;

#define FUNCTION(Name, expression)                                                                                     \
    struct Name {                                                                                                      \
        static DEVICE f32 of(f32 x, [[maybe_unused]] f32 p, [[maybe_unused]] f32 q) { return expression; }             \
    };
FUNCTION(Exp, exp(x))
FUNCTION(Log, log(x))
FUNCTION(Tanh, tanh(x))
FUNCTION(Erf, erf(x))
FUNCTION(Sigmoid, sigmoid(x))
FUNCTION(Silu, x * sigmoid(x))
FUNCTION(Gelu, 0.5f * x * (1.0f + tanh(SQRT_2_OVER_PI * fma(0.044715f * x, x * x, x))))
FUNCTION(GeluErf, 0.5f * x * (1.0f + erf(x * SQRT_HALF)))
FUNCTION(Sin, sine(x, 0))
FUNCTION(Cos, sine(x, 1))
FUNCTION(Abs, magnitude(x))
FUNCTION(Neg, -x)
FUNCTION(Recip, 1.0f / x)
FUNCTION(Sqr, x * x)
FUNCTION(Sqrt, square_root(x))
FUNCTION(Relu, x > 0.0f ? x : 0.0f)
FUNCTION(Floor, floor(x))
FUNCTION(Ceil, -floor(-x))
FUNCTION(Round, round(x))
FUNCTION(Sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f)
FUNCTION(Affine, x * p + q)
FUNCTION(Powf, power(x, p))
FUNCTION(Elu, x > 0.0f ? x : p * minus_one(x))

template <class F, class T> DEVICE void apply(const T *x, T *y, u32 count, f32 p, f32 q) {
    u32 first = (block_x() * BLOCK + thread()) * WIDE<T>;
    if (first + WIDE<T> <= count) {
        Vec<f32, WIDE<T>> values = to_f32(load<WIDE<T>>(x + first));
        UNROLL for (u32 e = 0; e < WIDE<T>; e++) values.at[e] = F::of(values.at[e], p, q);
        store(y + first, from_f32<T>(values));
    } else {
        for (u32 i = first; i < count; i++) y[i] = from_f32<T>(F::of(to_f32(x[i]), p, q));
    }
}

#define UNARY(name, F)                                                                                                 \
    KERNEL(BLOCK) name##_f32(const f32 *x, f32 *y, u32 count, f32 p, f32 q) { apply<F>(x, y, count, p, q); }           \
    KERNEL(BLOCK) name##_f16(const f16 *x, f16 *y, u32 count, f32 p, f32 q) { apply<F>(x, y, count, p, q); }           \
    KERNEL(BLOCK) name##_bf16(const bf16 *x, bf16 *y, u32 count, f32 p, f32 q) { apply<F>(x, y, count, p, q); }
UNARY(exp, Exp)
UNARY(log, Log)
UNARY(tanh, Tanh)
UNARY(erf, Erf)
UNARY(sigmoid, Sigmoid)
UNARY(silu, Silu)
UNARY(gelu, Gelu)
UNARY(gelu_erf, GeluErf)
UNARY(sin, Sin)
UNARY(cos, Cos)
UNARY(abs, Abs)
UNARY(neg, Neg)
UNARY(recip, Recip)
UNARY(sqr, Sqr)
UNARY(sqrt, Sqrt)
UNARY(relu, Relu)
UNARY(floor, Floor)
UNARY(ceil, Ceil)
UNARY(round, Round)
UNARY(sign, Sign)
UNARY(affine, Affine)
UNARY(powf, Powf)
UNARY(elu, Elu)
