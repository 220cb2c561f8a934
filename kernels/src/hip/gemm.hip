// Matrix products by matrix instructions: c = a * b^T, sums in f32 (in i32 for bytes). Limited by arithmetic when
// tiles are full. A block computes a tile of c; its waves share tiles of a and b through LDS, double-buffered: while
// one pair is multiplied, the next is on its way from memory into registers.
//
// a: [batch, m, k], b: [batch, n, k] (weights as they are stored), c: [batch, m, n], each matrix contiguous, with its
// own distance from one to the next (0 repeats a matrix).
#include "device.h"

constexpr u32 BLOCK = 256;
// A row of an LDS tile: 64 bytes along k, and 16 that let eight rows start in different banks.
constexpr u32 ROW_BYTES = 64;
constexpr u32 PITCH_BYTES = ROW_BYTES + 16;
constexpr u32 PIECES_OF_ROW = ROW_BYTES / 16;

// ROWS rows of a matrix on their way from memory to LDS, 16 bytes a piece.
template <class T, u32 ROWS, bool ALIGNED> struct Stage {
    static constexpr u32 PIECES = ROWS * PIECES_OF_ROW;
    static constexpr u32 PER_THREAD = (PIECES + BLOCK - 1) / BLOCK;
    u32x4 pieces[PER_THREAD];

    // Rows behind the last are read as the last: they only reach sums that are not stored. Values behind k are zero.
    DEVICE void read(const T *matrix, u32 first_row, u32 rows, u32 first_k, u32 k) {
        UNROLL for (u32 p = 0; p < PER_THREAD; p++) {
            u32 piece = thread() + p * BLOCK;
            if (PIECES % BLOCK != 0 && piece >= PIECES) break;
            u32 row = first_row + piece / PIECES_OF_ROW;
            u32 at = first_k + piece % PIECES_OF_ROW * WIDE<T>;
            pieces[p] = read_piece(matrix + (u64)(row < rows ? row : rows - 1) * k + at, at, k);
        }
    }

    static DEVICE u32x4 read_piece(const T *from, u32 at, u32 k) {
        if constexpr (ALIGNED) return at < k ? *(const u32x4 *)from : u32x4{0, 0, 0, 0};
        Vec<T, WIDE<T>> values = {};
        UNROLL for (u32 e = 0; e < WIDE<T>; e++)
            if (at + e < k) values.at[e] = from[e];
        return __builtin_bit_cast(u32x4, values);
    }

    DEVICE void write(u8 *tile) const {
        UNROLL for (u32 p = 0; p < PER_THREAD; p++) {
            u32 piece = thread() + p * BLOCK;
            if (PIECES % BLOCK != 0 && piece >= PIECES) break;
            *(u32x4 *)(tile + piece / PIECES_OF_ROW * PITCH_BYTES + piece % PIECES_OF_ROW * 16) = pieces[p];
        }
    }
};

// Tiles of 16 x 16 that a wave computes: DOWN by ACROSS.
template <class T, u32 DOWN, u32 ACROSS> struct WaveTile {
    typename Sums<T>::Type sums[DOWN][ACROSS] = {};

    DEVICE void multiply(const u8 *a, const u8 *b) {
        constexpr u32 PITCH = PITCH_BYTES / sizeof(T);
        UNROLL for (u32 k = 0; k < ROW_BYTES / sizeof(T); k += 16) {
            Fragment<T> right[ACROSS];
            UNROLL for (u32 j = 0; j < ACROSS; j++) right[j] = load_fragment((const T *)b + j * 16 * PITCH + k, PITCH);
            UNROLL for (u32 i = 0; i < DOWN; i++) {
                Fragment<T> left = load_fragment((const T *)a + i * 16 * PITCH + k, PITCH);
                UNROLL for (u32 j = 0; j < ACROSS; j++) sums[i][j] = mma_16x16x16(left, right[j], sums[i][j]);
            }
        }
    }

    template <class Out> DEVICE void write(Out *c, u32 first_row, u32 first_column, u32 m, u32 n) const {
        UNROLL for (u32 i = 0; i < DOWN; i++)
            UNROLL for (u32 e = 0; e < 8; e++) {
                u32 row = first_row + i * 16 + sum_row(e);
                UNROLL for (u32 j = 0; j < ACROSS; j++) {
                    u32 column = first_column + j * 16 + sum_column(e);
                    if (row < m && column < n) c[(u64)row * n + column] = result<Out>(sums[i][j][e]);
                }
            }
    }

    template <class Out> static DEVICE Out result(f32 sum) { return from_f32<Out>(sum); }
    template <class Out> static DEVICE Out result(i32 sum) { return sum; }
};

template <class T, class Out, u32 TILE_M, u32 TILE_N, u32 WAVES_M, bool ALIGNED>
DEVICE void gemm(const T *a, const T *b, Out *c, u64 stride_a, u64 stride_b, u64 stride_c, u32 m, u32 n, u32 k) {
    constexpr u32 WAVES_N = BLOCK / WAVE / WAVES_M;
    constexpr u32 WAVE_M = TILE_M / WAVES_M, WAVE_N = TILE_N / WAVES_N;
    constexpr u32 STEP = ROW_BYTES / sizeof(T);
    SHARED __attribute__((aligned(16))) u8 tile_a[2][TILE_M * PITCH_BYTES], tile_b[2][TILE_N * PITCH_BYTES];
    a += block_z() * stride_a;
    b += block_z() * stride_b;
    c += block_z() * stride_c;
    u32 first_row = block_y() * TILE_M, first_column = block_x() * TILE_N;
    u32 wave_row = wave_in_block() / WAVES_N * WAVE_M, wave_column = wave_in_block() % WAVES_N * WAVE_N;

    Stage<T, TILE_M, ALIGNED> stage_a;
    Stage<T, TILE_N, ALIGNED> stage_b;
    WaveTile<T, WAVE_M / 16, WAVE_N / 16> tile;
    stage_a.read(a, first_row, m, 0, k);
    stage_b.read(b, first_column, n, 0, k);
    stage_a.write(tile_a[0]);
    stage_b.write(tile_b[0]);
    lds_barrier();
    u32 now = 0;
    for (u32 next = STEP;; next += STEP) {
        if (next < k) {
            stage_a.read(a, first_row, m, next, k);
            stage_b.read(b, first_column, n, next, k);
        }
        tile.multiply(tile_a[now] + wave_row * PITCH_BYTES, tile_b[now] + wave_column * PITCH_BYTES);
        if (next >= k) break;
        // Nobody reads the other pair: all waves were done with it before the last barrier.
        now ^= 1;
        stage_a.write(tile_a[now]);
        stage_b.write(tile_b[now]);
        lds_barrier();
    }
    tile.write(c, first_row + wave_row, first_column + wave_column, m, n);
}

#define GEMM(suffix, T, Out, TILE_M, TILE_N, WAVES_M, ALIGNED)                                                         \
    KERNEL(BLOCK)                                                                                                      \
    gemm_##T##_##suffix(const T *a, const T *b, Out *c, u64 stride_a, u64 stride_b, u64 stride_c, u32 m, u32 n,        \
                        u32 k) {                                                                                       \
        gemm<T, Out, TILE_M, TILE_N, WAVES_M, ALIGNED>(a, b, c, stride_a, stride_b, stride_c, m, n, k);                \
    }
#define GEMMS(T, Out)                                                                                                  \
    GEMM(large, T, Out, 128, 128, 4, true)                                                                             \
    GEMM(large_odd, T, Out, 128, 128, 4, false)                                                                        \
    GEMM(small, T, Out, 32, 64, 2, true)                                                                               \
    GEMM(small_odd, T, Out, 32, 64, 2, false)
GEMMS(f16, f16)
GEMMS(bf16, bf16)
GEMMS(i8, i32)
