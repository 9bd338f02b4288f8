/* The level of an arm64 CPU, see cpu_arm64.h. */
#include "simd/cpu_arm64.h"
#include <sys/auxv.h>

/* HWCAP_ASIMDDP; HWCAP2_I8MM and HWCAP2_BF16, which older headers of Linux lack */
enum { BIT_DOT = 1 << 20, BITS_I8MM = 1 << 13 | 1 << 14 };

static cpu_level find_level(void)
{
    if ((getauxval(AT_HWCAP) & BIT_DOT) == 0 || !arm64_products_neon_dot())
        return CPU_BASELINE;
    return (getauxval(AT_HWCAP2) & BITS_I8MM) == BITS_I8MM && arm64_products_neon_i8mm() ? CPU_NEON_I8MM : CPU_NEON_DOT;
}

cpu_level cpu_arm64_level(void)
{
    static int known = -1; /* threads that find it at once write the same */
    int level = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (level < 0) {
        level = (int)find_level();
        __atomic_store_n(&known, level, __ATOMIC_RELAXED);
    }
    return (cpu_level)level;
}
