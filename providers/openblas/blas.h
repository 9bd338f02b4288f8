/* blas.h - OpenBLAS as an engine of products (providers/common/gemm.h). */
#ifndef BLAS_H
#define BLAS_H
#include "gemm.h"
#include "library.h"
#include <pthread.h>

/* What kit_node.provider points to. */
typedef struct blas_engine {
    gemm_engine engine; /* first: the operators in providers/common look for it there */
    bool strict;        /* products add few terms in a row */
    blas_library library;
    gemm_kernel kernels[2]; /* GEMM_F32, GEMM_F64 */
    char *awaited;          /* its name, until it is opened */
} blas_engine;

/* Opens the library (see blas_library_open, also for what it returns) and makes *out an engine on it, which may not be
 * moved afterwards. Undone by blas_library_close(&out->library). */
INLAY_NODISCARD inlay_status blas_engine_open(const inlay_host *host, const char *library, const char *core,
                                              blas_engine *out, inlay_diag *diag);

/* As blas_engine_open, but the library is opened when it is first needed: that takes some milliseconds, and most
 * sessions leave all products to others. It is opened at once where it may not be there to be opened, or not be what
 * it should: when the user chose it (either argument is not the default), when it lies in no folder of the system's
 * loader, and when the process has it already. Until then prices suppose what the library will choose on this CPU.
 * Undone by blas_engine_close, also when it fails. library, core: copied. */
INLAY_NODISCARD inlay_status blas_engine_await(const inlay_host *host, const char *library, const char *core,
                                               blas_engine *out, inlay_diag *diag);
/* For precision strict; right after it was opened or is awaited. */
void blas_engine_be_strict(blas_engine *engine);
/* Opens the library if that is still to be done; before the first product. From any thread. */
INLAY_NODISCARD inlay_status blas_engine_need(const inlay_host *host, blas_engine *engine, inlay_diag *diag);
void blas_engine_close(blas_engine *engine);

/* kit_kernel.supports of all kernels: is the node a product that the library does well? */
bool blas_supports(const kit_node *node, kit_refusal *why);
#endif
