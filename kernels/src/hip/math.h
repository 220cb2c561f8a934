// Functions of a real number, made from exp2, log2 and the reciprocal: there is no libm on the device. Errors are those
// of f32, a few units in the last place; candle-rocm's check of `unary` holds them to it.
#pragma once

constexpr f32 LOG2_E = 1.4426950408889634f;
constexpr f32 LN_2 = 0.6931471805599453f;

DEVICE f32 exp(f32 x) {
    // What rounding took from the product goes back in as a factor: without it the error grows with |x|.
    f32 whole = x * LOG2_E;
    f32 lost = fma(x, LOG2_E, -whole) + x * 1.925963033500e-8f;
    f32 y = exp2(whole);
    // Beyond, y is infinite or as good as zero, and right as it is.
    return magnitude(whole) < 128.0f ? fma(y, lost * LN_2, y) : y;
}

DEVICE f32 log(f32 x) {
    // AMD's instruction takes a subnormal number for zero.
    bool small = x < 0x1p-126f;
    return (log2(small ? x * 0x1p24f : x) - (small ? 24.0f : 0.0f)) * LN_2;
}

// c0 + c1 x + c2 x^2 + ...
template <class... Rest> DEVICE f32 polynomial(f32 x, f32 c0, Rest... rest) {
    if constexpr (sizeof...(rest) == 0) return c0;
    else return fma(x, polynomial(x, rest...), c0);
}

DEVICE f32 tanh(f32 x) {
    // 1 - 2 / (e^2x + 1) loses all digits near zero: a series there.
    f32 series = polynomial(x * x, 0.0f, -0.33333333f, 0.13333333f, -0.053968254f, 0.021869488f);
    f32 near = fma(x, series, x);
    f32 far = 1.0f - 2.0f * reciprocal(exp(2.0f * x) + 1.0f);
    return magnitude(x) < 0.25f ? near : far;
}

DEVICE f32 erf(f32 x) {
    f32 square = x * x;
    f32 near = x * polynomial(square, 1.12837917f, -0.37612639f, 0.11283792f, -0.02686617f, 0.00522398f, -0.00085483f);
    // Abramowitz and Stegun 7.1.26, right to 1.5e-7.
    f32 a = magnitude(x);
    f32 t = reciprocal(fma(0.3275911f, a, 1.0f));
    f32 tail = t * polynomial(t, 0.254829592f, -0.284496736f, 1.421413741f, -1.453152027f, 1.061405429f);
    f32 far = 1.0f - tail * exp(-square);
    return a < 0.5f ? near : x < 0.0f ? -far : far;
}

DEVICE f32 sigmoid(f32 x) { return reciprocal(1.0f + exp(-x)); }

// The logarithm to base 2 of a positive float, right to about 2^-45: exponent and a series of atanh.
DEVICE f64 log2_f64(f32 x) {
    bool small = x < 0x1p-126f;
    u32 bits = __builtin_bit_cast(u32, small ? x * 0x1p24f : x);
    // A mantissa between sqrt(1/2) and sqrt(2).
    u32 shifted = bits - 0x3f3504f3;
    i32 exponent = (i32)shifted >> 23;
    f64 mantissa = (f64)__builtin_bit_cast(f32, (shifted & 0x7fffff) + 0x3f3504f3);
    f64 z = (mantissa - 1.0) / (mantissa + 1.0), s = z * z;
    f64 series = 1.0 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s * (1.0 / 11 + s * (1.0 / 13 + s / 15))))));
    return (f64)(exponent - (small ? 24 : 0)) + 2.8853900817779268 * z * series;
}

// 2 to the power of x, for x between -200 and 200, rounded to f32 once.
DEVICE f32 exp2_f64(f64 x) {
    f64 n = whole(x), r = (x - n) * 0.69314718055994531;
    f64 y = 1.0 + r * (1.0 + r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r / 40320)))))));
    u64 scale = (u64)(i64)(1023 + (i32)n) << 52;
    return (f32)(y * __builtin_bit_cast(f64, scale));
}

// The largest whole number that is not larger. Numbers of 2^23 and more are whole; -0 stays.
DEVICE f32 floor(f32 x) {
    f32 near = nearest(x);
    f32 down = near > x ? near - 1.0f : near;
    return magnitude(x) < 0x1p23f ? __builtin_copysignf(down, x) : x;
}

// To the nearest whole number, halves away from zero.
DEVICE f32 round(f32 x) {
    f32 a = magnitude(x);
    f32 down = floor(a);
    return a < 0x1p23f ? __builtin_copysignf(a - down >= 0.5f ? down + 1.0f : down, x) : x;
}

// sin(x + quarters * pi/2). The multiple of pi/2 is taken off in f64, with pi/2 in two parts: right below 2^50, where the
// distance of neighbouring floats has long been many turns. NaN from there on.
DEVICE f32 sine(f32 x, i32 quarters) {
    if (!(magnitude(x) < 0x1p50f)) return __builtin_nanf("");
    f64 turns = whole((f64)x * 0.63661977236758134);
    f64 rest = fma(turns, -6.123233995736766e-17, fma(turns, -1.5707963267948966, (f64)x));
    u32 quadrant = (u32)(i64)turns + (u32)quarters;
    f32 r = (f32)rest;
    f32 s = r * r;
    f32 of_sine = fma(r * s, polynomial(s, -1.6666667e-1f, 8.3333310e-3f, -1.9840874e-4f, 2.7525562e-6f), r);
    f32 of_cosine = fma(s, polynomial(s, -0.5f, 4.16666418e-2f, -1.38883894e-3f, 2.47600965e-5f), 1.0f);
    f32 y = quadrant & 1 ? of_cosine : of_sine;
    return quadrant & 2 ? -y : y;
}

// exp(x) - 1 without the loss of digits near zero.
DEVICE f32 minus_one(f32 x) {
    f32 near = x * polynomial(x, 1.0f, 0.5f, 1.6666667e-1f, 4.1666668e-2f, 8.3333338e-3f, 1.3888889e-3f);
    return magnitude(x) < 0.25f ? near : exp(x) - 1.0f;
}

// x to the power of p, by f64 where the logarithm is multiplied: its error grows with the result's exponent. Negative x have
// a power where p is a whole number.
DEVICE f32 power(f32 x, f32 p) {
    if (p == 0.0f || x == 1.0f) return 1.0f;
    if (x != x || p != p) return x + p;
    if (magnitude(p) == __builtin_inff())
        return magnitude(x) == 1.0f ? 1.0f : (magnitude(x) > 1.0f) == (p > 0.0f) ? __builtin_inff() : 0.0f;
    bool whole_p = magnitude(p) >= 0x1p23f || floor(p) == p;
    bool odd = magnitude(p) < 0x1p24f && whole_p && ((i32)p & 1);
    f32 a = magnitude(x);
    f32 y;
    if (a == 0.0f) y = p > 0.0f ? 0.0f : __builtin_inff();
    else if (a == __builtin_inff()) y = p > 0.0f ? a : 0.0f;
    else {
        f64 exponent = log2_f64(a) * (f64)p;
        y = exponent > 200.0 ? __builtin_inff() : exponent < -200.0 ? 0.0f : exp2_f64(exponent);
    }
    if (x < 0.0f && a != __builtin_inff() && !whole_p) return __builtin_nanf("");
    return __builtin_signbit(x) && odd ? -y : y;
}
