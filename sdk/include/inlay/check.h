/* inlay/check.h - INLAY_CHECK(condition): states an invariant where code relies on it.
 *
 * With INLAY_CHECKS defined (option INLAY_CHECKS; presets dev, asan and tsan, and programs of libFuzzer), a condition
 * that is false is printed with its file and line, and the process aborts. Otherwise nothing is compiled, so the
 * condition must not have side effects. Use it for mistakes of the program only. Bad input is an inlay_status with a
 * message. */
#ifndef INLAY_CHECK_H
#define INLAY_CHECK_H

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
