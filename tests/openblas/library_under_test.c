#include "library_under_test.h"
#include "inlay/host.h"
#include "gemm_under_test.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

const blas_engine *library_under_test(void)
{
    static blas_engine engine;
    inlay_host host = { .struct_size = sizeof host };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (getenv("OPENBLAS_CORETYPE") != NULL && blas_core_of_cpu() == NULL)
        skip(); /* the test requires kernels for AVX2, which this CPU does not support */
    if (engine.library.handle == NULL &&
        blas_engine_open(&host, BLAS_DEFAULT_LIBRARY, BLAS_DEFAULT_CORE, &engine, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return &engine;
}

const gemm_kernel *gemm_under_test(uint32_t type, uint32_t i)
{
    const blas_engine *engine = library_under_test();

    return i == 0 ? engine->engine.kernel(&engine->engine, type) : NULL;
}
