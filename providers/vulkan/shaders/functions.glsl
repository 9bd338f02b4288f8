// Elementary functions with errors of a few ulp. Vulkan allows drivers 2^-11 for sin, and 3 + 2|x| ulp for exp.

// c0 + c1 x + c2 x^2 + ..., the last coefficient first.
#define POLY_2(x, c2, c1, c0) fma(fma(c2, x, c1), x, c0)
#define POLY_3(x, c3, c2, c1, c0) fma(POLY_2(x, c3, c2, c1), x, c0)
#define POLY_4(x, c4, c3, c2, c1, c0) fma(POLY_3(x, c4, c3, c2, c1), x, c0)
#define POLY_5(x, c5, c4, c3, c2, c1, c0) fma(POLY_4(x, c5, c4, c3, c2, c1), x, c0)
#define POLY_8(x, c8, c7, c6, c5, c4, c3, c2, c1, c0) fma(fma(fma(POLY_5(x, c8, c7, c6, c5, c4, c3), x, c2), x, c1), x, c0)

// Applies the sign of x: odd functions are computed for |x|.
float with_sign(float y, float x) { return x < 0.0 ? -y : y; }

float two_to(int n) { return intBitsToFloat((clamp(n, -126, 127) + 127) << 23); }

// exp(x) for x in [-105, 89].
float exp_of(float x)
{
    const float n = floor(x * 1.44269504 + 0.5);
    const float r = fma(n, 2.12194440e-4, fma(n, -0.693359375, x));
    const int half_n = int(n) / 2;
    const float p = POLY_5(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                           5.0000001201e-1);

    return (fma(p * r, r, r) + 1.0) * two_to(half_n) * two_to(int(n) - half_n);
}
float f_exp(float x) { return is_nan(x) ? x : x > 89.0 ? inf() : x < -105.0 ? 0.0 : exp_of(x); }

// x > 0 and finite -> mantissa in [sqrt(1/2), sqrt(2)) and exponent
float mantissa_of(float x, out int e)
{
    const bool tiny = x < 1.17549435e-38;
    const uint b = floatBitsToUint(tiny ? x * 16777216.0 : x);
    float m = uintBitsToFloat((b & 0x007fffffu) | 0x3f000000u);

    e = int(b >> 23) - 126 - (tiny ? 24 : 0);
    if (m < 0.707106781) {
        m += m;
        e -= 1;
    }
    return m;
}

float f_log(float x)
{
    int e;
    float m, z, y;

    if (is_nan(x) || x < 0.0)
        return nan();
    if (x == 0.0)
        return -inf();
    if (is_inf(x))
        return x;
    m = mantissa_of(x, e) - 1.0;
    z = m * m;
    y = POLY_8(m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
               -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1) * m * z;
    y = fma(float(e), -2.12194440e-4, y);
    y = fma(z, -0.5, y);
    return fma(float(e), 0.693359375, m + y);
}

float log1p_of(float x) // x >= 0
{
    const float u = 1.0 + x;

    return u == 1.0 ? x : is_inf(u) ? u : f_log(u) * (x / (u - 1.0));
}

float expm1_of(float x)
{
    const float u = f_exp(x);

    if (is_nan(x) || abs(x) < 1e-7)
        return x;
    return abs(x) > 0.5 ? u - 1.0 : u == 1.0 ? x : (u - 1.0) * x / f_log(u);
}

// log(x) as a sum of two floats, for finite x > 0.
void log_in_two(float x, out float hi, out float lo)
{
    int e;
    const float m = mantissa_of(x, e);
    const float a = m - 1.0, r = 1.0 / (m + 1.0), q = r * a;
    const float rest = r * fma(q, -a, fma(q, -2.0, a)), s = q * q;
    const float p = POLY_4(s, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
    const float small = 2.0 * (rest + p * s * q), t = 2.0 * q, big = float(e) * 0.693359375; // exact

    hi = big + t;
    lo = (abs(big) > abs(t) ? t - (hi - big) : big - (hi - t)) + (fma(float(e), -2.12194440e-4, small));
}

float f_pow(float x, float y)
{
    const bool whole = floor(y) == y, odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
    const float a = abs(x);
    float hi, lo, t, low, r;

    if (y == 0.0 || x == 1.0)
        return 1.0;
    if (is_nan(x) || is_nan(y))
        return nan();
    if (is_inf(y))
        return a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? inf() : 0.0;
    if (x < 0.0 && !whole && !is_inf(x))
        return nan();
    if (whole && abs(y) <= 64.0) { // exact if the result is a float
        float power = x;

        r = 1.0;
        for (int n = int(abs(y)); n != 0; n >>= 1) {
            r = (n & 1) != 0 ? r * power : r;
            power *= power;
        }
        return y < 0.0 ? 1.0 / r : r;
    }
    if (a == 0.0 || is_inf(a)) {
        r = (a == 0.0) == (y > 0.0) ? 0.0 : inf();
    } else {
        log_in_two(a, hi, lo);
        t = clamp(y * hi, -200.0, 200.0);
        low = abs(t) < 200.0 ? fma(y, hi, -t) + y * lo : 0.0;
        r = f_exp(t);
        r = is_inf(r) ? r : fma(r, low, r);
    }
    return odd && (floatBitsToUint(x) >> 31) != 0u ? -r : r;
}

// sin and cos: x is reduced by multiples of pi / 4. For |x| > 8192 the results lose digits (README.md).
float sine(float x, bool cosine)
{
    const float a = abs(x);
    int j;
    float y, z, r;
    bool negative;

    if (is_nan(x) || is_inf(x))
        return nan();
    j = int(a * 1.27323954473516);
    j += j & 1;
    y = float(j);
    r = fma(y, -0.78515625, a);
    r = fma(y, -2.4187564849853515625e-4, r);
    r = fma(y, -3.77489497744594108e-8, r);
    j &= 7;
    negative = cosine ? (j == 2 || j == 4) : (j >= 4) != (x < 0.0);
    z = r * r;
    if (cosine == (j == 2 || j == 6)) {
        y = fma(fma(-1.9515295891e-4, z, 8.3321608736e-3), z, -1.6666654611e-1);
        y = fma(y * z, r, r);
        negative = cosine ? j == 2 : negative;
    } else {
        y = fma(fma(2.443315711809948e-5, z, -1.388731625493765e-3), z, 4.166664568298827e-2);
        y = fma(y * z, z, fma(z, -0.5, 1.0));
        negative = cosine ? j == 4 : negative;
    }
    return negative ? -y : y;
}

float f_atan(float x)
{
    const float a = abs(x);
    float base = 0.0, y = a, z;

    if (is_nan(x))
        return x;
    if (a > 2.414213562373095) {
        base = 1.5707963267948966;
        y = -1.0 / a;
    } else if (a > 0.4142135623730950) {
        base = 0.7853981633974483;
        y = (a - 1.0) / (a + 1.0);
    }
    z = y * y;
    y += POLY_3(z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1) * z * y;
    y += base;
    return with_sign(y, x);
}

// The arguments of f_atan() are accurate to a few ulp. For |x| > 1 the root would be NaN.
float f_asin(float x) { return abs(x) > 1.0 ? nan() : 2.0 * f_atan(x / (1.0 + sqrt((1.0 - x) * (1.0 + x)))); }
float f_acos(float x) { return abs(x) > 1.0 ? nan() : 2.0 * f_atan(sqrt((1.0 - x) / (1.0 + x))); }

float f_tanh(float x)
{
    const float t = expm1_of(min(2.0 * abs(x), 30.0));

    return is_nan(x) ? x : with_sign(t / (t + 2.0), x);
}
float f_sinh(float x)
{
    const float a = abs(x), t = expm1_of(min(a, 40.0)), e = f_exp(0.5 * a); // e^x may overflow although its half does not

    return is_nan(x) ? x : with_sign(a > 40.0 ? 0.5 * e * e : 0.5 * (t + t / (t + 1.0)), x);
}
float f_cosh(float x)
{
    const float e = f_exp(0.5 * abs(x));

    return abs(x) > 40.0 ? 0.5 * e * e : 0.5 * (e * e + 1.0 / (e * e));
}
float f_asinh(float x)
{
    const float a = abs(x);
    float y;

    if (is_nan(x) || is_inf(x))
        return x;
    y = a > 1e9 ? f_log(a) + 0.693147181 : log1p_of(a + a * a / (1.0 + sqrt(fma(a, a, 1.0))));
    return with_sign(y, x);
}
float f_acosh(float x)
{
    const float t = x - 1.0;

    if (is_nan(x) || x < 1.0)
        return nan();
    return x > 1e9 ? f_log(x) + 0.693147181 : log1p_of(t + sqrt(fma(t, t, 2.0 * t)));
}
float f_atanh(float x)
{
    const float a = abs(x);
    float y;

    if (is_nan(x) || a > 1.0)
        return nan();
    y = a == 1.0 ? inf() : 0.5 * log1p_of(2.0 * a / (1.0 - a));
    return with_sign(y, x);
}

float f_erf(float x)
{
    const float t = abs(x), s = x * x;
    float r, u;

    if (is_nan(x))
        return x;
    if (t > 4.0)
        return with_sign(1.0, x);
    if (t > 0.927734375) {
        u = fma(-3.88396438e-3, t, 2.42546219e-2);
        r = fma(fma(-1.72853470e-5, t, 3.83197126e-4), s, u);
        r = fma(POLY_3(t, r, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1), t, -t);
        return with_sign(1.0 - f_exp(r), x);
    }
    r = POLY_5(s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1);
    return fma(r, x, x);
}

float f_sigmoid(float x)
{
    const float e = f_exp(-abs(x));

    return x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
float f_softplus(float x) { return is_nan(x) ? x : max(x, 0.0) + log1p_of(f_exp(-abs(x))); }
float f_round(float x)
{
    const float f = floor(x), d = x - f;

    if (is_nan(x) || is_inf(x) || d == 0.0)
        return x;
    return d < 0.5 || (d == 0.5 && mod(f, 2.0) == 0.0) ? f : f + 1.0;
}
// NaN stays NaN.
float f_max(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : a < b ? b : a; }
float f_min(float a, float b) { return is_nan(a) ? a : is_nan(b) ? b : b < a ? b : a; }
float f_fmod(float a, float b)
{
    if (is_nan(a) || is_nan(b) || is_inf(a) || b == 0.0)
        return nan();
    return is_inf(b) ? a : a - b * trunc(a / b);
}
// GPUs divide with errors of up to 2.5 ulp, which changes a quotient that is then rounded to an integer. The remainder
// corrects it, except where an intermediate result leaves the range of floats.
float f_div(float a, float b)
{
    const float q = a / b;
    precise const float better = fma(fma(-q, b, a), 1.0 / b, q);

    return better != 0.0 && abs(better) < 3.0e38 ? better : q; // q has the sign of a zero
}
