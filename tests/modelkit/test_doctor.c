/* The doctor's look at models: each planted fault is found, alone; clean models have none; a fix takes the finding away
 * and leaves a model that is in order. */
#include "planted.h"
#include "model/model.h"
#include "modelkit/doctor.h"
#include <unistd.h>

/* Bound and inferred, as the doctor wants a model. bytes must outlive it. */
static graph_model *load(const struct wire *w)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *m = NULL;

    assert_int_equal(w->splice_count, 0);
    if (model_load_bytes(w->bytes, w->count, NULL, &m, &diag) != INLAY_OK ||
        graph_inline_functions(m, &diag) != INLAY_OK || graph_bind(m, NULL, &diag) != INLAY_OK ||
        graph_infer(m, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return m;
}

static struct doctor examine(graph_model *m)
{
    struct doctor d = { .model = m };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (doctor_examine(&d, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return d;
}

static void test_planted(void **state)
{
    (void)state;
    for (int i = 0; i < PLANTED_COUNT; i++) {
        const struct planted *p = &planted_models[i];
        struct wire w = { 0 };
        graph_model *m;
        struct doctor d;

        p->write(&w);
        m = load(&w);
        d = examine(m);
        if (d.count != (p->in_session ? 0 : 1))
            fail_msg("%s: %u findings, the first %s", p->file, d.count,
                     d.first != NULL ? doctor_code(d.first->kind) : "none");
        if (!p->in_session) {
            assert_string_equal(doctor_code(d.first->kind), p->code);
            assert_int_equal(d.first->can_fix, p->can_fix);
            assert_true(d.first->text[0] != '\0' && strchr(d.first->text, '\n') == NULL);
        }
        graph_model_destroy(m);
        wire_deinit(&w);
    }
}

static void test_clean(void **state)
{
    (void)state;
    for (int i = 0; i < CLEAN_COUNT; i++) {
        struct wire w = { 0 };
        graph_model *m;
        struct doctor d;

        script_model(&w, clean_models[i], 17);
        m = load(&w);
        d = examine(m);
        if (d.count != 0)
            fail_msg("clean model %d: %s: %s", i, doctor_code(d.first->kind), d.first->text);
        graph_model_destroy(m);
        wire_deinit(&w);
    }
}

/* What a fix leaves is written, read again, and has nothing left to find. */
static void test_fixed(void **state)
{
    char path[] = "/tmp/inlay-doctor.XXXXXX";
    const int fd = mkstemp(path);
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    for (int i = 0; i < PLANTED_COUNT; i++) {
        const struct planted *p = &planted_models[i];
        graph_model *m, *again = NULL;
        struct wire w = { 0 };
        struct doctor d;

        if (!p->can_fix)
            continue;
        p->write(&w);
        m = load(&w);
        d = examine(m);
        if (doctor_fix(&d, &diag) != INLAY_OK || model_save(m, path, NULL, &diag) != INLAY_OK)
            fail_msg("%s: %s", p->file, diag.text);
        assert_true(d.first->fixed);
        graph_model_destroy(m);
        wire_deinit(&w);
        if (model_load_path(path, NULL, &again, &diag) != INLAY_OK || graph_bind(again, NULL, &diag) != INLAY_OK ||
            graph_infer(again, &diag) != INLAY_OK)
            fail_msg("%s: %s", p->file, diag.text);
        d = examine(again);
        if (d.count != 0)
            fail_msg("%s: still %s: %s", p->file, doctor_code(d.first->kind), d.first->text);
        graph_model_destroy(again);
    }
    (void)unlink(path);
}

/* A cast that loses digits on its way is told, and left alone. */
static void test_lossy_cast(void **state)
{
    struct wire w = { 0 };
    const wire_mark g = plant_begin(&w, "2,8", 13);
    graph_model *m;
    struct doctor d;

    (void)state;
    rig_node_int(&w, "Cast", "x", "half", "to", INLAY_FLOAT16);
    rig_node_int(&w, "Cast", "half", "y", "to", INLAY_FLOAT);
    plant_end(&w, g, "2,8");
    m = load(&w);
    d = examine(m);
    assert_int_equal(d.count, 1);
    assert_string_equal(doctor_code(d.first->kind), "cast-chain");
    assert_false(d.first->can_fix);
    assert_non_null(strstr(d.first->text, "loses digits"));
    graph_model_destroy(m);
    wire_deinit(&w);
}

static int stop(void *user, double fraction, const char *what)
{
    (void)user;
    (void)fraction;
    return what != NULL;
}

static void test_cancelled(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire w = { 0 };
    struct doctor d;

    (void)state;
    plant_twice(&w);
    d = (struct doctor){ .model = load(&w), .progress = stop };
    assert_int_equal(doctor_examine(&d, &diag), INLAY_CANCELLED);
    graph_model_destroy(d.model);
    wire_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted),    cmocka_unit_test(test_clean),     cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_lossy_cast), cmocka_unit_test(test_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
