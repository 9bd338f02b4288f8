#include "cli/timing.h"
#include "base/order.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void timing_sort(double *times, size_t count)
{
    qsort(times, count, sizeof *times, order_doubles);
}

double timing_quantile(const double *sorted, size_t count, double q)
{
    double rank = ceil(q * (double)count);
    size_t at = rank < 1 ? 0 : (size_t)rank - 1;

    return sorted[at < count ? at : count - 1];
}

/* ru_maxrss counts what ran in the process before exec, a fork of a large parent for one; VmHWM does not. */
double timing_peak_mb(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    struct rusage usage;
    double kilobytes = 0;
    char line[256];

    while (f != NULL && kilobytes == 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kilobytes = strtod(line + 6, NULL);
    if (f != NULL)
        (void)fclose(f);
    if (kilobytes > 0)
        return kilobytes / 1024;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : 0;
}
