/* test_doctor.c - `inlay doctor`: each planted fault is the only finding; clean models have no findings; a fix
 * removes the finding, and the fixed model is valid. */
#include "planted.h"
#include "model/model.h"
#include "modelkit/doctor.h"
#include <unistd.h>

/* Loads a model, binds it and infers its shapes, as the doctor needs. The wire must outlive the model. */
static graph_model *load(const struct wire *wire)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;

    assert_int_equal(wire->splice_count, 0);
    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK ||
        graph_inline_functions(model, &diag) != INLAY_OK || graph_bind(model, NULL, &diag) != INLAY_OK ||
        graph_infer(model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

static struct doctor examine(graph_model *model)
{
    struct doctor doctor = { .model = model };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (doctor_examine(&doctor, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return doctor;
}

static void test_planted(void **state)
{
    (void)state;
    for (int i = 0; i < PLANTED_COUNT; i++) {
        const struct planted *planted = &planted_models[i];
        struct wire wire = { 0 };
        graph_model *model;
        struct doctor doctor;

        planted->write(&wire);
        model = load(&wire);
        doctor = examine(model);
        if (doctor.count != (planted->in_session ? 0 : 1))
            fail_msg("%s: %u findings, the first %s", planted->file, doctor.count,
                     doctor.first != NULL ? doctor_code(doctor.first->kind) : "none");
        if (!planted->in_session) {
            assert_string_equal(doctor_code(doctor.first->kind), planted->code);
            assert_int_equal(doctor.first->can_fix, planted->can_fix);
            assert_true(doctor.first->text[0] != '\0' && strchr(doctor.first->text, '\n') == NULL);
        }
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

static void test_clean(void **state)
{
    (void)state;
    for (int i = 0; i < CLEAN_COUNT; i++) {
        struct wire wire = { 0 };
        graph_model *model;
        struct doctor doctor;

        script_model(&wire, 17, clean_models[i]);
        model = load(&wire);
        doctor = examine(model);
        if (doctor.count != 0)
            fail_msg("clean model %d: %s: %s", i, doctor_code(doctor.first->kind), doctor.first->text);
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

/* A fixed model is written and loaded again, and has no findings. */
static void test_fixed(void **state)
{
    char path[] = "/tmp/inlay-doctor.XXXXXX";
    const int fd = mkstemp(path);
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    for (int i = 0; i < PLANTED_COUNT; i++) {
        const struct planted *planted = &planted_models[i];
        graph_model *model, *again = NULL;
        struct wire wire = { 0 };
        struct doctor doctor;

        if (!planted->can_fix)
            continue;
        planted->write(&wire);
        model = load(&wire);
        doctor = examine(model);
        if (doctor_fix(&doctor, &diag) != INLAY_OK || model_save(model, path, NULL, &diag) != INLAY_OK)
            fail_msg("%s: %s", planted->file, diag.text);
        assert_true(doctor.first->fixed);
        graph_model_destroy(model);
        wire_deinit(&wire);
        if (model_load_path(path, NULL, &again, &diag) != INLAY_OK || graph_bind(again, NULL, &diag) != INLAY_OK ||
            graph_infer(again, &diag) != INLAY_OK)
            fail_msg("%s: %s", planted->file, diag.text);
        doctor = examine(again);
        if (doctor.count != 0)
            fail_msg("%s: still %s: %s", planted->file, doctor_code(doctor.first->kind), doctor.first->text);
        graph_model_destroy(again);
    }
    (void)unlink(path);
}

/* A cast chain that loses precision is reported, not fixed. */
static void test_lossy_cast(void **state)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "2,8", 13);
    graph_model *model;
    struct doctor doctor;

    (void)state;
    mw_node_int(&wire, "Cast", "x", "half", "to", INLAY_FLOAT16);
    mw_node_int(&wire, "Cast", "half", "y", "to", INLAY_FLOAT);
    plant_end(&wire, mark, "2,8");
    model = load(&wire);
    doctor = examine(model);
    assert_int_equal(doctor.count, 1);
    assert_string_equal(doctor_code(doctor.first->kind), "cast-chain");
    assert_false(doctor.first->can_fix);
    assert_non_null(strstr(doctor.first->text, "loses precision"));
    graph_model_destroy(model);
    wire_deinit(&wire);
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
    struct wire wire = { 0 };
    struct doctor doctor;

    (void)state;
    plant_twice(&wire);
    doctor = (struct doctor){ .model = load(&wire), .progress = stop };
    assert_int_equal(doctor_examine(&doctor, &diag), INLAY_CANCELLED);
    graph_model_destroy(doctor.model);
    wire_deinit(&wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted),    cmocka_unit_test(test_clean),     cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_lossy_cast), cmocka_unit_test(test_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
