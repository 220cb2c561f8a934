// What the test kernels need of a device header: attributes, identifiers, lane exchange, barriers. No ROCm, no libm.
#pragma once
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) void
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device, always_inline)) inline

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef short short16 __attribute__((ext_vector_type(16)));
typedef short short8 __attribute__((ext_vector_type(8)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef int int2v __attribute__((ext_vector_type(2)));
typedef int int4v __attribute__((ext_vector_type(4)));
typedef int int8v __attribute__((ext_vector_type(8)));

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 group() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 group_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 lane() { return __builtin_amdgcn_mbcnt_lo(~0u, 0u); }

// Orders LDS only.
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

DEVICE int bits(float x) { return __builtin_bit_cast(int, x); }
DEVICE float from_bits(int x) { return __builtin_bit_cast(float, x); }
DEVICE float from_bf16(u16 x) { return from_bits((int)x << 16); }
DEVICE u16 to_bf16(float x) {
    u32 u = bits(x);
    return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}

// The value of the lane whose number differs in one bit, by the permutation of each step's instruction.
#define XOR_ROW(x, mask) from_bits(__builtin_amdgcn_update_dpp(0, bits(x), 0x160 | (mask), 0xf, 0xf, true))
DEVICE float xor_16(float x) {
    int other = __builtin_amdgcn_permlanex16(bits(x), bits(x), 0x76543210, 0xfedcba98, false, false);
    // Uses the value at once: LLVM 19 otherwise moves the exchange behind a later branch, where the other lanes are off.
    asm volatile("" : "+v"(other));
    return from_bits(other);
}
DEVICE float wave_sum(float x) {
    x += XOR_ROW(x, 1);
    x += XOR_ROW(x, 2);
    x += XOR_ROW(x, 4);
    x += XOR_ROW(x, 8);
    return x + xor_16(x);
}
