/* vec_int_uniform.h - vectors of int32 and of bytes in C for any CPU, with the order of vec_int_avx2.h; see
 * vec_int.h. */
#ifndef SIMD_VEC_INT_UNIFORM_H
#define SIMD_VEC_INT_UNIFORM_H

#define INT_LINES 2
#define INT_QUADS 0
#define INT_HALVES 0

typedef int32_t ivec __attribute__((vector_size(32)));
typedef int16_t int_shorts __attribute__((vector_size(32)));
typedef uint8_t int_octets __attribute__((vector_size(32)));
typedef uint32_t int_words __attribute__((vector_size(32))); /* for sums that may wrap */

VEC_INLINE ivec int_set(int32_t x)
{
    return (ivec){ x, x, x, x, x, x, x, x };
}
VEC_INLINE ivec int_set_short(int16_t x)
{
    return int_set((int32_t)((uint32_t)(uint16_t)x * 0x10001u));
}
VEC_INLINE ivec int_set_byte(uint8_t x)
{
    return int_set((int32_t)(x * 0x1010101u));
}
VEC_INLINE ivec int_load(const void *p)
{
    ivec v;

    memcpy(&v, p, sizeof v);
    return v;
}
VEC_INLINE void int_store(void *p, ivec v)
{
    memcpy(p, &v, sizeof v);
}
VEC_INLINE ivec int_xor(ivec x, ivec y)
{
    return x ^ y;
}
VEC_INLINE ivec int_or(ivec x, ivec y)
{
    return x | y;
}
VEC_INLINE ivec int_up_16(ivec x)
{
    return (ivec)((int_words)x << 16);
}
VEC_INLINE ivec int_widen(const uint8_t *input)
{
    int_shorts v;

    for (int i = 0; i < 16; i++)
        v[i] = input[i];
    return (ivec)v;
}
VEC_INLINE ivec int_widen_half(const uint8_t *input)
{
    int_shorts v = { 0 };

    for (int i = 0; i < 8; i++)
        v[i] = input[i];
    return (ivec)v;
}
VEC_INLINE ivec int_zip_low(ivec x, ivec y)
{
    return (ivec)vec_zip_halves_low((vec)x, (vec)y);
}
VEC_INLINE ivec int_zip_high(ivec x, ivec y)
{
    return (ivec)vec_zip_halves_high((vec)x, (vec)y);
}
VEC_INLINE ivec int_dot_pairs(ivec sum, ivec x, ivec w)
{
    const int_words even =
        (int_words)((ivec)((int_words)x << 16) >> 16) * (int_words)((ivec)((int_words)w << 16) >> 16);
    const int_words odd = (int_words)(x >> 16) * (int_words)(w >> 16);

    return (ivec)((int_words)sum + even + odd);
}
VEC_INLINE ivec int_line(const int8_t *weights)
{
    int_shorts v;

    for (int i = 0; i < 16; i++)
        v[i] = weights[i];
    return (ivec)v;
}
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return int_dot_pairs(sum, x, w);
}
VEC_INLINE ivec int_round(vec x)
{
    return vec_integers(x);
}
VEC_INLINE vec int_float(ivec x)
{
    return __builtin_convertvector(x, vec);
}
/* Each 128 bits hold four bytes of each vector. */
VEC_INLINE ivec int_bytes(const ivec *q, ivec zero, ivec low, ivec high)
{
    const int_shorts zeros = (int_shorts)zero;
    const int_octets least = (int_octets)low, most = (int_octets)high;
    int_octets bytes;

    for (int i = 0; i < 32; i++) {
        const int32_t x = q[i % 16 / 4][i / 16 * 4 + i % 4];
        const int32_t word = (x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x) + zeros[0];
        const uint8_t byte = (uint8_t)(word < 0 ? 0 : word > 255 ? 255 : word);

        bytes[i] = byte < least[i] ? least[i] : byte;
        bytes[i] = bytes[i] > most[i] ? most[i] : bytes[i];
    }
    return (ivec)bytes;
}
VEC_INLINE ivec int_in_order(ivec bytes)
{
    return (ivec){ bytes[0], bytes[4], bytes[1], bytes[5], bytes[2], bytes[6], bytes[3], bytes[7] };
}
VEC_INLINE ivec int_bits(vec x)
{
    return (ivec)x;
}
VEC_INLINE ivec int_first(ivec x, ivec y)
{
    return (ivec){ x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3] };
}
VEC_INLINE ivec int_second(ivec x, ivec y)
{
    return (ivec){ x[4], x[5], x[6], x[7], y[4], y[5], y[6], y[7] };
}
VEC_INLINE ivec int_in_pairs(ivec bytes)
{
    return (ivec){ bytes[0], bytes[1], bytes[4], bytes[5], bytes[2], bytes[3], bytes[6], bytes[7] };
}
VEC_INLINE void int_store_part(uint8_t *output, ivec v, int part, int parts, int64_t count)
{
    const int64_t size = 32 / parts;
    uint8_t bytes[32];

    memcpy(bytes, &v, sizeof bytes);
    memcpy(output, bytes + part * size, (size_t)(count < size ? count : size));
}
VEC_INLINE vec int_from_bytes(const uint8_t *input, bool is_signed)
{
    vec v;

    for (int i = 0; i < VEC_LANES; i++)
        v[i] = is_signed ? (float)(int8_t)input[i] : (float)input[i];
    return v;
}
VEC_INLINE bool int_any_above(vec x, vec y)
{
    const vmask above = x > y;
    bool any = false;

    for (int i = 0; i < VEC_LANES; i++)
        any = any || above[i] != 0;
    return any;
}
#if !defined(__x86_64__)
VEC_INLINE void int_interleave_4(uint8_t *output, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                 const uint8_t *d)
{
    for (int i = 0; i < 16; i++) {
        output[4 * i] = a[i];
        output[4 * i + 1] = b[i];
        output[4 * i + 2] = c[i];
        output[4 * i + 3] = d[i];
    }
}
#endif
#endif
