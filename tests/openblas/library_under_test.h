/* library_under_test.h - the engine of provider openblas, opened once per program. */
#ifndef LIBRARY_UNDER_TEST_H
#define LIBRARY_UNDER_TEST_H
#include "openblas/blas.h"

/* Opens the system's library on the first call. */
const blas_engine *library_under_test(void);
#endif
