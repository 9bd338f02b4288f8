/* partition/cost.h - what running and copying is expected to take on this machine, in nanoseconds.
 *
 * A price comes from the best source there is: a measurement of the real executable (`inlay tune`, an earlier run), the
 * provider's own model scaled by the machine profile (`inlay calibrate`), the provider's model as it is. Which one it
 * was stays with the price, for `inlay explain`. */
#ifndef PARTITION_COST_H
#define PARTITION_COST_H
#include "partition/partition.h"

/* The machine profile and the measurements at hand. Immutable while sessions read it; NULL = neither, so that providers'
 * own models and fixed link costs decide. */
typedef struct cost_book cost_book;

/* Where a price comes from, worst first. */
enum { COST_NONE = 0, COST_GUESS = 1, COST_MODEL = 2, COST_PROFILE = 3, COST_MEASURED = 4 };
/* "measured", "calibrated", "model", "guess", "none". */
const char *cost_source_name(uint32_t source);

/* What is to be priced. */
typedef struct cost_question {
    const inlay_graph *graph;
    const part_provider *provider;
    const part_offer *offer;
    const inlay_value_state *values; /* [graph->value_count] the concrete shapes */
    uint32_t max_threads;
} cost_question;

/* Fills *out and returns the source; COST_NONE, with a price so high that it is taken last, when the provider can't say.
 * Any thread. */
uint32_t cost_of_offer(const cost_book *book, const cost_question *question, inlay_cost *out);
/* Bringing bytes from one memory domain to another, of the given providers; 0 when they are the same. */
double cost_copy_ns(const cost_book *book, const part_provider *providers, uint32_t provider_count, uint32_t from,
                    uint32_t to, uint64_t bytes);
/* Starting one region of the provider. */
double cost_launch_ns(const cost_book *book, const part_provider *provider);

/* The shapes that costs are asked for: sizes that are fixed are taken, a symbol counts as what was assumed for it.
 * [snapshot->value_count] from the arena; NULL: no memory. */
inlay_value_state *cost_shapes(const inlay_graph *snapshot, arena *a);
/* The bytes of a value at its shape; unknown sizes count as 1. */
uint64_t cost_value_bytes(const inlay_value_state *v);
#endif
