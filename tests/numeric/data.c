#include "data.h"
#include <math.h>

/* In [0, 1). */
static double draw(uint64_t seed, int64_t a, int64_t b, int64_t c)
{
    uint64_t h = seed;

    for (int i = 0; i < 3; i++) {
        h = (h ^ (uint64_t)(i == 0 ? a : i == 1 ? b : c)) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return (double)(h >> 11) / 9007199254740992.0;
}

double nm_noise(nm_place at)
{
    return 2 * draw(at.seed, at.outer, at.channel, at.inner) - 1;
}

/* In [0, 1), other than the noise of that place. */
static double chance(nm_place at)
{
    return draw(at.seed + 1000, at.outer, at.channel, at.inner);
}

/* Between 10^low and 10^high, by channel: the same for inputs and weights. */
static double size(nm_place at, double low, double high)
{
    return pow(10, low + (high - low) * draw(1, at.channel, 0, 0));
}

static double loud_noise(nm_place at)
{
    return 1e10 * nm_noise(at);
}

static double large(nm_place at)
{
    return nm_noise(at) * size(at, -6, 6);
}

static double small_for_large(nm_place at)
{
    return nm_noise(at) / size(at, -6, 6);
}

/* Counts, shares and prices, and the time of the row. */
static double feature(nm_place at)
{
    return at.channel == 7 ? 1.7e9 + round(1e6 * nm_noise(at)) : fabs(nm_noise(at)) * size(at, -3, 6);
}

static double weight_of_feature(nm_place at)
{
    return nm_noise(at) / (at.channel == 7 ? 1.7e9 : size(at, -3, 6));
}

static double tiny(nm_place at)
{
    return 1e-30 * nm_noise(at);
}

static double least(nm_place at)
{
    return 1e-38 * nm_noise(at);
}

static double subnormal(nm_place at)
{
    return 1e-41 * nm_noise(at);
}

static double huge(nm_place at)
{
    return 1e20 * nm_noise(at);
}

static double one_loud(nm_place at)
{
    return nm_noise(at) * (at.channel % 61 == 5 ? 1e4 : 1);
}

static double one_quiet(nm_place at)
{
    return nm_noise(at) * (at.channel % 61 == 5 ? 1e-4 : 1);
}

static bool is_dead(nm_place at)
{
    return draw(2, at.channel, 0, 0) < 0.3;
}

static double dead_but_loud(nm_place at)
{
    return nm_noise(at) * (is_dead(at) ? 1e5 : 1);
}

static double nothing_if_dead(nm_place at)
{
    return is_dead(at) ? 0 : nm_noise(at);
}

static double gains(nm_place at)
{
    return fmax(nm_noise(at), 0) * size(at, -2, 2);
}

static double mostly_zero(nm_place at)
{
    return chance(at) < 0.05 ? nm_noise(at) : 0;
}

static double outliers(nm_place at)
{
    return nm_noise(at) * (chance(at) < 0.003 ? 1e4 : 1);
}

static double neighbour(nm_place at)
{
    const double sign = at.channel % 2 == 0 ? 1e3 : -1e3;

    at.channel -= at.channel % 2;
    return sign * nm_noise(at);
}

/* Two channels nearly the same. */
static double nearly_equal(nm_place at)
{
    const double factor = 1 + 1e-3 * chance(at);

    at.channel -= at.channel % 2;
    return factor * nm_noise(at);
}

/* Two channels that nearly take each other away. */
static double nearly_opposite(nm_place at)
{
    return nearly_equal(at) * (at.channel % 2 == 0 ? 1 : -1);
}

static double far_from_zero(nm_place at)
{
    return 1e4 + nm_noise(at);
}

static double rows_of_any_size(nm_place at)
{
    return nm_noise(at) * pow(10, 24 * draw(3, at.outer, 0, 0) - 12);
}

static double bright_stripes(nm_place at)
{
    return nm_noise(at) * ((at.outer + at.inner / 7) % 2 == 0 ? 1e4 : 1e-2);
}

static double one_sign(nm_place at)
{
    return fabs(nm_noise(at));
}

static double integer(nm_place at)
{
    return round(20 * nm_noise(at));
}

static double one_hot(nm_place at)
{
    return (at.channel + 5 * at.outer + 3 * at.inner) % 11 == 0;
}

static double id(nm_place at)
{
    return floor(chance(at) * (1 << 17));
}

static double count(nm_place at)
{
    return floor(chance(at) * 100);
}

static double triangle(nm_place at)
{
    return at.channel <= at.outer + at.inner;
}

const nm_kind nm_kinds[] = {
    { "noise", nm_noise, nm_noise, false },
    { "channels of 1e-6 to 1e6", large, small_for_large, false },
    { "features of a table", feature, weight_of_feature, false },
    { "inputs of 1e-30", tiny, nm_noise, false },
    { "inputs of 1e-38", least, nm_noise, false },
    { "subnormal inputs", subnormal, huge, false },
    { "subnormal weights", loud_noise, subnormal, false },
    { "a loud channel of small weights", one_loud, one_quiet, false },
    { "dead channels", dead_but_loud, nothing_if_dead, false },
    { "gains", gains, nm_noise, false },
    { "zeros but for a few", mostly_zero, nm_noise, false },
    { "outliers", outliers, outliers, false },
    { "cancelling neighbours", neighbour, nearly_equal, false },
    { "far from zero", far_from_zero, nm_noise, false },
    { "far from zero, cancelling weights", far_from_zero, nearly_opposite, false },
    { "rows of any size", rows_of_any_size, nm_noise, false },
    { "bright beside quiet", bright_stripes, nm_noise, false },
    { "one sign", one_sign, one_sign, false },
    { "integers", integer, integer, true },
    { "zeros and ones by ids", one_hot, id, true },
    { "a triangle of ones", count, triangle, true },
};

const uint32_t nm_kind_count = sizeof nm_kinds / sizeof *nm_kinds;
