/* Option memory_limit, host=BYTES: a session's host memory stays within the limit, or the session is refused with the
 * minimum required limit. */
#include "rig.h"
#include "base/heap.h"

enum { WIDTH = 256, WEIGHT_BYTES = WIDTH * WIDTH * 4 };

/* y = softmax(r) + r with r = relu(x W): weights, a slab, an output. */
static void write_model(struct wire *wire, const char *shape)
{
    wire_mark mark = mw_begin(wire, 8, 17);
    float *weights = calloc(WIDTH * WIDTH, sizeof *weights);
    const int64_t dims[2] = { WIDTH, WIDTH };
    wire_mark t;

    assert_non_null(weights);
    for (int i = 0; i < WIDTH; i++)
        weights[i * WIDTH + i] = 2;
    t = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "w", INLAY_FLOAT, 2, dims);
    wire_bytes(wire, 9, weights, WEIGHT_BYTES);
    wire_end(wire, t);
    free(weights);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, shape);
    mw_node(wire, "MatMul", "x,w", "m");
    mw_node(wire, "Relu", "m", "r");
    mw_node(wire, "Softmax", "r", "s");
    mw_node(wire, "Add", "s,r", "y");
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, shape);
    wire_end(wire, mark);
}

/* The largest size of the malloc heap during the creation of a session. */
static uint64_t peak_bytes;
static int record_peak(void *user, double fraction, const char *what)
{
    const uint64_t now = heap_bytes();

    (void)user;
    (void)fraction;
    (void)what;
    peak_bytes = now > peak_bytes ? now : peak_bytes;
    return 0;
}

static inlay_status open_session(const struct wire *wire, uint64_t limit, inlay_session **out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status;
    char text[64];

    (void)snprintf(text, sizeof text, "host=%llu", (unsigned long long)limit);
    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "reference", diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "2", diag),
                     INLAY_OK); /* workspace sizes depend on it */
    assert_int_equal(inlay_options_set(options, "cache_max_bytes", "0", diag), INLAY_OK);
    inlay_options_set_progress(options, record_peak, NULL);
    peak_bytes = 0;
    if (limit > 0)
        assert_int_equal(inlay_options_set(options, "memory_limit", text, diag), INLAY_OK);
    status = inlay_session_create_from_bytes(wire->bytes, wire->count, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_status run_rows(inlay_context *context, int64_t rows, inlay_diag *diag)
{
    const int64_t dims[2] = { rows, WIDTH };
    inlay_value *value = NULL;
    inlay_status status;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        ((float *)inlay_value_data(value))[i] = (float)(i % 7);
    assert_int_equal(inlay_context_set_input(context, 0, value, NULL), INLAY_OK);
    inlay_value_unref(value);
    status = inlay_context_run(context, NULL, diag);
    if (status == INLAY_OK) {
        const float *output = inlay_value_data(inlay_context_output(context, 0));

        assert_true(output[6] >= 12 && output[6] <= 13);
    }
    return status;
}

/* Returns N of "... needs memory_limit host=N at least", or "by estimate". */
static uint64_t limit_of(const inlay_diag *diag, const char *kind)
{
    const char *at = strstr(diag->text, "memory_limit host=");

    if (at == NULL || strstr(diag->text, kind) == NULL || strchr(diag->text, '\n') != NULL)
        fail_msg("%s", diag->text);
    return strtoull(at + strlen("memory_limit host="), NULL, 10);
}

static uint64_t required_limit(const inlay_diag *diag)
{
    return limit_of(diag, "at least");
}

/* Fixed shapes: the session is refused at creation, and the limit in the message is sufficient, but a page less is
 * not. */
static void a_model_is_refused(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    struct wire wire = { 0 };
    uint64_t required;

    (void)state;
    write_model(&wire, "1000,256");
    assert_int_equal(open_session(&wire, 10000, &session, &diag), INLAY_LIMIT_EXCEEDED);
    assert_null(session);
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    required = limit_of(&diag, heap_bytes() > 0 ? "by estimate" : "at least"); /* a sanitizer has none */
    assert_in_range(required, 2 * 1000 * WIDTH * 4, 4 * 1000 * WIDTH * 4); /* a slab and the output */
    for (int i = 0; i < 2; i++) { /* the first session includes one-time allocations */
        if (open_session(&wire, required, &session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
        for (int k = 0; k < 3; k++)
            if (run_rows(context, 1000, &diag) != INLAY_OK)
                fail_msg("%s", diag.text);
        inlay_context_destroy(context);
        inlay_session_destroy(session);
        session = NULL;
    }
    assert_int_equal(open_session(&wire, required / 2, &session, &diag), INLAY_LIMIT_EXCEEDED);
    required = required_limit(&diag); /* without one-time allocations */
    assert_int_equal(open_session(&wire, required - 4096, &session, &diag), INLAY_LIMIT_EXCEEDED);
    if (open_session(&wire, required, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_session_destroy(session);
    wire_deinit(&wire);
}

/* Shapes known only at run time: a run that exceeds the limit fails, and other runs succeed. */
static void a_run_is_refused(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_context *context = NULL, *other = NULL;
    uint64_t required;
    struct wire wire = { 0 };

    (void)state;
    write_model(&wire, "N,256");
    assert_int_equal(open_session(&wire, UINT64_C(4) << 20, &session, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(session, &other, &diag), INLAY_OK);
    assert_int_equal(run_rows(context, 500, &diag), INLAY_OK);
    assert_int_equal(run_rows(context, 5000, &diag), INLAY_LIMIT_EXCEEDED);
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    required = required_limit(&diag);
    assert_in_range(required, 2 * 5000 * WIDTH * 4, 3 * 5000 * WIDTH * 4);
    assert_null(inlay_context_output(context, 0));
    if (run_rows(context, 500, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(run_rows(other, 1400, &diag), INLAY_LIMIT_EXCEEDED); /* the first context still holds memory */
    inlay_context_destroy(context);
    if (run_rows(other, 1400, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_context_destroy(other);
    inlay_session_destroy(session);

    /* Growing step by step to the named limit: memory for smaller sizes is released for larger ones. */
    assert_int_equal(open_session(&wire, required + 100000, &session, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (int64_t rows = 1000; rows <= 5000; rows += 250)
        if (run_rows(context, rows, &diag) != INLAY_OK)
            fail_msg("%lld rows: %s", (long long)rows, diag.text);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    wire_deinit(&wire);
}

/* Packed weights of providers are counted; the host limit is separate from limits of providers. */
static void weights_are_counted(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    uint64_t required;
    struct wire wire = { 0 };

    (void)state;
    write_model(&wire, "N,256");
    if (heap_bytes() > 0) { /* the heap of a sanitizer cannot be measured */
        assert_int_equal(open_session(&wire, WEIGHT_BYTES / 2, &session, &diag), INLAY_LIMIT_EXCEEDED);
        required = required_limit(&diag);
        assert_in_range(required, WEIGHT_BYTES, 8 * WEIGHT_BYTES);
    }
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "memory_limit", "host=1G,reference=1G", &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_session_destroy(session);
    session = NULL;
    assert_int_equal(inlay_options_set(options, "memory_limit", "host=much", &diag), INLAY_INVALID_ARGUMENT);
    inlay_options_destroy(options);
    wire_deinit(&wire);
}

/* y = x W0 W1 ...: a provider packs the weights sequentially. */
static void write_layers(struct wire *wire, int layers)
{
    wire_mark mark = mw_begin(wire, 8, 17);
    float *weights = calloc(WIDTH * WIDTH, sizeof *weights);
    const int64_t dims[2] = { WIDTH, WIDTH };
    char in[16] = "x", both[32], out[16], name[16];

    assert_non_null(weights);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "4,256");
    for (int i = 0; i < layers; i++) {
        wire_mark t = wire_begin(wire, MW_INITIALIZER);

        for (int k = 0; k < WIDTH * WIDTH; k++)
            weights[k] = (float)((k * 7 + i) % 13 - 6);
        (void)snprintf(name, sizeof name, "w%d", i);
        mw_tensor_head(wire, name, INLAY_FLOAT, 2, dims);
        wire_raw(wire, (const uint8_t[]){ 9 << 3 | 2, 0x80, 0x80, 0x10 },
                 4); /* tag and length, 262144, of raw_data; wire_bytes() would splice the bytes, not copy them */
        wire_raw(wire, weights, WEIGHT_BYTES);
        wire_end(wire, t);
        (void)snprintf(both, sizeof both, "%s,%s", in, name);
        (void)snprintf(out, sizeof out, "y%d", i);
        mw_node(wire, "MatMul", both, out);
        memcpy(in, out, sizeof in);
    }
    free(weights);
    mw_value(wire, MW_OUTPUT, in, INLAY_FLOAT, "4,256");
    wire_end(wire, mark);
}

/* Session creation stays within the limit all the time: it stops before weights that do not fit are packed. */
static void creation_is_bounded(void **state)
{
    enum { LAYERS = 32, LIMIT = 8 * WEIGHT_BYTES, SLACK = 4 * WEIGHT_BYTES };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    uint64_t before, required;
    struct wire wire = { 0 };

    (void)state;
    if (heap_bytes() == 0)
        skip(); /* the heap of a sanitizer cannot be measured */
    write_layers(&wire, LAYERS);
    before = heap_bytes();
    assert_int_equal(open_session(&wire, 0, &session, &diag), INLAY_OK);
    assert_true(peak_bytes - before > LIMIT + SLACK);
    inlay_session_destroy(session);
    before = heap_bytes();
    assert_int_equal(open_session(&wire, LIMIT, &session, &diag), INLAY_LIMIT_EXCEEDED);
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    assert_in_range(peak_bytes - before, 1, LIMIT + SLACK);
    /* The message includes an estimate of later allocations: the named limit is about sufficient. */
    required = limit_of(&diag, "by estimate");
    assert_in_range(required, LAYERS * WEIGHT_BYTES, 2 * LAYERS * WEIGHT_BYTES);
    if (open_session(&wire, required + required / 8, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_session_destroy(session);
    wire_deinit(&wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_refused),
        cmocka_unit_test(a_run_is_refused),
        cmocka_unit_test(weights_are_counted),
        cmocka_unit_test(creation_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
