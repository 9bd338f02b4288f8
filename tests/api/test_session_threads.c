/* One session used by several threads, each with a separate context: all threads compute the same results, and
 * ThreadSanitizer reports nothing, also while memory is trimmed. The models cover static plans, control flow and
 * data-dependent shapes. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, RUNS = 20 };

struct worker {
    inlay_session *session;
    const char *failure;
    uint64_t digest; /* hash of all outputs of the last run */
    uint32_t *ended; /* atomic: threads that have ended */
};

static uint64_t add_to_digest(uint64_t digest, const void *data, uint64_t bytes)
{
    const unsigned char *at = data;

    for (uint64_t i = 0; i < bytes; i++)
        digest = (digest ^ at[i]) * 1099511628211u;
    return digest;
}

/* Inputs that depend only on the element index, so that all threads compute the same results. */
static inlay_value *make_input(const inlay_io_info *info)
{
    int64_t dims[16];
    inlay_value *value = NULL;

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d] >= 0 ? info->dims[d] : 2;
    if (inlay_value_create(info->dtype, info->rank, dims, &value, NULL) != INLAY_OK)
        return NULL;
    for (int64_t i = 0; i < inlay_value_count(value); i++) {
        if (info->dtype == INLAY_FLOAT)
            ((float *)inlay_value_data(value))[i] = (float)(i % 7) - 2.5f;
        else if (info->dtype == INLAY_BOOL)
            ((uint8_t *)inlay_value_data(value))[i] = 1;
        else if (info->dtype == INLAY_INT64)
            ((int64_t *)inlay_value_data(value))[i] = 3;
    }
    return value;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    inlay_context *context = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_create(worker->session, &context, &diag) != INLAY_OK)
        worker->failure = "no context";
    for (uint32_t i = 0; worker->failure == NULL && i < inlay_session_input_count(worker->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value;
        (void)inlay_session_input(worker->session, i, &info);
        value = make_input(&info);
        if (value == NULL || inlay_context_set_input(context, i, value, &diag) != INLAY_OK)
            worker->failure = "an input was refused";
        inlay_value_unref(value);
    }
    for (int run = 0; worker->failure == NULL && run < RUNS; run++) {
        if (inlay_context_run(context, NULL, &diag) != INLAY_OK) {
            worker->failure = strdup(diag.text);
            break;
        }
        worker->digest = 14695981039346656037u;
        for (uint32_t i = 0; i < inlay_session_output_count(worker->session); i++) {
            const inlay_value *value = inlay_context_output(context, i);
            if (inlay_value_kind(value) == INLAY_KIND_TENSOR)
                worker->digest = add_to_digest(worker->digest, inlay_value_data(value), inlay_value_bytes(value));
        }
        if (run % 8 == 7 && inlay_context_trim(context, &diag) != INLAY_OK)
            worker->failure = "the context was not trimmed";
    }
    inlay_context_destroy(context);
    (void)__atomic_add_fetch(worker->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* trims: this thread trims the session while the others run. */
static void run_all(const char *path, bool trims)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    uint32_t ended = 0;
    inlay_session *session = NULL;

    if (inlay_session_create(path, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s: %s", path, diag.text);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .session = session, .ended = &ended };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    while (trims && __atomic_load_n(&ended, __ATOMIC_ACQUIRE) < THREADS)
        assert_int_equal(inlay_session_trim(session, &diag), INLAY_OK);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (workers[i].failure != NULL)
            fail_msg("%s: %s", path, workers[i].failure);
        assert_true(workers[i].digest == workers[0].digest);
    }
    inlay_session_destroy(session);
}

static void test_threads(void **state)
{
    static const char *const cases[] = {
        "node/test_relu",
        "node/test_loop11",
        "node/test_if",
        "node/test_scan9_sum",
        "node/test_nonzero_example",
        "pytorch-converted/test_Conv2d",
        "pytorch-converted/test_Linear",
        "pytorch-operator/test_operator_mm",
    };
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", ONNX_TEST_DATA, cases[i]);
        run_all(path, false);
        run_all(path, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
