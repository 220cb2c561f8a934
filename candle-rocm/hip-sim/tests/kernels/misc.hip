// Small kernels for one mechanism each: tables in the code object, 64-bit values, scratch, atomics, division, faults.
#include "device.h"

static const __attribute__((device)) float table[16] = {0.5f, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987};

// Found by its name, not only through code.
extern "C" __attribute__((device, used)) u32 primes[4] = {2, 3, 5, 7};

KERNEL(32) look_up(const u32 *index, float *y) { y[thread()] = table[index[thread()] & 15]; }

KERNEL(64) divide(const float *a, const float *b, float *y) { y[thread()] = a[thread()] / b[thread()]; }

KERNEL(64) divide_f64(const double *a, const double *b, double *y) { y[thread()] = a[thread()] / b[thread()]; }

KERNEL(64) remainder_u64(const u64 *a, const u64 *b, u64 *y) { y[thread()] = a[thread()] % b[thread()]; }

KERNEL(64) count(u32 *counters, const u32 *bucket) { __atomic_fetch_add(counters + bucket[group() * 64 + thread()], 1, __ATOMIC_RELAXED); }

KERNEL(64) private_array(const u32 *order, u32 *y) {
    volatile u32 own[16];
    for (u32 i = 0; i < 16; i++) own[i] = thread() * 100 + i;
    y[thread()] = own[order[thread()] & 15];
}

KERNEL(64) block_size(u32 *y) { y[group() * 64 + thread()] = __builtin_amdgcn_workgroup_size_x(); }

KERNEL(64) copy(const u32 *x, u32 *y, u32 count, u32 shift) {
    u32 i = group() * 64 + thread();
    if (i < count) y[i] = x[i + shift];
}

KERNEL(64) store_past_end(u32 *y, u32 count) {
    u32 i = group() * 64 + thread();
    if (i <= count) y[i] = i;
}

KERNEL(64) some_waves_wait(u32 *y) {
    if (thread() < 32) return;
    __builtin_amdgcn_s_barrier();
    y[thread()] = 1;
}

KERNEL(64) never_ends(volatile u32 *y) {
    while (y[0] == 7) {
    }
}

KERNEL(64) lds_past_end(u32 *y, u32 index) {
    SHARED u32 data[64];
    data[thread()] = thread();
    barrier();
    y[thread()] = data[thread() + index];
}
