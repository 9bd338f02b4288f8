/* library.h - libopenblas, opened at run time.
 *
 * The plugin does not link to the library for two reasons. First, the library reads its settings once, when it is
 * loaded: Debian's 0.3.21 treats a CPU newer than itself as a Haswell, which halves the speed on AVX-512, and its
 * pthread flavour starts a thread for each CPU. Second, if the library is missing, the provider reports an error
 * instead of a plugin that fails to load. The required prototypes are declared below, so no -dev package is needed. */
#ifndef OPENBLAS_LIBRARY_H
#define OPENBLAS_LIBRARY_H
#include "inlay/status.h"
#include <stdbool.h>

struct inlay_host;

/* Constants of CBLAS: the layout of matrices and their transposition. */
enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANS = 111, BLAS_TRANS = 112 };

typedef void (*blas_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                              int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*blas_dgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,
                              int lda, const double *b, int ldb, double beta, double *c, int ldc);
typedef void (*blas_sgemv_fn)(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                              const float *input, int incx, float beta, float *output, int incy);
typedef void (*blas_dgemv_fn)(int order, int trans, int m, int n, double alpha, const double *a, int lda,
                              const double *input, int incx, double beta, double *output, int incy);

/* The threading of the library's build, as returned by openblas_get_parallel(). */
enum { BLAS_SERIAL = 0, BLAS_PTHREAD = 1, BLAS_OPENMP = 2 };

#define BLAS_DEFAULT_LIBRARY "libopenblas.so.0"
#define BLAS_DEFAULT_CORE "auto"

typedef struct blas_library {
    void *handle;
    blas_sgemm_fn sgemm;
    blas_dgemm_fn dgemm;
    blas_sgemv_fn sgemv;
    blas_dgemv_fn dgemv;
    /* Only for the OpenMP flavour, which takes its number of threads from the calling thread's OpenMP setting. */
    int (*omp_get_max_threads)(void);
    void (*omp_set_num_threads)(int threads);
    int flavour;                 /* BLAS_* */
    struct held_library *shared; /* the program loaded the library, which has threads; NULL: it has one thread */
    bool small;    /* the library has kernels that multiply small matrices without packing them (for AVX-512 only) */
    char core[32]; /* the core type of the kernels in use, as the library names it */
} blas_library;

/* Opens the library `name` (a soname or an absolute path) with kernels for `core` ("auto": chosen for this CPU) and one
 * thread, because the host's threads call it, or uses the one that the process has already loaded, whose threads are
 * the program's: calls are then between blas_library_enter() and _leave(). INLAY_UNSUPPORTED: no usable library.
 * Thread-safe. Undone by blas_library_close; the library stays mapped afterwards, because it does not support
 * unloading. */
INLAY_NODISCARD inlay_status blas_library_open(const struct inlay_host *host, const char *name, const char *core,
                                               blas_library *out, inlay_diag *diag);
void blas_library_close(blas_library *library);

/* While calls are active, the library has one thread, also for the program. Returns a number for the matching
 * blas_library_leave(). Thread-safe. */
int blas_library_enter(const blas_library *library);
void blas_library_leave(const blas_library *library, int threads);

/* Moves the handle and functions of `from` to `to`, except `small`, which other threads may be reading. */
void blas_library_move(blas_library *to, const blas_library *from);

/* The core type that "auto" selects on this CPU; NULL: the library's choice. */
const char *blas_core_of_cpu(void);
/* The core type whose kernels the library will use when it is loaded; NULL: not known. */
const char *blas_core_expected(const char *core);
/* Whether the core type has kernels for AVX-512. core may be NULL. */
bool blas_core_is_avx512(const char *core);
#endif
