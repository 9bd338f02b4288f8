/* When a model is handed back for its time: by planted times, so that no clock decides. */
#include "../passes/graph_script.h"
#include "cmocka_all.h"
#include "model_writer.h"
#include "quantize/quantize.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the rule */

static struct pace paced(const double *ratios, uint32_t count)
{
    struct pace p = { 0 };

    for (uint32_t i = 0; i < count; i++)
        pace_add(&p, 2, 2 * ratios[i]);
    return p;
}

static void few_rounds_settle_what_is_clear(void **state)
{
    const double faster[] = { 0.8, 0.9, 0.7 }, slower[] = { 0.98, 1.2, 1.0 }, unclear[] = { 0.9, 0.98, 0.9, 0.9, 0.9 };
    struct pace p = paced(faster, 2);

    (void)state;
    assert_false(pace_is_settled(&p, 0.97));
    p = paced(faster, 3);
    assert_true(pace_is_settled(&p, 0.97) && pace_holds(&p, 0.97));
    p = paced(slower, 3);
    assert_true(pace_is_settled(&p, 0.97) && !pace_holds(&p, 0.97));
    assert_true(pace_holds(&p, 1.01) && pace_holds(&p, INFINITY));
    p = paced(unclear, 4);
    assert_false(pace_is_settled(&p, 0.97));
    p = paced(unclear, 5);
    assert_true(pace_is_settled(&p, 0.97) && pace_holds(&p, 0.97));
}

static void a_gain_within_the_spread_is_none(void **state)
{
    const double one_off[] = { 0.9, 0.9, 1.3, 0.9, 0.9 }, two_off[] = { 0.9, 1.3, 0.9, 1.01, 0.9 };
    const double little[] = { 0.98, 0.98, 0.96, 0.96, 0.98 };
    struct pace p = paced(one_off, 5);
    double before, after;

    (void)state;
    assert_true(pace_holds(&p, 0.97));
    pace_times(&p, &before, &after);
    assert_true(before == 2 && fabs(after - 1.8) < 1e-12);
    p = paced(two_off, 5);
    assert_false(pace_holds(&p, 0.97));
    assert_true(pace_holds(&p, 1.01));
    p = paced(little, 5);
    assert_false(pace_holds(&p, 0.97));
    p = (struct pace){ 0 };
    assert_false(pace_holds(&p, INFINITY));
    pace_times(&p, &before, &after);
    assert_true(before == 0 && after == 0);
}

/* ------------------------------------------------------------------ what is written */

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

/* Times of the result, round by round, where the model's are 1; and how many rounds there were. */
struct planted {
    const char *model;
    const double *ratios;
    uint32_t rounds;
};

static bool timer(void *user, const char *path, double *out_ms)
{
    struct planted *p = user;

    *out_ms = strcmp(path, p->model) == 0 ? 1 : p->ratios[p->rounds++];
    return true;
}

struct fixture {
    char dir[64], model[96], output[96];
    inlay_options *options;
    inlay_session *session;
    struct samples set;
};

static void begin(struct fixture *f)
{
    inlay_diag diag[1] = { INLAY_DIAG_INIT };
    struct wire w = { 0 };
    FILE *file;

    *f = (struct fixture){ .dir = "/tmp/inlay-pace-XXXXXX" };
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->model, sizeof f->model, "%s/m.onnx", f->dir);
    (void)snprintf(f->output, sizeof f->output, "%s/q.onnx", f->dir);
    script_model(&w, script, 13);
    file = fopen(f->model, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(w.bytes, 1, w.count, file), w.count);
    assert_int_equal(fclose(file), 0);
    wire_deinit(&w);
    assert_int_equal(inlay_options_create(&f->options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(f->options, "cache_dir", "", diag), INLAY_OK);
    assert_int_equal(inlay_session_create(f->model, f->options, &f->session, diag), INLAY_OK);
    f->set = (struct samples){ .count = 3, .of = f->session, .load = load };
}

static void end(struct fixture *f)
{
    inlay_session_destroy(f->session);
    inlay_options_destroy(f->options);
    (void)unlink(f->output);
    assert_int_equal(unlink(f->model), 0);
    assert_int_equal(rmdir(f->dir), 0);
}

/* Is the model handed back, where the result takes these times? */
static bool hands_back(const struct fixture *f, quantize_args how, const double *ratios, uint32_t rounds)
{
    struct planted p = { f->model, ratios, 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    quantize_report report = { 0 };
    bool handed;

    how.model = f->model;
    how.output = f->output;
    how.options = f->options;
    how.data = &f->set;
    how.bits = 8;
    how.block = 32;
    how.prune = NAN;
    how.metric = AGREE_cosine;
    how.goal = 0.9;
    how.timer = timer;
    how.timer_user = &p;
    assert_int_equal(quantize_model(&how, &report, &diag), INLAY_OK);
    assert_int_equal(access(f->output, R_OK), 0);
    assert_int_equal(p.rounds, rounds);
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

static void the_model_is_handed_back_where_that_is_faster(void **state)
{
    const double clear[] = { 0.9, 0.95, 0.92 }, same[] = { 1, 0.98, 0.99 }, slow[] = { 1.02, 1.05, 1.03 },
                 spread[] = { 0.9, 1.02, 0.95, 1.03, 0.92 };
    const quantize_args fast = { .mode = QUANTIZE_WEIGHTS }, small = { .mode = QUANTIZE_WEIGHTS, .small = true },
                        must = { .mode = QUANTIZE_WEIGHTS, .must = true }, dynamic = { .mode = QUANTIZE_DYNAMIC };
    struct fixture f;

    (void)state;
    begin(&f);
    assert_false(hands_back(&f, fast, clear, 3));
    assert_true(hands_back(&f, fast, same, 3));
    assert_true(hands_back(&f, fast, slow, 3));
    assert_true(hands_back(&f, fast, spread, 5));
    assert_true(hands_back(&f, dynamic, same, 3));
    assert_false(hands_back(&f, small, same, 3));
    assert_true(hands_back(&f, small, slow, 3));
    assert_false(hands_back(&f, must, slow, 3));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(few_rounds_settle_what_is_clear),
                                        cmocka_unit_test(a_gain_within_the_spread_is_none),
                                        cmocka_unit_test(the_model_is_handed_back_where_that_is_faster) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
