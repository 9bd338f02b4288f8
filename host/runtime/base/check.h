/* base/check.h - INLAY_CHECK(condition): an invariant, stated where code relies on it.
 *
 * Compiled in where the option INLAY_CHECKS is on (presets dev, asan and tsan, programs of libFuzzer): a condition that
 * does not hold is printed with its place, and the process aborts. Elsewhere nothing is compiled, so the condition must
 * have no effect. Never for bad input, which is a status and a sentence. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#ifdef INLAY_CHECKS
#include <stdio.h>
#include <stdlib.h>
#define INLAY_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)
#else
#define INLAY_CHECK(condition) ((void)sizeof(condition))
#endif

#endif
