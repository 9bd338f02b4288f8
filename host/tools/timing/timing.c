#include "timing/timing.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/order.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

inlay_status timing_rounds(const timing_plan *plan, timing_fn run, void *const *subjects, uint32_t count,
                           run_times *out, inlay_diag *diag)
{
    const double begin = clock_ms(), budget_ms = plan->seconds * 1e3;
    double spent_ms = 0, took_ms;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(count > 0);
    for (size_t round = 0; round < plan->most && (round < plan->least || spent_ms < budget_ms); round++) {
        if (plan->stop != NULL && plan->stop(plan->stop_user))
            break;
        for (size_t turn = round; turn < round + count; turn++) {
            run_times *times = &out[turn % count];

            INLAY_TRY(run(subjects[turn % count], &took_ms, diag));
            if (took_ms < 0)
                continue;
            if (!LIST_GROW(times->ms, times->count))
                return no_memory(diag, "for the times");
            times->ms[times->count++] = took_ms;
        }
        spent_ms = clock_ms() - begin;
        if (plan->progress != NULL)
            (void)plan->progress(NULL, budget_ms > 0 ? spent_ms / budget_ms : (double)(round + 1) / (double)plan->most,
                                 plan->what);
    }
done:
    return status;
}

inlay_status timing_run(inlay_context *context, const inlay_run_options *options, double *out_ms, inlay_diag *diag)
{
    const double start = clock_ms();
    const inlay_status status = inlay_context_run(context, options, diag);

    *out_ms = clock_ms() - start;
    return status;
}

typedef struct context_subject {
    inlay_context *context;
    const inlay_run_options *options;
} context_subject;

static inlay_status run_context(void *subject, double *out_ms, inlay_diag *diag)
{
    const context_subject *run = subject;

    return timing_run(run->context, run->options, out_ms, diag);
}

inlay_status timing_context(const timing_plan *plan, inlay_context *context, const inlay_run_options *options,
                            run_times *out, inlay_diag *diag)
{
    void *subject = &(context_subject){ context, options };

    return timing_rounds(plan, run_context, &subject, 1, out, diag);
}

inlay_status timing_warm_up(inlay_context *context, const inlay_run_options *options, size_t runs, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (size_t i = 0; i < runs && status == INLAY_OK; i++)
        status = inlay_context_run(context, options, diag);
    return status;
}

void timing_sort(run_times *times)
{
    if (times->count > 0)
        qsort(times->ms, times->count, sizeof *times->ms, order_doubles);
}

double timing_quantile(const run_times *sorted, double q)
{
    const double rank = ceil(q * (double)sorted->count);
    const size_t at = rank < 1 ? 0 : (size_t)rank - 1;

    INLAY_CHECK(sorted->count > 0);
    return sorted->ms[at < sorted->count ? at : sorted->count - 1];
}

/* ru_maxrss includes memory before exec, for example of a large process that forked; VmHWM does not. */
double timing_peak_mb(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    struct rusage usage;
    double kilobytes = 0;
    char line[256];

    while (file != NULL && kilobytes == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kilobytes = strtod(line + 6, NULL);
    if (file != NULL)
        (void)fclose(file);
    if (kilobytes > 0)
        return kilobytes / 1024;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : 0;
}
