// One query of width 128 over pages of 16 keys and values in f16: a workgroup a head, a wave a key, scores through dynamic
// LDS, softmax updated page by page.
#include "device.h"

#define WIDTH 128
#define PAGE 16

KERNEL(128) attention(const _Float16 *q, const _Float16 *keys, const _Float16 *values, const int *pages, float *out, u32 length, float scale_log2) {
    extern SHARED float scores[];
    SHARED float query[WIDTH];
    u32 head = group(), t = thread();
    query[t] = (float)q[head * WIDTH + t] * scale_log2;
    barrier();
    float max = -1e30f, total = 0, sum = 0;
    for (u32 base = 0; base < length; base += PAGE) {
        u64 page = ((u64)pages[base / PAGE] * 16) * WIDTH;
        for (u32 j = t / 32; j < PAGE; j += 4) {
            float dot = 0;
#pragma unroll
            for (int i = 0; i < 4; i++) dot += query[lane() + 32 * i] * (float)keys[page + j * WIDTH + lane() + 32 * i];
            dot = wave_sum(dot);
            if (lane() == 0) scores[j] = base + j < length ? dot : -1e30f;
        }
        barrier();
        float page_max = max;
        for (int j = 0; j < PAGE; j++) page_max = __builtin_fmaxf(page_max, scores[j]);
        float correction = __builtin_amdgcn_exp2f(max - page_max);
        total *= correction;
        sum *= correction;
        for (int j = 0; j < PAGE; j++) {
            float p = __builtin_amdgcn_exp2f(scores[j] - page_max);
            total += p;
            sum += p * (float)values[page + j * WIDTH + t];
        }
        max = page_max;
        barrier();
    }
    out[head * WIDTH + t] = sum * __builtin_amdgcn_rcpf(total);
}
