/* vec_rvv.h - vectors of RISC-V's extension V with registers of 256 bits, see vec.h. Since GCC 14 and Clang 19, generic
 * vectors of this size become its instructions (-mrvv-vector-bits=zvl). Intrinsics are used where no generic operation
 * becomes one instruction, or where GCC's code is wrong. Only on CPUs whose registers have this size. */
#ifndef SIMD_VEC_RVV_H
#define SIMD_VEC_RVV_H
#include "simd/convert.h"
#include <riscv_vector.h>

enum { VEC_LANES = 8, VEC_REGISTERS = 32 };
#define VEC_HAS_MASKS 0
#define VEC_FUSES 1
#define VEC_NARROW 0
#define VEC_SCALES_ALL 0
#define VEC_LOOKUP 8

typedef float vec __attribute__((vector_size(32)));
typedef float vec_loose __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t vmask __attribute__((vector_size(32)));
typedef uint32_t vec_bits __attribute__((vector_size(32))); /* for sums that may wrap */

/* A register as the type of another interface; no instruction. GCC 14.2 converts generic vectors of other sizes than 32
 * bytes lane by lane, so intrinsics widen and narrow. */
typedef vfloat32m1_t rvv_fixed_floats __attribute__((riscv_rvv_vector_bits(256)));
typedef vint32m1_t rvv_fixed_integers __attribute__((riscv_rvv_vector_bits(256)));
typedef vuint32m1_t rvv_fixed_words __attribute__((riscv_rvv_vector_bits(256)));
#define VEC_CAST(name, from, fixed, to)                                                                                \
    VEC_INLINE to name(from x)                                                                                         \
    {                                                                                                                  \
        return (to)(fixed)x;                                                                                           \
    }
VEC_CAST(rvv_floats, vec, rvv_fixed_floats, vfloat32m1_t)
VEC_CAST(rvv_integers, vmask, rvv_fixed_integers, vint32m1_t)
VEC_CAST(rvv_words, vmask, rvv_fixed_words, vuint32m1_t)
VEC_CAST(vec_of_rvv, vfloat32m1_t, rvv_fixed_floats, vec)
VEC_CAST(vmask_of_rvv, vint32m1_t, rvv_fixed_integers, vmask)
#undef VEC_CAST

VEC_INLINE vec vec_set(float x)
{
    return (vec){ x, x, x, x, x, x, x, x };
}
VEC_INLINE vmask vmask_set(int32_t x)
{
    return (vmask){ x, x, x, x, x, x, x, x };
}
VEC_INLINE vec vec_zero(void)
{
    return vec_set(0);
}
VEC_INLINE vec vec_load(const float *p)
{
    vec v;

    memcpy(&v, p, sizeof v);
    return v;
}
VEC_INLINE vec vec_hold(vec v)
{
    vfloat32m1_t held = rvv_floats(v);

    __asm__("" : "+vr"(held));
    return vec_of_rvv(held);
}
VEC_INLINE void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}
VEC_INLINE vmask vec_first(int64_t n)
{
    const int32_t lanes = n >= VEC_LANES ? VEC_LANES : n <= 0 ? 0 : (int32_t)n;

    return (vmask){ 0, 1, 2, 3, 4, 5, 6, 7 } < vmask_set(lanes);
}
VEC_INLINE vbool32_t vec_chosen(vmask m)
{
    return __riscv_vmsne_vx_i32m1_b32(rvv_integers(m), 0, VEC_LANES);
}
VEC_INLINE vec vec_load_some(vmask m, const float *p)
{
    return vec_of_rvv(__riscv_vle32_v_f32m1_mu(vec_chosen(m), rvv_floats(vec_zero()), p, VEC_LANES));
}
VEC_INLINE void vec_store_some(float *p, vmask m, vec v)
{
    __riscv_vse32_v_f32m1_m(vec_chosen(m), p, rvv_floats(v), VEC_LANES);
}
VEC_INLINE vec vec_select(vmask m, vec x, vec y)
{
    return (vec)((m & (vmask)x) | (~m & (vmask)y));
}
VEC_INLINE vmask vec_greater(vec x, vec y)
{
    return x > y;
}
/* GCC 14.2 makes one multiply-add of x * y + z, also with -ffp-contract=off, but not of these. */
VEC_INLINE vec vec_add(vec x, vec y)
{
    return vec_of_rvv(__riscv_vfadd_vv_f32m1(rvv_floats(x), rvv_floats(y), VEC_LANES));
}
VEC_INLINE vec vec_sub(vec x, vec y)
{
    return vec_of_rvv(__riscv_vfsub_vv_f32m1(rvv_floats(x), rvv_floats(y), VEC_LANES));
}
VEC_INLINE vec vec_mul(vec x, vec y)
{
    return vec_of_rvv(__riscv_vfmul_vv_f32m1(rvv_floats(x), rvv_floats(y), VEC_LANES));
}
VEC_INLINE vec vec_div(vec x, vec y)
{
    return x / y;
}
VEC_INLINE vec vec_min(vec x, vec y)
{
    return vec_select(x < y, x, y);
}
VEC_INLINE vec vec_max(vec x, vec y)
{
    return vec_select(x > y, x, y);
}
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return vec_of_rvv(__riscv_vfmacc_vv_f32m1(rvv_floats(z), rvv_floats(x), rvv_floats(y), VEC_LANES));
}
VEC_INLINE vec vec_fms(vec x, vec y, vec z)
{
    return vec_of_rvv(__riscv_vfmsac_vv_f32m1(rvv_floats(z), rvv_floats(x), rvv_floats(y), VEC_LANES));
}
VEC_INLINE vec vec_fnma(vec x, vec y, vec z)
{
    return vec_of_rvv(__riscv_vfnmsac_vv_f32m1(rvv_floats(z), rvv_floats(x), rvv_floats(y), VEC_LANES));
}
VEC_INLINE vec vec_down(vec x, size_t lanes)
{
    return vec_of_rvv(__riscv_vslidedown_vx_f32m1(rvv_floats(x), lanes, VEC_LANES));
}
/* Lanes 4 apart, then 2, then 1. */
VEC_INLINE float vec_sum(vec x)
{
    x = x + vec_down(x, 4);
    x = x + vec_down(x, 2);
    return x[0] + x[1];
}
VEC_INLINE float vec_top(vec x)
{
    const vfloat32m1_t v = rvv_floats(x);

    return __riscv_vfmv_f_s_f32m1_f32(__riscv_vfredmax_vs_f32m1_f32m1(v, v, VEC_LANES));
}
VEC_INLINE vec vec_abs(vec x)
{
    return (vec)((vmask)x & vmask_set(INT32_MAX));
}
/* The extension V alone does not convert halves. Their bits, shifted to those of a float, are 2^-112 of the value. */
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
    const vint16mf2_t half = __riscv_vle16_v_i16mf2((const int16_t *)p, VEC_LANES);
    const vmask wide = vmask_of_rvv(__riscv_vsext_vf2_i32m1(half, VEC_LANES));
    const vec_bits bits = (vec_bits)wide << 13 & 0x8fffe000; /* four bits are the sign */
    const vec value = (vec)bits * vec_set(0x1p112f);
    const vbool32_t no_number = __riscv_vmfge_vf_f32m1_b32(rvv_floats(vec_abs(value)), 0x1p16f, VEC_LANES);
    const vint32m1_t whole = rvv_integers((vmask)value);

    return (vec)vmask_of_rvv(__riscv_vor_vx_i32m1_mu(no_number, whole, whole, 0x7f800000, VEC_LANES));
}
VEC_INLINE vmask vec_integers(vec n)
{
    return vmask_of_rvv(__riscv_vfcvt_x_f_v_i32m1(rvv_floats(n), VEC_LANES));
}
/* Floats from 2^23 on have no fraction. */
VEC_INLINE vec vec_round(vec x)
{
    const vfloat32m1_t whole = __riscv_vfcvt_f_x_v_f32m1(rvv_integers(vec_integers(x)), VEC_LANES);

    return vec_select(vec_abs(x) < vec_set(8388608),
                      vec_of_rvv(__riscv_vfsgnj_vv_f32m1(whole, rvv_floats(x), VEC_LANES)), x);
}
/* Below the smallest normal half, the sum with 0.5 has the units of a subnormal half. */
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    const vec_bits bits = (vec_bits)v, size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const vec_bits rounded = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    const vec_bits small = (vec_bits)((vec)size + vec_set(0.5f)) - 0x3f000000;
    const vec_bits is_small = (vec_bits)(size < 0x38800000), is_large = (vec_bits)(size >= 0x477ff000);
    const vec_bits is_nan = (vec_bits)(size > 0x7f800000);
    const vec_bits number = (is_small & small) | (~is_small & ((is_large & 0x7c00) | (~is_large & rounded)));
    const vmask half = (vmask)(sign | (is_nan & 0x7e00) | (~is_nan & number));

    __riscv_vse16_v_u16mf2(p, __riscv_vncvt_x_x_w_u16mf2(rvv_words(half), VEC_LANES), VEC_LANES);
}
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    const vmask whole = vec_integers(n), half = whole >> 1;
    const vec_bits first = ((vec_bits)half + 127) << 23, second = ((vec_bits)whole - (vec_bits)half + 127) << 23;

    return x * (vec)first * (vec)second;
}
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    return vec_of_rvv(__riscv_vluxei32_v_f32m1(table, rvv_words(((vmask)i & 31) << 2), VEC_LANES));
}
/* Lane i is lane at[i] of x; only lanes of x. */
VEC_INLINE vec vec_gather(vec x, vmask at)
{
    return vec_of_rvv(__riscv_vrgather_vv_f32m1(rvv_floats(x), rvv_words(at), VEC_LANES));
}
VEC_INLINE vec vec_lookup_some(const float *table, vec i)
{
    return vec_gather(vec_load(table), (vmask)i & (VEC_LOOKUP - 1));
}
/* Column i of the matrix in memory is field i of a segment load. Not by strided loads: with -mrvv-vector-bits=zvl, GCC
 * 14.2 takes __riscv_vlse32 for a load of 32 contiguous bytes and removes stores to the other lines
 * (tests/bench/arm.md). */
VEC_INLINE void vec_transpose(vec *r)
{
    vec t[VEC_LANES];

    memcpy(t, r, sizeof t);
    const vfloat32m1x8_t columns = __riscv_vlseg8e32_v_f32m1x8((const float *)t, VEC_LANES);
#define COLUMN(i) r[i] = vec_of_rvv(__riscv_vget_v_f32m1x8_f32m1(columns, i));
    COLUMN(0) COLUMN(1) COLUMN(2) COLUMN(3) COLUMN(4) COLUMN(5) COLUMN(6) COLUMN(7)
#undef COLUMN
}
/* The order of additions is that of vec_avx2.h: lanes 2 apart, then 1, then 4. */
VEC_INLINE vec vec_sums(const vec *x)
{
    vec t[VEC_LANES];

    memcpy(t, x, sizeof t);
    vec_transpose(t);
    return ((t[0] + t[2]) + (t[1] + t[3])) + ((t[4] + t[6]) + (t[5] + t[7]));
}
VEC_INLINE vec vec_tops(const vec *x)
{
    vec t[VEC_LANES];

    memcpy(t, x, sizeof t);
    vec_transpose(t);
    return vec_max(vec_max(vec_max(t[0], t[2]), vec_max(t[1], t[3])),
                   vec_max(vec_max(t[4], t[6]), vec_max(t[5], t[7])));
}
/* The lowest bytes of all lanes. */
VEC_INLINE void vec_narrow(uint8_t *p, vmask v)
{
    const vuint16mf2_t words = __riscv_vncvt_x_x_w_u16mf2(rvv_words(v), VEC_LANES);

    __riscv_vse8_v_u8mf4(p, __riscv_vncvt_x_x_w_u8mf4(words, VEC_LANES), VEC_LANES);
}
VEC_INLINE void vec_store_bytes(uint8_t *p, const vec *v, int16_t zero, uint8_t flip)
{
    for (int i = 0; i < 4; i++) {
        const vint32m1_t whole = __riscv_vadd_vx_i32m1(rvv_integers(vec_integers(v[i])), zero, VEC_LANES);
        const vint32m1_t byte = __riscv_vmin_vx_i32m1(__riscv_vmax_vx_i32m1(whole, 0, VEC_LANES), 255, VEC_LANES);

        vec_narrow(p + VEC_LANES * i, vmask_of_rvv(__riscv_vxor_vx_i32m1(byte, flip, VEC_LANES)));
    }
}
/* Within each 128 bits, as the instructions of AVX2. */
typedef uint8_t vec_octets __attribute__((vector_size(32)));
typedef uint16_t vec_shorts __attribute__((vector_size(32)));
#define VEC_ZIP_BYTES(name, f)                                                                                         \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return (vec)__builtin_shufflevector((vec_octets)x, (vec_octets)y, f, f + 32, f + 1, f + 33, f + 2, f + 34,     \
                                            f + 3, f + 35, f + 4, f + 36, f + 5, f + 37, f + 6, f + 38, f + 7, f + 39, \
                                            f + 16, f + 48, f + 17, f + 49, f + 18, f + 50, f + 19, f + 51, f + 20,    \
                                            f + 52, f + 21, f + 53, f + 22, f + 54, f + 23, f + 55);                   \
    }
VEC_ZIP_BYTES(vec_zip_bytes_low, 0)
VEC_ZIP_BYTES(vec_zip_bytes_high, 8)
#undef VEC_ZIP_BYTES
#define VEC_ZIP_HALVES(name, f)                                                                                        \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return (vec)__builtin_shufflevector((vec_shorts)x, (vec_shorts)y, f, f + 16, f + 1, f + 17, f + 2, f + 18,     \
                                            f + 3, f + 19, f + 8, f + 24, f + 9, f + 25, f + 10, f + 26, f + 11,       \
                                            f + 27);                                                                   \
    }
VEC_ZIP_HALVES(vec_zip_halves_low, 0)
VEC_ZIP_HALVES(vec_zip_halves_high, 4)
#undef VEC_ZIP_HALVES
VEC_INLINE void vec_interleave_3(float *p, vec x, vec y, vec z)
{
    __riscv_vsseg3e32_v_f32m1x3(p, __riscv_vcreate_v_f32m1x3(rvv_floats(x), rvv_floats(y), rvv_floats(z)), VEC_LANES);
}
VEC_INLINE void vec_part_3(const float *p, vec *x, vec *y, vec *z)
{
    const vfloat32m1x3_t parts = __riscv_vlseg3e32_v_f32m1x3(p, VEC_LANES);

    *x = vec_of_rvv(__riscv_vget_v_f32m1x3_f32m1(parts, 0));
    *y = vec_of_rvv(__riscv_vget_v_f32m1x3_f32m1(parts, 1));
    *z = vec_of_rvv(__riscv_vget_v_f32m1x3_f32m1(parts, 2));
}
#endif
