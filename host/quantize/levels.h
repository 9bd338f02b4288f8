/* A function compiled once for each instruction-set level of x86-64 and chosen when it is called.
 *
 * Plugins have KIT_MULTIVERSION, which chooses when a file is loaded. That is too early in a program: its choices are
 * made before any constructor has run, so nothing that is preloaded can have its say about the CPU. */
#ifndef INLAY_QUANTIZE_LEVELS_H
#define INLAY_QUANTIZE_LEVELS_H

/* Defines `void name parameters`, which calls the always-inline `name##_loops` with `arguments`. */
#if defined(__x86_64__) && defined(__GNUC__)
#define LEVELS_BODY static inline __attribute__((always_inline)) void
#define LEVELS(linkage, name, parameters, arguments)                                   \
    __attribute__((target("arch=x86-64-v4"))) static void name##_v4 parameters         \
    {                                                                                  \
        name##_loops arguments;                                                        \
    }                                                                                  \
    __attribute__((target("arch=x86-64-v3"))) static void name##_v3 parameters         \
    {                                                                                  \
        name##_loops arguments;                                                        \
    }                                                                                  \
    linkage void name parameters                                                       \
    {                                                                                  \
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && \
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&  \
            __builtin_cpu_supports("avx512cd"))                                        \
            name##_v4 arguments;                                                       \
        else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&    \
                 __builtin_cpu_supports("bmi2"))                                       \
            name##_v3 arguments;                                                       \
        else                                                                           \
            name##_loops arguments;                                                    \
    }
#else
#define LEVELS_BODY static inline void
#define LEVELS(linkage, name, parameters, arguments) \
    linkage void name parameters                     \
    {                                                \
        name##_loops arguments;                      \
    }
#endif

#endif
