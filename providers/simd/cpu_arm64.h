/* cpu_arm64.h - the level of an arm64 CPU, for cpu.c. */
#ifndef SIMD_CPU_ARM64_H
#define SIMD_CPU_ARM64_H
#include "simd/cpu.h"

/* CPU_BASELINE, CPU_NEON_DOT or CPU_NEON_I8MM: the highest level whose instructions Linux reports and whose products
 * equal those of plain C. Thread-safe; the first call compares the products. */
cpu_level cpu_arm64_level(void);
/* Do the products of the level equal those of plain C? Only on CPUs that have its instructions. */
bool arm64_products_neon_dot(void);
bool arm64_products_neon_i8mm(void);
#endif
