/* A provider that takes offers back: in compile every third region, in specialize whatever has an odd number of rows.
 * Random graphs give what the reference provider gives alone, at every number of rows. */
#include "../exec/rig.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { GRAPHS = 500, COLUMNS = 3, MOST_NODES = 12, MOST_ROWS = 6 };

static uint64_t dice;

static uint32_t roll(uint32_t sides)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % sides;
}

static void write_graph(struct wire *w, uint64_t seed)
{
    static const char *const ops[] = { "Relu", "Relu", "Add", "Add", "Neg", "Mul", "Abs" };
    wire_mark g = mw_begin(w, 8, 17);
    uint32_t nodes, made = 1;
    char inputs[32], output[16];

    dice = seed;
    nodes = 2 + roll(MOST_NODES - 1);
    mw_value(w, MW_INPUT, "v0", INLAY_FLOAT, "N,3");
    for (uint32_t i = 0; i < nodes; i++, made++) {
        const char *op = ops[roll(sizeof ops / sizeof ops[0])];
        uint32_t a = roll(3) == 0 ? roll(made) : made - 1;

        (void)snprintf(output, sizeof output, "v%u", made);
        if (strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0)
            (void)snprintf(inputs, sizeof inputs, "v%u,v%u", a, roll(made));
        else
            (void)snprintf(inputs, sizeof inputs, "v%u", a);
        mw_node(w, op, inputs, output);
    }
    for (uint32_t k = made - 1; k >= 1 && k + 2 >= made; k--) {
        (void)snprintf(output, sizeof output, "v%u", k);
        mw_value(w, MW_OUTPUT, output, INLAY_FLOAT, "N,3");
    }
    wire_end(w, g);
}

static struct rig open_graph(uint64_t seed, const char *providers)
{
    const char *options[] = {
        "providers", providers, "plugin_dirs", FAULTY_DIR, "probe", "never", "cache_dir", "", NULL
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire w = { 0 };
    struct rig r;

    write_graph(&w, seed);
    if (rig_try_open(&w, options, &r, &diag) != INLAY_OK)
        fail_msg("graph %llu on %s: %s", (unsigned long long)seed, providers, diag.text);
    return r;
}

static inlay_status try_at(inlay_context *context, uint32_t rows, inlay_diag *diag)
{
    float x[MOST_ROWS * COLUMNS];
    const int64_t dims[2] = { rows, COLUMNS };
    inlay_value *v = NULL;
    inlay_status status = inlay_value_create(INLAY_FLOAT, 2, dims, &v, diag);

    for (uint32_t i = 0; i < rows * COLUMNS; i++)
        x[i] = (float)((int)(i * 7 % 11) - 5) / 4;
    if (status == INLAY_OK) {
        memcpy(inlay_value_data(v), x, rows * COLUMNS * sizeof *x);
        status = inlay_context_set_input(context, 0, v, diag);
    }
    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    inlay_value_unref(v);
    return status;
}

static void run_at(struct rig *r, uint32_t rows)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (try_at(r->context, rows, &diag) != INLAY_OK)
        fail_msg("%u rows: %s", rows, diag.text);
}

static void compare(const struct rig *a, const struct rig *b, uint64_t seed, uint32_t rows)
{
    for (uint32_t k = 0; k < inlay_session_output_count(a->session); k++) {
        const inlay_value *x = inlay_context_output(a->context, k), *y = inlay_context_output(b->context, k);

        assert_non_null(x);
        assert_int_equal(inlay_value_bytes(x), inlay_value_bytes(y));
        if (memcmp(inlay_value_data(x), inlay_value_data(y), inlay_value_bytes(x)) != 0)
            fail_msg("graph %llu, %u rows: output %u differs", (unsigned long long)seed, rows, k);
    }
}

static void random_graphs(void **state)
{
    const char *declines = *state;

    assert_int_equal(setenv("FAULTY_DECLINES", declines, 1), 0);
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rig a = open_graph(seed, "faulty,reference"), b = open_graph(seed, "reference");
        /* Shapes come again: what was declined for them is remembered. */
        static const uint32_t rows[] = { 2, 3, 4, 3, 1, 6, 2, 5, 3 };

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            run_at(&a, rows[i]);
            run_at(&b, rows[i]);
            compare(&a, &b, seed, rows[i]);
        }
        rig_close(&a);
        rig_close(&b);
    }
    (void)unsetenv("FAULTY_DECLINES");
}

struct page {
    char text[1 << 16];
    size_t count;
};

static void keep(void *user, const char *text, size_t bytes)
{
    struct page *p = user;

    assert_true(p->count + bytes < sizeof p->text);
    memcpy(p->text + p->count, text, bytes);
    p->count += bytes;
    p->text[p->count] = '\0';
}

/* What was declined in runs stands in the explanation, with the shapes. */
static void explained(void **state)
{
    static const char *const formats[] = { "text", "json" };
    struct rig r;

    (void)state;
    assert_int_equal(setenv("FAULTY_DECLINES", "specialize", 1), 0);
    r = open_graph(3, "faulty,reference");
    for (int after = 0; after < 2; after++) {
        for (int i = 0; i < 2; i++) {
            struct page *p = calloc(1, sizeof *p);

            assert_non_null(p);
            assert_int_equal(inlay_session_explain(r.session, formats[i], keep, p, NULL), INLAY_OK);
            assert_true((strstr(p->text, "3 rows are an odd number") != NULL) == after);
            assert_true((strstr(p->text, "[3,3]") != NULL) == after);
            free(p);
        }
        run_at(&r, 3);
    }
    rig_close(&r);
    (void)unsetenv("FAULTY_DECLINES");
}

/* Two threads meet the same shapes while they are being assigned again: one of them does it, the other one waits. */
struct meeting {
    inlay_context *context; /* of the second */
    inlay_status status;
    pthread_t other;
    bool started;
    uint32_t told; /* how often the log tells of an assignment */
};

static void *run_too(void *user)
{
    struct meeting *m = user;
    inlay_diag diag = INLAY_DIAG_INIT;

    m->status = try_at(m->context, 3, &diag);
    return NULL;
}

/* The second thread has a while to do what it must not. */
static void meet(void *user, uint32_t level, const char *text)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    struct meeting *m = user;

    (void)level;
    if (strstr(text, "is assigned again for some shapes") == NULL)
        return;
    if (__atomic_add_fetch(&m->told, 1, __ATOMIC_SEQ_CST) > 1)
        return;
    m->started = pthread_create(&m->other, NULL, run_too, m) == 0;
    for (int i = 0; i < 200 && __atomic_load_n(&m->told, __ATOMIC_SEQ_CST) == 1; i++)
        (void)nanosleep(&pause, NULL);
}

static void assigned_once(void **unused)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *o = NULL;
    struct meeting m = { 0 };
    wire_mark g;
    struct wire w = { 0 };
    struct rig r = { 0 };

    (void)unused;
    assert_int_equal(setenv("FAULTY_DECLINES", "specialize", 1), 0);
    g = mw_begin(&w, 8, 17);
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    mw_node(&w, "Relu", "x", "y");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&w, g);
    assert_int_equal(inlay_options_create(&o, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "providers", "faulty,reference", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "plugin_dirs", FAULTY_DIR, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "probe", "never", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "cache_dir", "", &diag), INLAY_OK);
    inlay_options_set_log(o, meet, &m);
    if (inlay_session_create_from_bytes(w.bytes, w.count, o, &r.session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(o);
    assert_int_equal(inlay_context_create(r.session, &r.context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(r.session, &m.context, &diag), INLAY_OK);
    run_at(&r, 3);
    assert_true(m.started);
    assert_int_equal(pthread_join(m.other, NULL), 0);
    assert_int_equal(m.status, INLAY_OK);
    assert_int_equal(m.told, 1);
    inlay_context_destroy(m.context);
    inlay_context_destroy(r.context);
    inlay_session_destroy(r.session);
    wire_deinit(&w);
    (void)unsetenv("FAULTY_DECLINES");
}

/* Nobody else runs it: the sentence of who declined is the error's. */
static void nobody_else(void **unused)
{
    const char *options[] = {
        "providers", "faulty", "plugin_dirs", FAULTY_DIR, "probe", "never", "cache_dir", "", NULL
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *v = NULL;
    struct wire w = { 0 };
    wire_mark g;
    struct rig r;

    (void)unused;
    assert_int_equal(setenv("FAULTY_DECLINES", "specialize", 1), 0);
    g = mw_begin(&w, 8, 17);
    mw_value(&w, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    mw_node(&w, "Relu", "x", "y");
    mw_value(&w, MW_OUTPUT, "y", INLAY_FLOAT, "N,3");
    wire_end(&w, g);
    assert_int_equal(rig_try_open(&w, options, &r, &diag), INLAY_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (int64_t[]){ 3, 3 }, &v, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(r.context, 0, v, &diag), INLAY_OK);
        assert_int_equal(inlay_context_run(r.context, NULL, &diag), INLAY_UNSUPPORTED);
        assert_non_null(strstr(diag.text, "3 rows are an odd number"));
        assert_non_null(strstr(diag.text, "faulty_plugin"));
        inlay_value_unref(v);
        run_at(&r, 2); /* others run */
    }
    rig_close(&r);
    (void)unsetenv("FAULTY_DECLINES");
}

static char compile_word[] = "compile", specialize_word[] = "specialize", both_word[] = "both";

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(random_graphs, compile_word),
        cmocka_unit_test_prestate(random_graphs, specialize_word),
        cmocka_unit_test_prestate(random_graphs, both_word),
        cmocka_unit_test(explained),
        cmocka_unit_test(assigned_once),
        cmocka_unit_test(nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
