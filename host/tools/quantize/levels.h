/* A function compiled once for each instruction-set level of x86-64 and chosen when it is called.
 *
 * Plugins have KIT_MULTIVERSION, which chooses when a file is loaded. That is too early in a program: its choices are
 * made before any constructor has run, so nothing that is preloaded can have its say about the CPU. */
#ifndef INLAY_QUANTIZE_LEVELS_H
#define INLAY_QUANTIZE_LEVELS_H
#include "base/isa.h"
#include "inlay/note.h"

/* Defines `void name parameters`, which calls the always-inline `name##_loops` with `arguments`. */
#if defined(__x86_64__) && defined(__GNUC__)
#define LEVELS_BODY static inline __attribute__((always_inline)) void
#define LEVELS(linkage, name, parameters, arguments)                                                                   \
    __attribute__((target("arch=x86-64-v4"))) static void name##_v4 parameters                                         \
    {                                                                                                                  \
        name##_loops arguments;                                                                                        \
    }                                                                                                                  \
    __attribute__((target("arch=x86-64-v3"))) static void name##_v3 parameters                                         \
    {                                                                                                                  \
        name##_loops arguments;                                                                                        \
    }                                                                                                                  \
    linkage void name parameters                                                                                       \
    {                                                                                                                  \
        const uint32_t level = isa_in_use();                                                                           \
                                                                                                                       \
        if (level >= INLAY_ISA_X86_64_V4)                                                                              \
            name##_v4 arguments;                                                                                       \
        else if (level >= INLAY_ISA_X86_64_V3)                                                                         \
            name##_v3 arguments;                                                                                       \
        else                                                                                                           \
            name##_loops arguments;                                                                                    \
    }
#else
#define LEVELS_BODY static inline void
#define LEVELS(linkage, name, parameters, arguments)                                                                   \
    linkage void name parameters                                                                                       \
    {                                                                                                                  \
        name##_loops arguments;                                                                                        \
    }
#endif

#endif
