#include "timing/models.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "base/order.h"
#include "timing/timing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TOGETHER_MS = 0.5; /* shorter runs are timed several as one, up to this time */
static const double WARM_MS = 50;      /* shorter runs of two models get an untimed run before */
enum { MAX_TOGETHER = 64, MAX_RUNS = 100, MIN_RUNS = 5 };

/* A model and its sample, to be timed. */
struct subject {
    const struct samples *set;
    inlay_value *const *values;
    const timed_model *model;
    uint32_t together; /* number of runs that are timed as one */
    bool warm;         /* an untimed run precedes, because the other model has replaced the contents of the caches */
};

static inlay_status run_once(const struct subject *subject, inlay_diag *diag)
{
    return samples_run(subject->set, subject->values, subject->model->session, subject->model->context, diag);
}

/* A timing_fn: the mean time of the runs, but at most the CPU time of the process: on a busy machine, the remaining
 * time belongs to other programs. With a limit of CPU time (RLIMIT_CPU), Linux advances the clock of CPU time only at
 * timer ticks, so that it may not advance during short runs. */
static inlay_status time_runs(void *user, double *out_ms, inlay_diag *diag)
{
    const struct subject *subject = user;
    double wall_start, cpu_start, wall_ms, cpu_ms;
    inlay_status status = INLAY_OK;

    if (subject->warm)
        INLAY_TRY(run_once(subject, diag));
    wall_start = clock_ms();
    cpu_start = clock_cpu_ms();
    for (uint32_t i = 0; i < subject->together; i++)
        INLAY_TRY(run_once(subject, diag));
    wall_ms = clock_ms() - wall_start;
    cpu_ms = clock_cpu_ms() - cpu_start;
    *out_ms = (cpu_ms > 0 && cpu_ms < wall_ms ? cpu_ms : wall_ms) / subject->together;
done:
    return status;
}

static double quantile(double *values, size_t count, size_t part)
{
    INLAY_CHECK(count > 0 && part > 1);
    qsort(values, count, sizeof *values, order_doubles);
    return values[count / part];
}

/* Number of runs that are timed as one, if each takes one_ms. */
static uint32_t runs_together(double one_ms)
{
    return one_ms > TOGETHER_MS                  ? 1
           : one_ms * MAX_TOGETHER < TOGETHER_MS ? MAX_TOGETHER
                                                 : (uint32_t)(TOGETHER_MS / one_ms);
}

inlay_status timing_models(const struct samples *set, const timed_model *models, uint32_t count, double budget_s,
                           double *out_ms, inlay_diag *diag)
{
    const timing_plan plan = { .seconds = budget_s, .least = MIN_RUNS, .most = MAX_RUNS };
    run_times times[TIMING_MODELS] = { { 0 } };
    struct subject subjects[TIMING_MODELS];
    void *list[TIMING_MODELS];
    double ratios[MAX_RUNS], one;
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(samples_load(set, 0, &values, diag));
    for (uint32_t k = 0; k < count; k++) { /* the first run builds the plan */
        subjects[k] =
            (struct subject){ .set = set, .values = values, .model = &models[k], .together = 1, .warm = true };
        list[k] = &subjects[k];
        INLAY_TRY(run_once(&subjects[k], diag));
    }
    INLAY_TRY(time_runs(&subjects[0], &one, diag));
    for (uint32_t k = 0; k < count; k++) {
        subjects[k].together = runs_together(one);
        subjects[k].warm = count > 1 && one < WARM_MS;
    }
    INLAY_TRY(timing_rounds(&plan, time_runs, list, count, times, diag));
    for (size_t i = 0; count > 1 && i < times[0].count; i++)
        ratios[i] = times[1].ms[i] / (times[0].ms[i] > 1e-9 ? times[0].ms[i] : 1e-9);
    out_ms[0] = quantile(times[0].ms, times[0].count, 4); /* other programs only make runs longer */
    if (count > 1)
        out_ms[1] = out_ms[0] * quantile(ratios, times[0].count, 2);
done:
    for (uint32_t k = 0; k < TIMING_MODELS; k++)
        free(times[k].ms);
    samples_release(set, values);
    return status;
}

void pace_add(struct pace *pace, double before_ms, double after_ms)
{
    if (pace->rounds == PACE_MOST)
        return;
    pace->before_ms[pace->rounds] = before_ms;
    pace->ratios[pace->rounds++] = after_ms / (before_ms > 1e-9 ? before_ms : 1e-9);
    qsort(pace->ratios, pace->rounds, sizeof *pace->ratios, order_doubles);
}

bool pace_is_settled(const struct pace *pace, double most)
{
    return pace->rounds == PACE_MOST || (pace->rounds > 0 && most == INFINITY) ||
           (pace->rounds >= PACE_LEAST && (pace->ratios[pace->rounds - 1] <= most || pace->ratios[0] > most));
}

bool pace_holds(const struct pace *pace, double most)
{
    const uint32_t outlier = pace->rounds == PACE_MOST; /* other programs may have disturbed one of many rounds */

    return pace->rounds > 0 && pace->ratios[pace->rounds / 2] <= most &&
           (most >= 1 || pace->ratios[pace->rounds - 1 - outlier] < 1);
}

void pace_times(const struct pace *pace, double *out_before_ms, double *out_after_ms)
{
    double times[PACE_MOST];

    memcpy(times, pace->before_ms, sizeof times);
    *out_before_ms = pace->rounds > 0 ? quantile(times, pace->rounds, 2) : 0;
    *out_after_ms = pace->rounds > 0 ? *out_before_ms * pace->ratios[pace->rounds / 2] : 0;
}
