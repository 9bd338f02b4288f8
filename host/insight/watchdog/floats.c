#include "watchdog/floats.h"
#include "base/element.h"
#include "base/random.h"
#include <math.h>
#include <string.h>

/* Floats beyond these limits: squares overflow; the smallest normal float, with some margin for factors. */
#define WILD_LARGE 1e18
#define WILD_LARGE_HALF 1e4
#define WILD_SMALL 0x1p-120

double floats_unit(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_FLOAT:
        return 0x1p-24;
    case INLAY_DOUBLE:
        return 0x1p-53;
    case INLAY_FLOAT16:
        return 0x1p-11;
    case INLAY_BFLOAT16:
        return 0x1p-8;
    default:
        return 0;
    }
}

int64_t floats_view_count(const inlay_tensor_view *view)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < view->rank; d++)
        count *= view->dims[d];
    return count;
}

static double get(inlay_dtype dtype, const void *data, int64_t i)
{
    double number = 0;

    if (dtype == INLAY_FLOAT)
        return ((const float *)data)[i];
    (void)element_number(dtype, data, i, &number, NULL);
    return number;
}

static void put(inlay_dtype dtype, void *data, int64_t i, double number)
{
    const float rounded = (float)number;
    uint32_t bits;

    if (dtype == INLAY_FLOAT) {
        ((float *)data)[i] = rounded;
    } else if (dtype == INLAY_DOUBLE) {
        ((double *)data)[i] = number;
    } else if (dtype == INLAY_FLOAT16) {
        ((uint16_t *)data)[i] = element_half(rounded);
    } else if (dtype == INLAY_BFLOAT16) {
        memcpy(&bits, &rounded, sizeof bits);
        ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

uint8_t floats_marks(inlay_dtype dtype, const void *data, int64_t count)
{
    const double large = dtype == INLAY_FLOAT16 ? WILD_LARGE_HALF : WILD_LARGE;
    uint32_t marks = 0;

    if (floats_unit(dtype) == 0)
        return 0;
    if (dtype == INLAY_FLOAT) { /* the bits of floats are ordered as their absolute values */
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits, size;

            memcpy(&bits, (const char *)data + i * 4, sizeof bits);
            size = bits & 0x7fffffff;
            marks |= (size != 0) & (size < 0x03800000); /* 2^-120 */
            if (size > 0x5d5e0b6b)                      /* 1e18 */
                marks |= bits >> 31 != 0 && size <= 0x7f800000 ? FLOATS_NEGATIVE : FLOATS_LARGE;
        }
        return (uint8_t)marks;
    }
    for (int64_t i = 0; i < count; i++) {
        const double x = get(dtype, data, i);

        marks |= x != 0 && fabs(x) < WILD_SMALL ? FLOATS_TINY : 0;
        if (!(fabs(x) <= large))
            marks |= x < 0 ? FLOATS_NEGATIVE : FLOATS_LARGE;
    }
    return (uint8_t)marks;
}

void floats_make_absolute(inlay_dtype dtype, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        put(dtype, data, i, fabs(get(dtype, data, i)));
}

void floats_add_noise(inlay_dtype dtype, void *data, int64_t count, const void *magnitudes, double units,
                      double magnitude_units, uint64_t *seed)
{
    uint64_t bits = 0;

    for (int64_t i = 0; i < count; i++) {
        const double x = get(dtype, data, i);
        double change = units * fabs(x);

        if (magnitudes != NULL)
            change += magnitude_units * fabs(get(dtype, magnitudes, i));
        bits = i % 64 == 0 ? random_bits(seed) : bits >> 1;
        if (isfinite(change))
            put(dtype, data, i, (bits & 1) != 0 ? x + change : x - change);
    }
}

void floats_add_steps(inlay_dtype dtype, void *data, int64_t count, uint32_t share, uint64_t *seed)
{
    uint8_t *bytes = data;
    const bool is_signed = dtype == INLAY_INT8;

    if (dtype != INLAY_INT8 && dtype != INLAY_UINT8)
        return;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = random_bits(seed);
        const bool up = (bits >> 32 & 1) != 0;

        /* The ends of the type stay. */
        if (bits % share == 0 && bytes[i] != (up ? (is_signed ? 0x7f : 0xff) : (is_signed ? 0x80 : 0)))
            bytes[i] = (uint8_t)(up ? bytes[i] + 1 : bytes[i] - 1);
    }
}

floats_difference floats_compare(inlay_dtype dtype, const void *want, const void *got, int64_t count, double rtol,
                                 double atol)
{
    floats_difference found = { .at = -1, .not_finite = -1 };

    for (int64_t i = 0; i < count; i++) {
        const double x = get(dtype, want, i), y = get(dtype, got, i), error = fabs(x - y);

        if (x == y)
            continue;
        if (!isfinite(error)) {
            if (!(isnan(x) && isnan(y)) && found.not_finite < 0)
                found.not_finite = i;
            continue;
        }
        found.largest = error > found.largest ? error : found.largest;
        if (error > atol + rtol * fabs(x) && error > found.largest_excess) {
            found.largest_excess = error;
            found.at = i;
        }
    }
    return found;
}
