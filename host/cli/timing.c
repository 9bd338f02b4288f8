#include "cli/timing.h"
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

double timing_cpu_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double cli_now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void timing_sort(double *times, size_t count)
{
    qsort(times, count, sizeof *times, by_value);
}

double timing_quantile(const double *sorted, size_t count, double q)
{
    double rank = ceil(q * (double)count);
    size_t at = rank < 1 ? 0 : (size_t)rank - 1;

    return sorted[at < count ? at : count - 1];
}

double timing_peak_mb(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : 0;
}
