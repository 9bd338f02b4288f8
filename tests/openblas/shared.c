/* A program that computes with OpenBLAS itself keeps the number of threads that it has chosen, and gets no message. */
#include "cmocka_all.h"
#include "inlay/host.h"
#include "openblas/blas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS = 8, ROUNDS = 2000 };
static char log_text[2048];
static blas_library library;
static int (*get_threads)(void);
static uint32_t wrong;

static void record_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    if (level <= INLAY_LOG_WARNING)
        (void)strncat(log_text, text, sizeof log_text - strlen(log_text) - 1);
}

static void *call_often(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        const int threads = blas_library_enter(&library);

        if (library.shared != NULL && get_threads() != 1)
            (void)__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
        blas_library_leave(&library, threads);
    }
    return unused;
}

static void test_threads_stay(void **state)
{
    inlay_host host = { .struct_size = sizeof host, .log = record_log };
    inlay_diag diag = INLAY_DIAG_INIT;
    pthread_t callers[CALLERS];
    void *handle, *symbol;
    int before;

    (void)state;
    assert_int_equal(setenv("OPENBLAS_NUM_THREADS", "2", 1), 0);
    handle = dlopen(BLAS_DEFAULT_LIBRARY, RTLD_NOW | RTLD_NODELETE);
    if (handle == NULL)
        skip();
    symbol = dlsym(handle, "openblas_get_num_threads");
    memcpy(&get_threads, &symbol, sizeof get_threads);
    assert_non_null(get_threads);
    before = get_threads(); /* 1 if there is one CPU */
    assert_int_equal(blas_library_open(&host, BLAS_DEFAULT_LIBRARY, BLAS_DEFAULT_CORE, &library, &diag), INLAY_OK);
    assert_ptr_equal(library.handle, handle);
    assert_int_equal(get_threads(), before);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < CALLERS; i++)
        (void)pthread_join(callers[i], NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(get_threads(), before);
    blas_library_close(&library);
    assert_int_equal(get_threads(), before);
    assert_string_equal(log_text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads_stay) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
