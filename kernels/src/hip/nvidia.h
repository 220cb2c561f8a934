// The vendor's half of the vocabulary for NVIDIA, sm_80 and later, without a CUDA toolkit. Only device.h includes it;
// amd.h holds the same names for the same meanings and their descriptions.
#pragma once

#define KERNEL(threads) extern "C" __attribute__((global, launch_bounds(threads))) void

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE u32 lane() { return __nvvm_read_ptx_sreg_laneid(); }
DEVICE u32 uniform(u32 x) { return x; }
DEVICE void lds_barrier() { __syncthreads(); }

template <u32 MASK> DEVICE u32 lane_xor(u32 x) {
    u32 other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(other) : "r"(x), "n"(MASK));
    return other;
}

DEVICE f32 maximum(f32 a, f32 b) { return __nvvm_fmax_f(a, b); }
DEVICE f32 minimum(f32 a, f32 b) { return __nvvm_fmin_f(a, b); }
DEVICE f32 fma(f32 a, f32 b, f32 c) { return __nvvm_fma_rn_f(a, b, c); }
DEVICE f64 fma(f64 a, f64 b, f64 c) { return __nvvm_fma_rn_d(a, b, c); }
DEVICE f64 whole(f64 x) {
    f64 y;
    asm("cvt.rni.f64.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}
DEVICE f32 square_root(f32 x) {
    f32 y;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE f32 nearest(f32 x) {
    f32 y;
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE f32 magnitude(f32 x) { return __builtin_bit_cast(f32, __builtin_bit_cast(u32, x) & 0x7fffffff); }

#define APPROXIMATE(name, instruction)                                                                                 \
    DEVICE f32 name(f32 x) {                                                                                           \
        f32 y;                                                                                                         \
        asm(instruction " %0, %1;" : "=f"(y) : "f"(x));                                                                \
        return y;                                                                                                      \
    }
APPROXIMATE(exp2, "ex2.approx.ftz.f32")
APPROXIMATE(log2, "lg2.approx.f32")
APPROXIMATE(reciprocal, "rcp.approx.f32")
APPROXIMATE(reciprocal_sqrt, "rsqrt.approx.f32")
#undef APPROXIMATE

DEVICE u16 bf16_bits(f32 x) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

DEVICE i32 dot4(u32 a, u32 b, i32 c) {
    i32 d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
DEVICE i32 dot4_unsigned(u32 a, u32 b, i32 c) {
    i32 d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// Loads must be aligned here: five words around the bytes, shifted into place. The words lie in the same 4-byte units
// as the bytes, and allocations are whole such units.
DEVICE u32x4 load_even(const u8 *from) {
    const u32 *words = (const u32 *)((u64)from & ~3ull);
    if (((u64)from & 2) == 0) return u32x4{words[0], words[1], words[2], words[3]};
    u32 w[5];
    UNROLL for (u32 i = 0; i < 5; i++) w[i] = words[i];
    u32x4 bytes;
    UNROLL for (u32 i = 0; i < 4; i++) bytes[i] = w[i] >> 16 | w[i + 1] << 16;
    return bytes;
}

// ---- matrix instructions: m16n8k16 twice ----------------------------------------------------------------------------

typedef f32 f32x8 __attribute__((ext_vector_type(8)));
typedef i32 i32x8 __attribute__((ext_vector_type(8)));

template <class T> struct Sums { typedef f32x8 Type; };
template <> struct Sums<i8> { typedef i32x8 Type; };

// The 8 x 8 sub-tiles of rows 0 to 7 and 8 to 15 for the first half of k, then the same for the second; for bytes k is
// covered by one.
template <class T> struct Fragment { u32 bits[4]; };
template <> struct Fragment<i8> { u32 bits[2]; };

DEVICE u32 lds_address(const void *p) { return (u32)(u64)(const __attribute__((address_space(3))) void *)p; }

template <class T> DEVICE Fragment<T> load_fragment(const T *tile, u32 stride) {
    Fragment<T> to;
    u32 row = lds_address(tile + (lane() % 16) * stride + lane() / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.bits[0]), "=r"(to.bits[1]), "=r"(to.bits[2]), "=r"(to.bits[3])
                 : "r"(row)
                 : "memory");
    return to;
}
template <> DEVICE Fragment<i8> load_fragment<i8>(const i8 *tile, u32 stride) {
    Fragment<i8> to;
    u32 row = lds_address(tile + (lane() % 16) * stride);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to.bits[0]), "=r"(to.bits[1])
                 : "r"(row)
                 : "memory");
    return to;
}

#define MMA_HALF(types, half)                                                                                          \
    asm("mma.sync.aligned.m16n8k16.row.col." types                                                                     \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                             \
        : "+f"(c[4 * half]), "+f"(c[4 * half + 1]), "+f"(c[4 * half + 2]), "+f"(c[4 * half + 3])                       \
        : "r"(a.bits[0]), "r"(a.bits[1]), "r"(a.bits[2]), "r"(a.bits[3]), "r"(b.bits[half]), "r"(b.bits[half + 2]))

DEVICE f32x8 mma_16x16x16(Fragment<f16> a, Fragment<f16> b, f32x8 sums) {
    f32 c[8];
    UNROLL for (u32 i = 0; i < 8; i++) c[i] = sums[i];
    MMA_HALF("f32.f16.f16.f32", 0);
    MMA_HALF("f32.f16.f16.f32", 1);
    UNROLL for (u32 i = 0; i < 8; i++) sums[i] = c[i];
    return sums;
}
DEVICE f32x8 mma_16x16x16(Fragment<bf16> a, Fragment<bf16> b, f32x8 sums) {
    f32 c[8];
    UNROLL for (u32 i = 0; i < 8; i++) c[i] = sums[i];
    MMA_HALF("f32.bf16.bf16.f32", 0);
    MMA_HALF("f32.bf16.bf16.f32", 1);
    UNROLL for (u32 i = 0; i < 8; i++) sums[i] = c[i];
    return sums;
}
#undef MMA_HALF

DEVICE i32x8 mma_16x16x16(Fragment<i8> a, Fragment<i8> b, i32x8 sums) {
    i32 c[8];
    UNROLL for (u32 i = 0; i < 8; i++) c[i] = sums[i];
    UNROLL for (u32 half = 0; half < 2; half++)
        asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+r"(c[4 * half]), "+r"(c[4 * half + 1]), "+r"(c[4 * half + 2]), "+r"(c[4 * half + 3])
            : "r"(a.bits[0]), "r"(a.bits[1]), "r"(b.bits[half]));
    UNROLL for (u32 i = 0; i < 8; i++) sums[i] = c[i];
    return sums;
}

DEVICE u32 sum_row(u32 i) { return lane() / 4 + i % 4 / 2 * 8; }
DEVICE u32 sum_column(u32 i) { return i / 4 * 8 + lane() % 4 * 2 + i % 2; }
