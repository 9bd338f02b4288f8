/* Option memory_limit, host=BYTES: what a session has of the host's memory stays within it, or it is refused with the
 * least that would do. */
#include "../exec/rig.h"
#include "base/heap.h"

enum { WIDTH = 256, WEIGHT_BYTES = WIDTH * WIDTH * 4 };

/* y = relu(x W), the sum of rows of it with itself: weights, a slab, an output. */
static void write_model(struct wire *w, const char *shape)
{
    wire_mark g = mw_begin(w, 8, 17);
    float *weights = calloc(WIDTH * WIDTH, sizeof *weights);
    const int64_t dims[2] = { WIDTH, WIDTH };
    wire_mark t;

    assert_non_null(weights);
    for (int i = 0; i < WIDTH; i++)
        weights[i * WIDTH + i] = 2;
    t = wire_begin(w, MW_INITIALIZER);
    mw_tensor_head(w, "w", INLAY_FLOAT, 2, dims);
    wire_bytes(w, 9, weights, WEIGHT_BYTES);
    wire_end(w, t);
    free(weights);
    mw_value(w, MW_INPUT, "x", INLAY_FLOAT, shape);
    mw_node(w, "MatMul", "x,w", "m");
    mw_node(w, "Relu", "m", "r");
    mw_node(w, "Softmax", "r", "s");
    mw_node(w, "Add", "s,r", "y");
    mw_value(w, MW_OUTPUT, "y", INLAY_FLOAT, shape);
    wire_end(w, g);
}

/* What the process had from malloc at most while a session was made. */
static uint64_t most_bytes;
static int look(void *user, double fraction, const char *what)
{
    const uint64_t now = heap_bytes();

    (void)user;
    (void)fraction;
    (void)what;
    most_bytes = now > most_bytes ? now : most_bytes;
    return 0;
}

static inlay_status open_session(const struct wire *w, uint64_t limit, inlay_session **out, inlay_diag *diag)
{
    inlay_options *o = NULL;
    inlay_status status;
    char text[64];

    (void)snprintf(text, sizeof text, "host=%llu", (unsigned long long)limit);
    assert_int_equal(inlay_options_create(&o, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "providers", "reference", diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "intra_threads", "2", diag), INLAY_OK); /* which set sizes of workspaces */
    assert_int_equal(inlay_options_set(o, "cache_max_bytes", "0", diag), INLAY_OK);
    inlay_options_set_progress(o, look, NULL);
    most_bytes = 0;
    if (limit > 0)
        assert_int_equal(inlay_options_set(o, "memory_limit", text, diag), INLAY_OK);
    status = inlay_session_create_from_bytes(w->bytes, w->count, o, out, diag);
    inlay_options_destroy(o);
    return status;
}

static inlay_status run_rows(inlay_context *c, int64_t rows, inlay_diag *diag)
{
    const int64_t dims[2] = { rows, WIDTH };
    inlay_value *x = NULL;
    inlay_status status;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &x, NULL), INLAY_OK);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        ((float *)inlay_value_data(x))[i] = (float)(i % 7);
    assert_int_equal(inlay_context_set_input(c, 0, x, NULL), INLAY_OK);
    inlay_value_unref(x);
    status = inlay_context_run(c, NULL, diag);
    if (status == INLAY_OK) {
        const float *y = inlay_value_data(inlay_context_output(c, 0));

        assert_true(y[6] >= 12 && y[6] <= 13);
    }
    return status;
}

/* "... needs memory_limit host=N at least": N. */
static uint64_t least_in(const inlay_diag *diag)
{
    const char *at = strstr(diag->text, "memory_limit host=");

    if (at == NULL || strstr(diag->text, "at least") == NULL || strchr(diag->text, '\n') != NULL)
        fail_msg("%s", diag->text);
    return strtoull(at + strlen("memory_limit host="), NULL, 10);
}

/* Sizes that are known: refused before the first run, and what is named does. */
static void a_model_is_refused(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;
    inlay_context *c = NULL;
    struct wire w = { 0 };
    uint64_t least;

    (void)state;
    write_model(&w, "1000,256");
    assert_int_equal(open_session(&w, 10000, &s, &diag), INLAY_LIMIT_EXCEEDED);
    assert_null(s);
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    least = least_in(&diag);
    assert_in_range(least, 2 * 1000 * WIDTH * 4, 4 * 1000 * WIDTH * 4); /* a slab and the output, what is made of it */
    for (int i = 0; i < 2; i++) {                                       /* the first has what the process loads once */
        if (open_session(&w, least, &s, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_int_equal(inlay_context_create(s, &c, &diag), INLAY_OK);
        for (int k = 0; k < 3; k++)
            if (run_rows(c, 1000, &diag) != INLAY_OK)
                fail_msg("%s", diag.text);
        inlay_context_destroy(c);
        inlay_session_destroy(s);
        s = NULL;
    }
    assert_int_equal(open_session(&w, least / 2, &s, &diag), INLAY_LIMIT_EXCEEDED);
    wire_deinit(&w);
}

/* Sizes that come with the run: that run fails, others go on. */
static void a_run_is_refused(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;
    inlay_context *c = NULL, *other = NULL;
    uint64_t least;
    struct wire w = { 0 };

    (void)state;
    write_model(&w, "N,256");
    assert_int_equal(open_session(&w, UINT64_C(4) << 20, &s, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(s, &c, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(s, &other, &diag), INLAY_OK);
    assert_int_equal(run_rows(c, 500, &diag), INLAY_OK);
    assert_int_equal(run_rows(c, 5000, &diag), INLAY_LIMIT_EXCEEDED);
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    least = least_in(&diag);
    assert_in_range(least, 2 * 5000 * WIDTH * 4, 3 * 5000 * WIDTH * 4);
    assert_null(inlay_context_output(c, 0));
    if (run_rows(c, 500, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(run_rows(other, 1400, &diag), INLAY_LIMIT_EXCEEDED); /* beside what the first holds */
    inlay_context_destroy(c);
    if (run_rows(other, 1400, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_context_destroy(other);
    inlay_session_destroy(s);

    /* Growing step by step to what was named: what is kept for smaller sizes goes for the larger. */
    assert_int_equal(open_session(&w, least + 100000, &s, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(s, &c, &diag), INLAY_OK);
    for (int64_t rows = 1000; rows <= 5000; rows += 250)
        if (run_rows(c, rows, &diag) != INLAY_OK)
            fail_msg("%lld rows: %s", (long long)rows, diag.text);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
    wire_deinit(&w);
}

/* What providers make of weights counts, and it is not the limit of a provider. */
static void weights_count(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *o = NULL;
    inlay_session *s = NULL;
    uint64_t least;
    struct wire w = { 0 };

    (void)state;
    write_model(&w, "N,256");
    if (heap_bytes() > 0) { /* a sanitizer's heap can't be measured */
        assert_int_equal(open_session(&w, WEIGHT_BYTES / 2, &s, &diag), INLAY_LIMIT_EXCEEDED);
        least = least_in(&diag);
        assert_in_range(least, WEIGHT_BYTES, 8 * WEIGHT_BYTES);
    }
    assert_int_equal(inlay_options_create(&o, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "memory_limit", "host=1G,reference=1G", &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(w.bytes, w.count, o, &s, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_session_destroy(s);
    s = NULL;
    assert_int_equal(inlay_options_set(o, "memory_limit", "host=much", &diag), INLAY_INVALID_ARGUMENT);
    inlay_options_destroy(o);
    wire_deinit(&w);
}

/* y = x W0 W1 ...: weights that a provider packs, one after the other. */
static void write_layers(struct wire *w, int layers)
{
    wire_mark g = mw_begin(w, 8, 17);
    float *weights = calloc(WIDTH * WIDTH, sizeof *weights);
    const int64_t dims[2] = { WIDTH, WIDTH };
    char in[16] = "x", both[32], out[16], name[16];

    assert_non_null(weights);
    mw_value(w, MW_INPUT, "x", INLAY_FLOAT, "4,256");
    for (int i = 0; i < layers; i++) {
        wire_mark t = wire_begin(w, MW_INITIALIZER);

        for (int k = 0; k < WIDTH * WIDTH; k++)
            weights[k] = (float)((k * 7 + i) % 13 - 6);
        (void)snprintf(name, sizeof name, "w%d", i);
        mw_tensor_head(w, name, INLAY_FLOAT, 2, dims);
        wire_raw(w, (const uint8_t[]){ 9 << 3 | 2, 0x80, 0x80, 0x10 }, 4); /* raw_data of 262144 bytes, not spliced */
        wire_raw(w, weights, WEIGHT_BYTES);
        wire_end(w, t);
        (void)snprintf(both, sizeof both, "%s,%s", in, name);
        (void)snprintf(out, sizeof out, "y%d", i);
        mw_node(w, "MatMul", both, out);
        memcpy(in, out, sizeof in);
    }
    free(weights);
    mw_value(w, MW_OUTPUT, in, INLAY_FLOAT, "4,256");
    wire_end(w, g);
}

/* Making the session keeps to the limit as it goes: what does not fit is not packed first and refused afterwards. */
static void making_is_bounded(void **state)
{
    enum { LAYERS = 32, LIMIT = 8 * WEIGHT_BYTES, SLACK = 4 * WEIGHT_BYTES };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *s = NULL;
    uint64_t before, least;
    struct wire w = { 0 };

    (void)state;
    if (heap_bytes() == 0)
        return; /* a sanitizer's heap can't be measured */
    write_layers(&w, LAYERS);
    before = heap_bytes();
    assert_int_equal(open_session(&w, 0, &s, &diag), INLAY_OK);
    assert_true(most_bytes - before > LIMIT + SLACK);
    inlay_session_destroy(s);
    before = heap_bytes();
    assert_int_equal(open_session(&w, LIMIT, &s, &diag), INLAY_LIMIT_EXCEEDED);
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    assert_in_range(most_bytes - before, 1, LIMIT + SLACK);
    /* What is still to come was estimated: what is named then does, or nearly so. */
    least = least_in(&diag);
    assert_in_range(least, LAYERS * WEIGHT_BYTES, 2 * LAYERS * WEIGHT_BYTES);
    if (open_session(&w, least + least / 8, &s, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_session_destroy(s);
    wire_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_refused),
        cmocka_unit_test(a_run_is_refused),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(making_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
