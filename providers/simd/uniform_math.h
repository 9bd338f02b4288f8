/* uniform_math.h - elementary functions with the same results on every CPU and with every C library. libm selects its
 * code by the CPU, and its results differ in the last bit.
 *
 * They follow C's Annex F, and their errors are below 1 ulp (asinh, acosh, atanh: 2 ulp), see tests/ops/uniform_math.c.
 * They consist of additions, multiplications, divisions and square roots, which IEEE 754 defines exactly; the file is
 * compiled without contraction. Thread-safe. */
#ifndef SIMD_UNIFORM_MATH_H
#define SIMD_UNIFORM_MATH_H

double uniform_exp(double x);
double uniform_expm1(double x);
double uniform_log(double x);
double uniform_log2(double x);
double uniform_log10(double x);
double uniform_log1p(double x);
double uniform_pow(double x, double y);
double uniform_sin(double x);
double uniform_cos(double x);
double uniform_tan(double x);
double uniform_asin(double x);
double uniform_acos(double x);
double uniform_atan(double x);
double uniform_sinh(double x);
double uniform_cosh(double x);
double uniform_tanh(double x);
double uniform_asinh(double x);
double uniform_acosh(double x);
double uniform_atanh(double x);
double uniform_erf(double x);
double uniform_erfc(double x);
#endif
