/* serve/model/batch_cost.h - the time of one model's runs by their number of rows, and the best batch size.
 *
 * Times are kept for 1, 2, 4 ... rows: the warm-up measures them, and later runs update them. A larger batch is better
 * as long as its time per row is lower. */
#ifndef SERVE_BATCH_COST_H
#define SERVE_BATCH_COST_H
#include <stdbool.h>
#include <stdint.h>

enum { BATCH_SIZES = 17 };

typedef struct batch_cost {
    double ns[BATCH_SIZES]; /* time of a run of 2^i rows; 0 = unknown */
    uint32_t best;          /* number of rows with the least time per row, among the measured ones; 0 = none measured */
    double p99_ratio;       /* 99th percentile of measured time / expected time; 0 = unknown */
} batch_cost;

/* Adds a run of `rows` rows that took `ns`. Times are kept only for powers of two; runs of any size
 * update the 99th percentile. */
void batch_cost_add(batch_cost *cost, uint64_t rows, double ns);
/* Expected time of a run of `rows` rows, interpolated between the measured sizes; 0 = unknown. */
double batch_cost_of(const batch_cost *cost, uint64_t rows);
/* 99th percentile of the time of a run of `rows` rows; 0 = unknown. */
double batch_cost_latest(const batch_cost *cost, uint64_t rows);
/* Time per row that the best batch size saves over runs of one row, in nanoseconds. */
double batch_cost_gain(const batch_cost *cost);
/* Whether this is more than a change of thread costs, which requests need to meet in a queue. */
bool batch_cost_is_worth(const batch_cost *cost);
#endif
