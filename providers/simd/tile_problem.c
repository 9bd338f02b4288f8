/* Permission to use the registers of AMX, and a test of its products, see cpu.h. */
#include "simd/tile_products.h"
#include "simd/cpu_integers.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(SIMD_ONLY)
#include <sys/syscall.h>

/* Linux 5.16 and later save this state only for processes that ask. All threads of the process, also those that exist
 * already, get the permission. */
static const char *ask_permission(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0)
        return NULL;
    return errno == ENOSPC ? "AMX is not used: an alternate signal stack of this process is too small for its registers"
           : errno == EPERM ? "AMX is not used: a filter of system calls (seccomp) forbids arch_prctl"
                            : "AMX is not used: the kernel does not permit it to this process";
}

/* Do products of AMX equal their definition? */
static bool products_are_right(void)
{
    union operand {
        uint8_t bytes[TILE_ROWS][TILE_BYTES];
        uint16_t halves[TILE_ROWS][TILE_BYTES / 2];
    } a, b, c[2];
    uint32_t noise = 1;

    for (tile_kind kind = 0; kind < TILE_KINDS; kind++) {
        for (int r = 0; r < TILE_ROWS; r++)
            for (int i = 0; i < TILE_BYTES / 2; i++) {
                noise = noise * 1664525 + 1013904223;
                /* bfloat16: both signs, 1/16 to 8 */
                a.halves[r][i] = (uint16_t)(kind == TILE_BF16 ? (noise >> 16 & 0x83ff) | 0x3c00 : noise >> 16);
                b.halves[r][i] = (uint16_t)(kind == TILE_BF16 ? (noise >> 8 & 0x83ff) | 0x3c00 : noise >> 8);
            }
        memset(c, 0, sizeof c);
        tile_products_amx.product(kind, TILE_ROWS, TILE_ROWS, TILE_ROWS, &a, &b, &c[0]);
        tile_products_c.product(kind, TILE_ROWS, TILE_ROWS, TILE_ROWS, &a, &b, &c[1]);
        if (memcmp(&c[0], &c[1], sizeof c[0]) != 0)
            return false;
    }
    return true;
}

static const char *find_problem(void)
{
    const char *problem;

    if (cpu_level_of_integers() < CPU_AMX)
        return "AMX is not used: the CPU lacks it, or option isa excludes it";
    problem = ask_permission();
    return problem != NULL         ? problem
           : !products_are_right() ? "AMX is not used: its products differ from their definition on this CPU"
                                   : NULL;
}

const char *tile_problem(void)
{
    static const char *problem; /* written before `known`; threads that compute it at once write the same */
    static int known;

    if (__atomic_load_n(&known, __ATOMIC_ACQUIRE) == 0) {
        __atomic_store_n(&problem, find_problem(), __ATOMIC_RELAXED);
        __atomic_store_n(&known, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&problem, __ATOMIC_RELAXED);
}
#else
const char *tile_problem(void)
{
    return "AMX is not used: this build has no kernels for it";
}
#endif
