/* How provider openblas opens its library: the choice of library, its settings, and the effects on the process. */
#include "common/library.h"
#include "inlay/host.h"
#include "../support/process_counts.h"
#include "openblas/blas.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;
static char log_text[2048];

static void record_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)strncat(log_text, text, sizeof log_text - strlen(log_text) - 1);
}

static inlay_status open_library(const char *name, const char *core, blas_library *out, inlay_diag *diag)
{
    inlay_host host = { .struct_size = sizeof host, .log = record_log };

    *diag = (inlay_diag)INLAY_DIAG_INIT;
    log_text[0] = '\0';
    return blas_library_open(&host, name, core, out, diag);
}

/* A missing library is searched once: further sessions fail with the same message and use no more memory. */
static void test_missing(void **state)
{
    blas_library lib;
    inlay_diag diag;
    char first[sizeof diag.text];
    size_t held = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(open_library("libno-such-blas.so.7", "auto", &lib, &diag), INLAY_UNSUPPORTED);
        if (i == 0)
            memcpy(first, diag.text, sizeof first);
        if (i == 100)
            held = mallinfo2().uordblks;
        assert_string_equal(diag.text, first);
    }
    assert_true(mallinfo2().uordblks <= held);
    assert_int_equal(setenv("LD_DEBUG_OF_NOBODY", "1", 1), 0); /* the user's environment is restored */
    assert_string_equal(getenv("LD_DEBUG_OF_NOBODY"), "1");
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    for (int i = 0; i < 40; i++) { /* each missing library is remembered separately */
        char name[40];

        (void)snprintf(name, sizeof name, "libno-such-blas.so.%d", 100 + i);
        assert_int_equal(open_library(name, "auto", &lib, &diag), INLAY_UNSUPPORTED);
        assert_non_null(strstr(diag.text, name));
    }
}

static void test_refusals(void **state)
{
    blas_library lib;
    inlay_diag diag;

    (void)state;
    assert_int_equal(open_library("libno-such-blas.so.9", "auto", &lib, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "install libopenblas0-pthread or set openblas.library"));
    assert_int_equal(open_library("/nowhere/libopenblas.so.0", "auto", &lib, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(open_library("libm.so.6", "auto", &lib, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "is not OpenBLAS"));
    assert_int_equal(open_library("./libopenblas.so.0", "auto", &lib, &diag), INLAY_INVALID_ARGUMENT);
    if (blas_core_of_cpu() == NULL || strcmp(blas_core_of_cpu(), "SkylakeX") != 0) {
        assert_int_equal(open_library("libopenblas.so.0", "SkylakeX", &lib, &diag), INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, "openblas.core is 'SkylakeX', whose instructions this CPU"));
    }
    assert_null(lib.handle);
    blas_library_close(&lib);
    blas_library_close(NULL);
}

/* The first open chooses the kernels; no thread is started, and the user's environment does not change. */
static void test_settings(void **state)
{
    char **before = environ;
    int threads = thread_count();
    blas_library lib, again;
    inlay_diag diag;

    (void)state;
    assert_int_equal(open_library("libopenblas.so.0", "auto", &lib, &diag), INLAY_OK);
    assert_null(strstr(log_text, "had already loaded it")); /* loaded by this provider */
    assert_ptr_equal(environ, before);
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    assert_null(getenv("OPENBLAS_CORETYPE"));
    assert_int_equal(thread_count(), threads);
    if (blas_core_of_cpu() != NULL)
        assert_string_equal(lib.core, blas_core_of_cpu());
    assert_int_equal(lib.small, strcmp(lib.core, "SkylakeX") == 0);
    /* The kernels do not change; a request for another core type is logged. */
    assert_int_equal(open_library("libopenblas.so.0", "Prescott", &again, &diag), INLAY_OK);
    assert_ptr_equal(again.handle, lib.handle);
    assert_non_null(strstr(log_text, "Prescott"));
    assert_null(strstr(log_text, "had already loaded it"));
    blas_library_close(&again);
    blas_library_close(&lib);
    assert_int_equal(thread_count(), threads);
}

/* With default settings the library is opened at the first GEMM; costs before that assume its kernels. */
static void test_lazy_open(void **state)
{
    inlay_host host = { .struct_size = sizeof host, .log = record_log };
    inlay_diag diag = INLAY_DIAG_INIT;
    int threads = thread_count();
    char **before = environ;
    const gemm_kernel *kernel;
    uint32_t packs;
    blas_engine engine;

    (void)state;
    assert_false(library_is_available_unloaded("libno-such-blas.so.9"));
    assert_int_equal(blas_engine_open_lazily(&host, BLAS_DEFAULT_LIBRARY, BLAS_DEFAULT_CORE, &engine, &diag), INLAY_OK);
    assert_int_equal(engine.library.handle == NULL, engine.pending_library != NULL);
    kernel = engine.engine.kernel(&engine.engine, GEMM_F32);
    packs = kernel->packs;
    assert_int_equal(blas_engine_ensure_open(&host, &engine, &diag), INLAY_OK);
    assert_non_null(engine.library.handle);
    assert_null(engine.pending_library);
    assert_ptr_equal(environ, before);
    assert_int_equal(thread_count(), threads);
    assert_non_null(engine.library.sgemm);
    assert_int_equal(kernel->packs, packs);
    assert_int_equal(engine.library.small, packs != 0);
    assert_int_equal(blas_engine_ensure_open(&host, &engine, &diag), INLAY_OK);
    blas_engine_close(&engine);
    /* A library or core type chosen by the user is opened at once, so that errors are reported at once. */
    assert_int_equal(blas_engine_open_lazily(&host, "libno-such-blas.so.9", BLAS_DEFAULT_CORE, &engine, &diag),
                     INLAY_UNSUPPORTED);
    blas_engine_close(&engine);
    assert_int_equal(blas_engine_open_lazily(&host, BLAS_DEFAULT_LIBRARY, "Haswell", &engine, &diag), INLAY_OK);
    assert_null(engine.pending_library);
    blas_engine_close(&engine);
}

enum { CALLERS = 24, SIZE = 130 };
struct caller {
    const blas_library *lib;
    float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
    uint32_t wrong;
};

static void *multiply_often(void *arg)
{
    struct caller *me = arg;

    for (int round = 0; round < 20; round++) {
        me->lib->sgemm(BLAS_ROW_MAJOR, BLAS_NO_TRANS, BLAS_NO_TRANS, SIZE, SIZE, SIZE, 1, me->a, SIZE, me->b, SIZE, 0,
                       me->c, SIZE);
        for (int i = round % 7; i < SIZE * SIZE; i += 97) {
            float sum = 0;
            for (int k = 0; k < SIZE; k++)
                sum += me->a[i / SIZE * SIZE + k] * me->b[k * SIZE + i % SIZE];
            me->wrong += sum != me->c[i];
        }
    }
    return NULL;
}

static void test_many_callers(void **state)
{
    struct caller *callers = calloc(CALLERS, sizeof *callers);
    pthread_t threads[CALLERS];
    int before = thread_count();
    blas_library lib;
    inlay_diag diag;

    (void)state;
    assert_non_null(callers);
    assert_int_equal(open_library("libopenblas.so.0", "auto", &lib, &diag), INLAY_OK);
    for (int thread = 0; thread < CALLERS; thread++) {
        callers[thread].lib = &lib;
        for (int i = 0; i < SIZE * SIZE; i++) {
            callers[thread].a[i] = (float)((i + thread) % 7 - 3);
            callers[thread].b[i] = (float)((3 * i + thread) % 5 - 2);
        }
        assert_int_equal(pthread_create(&threads[thread], NULL, multiply_often, &callers[thread]), 0);
    }
    for (int thread = 0; thread < CALLERS; thread++) {
        (void)pthread_join(threads[thread], NULL);
        assert_int_equal(callers[thread].wrong, 0);
    }
    assert_true(thread_count() <= before); /* the library has started no thread */
    blas_library_close(&lib);
    free(callers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_missing),      cmocka_unit_test(test_lazy_open),
        cmocka_unit_test(test_settings), cmocka_unit_test(test_many_callers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
