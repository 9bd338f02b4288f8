/* instances.h - selection of the instance of a kernel: each kernel is compiled for several instruction sets (vec.h). */
#ifndef SIMD_INSTANCES_H
#define SIMD_INSTANCES_H
#include "simd/cpu.h"
#include <stddef.h>

/* Declares the instances of a kernel, constants of `type`: name_avx512, name_avx2, name_neon, name_rvv, name_wasm,
 * name_c. Only those of the architecture are defined. Uniform instances are only in the plugin cpu, so references to
 * them are weak. */
#define KERNEL_INSTANCES(type, name)                                                                                   \
    extern const type name##_avx512, name##_avx2, name##_neon, name##_rvv, name##_wasm, name##_c;                      \
    extern __attribute__((weak)) const type name##_uniform, name##_uniform_c;

/* All instances that a source may have, best first, and the condition to run each in this process. */
#define KERNEL_INSTANCE_LIST(X)                                                                                        \
    X(uniform, cpu_uniform() == CPU_UNIFORM_AVX2)                                                                      \
    X(uniform_c, cpu_uniform() == CPU_UNIFORM_C)                                                                       \
    X(amx, tile_problem() == NULL)                                                                                     \
    X(avx512_vnni, cpu_has_vnni())                                                                                     \
    X(avx_vnni, cpu_has_avx_vnni())                                                                                    \
    X(avx512, cpu_has(CPU_AVX512))                                                                                     \
    X(avx2, cpu_has(CPU_AVX2))                                                                                         \
    X(avx2_pairs, cpu_has(CPU_AVX2))                                                                                   \
    X(neon_i8mm, cpu_has_i8mm())                                                                                       \
    X(neon_dot, cpu_has_dot())                                                                                         \
    X(neon, true)                                                                                                      \
    X(rvv, cpu_has(CPU_RVV))                                                                                           \
    X(wasm, true)                                                                                                      \
    X(c, true)

/* The best instance that this process may use. With CMake's INLAY_QUICK there is only that of level SIMD_ONLY. */
#if defined(SIMD_ONLY)
#define KERNEL_OF_LEVEL(name, level) (&name##_##level)
#define KERNEL_OF(name, level) KERNEL_OF_LEVEL(name, level)
#define KERNEL_BEST(name) KERNEL_OF(name, SIMD_ONLY)
#elif defined(__x86_64__)
#define KERNEL_BEST(name)                                                                                              \
    (cpu_instance() == CPU_INSTANCE_AVX2       ? &name##_avx2                                                          \
     : cpu_instance_is(CPU_INSTANCE_AVX512)    ? &name##_avx512                                                        \
     : cpu_instance_is(CPU_INSTANCE_UNIFORM)   ? &name##_uniform                                                       \
     : cpu_instance_is(CPU_INSTANCE_UNIFORM_C) ? &name##_uniform_c                                                     \
                                               : &name##_c)
#elif defined(__aarch64__)
#define KERNEL_BEST(name) (cpu_instance() == CPU_INSTANCE_UNIFORM_C ? &name##_uniform_c : &name##_neon)
#elif defined(SIMD_RVV)
#define KERNEL_BEST(name)                                                                                              \
    (cpu_instance() == CPU_INSTANCE_RVV        ? &name##_rvv                                                           \
     : cpu_instance_is(CPU_INSTANCE_UNIFORM_C) ? &name##_uniform_c                                                     \
                                               : &name##_c)
#elif defined(__wasm__)
#define KERNEL_BEST(name) (cpu_instance() == CPU_INSTANCE_UNIFORM_C ? &name##_uniform_c : &name##_wasm)
#else
#define KERNEL_BEST(name) (cpu_instance() == CPU_INSTANCE_UNIFORM_C ? &name##_uniform_c : &name##_c)
#endif
#endif
