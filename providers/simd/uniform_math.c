/* Elementary functions by double-double arithmetic: a number is the unevaluated sum of two doubles, see
 * uniform_math.h. */
#include "simd/uniform_math.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct double_pair {
    double high, low; /* |low| is at most half a unit in the last place of high */
} double_pair;

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n for n in [-1022, 1023]. */
static double power_of_2(int64_t n)
{
    return from_bits((uint64_t)(n + 1023) << 52);
}

/* x 2^n with one rounding, for x near 1 and results that may be subnormal or infinite. |n| < 1900. */
static double scaled(double x, int64_t n)
{
    if (n > 1023)
        return x * power_of_2(1000) * power_of_2(n - 1000);
    if (n < -1022)
        return x * power_of_2(-969) * power_of_2(n + 969); /* the last factor alone rounds */
    return x * power_of_2(n);
}

/* x + y for |x| >= |y|. */
static double_pair ordered_sum(double x, double y)
{
    const double sum = x + y;

    return (double_pair){ sum, y - (sum - x) };
}

static double_pair sum_of(double x, double y)
{
    const double sum = x + y, y_part = sum - x;

    return (double_pair){ sum, (x - (sum - y_part)) + (y - y_part) };
}

/* x y; both factors are split in halves of 26 bits. */
static double_pair product_of(double x, double y)
{
    const double split = 134217729, product = x * y;
    const double x_top = x * split - (x * split - x), x_rest = x - x_top;
    const double y_top = y * split - (y * split - y), y_rest = y - y_top;

    return (double_pair){ product, ((x_top * y_top - product) + x_top * y_rest + x_rest * y_top) + x_rest * y_rest };
}

static double_pair add(double_pair x, double_pair y)
{
    const double_pair sum = sum_of(x.high, y.high), low = sum_of(x.low, y.low),
                      near = ordered_sum(sum.high, sum.low + low.high);

    return ordered_sum(near.high, near.low + low.low);
}

static double_pair add_double(double_pair x, double y)
{
    const double_pair sum = sum_of(x.high, y);

    return ordered_sum(sum.high, sum.low + x.low);
}

static double_pair multiply(double_pair x, double_pair y)
{
    const double_pair product = product_of(x.high, y.high);

    return ordered_sum(product.high, product.low + (x.high * y.low + x.low * y.high));
}

static double_pair multiply_double(double_pair x, double y)
{
    const double_pair product = product_of(x.high, y);

    return ordered_sum(product.high, product.low + x.low * y);
}

static double_pair negative(double_pair x)
{
    return (double_pair){ -x.high, -x.low };
}

static double_pair divide(double_pair x, double_pair y)
{
    const double first = x.high / y.high;
    const double_pair rest = add(x, negative(multiply_double(y, first)));
    const double second = rest.high / y.high;
    const double_pair last = add(rest, negative(multiply_double(y, second)));

    return add_double(ordered_sum(first, second), last.high / y.high);
}

static double_pair root_of(double_pair x)
{
    const double first = sqrt(x.high);

    if (first == 0)
        return (double_pair){ 0, 0 };
    return ordered_sum(first, add(x, negative(product_of(first, first))).high / (2 * first));
}

static const double_pair half_pi = { 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54 };
static const double_pair ln2 = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };

/* x = n ln 2 + r, |r| <= ln 2 / 2, for |x| < 1100. */
static double_pair reduce_exponent(double_pair x, int64_t *out_n)
{
    const double shift = 6755399441055744.0, n = (x.high * 0x1.71547652b82fep+0 + shift) - shift;
    const double_pair rest = { 0x1.a39ef35793c76p-33, 0x1.cc01f97b57a08p-87 }; /* ln 2 minus its first 32 bits */

    *out_n = (int64_t)n;
    return add(add_double(x, -n * 0x1.62e42fee00000p-1), negative(multiply_double(rest, n)));
}

static const double_pair thirds = { 0x1.5555555555555p-2, 0x1.5555555555555p-56 },
                         fifths = { 0x1.999999999999ap-3, -0x1.999999999999ap-57 };

/* e^r - 1 = r (1 + r/2 (1 + r/3 (1 + ...))) for |r| <= ln 2 / 2, with an error of about 2^-68: factors from r/6 on are
 * multiplied in double. */
static double_pair series_of_exp(double_pair r)
{
    double rest = 1;
    double_pair sum;

    for (int n = 19; n >= 6; n--)
        rest = 1 + rest * r.high / n;
    sum = add_double(multiply(multiply_double(r, rest), fifths), 1);
    sum = multiply(multiply(sum, r), (double_pair){ 0.25, 0 });
    sum = add_double(multiply(multiply(add_double(sum, 1), r), thirds), 1);
    sum = multiply(multiply(sum, r), (double_pair){ 0.5, 0 });
    return multiply(add_double(sum, 1), r);
}

/* e^x = result 2^n. */
static double_pair exp_pair(double_pair x, int64_t *out_n)
{
    return add_double(series_of_exp(reduce_exponent(x, out_n)), 1);
}

/* e^r - 1 - r for |r| <= ln 2 / 2. */
static double exp_tail(double r)
{
    static const double terms[] = { 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                    1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                    1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5 };
    double p = 1.0 / 87178291200;

    for (int i = 0; i < 12; i++)
        p = p * r + terms[i];
    return p * (r * r);
}

double uniform_exp(double x)
{
    int64_t n;
    double_pair r;

    if (x != x)
        return x;
    if (x > 709.8)
        return INFINITY;
    if (x < -745.2)
        return 0;
    r = reduce_exponent((double_pair){ x, 0 }, &n);
    return scaled(1 + (r.high + (r.low + exp_tail(r.high))), n);
}

double uniform_expm1(double x)
{
    int64_t n;
    double_pair power;

    if (x != x || x == 0)
        return x;
    if (x > 709.8)
        return INFINITY;
    if (x < -50)
        return -1;
    if (fabs(x) < 0x1p-54)
        return x;
    power = series_of_exp(reduce_exponent((double_pair){ x, 0 }, &n));
    if (n == 0)
        return power.high;
    power = add_double(power, 1);
    if (n > 60)
        return scaled(power.high, n);
    power = (double_pair){ power.high * power_of_2(n), power.low * power_of_2(n) };
    return add_double(power, -1).high;
}

/* The mantissa m of a finite x > 0 in [sqrt(1/2), sqrt(2)), and the exponent e: x = 2^e m. */
static double split_mantissa(double x, int64_t *out_exponent)
{
    const bool tiny = x < 0x1p-1022;
    const uint64_t from_root = bits_of(tiny ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcdu; /* relative to sqrt(1/2) */

    *out_exponent = ((int64_t)from_root >> 52) - (tiny ? 54 : 0);
    return from_bits((from_root & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
}

/* ln x for finite x > 0: x = 2^e m, m near 1, and ln m = 2 atanh s with s = (m - 1) / (m + 1). */
static double_pair log_pair(double_pair x, int64_t *out_exponent)
{
    static const double_pair sevenths = { 0x1.2492492492492p-3, 0x1.2492492492492p-57 },
                             ninths = { 0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58 };
    const double high = split_mantissa(x.high, out_exponent);
    const int64_t e = *out_exponent;
    double_pair m = { high, e > 1000 || e < -1000 ? 0 : x.low * power_of_2(-e) }, s, z, sum;
    double tail = 1.0 / 27;

    s = divide(add_double(m, -1), add_double(m, 1));
    z = multiply(s, s);
    for (int n = 25; n >= 11; n -= 2)
        tail = tail * z.high + 1.0 / n;
    sum = add_double(ninths, tail * z.high);
    sum = add(multiply(sum, z), sevenths);
    sum = add(multiply(sum, z), fifths);
    sum = add(multiply(sum, z), thirds);
    sum = add(multiply(multiply(sum, z), s), s);
    return (double_pair){ 2 * sum.high, 2 * sum.low };
}

static double_pair full_log(double_pair x)
{
    int64_t e;
    const double_pair fraction = log_pair(x, &e);

    return add(multiply_double(ln2, (double)e), fraction);
}

/* The logarithms of numbers that are not positive and finite. */
static bool is_special_log(double x, double *out)
{
    *out = x != x || x == INFINITY ? x : x == 0 ? -INFINITY : NAN;
    return !(x > 0) || x == INFINITY;
}

/* As full_log(), but only the first term of the series of atanh is a pair of doubles: the others are at most a
 * hundredth of it, and their rounding errors as well. */
double uniform_log(double x)
{
    double special, m, s, z, rest, tail = 1.0 / 21;
    double_pair divisor, product, whole, sum;
    int64_t e;

    if (is_special_log(x, &special))
        return special;
    m = split_mantissa(x, &e);
    divisor = sum_of(m, 1);
    s = (m - 1) / divisor.high;
    product = product_of(s, divisor.high);
    rest = ((m - 1 - product.high) - product.low - s * divisor.low) / divisor.high;
    z = s * s;
    for (int n = 19; n >= 3; n -= 2)
        tail = tail * z + 1.0 / n;
    whole = product_of(ln2.high, (double)e);
    sum = sum_of(whole.high, 2 * s);
    return sum.high + (sum.low + (whole.low + ln2.low * (double)e + 2 * (rest + s * z * tail)));
}

double uniform_log2(double x)
{
    const double_pair by = { 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56 };
    double special;
    int64_t e;
    double_pair fraction;

    if (is_special_log(x, &special))
        return special;
    fraction = log_pair((double_pair){ x, 0 }, &e);
    return add_double(multiply(fraction, by), (double)e).high;
}

double uniform_log10(double x)
{
    const double_pair by = { 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57 };
    double special;

    return is_special_log(x, &special) ? special : multiply(full_log((double_pair){ x, 0 }), by).high;
}

double uniform_log1p(double x)
{
    double special;

    if (x == 0 || fabs(x) < 0x1p-54)
        return x;
    if (is_special_log(1 + x, &special))
        return special;
    return full_log(sum_of(1, x)).high;
}

/* 0: y is not an integer; 1: odd; 2: even. */
static int parity(double y)
{
    if (fabs(y) >= 0x1p53)
        return 2;
    if (y != floor(y))
        return 0;
    return fmod(y, 2) != 0 ? 1 : 2;
}

double uniform_pow(double x, double y)
{
    const int kind = y == y ? parity(y) : 0;
    const double sign = x < 0 && kind == 1 ? -1 : 1;
    int64_t n;
    double_pair exponent, power;

    if (y == 0 || x == 1)
        return 1;
    if (x != x || y != y)
        return x + y;
    if (x == 0)
        return y > 0 ? (kind == 1 ? x : 0) : kind == 1 ? copysign(INFINITY, x) : INFINITY;
    if (fabs(y) == INFINITY)
        return fabs(x) == 1 ? 1 : (fabs(x) > 1) == (y > 0) ? INFINITY : 0;
    if (fabs(x) == INFINITY)
        return y > 0 ? (x < 0 && kind == 1 ? x : INFINITY) : x < 0 && kind == 1 ? -0.0 : 0;
    if (x < 0 && kind == 0)
        return NAN;
    if (x == -1)
        return sign;
    exponent = full_log((double_pair){ fabs(x), 0 });
    if (fabs(y) * fabs(exponent.high) > 800)
        return sign * ((y > 0) == (exponent.high > 0) ? INFINITY : 0);
    exponent = multiply_double(exponent, y);
    power = exp_pair(exponent, &n);
    return sign * scaled(power.high, n);
}

/* 2 / pi, after the point. */
static const uint64_t two_over_pi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
};

/* 64 bits of 2 / pi, from bit `at` after the point on; bits before the point are 0. */
static uint64_t bits_at(int64_t at)
{
    const int64_t word = at >= 0 ? at / 64 : -((63 - at) / 64), shift = at - word * 64;
    const uint64_t first = word >= 0 ? two_over_pi[word] : 0, second = word >= -1 ? two_over_pi[word + 1] : 0;

    return shift == 0 ? first : first << shift | second >> (64 - shift);
}

/* The upper 64 bits of a product. */
static uint64_t upper_product(uint64_t x, uint64_t y)
{
    const uint64_t x_high = x >> 32, x_low = x & 0xffffffffu, y_high = y >> 32, y_low = y & 0xffffffffu;
    const uint64_t cross = x_high * y_low + (x_low * y_low >> 32), other = x_low * y_high + (cross & 0xffffffffu);

    return x_high * y_high + (cross >> 32) + (other >> 32);
}

/* |x| = n pi/2 + r, |r| <= pi/4, for finite x. Multiplies the integer of x's digits by those bits of 2 / pi whose
 * product with it is not a multiple of 4. Returns r; *out_quadrant: n modulo 4. */
static double_pair reduce_angle(double x, uint32_t *out_quadrant)
{
    const uint64_t bits = bits_of(x) & INT64_MAX;
    const int64_t exponent = (int64_t)(bits >> 52) - 1075; /* |x| = digits 2^exponent */
    const uint64_t digits = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    /* The product of the digits and of 192 bits of 2 / pi whose first has the value 2^2 or less: a fraction with two
     * bits before the point at the top of the word `high`. */
    const int64_t at = exponent - 2;
    const uint64_t low = digits * bits_at(at + 128), carry = upper_product(digits, bits_at(at + 128));
    const uint64_t middle = digits * bits_at(at + 64) + carry;
    const uint64_t high = digits * bits_at(at) + upper_product(digits, bits_at(at + 64)) + (middle < carry ? 1 : 0);
    uint64_t fraction = high << 2 | middle >> 62, rest = middle << 2 | low >> 62;
    uint32_t quadrant = (uint32_t)(high >> 62);
    const bool up = fraction >> 63 != 0;
    double_pair part;

    if (fabs(x) <= 0x1.921fb54442d18p-1) {
        *out_quadrant = 0;
        return (double_pair){ fabs(x), 0 };
    }
    if (up) { /* to the nearest multiple of pi/2 */
        quadrant++;
        rest = ~rest;
        fraction = ~fraction;
    }
    /* Numbers of 32 bits are exact doubles. */
    part = sum_of((double)(fraction >> 32) * 0x1p-32, (double)(fraction & 0xffffffffu) * 0x1p-64);
    part = add_double(part, (double)(rest >> 32) * 0x1p-96);
    part = add_double(part, (double)(rest & 0xffffffffu) * 0x1p-128);
    part = multiply(part, half_pi);
    *out_quadrant = quadrant & 3;
    return up ? negative(part) : part;
}

static double_pair sine_of(double_pair r)
{
    static const double terms[] = { 1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                                    1.0 / 362880,          -1.0 / 5040,          1.0 / 120 };
    const double z = r.high * r.high;
    double p = -1.0 / 121645100408832000.0;
    double_pair cube;

    for (int i = 0; i < 7; i++)
        p = p * z + terms[i];
    cube = multiply(multiply(r, r), r);
    cube = add_double(divide(cube, (double_pair){ -6, 0 }), p * z * z * r.high);
    return add(r, cube);
}

static double_pair cosine_of(double_pair r)
{
    static const double terms[] = { 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                    1.0 / 40320,          -1.0 / 720,         1.0 / 24 };
    const double z = r.high * r.high;
    double p = -1.0 / 6402373705728000;
    double_pair square = multiply(r, r);

    for (int i = 0; i < 7; i++)
        p = p * z + terms[i];
    square = add_double((double_pair){ -0.5 * square.high, -0.5 * square.low }, p * z * z);
    return add_double(square, 1);
}

double uniform_sin(double x)
{
    uint32_t q;
    double y;
    double_pair r;

    if (x != x || fabs(x) == INFINITY)
        return x - x;
    if (fabs(x) < 0x1p-27)
        return x;
    r = reduce_angle(x, &q);
    y = (q & 1) != 0 ? cosine_of(r).high : sine_of(r).high;
    return ((q & 2) != 0) != (x < 0) ? -y : y;
}

double uniform_cos(double x)
{
    uint32_t q;
    double y;
    double_pair r;

    if (x != x || fabs(x) == INFINITY)
        return x - x;
    if (fabs(x) < 0x1p-27)
        return 1;
    r = reduce_angle(x, &q);
    y = (q & 1) != 0 ? sine_of(r).high : cosine_of(r).high;
    return ((q + 1) & 2) != 0 ? -y : y;
}

double uniform_tan(double x)
{
    uint32_t q;
    double y;
    double_pair r, sine, cosine;

    if (x != x || fabs(x) == INFINITY)
        return x - x;
    if (fabs(x) < 0x1p-27)
        return x;
    r = reduce_angle(x, &q);
    sine = sine_of(r);
    cosine = cosine_of(r);
    y = (q & 1) != 0 ? -divide(cosine, sine).high : divide(sine, cosine).high;
    return x < 0 ? -y : y;
}

/* atan(k / 16) */
static const double_pair arcs[] = {
    { 0x0.0p+0, 0x0.0p+0 },
    { 0x1.ff55bb72cfdeap-5, -0x1.c934d86d23f1dp-60 },
    { 0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59 },
    { 0x1.7b97b4bce5b02p-3, 0x1.347b0b4f881cap-58 },
    { 0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57 },
    { 0x1.362773707ebccp-2, -0x1.963a544b672d8p-57 },
    { 0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56 },
    { 0x1.a64eec3cc23fdp-2, -0x1.24dec1b50b7ffp-56 },
    { 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56 },
    { 0x1.0657e94db30d0p-1, -0x1.d5b495f6349e6p-56 },
    { 0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58 },
    { 0x1.345f01cce37bbp-1, 0x1.1021137c71102p-55 },
    { 0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56 },
    { 0x1.5d58987169b18p-1, 0x1.0028e4bc5e7cap-57 },
    { 0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56 },
    { 0x1.819d0b7158a4dp-1, -0x1.bf76229d3b917p-56 },
    { 0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55 },
};

/* atan(y / x) for y, x >= 0 that are not both 0, with y and x below 2^900. */
static double_pair arc_of(double_pair y, double_pair x)
{
    const bool steep = y.high > x.high;
    const double_pair t = steep ? divide(x, y) : divide(y, x);
    const int k = (int)(t.high * 16 + 0.5);
    const double c = k / 16.0;
    /* atan t = atan c + atan((t - c) / (1 + t c)) */
    const double_pair u = k == 0 ? t : divide(add_double(t, -c), add_double(multiply_double(t, c), 1));
    const double z = u.high * u.high;
    double p = 1.0 / 15;
    double_pair arc, cube;

    for (int n = 13; n >= 5; n -= 2)
        p = 1.0 / n - p * z;
    cube = divide(multiply(multiply(u, u), u), (double_pair){ -3, 0 });
    arc = add(arcs[k], add(u, add_double(cube, p * z * z * u.high)));
    return steep ? add(half_pi, negative(arc)) : arc;
}

double uniform_atan(double x)
{
    double y;

    if (x != x)
        return x;
    if (fabs(x) < 0x1p-27)
        return x;
    y = fabs(x) > 0x1p60 ? half_pi.high : arc_of((double_pair){ fabs(x), 0 }, (double_pair){ 1, 0 }).high;
    return x < 0 ? -y : y;
}

/* sqrt(1 - x^2) */
static double_pair other_side(double x)
{
    return root_of(multiply(sum_of(1, x), sum_of(1, -x)));
}

double uniform_asin(double x)
{
    double y;

    if (!(fabs(x) <= 1))
        return x != x ? x : NAN;
    if (fabs(x) < 0x1p-27)
        return x;
    y = arc_of((double_pair){ fabs(x), 0 }, other_side(x)).high;
    return x < 0 ? -y : y;
}

double uniform_acos(double x)
{
    double_pair arc;

    if (!(fabs(x) <= 1))
        return x != x ? x : NAN;
    if (x == 1)
        return 0;
    arc = arc_of(other_side(x), (double_pair){ fabs(x), 0 });
    if (x < 0)
        arc = add((double_pair){ 2 * half_pi.high, 2 * half_pi.low }, negative(arc));
    return arc.high;
}

/* e^x and e^-x for 0 <= x < 40. */
static void both_powers(double x, double_pair *up, double_pair *down)
{
    int64_t n;
    double by;

    *up = exp_pair((double_pair){ x, 0 }, &n);
    by = power_of_2(n);
    *up = (double_pair){ up->high * by, up->low * by };
    *down = divide((double_pair){ 1, 0 }, *up);
}

/* sinh x for |x| < 0.35. */
static double_pair low_sinh(double x)
{
    const double_pair power = series_of_exp((double_pair){ x, 0 }); /* t = e^x - 1; sinh = (t + t / (t + 1)) / 2 */
    const double_pair twice = add(power, divide(power, add_double(power, 1)));

    return (double_pair){ 0.5 * twice.high, 0.5 * twice.low };
}

/* e^x / 2 for large x. */
static double half_power(double x)
{
    int64_t n;
    const double_pair power = exp_pair((double_pair){ x, 0 }, &n);

    return scaled(power.high, n - 1);
}

double uniform_sinh(double x)
{
    const double a = fabs(x);
    double y;
    double_pair up, down;

    if (x != x || a == INFINITY || a < 0x1p-27)
        return x;
    if (a > 711)
        return copysign(INFINITY, x);
    if (a < 0.34)
        return low_sinh(x).high;
    if (a >= 40)
        return copysign(half_power(a), x);
    both_powers(a, &up, &down);
    y = 0.5 * add(up, negative(down)).high;
    return copysign(y, x);
}

double uniform_cosh(double x)
{
    const double a = fabs(x);
    double_pair up, down;

    if (x != x)
        return x;
    if (a > 711)
        return INFINITY;
    if (a >= 40)
        return half_power(a);
    both_powers(a, &up, &down);
    return 0.5 * add(up, down).high;
}

double uniform_tanh(double x)
{
    const double a = fabs(x);
    double_pair up, down, y;

    if (x != x || a < 0x1p-27)
        return x;
    if (a > 22)
        return copysign(1, x);
    both_powers(a, &up, &down);
    y = a < 0.34 ? low_sinh(a) : add(up, negative(down));
    if (a < 0.34)
        y = (double_pair){ 2 * y.high, 2 * y.low };
    return copysign(divide(y, add(up, down)).high, x);
}

double uniform_asinh(double x)
{
    const double a = fabs(x);
    double y;

    if (x != x || a == INFINITY || a < 0x1p-27)
        return x;
    if (a > 0x1p300) /* 2 a may overflow */
        y = add(full_log((double_pair){ a, 0 }), ln2).high;
    else if (a < 0x1p-8) { /* the sum below would lose digits: a - a^3/6 + 3 a^5/40 - 5 a^7/112 + 35 a^9/1152 */
        const double z = a * a;

        y = a + a * z * (-1.0 / 6 + z * (3.0 / 40 + z * (-5.0 / 112 + z * (35.0 / 1152 - z * (63.0 / 2816)))));
    } else
        y = full_log(add_double(root_of(add_double(product_of(a, a), 1)), a)).high;
    return copysign(y, x);
}

double uniform_acosh(double x)
{
    if (!(x >= 1))
        return x != x ? x : NAN;
    if (x > 0x1p300)
        return x == INFINITY ? x : add(full_log((double_pair){ x, 0 }), ln2).high;
    return full_log(add_double(root_of(multiply(sum_of(x, 1), sum_of(x, -1))), x)).high;
}

double uniform_atanh(double x)
{
    const double a = fabs(x);
    double y;

    if (!(a <= 1))
        return x != x ? x : NAN;
    if (a < 0x1p-27)
        return x;
    if (a == 1)
        return copysign(INFINITY, x);
    if (a < 0x1p-6) { /* the quotient below would lose digits */
        const double z = a * a;

        y = 1.0 / 19;
        for (int n = 17; n >= 3; n -= 2)
            y = y * z + 1.0 / n;
        y = a + a * z * y;
    } else
        y = 0.5 * full_log(divide(sum_of(1, a), sum_of(1, -a))).high;
    return copysign(y, x);
}

static const double_pair two_over_root_pi = { 0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56 };

/* e^(-x^2) for 0 <= x < 27, times 2^-n. */
static double_pair bell_of(double x, int64_t *out_n)
{
    return exp_pair(negative(product_of(x, x)), out_n);
}

/* erf x = 2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...) for 0 <= x < 2. All terms are positive. */
static double_pair low_erf(double x)
{
    const double_pair square = product_of(x, x), twice = { 2 * square.high, 2 * square.low };
    double_pair term = { x, 0 }, sum = term, bell;
    int64_t n;

    for (int k = 3; term.high > sum.high * 0x1p-70; k += 2) {
        term = divide(multiply(term, twice), (double_pair){ k, 0 });
        sum = add(sum, term);
    }
    bell = multiply(multiply(bell_of(x, &n), two_over_root_pi), sum);
    return (double_pair){ bell.high * power_of_2(n), bell.low * power_of_2(n) };
}

/* erfc x for 2 <= x < 28 by Laplace's continued fraction, whose terms from the 80th on have no influence. */
static double high_erfc(double x)
{
    double fraction = x;
    int64_t n;
    double_pair bell = multiply(bell_of(x, &n), two_over_root_pi);

    for (int k = 80; k >= 2; k--)
        fraction = x + k * 0.5 / fraction;
    bell = divide(bell, add_double((double_pair){ x, 0 }, 0.5 / fraction));
    return scaled(bell.high, n - 1);
}

double uniform_erf(double x)
{
    const double a = fabs(x);
    double y;

    if (x != x || x == 0)
        return x;
    y = a < 0x1p-500 ? a * two_over_root_pi.high : a < 2 ? low_erf(a).high : a < 6 ? 1 - high_erfc(a) : 1;
    return copysign(y, x);
}

double uniform_erfc(double x)
{
    const double a = fabs(x);

    if (x != x)
        return x;
    if (a < 0x1p-60)
        return 1;
    if (x < -6)
        return 2;
    if (x >= 28)
        return 0;
    if (x >= 2)
        return high_erfc(x);
    if (x <= -2)
        return 2 - high_erfc(a);
    return add_double(x < 0 ? low_erf(a) : negative(low_erf(a)), 1).high;
}
