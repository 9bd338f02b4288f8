#include "base/element.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A float format of at most 16 bits. The formats differ in the codes for NaN and infinity. */
typedef struct small_float {
    uint32_t exp_bits, man_bits; /* exponent and mantissa */
    int bias;
    enum { IEEE_SPECIALS, NAN_ALL_ONES, NAN_MINUS_ZERO, NO_SPECIALS } specials;
} small_float;

static const small_float formats[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT16] = { 5, 10, 15, IEEE_SPECIALS },   [INLAY_BFLOAT16] = { 8, 7, 127, IEEE_SPECIALS },
    [INLAY_FLOAT8E4M3FN] = { 4, 3, 7, NAN_ALL_ONES }, [INLAY_FLOAT8E4M3FNUZ] = { 4, 3, 8, NAN_MINUS_ZERO },
    [INLAY_FLOAT8E5M2] = { 5, 2, 15, IEEE_SPECIALS }, [INLAY_FLOAT8E5M2FNUZ] = { 5, 2, 16, NAN_MINUS_ZERO },
    [INLAY_FLOAT4E2M1] = { 2, 1, 1, NO_SPECIALS },
};

static double decode(const small_float *format, uint32_t bits)
{
    uint32_t sign = bits >> (format->exp_bits + format->man_bits) & 1;
    uint32_t exp = bits >> format->man_bits & ((1u << format->exp_bits) - 1);
    uint32_t man = bits & ((1u << format->man_bits) - 1);
    uint32_t all_ones = (1u << format->exp_bits) - 1;
    double magnitude;

    if (format->specials == IEEE_SPECIALS && exp == all_ones)
        return man != 0 ? NAN : sign ? -INFINITY : INFINITY;
    if (format->specials == NAN_ALL_ONES && exp == all_ones && man == (1u << format->man_bits) - 1)
        return NAN;
    if (format->specials == NAN_MINUS_ZERO && sign && exp == 0 && man == 0)
        return NAN;
    INLAY_CHECK(format->exp_bits > 0);
    magnitude = exp == 0 ? ldexp(man, 1 - format->bias - (int)format->man_bits)
                         : ldexp(man + (1u << format->man_bits), (int)exp - format->bias - (int)format->man_bits);
    return sign ? -magnitude : magnitude;
}

/* The code of an element of fewer than 8 bits; elements are packed from the low bits up. */
static uint32_t packed_code(const void *data, int64_t index, uint32_t bits)
{
    uint64_t bit = (uint64_t)index * bits;
    return (uint32_t)((const uint8_t *)data)[bit / 8] >> (bit % 8) & ((1u << bits) - 1);
}

static int64_t sign_extend(uint32_t code, uint32_t bits)
{
    return code >> (bits - 1) ? (int64_t)code - (1 << bits) : (int64_t)code;
}

bool element_integer(inlay_dtype dtype, const void *data, int64_t index, int64_t *out_value)
{
    uint32_t bytes = inlay_dtype_bits(dtype) / 8;
    uint64_t raw = 0;

    switch (dtype) {
    case INLAY_BOOL:
    case INLAY_UINT8:
    case INLAY_UINT16:
    case INLAY_UINT32:
    case INLAY_UINT64:
    case INLAY_INT8:
    case INLAY_INT16:
    case INLAY_INT32:
    case INLAY_INT64:
        break;
    default:
        return false;
    }
    INLAY_CHECK(index >= 0 && bytes <= sizeof raw);
    memcpy(&raw, (const char *)data + (size_t)index * bytes, bytes); /* little-endian machines only, as ONNX files */
    if (dtype == INLAY_BOOL)
        *out_value = raw != 0;
    else if (dtype == INLAY_INT8)
        *out_value = (int64_t)(raw ^ 0x80) - 0x80;
    else if (dtype == INLAY_INT16)
        *out_value = (int64_t)(raw ^ 0x8000) - 0x8000;
    else if (dtype == INLAY_INT32)
        *out_value = (int64_t)(raw ^ 0x80000000) - 0x80000000;
    else
        *out_value = (int64_t)raw;
    return true;
}

bool element_number(inlay_dtype dtype, const void *data, int64_t index, double *out_re, double *out_im)
{
    const char *at = (const char *)data + (size_t)index * (inlay_dtype_bits(dtype) / 8);
    double unused_im = 0, *im = out_im != NULL ? out_im : &unused_im;
    uint16_t half = 0;
    int64_t integer;
    float f[2];
    double d[2];

    *im = 0;
    switch (dtype) {
    case INLAY_FLOAT:
        memcpy(f, at, sizeof f[0]);
        *out_re = f[0];
        return true;
    case INLAY_DOUBLE:
        memcpy(out_re, at, sizeof *out_re);
        return true;
    case INLAY_COMPLEX64:
        memcpy(f, at, sizeof f);
        *out_re = f[0];
        *im = f[1];
        return true;
    case INLAY_COMPLEX128:
        memcpy(d, at, sizeof d);
        *out_re = d[0];
        *im = d[1];
        return true;
    case INLAY_FLOAT16:
    case INLAY_BFLOAT16:
        memcpy(&half, at, sizeof half);
        *out_re = decode(&formats[dtype], half);
        return true;
    case INLAY_FLOAT8E4M3FN:
    case INLAY_FLOAT8E4M3FNUZ:
    case INLAY_FLOAT8E5M2:
    case INLAY_FLOAT8E5M2FNUZ:
        *out_re = decode(&formats[dtype], *(const uint8_t *)at);
        return true;
    case INLAY_FLOAT8E8M0:
        *out_re = *(const uint8_t *)at == 0xff ? NAN : ldexp(1, *(const uint8_t *)at - 127);
        return true;
    case INLAY_FLOAT4E2M1:
        *out_re = decode(&formats[dtype], packed_code(data, index, 4));
        return true;
    case INLAY_UINT4:
    case INLAY_UINT2:
        *out_re = packed_code(data, index, inlay_dtype_bits(dtype));
        return true;
    case INLAY_INT4:
    case INLAY_INT2:
        *out_re = (double)sign_extend(packed_code(data, index, inlay_dtype_bits(dtype)), inlay_dtype_bits(dtype));
        return true;
    default:
        if (!element_integer(dtype, data, index, &integer))
            return false;
        *out_re = dtype == INLAY_UINT64 ? (double)(uint64_t)integer : (double)integer;
        return true;
    }
}

char *dims_text(const int64_t *dims, uint32_t rank, const char *separator, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");

    INLAY_CHECK(bytes > 0 && (rank == 0 || dims != NULL));
    for (uint32_t d = 0; d < rank && used < bytes; d++) {
        const char *before = d > 0 ? separator : "";

        used += (size_t)(dims[d] < 0 ? snprintf(text + used, bytes - used, "%s?", before)
                                     : snprintf(text + used, bytes - used, "%s%lld", before, (long long)dims[d]));
    }
    if (used < bytes)
        (void)snprintf(text + used, bytes - used, "]");
    return text;
}

bool element_is_float(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_FLOAT8E8M0 ||
           (dtype > 0 && dtype < INLAY_DTYPE_COUNT && formats[dtype].exp_bits != 0);
}

/* Writes a string in quotes; "..." marks a truncated one. */
static void quote(const inlay_str *string, char *text, size_t bytes)
{
    size_t used = 0;
    bool cut = false;

    if (bytes < 8) {
        text[0] = '\0';
        return;
    }
    text[used++] = '"';
    for (uint64_t i = 0; i < string->bytes && !cut; i++) {
        unsigned char c = (unsigned char)string->data[i];
        if (used + 10 > bytes)
            cut = true;
        else if (c == '"' || c == '\\')
            used += (size_t)snprintf(text + used, bytes - used, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            used += (size_t)snprintf(text + used, bytes - used, "\\x%02x", c);
        else
            text[used++] = (char)c;
    }
    (void)snprintf(text + used, bytes - used, "%s\"", cut ? "..." : "");
}

char *element_text(inlay_dtype dtype, const void *data, int64_t index, char *text, size_t bytes)
{
    int digits = dtype == INLAY_DOUBLE || dtype == INLAY_COMPLEX128 ? 15 : 7;
    double re, im;
    int64_t integer;

    if (dtype == INLAY_STRING) {
        inlay_str string;
        memcpy(&string, (const inlay_str *)data + index, sizeof string);
        quote(&string, text, bytes);
    } else if (dtype == INLAY_BOOL) {
        (void)snprintf(text, bytes, "%s", ((const uint8_t *)data)[index] ? "true" : "false");
    } else if (element_integer(dtype, data, index, &integer)) {
        if (dtype == INLAY_UINT64)
            (void)snprintf(text, bytes, "%" PRIu64, (uint64_t)integer);
        else
            (void)snprintf(text, bytes, "%" PRId64, integer);
    } else if (!element_number(dtype, data, index, &re, &im)) {
        (void)snprintf(text, bytes, "?");
    } else if (dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128) {
        (void)snprintf(text, bytes, "%.*g%+.*gi", digits, re, digits, im);
    } else {
        (void)snprintf(text, bytes, "%.*g", digits, re);
    }
    return text;
}

uint16_t element_half(float value)
{
    uint32_t bits, sign, man, half;
    int exp;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    exp = (int)(bits >> 23 & 0xff) - 127;
    man = bits & 0x7fffff;
    if (exp == 128) /* infinity, NaN */
        return (uint16_t)(sign | 0x7c00 | (man != 0 ? 0x200 : 0));
    if (exp > 15)
        return (uint16_t)(sign | 0x7c00);
    if (exp < -25)
        return (uint16_t)sign;
    man |= 0x800000;
    {
        /* Shift out the bits that do not fit: more of them below the smallest normal number. */
        uint32_t shift = exp < -14 ? (uint32_t)(-1 - exp) : 13;
        uint32_t rest = man & ((1u << shift) - 1), middle = 1u << (shift - 1);
        half = man >> shift;
        half += rest > middle || (rest == middle && (half & 1));
    }
    if (exp >= -14)
        half += (uint32_t)(exp + 14) << 10; /* `half` has the implicit bit, 0x400, which adds 1 to the exponent */
    return (uint16_t)(sign | half);
}

bool element_put(inlay_dtype dtype, void *data, int64_t index, int64_t value)
{
    const uint32_t bits = inlay_dtype_bits(dtype);
    const double wide = (double)value;
    const float narrow = (float)value;
    uint32_t word;
    uint16_t half;
    const void *from = &value; /* little-endian */

    memcpy(&word, &narrow, sizeof word);
    if (dtype == INLAY_BOOL) {
        value = value != 0;
    } else if (dtype == INLAY_FLOAT) {
        from = &narrow;
    } else if (dtype == INLAY_DOUBLE) {
        from = &wide;
    } else if (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16) {
        half = dtype == INLAY_FLOAT16 ? element_half(narrow) : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
        from = &half;
    } else if (bits < 8 || bits > 64 || dtype == INLAY_STRING || dtype == INLAY_COMPLEX64 || element_is_float(dtype)) {
        return false;
    }
    memcpy((char *)data + index * (int64_t)(bits / 8), from, bits / 8);
    return true;
}

/* The float nearest to value; if the conversion is inexact, one with an odd last bit. Rounding the result again, to
 * fewer bits, then gives the same as rounding value. */
static float to_odd(double value)
{
    float narrow = (float)value;
    uint32_t bits;

    if ((double)narrow == value || isnan(value) || isinf(narrow))
        return narrow;
    memcpy(&bits, &narrow, sizeof bits);
    bits = (bits - (fabs((double)narrow) > fabs(value))) | 1;
    memcpy(&narrow, &bits, sizeof bits);
    return narrow;
}

bool element_put_number(inlay_dtype dtype, void *data, int64_t index, double value)
{
    const float narrow = (float)value, odd = to_odd(value);
    uint32_t word;
    uint16_t half;
    const void *from = dtype == INLAY_DOUBLE ? (const void *)&value : &narrow;

    if (dtype == INLAY_FLOAT16) {
        half = element_half(odd);
        from = &half;
    } else if (dtype == INLAY_BFLOAT16) {
        memcpy(&word, &odd, sizeof word);
        half = isnan(value) ? 0x7fc0 : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
        from = &half;
    } else if (dtype != INLAY_FLOAT && dtype != INLAY_DOUBLE) {
        return false;
    }
    memcpy((char *)data + index * (int64_t)(inlay_dtype_bits(dtype) / 8), from, inlay_dtype_bits(dtype) / 8);
    return true;
}

bool element_converts(inlay_dtype from, inlay_dtype to)
{
    static const uint64_t types =
        INLAY_DTYPE_BIT(INLAY_FLOAT) | INLAY_DTYPE_BIT(INLAY_DOUBLE) | INLAY_DTYPE_BIT(INLAY_FLOAT16) |
        INLAY_DTYPE_BIT(INLAY_BFLOAT16) | INLAY_DTYPE_BIT(INLAY_BOOL) | INLAY_DTYPE_BIT(INLAY_INT8) |
        INLAY_DTYPE_BIT(INLAY_INT16) | INLAY_DTYPE_BIT(INLAY_INT32) | INLAY_DTYPE_BIT(INLAY_INT64) |
        INLAY_DTYPE_BIT(INLAY_UINT8) | INLAY_DTYPE_BIT(INLAY_UINT16) | INLAY_DTYPE_BIT(INLAY_UINT32) |
        INLAY_DTYPE_BIT(INLAY_UINT64);

    return from > 0 && from < INLAY_DTYPE_COUNT && to > 0 && to < INLAY_DTYPE_COUNT &&
           (types & INLAY_DTYPE_BIT(from)) != 0 && (types & INLAY_DTYPE_BIT(to)) != 0;
}

int64_t element_convert(inlay_dtype from, const void *source, inlay_dtype to, void *target, int64_t count)
{
    const double two_63 = 0x1p63;

    INLAY_CHECK(element_converts(from, to));
    for (int64_t i = 0; i < count; i++) {
        int64_t integer = 0, again = 0;
        double number = 0, back = 0;
        const bool whole = element_integer(from, source, i, &integer);
        bool above = whole && from == INLAY_UINT64 && integer < 0; /* the integer is 2^64 larger */

        (void)element_number(from, source, i, &number, NULL);
        if (element_is_float(to)) {
            (void)element_put_number(to, target, i, number);
            (void)element_number(to, target, i, &back, NULL);
            if (isinf(back) && !isinf(number))
                return i;
            continue;
        }
        if (!whole) {
            if (!(number >= -two_63 && number < 2 * two_63) || trunc(number) != number)
                return i;
            above = number >= two_63;
            integer = above ? (int64_t)(uint64_t)number : (int64_t)number;
        }
        (void)element_put(to, target, i, integer);
        (void)element_integer(to, target, i, &again);
        if (again != integer || above != (to == INLAY_UINT64 && again < 0))
            return i;
    }
    return count;
}

void element_tolerance(inlay_dtype dtype, double *out_rtol, double *out_atol)
{
    static const struct {
        inlay_dtype dtype;
        double rtol, atol;
    } rows[] = {
        { INLAY_FLOAT16, 0x1p-9, 0x1p-10 },     { INLAY_BFLOAT16, 0x1p-6, 0x1p-7 },
        { INLAY_FLOAT8E4M3FN, 0x1p-2, 0x1p-6 }, { INLAY_FLOAT8E4M3FNUZ, 0x1p-2, 0x1p-6 },
        { INLAY_FLOAT8E5M2, 0x1p-1, 0x1p-6 },   { INLAY_FLOAT8E5M2FNUZ, 0x1p-1, 0x1p-6 },
        { INLAY_DOUBLE, 1e-6, 1e-9 },           { INLAY_COMPLEX128, 1e-6, 1e-9 },
    };

    *out_rtol = 1e-3;
    *out_atol = 1e-5;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].dtype == dtype) {
            *out_rtol = rows[i].rtol;
            *out_atol = rows[i].atol;
        }
}
