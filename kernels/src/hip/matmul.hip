// Matrix products without matrix instructions: c = a * b, in f32, for every stride. Limited by arithmetic. A block computes
// a tile of 64 x 64; its threads share pieces of a and b through LDS, and each keeps 4 x 4 sums.
//
// a: [m, k], b: [k, n] at any strides, batches at any distance (0 repeats a matrix); c: [batch, m, n], contiguous.
#include "device.h"

constexpr u32 BLOCK = 256;
constexpr u32 TILE = 64;
constexpr u32 DEPTH = 16;
constexpr u32 MINE = 4;
// One more than a tile: neighbours along k start in different banks.
constexpr u32 PITCH = TILE + 1;

struct Matrix {
    // Elements from one row to the next, one column to the next, one matrix to the next; high words follow.
    u32 row, column, batch, row_high, column_high, batch_high;
};

DEVICE u64 wide(u32 low, u32 high) { return (u64)high << 32 | low; }

// `across` is the side that the tile has 64 of, `along` is k. Behind either end there are zeros.
template <class T>
DEVICE void stage(f32 *tile, const T *from, u32 first_across, u32 across, u32 first_along, u32 along, u64 across_stride, u64 along_stride) {
    UNROLL for (u32 p = 0; p < TILE * DEPTH / BLOCK; p++) {
        u32 piece = thread() + p * BLOCK;
        // Neighbouring threads read neighbouring elements, whichever side those lie on.
        bool along_first = along_stride == 1;
        u32 i = along_first ? piece / DEPTH : piece % TILE, j = along_first ? piece % DEPTH : piece / TILE;
        bool inside = first_across + i < across && first_along + j < along;
        u64 at = inside ? (u64)(first_across + i) * across_stride + (u64)(first_along + j) * along_stride : 0;
        tile[j * PITCH + i] = inside ? to_f32(from[at]) : 0.0f;
    }
}

template <class T> DEVICE void matmul(const T *a, const T *b, T *c, u32 m, u32 n, u32 k, const Matrix &la, const Matrix &lb) {
    SHARED f32 tile_a[DEPTH * PITCH], tile_b[DEPTH * PITCH];
    u32 first_row = block_y() * TILE, first_column = block_x() * TILE;
    a += block_z() * wide(la.batch, la.batch_high);
    b += block_z() * wide(lb.batch, lb.batch_high);
    c += (u64)block_z() * m * n;
    u32 row = thread() / (TILE / MINE) * MINE, column = thread() % (TILE / MINE) * MINE;
    f32 sums[MINE][MINE] = {};
    for (u32 first = 0; first < k; first += DEPTH) {
        stage(tile_a, a, first_row, m, first, k, wide(la.row, la.row_high), wide(la.column, la.column_high));
        stage(tile_b, b, first_column, n, first, k, wide(lb.column, lb.column_high), wide(lb.row, lb.row_high));
        lds_barrier();
        UNROLL for (u32 j = 0; j < DEPTH; j++) {
            f32 x[MINE], y[MINE];
            UNROLL for (u32 e = 0; e < MINE; e++) x[e] = tile_a[j * PITCH + row + e], y[e] = tile_b[j * PITCH + column + e];
            UNROLL for (u32 r = 0; r < MINE; r++)
                UNROLL for (u32 s = 0; s < MINE; s++) sums[r][s] = fma(x[r], y[s], sums[r][s]);
        }
        lds_barrier();
    }
    UNROLL for (u32 r = 0; r < MINE; r++)
        UNROLL for (u32 s = 0; s < MINE; s++) {
            u32 i = first_row + row + r, j = first_column + column + s;
            if (i < m && j < n) c[(u64)i * n + j] = from_f32<T>(sums[r][s]);
        }
}

#define MATMUL(T)                                                                                                      \
    KERNEL(BLOCK) matmul_##T(const T *a, const T *b, T *c, u32 m, u32 n, u32 k, Matrix la, Matrix lb) {                \
        matmul(a, b, c, m, n, k, la, lb);                                                                              \
    }
MATMUL(f32)
MATMUL(f16)
MATMUL(bf16)
