// What the small test kernels need of a device header: attributes, identifiers and a barrier. No ROCm, no libm.
#pragma once
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) void
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device, always_inline)) inline

typedef unsigned int u32;
typedef unsigned long u64;

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 group() { return __builtin_amdgcn_workgroup_id_x(); }

// Orders LDS only.
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
