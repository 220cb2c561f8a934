// The vendor's half of the vocabulary for gfx11 and gfx12: ids, lanes, barriers, fast functions, dot and matrix
// instructions. Only device.h includes it; nvidia.h holds the same names for the same meanings.
#pragma once

// A kernel whose blocks have exactly `threads` threads. `launch_bounds` would leave the limit in the metadata at 1024
// and halve the registers that the compiler may use.
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) void

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
DEVICE u32 lane() { return __builtin_amdgcn_mbcnt_lo(~0u, 0u); }

// For a value that is the same in all lanes, which the compiler cannot see: puts it into a scalar register.
DEVICE u32 uniform(u32 x) { return __builtin_amdgcn_readfirstlane(x); }

// All waves of the block arrive, and what they wrote to LDS is visible. Global memory is not waited for: the
// compiler's own fences, limited to LDS or not, wait for all loads and stores under way in LLVM 19.
DEVICE void lds_barrier() {
#if defined(__GFX12__)
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#else
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#endif
}

// The value of the lane whose number differs in one bit. Both forms are plain vector instructions: no LDS, no wait.
// LLVM 19 takes v_permlanex16 for an instruction like any other and moves it to where its result is used, for example
// behind a branch for lane 0 alone, where the lanes it reads are off. The empty assembly uses it at once and cannot
// be moved.
template <u32 MASK> DEVICE u32 lane_xor(u32 x) {
    static_assert(MASK == 1 || MASK == 2 || MASK == 4 || MASK == 8 || MASK == 16, "one bit");
    if constexpr (MASK == 16) {
        u32 other = __builtin_amdgcn_permlanex16(x, x, 0x76543210, 0xfedcba98, false, false);
        asm volatile("" : "+v"(other));
        return other;
    }
    return __builtin_amdgcn_update_dpp(0, x, 0x160 | MASK, 0xf, 0xf, true);
}

DEVICE f32 maximum(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
DEVICE f32 minimum(f32 a, f32 b) { return __builtin_fminf(a, b); }
DEVICE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEVICE f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
DEVICE f32 nearest(f32 x) { return __builtin_rintf(x); }
DEVICE f64 whole(f64 x) { return __builtin_rint(x); }
DEVICE f32 magnitude(f32 x) { return __builtin_fabsf(x); }

// About one unit in the last place; results below 2^-126 are zero.
DEVICE f32 exp2(f32 x) { return __builtin_amdgcn_exp2f(x); }
DEVICE f32 log2(f32 x) { return __builtin_amdgcn_logf(x); }
DEVICE f32 reciprocal(f32 x) { return __builtin_amdgcn_rcpf(x); }
// Rounded once, as IEEE 754 has it.
DEVICE f32 square_root(f32 x) { return __builtin_sqrtf(x); }
DEVICE f32 reciprocal_sqrt(f32 x) { return __builtin_amdgcn_rsqf(x); }

DEVICE u16 bf16_bits(f32 x) {
    u32 bits = __builtin_bit_cast(u32, x);
    u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    // Rounding could turn a NaN into an infinity.
    return x == x ? rounded : 0x7fff;
}

// c + the sum of four products of bytes: b is signed, a signed or not.
DEVICE i32 dot4(u32 a, u32 b, i32 c) { return __builtin_amdgcn_sudot4(true, a, true, b, c, false); }
DEVICE i32 dot4_unsigned(u32 a, u32 b, i32 c) { return __builtin_amdgcn_sudot4(false, a, true, b, c, false); }

// 16 bytes from an address that is even.
DEVICE u32x4 load_even(const u8 *from) {
    typedef u32x4 __attribute__((aligned(2))) Unaligned;
    return *(const Unaligned *)from;
}

// ---- matrix instructions --------------------------------------------------------------------------------------------

typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x16 __attribute__((ext_vector_type(16)));
typedef i16 i16x8 __attribute__((ext_vector_type(8)));
typedef i16 i16x16 __attribute__((ext_vector_type(16)));
typedef i32 i32x2 __attribute__((ext_vector_type(2)));
typedef i32 i32x4 __attribute__((ext_vector_type(4)));
typedef f32 f32x8 __attribute__((ext_vector_type(8)));
typedef i32 i32x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x8 __attribute__((ext_vector_type(8)));

// A lane's part of a 16 x 16 tile of sums.
template <class T> struct Sums { typedef f32x8 Type; };
template <> struct Sums<i8> { typedef i32x8 Type; };

#if defined(__GFX11__)
// Lane l holds all 16 values along k of row l % 16; lanes 16 to 31 repeat lanes 0 to 15.
template <class T> struct Fragment { u32x8 bits; };
template <> struct Fragment<i8> { u32x4 bits; };

template <class T> DEVICE Fragment<T> load_fragment(const T *tile, u32 stride) {
    const u32x4 *row = (const u32x4 *)(tile + (lane() % 16) * stride);
    return {__builtin_shufflevector(row[0], row[1], 0, 1, 2, 3, 4, 5, 6, 7)};
}
template <> DEVICE Fragment<i8> load_fragment<i8>(const i8 *tile, u32 stride) {
    return {*(const u32x4 *)(tile + (lane() % 16) * stride)};
}

DEVICE f32x8 mma_16x16x16(Fragment<f16> a, Fragment<f16> b, f32x8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(f16x16, a), __builtin_bit_cast(f16x16, b), c);
}
DEVICE f32x8 mma_16x16x16(Fragment<bf16> a, Fragment<bf16> b, f32x8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(i16x16, a), __builtin_bit_cast(i16x16, b), c);
}
DEVICE i32x8 mma_16x16x16(Fragment<i8> a, Fragment<i8> b, i32x8 c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, __builtin_bit_cast(i32x4, a), true,
                                                      __builtin_bit_cast(i32x4, b), c, false);
}

DEVICE u32 sum_row(u32 i) { return 2 * i + lane() / 16; }
DEVICE u32 sum_column(u32) { return lane() % 16; }

#elif defined(__GFX12__)
// Lane l holds values 8 * (l / 16) to + 7 along k of row l % 16.
template <class T> struct Fragment { u32x4 bits; };
template <> struct Fragment<i8> { u32x2 bits; };

template <class T> DEVICE Fragment<T> load_fragment(const T *tile, u32 stride) {
    return {*(const decltype(Fragment<T>::bits) *)(tile + (lane() % 16) * stride + lane() / 16 * 8)};
}

DEVICE f32x8 mma_16x16x16(Fragment<f16> a, Fragment<f16> b, f32x8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(f16x8, a), __builtin_bit_cast(f16x8, b), c);
}
DEVICE f32x8 mma_16x16x16(Fragment<bf16> a, Fragment<bf16> b, f32x8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(i16x8, a), __builtin_bit_cast(i16x8, b), c);
}
DEVICE i32x8 mma_16x16x16(Fragment<i8> a, Fragment<i8> b, i32x8 c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, __builtin_bit_cast(i32x2, a), true,
                                                            __builtin_bit_cast(i32x2, b), c, false);
}

DEVICE u32 sum_row(u32 i) { return i + lane() / 16 * 8; }
DEVICE u32 sum_column(u32) { return lane() % 16; }

#else
#error "amd.h: matrix instructions are written for gfx11 and gfx12"
#endif
