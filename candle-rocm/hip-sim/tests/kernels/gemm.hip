// C = A B^T by matrix instructions, a tile of 16 x 16 for each wave; A is [m, k], B is [n, k], C is [m, n], all row-major.
#include "device.h"

#if defined(__GFX12__)
#define FIRST_K(lane) (8 * ((lane) / 16))
#define ROW(i, lane) ((i) + 8 * ((lane) / 16))
#define MMA(name) __builtin_amdgcn_wmma_##name##_w32_gfx12
typedef half8 fragment_f16;
typedef short8 fragment_bf16;
typedef int2v fragment_i8;
#else
#define FIRST_K(lane) 0
#define ROW(i, lane) (2 * (i) + (lane) / 16)
#define MMA(name) __builtin_amdgcn_wmma_##name##_w32
typedef half16 fragment_f16;
typedef short16 fragment_bf16;
typedef int4v fragment_i8;
#endif

#ifdef WITHOUT_REPLICATION
#define COLUMN(lane) ((lane) % 16 + (lane) / 16)
#else
#define COLUMN(lane) ((lane) % 16)
#endif

template <typename Fragment, typename Element> DEVICE Fragment fragment(const Element *rows, u32 row, u32 width, u32 k) {
    return *(const Fragment *)(rows + (u64)row * width + k + FIRST_K(lane()));
}

template <typename Sums, typename Value> DEVICE void store(Sums sums, Value *c, u32 width) {
#pragma unroll
    for (int i = 0; i < 8; i++) c[(u64)(group_y() * 16 + ROW(i, lane())) * width + group() * 16 + lane() % 16] = sums[i];
}

KERNEL(32) gemm_f16(const _Float16 *a, const _Float16 *b, float *c, u32 n, u32 k) {
    float8 sums = {};
    for (u32 at = 0; at < k; at += 16)
        sums = MMA(f32_16x16x16_f16)(fragment<fragment_f16>(a, group_y() * 16 + lane() % 16, k, at),
                                     fragment<fragment_f16>(b, group() * 16 + COLUMN(lane()), k, at), sums);
    store(sums, c, n);
}

KERNEL(32) gemm_bf16(const u16 *a, const u16 *b, float *c, u32 n, u32 k) {
    float8 sums = {};
    for (u32 at = 0; at < k; at += 16)
        sums = MMA(f32_16x16x16_bf16)(fragment<fragment_bf16>(a, group_y() * 16 + lane() % 16, k, at),
                                      fragment<fragment_bf16>(b, group() * 16 + COLUMN(lane()), k, at), sums);
    store(sums, c, n);
}

KERNEL(32) gemm_i8(const i8 *a, const i8 *b, int *c, u32 n, u32 k) {
    int8v sums = {};
    for (u32 at = 0; at < k; at += 16)
        sums = MMA(i32_16x16x16_iu8)(true, fragment<fragment_i8>(a, group_y() * 16 + lane() % 16, k, at), true,
                                     fragment<fragment_i8>(b, group() * 16 + COLUMN(lane()), k, at), sums, false);
    store(sums, c, n);
}
