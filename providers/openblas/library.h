/* library.h - libopenblas, opened while the program runs.
 *
 * The plugin does not link to it, for two reasons. The library reads its settings once, when it is loaded: Debian's
 * 0.3.21 takes a CPU that is newer than itself for a Haswell, which costs half the speed where there is AVX-512, and
 * its pthread flavour starts a thread for each CPU. And where it is missing, the provider says so in a sentence instead
 * of a plugin that does not load. The few prototypes that we need are below, so no -dev package is needed either. */
#ifndef LIBRARY_H
#define LIBRARY_H
#include "inlay/plugin.h"
#include <stdbool.h>

/* CBLAS: the layout of matrices and whether one is transposed. */
enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANS = 111, BLAS_TRANS = 112 };

typedef void (*blas_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                              int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*blas_dgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,
                              int lda, const double *b, int ldb, double beta, double *c, int ldc);
typedef void (*blas_sgemv_fn)(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                              const float *input, int incx, float beta, float *output, int incy);
typedef void (*blas_dgemv_fn)(int order, int trans, int m, int n, double alpha, const double *a, int lda,
                              const double *input, int incx, double beta, double *output, int incy);

/* How the library was built: what openblas_get_parallel() returns. */
enum { BLAS_SERIAL = 0, BLAS_PTHREAD = 1, BLAS_OPENMP = 2 };

#define BLAS_DEFAULT_LIBRARY "libopenblas.so.0"
#define BLAS_DEFAULT_CORE "auto"

typedef struct blas_library {
    void *handle;
    blas_sgemm_fn sgemm;
    blas_dgemm_fn dgemm;
    blas_sgemv_fn sgemv;
    blas_dgemv_fn dgemv;
    /* The OpenMP flavour only: it takes its number of threads from the calling thread's OpenMP setting. */
    int (*omp_get_max_threads)(void);
    void (*omp_set_num_threads)(int threads);
    int flavour;   /* BLAS_* */
    bool small;    /* its kernels are those for AVX-512, which take small products without packing */
    char core[32]; /* what the library says its kernels are for */
} blas_library;

/* Opens the library `name` (a soname, or an absolute path) with kernels for `core` ("auto": chosen for this CPU), or
 * joins the one that the process has loaded already. It is held to one thread: ours are the host's. Fails with
 * INLAY_UNSUPPORTED when there is none that can be used. One thread at a time (provider create); undone by
 * blas_library_close, after which the library stays mapped, because it is not made to be unloaded. */
INLAY_NODISCARD inlay_status blas_library_open(const inlay_host *host, const char *name, const char *core,
                                               blas_library *out, inlay_diag *diag);
void blas_library_close(blas_library *library);

/* Takes over what `from` holds, but for `small`, which others may be reading. */
void blas_library_move(blas_library *to, const blas_library *from);

/* The core type that "auto" stands for on this CPU; NULL: what the library finds. */
const char *blas_core_of_cpu(void);
/* The core type whose kernels the library will use when it is loaded; NULL: not known. */
const char *blas_core_expected(const char *core);
/* Are its kernels those for AVX-512? core may be NULL. */
bool blas_core_is_avx512(const char *core);
#endif
