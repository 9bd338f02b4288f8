/* math.h whose tests of a double convert none to a float: mingw-w64's choose among functions of all types, which
 * -Wconversion refuses. */
#ifndef WINDOWS_MATH_H
#define WINDOWS_MATH_H
#include_next <math.h>

#undef isnan
#undef isinf
#undef isfinite
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#endif
