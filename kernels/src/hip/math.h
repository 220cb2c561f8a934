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
