// Attention of one new token a sequence over a paged KV cache. Limited by bandwidth: keys and values are read once
// for all query heads that share them, with 128-bit loads and no LDS in the loop. Long contexts are split over
// blocks, whose parts a second kernel joins.
//
// A block has one sequence, one KV head, up to HEADS of its query heads, and one split. Each lane holds eight
// dimensions; LANES lanes make a token, so a wave reads several tokens at once. Every group of LANES lanes keeps its
// own running maximum, sum and output, and only at the end all of them are joined.
//
// q, out: [sequences, heads, D]. keys, values: [blocks, kv_heads, block_size, D], block_size = 2^block_bits. table:
// [sequences, table_width], a sequence's blocks in order. lengths: [sequences], tokens in the cache, the new one
// included; a length of 0 gives zeros. Only the last `window` tokens count. partial: [sequences, heads, splits, D +
// 2] f32: output before the division, maximum, sum; unused (null) with one split.
#include "device.h"

constexpr u32 BLOCK = 128;
constexpr u32 WAVES = BLOCK / WAVE;
constexpr u32 PER_LANE = 8;
// Finite, so that the difference of two of them is 0.
constexpr f32 NOTHING = -1e30f;

constexpr u32 lanes_of_token(u32 d) { return d <= 64 ? 8 : d <= 128 ? 16 : 32; }

struct Shape {
    u32 heads, kv_heads, block_bits, table_width, window, splits;
    // The usual scale times log2(e): weights are powers of two inside.
    f32 scale;
};

// The tokens of one split.
struct Range {
    u32 begin, end;
};

DEVICE Range range_of_split(u32 length, const Shape &shape) {
    u32 first = length > shape.window ? length - shape.window : 0;
    u32 tokens = (length - first + shape.splits - 1) / shape.splits;
    u32 begin = first + block_y() * tokens;
    u32 end = begin + tokens;
    return {begin < length ? begin : length, end < length ? end : length};
}

// Running softmax of HEADS heads over some tokens, and this lane's dimensions of the output.
template <u32 HEADS> struct Running {
    f32 highest[HEADS], sum[HEADS], output[HEADS][PER_LANE];

    DEVICE void clear() {
        UNROLL for (u32 h = 0; h < HEADS; h++) {
            highest[h] = NOTHING;
            sum[h] = 0.0f;
            UNROLL for (u32 e = 0; e < PER_LANE; e++) output[h][e] = 0.0f;
        }
    }

    DEVICE void scale_to(u32 h, f32 new_highest) {
        f32 factor = exp2(highest[h] - new_highest);
        highest[h] = new_highest;
        sum[h] *= factor;
        UNROLL for (u32 e = 0; e < PER_LANE; e++) output[h][e] *= factor;
    }

    // Joins the groups of LANES lanes of a wave.
    template <u32 LANES> DEVICE void join_groups() {
        UNROLL for (u32 h = 0; h < HEADS; h++) {
            scale_to(h, wave_reduce<Max, WAVE, LANES>(highest[h]));
            sum[h] = wave_reduce<Sum, WAVE, LANES>(sum[h]);
            UNROLL for (u32 e = 0; e < PER_LANE; e++) output[h][e] = wave_reduce<Sum, WAVE, LANES>(output[h][e]);
        }
    }
};

template <class T> DEVICE Vec<T, PER_LANE> load_slice(const T *from, bool exists) {
    if (exists) return load<PER_LANE>(from);
    return {};
}

template <class T, u32 D, u32 HEADS> struct Attention {
    static constexpr u32 LANES = lanes_of_token(D);
    static constexpr u32 AT_ONCE = WAVE / LANES;
    // Loads under way against registers.
    static constexpr u32 LOADS = HEADS > 4 ? 2 : 4;
    static constexpr u32 TOKENS = AT_ONCE * LOADS;

    const T *keys, *values;
    const u32 *table;
    u32 kv_head;
    Shape shape;
    f32 query[HEADS][PER_LANE];
    Running<HEADS> running;

    static DEVICE u32 slice() { return lane() % LANES * PER_LANE; }
    // D may leave lanes of a token without dimensions.
    static DEVICE bool has_slice() { return D % (LANES * PER_LANE) == 0 || slice() < D; }

    DEVICE u64 place_of_token(u32 token) const {
        u64 block = table[token >> shape.block_bits];
        u32 in_block = token & ((1u << shape.block_bits) - 1);
        return (((block * shape.kv_heads + kv_head) << shape.block_bits) + in_block) * D + slice();
    }

    DEVICE void read_query(const T *q, u32 first_head, u32 num_heads) {
        UNROLL for (u32 h = 0; h < HEADS; h++) {
            u32 head = first_head + (h < num_heads ? h : num_heads - 1);
            Vec<f32, PER_LANE> values = to_f32(load_slice(q + head * D + slice(), has_slice()));
            UNROLL for (u32 e = 0; e < PER_LANE; e++) query[h][e] = values.at[e] * shape.scale;
        }
    }

    // TOKENS tokens from `first` on, of which those before `end` count.
    DEVICE void add_tokens(u32 first, u32 end) {
        Vec<T, PER_LANE> key[LOADS], value[LOADS];
        UNROLL for (u32 t = 0; t < LOADS; t++) {
            u32 token = first + t * AT_ONCE + lane() / LANES;
            u64 place = place_of_token(token < end ? token : end - 1);
            key[t] = load_slice(keys + place, has_slice());
            value[t] = load_slice(values + place, has_slice());
        }
        f32 weight[HEADS][LOADS];
        UNROLL for (u32 t = 0; t < LOADS; t++) {
            bool counts = first + t * AT_ONCE + lane() / LANES < end;
            UNROLL for (u32 h = 0; h < HEADS; h++) {
                f32 score = 0.0f;
                UNROLL for (u32 e = 0; e < PER_LANE; e++) score = fma(to_f32(key[t].at[e]), query[h][e], score);
                score = wave_sum<LANES>(score);
                weight[h][t] = counts ? score : -__builtin_inff();
            }
        }
        UNROLL for (u32 h = 0; h < HEADS; h++) {
            f32 highest = running.highest[h];
            UNROLL for (u32 t = 0; t < LOADS; t++) highest = maximum(highest, weight[h][t]);
            running.scale_to(h, highest);
            UNROLL for (u32 t = 0; t < LOADS; t++) {
                f32 w = exp2(weight[h][t] - highest);
                running.sum[h] += w;
                UNROLL for (u32 e = 0; e < PER_LANE; e++)
                    running.output[h][e] = fma(to_f32(value[t].at[e]), w, running.output[h][e]);
            }
        }
    }

    DEVICE void add_range(Range range) {
        running.clear();
        for (u32 first = range.begin + wave_in_block() * TOKENS; first < range.end; first += WAVES * TOKENS)
            add_tokens(first, range.end);
        running.template join_groups<LANES>();
    }
};

template <class T, u32 D, u32 HEADS>
DEVICE void decode(const T *q, const T *keys, const T *values, const u32 *table, const u32 *lengths, T *out,
                   f32 *partial, Shape shape) {
    SHARED f32 outputs[WAVES][HEADS][D], maxima[WAVES][HEADS], sums[WAVES][HEADS];
    u32 group = shape.heads / shape.kv_heads, tiles = (group + HEADS - 1) / HEADS;
    u32 kv_head = block_x() / tiles, tile = block_x() % tiles, sequence = block_z();
    u32 first_head = kv_head * group + tile * HEADS;
    u32 num_heads = group - tile * HEADS < HEADS ? group - tile * HEADS : HEADS;

    Attention<T, D, HEADS> attention;
    attention.keys = keys;
    attention.values = values;
    attention.table = table + (u64)sequence * shape.table_width;
    attention.kv_head = kv_head;
    attention.shape = shape;
    attention.read_query(q + (u64)sequence * shape.heads * D, first_head, num_heads);
    attention.add_range(range_of_split(lengths[sequence], shape));

    u32 wave = wave_in_block();
    if (lane() < attention.LANES && attention.has_slice())
        UNROLL for (u32 h = 0; h < HEADS; h++) {
            UNROLL for (u32 e = 0; e < PER_LANE; e++)
                outputs[wave][h][attention.slice() + e] = attention.running.output[h][e];
            maxima[wave][h] = attention.running.highest[h];
            sums[wave][h] = attention.running.sum[h];
        }
    lds_barrier();

    for (u32 i = thread(); i < num_heads * D; i += BLOCK) {
        u32 h = i / D, dimension = i % D;
        f32 highest = NOTHING, sum = 0.0f, output = 0.0f;
        UNROLL for (u32 w = 0; w < WAVES; w++) highest = maximum(highest, maxima[w][h]);
        UNROLL for (u32 w = 0; w < WAVES; w++) {
            f32 factor = exp2(maxima[w][h] - highest);
            sum = fma(sums[w][h], factor, sum);
            output = fma(outputs[w][h][dimension], factor, output);
        }
        u64 head = (u64)sequence * shape.heads + first_head + h;
        if (shape.splits == 1) {
            out[head * D + dimension] = from_f32<T>(sum > 0.0f ? output * reciprocal(sum) : 0.0f);
        } else {
            f32 *part = partial + (head * shape.splits + block_y()) * (D + 2);
            part[dimension] = output;
            if (dimension == 0) {
                part[D] = highest;
                part[D + 1] = sum;
            }
        }
    }
}

// One block a head: joins its splits.
template <class T> DEVICE void join(const f32 *partial, T *out, u32 splits, u32 d) {
    const f32 *parts = partial + (u64)block_x() * splits * (d + 2);
    for (u32 dimension = thread(); dimension < d; dimension += BLOCK) {
        f32 highest = NOTHING, sum = 0.0f, output = 0.0f;
        for (u32 s = 0; s < splits; s++) highest = maximum(highest, parts[s * (d + 2) + d]);
        for (u32 s = 0; s < splits; s++) {
            const f32 *part = parts + s * (d + 2);
            f32 factor = exp2(part[d] - highest);
            sum = fma(part[d + 1], factor, sum);
            output = fma(part[dimension], factor, output);
        }
        out[(u64)block_x() * d + dimension] = from_f32<T>(sum > 0.0f ? output * reciprocal(sum) : 0.0f);
    }
}

#define ATTENTION(T, D, HEADS)                                                                                         \
    KERNEL(BLOCK)                                                                                                      \
    attention_decode_##T##_##D##_##HEADS(const T *q, const T *keys, const T *values, const u32 *table,                 \
                                         const u32 *lengths, T *out, f32 *partial, Shape shape) {                      \
        decode<T, D, HEADS>(q, keys, values, table, lengths, out, partial, shape);                                     \
    }
#define OF_SIZE(T, D) ATTENTION(T, D, 1) ATTENTION(T, D, 2) ATTENTION(T, D, 4) ATTENTION(T, D, 8)
#define OF_TYPE(T)                                                                                                     \
    OF_SIZE(T, 64) OF_SIZE(T, 96) OF_SIZE(T, 128) OF_SIZE(T, 256)                                                      \
    KERNEL(BLOCK) attention_join_##T(const f32 *partial, T *out, u32 splits, u32 d) { join(partial, out, splits, d); }
OF_TYPE(f16)
OF_TYPE(bf16)
