/* blas.h - OpenBLAS as an engine of products (providers/common/gemm.h). */
#ifndef BLAS_H
#define BLAS_H
#include "gemm.h"
#include "library.h"

/* What kit_node.provider points to. */
typedef struct blas_engine {
    gemm_engine engine; /* first: the operators in providers/common look for it there */
    blas_library library;
    gemm_kernel kernels[2]; /* GEMM_F32, GEMM_F64 */
} blas_engine;

/* Opens the library (see blas_library_open, also for what it returns) and makes *out an engine on it, which may not be
 * moved afterwards. Undone by blas_library_close(&out->library). */
INLAY_NODISCARD inlay_status blas_engine_open(const inlay_host *host, const char *library, const char *core,
                                              blas_engine *out, inlay_diag *diag);

/* kit_kernel.supports of all kernels: is the node a product that the library does well? */
bool blas_supports(const kit_node *node, kit_refusal *why);
#endif
