/* Providers that compute in host memory pass values without copies: a plan for two of them has no copy step, reads
 * the caller's input and writes the caller's output directly. */
#include "plan/plan.h"
#include "rig.h"
#include "session/session.h"
#include <math.h>

enum { ROWS = 4, SIZE = 64 };

/* MatMul with a constant, Add, Relu, MatMul, Sigmoid: a provider with few operators runs some of them, a provider
 * with all operators the rest. */
static void write_model(struct wire *wire)
{
    static const int64_t dims[] = { SIZE, SIZE };
    wire_mark mark = mw_begin(wire, 8, 17), t;

    mw_value(wire, MW_INPUT, "x", RIG_FLOAT, "N,64");
    t = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "w", RIG_FLOAT, 2, dims);
    for (int i = 0; i < SIZE * SIZE; i++)
        wire_float(wire, 4, (float)(i % 7 - 3) / 64);
    wire_end(wire, t);
    mw_node(wire, "MatMul", "x,w", "a");
    mw_node(wire, "Add", "a,x", "b");
    mw_node(wire, "Relu", "b", "c");
    mw_node(wire, "MatMul", "c,w", "d");
    mw_node(wire, "Sigmoid", "d", "y");
    mw_value(wire, MW_OUTPUT, "y", RIG_FLOAT, "N,64");
    wire_end(wire, mark);
}

static void compute_expected(const float *input, float *output)
{
    for (int r = 0; r < ROWS; r++) {
        double now[SIZE], next[SIZE];

        for (int j = 0; j < SIZE; j++)
            now[j] = input[r * SIZE + j];
        for (int layer = 0; layer < 2; layer++) {
            for (int j = 0; j < SIZE; j++) {
                next[j] = 0;
                for (int i = 0; i < SIZE; i++)
                    next[j] += now[i] * ((i * SIZE + j) % 7 - 3) / 64;
            }
            for (int j = 0; j < SIZE; j++)
                now[j] = layer == 0 ? fmax(next[j] + now[j], 0) : 1 / (1 + exp(-next[j]));
        }
        for (int j = 0; j < SIZE; j++)
            output[r * SIZE + j] = (float)now[j];
    }
}

/* Returns the number of the program's steps on the provider of that name. */
static uint32_t steps_of(const inlay_session *session, const char *name)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->main->step_count; i++)
        count += session->main->steps[i].provider != NULL && strcmp(session->main->steps[i].provider->name, name) == 0;
    return count;
}

static void check_plan(const inlay_session *session)
{
    const struct plan *plan = session->main->kept.plans;
    bool reads_input = false, writes_output = false;

    assert_non_null(plan);
    assert_true(plan->step_count >= 4);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];

        assert_int_equal(step->kind, PLAN_EXEC); /* no PLAN_COPY */
        for (uint32_t k = 0; k < step->step->region->input_count; k++) {
            const plan_place *place = &plan->places[step->in[k]];

            assert_int_equal(place->domain, INLAY_DOMAIN_HOST);
            reads_input |= place->source == PLACE_INPUT;
        }
        for (uint32_t k = 0; k < step->step->region->output_count; k++) {
            const plan_place *place = &plan->places[step->out[k]];

            assert_int_equal(place->domain, INLAY_DOMAIN_HOST);
            writes_output |= place->source == PLACE_OUTPUT;
        }
    }
    assert_true(reads_input);
    assert_true(writes_output);
}

static void run_on(const char *first)
{
    const int64_t dims[] = { ROWS, SIZE };
    static float x[ROWS * SIZE], y[ROWS * SIZE], want[ROWS * SIZE];
    char names[64];
    const char *options[] = { "providers", names, "plugin_dirs", SAMPLE_DIR, "policy", "priority", NULL };
    inlay_value *in, *out;
    struct wire wire = { 0 };
    struct rig rig;

    (void)snprintf(names, sizeof names, "%s,reference", first);
    write_model(&wire);
    rig = rig_open(&wire, options);
    assert_true(steps_of(rig.session, first) >= 2);
    assert_true(steps_of(rig.session, "reference") >= 1);
    for (int i = 0; i < ROWS * SIZE; i++) {
        x[i] = (float)sin(i);
        y[i] = -1;
    }
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, x, sizeof x, &in, NULL), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, y, sizeof y, &out, NULL), INLAY_OK);
    rig_bind(&rig, 0, in);
    assert_int_equal(inlay_context_set_output(rig.context, 0, out, NULL), INLAY_OK);
    inlay_value_unref(out);
    rig_run(&rig);
    assert_ptr_equal(inlay_value_data(inlay_context_output(rig.context, 0)), y);
    check_plan(rig.session);
    compute_expected(x, want);
    for (int i = 0; i < ROWS * SIZE; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f))
            fail_msg("%s: element %d is %g instead of %g", first, i, (double)y[i], (double)want[i]);
    rig_close(&rig);
}

static void skeleton_and_reference(void **state)
{
    (void)state;
    run_on("skeleton");
}

#ifdef HAVE_OPENBLAS
static void openblas_and_reference(void **state)
{
    (void)state;
    run_on("openblas");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skeleton_and_reference),
#ifdef HAVE_OPENBLAS
        cmocka_unit_test(openblas_and_reference),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
