/* Components of the cost model: fits, the file of measurements, the machine profile. Corrupt files are ignored and
 * never an error. Every allocation is made to fail once. */
#include "base/core_kind.h"
#include "base/core_speed.h"
#include "inlay/note.h"
#include "failing_alloc.h"
#include "folder.h"
#include "inlay/plugin.h"
#include "measure/calibrate.h"
#include "measure/measure_time.h"
#include "partition/cost/cost.h"
#include "partition/cost/cost_fit.h"
#include "partition/cost/cost_profile.h"
#include "partition/cost/cost_store.h"
#include <math.h>

static const cost_log logged = { keep_log, NULL };

/* A fit to points computed from known rates predicts these points. */
static void fits_find_the_rates(void **state)
{
    static const double rates[][FIT_TERMS] = {
        { 200, 0.05, 0, 0 }, { 100, 0, 0.125, 0.1 }, { 5000, 0.01, 0.1, 0 }, { 50, 0, 0.02, 0 }, { 0, 1, 0, 0 },
    };
    static const double flops[] = { 1e3, 1e4, 1e5, 1e6, 1e7, 1e8 }, bytes[] = { 1e3, 5e4, 1e4, 8e6, 1e5, 3e7 };

    (void)state;
    for (size_t rate = 0; rate < sizeof rates / sizeof rates[0]; rate++) {
        fit_point points[6];
        fit_line line;

        for (int i = 0; i < 6; i++) {
            fit_terms(flops[i], bytes[i], 0, 0, points[i].x);
            points[i].ns = 0;
            for (int t = 0; t < FIT_TERMS; t++)
                points[i].ns += rates[rate][t] * points[i].x[t];
        }
        assert_true(fit_points(points, 6, 0, &line));
        assert_int_equal(line.points, 6);
        for (int i = 0; i < 6; i++)
            assert_true(fabs(fit_at(&line, points[i].x) / points[i].ns - 1) < 0.02);
        assert_true(line.error < 1.02);
    }
}

/* Noise changes a fit only a little, and never gives a negative rate; the line reports its error. */
static void fits_tolerate_noise(void **state)
{
    static const double noise[] = { 1.1, 0.9, 1.25, 0.95, 1.02, 0.85, 1.4, 1 };
    fit_point points[8];
    fit_line line;

    (void)state;
    for (int i = 0; i < 8; i++) {
        fit_terms(pow(10, 3 + i * 0.6), 4 * pow(10, 3 + (7 - i) * 0.6), 0, 0, points[i].x);
        points[i].ns = (300 + 0.05 * points[i].x[FIT_FLOPS] + 0.2 * points[i].x[FIT_BYTES]) * noise[i];
    }
    assert_true(fit_points(points, 8, 0, &line));
    for (int t = 0; t < FIT_TERMS; t++)
        assert_true(line.ns_per[t] >= 0);
    for (int i = 0; i < 8; i++)
        assert_true(fit_at(&line, points[i].x) / points[i].ns < 1.6 && fit_at(&line, points[i].x) / points[i].ns > 0.6);
    assert_true(line.error > 1 && line.error < 1.4);
}

/* If the predictions of a provider's model are right up to a factor, the fit follows them, also for sizes that were not
 * measured, although flops and bytes do not explain the times. With few points, the reported error is that of
 * predictions, not of the residuals. */
static void fits_follow_the_model(void **state)
{
    static const double model[] = { 200, 30000, 1200, 90000 }, noise[] = { 1.04, 0.97, 1, 1.02 };
    static const double flops[] = { 1e4, 1e4, 1e6, 1e5 }, bytes[] = { 1e5, 3e3, 1e4, 2e4 };
    static const double odd[] = { 100, 500, 180 };
    fit_point points[4], other = { .x = { 0 } };
    fit_line line;

    (void)state;
    for (int i = 0; i < 4; i++) {
        fit_terms(flops[i], bytes[i], model[i], 0, points[i].x);
        points[i].ns = 1.5 * model[i] * noise[i];
    }
    assert_true(fit_points(points, 4, 0, &line));
    fit_terms(1e7, 1e6, 5000, 0, other.x);
    assert_true(fabs(fit_at(&line, other.x) / 7500 - 1) < 0.06);
    assert_true(line.error < 1.1);
    for (int i = 0; i < 3; i++) {
        fit_terms(1000 * (i + 1), 100, 0, 0, points[i].x);
        points[i].ns = odd[i];
    }
    assert_true(fit_points(points, 3, 0, &line));
    assert_true(line.error > 1.5);
}

/* If half of the kernels of a class take four times as long as the others, the line is in the geometric middle. */
static void fits_are_in_the_middle(void **state)
{
    fit_point points[8];
    fit_line line;

    (void)state;
    for (int i = 0; i < 8; i++) {
        fit_terms(0, 0, 1000 * (i / 2 + 1), 0, points[i].x);
        points[i].ns = points[i].x[FIT_MODEL] * (i % 2 == 0 ? 1 : 4);
    }
    assert_true(fit_points(points, 8, 1 << FIT_MODEL, &line));
    assert_true(fabs(line.ns_per[FIT_MODEL] - 2) < 0.05);
}

/* Simulated times of runs; 100000 marks a run that was disturbed by other processes. */
typedef struct runs_ahead {
    const double *ns;
    uint32_t count, at;
} runs_ahead;

static inlay_status next_run(void *ctx, double *out_ns, bool *out_calm)
{
    runs_ahead *ahead = ctx;

    *out_ns = ahead->ns[ahead->at++ % ahead->count];
    *out_calm = *out_ns < 100000;
    return INLAY_OK;
}

/* Disturbed runs are ignored if there are undisturbed ones; otherwise the result is marked as not calm. */
static void disturbed_runs_do_not_count(void **state)
{
    static const double some[] = { 500, 100000, 300, 100000, 100, 200 }, bad[] = { 100000, 100000 };
    const measure_plan whole = { .min_runs = 4, .max_runs = 4, .budget_ns = 1e12 };
    const measure_plan brief = { .min_runs = 2, .max_runs = 4, .budget_ns = 0 };
    runs_ahead ahead = { some, 6, 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct measurement got;

    (void)state;
    assert_int_equal(measure_runs(next_run, &ahead, &whole, 2, &got, &diag), INLAY_OK); /* 300 100 200 500 */
    assert_true(got.calm && got.samples == 4 && got.ns == 300);
    ahead = (runs_ahead){ bad, 2, 0 };
    assert_int_equal(measure_runs(next_run, &ahead, &brief, 4, &got, &diag), INLAY_OK);
    assert_true(!got.calm && got.ns == 100000 && got.samples == 2);
    assert_int_equal(measure_runs(next_run, &ahead, &whole, 4, &got, &diag), INLAY_OK); /* retries are limited */
    assert_true(!got.calm && got.samples == MEASURE_RETRY_FACTOR * 4);
}

/* Weights read from main memory cost time for each byte; those of a model that fits into the near cache do not. */
static void cold_weights_cost_more(void **state)
{
    fit_point points[8];
    fit_line line;

    (void)state;
    assert_true(cost_cold_share(0) == 0 && cost_cold_share(UINT64_MAX) == 1);
    assert_true(cost_cold_share(cost_near_bytes() / 2) == 0 && cost_weights_in(cost_near_bytes() / 2) == COST_NEAR);
    assert_true(cost_cold_share(cost_near_bytes()) > 0 && cost_weights_in(cost_near_bytes()) == COST_SHARED);
    assert_true(cost_cold_share(cost_shared_bytes()) == 1 && cost_weights_in(cost_shared_bytes()) == COST_FAR);
    for (int i = 0; i < 8; i++) {
        double bytes = 1e4 * (1 + i / 2);
        fit_terms(2 * bytes, bytes, bytes / 100, i % 2 == 0 ? 0 : bytes, points[i].x);
        points[i].ns = points[i].x[FIT_MODEL] * 1.25 + points[i].x[FIT_COLD] / 40;
    }
    assert_true(fit_points(points, 8, 0, &line));
    assert_true(fabs(line.ns_per[FIT_MODEL] - 1.25) < 1e-6 && fabs(line.ns_per[FIT_COLD] - 1 / 40.0) < 1e-9);
}

/* The cost of a call is fitted for each class separately, so that a class of cheap kernels is not charged the calls of
 * an expensive one. */
static void call_cost_is_fitted_by_class(void **state)
{
    calibrate_point points[6];
    profile_provider out = { .name = "fake" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct arena arena = { 0 };

    (void)state;
    for (int i = 0; i < 6; i++) {
        bool expensive = i >= 3;
        points[i] = (calibrate_point){ .class = { expensive ? "Conv" : "Relu", COST_PLAIN, INLAY_FLOAT },
                                       .threads = 1,
                                       .kind = COST_STREAM };
        fit_terms(0, 1e3 * pow(10, i % 3), 0, 0, points[i].point.x);
        points[i].point.ns = (expensive ? 1e4 : 10) * pow(10, i % 3);
    }
    assert_int_equal(calibrate_fit(points, 6, &arena, &out, &diag), INLAY_OK);
    for (uint32_t i = 0; i < out.line_count; i++) {
        if (strcmp(out.lines[i].class.op, "Relu") == 0)
            assert_true(fabs(out.lines[i].fit.ns_per[FIT_ONE] - 5) < 0.1);
        if (strcmp(out.lines[i].class.op, "Conv") == 0)
            assert_true(fabs(out.lines[i].fit.ns_per[FIT_ONE] - 5e3) < 10);
    }
    arena_deinit(&arena);
}

/* The factor of the borders is the median of the points that were timed in a chain, without those whose chain
 * failed. */
static void borders_need_a_timed_chain(void **state)
{
    calibrate_point points[5];
    profile_provider out = { .name = "fake" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct arena arena = { 0 };

    (void)state;
    for (int i = 0; i < 5; i++) {
        points[i] = (calibrate_point){ .class = { "Relu", COST_PLAIN, INLAY_FLOAT },
                                       .threads = 1,
                                       .kind = COST_STREAM,
                                       .nodes_more = CALIBRATE_CHAIN - 1,
                                       .model_ns = 1e3,
                                       .border_ns = 1e4 };
        fit_terms(0, 1e3 * (i + 1), 0, 0, points[i].point.x);
        points[i].point.ns = 6e3;
        if (i < 2) { /* 1e3 for each additional node, so 5e3 for borders */
            points[i].with_ns = 6e3 + 1e3 * (CALIBRATE_CHAIN - 1);
            points[i].without_ns = 6e3;
        }
    }
    assert_int_equal(calibrate_fit(points, 5, &arena, &out, &diag), INLAY_OK);
    assert_int_equal(out.factor_count, 1);
    assert_float_equal(out.factors[0].border, 0.5, 1e-6);
    arena_deinit(&arena);
}

static void fits_reject_invalid_points(void **state)
{
    fit_point good = { .x = { 1, 10, 10, 0 }, .ns = 5 }, bad;
    static const double junk[] = { NAN, INFINITY, -1, 0 };
    fit_line line;

    (void)state;
    assert_false(fit_points(&good, 0, 0, &line));
    assert_true(fit_points(&good, 1, 0, &line));
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        bad = good;
        bad.ns = junk[i];
        assert_false(fit_points(&bad, 1, 0, &line));
        bad = good;
        bad.x[FIT_FLOPS] = junk[i];
        assert_true(junk[i] == 0 || !fit_points(&bad, 1, 0, &line));
    }
}

static cost_record record(uint64_t key, double ns, float spread, int64_t when)
{
    return (cost_record){
        .key = { { key * 77, key } }, .ns = ns, .spread = spread, .samples = 5, .when = when, .what = "Conv"
    };
}

static double stored(uint64_t key)
{
    cost_store store;
    const cost_record *record;
    double ns = -1;

    assert_int_equal(cost_store_load(folder, &logged, &store), INLAY_OK);
    record = cost_store_find(&store, (cost_key){ { key * 77, key } });
    if (record != NULL)
        ns = record->ns;
    cost_store_deinit(&store);
    return ns;
}

static void measurements_come_back(void **state)
{
    cost_record some[] = { record(9, 900, 0.01f, 1), record(2, 200, 0.01f, 1), record(5, 500, 0.01f, 1) };
    cost_record more[] = { record(7, 700, 0.01f, 2), record(5, 800, 0.01f, 2), record(5, 805, 0.01f, 2) };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct stat st;

    (void)state;
    warnings = 0;
    assert_true(stored(9) < 0);
    assert_int_equal(cost_store_merge(folder, some, 3, &logged, &diag), INLAY_OK);
    assert_true(stored(9) == 900 && stored(2) == 200 && stored(5) == 500 && stored(7) < 0);
    assert_int_equal(cost_store_merge(folder, more, 3, &logged, &diag), INLAY_OK);
    assert_true(stored(9) == 900 && stored(2) == 200 && stored(5) == 800 && stored(7) == 700);
    assert_int_equal(cost_store_merge(folder, NULL, 0, &logged, &diag), INLAY_OK);
    assert_int_equal(stat(in_folder("measured.bin"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(warnings, 0);
    assert_int_equal(cost_store_merge("/nowhere/at/all", some, 3, NULL, &diag), INLAY_IO_ERROR);
}

/* A new measurement replaces the stored one only if the two differ by more than the noise of both. */
static void figures_have_hysteresis(void **state)
{
    static const struct {
        float old_spread, fresh_spread;
        double fresh, expected;
    } rows[] = {
        { 0, 0, 104, 100 },    { 0, 0, 96, 100 },     { 0, 0, 106, 106 },
        { 0, 0, 94, 94 },      { 0.2f, 0, 119, 100 }, { 0, 0.2f, 119, 100 },
        { 0.2f, 0, 121, 121 }, { 0, 0.2f, 75, 75 },   { 0.5f, 0.5f, 140, 100 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cost_record old = record(1, 100, rows[i].old_spread, 10);
        cost_record fresh = record(1, rows[i].fresh, rows[i].fresh_spread, 20);

        cost_record_absorb(&old, &fresh);
        assert_true(old.ns == rows[i].expected);
        assert_int_equal(old.when, 20);
        assert_int_equal(old.samples, old.ns == 100 ? 10 : 5);
    }
    {
        cost_record old = record(1, 100, 0, 10), fresh = record(1, 101, 0, 5);
        old.samples = UINT32_MAX;
        cost_record_absorb(&old, &fresh);
        assert_true(old.samples == UINT32_MAX && old.when == 10);
    }
}

/* A file with any changed byte is ignored with one warning; nothing fails. */
static void corrupt_measurements_are_ignored(void **state)
{
    cost_record some[] = { record(1, 100, 0, 1), record(2, 200, 0, 1), record(3, 300, 0, 1) };
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t bytes;
    char *data;

    (void)state;
    assert_int_equal(cost_store_merge(folder, some, 3, &logged, &diag), INLAY_OK);
    data = read_file("measured.bin", &bytes);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (char)(data[i] ^ (1 << (i % 8)));
        write_file("measured.bin", data, bytes);
        warnings = 0;
        assert_true(stored(2) < 0);
        assert_int_equal(warnings, 1);
        data[i] = (char)(data[i] ^ (1 << (i % 8)));
    }
    for (size_t i = 0; i < bytes; i += 7) {
        write_file("measured.bin", data, i);
        assert_true(stored(2) < 0);
    }
    write_file("measured.bin", data, bytes);
    assert_true(stored(2) == 200);
    /* A merge into a corrupt file starts with an empty one. */
    write_file("measured.bin", data, bytes / 2);
    assert_int_equal(cost_store_merge(folder, some, 1, &logged, &diag), INLAY_OK);
    assert_true(stored(1) == 100 && stored(3) < 0);
    free(data);
}

/* Files that other users may write, and symbolic links, are not read. */
static void planted_files_are_ignored(void **state)
{
    cost_record some[] = { record(1, 100, 0, 1) };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(cost_store_merge(folder, some, 1, &logged, &diag), INLAY_OK);
    assert_int_equal(chmod(in_folder("measured.bin"), 0666), 0);
    warnings = 0;
    assert_true(stored(1) < 0);
    assert_int_equal(warnings, 1);
    assert_int_equal(chmod(in_folder("measured.bin"), 0600), 0);
    assert_true(stored(1) == 100);
    {
        char from[PATH_MAX + 64];
        (void)snprintf(from, sizeof from, "%s", in_folder("measured.bin"));
        assert_int_equal(rename(from, in_folder("elsewhere")), 0);
        assert_int_equal(symlink("elsewhere", from), 0);
    }
    assert_true(stored(1) < 0);
}

/* The size of the file is limited; the oldest measurements are dropped. */
static void old_measurements_are_dropped(void **state)
{
    uint32_t count = COST_STORE_MAX_RECORDS + 1000;
    cost_record *many = calloc(count, sizeof *many);
    inlay_diag diag = INLAY_DIAG_INIT;
    cost_store store;

    (void)state;
    assert_non_null(many);
    for (uint32_t i = 0; i < count; i++)
        many[i] = record(i + 1, i + 1, 0, i);
    assert_int_equal(cost_store_merge(folder, many, count, &logged, &diag), INLAY_OK);
    assert_int_equal(cost_store_load(folder, &logged, &store), INLAY_OK);
    assert_int_equal(store.count, COST_STORE_MAX_RECORDS);
    cost_store_deinit(&store);
    assert_true(stored(1000) < 0);
    assert_true(stored(1001) == 1001 && stored(count) == count);
    free(many);
}

static void make_profile(cost_profile *profile)
{
    profile_provider *one = arena_array(&profile->arena, 1, sizeof *one);

    *one = (profile_provider){ .name = "fake",
                               .build_id = "b1",
                               .identity = 0x1234567890abcdef,
                               .line_count = 2,
                               .factor_count = 1,
                               .link_count = 1 };
    one->lines = arena_array(&profile->arena, 2, sizeof *one->lines);
    one->lines[0] = (profile_line){ { "Conv", COST_SPATIAL, INLAY_FLOAT },
                                    1,
                                    { .ns_per = { 100, 0.05, 0, 0.25, 1.5, 0.125 }, .error = 1.25, .points = 7 } };
    one->lines[1] = (profile_line){ { "", COST_STREAM, INLAY_UNDEFINED },
                                    2,
                                    { .ns_per = { 0, 0, 0.125, 0 }, .error = 1, .points = 3 } };
    one->factors = arena_array(&profile->arena, 1, sizeof *one->factors);
    one->factors[0] = (profile_factor){ 1, 1.5, 0.75 };
    one->links = arena_array(&profile->arena, 1, sizeof *one->links);
    one->links[0] = (profile_link){ "fake.memory", { 5000, 0.1 }, { 7000, 0.2 } };
    profile->providers = one;
    profile->provider_count = 1;
    profile->speed = (inlay_speed){ sizeof profile->speed, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    profile_cpu(profile->cpu, sizeof profile->cpu);
}

static void profiles_come_back(void **state)
{
    cost_profile profile = { .provider_count = 0 }, back;
    inlay_diag diag = INLAY_DIAG_INIT;
    const profile_provider *provider;

    (void)state;
    warnings = 0;
    make_profile(&profile);
    assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
    assert_int_equal(back.provider_count, 0);
    assert_int_equal(profile_save(folder, NULL, &profile, &diag), INLAY_OK);
    assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
    assert_int_equal(back.provider_count, 1);
    assert_null(profile_find(&back, 1));
    provider = profile_find(&back, 0x1234567890abcdef);
    assert_non_null(provider);
    assert_string_equal(provider->name, "fake");
    assert_int_equal(provider->line_count, 2);
    assert_string_equal(provider->lines[0].class.op, "Conv");
    assert_int_equal(provider->lines[0].class.variant, COST_SPATIAL);
    assert_int_equal(provider->lines[0].class.dtype, INLAY_FLOAT);
    for (int t = 0; t < FIT_TERMS; t++)
        assert_true(fabs(provider->lines[0].fit.ns_per[t] - profile.providers[0].lines[0].fit.ns_per[t]) < 1e-3);
    assert_int_equal(provider->lines[1].class.dtype, INLAY_UNDEFINED);
    assert_int_equal(provider->lines[1].threads, 2);
    assert_true(provider->factors[0].factor == 1.5);
    assert_memory_equal(&back.speed, &profile.speed, sizeof back.speed);
    assert_string_equal(provider->links[0].domain, "fake.memory");
    assert_true(fabs(provider->links[0].from.ns_per_byte - 0.2) < 1e-4 && provider->links[0].to.latency_ns == 5000);
    assert_int_equal(warnings, 0);
    profile_deinit(&back);
    /* The profile of another machine is ignored. */
    (void)snprintf(profile.cpu, sizeof profile.cpu, "another CPU");
    assert_int_equal(profile_save(folder, NULL, &profile, &diag), INLAY_OK);
    assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
    assert_int_equal(back.provider_count, 0);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_line, "another machine"));
    profile_deinit(&back);
    /* It is read if that machine is assumed. */
    assert_false(profile_is_assumed());
    assert_int_equal(profile_threads(2), 2);
    profile_assume("another CPU", 64);
    assert_true(profile_is_assumed());
    assert_int_equal(profile_threads(2), 64);
    assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
    assert_int_equal(back.provider_count, 1);
    assert_int_equal(warnings, 1);
    profile_assume("", 0);
    profile_deinit(&back);
    profile_deinit(&profile);
}

/* A profile that was written before tiles were measured keeps its other speeds; with a negative one it is ignored. */
static void profiles_without_tiles(void **state)
{
    static const char key[] = "\"tile_bfloat16\":10.0";
    cost_profile profile = { .provider_count = 0 }, back;
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t bytes;
    char *data, *at;

    (void)state;
    make_profile(&profile);
    assert_int_equal(profile_save(folder, NULL, &profile, &diag), INLAY_OK);
    data = read_file("machine.json", &bytes);
    for (at = data; memcmp(at, key, sizeof key - 1) != 0; at++)
        assert_true(at + sizeof key <= data + bytes);
    at[1] = 'x';
    write_file("machine.json", data, bytes);
    assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
    assert_int_equal(back.provider_count, 1);
    assert_true(back.speed.tile_bytes == 9 && back.speed.tile_bfloat16 == 0);
    profile_deinit(&back);
    at[1] = 't';
    at[strlen("\"tile_bfloat16\":")] = '-'; /* -0.0 would be valid */
    at[strlen("\"tile_bfloat16\":") + 1] = '7';
    write_file("machine.json", data, bytes);
    assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
    assert_int_equal(back.provider_count, 0);
    profile_deinit(&back);
    free(data);
    profile_deinit(&profile);
}

/* A profile with a number out of range is ignored completely. */
static void impossible_profiles_are_ignored(void **state)
{
    static const struct {
        uint32_t threads;
        double factor, border;
    } rows[] = { { 0, 1.5, 0.75 }, { 5000, 1.5, 0.75 }, { 1, 0, 0.75 }, { 1, 1.5, 0 } };
    cost_profile back;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cost_profile profile = { .provider_count = 0 };

        make_profile(&profile);
        profile.providers[0].factors[0] = (profile_factor){ rows[i].threads, rows[i].factor, rows[i].border };
        assert_int_equal(profile_save(folder, NULL, &profile, &diag), INLAY_OK);
        assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
        assert_int_equal(back.provider_count, 0);
        profile_deinit(&back);
        profile_deinit(&profile);
    }
}

/* A changed byte may give another number, but never an invalid time and never a failure. */
static void corrupt_profiles_are_harmless(void **state)
{
    static const char letters[] = { '"', '}', '9', '-', 'e', '\0', (char)0xff, ',' };
    cost_profile profile = { .provider_count = 0 }, back;
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t bytes;
    char *data;

    (void)state;
    make_profile(&profile);
    assert_int_equal(profile_save(folder, NULL, &profile, &diag), INLAY_OK);
    data = read_file("machine.json", &bytes);
    for (size_t i = 0; i < bytes; i++) {
        char original = data[i];

        data[i] = letters[i % sizeof letters];
        write_file("machine.json", data, i % 5 == 0 ? i : bytes);
        assert_int_equal(profile_load(folder, NULL, &logged, &back), INLAY_OK);
        for (uint32_t k = 0; k < back.provider_count; k++)
            for (uint32_t l = 0; l < back.providers[k].line_count; l++)
                for (int t = 0; t < FIT_TERMS; t++)
                    assert_true(back.providers[k].lines[l].fit.ns_per[t] >= 0);
        profile_deinit(&back);
        data[i] = original;
    }
    free(data);
    profile_deinit(&profile);
}

/* Uses both files. Called with the n-th allocation failing: must return a status, not leak, and keep the files intact.
 */
static inlay_status use_files(void)
{
    cost_record some[] = { record(1, 100, 0, 1), record(2, 200, 0, 1) };
    inlay_diag diag = INLAY_DIAG_INIT;
    cost_profile back;
    cost_store store;
    inlay_status status = cost_store_merge(folder, some, 2, &logged, &diag);

    if (status == INLAY_OK)
        status = cost_store_load(folder, &logged, &store);
    if (status == INLAY_OK)
        cost_store_deinit(&store);
    if (status == INLAY_OK) {
        status = profile_load(folder, NULL, &logged, &back);
        if (status == INLAY_OK && back.provider_count == 0)
            status = INLAY_OUT_OF_MEMORY; /* out of memory is treated as a damaged profile: the session ignores it */
        profile_deinit(&back);
    }
    return status;
}

static void memory_may_run_out(void **state)
{
    cost_profile profile = { .provider_count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t n = 0;

    (void)state;
    make_profile(&profile);
    assert_int_equal(profile_save(folder, NULL, &profile, &diag), INLAY_OK);
    profile_deinit(&profile);
    for (;; n++) {
        inlay_status status;

        failing_alloc_arm(n);
        status = use_files();
        if (!failing_alloc_disarm()) {
            assert_int_equal(status, INLAY_OK);
            break;
        }
        assert_int_equal(status, INLAY_OUT_OF_MEMORY);
    }
    assert_true(n > 4);
    assert_true(stored(2) == 200);
}

/* Only the estimates of providers with INLAY_PROVIDER_REFERENCE_CORE refer to that core, and are converted: by the
 * provider, or if the node mostly computes. */
static void estimates_are_converted(void **state)
{
    static const inlay_provider modelled = { .flags = INLAY_PROVIDER_REFERENCE_CORE }, other = { .flags = 0 };
    static const struct {
        const inlay_provider *table;
        inlay_cost cost;
        double want, slower; /* ns = want + slower * core_time_factor() */
    } rows[] = { { &modelled, { .ns = 10, .flops = 1000, .bytes_read = 300, .bytes_written = 100 }, 0, 10 },
                 { &modelled, { .ns = 10, .flops = 800, .bytes_read = 300, .bytes_written = 100 }, 10, 0 },
                 { &modelled, { .ns = 10, .flops = 1000, .local_ns = 30 }, 30, 0 },
                 { &modelled, { .ns = 10, .flops = 1000, .confidence = INLAY_CONFIDENCE_MEASURED }, 10, 0 },
                 { &other, { .ns = 10, .flops = 1000, .local_ns = 30 }, 10, 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_cost cost = rows[i].cost;

        cost_convert_to_here(rows[i].table, &cost);
        assert_true(cost.ns == rows[i].want + rows[i].slower * core_time_factor());
    }
}

/* No estimate of a provider that computes on the CPU is below the time of reading its weights from memory, and of its
 * multiplications; those of devices, and claimed measurements, are left alone. */
static void estimates_have_a_roof(void **state)
{
    const uint64_t bytes = UINT64_C(1) << 30;
    const uint32_t inputs[] = { 0, 1 }, outputs[] = { 2 }, node_index = 0;
    const inlay_node_info node = {
        .op_type = { "MatMul", 6 }, .inputs = inputs, .outputs = outputs, .input_count = 2, .output_count = 1
    };
    const inlay_value_info values[3] = { [1] = { .flags = INLAY_VALUE_CONSTANT, .data_bytes = bytes } };
    const inlay_value_state states[3] = { [2] = { .dtype = INLAY_FLOAT } };
    const inlay_graph graph = { .nodes = &node,
                                .node_count = 1,
                                .node_stride = sizeof node,
                                .values = values,
                                .value_count = 3,
                                .value_stride = sizeof values[0] };
    const partition_offer offer = { .nodes = &node_index, .node_count = 1 };
    const inlay_cost estimate = { .flops = 1e12, .bytes_read = bytes + 100 },
                     claimed = { .flops = 1e12, .bytes_read = bytes, .confidence = INLAY_CONFIDENCE_MEASURED };
    const struct {
        inlay_provider table;
        bool has_roof;
    } rows[] = { { { .flags = INLAY_PROVIDER_REFERENCE_CORE }, true },
                 { { .flags = 0 }, true },
                 { { .domain_count = 1 }, false },
                 { { .flags = INLAY_PROVIDER_ASYNC }, false } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const partition_provider provider = { .table = &rows[i].table };
        cost_question question = { .graph = &graph,
                                   .provider = &provider,
                                   .offer = &offer,
                                   .values = states,
                                   .max_threads = 1,
                                   .weight_bytes = bytes };
        const inlay_cost read_only = { .bytes_read = bytes };

        assert_true((cost_roof_ns(&question, &estimate) >= 1e12 / core_flops() / 64) == rows[i].has_roof);
        assert_true((cost_roof_ns(&question, &read_only) >= (double)bytes / core_speed()->shared_bytes) ==
                    rows[i].has_roof);
        assert_true((cost_roof_ns(&question, &claimed) > 0) == (i == 0));
        question.weight_bytes = 1000; /* in a cache */
        assert_true(cost_roof_ns(&question, &read_only) == 0);
    }
}

/* A kind of CPU is found by its name. Every kind has all speeds that prices need, and each level of memory is slower
 * than the one before. */
static void kinds_have_speeds(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    static const char *const names[] = { "zen5", "zen4", "zen3", "amx",   "xeon", "avx2",  "x86_64",
                                         "n2",   "v2",   "n1",   "arm64", "wasm", "other", "reference" };
    const core_kind *own = core_kind_in_use();

    (void)state;
    assert_ptr_equal(core_kind_in_use(), own);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const core_kind *kind = core_kind_find(names[i]);
        inlay_speed speed;

        assert_non_null(kind);
        core_kind_speed(kind, INLAY_ISA_X86_64_V4, &speed);
        assert_true(speed.flops_baseline > 0 && speed.loop_ns > 0 && kind->sizes[0] < kind->sizes[1]);
        assert_true(speed.core_bytes > speed.near_bytes && speed.near_bytes > speed.shared_bytes);
        assert_true(speed.shared_bytes > speed.memory_bytes && kind->memory[1] >= kind->memory[0]);
        assert_true(kind->memory[2] > 0 && kind->memory[2] <= kind->memory[0]);
        core_kind_speed(kind, INLAY_ISA_BASELINE, &speed);
        assert_true(speed.flops_v3 == 0 && speed.flops_v4 == 0 && speed.tile_bfloat16 == 0);
    }
    assert_int_equal(core_kind_assume("zen", &diag), INLAY_NOT_FOUND);
    assert_non_null(strstr(diag.text, "'zen'; there are zen5, zen4"));
    assert_false(core_kind_is_assumed());
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_converted),
        cmocka_unit_test(estimates_have_a_roof),
        cmocka_unit_test(kinds_have_speeds),
        cmocka_unit_test(fits_find_the_rates),
        cmocka_unit_test(fits_tolerate_noise),
        cmocka_unit_test(fits_follow_the_model),
        cmocka_unit_test(fits_are_in_the_middle),
        cmocka_unit_test(disturbed_runs_do_not_count),
        cmocka_unit_test(cold_weights_cost_more),
        cmocka_unit_test(call_cost_is_fitted_by_class),
        cmocka_unit_test(borders_need_a_timed_chain),
        cmocka_unit_test(fits_reject_invalid_points),
        IN_FOLDER(measurements_come_back),
        cmocka_unit_test(figures_have_hysteresis),
        IN_FOLDER(corrupt_measurements_are_ignored),
        IN_FOLDER(planted_files_are_ignored),
        IN_FOLDER(old_measurements_are_dropped),
        IN_FOLDER(profiles_come_back),
        IN_FOLDER(profiles_without_tiles),
        IN_FOLDER(impossible_profiles_are_ignored),
        IN_FOLDER(corrupt_profiles_are_harmless),
        IN_FOLDER(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
