/* partition/internal.h - what the files of the partitioner share; private to this folder. */
#ifndef PARTITION_INTERNAL_H
#define PARTITION_INTERNAL_H
#include "partition/cost.h"

typedef struct chooser {
    const part_request *request;
    partition *p;
    const inlay_value_state *states; /* [value_count] */
    uint32_t *best;          /* [node_count] chosen offer, INLAY_NONE */
    double *best_ns;         /* [node_count] its cost, copies included */
    uint32_t *value_domain;  /* [value_count] where the maker leaves it */
} chooser;

/* ------------------------------------------------------------------ offers.c */

/* Asks every provider; fills offers and refusals of *out. candidates: [node_count] 1 = may be offered. */
INLAY_NODISCARD inlay_status part_hear_all(const part_request *request, const uint8_t *candidates, arena *a,
                                           partition *out, inlay_diag *diag);

/* ------------------------------------------------------------------ partition.c */

/* Makes the offer the choice for its nodes. */
void part_settle(chooser *c, uint32_t offer);
/* Is cost a less than b, by more than noise? Otherwise the order of the providers decides. */
bool part_cheaper(double a, double b);
/* Nanoseconds for bringing a value from one domain to another. */
double part_copy_ns(const chooser *c, uint32_t value, uint32_t from, uint32_t to);
/* Is the offer out of the question, because who asks again has barred it? */
static inline bool part_is_barred(const part_request *r, uint32_t offer)
{
    return r->barred != NULL && r->barred[offer] != 0;
}
/* Policy `priority`? */
static inline bool part_by_priority(const part_request *r)
{
    return r->rules != NULL && r->rules->by_priority;
}

/* ------------------------------------------------------------------ groups.c */

/* Group offers replace the singles they cover when that is cheaper; first those with nodes that no single covers.
 * Groups that overlap a taken group stay out. */
INLAY_NODISCARD inlay_status part_choose_groups(chooser *c, arena *a, inlay_diag *diag);

/* ------------------------------------------------------------------ regions.c */

/* Makes regions of the offers chosen, in an order that can be executed. */
INLAY_NODISCARD inlay_status part_form_regions(const chooser *c, arena *a, inlay_diag *diag);

/* ------------------------------------------------------------------ graphs */

/* How many values a node reads, for itself or for its bodies. */
static inline uint32_t part_reads(const graph_node *n)
{
    return n->info.input_count + n->capture_count;
}

/* The i-th of them; INLAY_NONE when omitted. */
static inline uint32_t part_read_at(const graph_node *n, uint32_t i)
{
    return i < n->info.input_count ? n->info.inputs[i] : n->captures[i - n->info.input_count];
}

/* The node that makes the value; INLAY_NONE for inputs, constants and none. */
static inline uint32_t part_maker_of(const graph *g, uint32_t v)
{
    return v == INLAY_NONE ? INLAY_NONE : g->values[v].info.producer;
}
#endif
