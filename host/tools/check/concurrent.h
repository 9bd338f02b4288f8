/* check/concurrent.h - two threads that run the same compiled instance, each in memory of its own. */
#ifndef CHECK_CONCURRENT_H
#define CHECK_CONCURRENT_H
#include "check/harness.h"

enum { CONCURRENT_RUNS = 2 };

typedef struct concurrent_run {
    const struct harness *harness;
    harness_result result; /* the caller deinitialises it */
    inlay_diag diag;
    inlay_status status;
} concurrent_run;

/* Runs the harness on two threads at once. Returns how many were started; the results of the others are empty. */
uint32_t concurrent_runs(const struct harness *harness, concurrent_run out[CONCURRENT_RUNS]);
#endif
