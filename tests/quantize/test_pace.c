/* Whether quantize returns the unchanged model because the result is slower. Run times are given, not measured. */
#include "graph_script.h"
#include "cmocka_all.h"
#include "model_writer.h"
#include "quantize/quantize.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct pace paced(const double *ratios, uint32_t count)
{
    struct pace pace = { 0 };

    for (uint32_t i = 0; i < count; i++)
        pace_add(&pace, 2, 2 * ratios[i]);
    return pace;
}

static void few_rounds_for_clear_cases(void **state)
{
    const double faster[] = { 0.8, 0.9, 0.7 }, slower[] = { 0.98, 1.2, 1.0 }, unclear[] = { 0.9, 0.98, 0.9, 0.9, 0.9 };
    struct pace pace = paced(faster, 2);

    (void)state;
    assert_false(pace_is_settled(&pace, 0.97));
    pace = paced(faster, 3);
    assert_true(pace_is_settled(&pace, 0.97) && pace_holds(&pace, 0.97));
    pace = paced(slower, 3);
    assert_true(pace_is_settled(&pace, 0.97) && !pace_holds(&pace, 0.97));
    assert_true(pace_holds(&pace, 1.01) && pace_holds(&pace, INFINITY));
    pace = paced(slower, 0);
    assert_false(pace_is_settled(&pace, INFINITY));
    pace = paced(slower, 1); /* any time is accepted */
    assert_true(pace_is_settled(&pace, INFINITY) && !pace_is_settled(&pace, 0.97));
    pace = paced(unclear, 4);
    assert_false(pace_is_settled(&pace, 0.97));
    pace = paced(unclear, 5);
    assert_true(pace_is_settled(&pace, 0.97) && pace_holds(&pace, 0.97));
}

static void a_gain_within_the_variation_is_none(void **state)
{
    const double one_off[] = { 0.9, 0.9, 1.3, 0.9, 0.9 }, two_off[] = { 0.9, 1.3, 0.9, 1.01, 0.9 };
    const double little[] = { 0.98, 0.98, 0.96, 0.96, 0.98 };
    struct pace pace = paced(one_off, 5);
    double before, after;

    (void)state;
    assert_true(pace_holds(&pace, 0.97));
    pace_times(&pace, &before, &after);
    assert_true(before == 2 && fabs(after - 1.8) < 1e-12);
    pace = paced(two_off, 5);
    assert_false(pace_holds(&pace, 0.97));
    assert_true(pace_holds(&pace, 1.01));
    pace = paced(little, 5);
    assert_false(pace_holds(&pace, 0.97));
    pace = (struct pace){ 0 };
    assert_false(pace_holds(&pace, INFINITY));
    pace_times(&pace, &before, &after);
    assert_true(before == 0 && after == 0);
}

static const char script[] = "x : N,64\n one = [] 1.0\n v = [64,96]\n w = Sub(v, one)\n y = MatMul(x, w)\n -> y";

static inlay_status load(void *user, uint32_t i, inlay_value **values, inlay_diag *diag)
{
    const int64_t dims[] = { 2, 64 };
    inlay_status status = inlay_value_create(INLAY_FLOAT, 2, dims, &values[0], diag);

    (void)user;
    for (int k = 0; status == INLAY_OK && k < 128; k++)
        ((float *)inlay_value_data(values[0]))[k] = (float)((k * 37 + (int)i) % 23) / 23 - 0.5F;
    return status;
}

/* The times of the result in each round, relative to those of the model, and the number of rounds. */
struct planted {
    const char *model;
    const double *ratios;
    uint32_t rounds;
};

static bool timer(void *user, const char *path, double *out_ms)
{
    struct planted *planted = user;

    *out_ms = strcmp(path, planted->model) == 0 ? 1 : planted->ratios[planted->rounds++];
    return true;
}

struct fixture {
    char dir[64], model[96], output[96];
    inlay_options *options;
    inlay_session *session;
    struct samples set;
};

static void begin(struct fixture *fixture)
{
    inlay_diag diag[1] = { INLAY_DIAG_INIT };
    struct wire wire = { 0 };

    *fixture = (struct fixture){ .dir = "/tmp/inlay-pace-XXXXXX" };
    assert_non_null(mkdtemp(fixture->dir));
    (void)snprintf(fixture->model, sizeof fixture->model, "%s/m.onnx", fixture->dir);
    (void)snprintf(fixture->output, sizeof fixture->output, "%s/q.onnx", fixture->dir);
    script_model(&wire, 13, script);
    mw_save(&wire, fixture->model);
    wire_deinit(&wire);
    assert_int_equal(inlay_options_create(&fixture->options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(fixture->options, "cache_dir", "", diag), INLAY_OK);
    assert_int_equal(inlay_session_create(fixture->model, fixture->options, &fixture->session, diag), INLAY_OK);
    fixture->set = (struct samples){ .count = 3, .of = fixture->session, .load = load };
}

static void end(struct fixture *fixture)
{
    inlay_session_destroy(fixture->session);
    inlay_options_destroy(fixture->options);
    (void)unlink(fixture->output);
    assert_int_equal(unlink(fixture->model), 0);
    assert_int_equal(rmdir(fixture->dir), 0);
}

/* Is the unchanged model returned for these times of the result? */
static bool returns_model(const struct fixture *fixture, quantize_args how, const double *ratios, uint32_t rounds)
{
    struct planted planted = { fixture->model, ratios, 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    quantize_report report = { 0 };
    bool handed;

    how.model = fixture->model;
    how.output = fixture->output;
    how.options = fixture->options;
    how.data = &fixture->set;
    how.bits = 8;
    how.block = 32;
    how.prune = NAN;
    how.demand = (agree_demand){ .metric = AGREE_cosine, .goal = 0.9 };
    how.calls.timer = timer;
    how.calls.timer_user = &planted;
    assert_int_equal(quantize_model(&how, &report, &diag), INLAY_OK);
    assert_int_equal(access(fixture->output, R_OK), 0);
    assert_int_equal(planted.rounds, rounds);
    handed = report.handed != NULL;
    assert_true(report.layers[0].bits == (handed ? 32 : 8));
    assert_true(report.ms_before == 1 && report.ms_after > 0);
    if (handed) {
        assert_non_null(strstr(report.handed, "instead of 1 ms"));
        assert_int_equal(report.layers[0].bytes_after, report.layers[0].bytes_before);
    }
    quantize_report_deinit(&report);
    return handed;
}

static void the_faster_model_is_returned(void **state)
{
    const double clear[] = { 0.9, 0.95, 0.92 }, same[] = { 1, 0.98, 0.99 }, slow[] = { 1.02, 1.05, 1.03 },
                 spread[] = { 0.9, 1.02, 0.95, 1.03, 0.92 };
    const quantize_args fast = { .mode = QUANTIZE_WEIGHTS }, small = { .mode = QUANTIZE_WEIGHTS, .small = true },
                        must = { .mode = QUANTIZE_WEIGHTS, .must = true }, dynamic = { .mode = QUANTIZE_DYNAMIC };
    struct fixture fixture;

    (void)state;
    begin(&fixture);
    assert_false(returns_model(&fixture, fast, clear, 3));
    assert_true(returns_model(&fixture, fast, same, 3));
    assert_true(returns_model(&fixture, fast, slow, 3));
    assert_true(returns_model(&fixture, fast, spread, 5));
    assert_true(returns_model(&fixture, dynamic, same, 3));
    assert_false(returns_model(&fixture, small, same, 3));
    assert_true(returns_model(&fixture, small, slow, 3));
    assert_false(returns_model(&fixture, must, slow, 1));
    end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(few_rounds_for_clear_cases),
                                        cmocka_unit_test(a_gain_within_the_variation_is_none),
                                        cmocka_unit_test(the_faster_model_is_returned) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
