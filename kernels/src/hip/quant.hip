// Products of quantised weights, in GGUF's block layouts, with up to eight rows of activations. The activations are
// quantised to bytes first, in blocks of 32 with a scale, so that four products are one instruction. Limited by
// bandwidth: weights are read once, with 128-bit loads and without LDS; a wave owns some rows and reads them
// together, so that many loads are under way.
//
// Q8_0, 32 weights in 34 bytes: {f16 d; i8 q[32]}, w = d * q. Q4_K, 256 weights in 144 bytes: {f16 d, dmin; u8
// scales[12]; u8 q[128]}, eight groups of 32 with 6-bit scale and minimum, w = d * scale * q - dmin * minimum; the
// low nibbles of 32 bytes are one group, the high nibbles the next.
#include "device.h"

constexpr u32 BLOCK = 256;
constexpr u32 GROUP = 32;

// ---- activations: x [count], T, to q [count] and d [count / 32], x = d * q ------------------------------------------

constexpr u32 PER_LANE = 8;
constexpr u32 LANES_OF_GROUP = GROUP / PER_LANE;

// The larger of two numbers that are not negative; NaN is larger than all, so that it is not lost.
struct MaxOrNan {
    static DEVICE f32 join(f32 a, f32 b) { return __builtin_bit_cast(u32, a) > __builtin_bit_cast(u32, b) ? a : b; }
};

// A group with a NaN or an infinity gets such a scale, and so gives NaN in every product.
template <class T> DEVICE void quantize(const T *x, u8 *q, f32 *d, u32 count) {
    u32 first = (block_x() * BLOCK + thread()) * PER_LANE;
    // Groups end at `count`, and a group's lanes stand together: all of them leave.
    if (first >= count) return;
    f32 values[PER_LANE];
    UNROLL for (u32 p = 0; p < PER_LANE; p += WIDE<T>) {
        Vec<f32, WIDE<T>> part = to_f32(load<WIDE<T>>(x + first + p));
        UNROLL for (u32 e = 0; e < WIDE<T>; e++) values[p + e] = part.at[e];
    }
    f32 largest = 0.0f;
    UNROLL for (u32 i = 0; i < PER_LANE; i++) largest = MaxOrNan::join(largest, magnitude(values[i]));
    largest = wave_reduce<MaxOrNan, LANES_OF_GROUP>(largest);
    // The reciprocal of less is infinite: such a group is as good as zero.
    f32 inverse = largest > 0x1p-120f ? 127.0f * reciprocal(largest) : 0.0f;
    u32x2 bytes = {0, 0};
    UNROLL for (u32 i = 0; i < PER_LANE; i++)
        bytes[i / 4] |= ((u32)(i32)nearest(values[i] * inverse) & 0xff) << (8 * (i % 4));
    *(u32x2 *)(q + first) = bytes;
    if (lane() % LANES_OF_GROUP == 0) d[first / GROUP] = largest * (1.0f / 127.0f);
}

KERNEL(BLOCK) quantize_f32(const f32 *x, u8 *q, f32 *d, u32 count) { quantize(x, q, d, count); }
KERNEL(BLOCK) quantize_f16(const f16 *x, u8 *q, f32 *d, u32 count) { quantize(x, q, d, count); }
KERNEL(BLOCK) quantize_bf16(const bf16 *x, u8 *q, f32 *d, u32 count) { quantize(x, q, d, count); }

// ---- products -------------------------------------------------------------------------------------------------------

DEVICE f32 half_bits(u32 bits) { return to_f32(__builtin_bit_cast(f16, (u16)bits)); }

DEVICE i32 dot16(u32x4 a, u32x4 b, i32 sum) {
    UNROLL for (u32 i = 0; i < 4; i++) sum = dot4(a[i], b[i], sum);
    return sum;
}
DEVICE i32 dot16_unsigned(u32x4 a, u32x4 b, i32 sum) {
    UNROLL for (u32 i = 0; i < 4; i++) sum = dot4_unsigned(a[i], b[i], sum);
    return sum;
}

// One row of quantised activations.
struct Activations {
    const u8 *q;
    const f32 *d;
};

// What one lane reads of a weight row at once, and its product with a row of activations.
struct Q8_0 {
    static constexpr u32 BLOCK_VALUES = 32, BLOCK_BYTES = 34;
    // A lane takes a block.
    static constexpr u32 LANES_OF_BLOCK = 1;
    u32x4 q[2];
    f32 d;

    DEVICE void read(const u8 *block) {
        d = half_bits(*(const u16 *)block);
        q[0] = load_even(block + 2);
        q[1] = load_even(block + 18);
    }
    DEVICE f32 times(Activations x, u32 block) const {
        const u32x4 *values = (const u32x4 *)(x.q + block * BLOCK_VALUES);
        return (f32)dot16(q[1], values[1], dot16(q[0], values[0], 0)) * d * x.d[block];
    }
};

struct Q4_K {
    static constexpr u32 BLOCK_VALUES = 256, BLOCK_BYTES = 144;
    // A lane takes 16 bytes: half of the low and half of the high group of 64 weights.
    static constexpr u32 LANES_OF_BLOCK = 8;
    u32x4 q;
    f32 d_low, d_high, min_low, min_high;

    DEVICE void read(const u8 *block) {
        u32x4 head = *(const u32x4 *)block;
        u32 part = lane() % LANES_OF_BLOCK;
        q = *(const u32x4 *)(block + 16 + 16 * part);
        // Four 6-bit numbers in the low bits of bytes, of the first four groups; of the last four, low bits in
        // nibbles of the third word and high bits on top of the first two.
        bool last = part >= 4;
        u32 scales = last ? (head[3] & 0x0f0f0f0f) | (head[1] >> 2 & 0x30303030) : head[1] & 0x3f3f3f3f;
        u32 minima = last ? (head[3] >> 4 & 0x0f0f0f0f) | (head[2] >> 2 & 0x30303030) : head[2] & 0x3f3f3f3f;
        u32 shift = part / 2 % 2 * 16;
        f32 d = half_bits(head[0]), dmin = half_bits(head[0] >> 16);
        d_low = d * (f32)(scales >> shift & 0xff);
        d_high = d * (f32)(scales >> (shift + 8) & 0xff);
        min_low = dmin * (f32)(minima >> shift & 0xff);
        min_high = dmin * (f32)(minima >> (shift + 8) & 0xff);
    }
    DEVICE f32 times(Activations x, u32 block) const {
        u32 part = lane() % LANES_OF_BLOCK;
        u32 group = block * (BLOCK_VALUES / GROUP) + part / 2 * 2;
        const u8 *values = x.q + group * GROUP + part % 2 * 16;
        u32x4 low = *(const u32x4 *)values, high = *(const u32x4 *)(values + GROUP);
        const u32x4 ones = {0x01010101, 0x01010101, 0x01010101, 0x01010101};
        f32 product_low = d_low * (f32)dot16_unsigned(q & 0x0f0f0f0f, low, 0) - min_low * (f32)dot16(ones, low, 0);
        f32 product_high = d_high * (f32)dot16_unsigned(q >> 4 & 0x0f0f0f0f, high, 0) - min_high * (f32)dot16(ones, high, 0);
        return fma(product_low, x.d[group], product_high * x.d[group + 1]);
    }
};

// w: [rows, k] blocks; q: [TOKENS, k], d: [TOKENS, k / 32], y: [TOKENS, rows], of which the first `tokens` exist.
template <class Format, u32 TOKENS, class T>
DEVICE void matvec(const u8 *w, const u8 *q, const f32 *d, T *y, u32 rows, u32 k, u32 tokens) {
    // More rows share what is read of more activations.
    constexpr u32 ROWS = TOKENS <= 2 ? 2 : 4;
    constexpr u32 BLOCKS_AT_ONCE = WAVE / Format::LANES_OF_BLOCK;
    u32 first_row = (block_x() * (BLOCK / WAVE) + wave_in_block()) * ROWS;
    if (first_row >= rows) return;
    u32 blocks = k / Format::BLOCK_VALUES;
    const u8 *row[ROWS];
    // Rows and tokens behind the last are read as the last, and not written.
    UNROLL for (u32 r = 0; r < ROWS; r++) {
        u32 index = first_row + r < rows ? first_row + r : rows - 1;
        row[r] = w + (u64)index * blocks * Format::BLOCK_BYTES;
    }
    Activations x[TOKENS];
    UNROLL for (u32 t = 0; t < TOKENS; t++) {
        u32 index = t < tokens ? t : tokens - 1;
        x[t] = {q + (u64)index * k, d + (u64)index * (k / GROUP)};
    }
    f32 sums[ROWS][TOKENS] = {};
    for (u32 b = lane() / Format::LANES_OF_BLOCK; b < blocks; b += BLOCKS_AT_ONCE) {
        Format part[ROWS];
        UNROLL for (u32 r = 0; r < ROWS; r++) part[r].read(row[r] + b * Format::BLOCK_BYTES);
        UNROLL for (u32 t = 0; t < TOKENS; t++)
            UNROLL for (u32 r = 0; r < ROWS; r++) sums[r][t] += part[r].times(x[t], b);
    }
    UNROLL for (u32 r = 0; r < ROWS; r++)
        UNROLL for (u32 t = 0; t < TOKENS; t++) {
            f32 sum = wave_sum(sums[r][t]);
            if (lane() == 0 && first_row + r < rows && t < tokens) y[(u64)t * rows + first_row + r] = from_f32<T>(sum);
        }
}

#define MATVEC(name, Format, TOKENS, T)                                                                                \
    KERNEL(BLOCK)                                                                                                      \
    name##_matvec_##TOKENS##_##T(const u8 *w, const u8 *q, const f32 *d, T *y, u32 rows, u32 k, u32 tokens) {          \
        matvec<Format, TOKENS>(w, q, d, y, rows, k, tokens);                                                           \
    }
#define MATVECS(name, Format, T)                                                                                       \
    MATVEC(name, Format, 1, T) MATVEC(name, Format, 2, T) MATVEC(name, Format, 4, T) MATVEC(name, Format, 8, T)
MATVECS(q8_0, Q8_0, f32)
MATVECS(q8_0, Q8_0, f16)
MATVECS(q8_0, Q8_0, bf16)
MATVECS(q4_k, Q4_K, f32)
MATVECS(q4_k, Q4_K, f16)
MATVECS(q4_k, Q4_K, bf16)
