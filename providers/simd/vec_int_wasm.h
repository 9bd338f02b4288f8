/* vec_int_wasm.h - vectors of int32 and of bytes with WebAssembly's SIMD128, see vec_int.h. */
#ifndef SIMD_VEC_INT_WASM_H
#define SIMD_VEC_INT_WASM_H

#define INT_LINES 4
#define INT_QUADS 0
#define INT_HALVES 0

typedef int32_t ivec __attribute__((vector_size(16)));

VEC_INLINE ivec int_set(int32_t x)
{
    return (ivec)wasm_i32x4_splat(x);
}
VEC_INLINE ivec int_set_byte(uint8_t x)
{
    return (ivec)wasm_i8x16_splat((int8_t)x);
}
VEC_INLINE ivec int_set_short(int16_t x)
{
    return (ivec)wasm_i16x8_splat(x);
}
VEC_INLINE ivec int_load(const void *p)
{
    return (ivec)wasm_v128_load(p);
}
VEC_INLINE void int_store(void *p, ivec v)
{
    wasm_v128_store(p, (v128_t)v);
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
    return (ivec)wasm_i32x4_shl((v128_t)x, 16);
}
VEC_INLINE ivec int_widen(const uint8_t *x)
{
    return (ivec)wasm_u16x8_load8x8(x);
}
VEC_INLINE ivec int_widen_half(const uint8_t *x)
{
    return (ivec)wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(x));
}
VEC_INLINE ivec int_zip_low(ivec x, ivec y)
{
    return (ivec)wasm_i16x8_shuffle((v128_t)x, (v128_t)y, 0, 8, 1, 9, 2, 10, 3, 11);
}
VEC_INLINE ivec int_zip_high(ivec x, ivec y)
{
    return (ivec)wasm_i16x8_shuffle((v128_t)x, (v128_t)y, 4, 12, 5, 13, 6, 14, 7, 15);
}
VEC_INLINE ivec int_dot_pairs(ivec sum, ivec x, ivec w)
{
    return (ivec)wasm_i32x4_add((v128_t)sum, wasm_i32x4_dot_i16x8((v128_t)x, (v128_t)w));
}
VEC_INLINE ivec int_line(const int8_t *w)
{
    return (ivec)wasm_i16x8_load8x8(w);
}
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return int_dot_pairs(sum, x, w);
}
VEC_INLINE ivec int_round(vec x)
{
    return (ivec)vec_as_integers(x);
}
VEC_INLINE vec int_float(ivec x)
{
    return (vec)wasm_f32x4_convert_i32x4((v128_t)x);
}
VEC_INLINE ivec int_bytes(const ivec *q, ivec zero, ivec low, ivec high)
{
    const v128_t a = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4((v128_t)q[0], (v128_t)q[1]), (v128_t)zero);
    const v128_t b = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4((v128_t)q[2], (v128_t)q[3]), (v128_t)zero);

    return (ivec)wasm_u8x16_min((v128_t)high, wasm_u8x16_max((v128_t)low, wasm_u8x16_narrow_i16x8(a, b)));
}
VEC_INLINE ivec int_in_order(ivec bytes)
{
    return bytes;
}
VEC_INLINE ivec int_bits(vec x)
{
    return (ivec)x;
}
VEC_INLINE ivec int_first(ivec x, ivec y)
{
    (void)y;
    return x;
}
VEC_INLINE ivec int_second(ivec x, ivec y)
{
    (void)x;
    return y;
}
VEC_INLINE ivec int_in_pairs(ivec bytes)
{
    return bytes;
}
VEC_INLINE void int_store_part(uint8_t *y, ivec v, int part, int parts, int64_t count)
{
    const int64_t size = 16 / parts;
    uint8_t bytes[16];

    int_store(bytes, v);
    if (count >= size)
        memcpy(y, bytes + part * size, (size_t)size); /* a constant size: parts is constant */
    else
        memcpy(y, bytes + part * size, (size_t)count);
}
VEC_INLINE vec int_from_bytes(const uint8_t *x, bool is_signed)
{
    const v128_t bytes = wasm_v128_load32_zero(x);

    return is_signed ? (vec)wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(bytes)))
                     : (vec)wasm_f32x4_convert_i32x4(wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes)));
}
VEC_INLINE void int_interleave_4(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d)
{
    const vec first = (vec)wasm_v128_load(a), second = (vec)wasm_v128_load(b);
    const vec third = (vec)wasm_v128_load(c), fourth = (vec)wasm_v128_load(d);
    const vec low[2] = { vec_zip_bytes_low(first, second), vec_zip_bytes_low(third, fourth) };
    const vec high[2] = { vec_zip_bytes_high(first, second), vec_zip_bytes_high(third, fourth) };

    wasm_v128_store(y, (v128_t)vec_zip_halves_low(low[0], low[1]));
    wasm_v128_store(y + 16, (v128_t)vec_zip_halves_high(low[0], low[1]));
    wasm_v128_store(y + 32, (v128_t)vec_zip_halves_low(high[0], high[1]));
    wasm_v128_store(y + 48, (v128_t)vec_zip_halves_high(high[0], high[1]));
}
VEC_INLINE bool int_any_above(vec x, vec y)
{
    return wasm_v128_any_true(wasm_f32x4_gt((v128_t)x, (v128_t)y));
}
#endif
