#include "data.h"
#include <math.h>

/* Returns a number in [0, 1) that depends on the arguments only. */
static double draw(uint64_t seed, int64_t a, int64_t b, int64_t c)
{
    uint64_t hash = seed;

    for (int i = 0; i < 3; i++) {
        hash = (hash ^ (uint64_t)(i == 0 ? a : i == 1 ? b : c)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return (double)(hash >> 11) / 9007199254740992.0;
}

double nm_noise(nm_place position)
{
    return 2 * draw(position.seed, position.outer, position.channel, position.inner) - 1;
}

/* Returns a number in [0, 1), independent of the noise of that element. */
static double second_noise(nm_place position)
{
    return draw(position.seed + 1000, position.outer, position.channel, position.inner);
}

/* Returns a factor of the channel between 10^low and 10^high, equal for inputs and weights. */
static double scale_of_channel(nm_place position, double low, double high)
{
    return pow(10, low + (high - low) * draw(1, position.channel, 0, 0));
}

static double loud_noise(nm_place position)
{
    return 1e10 * nm_noise(position);
}

static double large(nm_place position)
{
    return nm_noise(position) * scale_of_channel(position, -6, 6);
}

static double small_for_large(nm_place position)
{
    return nm_noise(position) / scale_of_channel(position, -6, 6);
}

/* Features of a table: counts, fractions, prices, and a time stamp in channel 7. */
static double feature(nm_place position)
{
    return position.channel == 7 ? 1.7e9 + round(1e6 * nm_noise(position))
                                 : fabs(nm_noise(position)) * scale_of_channel(position, -3, 6);
}

static double weight_of_feature(nm_place position)
{
    return nm_noise(position) / (position.channel == 7 ? 1.7e9 : scale_of_channel(position, -3, 6));
}

static double tiny(nm_place position)
{
    return 1e-30 * nm_noise(position);
}

static double least(nm_place position)
{
    return 1e-38 * nm_noise(position);
}

static double subnormal(nm_place position)
{
    return 1e-41 * nm_noise(position);
}

static double huge(nm_place position)
{
    return 1e20 * nm_noise(position);
}

static double one_loud(nm_place position)
{
    return nm_noise(position) * (position.channel % 61 == 5 ? 1e4 : 1);
}

static double one_quiet(nm_place position)
{
    return nm_noise(position) * (position.channel % 61 == 5 ? 1e-4 : 1);
}

/* Is it a dead channel, whose weights are zero? */
static bool is_dead(nm_place position)
{
    return draw(2, position.channel, 0, 0) < 0.3;
}

static double dead_but_loud(nm_place position)
{
    return nm_noise(position) * (is_dead(position) ? 1e5 : 1);
}

static double nothing_if_dead(nm_place position)
{
    return is_dead(position) ? 0 : nm_noise(position);
}

/* Non-negative inputs, as after Relu, with a different gain for each channel. */
static double gains(nm_place position)
{
    return fmax(nm_noise(position), 0) * scale_of_channel(position, -2, 2);
}

static double mostly_zero(nm_place position)
{
    return second_noise(position) < 0.05 ? nm_noise(position) : 0;
}

static double outliers(nm_place position)
{
    return nm_noise(position) * (second_noise(position) < 0.003 ? 1e4 : 1);
}

static double neighbour(nm_place position)
{
    const double sign = position.channel % 2 == 0 ? 1e3 : -1e3;

    position.channel -= position.channel % 2;
    return sign * nm_noise(position);
}

/* Pairs of nearly equal channels. */
static double nearly_equal(nm_place position)
{
    const double factor = 1 + 1e-3 * second_noise(position);

    position.channel -= position.channel % 2;
    return factor * nm_noise(position);
}

/* Pairs of channels that nearly cancel. */
static double nearly_opposite(nm_place position)
{
    return nearly_equal(position) * (position.channel % 2 == 0 ? 1 : -1);
}

static double far_from_zero(nm_place position)
{
    return 1e4 + nm_noise(position);
}

static double rows_of_any_size(nm_place position)
{
    return nm_noise(position) * pow(10, 24 * draw(3, position.outer, 0, 0) - 12);
}

static double bright_stripes(nm_place position)
{
    return nm_noise(position) * ((position.outer + position.inner / 7) % 2 == 0 ? 1e4 : 1e-2);
}

static double one_sign(nm_place position)
{
    return fabs(nm_noise(position));
}

static double integer(nm_place position)
{
    return round(20 * nm_noise(position));
}

static double one_hot(nm_place position)
{
    return (position.channel + 5 * position.outer + 3 * position.inner) % 11 == 0;
}

static double id(nm_place position)
{
    return floor(second_noise(position) * (1 << 17));
}

static double count(nm_place position)
{
    return floor(second_noise(position) * 100);
}

static double triangle(nm_place position)
{
    return position.channel <= position.outer + position.inner;
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
    { "bright next to dark", bright_stripes, nm_noise, false },
    { "one sign", one_sign, one_sign, false },
    { "integers", integer, integer, true },
    { "zeros and ones by ids", one_hot, id, true },
    { "a triangle of ones", count, triangle, true },
};

const uint32_t nm_kind_count = sizeof nm_kinds / sizeof *nm_kinds;
