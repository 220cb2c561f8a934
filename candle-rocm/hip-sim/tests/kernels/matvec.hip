// Products of 8-bit blocks (32 weights and an f16 scale) with an 8-bit vector: one wave a row, four products an instruction.
#include "device.h"

KERNEL(32) matvec_q8(const int4v *weights, const _Float16 *weight_scales, const int4v *x, const float *x_scales, float *y, u32 blocks) {
    u32 row = group();
    float sum = 0;
    for (u32 b = lane(); b < blocks; b += 32) {
        int dot = 0;
#pragma unroll
        for (int part = 0; part < 2; part++) {
            int4v w = weights[((u64)row * blocks + b) * 2 + part], v = x[b * 2 + part];
#pragma unroll
            for (int i = 0; i < 4; i++) dot = __builtin_amdgcn_sudot4(true, w[i], true, v[i], dot, false);
        }
        sum += (float)dot * (float)weight_scales[(u64)row * blocks + b] * x_scales[b];
    }
    sum = wave_sum(sum);
    if (lane() == 0) y[row] = sum;
}
