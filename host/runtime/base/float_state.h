/* base/float_state.h - the floating-point environment of a thread: rounding mode, flushing of denormals, traps.
 *
 * Plugins and their libraries may change it without restoring it, and later code on the thread would then compute
 * different results. Reading it costs about a nanosecond. */
#ifndef BASE_FLOAT_STATE_H
#define BASE_FLOAT_STATE_H
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t float_state;

#if defined(__x86_64__)
#define FLOAT_STATE_MXCSR UINT32_C(0xffc0) /* without the exception flags, which every operation may raise */

static inline float_state float_state_get(void)
{
    uint32_t mxcsr;
    uint16_t x87;

    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (mxcsr & FLOAT_STATE_MXCSR);
}

static inline void float_state_set(float_state state)
{
    uint32_t mxcsr = (uint32_t)state;
    uint16_t x87 = (uint16_t)(state >> 32);

    /* fnclex clears pending exceptions of the x87 unit, which fldcw would raise. */
    __asm__ volatile("fnclex; fldcw %0" : : "m"(x87));
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}
#elif defined(__aarch64__)
static inline float_state float_state_get(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static inline void float_state_set(float_state state)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(state));
}
#else
static inline float_state float_state_get(void)
{
    return 0;
}

static inline void float_state_set(float_state state)
{
    (void)state;
}
#endif

/* Restores the state that was read before; true if it had changed. */
static inline bool float_state_restore(float_state before)
{
    if (float_state_get() == before)
        return false;
    float_state_set(before);
    return true;
}
#endif
