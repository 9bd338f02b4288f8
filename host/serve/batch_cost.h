/* serve/batch_cost.h - what runs of one model cost by their rows, and how many rows are worth joining.
 *
 * Costs are kept for 1, 2, 4 ... rows: measured when the model is warmed up, and followed while it serves. Joining pays
 * as long as a row of the larger run is cheaper. */
#ifndef SERVE_BATCH_COST_H
#define SERVE_BATCH_COST_H
#include <stdbool.h>
#include <stdint.h>

enum { BATCH_SIZES = 17 };

typedef struct batch_cost {
    double ns[BATCH_SIZES]; /* of a run of 2^n rows; 0 = not known */
    uint32_t best;          /* rows with the cheapest row, at most those that are known; 0 = nothing is known */
    double late;            /* 99 of 100 runs take at most so many times what they cost; 0 = not known */
} batch_cost;

/* A run of so many rows took so long. Other sizes than powers of two are not kept, but say how late runs are. */
void batch_cost_add(batch_cost *cost, uint64_t rows, double ns);
/* Time of a run of so many rows, between what is known of its neighbours; 0 = not known. */
double batch_cost_of(const batch_cost *cost, uint64_t rows);
/* What such a run takes at most, 99 of 100 times. */
double batch_cost_latest(const batch_cost *cost, uint64_t rows);
/* What joining saves for each request, in nanoseconds. */
double batch_cost_gain(const batch_cost *cost);
#endif
