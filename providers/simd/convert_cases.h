/* convert_cases.h - cases of switches over element types for convert.c and convert_loops.c, one loop each.
 *
 * The including file defines CASE and PACKED (READ_CASE, READ_PACKED), or CASE, NIBBLE and PAIR (WRITE_CASE ...), and
 * the conversions of numbers: FROM_F32, FROM_F64, or AS_F32, AS_ODD, AS_I32, AS_I64, AS_U64. "ODD" denotes rare types.
 */
#ifndef SIMD_CONVERT_CASES_H
#define SIMD_CONVERT_CASES_H
#include "simd/convert.h"

/* One loop for each type and direction. EXPR reads element i (of type T, at p[i]), or for packed types first + i. */
#define TO_NUMBERS(D)                                                                                                  \
    CASE(FLOAT, float, (D)p[i])                                                                                        \
    CASE(DOUBLE, double, FROM_F64(p[i]))                                                                               \
    CASE(UINT8, uint8_t, (D)p[i])                                                                                      \
    CASE(INT8, int8_t, (D)p[i])                                                                                        \
    CASE(UINT16, uint16_t, (D)p[i])                                                                                    \
    CASE(INT16, int16_t, (D)p[i])                                                                                      \
    CASE(INT32, int32_t, (D)p[i])                                                                                      \
    CASE(INT64, int64_t, (D)p[i])                                                                                      \
    CASE(UINT32, uint32_t, (D)p[i])                                                                                    \
    CASE(UINT64, uint64_t, (D)p[i])                                                                                    \
    CASE(BOOL, uint8_t, (D)(p[i] != 0))
/* Types that few models use. */
#define TO_ODD(D)                                                                                                      \
    CASE(FLOAT16, uint16_t, FROM_F32(f16_to_f32(p[i])))                                                                \
    CASE(BFLOAT16, uint16_t, FROM_F32(bf16_to_f32(p[i])))                                                              \
    CASE(FLOAT8E4M3FN, uint8_t, FROM_F32(f8e4m3fn_to_f32(p[i])))                                                       \
    CASE(FLOAT8E4M3FNUZ, uint8_t, FROM_F32(f8e4m3fnuz_to_f32(p[i])))                                                   \
    CASE(FLOAT8E5M2, uint8_t, FROM_F32(f8e5m2_to_f32(p[i])))                                                           \
    CASE(FLOAT8E5M2FNUZ, uint8_t, FROM_F32(f8e5m2fnuz_to_f32(p[i])))                                                   \
    CASE(FLOAT8E8M0, uint8_t, FROM_F32(f8e8m0_to_f32(p[i])))                                                           \
    PACKED(UINT4, (D)get_u4(src, first + i))                                                                           \
    PACKED(INT4, (D)s4(get_u4(src, first + i)))                                                                        \
    PACKED(FLOAT4E2M1, FROM_F32(f4e2m1_to_f32(get_u4(src, first + i))))                                                \
    PACKED(UINT2, (D)get_u2(src, first + i))                                                                           \
    PACKED(INT2, (D)s2(get_u2(src, first + i)))
#define TO_CASES(D) TO_NUMBERS(D) TO_ODD(D)

#define READ_CASE(NAME, T, EXPR)                                                                                       \
    case INLAY_##NAME: {                                                                                               \
        const T *p = (const T *)src + first;                                                                           \
        for (int64_t i = 0; i < count; i++)                                                                            \
            dst[i] = EXPR;                                                                                             \
        break;                                                                                                         \
    }
#define READ_PACKED(NAME, EXPR)                                                                                        \
    case INLAY_##NAME:                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            dst[i] = EXPR;                                                                                             \
        break;

#define FROM_NUMBERS                                                                                                   \
    CASE(FLOAT, float, AS_F32(src[i]))                                                                                 \
    CASE(DOUBLE, double, (double)src[i])                                                                               \
    CASE(UINT8, uint8_t, (uint8_t)AS_I32(src[i]))                                                                      \
    CASE(INT8, int8_t, (int8_t)AS_I32(src[i]))                                                                         \
    CASE(UINT16, uint16_t, (uint16_t)AS_I32(src[i]))                                                                   \
    CASE(INT16, int16_t, (int16_t)AS_I32(src[i]))                                                                      \
    CASE(INT32, int32_t, AS_I32(src[i]))                                                                               \
    CASE(INT64, int64_t, AS_I64(src[i]))                                                                               \
    CASE(UINT32, uint32_t, (uint32_t)AS_I64(src[i]))                                                                   \
    CASE(UINT64, uint64_t, AS_U64(src[i]))                                                                             \
    CASE(BOOL, uint8_t, src[i] != 0)
#define FROM_ODD                                                                                                       \
    CASE(FLOAT16, uint16_t, f32_to_f16(AS_ODD(src[i])))                                                                \
    CASE(BFLOAT16, uint16_t, f32_to_bf16(AS_ODD(src[i])))                                                              \
    CASE(FLOAT8E4M3FN, uint8_t, f32_to_f8e4m3fn(AS_ODD(src[i]), saturate))                                             \
    CASE(FLOAT8E4M3FNUZ, uint8_t, f32_to_f8e4m3fnuz(AS_ODD(src[i]), saturate))                                         \
    CASE(FLOAT8E5M2, uint8_t, f32_to_f8e5m2(AS_ODD(src[i]), saturate))                                                 \
    CASE(FLOAT8E5M2FNUZ, uint8_t, f32_to_f8e5m2fnuz(AS_ODD(src[i]), saturate))                                         \
    CASE(FLOAT8E8M0, uint8_t, f32_to_f8e8m0(AS_ODD(src[i]), saturate, mode))                                           \
    NIBBLE(UINT4, (uint8_t)AS_I32(src[i]))                                                                             \
    NIBBLE(INT4, (uint8_t)AS_I32(src[i]))                                                                              \
    NIBBLE(FLOAT4E2M1, f32_to_f4e2m1(AS_ODD(src[i])))                                                                  \
    PAIR(UINT2, (uint8_t)AS_I32(src[i]))                                                                               \
    PAIR(INT2, (uint8_t)AS_I32(src[i]))
#define FROM_CASES FROM_NUMBERS FROM_ODD

/* Elements of less than a byte, written in their order: the first element of a byte clears the others, so that the
 * unused bits of the last byte are 0 whatever the memory held. */
static inline void append_u4(void *data, int64_t i, uint8_t value)
{
    uint8_t *p = (uint8_t *)data + (i >> 1);

    *p = (uint8_t)((i & 1) == 0 ? value & 15 : (*p & 15) | (value & 15) << 4);
}
static inline void append_u2(void *data, int64_t i, uint8_t value)
{
    uint8_t *p = (uint8_t *)data + (i >> 2);
    const int shift = (int)(i & 3) * 2;

    *p = (uint8_t)((*p & ((1 << shift) - 1)) | (value & 3) << shift);
}

#define WRITE_CASE(NAME, T, EXPR)                                                                                      \
    case INLAY_##NAME: {                                                                                               \
        T *p = (T *)dst + first;                                                                                       \
        for (int64_t i = 0; i < count; i++)                                                                            \
            p[i] = EXPR;                                                                                               \
        break;                                                                                                         \
    }
#define WRITE_NIBBLE(NAME, EXPR)                                                                                       \
    case INLAY_##NAME:                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            append_u4(dst, first + i, EXPR);                                                                           \
        break;
#define WRITE_PAIR(NAME, EXPR)                                                                                         \
    case INLAY_##NAME:                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            append_u2(dst, first + i, EXPR);                                                                           \
        break;
#endif
