/* The tables of operators for the instruction set in use. */
#include "operators/operator_settings.h"
#include "operators/work_ns.h"
#include "cpu/operators/operators.h"
#include "simd/instances.h"
#include <stdlib.h>

#define TABLE(stem) KERNEL_INSTANCES(kit_table, operators_##stem)
#include "operators/tables.def"
#undef TABLE

#define LEVEL(list)                                                                                                    \
    {                                                                                                                  \
        .name = "cpu", .tables = (list), .table_count = KIT_COUNT(list), .open = operator_settings_open,               \
        .close = free, .work_ns = operator_vector_work_ns                                                              \
    }

/* With CMake's INLAY_QUICK, and with option reproducible=cpu, provider reference computes single operators. */
const kit_provider *cpu_operators(void)
{
    static const kit_provider none = { .name = "cpu", .open = operator_settings_open, .close = free };

    if (cpu_uniform() != CPU_UNIFORM_NO)
        return &none;
#if defined(__x86_64__) && !defined(SIMD_ONLY)
#ifndef OPERATORS_WITHOUT_AVX512
    static const kit_table *const avx512[] = {
#define TABLE(stem) &operators_##stem##_avx512,
#include "operators/tables.def"
#undef TABLE
    };
    static const kit_provider with_avx512 = LEVEL(avx512);

    if (cpu_has(CPU_AVX512))
        return &with_avx512;
#endif
    static const kit_table *const avx2[] = {
#define TABLE(stem) &operators_##stem##_avx2,
#include "operators/tables.def"
#undef TABLE
    };
    static const kit_provider with_avx2 = LEVEL(avx2);

    if (cpu_has(CPU_AVX2))
        return &with_avx2;
#elif defined(__aarch64__) && !defined(SIMD_ONLY)
    static const kit_table *const neon[] = {
#define TABLE(stem) &operators_##stem##_neon,
#include "operators/tables.def"
#undef TABLE
    };
    static const kit_provider with_neon = LEVEL(neon);

    return &with_neon;
#elif defined(SIMD_RVV) && !defined(SIMD_ONLY)
    static const kit_table *const rvv[] = {
#define TABLE(stem) &operators_##stem##_rvv,
#include "operators/tables.def"
#undef TABLE
    };
    static const kit_provider with_rvv = LEVEL(rvv);

    if (cpu_has(CPU_RVV))
        return &with_rvv;
#endif
#if !defined(__aarch64__) || defined(SIMD_ONLY)
    return &none;
#endif
}
