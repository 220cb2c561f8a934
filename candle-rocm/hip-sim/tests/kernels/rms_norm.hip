// Normalises rows of bf16 by their root mean square: a reduction within waves, then between them through LDS.
#include "device.h"

KERNEL(256) rms_norm(const u16 *x, const u16 *weight, u16 *y, u32 width, float epsilon) {
    SHARED float partial[8];
    const u16 *row = x + (u64)group() * width;
    float sum = 0;
    for (u32 i = thread(); i < width; i += 256) sum += from_bf16(row[i]) * from_bf16(row[i]);
    sum = wave_sum(sum);
    if (lane() == 0) partial[thread() / 32] = sum;
#ifndef WITHOUT_BARRIER
    barrier();
#endif
    float total = wave_sum(lane() < 8 ? partial[lane()] : 0);
    float scale = __builtin_amdgcn_rsqf(total / (float)width + epsilon);
    for (u32 i = thread(); i < width; i += 256)
        y[(u64)group() * width + i] = to_bf16(from_bf16(row[i]) * scale * from_bf16(weight[i]));
}
