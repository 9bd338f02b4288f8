/* isa.c - detects the instruction sets of the CPU. */
#include "inlay/kit_call.h"
#include "inlay/note.h"
#if defined(__x86_64__)
#include <cpuid.h>

/* Does the operating system save the registers of AMX at context switches? CPUs with AVX have the instruction. */
static bool saves_tiles(void)
{
    const uint32_t tile_config = 1u << 17, tile_data = 1u << 18;
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & (tile_config | tile_data)) == (tile_config | tile_data);
}

/* Detects extensions with CPUID, because __builtin_cpu_supports has different names for them in GCC and Clang, and some
 * versions do not support them. */
static uint32_t detect_extensions(uint32_t level)
{
    const bool v4 = level >= INLAY_ISA_X86_64_V4;
    uint32_t a, b, c, d, extra = 0;

    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
        extra |= v4 && (c >> 11 & 1) != 0 ? INLAY_ISA_AVX512_VNNI : 0u;
        extra |= v4 && (c >> 1 & 1) != 0 ? INLAY_ISA_AVX512_VBMI : 0u;
        extra |= v4 && (d >> 23 & 1) != 0 ? INLAY_ISA_AVX512_FP16 : 0u;
        extra |= (d >> 22 & 1) != 0 && (d >> 24 & 3) == 3 && saves_tiles() ? INLAY_ISA_AMX : 0u;
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
        extra |= (a >> 4 & 1) != 0 ? INLAY_ISA_AVX_VNNI : 0u;
        extra |= v4 && (a >> 5 & 1) != 0 ? INLAY_ISA_AVX512_BF16 : 0u;
    }
    return extra;
}

static uint32_t detect(uint32_t *out_extra)
{
    uint32_t level = INLAY_ISA_BASELINE;

    /* also excludes extensions whose registers the operating system does not save at context switches */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        level = INLAY_ISA_X86_64_V2;
    if (level == INLAY_ISA_X86_64_V2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        level = INLAY_ISA_X86_64_V3;
    if (level == INLAY_ISA_X86_64_V3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        level = INLAY_ISA_X86_64_V4;
    *out_extra = level >= INLAY_ISA_X86_64_V3 ? detect_extensions(level) : 0;
    return level;
}

/* Virtual machines intercept CPUID, which then takes tens of microseconds, and providers ask when they are opened. */
static uint32_t known_extra, known_level = UINT32_MAX;

uint32_t kit_isa(uint32_t *out_extra)
{
    uint32_t extra, level = __atomic_load_n(&known_level, __ATOMIC_ACQUIRE);

    if (level == UINT32_MAX) {
        level = detect(&extra);
        __atomic_store_n(&known_extra, extra, __ATOMIC_RELAXED);
        __atomic_store_n(&known_level, level, __ATOMIC_RELEASE);
    }
    if (out_extra != NULL)
        *out_extra = __atomic_load_n(&known_extra, __ATOMIC_RELAXED);
    return level;
}
#else
uint32_t kit_isa(uint32_t *out_extra)
{
    if (out_extra != NULL)
        *out_extra = 0;
    return INLAY_ISA_BASELINE;
}
#endif
