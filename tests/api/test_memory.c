/* Memory of runs: the caller's allocator, the budget, and the reported numbers. */
#include "rig.h"
#include <pthread.h>

/* An allocator that counts its calls and can fail. */
struct meter {
    uint64_t used, peak, calls, blocks; /* atomic */
    uint64_t fail_at;                   /* number of the call that fails; 0 = none */
    bool misused;                       /* atomic: an argument of alloc or free was invalid */
};

static void *meter_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    struct meter *meter = user;
    uint64_t call = __atomic_add_fetch(&meter->calls, 1, __ATOMIC_RELAXED), used, peak, *head;
    char *block;

    if (bytes == 0 || alignment < 64 || (alignment & (alignment - 1)) != 0)
        __atomic_store_n(&meter->misused, true, __ATOMIC_RELAXED);
    if (call == meter->fail_at)
        return NULL;
    block = aligned_alloc((size_t)alignment, (size_t)(alignment + (bytes + alignment - 1) / alignment * alignment));
    if (block == NULL)
        return NULL;
    head = (uint64_t *)(void *)(block + alignment) - 2;
    head[0] = bytes;
    head[1] = alignment;
    used = __atomic_add_fetch(&meter->used, bytes, __ATOMIC_RELAXED);
    for (peak = __atomic_load_n(&meter->peak, __ATOMIC_RELAXED); used > peak;)
        if (__atomic_compare_exchange_n(&meter->peak, &peak, used, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    (void)__atomic_add_fetch(&meter->blocks, 1, __ATOMIC_RELAXED);
    return block + alignment;
}

static void meter_free(void *user, void *memory, uint64_t bytes)
{
    struct meter *meter = user;
    const uint64_t *head = (const uint64_t *)memory - 2;

    if (head[0] != bytes)
        __atomic_store_n(&meter->misused, true, __ATOMIC_RELAXED);
    (void)__atomic_sub_fetch(&meter->used, bytes, __ATOMIC_RELAXED);
    (void)__atomic_sub_fetch(&meter->blocks, 1, __ATOMIC_RELAXED);
    free((char *)memory - head[1]);
}

/* y = exp(softmax(relu(x)) + x), z = the indices of nonzero elements: slabs, outputs, and a data-dependent shape. */
static void write_model(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "N,64");
    mw_node(wire, "Relu", "x", "r");
    mw_node(wire, "Softmax", "r", "s");
    mw_node(wire, "Add", "s,x", "a");
    mw_node(wire, "Exp", "a", "y");
    mw_node(wire, "NonZero", "r", "z");
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,64");
    mw_value(wire, MW_OUTPUT, "z", INLAY_INT64, NULL);
    wire_end(wire, mark);
}

static inlay_status open_session(struct wire *wire, struct meter *meter, const char *option, const char *budget,
                                 inlay_session **out, inlay_diag *diag)
{
    const inlay_allocator allocator = {
        .struct_size = sizeof allocator, .user = meter, .alloc = meter_alloc, .free = meter_free
    };
    inlay_options *options = NULL;
    inlay_status status;

    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "reference", diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "2", diag),
                     INLAY_OK); /* workspace sizes depend on it */
    assert_int_equal(inlay_options_set(options, option, budget, diag), INLAY_OK);
    if (meter != NULL)
        assert_int_equal(inlay_options_set_allocator(options, &allocator, diag), INLAY_OK);
    status = inlay_session_create_from_bytes(wire->bytes, wire->count, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_status run_rows(inlay_context *context, int64_t rows, inlay_diag *diag)
{
    const int64_t dims[2] = { rows, 64 };
    inlay_value *value = NULL;
    inlay_status status;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < rows * 64; i++)
        ((float *)inlay_value_data(value))[i] = (float)(i % 7) - 3;
    assert_int_equal(inlay_context_set_input(context, 0, value, NULL), INLAY_OK);
    inlay_value_unref(value);
    status = inlay_context_run(context, NULL, diag);
    return status;
}

static void all_memory_comes_from_the_caller(void **state)
{
    inlay_memory_info info = { .struct_size = sizeof info };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *kept, *own;
    struct meter meter = { 0 };
    struct wire wire = { 0 };
    uint64_t calls;

    (void)state;
    write_model(&wire);
    assert_int_equal(open_session(&wire, &meter, "memory_budget", "0", &session, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(meter.used, 0);
    if (run_rows(context, 100, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_true(meter.used >= 100 * 64 * 4); /* output y at least */
    assert_int_equal(inlay_session_memory(session, &info), INLAY_OK);
    assert_int_equal(info.used_bytes, meter.used);
    assert_int_equal(info.peak_bytes, meter.peak);
    assert_int_equal(info.allocations, meter.calls);
    assert_int_equal(info.budget_bytes, 0);
    /* The second run still allocates, because the first result exists. Further runs at the same shapes allocate
     * nothing. */
    assert_int_equal(run_rows(context, 100, &diag), INLAY_OK);
    calls = meter.calls;
    for (int i = 0; i < 5; i++)
        assert_int_equal(run_rows(context, 100, &diag), INLAY_OK);
    assert_int_equal(meter.calls, calls);
    /* A referenced value outlives context and session. */
    kept = inlay_value_ref(inlay_context_output(context, 0));
    assert_int_equal(inlay_session_value_create(session, INLAY_INT64, 1, (int64_t[]){ 10 }, &own, &diag), INLAY_OK);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    assert_int_equal(meter.blocks, 2);
    assert_true(((float *)inlay_value_data(kept))[0] > 0);
    inlay_value_unref(kept);
    inlay_value_unref(own);
    assert_int_equal(meter.blocks, 0);
    assert_int_equal(meter.used, 0);
    assert_false(meter.misused);
    wire_deinit(&wire);
}

static void a_budget_is_kept(void **state)
{
    inlay_memory_info info = { .struct_size = sizeof info };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int with_allocator = 0; with_allocator < 2; with_allocator++) {
        inlay_session *session = NULL;
        inlay_context *a = NULL, *b = NULL;
        struct meter meter = { 0 };
        struct wire wire = { 0 };

        write_model(&wire);
        assert_int_equal(
            open_session(&wire, with_allocator ? &meter : NULL, "memory_budget", "500000", &session, &diag), INLAY_OK);
        assert_int_equal(inlay_context_create(session, &a, &diag), INLAY_OK);
        assert_int_equal(inlay_context_create(session, &b, &diag), INLAY_OK);
        assert_int_equal(run_rows(a, 100, &diag), INLAY_OK);
        assert_int_equal(run_rows(a, 5000, &diag), INLAY_LIMIT_EXCEEDED);
        assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
        assert_non_null(strstr(diag.text, "memory_budget"));
        assert_null(inlay_context_output(a, 0));
        assert_int_equal(run_rows(a, 90, &diag), INLAY_OK); /* the context can run again */
        assert_int_equal(run_rows(b, 100, &diag), INLAY_OK);
        assert_int_equal(run_rows(b, 400, &diag), INLAY_LIMIT_EXCEEDED); /* a still holds memory */
        inlay_context_destroy(a);
        if (run_rows(b, 400, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_int_equal(inlay_session_memory(session, &info), INLAY_OK);
        assert_in_range(info.peak_bytes, 400 * 64 * 4, 500000);
        assert_int_equal(info.budget_bytes, 500000);
        inlay_context_destroy(b);
        assert_int_equal(inlay_session_memory(session, &info), INLAY_OK);
        assert_int_equal(info.used_bytes, 0);
        inlay_session_destroy(session);
        assert_int_equal(meter.blocks, 0);
        wire_deinit(&wire);
    }
}

/* Sessions share the budget of the process. */
static void a_budget_of_the_process_is_kept(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *sessions[2] = { NULL };
    inlay_context *a = NULL, *b = NULL;
    struct wire wire = { 0 };

    (void)state;
    write_model(&wire);
    for (int i = 0; i < 2; i++)
        assert_int_equal(open_session(&wire, NULL, "process_memory_budget", "500000", &sessions[i], &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(sessions[0], &a, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(sessions[1], &b, &diag), INLAY_OK);
    assert_int_equal(run_rows(a, 100, &diag), INLAY_OK);
    assert_int_equal(run_rows(b, 400, &diag), INLAY_LIMIT_EXCEEDED); /* a holds memory */
    assert_int_equal(diag.error_class, INLAY_CLASS_RETRY);
    assert_int_equal(run_rows(b, 5000, &diag), INLAY_LIMIT_EXCEEDED); /* also without a */
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    assert_non_null(strstr(diag.text, "process_memory_budget"));
    assert_int_equal(run_rows(b, 100, &diag), INLAY_OK);
    inlay_context_destroy(a);
    inlay_session_destroy(sessions[0]);
    if (run_rows(b, 400, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_context_destroy(b);
    inlay_session_destroy(sessions[1]);
    wire_deinit(&wire);
}

/* Each allocation fails once: the run reports it, nothing leaks, and the next run succeeds. */
static void every_call_may_fail(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t calls = 1;

    (void)state;
    for (uint64_t n = 1; n <= calls; n++) {
        inlay_session *session = NULL;
        inlay_context *context = NULL;
        struct meter meter = { .fail_at = n };
        struct wire wire = { 0 };
        inlay_status status;

        write_model(&wire);
        assert_int_equal(open_session(&wire, &meter, "memory_budget", "0", &session, &diag), INLAY_OK);
        assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
        status = run_rows(context, 10, &diag);
        if (status == INLAY_OK)
            status = run_rows(context, 1000, &diag);
        if (status != INLAY_OK)
            assert_int_equal(status, INLAY_OUT_OF_MEMORY);
        assert_int_equal(run_rows(context, 20, &diag), INLAY_OK);
        calls = meter.calls > calls ? meter.calls : calls;
        inlay_context_destroy(context);
        inlay_session_destroy(session);
        assert_int_equal(meter.blocks, 0);
        assert_false(meter.misused);
        wire_deinit(&wire);
    }
    assert_true(calls >= 3);
}

static void *run_often(void *user)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (int i = 0; i < 50; i++)
        if (run_rows(user, 1 + i % 9, &diag) != INLAY_OK)
            return user;
    return NULL;
}

static void threads(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_context *context[4];
    pthread_t ids[4];
    struct meter meter = { 0 };
    struct wire wire = { 0 };

    (void)state;
    write_model(&wire);
    assert_int_equal(open_session(&wire, &meter, "memory_budget", "100000000", &session, &diag), INLAY_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(inlay_context_create(session, &context[i], &diag), INLAY_OK);
        assert_int_equal(pthread_create(&ids[i], NULL, run_often, context[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;

        assert_int_equal(pthread_join(ids[i], &failed), 0);
        assert_null(failed);
        inlay_context_destroy(context[i]);
    }
    inlay_session_destroy(session);
    assert_int_equal(meter.blocks, 0);
    assert_int_equal(meter.used, 0);
    wire_deinit(&wire);
}

static void wrong_allocators(void **state)
{
    inlay_allocator none = INLAY_ALLOCATOR_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;

    (void)state;
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set_allocator(options, &none, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "alloc"));
    assert_int_equal(inlay_options_set_allocator(options, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "memory_budget", "-1", &diag), INLAY_INVALID_ARGUMENT);
    inlay_options_destroy(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_memory_comes_from_the_caller),
        cmocka_unit_test(a_budget_is_kept),
        cmocka_unit_test(a_budget_of_the_process_is_kept),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(threads),
        cmocka_unit_test(wrong_allocators),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
