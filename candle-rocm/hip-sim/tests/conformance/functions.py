"""The functions that AMD's pseudocode names and does not define, by what the ISA documents say of them."""

import math
from fractions import Fraction

from pseudocode import Value, from_float, make, number_of


def is_nan(value):
    x = number_of(value)
    return isinstance(x, float) and math.isnan(x)


def is_quiet(value):
    return is_nan(value) and value.bits >> {16: 9, 32: 22, 64: 51}[value.width] & 1 == 1


def to_integer(kind, width):
    low = -(1 << width - 1) if kind == "i" else 0
    high = (1 << width - (kind == "i")) - 1

    def convert(value):
        x = number_of(value)
        if math.isnan(x):
            return Value(kind, width, 0)
        return make(kind, width, max(low, min(high, int(max(-1e30, min(1e30, x))))))

    return convert


def to_real(width):
    def convert(value):
        number = number_of(value)
        return make("f", width, number if isinstance(number, float) else Fraction(number))

    return convert


def whole(f):
    """A rounding to whole numbers keeps the sign of zero."""

    def apply(value):
        x = number_of(value)
        if not math.isfinite(x) or x == 0:
            return value
        bits = from_float(float(f(x)), value.width)
        sign = 1 << value.width - 1
        return Value("f", value.width, bits | value.bits & sign if bits & ~sign == 0 else bits)

    return apply


def real(f):
    def apply(*values):
        width = next((v.width for v in values if isinstance(v, Value) and v.kind == "f"), 32)
        numbers = [float(number_of(v)) for v in values]
        if any(math.isnan(x) for x in numbers):
            return make("f", width, math.nan)
        try:
            return make("f", width, float(f(*numbers)))
        except OverflowError:
            return make("f", width, math.inf)
        except (ValueError, ZeroDivisionError):
            return make("f", width, math.nan)

    return apply


def fma(a, b, c):
    width = a.width
    x, y, z = a.number(), b.number(), c.number()
    if any(map(math.isnan, (x, y, z))) or math.isinf(x) or math.isinf(y) or math.isinf(z):
        with_product = math.nan if (math.isinf(x) and y == 0) or (math.isinf(y) and x == 0) else x * y
        product = with_product if math.isinf(x) or math.isinf(y) or math.isnan(with_product) else 0.0
        return make("f", width, product + z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        is_negative = math.copysign(1, x) * math.copysign(1, y) < 0 and math.copysign(1, z) < 0
        return Value("f", width, 1 << width - 1 if is_negative and (x == 0 or y == 0 or z == 0) else 0)
    bits = from_float(exact, width)
    return Value("f", width, bits | (1 << width - 1 if exact < 0 else 0))


def absolute(value):
    if value.kind == "f":
        return Value("f", value.width, value.bits & (1 << value.width - 1) - 1)
    return make(value.kind, value.width, abs(value.number()))


def exponent(value):
    field = {16: 10, 32: 23, 64: 52}[value.width]
    return value.bits >> field & (1 << value.width - 1 - field) - 1


def mantissa(value):
    """In [0.5, 1), with the sign."""
    return make("f", value.width, math.frexp(value.number())[0])


def order(is_first, prefers):
    """Minimum and maximum: a number before a NaN, -0 below +0."""

    def two(a, b):
        if is_nan(a):
            return b
        if is_nan(b):
            return a
        x, y = number_of(a), number_of(b)
        if x == y and isinstance(x, float):
            return a if (math.copysign(1, x) == prefers) else b
        return a if is_first(x, y) else b

    def many(*values):
        result = values[0]
        for value in values[1:]:
            result = two(result, value)
        return result

    return many


greater = order(lambda x, y: x > y, 1.0)
smaller = order(lambda x, y: x < y, -1.0)


def sign_extend(value, width=None):
    value = value if isinstance(value, Value) else Value("i", 32, value)
    width = value.width if width is None else number_of(width)
    bits = value.bits & (1 << width) - 1
    number = bits - (1 << width) if width and bits >> width - 1 else bits
    return make("i", 64 if width == value.width else value.width, number)


def fract(value):
    x = value.number()
    return make("f", value.width, x - math.floor(x) if math.isfinite(x) else math.nan)


def power(base, value):
    return real(lambda a, b: a**b if b < 2000 else math.inf)(value if isinstance(base, float) else base, value)


def log2(value):
    x = number_of(value)
    if x == 0:
        return make("f", value.width, -math.inf)
    return make("f", value.width, math.nan if x < 0 or math.isnan(x) else math.log2(x) if x < math.inf else x)


def sqrt(value):
    x = number_of(value)
    return value if x == 0 else make("f", value.width, math.nan if math.isnan(x) or x < 0 else math.sqrt(x))


TABLE = {
    "isNAN": is_nan, "isQuietNAN": is_quiet, "isSignalNAN": lambda v: is_nan(v) and not is_quiet(v),
    "cvtToQuietNAN": lambda v: make("f", v.width, math.nan),
    "abs": absolute, "sign": lambda v: Value("u", 1, v.bits >> v.width - 1), "exponent": exponent, "mantissa": mantissa,
    "fma": fma, "floor": whole(math.floor), "ceil": whole(math.ceil), "trunc": whole(math.trunc),
    "fract": fract,
    "isEven": lambda v: number_of(v) % 2 == 0 if math.isfinite(number_of(v)) else False,
    "signext": sign_extend, "signext_from_bit": sign_extend, "pow": power, "log2": log2, "sqrt": sqrt,
    "rcp": real(lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x),
    "sin": real(math.sin), "cos": real(math.cos),
    "f32_to_i32": to_integer("i", 32), "f32_to_u32": to_integer("u", 32), "f64_to_i32": to_integer("i", 32),
    "f64_to_u32": to_integer("u", 32), "f16_to_i16": to_integer("i", 16), "f16_to_u16": to_integer("u", 16),
    "f32_to_i16": to_integer("i", 16), "f32_to_u16": to_integer("u", 16), "f32_to_u8": to_integer("u", 8),
    "v_cvt_i16_f32": to_integer("i", 16), "v_cvt_u16_f32": to_integer("u", 16),
    "f32_to_f16": to_real(16), "f16_to_f32": to_real(32), "f32_to_f64": to_real(64), "f64_to_f32": to_real(32),
    "i32_to_f32": to_real(32), "u32_to_f32": to_real(32), "i32_to_f64": to_real(64), "u32_to_f64": to_real(64),
    "i16_to_f16": to_real(16), "u16_to_f16": to_real(16), "bf16_to_f32": lambda v: Value("f", 32, v.bits << 16),
    "u8_to_u32": lambda v: Value("u", 32, v.bits), "u4_to_u32": lambda v: Value("u", 32, v.bits),
    "u32_to_u16": lambda v: Value("u", 16, min(v.bits, 65535)),
    "i32_to_i16": lambda v: make("i", 16, max(-32768, min(32767, number_of(v.as_type("i", 32))))),
    "s_ff1_i32_b32": lambda v: (v.bits & -v.bits).bit_length() - 1,
}
for _type in ("f32", "f16", "f64", "i32", "u32", "i16", "u16", "num_f32", "num_f16", "num_f64"):
    for _count in ("", "3"):
        TABLE[f"v_max{_count}_{_type}"] = greater
        TABLE[f"v_min{_count}_{_type}"] = smaller


def strict(choose):
    """The larger or smaller number; a NaN if either is."""
    return lambda a, b: make("f", a.width, math.nan) if is_nan(a) or is_nan(b) else choose(a, b)


for _type in ("f32", "f16"):
    TABLE[f"v_maximum_{_type}"], TABLE[f"v_minimum_{_type}"] = strict(greater), strict(smaller)
