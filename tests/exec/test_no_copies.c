/* Providers that work in host memory hand values to one another where they lie: a plan over two of them has no copy,
 * reads the caller's input and writes the caller's output in place. */
#include "plan/plan.h"
#include "rig.h"
#include "session/session.h"
#include <math.h>

enum { ROWS = 4, SIZE = 64 };

/* MatMul by a constant, Add, Relu, MatMul, Sigmoid: some of it for a provider of few operators, the rest for one of
 * all. */
static void write_model(struct wire *w)
{
    static const int64_t dims[] = { SIZE, SIZE };
    wire_mark g = mw_begin(w, 8, 17), t;

    mw_value(w, MW_INPUT, "x", RIG_FLOAT, "N,64");
    t = wire_begin(w, MW_INITIALIZER);
    mw_tensor_head(w, "w", RIG_FLOAT, 2, dims);
    for (int i = 0; i < SIZE * SIZE; i++)
        wire_float(w, 4, (float)(i % 7 - 3) / 64);
    wire_end(w, t);
    mw_node(w, "MatMul", "x,w", "a");
    mw_node(w, "Add", "a,x", "b");
    mw_node(w, "Relu", "b", "c");
    mw_node(w, "MatMul", "c,w", "d");
    mw_node(w, "Sigmoid", "d", "y");
    mw_value(w, MW_OUTPUT, "y", RIG_FLOAT, "N,64");
    wire_end(w, g);
}

static void define(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++) {
        double now[SIZE], next[SIZE];

        for (int j = 0; j < SIZE; j++)
            now[j] = x[r * SIZE + j];
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
            y[r * SIZE + j] = (float)now[j];
    }
}

/* How many steps of the program run on the provider of that name. */
static uint32_t steps_of(const inlay_session *s, const char *name)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->main->step_count; i++)
        count += s->main->steps[i].provider != NULL && strcmp(s->main->steps[i].provider->name, name) == 0;
    return count;
}

static void check_plan(const inlay_session *s)
{
    const struct plan *p = s->main->kept.plans;
    bool reads_input = false, writes_output = false;

    assert_non_null(p);
    assert_true(p->step_count >= 4);
    for (uint32_t i = 0; i < p->step_count; i++) {
        const plan_step *step = &p->steps[i];

        assert_int_equal(step->kind, PLAN_EXEC); /* no PLAN_COPY */
        for (uint32_t k = 0; k < step->step->region->input_count; k++) {
            const plan_place *place = &p->places[step->in[k]];

            assert_int_equal(place->domain, INLAY_DOMAIN_HOST);
            reads_input |= place->source == PLACE_INPUT;
        }
        for (uint32_t k = 0; k < step->step->region->output_count; k++) {
            const plan_place *place = &p->places[step->out[k]];

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
    struct wire w = { 0 };
    struct rig r;

    (void)snprintf(names, sizeof names, "%s,reference", first);
    write_model(&w);
    r = rig_open(&w, options);
    assert_true(steps_of(r.session, first) >= 2);
    assert_true(steps_of(r.session, "reference") >= 1);
    for (int i = 0; i < ROWS * SIZE; i++) {
        x[i] = (float)sin(i);
        y[i] = -1;
    }
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, x, sizeof x, &in, NULL), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, y, sizeof y, &out, NULL), INLAY_OK);
    rig_bind(&r, 0, in);
    assert_int_equal(inlay_context_set_output(r.context, 0, out, NULL), INLAY_OK);
    inlay_value_unref(out);
    rig_run(&r);
    assert_ptr_equal(inlay_value_data(inlay_context_output(r.context, 0)), y);
    check_plan(r.session);
    define(x, want);
    for (int i = 0; i < ROWS * SIZE; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f))
            fail_msg("%s: element %d is %g instead of %g", first, i, (double)y[i], (double)want[i]);
    rig_close(&r);
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
