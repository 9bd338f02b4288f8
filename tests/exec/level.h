/* level.h - the instruction-set level of this test run. */
#ifndef EXEC_LEVEL_H
#define EXEC_LEVEL_H
#include "base/isa.h"
#include "inlay/note.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Is the level below AVX2 with FMA, because of the CPU or INLAY_ISA (which providers read themselves)? Then the
 * provider cpu has few built-in kernels. */
static inline bool level_is_low(void)
{
    const char *isa = getenv("INLAY_ISA");

    return isa_in_use() < INLAY_ISA_X86_64_V3 || (isa != NULL && strcmp(isa, "baseline") == 0);
}
#endif
