/* cli/timing.h - percentiles of times, and memory. */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H
#include <stddef.h>

/* Sorts count (> 0) times ascending. */
void timing_sort(double *times, size_t count);
/* The q-quantile (0 to 1) of sorted times: the smallest that at least a share q does not exceed. */
double timing_quantile(const double *sorted, size_t count, double q);

/* The most memory that the process has held, in MiB. */
double timing_peak_mb(void);
#endif
