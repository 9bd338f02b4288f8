/* The speed of matrix tiles (AMX). */
#include "base/clock.h"
#include "base/isa.h"
#include "inlay/note.h"
#include "measure/measure_parts.h"
#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 500, SLICES = 24, PRODUCTS = 4, TILES = 8, ROWS = 16, ROW_BYTES = 64 };

/* The operand of LDTILECFG. */
typedef struct tile_config {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Defines a function that executes ROUNDS times four products with separate sums: each takes about three times as long
 * as the next one must wait. */
#define TILE_LOOP(name, product)                                                                                       \
    __attribute__((target("amx-tile,amx-int8,amx-bf16"))) static void name(const tile_config *config)                  \
    {                                                                                                                  \
        int64_t rounds = ROUNDS;                                                                                       \
                                                                                                                       \
        __asm__ volatile(                                                                                              \
            "ldtilecfg %1\n\ttilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"             \
            "tilezero %%tmm4\n\ttilezero %%tmm5\n\ttilezero %%tmm6\n\ttilezero %%tmm7\n"                               \
            "1:\n\t" product " %%tmm6, %%tmm4, %%tmm0\n\t" product " %%tmm7, %%tmm4, %%tmm1\n\t" product               \
            " %%tmm6, %%tmm5, %%tmm2\n\t" product " %%tmm7, %%tmm5, %%tmm3\n\t"                                        \
            "dec %0\n\tjnz 1b\n\ttilerelease"                                                                          \
            : "+r"(rounds)                                                                                             \
            : "m"(*config)                                                                                             \
            : "cc");                                                                                                   \
    }
TILE_LOOP(multiply_bytes, "tdpbssd")
TILE_LOOP(multiply_bfloat16, "tdpbf16ps")

/* Linux 5.16 and later keep the registers only for processes that ask. */
static bool may_use_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    uint32_t extra;

    return isa_of_cpu(&extra) >= INLAY_ISA_X86_64_V4 && isa_in_use() >= INLAY_ISA_X86_64_V4 &&
           (extra & INLAY_ISA_AMX) != 0 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

/* depth: elements of a row. */
static double rate_of(void (*run)(const tile_config *config), int depth)
{
    tile_config config = { .palette = 1 };
    uint64_t least_ns = UINT64_MAX;

    for (int i = 0; i < TILES; i++) {
        config.row_bytes[i] = ROW_BYTES;
        config.rows[i] = ROWS;
    }
    for (int i = 0; i < SLICES; i++) {
        const uint64_t start = clock_ns();
        uint64_t ns;

        run(&config);
        ns = clock_ns() - start;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns > 0 ? 2.0 * ROUNDS * PRODUCTS * ROWS * ROWS * depth / (double)least_ns : 0;
}

void measure_tiles(double *out_bytes, double *out_bfloat16)
{
    const bool usable = may_use_tiles();

    *out_bytes = usable ? rate_of(multiply_bytes, ROW_BYTES) : 0;
    *out_bfloat16 = usable ? rate_of(multiply_bfloat16, ROW_BYTES / 2) : 0;
}
#else
void measure_tiles(double *out_bytes, double *out_bfloat16)
{
    *out_bytes = *out_bfloat16 = 0;
}
#endif
