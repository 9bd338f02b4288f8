/* operators.h - provider cpu combines two providers: regions of operators with built-in kernels, and single operators
 * of providers/operators, compiled for the instruction set of this CPU, for the remaining nodes. */
#ifndef CPU_OPERATORS_H
#define CPU_OPERATORS_H
#include "inlay/kit.h"

/* The operators for the instruction set in use. Has no tables where that is plain C, which provider reference already
 * offers. The first call fixes the instruction set. */
const kit_provider *cpu_operators(void);

/* Bit in the cookies of offers of single operators. */
#define CPU_COOKIE_OPERATOR (UINT64_C(1) << 63)

/* A provider that makes the offers of `regions`, and one for each other node that cpu_operators() has a kernel for. It
 * has the options of `regions`, which is created first; the operators read the same values. `regions` must outlive it.
 */
inlay_provider cpu_combine(const inlay_provider *regions);
#endif
