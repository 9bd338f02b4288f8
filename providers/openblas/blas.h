/* blas.h - OpenBLAS as a GEMM engine (providers/operators/gemm.h). */
#ifndef BLAS_H
#define BLAS_H
#include "inlay/kit_table.h"
#include "operators/gemm.h"
#include "openblas/library.h"
#include <pthread.h>

struct inlay_host;

/* The struct that kit_node.provider points to. */
typedef struct blas_engine {
    gemm_engine engine; /* must be first: gemm_kernel_for() converts kit_node.provider to it */
    blas_library library;
    gemm_kernel kernels[2]; /* GEMM_F32, GEMM_F64 */
    char *pending_library;  /* name of the library until it is opened; owned; then NULL */
} blas_engine;

/* Opens the library (see blas_library_open for errors) and makes *out an engine that uses it. The engine must not be
 * moved afterwards. Close the library by blas_library_close(&out->library). */
INLAY_NODISCARD inlay_status blas_engine_open(const struct inlay_host *host, const char *library, const char *core,
                                              blas_engine *out, inlay_diag *diag);

/* Like blas_engine_open, but opens the library when it is first needed, because that takes some milliseconds and most
 * sessions assign all matrix multiplications to other providers. Opens it at once if opening may fail or the kernels
 * are uncertain: if the user has chosen it (an argument is not the default), if the system's loader does not find it,
 * or if the process has already loaded it. Until it is opened, costs assume the kernels that the library will choose
 * on this CPU. Call blas_engine_close afterwards, also on failure. library, core: copied. */
INLAY_NODISCARD inlay_status blas_engine_open_lazily(const struct inlay_host *host, const char *library,
                                                     const char *core, blas_engine *out, inlay_diag *diag);
/* Selects precision strict. Call right after blas_engine_open or blas_engine_open_lazily. */
void blas_engine_set_strict(blas_engine *engine);
/* Opens the library if it is pending. Call before the first GEMM. Thread-safe. */
INLAY_NODISCARD inlay_status blas_engine_ensure_open(const struct inlay_host *host, blas_engine *engine,
                                                     inlay_diag *diag);
void blas_engine_close(blas_engine *engine);

/* kit_kernel.supports of all kernels: whether the node is a matrix multiplication that suits the library. */
bool blas_supports(const kit_node *node, kit_refusal *why);
#endif
