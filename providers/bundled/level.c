#include "bundled/bundled.h"
#include "simd/cpu.h"
#include "simd/row_set.h"

uint32_t bundle_level(void)
{
    /* programs have neither tiles nor the kernels of newer arm64 CPUs */
    const uint32_t level = cpu_has(CPU_AVX512) ? 3 : cpu_has(CPU_AVX2) ? 2 : 1;

    return level + (cpu_has_vnni() ? 16 : cpu_has_avx_vnni() ? 32 : 0);
}

void bundle_limit_isa(const char *isa)
{
    (void)cpu_limit_isa(isa, NULL);
}

bool bundle_use_uniform(void)
{
    const bool has = &rows_uniform != NULL || &rows_uniform_c != NULL;

    if (has)
        (void)cpu_use_uniform(NULL);
    return has;
}

void bundle_limit_byte_kernels(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512vnni"))
        bundle_limit_isa("avx2");
#endif
}
