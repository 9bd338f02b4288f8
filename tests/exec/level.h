/* level.h - the level of instructions that this test runs on. */
#ifndef EXEC_LEVEL_H
#define EXEC_LEVEL_H
#include "base/isa.h"
#include "inlay/note.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Is it below AVX2 and FMA, by the CPU or by INLAY_ISA, which providers read themselves? The provider `cpu` has few
 * loops of its own then. */
static inline bool level_is_low(void)
{
    const char *isa = getenv("INLAY_ISA");

    return isa_in_use() < INLAY_ISA_X86_64_V3 || (isa != NULL && strcmp(isa, "baseline") == 0);
}
#endif
