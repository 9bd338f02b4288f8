/* inlay/check.h - INLAY_CHECK(condition): states an invariant where code relies on it.
 *
 * With INLAY_CHECKS defined (by CMake option INLAY_CHECKS, the presets dev, asan and tsan, and the fuzz targets), a
 * false condition is printed to stderr with its file and line, and the process aborts. Otherwise the condition is not
 * evaluated, so it must not have side effects. Use the macro for programming errors only. Report invalid input by an
 * inlay_status with a message. */
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
