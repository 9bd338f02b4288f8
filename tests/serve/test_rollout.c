/* The rules of rollouts, as rows of numbers: no server, no times. */
#include "cmocka_all.h"
#include "serve/base/rollout.h"
#include <math.h>
#include <string.h>

static rollout_rules rules_of(const char *metric, const char *bound, const char *requests)
{
    static const char *const rows[][2] = { { "rollout", "canary" },
                                           { "rollout_percent", "5" },
                                           { "rollout_median_ratio", "2" },
                                           { "rollout_tail_ratio", "3" },
                                           { "rollout_error_percent", "1" } };
    rollout_rules rules = { .mode = ROLLOUT_OFF };
    inlay_diag diag = INLAY_DIAG_INIT;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(rollout_set(&rules, rows[i][0], rows[i][1], "test", &diag), INLAY_OK);
    assert_int_equal(rollout_set(&rules, "rollout_metric", metric, "test", &diag), INLAY_OK);
    assert_int_equal(rollout_set(&rules, "rollout_bound", bound, "test", &diag), INLAY_OK);
    assert_int_equal(rollout_set(&rules, "rollout_requests", requests, "test", &diag), INLAY_OK);
    return rules;
}

/* Adds `pairs` comparisons of the outputs [3, 4] and [3 * scale, 4 * scale]. */
static void add_pairs(rollout_figures *figures, uint32_t pairs, float scale)
{
    const float want[2] = { 3, 4 }, got[2] = { 3 * scale, 4 * scale };
    const int64_t dims[2] = { 1, 2 };
    const inlay_tensor_view a = { .data = want, .dims = dims, .rank = 2, .dtype = INLAY_FLOAT },
                            b = { .data = got, .dims = dims, .rank = 2, .dtype = INLAY_FLOAT };

    for (uint32_t i = 0; i < pairs; i++)
        assert_int_equal(agree_add(&figures->outputs[1], &a, &b, NULL), INLAY_OK);
    figures->compared += pairs;
}

static void add_times(rollout_times *times, uint32_t count, uint64_t ns)
{
    for (uint32_t i = 0; i < count; i++)
        rollout_times_add(times, ns);
}

enum { MS = 1000000 };

static void test_decisions(void **state)
{
    static const struct {
        const char *metric, *bound;
        uint32_t pairs;
        float scale;
        uint64_t failed, unlike;
        uint64_t stable_ns, candidate_ns, slow_ns; /* of all runs; of 2 % of the candidate's runs */
        rollout_state want;
        const char *reason;
    } rows[] = {
        { "relative", "0.1", 100, 1, 0, 0, MS, MS, 0, ROLLOUT_PROMOTED, "100 pairs agree" },
        { "relative", "0.1", 99, 1, 0, 0, MS, MS, 0, ROLLOUT_RUNNING, "" },
        { "relative", "0.1", 100, 1.05F, 0, 0, MS, MS, 0, ROLLOUT_PROMOTED, "" },
        { "relative", "0.1", 100, 1.2F, 0, 0, MS, MS, 0, ROLLOUT_DROPPED,
          "output 'y': relative is 0.2 over 100 pairs" },
        { "relative", "0.1", 99, 5, 0, 0, MS, MS, 0, ROLLOUT_RUNNING, "" },
        { "cosine", "0.99", 100, 5, 0, 0, MS, MS, 0, ROLLOUT_PROMOTED, "" },
        { "cosine", "0.99", 100, -1, 0, 0, MS, MS, 0, ROLLOUT_DROPPED, "output 'y': cosine is -1" },
        { "top1", "0.95", 100, -1, 0, 0, MS, MS, 0, ROLLOUT_DROPPED, "output 'y': top1 is 0" },
        { "kl", "0.01", 100, 1, 0, 0, MS, MS, 0, ROLLOUT_PROMOTED, "" },
        { "kl", "0.01", 100, -1, 0, 0, MS, MS, 0, ROLLOUT_DROPPED, "output 'y': kl is" },
        /* One per cent of 100 requests may fail or differ; as soon as more do, the rollout ends. */
        { "relative", "0.1", 99, 1, 1, 0, MS, MS, 0, ROLLOUT_PROMOTED, "1 requests failed on it alone" },
        { "relative", "0.1", 0, 1, 1, 0, MS, MS, 0, ROLLOUT_RUNNING, "" },
        { "relative", "0.1", 0, 1, 2, 0, MS, MS, 0, ROLLOUT_DROPPED, "2 of 2 requests failed on it alone" },
        { "relative", "0.1", 3, 1, 1, 1, MS, MS, 0, ROLLOUT_DROPPED, "and 1 had other outputs, more than 1 %" },
        { "relative", "0.1", 300, 1, 0, 3, MS, MS, 0, ROLLOUT_PROMOTED, "297 pairs agree" },
        { "relative", "0.1", 300, 1, 0, 4, MS, MS, 0, ROLLOUT_DROPPED, "4 had other outputs" },
        /* Times: ratios of the median and the 99th percentile; what takes less than 0.1 ms longer is not slower. */
        { "relative", "0.1", 100, 1, 0, 0, MS, 1700000, 0, ROLLOUT_PROMOTED, "" },
        { "relative", "0.1", 100, 1, 0, 0, MS, 3 * MS, 0, ROLLOUT_DROPPED, "the median of its runs" },
        { "relative", "0.1", 100, 1, 0, 0, MS, MS, 10 * MS, ROLLOUT_DROPPED, "the 99th percentile of its runs" },
        { "relative", "0.1", 100, 1, 0, 0, MS, MS, 2500000, ROLLOUT_PROMOTED, "" },
        { "relative", "0.1", 100, 1, 0, 0, 5000, 80000, 0, ROLLOUT_PROMOTED, "" },
        { "relative", "0.1", 100, 1, 0, 0, 0, 0, 0, ROLLOUT_PROMOTED, "no run times could be compared" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rollout_rules rules = rules_of(rows[i].metric, rows[i].bound, "100");
        rollout_figures figures;
        char reason[ROLLOUT_REASON_BYTES];
        rollout_state got;

        rollout_figures_init(&figures, &rules);
        (void)strcpy(figures.names[1], "y");
        add_pairs(&figures, rows[i].pairs, rows[i].scale);
        figures.failed = rows[i].failed;
        figures.unlike = rows[i].unlike;
        if (rows[i].stable_ns > 0) { /* otherwise no pair was timed */
            add_times(&figures.stable, 100, rows[i].stable_ns);
            add_times(&figures.candidate, 98, rows[i].candidate_ns);
            add_times(&figures.candidate, 2, rows[i].slow_ns > 0 ? rows[i].slow_ns : rows[i].candidate_ns);
        }
        got = rollout_decide(&rules, &figures, reason);
        if (got != rows[i].want || strstr(reason, rows[i].reason) == NULL)
            fail_msg("row %zu: %s: %s", i, rollout_state_name(got), reason);
    }
}

/* The share of the first n requests is exact for every n, and so is every hundred's. */
static void test_the_share(void **state)
{
    static const struct {
        const char *percent;
        uint64_t of_10000;
    } rows[] = { { "0.01", 1 }, { "5", 500 }, { "12.5", 1250 }, { "33", 3300 }, { "100", 10000 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rollout_rules rules = { .mode = ROLLOUT_OFF };
        uint64_t last = 0;

        assert_int_equal(rollout_set(&rules, "rollout_percent", rows[i].percent, "test", NULL), INLAY_OK);
        for (uint64_t n = 1; n <= 30000; n++) {
            uint64_t chosen = rollout_chosen(&rules, n);

            assert_true(chosen == last || chosen == last + 1);
            last = chosen;
            if (n % 10000 == 0)
                assert_int_equal(chosen, n / 10000 * rows[i].of_10000);
        }
    }
}

/* Each time is reported to 9 %, and a share below which no time is, as 0. */
static void test_times(void **state)
{
    rollout_times times = { .count = 0 };

    (void)state;
    assert_true(rollout_times_at(&times, 0.5) == 0);
    for (uint64_t ns = 300; ns < UINT64_C(60000000000); ns = ns * 11 / 10) {
        double got;

        times = (rollout_times){ .count = 0 };
        rollout_times_add(&times, ns);
        got = rollout_times_at(&times, 0.99);
        assert_true(got > (double)ns / 1.09 && got < (double)ns * 1.09);
    }
    times = (rollout_times){ .count = 0 };
    rollout_times_add(&times, 0);
    rollout_times_add(&times, UINT64_MAX);
    assert_int_equal(times.count, 2);
    assert_true(rollout_times_at(&times, 0.5) < rollout_times_at(&times, 1));
}

/* Sums of parts are the sums of the whole. */
static void test_merged_sums(void **state)
{
    static const agree_metric metrics[] = { AGREE_top1, AGREE_cosine, AGREE_kl, AGREE_psnr, AGREE_iou };

    (void)state;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        rollout_rules rules = { .metric = metrics[i] };
        rollout_figures whole, parts[2];

        rollout_figures_init(&whole, &rules);
        for (uint32_t k = 0; k < 2; k++) {
            rollout_figures_init(&parts[k], &rules);
            add_pairs(&parts[k], 3 + k, 1.5F - (float)k);
            add_pairs(&whole, 3 + k, 1.5F - (float)k);
        }
        agree_merge(&parts[0].outputs[1], &parts[1].outputs[1]);
        assert_true(fabs(agree_result(&parts[0].outputs[1]).value - agree_result(&whole.outputs[1]).value) < 1e-12);
        assert_true(fabs(agree_relative(&parts[0].outputs[1]) - agree_relative(&whole.outputs[1])) < 1e-12);
        assert_true(parts[0].outputs[1].max_error == whole.outputs[1].max_error);
        assert_int_equal(parts[0].outputs[1].samples, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_the_share),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_merged_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
