/* loops.h - does cpu have built-in kernels here? On x86-64 they require AVX2. Elsewhere all CPUs have kernels for
 * packed weights. */
#ifndef TESTS_CPU_LOOPS_H
#define TESTS_CPU_LOOPS_H
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Is this process limited to x86-64 instruction sets below AVX2, by the CPU or by the cap of option isa? */
static inline bool is_below_avx2(void)
{
    const char *isa = getenv("INLAY_ISA");

#if defined(__x86_64__)
    return (isa != NULL && strcmp(isa, "baseline") == 0) || !__builtin_cpu_supports("avx2") ||
           !__builtin_cpu_supports("fma");
#else
    (void)isa;
    return false;
#endif
}
#endif
