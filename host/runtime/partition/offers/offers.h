/* partition/offers/offers.h - what there is to choose from: what providers offer, what rules forbid, where values come
 * from.
 *
 *     offers.c    asks the providers
 *     bodies.c    nodes with bodies, for providers that ask for them
 *     homes.c     where values lie that enter and leave bodies
 *     rules.c     pins, forbids and the like, as offers that may not be taken */
#ifndef PARTITION_OFFERS_H
#define PARTITION_OFFERS_H
#include "partition/partition.h"

/* ------------------------------------------------------------------ offers.c */

/* Asks every provider; fills offers and refusals of *out. candidates: [node_count] 1 = may be offered. */
INLAY_NODISCARD inlay_status collect_offers(const partition_request *request, const uint8_t *candidates,
                                            struct arena *arena, struct partition *out, inlay_diag *diag);

/* ------------------------------------------------------------------ bodies.c */

/* Makes nodes with bodies candidates where a usable offer covers them; returns whether there are any. */
bool partition_cover_bodies(const struct graph *graph, const struct partition *partition, const uint8_t *usable,
                            uint8_t *candidates);
/* Makes offers of nodes with bodies unusable. */
void partition_drop_bodies(const struct graph *graph, const struct partition *partition, uint8_t *usable);
/* Is it a body of a node of graph that a provider runs? */
bool partition_holds_body(const struct graph *graph, const struct partition *partition, const struct graph *body);

/* ------------------------------------------------------------------ homes.c */

/* The session has bodies, and memory other than the host's: somebody may care where values lie. */
bool partition_has_homes(const partition_job *jobs, uint32_t count);
/* Sets request.homes and request.iterations of the job by what is known from the graphs around it and from its bodies,
 * as far as those are assigned. settled: they all are, and what If leaves lies where it is read next; before, where the
 * branch makes it. False: no memory. */
bool partition_find_homes(partition_job *jobs, uint32_t count, uint32_t job, bool settled);
/* ------------------------------------------------------------------ rules.c */

/* [node_count] 1 = a provider may, and must, run the node; the others are the host's. NULL: no memory. */
uint8_t *partition_candidates(const struct graph *graph, struct arena *arena);

/* Sets usable [offers]: not barred, and no rule forbids it. A pin that can't be kept is INLAY_UNSUPPORTED. */
INLAY_NODISCARD inlay_status partition_apply_rules(const partition_request *request, const struct partition *partition,
                                                   struct arena *scratch, uint8_t *usable, inlay_diag *diag);
/* INLAY_UNSUPPORTED, with what every provider says of the node, and which others nobody may run. */
INLAY_NODISCARD inlay_status report_uncovered_node(const partition_request *request, const struct partition *partition,
                                                   const uint8_t *candidates, const uint8_t *usable, uint32_t node,
                                                   struct arena *scratch, inlay_diag *diag);
/* Does the wish mean this node? */
bool partition_matches(const partition_wish *wish, const inlay_node_info *node);

/* ------------------------------------------------------------------ requests */

/* Is the offer out of the question, because who asks again has barred it? */
static inline bool partition_is_barred(const partition_request *request, uint32_t offer)
{
    return request->barred != NULL && request->barred[offer] != 0;
}
/* Policy `priority`? */
static inline bool partition_by_priority(const partition_request *request)
{
    return request->rules != NULL && request->rules->by_priority;
}
/* ------------------------------------------------------------------ graphs */

/* How many values a node reads, for itself or for its bodies. */
static inline uint32_t partition_reads(const graph_node *node)
{
    return node->info.input_count + node->capture_count;
}

/* The i-th of them; INLAY_NONE when omitted. */
static inline uint32_t partition_read_at(const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? node->info.inputs[i] : node->captures[i - node->info.input_count];
}

/* The node that makes the value; INLAY_NONE for inputs, constants and none. */
static inline uint32_t partition_maker_of(const struct graph *graph, uint32_t value)
{
    return value == INLAY_NONE ? INLAY_NONE : graph->values[value].info.producer;
}

static inline bool partition_is_constant(const struct graph *graph, uint32_t value)
{
    return (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
}
#endif
