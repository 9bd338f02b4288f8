/* Replaces functions of the C library in this plugin: libm selects their code by the CPU, and its results differ in the
 * last bit. tests/kernels/plain.sh checks that the plugin imports none that is not exact. */
#include "simd/uniform_math.h"

#define WITH_FLOAT(name)                                                                                               \
    double name(double x);                                                                                             \
    float name##f(float x);                                                                                            \
    double name(double x)                                                                                              \
    {                                                                                                                  \
        return uniform_##name(x);                                                                                      \
    }                                                                                                                  \
    float name##f(float x)                                                                                             \
    {                                                                                                                  \
        return (float)uniform_##name((double)x);                                                                       \
    }
WITH_FLOAT(exp)
WITH_FLOAT(expm1)
WITH_FLOAT(log)
WITH_FLOAT(log2)
WITH_FLOAT(log10)
WITH_FLOAT(log1p)
WITH_FLOAT(sin)
WITH_FLOAT(cos)
WITH_FLOAT(tan)
WITH_FLOAT(asin)
WITH_FLOAT(acos)
WITH_FLOAT(atan)
WITH_FLOAT(sinh)
WITH_FLOAT(cosh)
WITH_FLOAT(tanh)
WITH_FLOAT(asinh)
WITH_FLOAT(acosh)
WITH_FLOAT(atanh)
WITH_FLOAT(erf)
WITH_FLOAT(erfc)

double pow(double x, double y);
float powf(float x, float y);
void sincos(double x, double *sine, double *cosine);
void sincosf(float x, float *sine, float *cosine);

double pow(double x, double y)
{
    return uniform_pow(x, y);
}

float powf(float x, float y)
{
    return (float)uniform_pow((double)x, (double)y);
}

/* Compilers replace calls of sin and cos with the same argument by this one. */
void sincos(double x, double *sine, double *cosine)
{
    *sine = uniform_sin(x);
    *cosine = uniform_cos(x);
}

void sincosf(float x, float *sine, float *cosine)
{
    *sine = (float)uniform_sin((double)x);
    *cosine = (float)uniform_cos((double)x);
}
