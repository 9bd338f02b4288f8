/* operators.h - the provider cpu is two in one: regions of operators that have kernels of their own, and for the other
 * nodes the operators of providers/reference, compiled for the instructions of this CPU. */
#ifndef CPU_OPERATORS_H
#define CPU_OPERATORS_H
#include "inlay/kit.h"

/* The operators at the level of instructions in use; without tables where the provider reference has the same in plain
 * C. The level is fixed by the call. */
const kit_provider *cpu_operators(void);

/* In the cookies of its offers that are operators. */
#define CPU_COOKIE_OPERATOR (UINT64_C(1) << 63)

/* A provider that offers what `regions` offers, and each other node that cpu_operators() has a kernel for. Options are
 * those of regions, which opens first; operators read the same values. regions outlives it. */
inlay_provider cpu_combine(const inlay_provider *regions);
#endif
