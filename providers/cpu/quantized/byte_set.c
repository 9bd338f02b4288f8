/* Selects the int8 kernels for this CPU. CMake's INLAY_QUICK omits them. */
#include "cpu/quantized/byte_set.h"
#include "simd/cpu_integers.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(byte_set_of_cpu, CPU_BYTE_FAMILIES);
OPTIONAL_WITH(byte_set_of_pairs, CPU_BYTE_FAMILIES);

const byte_tiles *byte_tiles_of_cpu(void)
{
#if defined(__x86_64__) && !defined(SIMD_ONLY)
    return &byte_tiles_amx != NULL && cpu_has_vnni() && tile_problem() == NULL ? &byte_tiles_amx : NULL;
#else
    return NULL;
#endif
}

const byte_set *byte_set_of_cpu(void)
{
#if defined(SIMD_ONLY)
    return NULL;
#elif defined(__x86_64__)
    if (cpu_has_vnni())
        return &byte_set_avx512_vnni;
    if (cpu_has_avx_vnni())
        return &byte_set_avx_vnni;
    if (cpu_level_of_integers() >= CPU_AVX2)
        return &byte_set_avx2;
    return cpu_uniform() != CPU_UNIFORM_NO ? &byte_set_uniform_c : NULL;
#elif defined(__aarch64__)
    if (&byte_set_neon_i8mm != NULL && cpu_has_i8mm())
        return &byte_set_neon_i8mm;
    return &byte_set_neon_dot != NULL && cpu_has_dot() ? &byte_set_neon_dot : &byte_set_neon;
#elif defined(__wasm__)
    return &byte_set_wasm;
#else
    return NULL;
#endif
}

const byte_set *byte_set_of_pairs(void)
{
#if defined(__x86_64__) && !defined(SIMD_ONLY)
    return byte_set_of_cpu() == &byte_set_avx2 ? &byte_set_avx2_pairs : NULL;
#else
    return NULL;
#endif
}
