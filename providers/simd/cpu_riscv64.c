/* The level of a riscv64 CPU, see cpu_riscv64.h. */
#include "simd/cpu_riscv64.h"

#if defined(SIMD_RVV)
#include <sys/auxv.h>

enum { BIT_V = 1 << ('v' - 'a'), REGISTER_BYTES = 32 };

/* Bytes of a vector register: vlenb, by its number, because this file is compiled without the extension. */
static unsigned long register_bytes(void)
{
    unsigned long bytes;

    __asm__("csrr %0, 0xc22" : "=r"(bytes));
    return bytes;
}

cpu_level cpu_riscv64_level(void)
{
    static int known = -1; /* threads that find it at once write the same */
    int level = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (level < 0) {
        const bool has = (getauxval(AT_HWCAP) & BIT_V) != 0 && register_bytes() == REGISTER_BYTES;

        level = has && riscv64_vectors_rvv() ? CPU_RVV : CPU_BASELINE;
        __atomic_store_n(&known, level, __ATOMIC_RELAXED);
    }
    return (cpu_level)level;
}
#else
cpu_level cpu_riscv64_level(void)
{
    return CPU_BASELINE;
}
#endif
