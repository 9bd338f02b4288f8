/* measure/attribute.h - the time of a region and those of its offers.
 *
 * A region is compiled as one, so that only the whole can be timed. What it took is shared out in proportion to what
 * its offers were expected to take, borders included (partition/cost/cost.h): the share of an offer is then its price
 * in a region, which is what the choice asks for. */
#ifndef MEASURE_ATTRIBUTE_H
#define MEASURE_ATTRIBUTE_H
#include "partition/cost/cost_store.h"
#include "session/session.h"

/* What a region of program is expected to take at these sizes, without its launch. values: [value_count]. */
double attribute_price(const struct program *program, const partition_region *region, const inlay_value_state *values);

/* Adds a record for each offer of a region that took so many nanoseconds; like says samples, spread and when. Offers
 * that are expected to cost nothing get none; of several the spread is at least that of the model that shares it out.
 * False: out of memory. */
INLAY_NODISCARD bool attribute_add(cost_list *list, const struct program *program, const partition_region *region,
                                   const inlay_value_state *values, double ns, const cost_record *like);
#endif
