/* measure/attribute.h - splits the time of a region among its offers.
 *
 * A region is compiled as one unit, so only its total time can be measured. It is split in proportion to the
 * expected times of its offers, borders included (partition/cost/cost.h). The share of an offer is then its price
 * within a region, which the assignment needs. */
#ifndef MEASURE_ATTRIBUTE_H
#define MEASURE_ATTRIBUTE_H
#include "partition/cost/cost_store.h"
#include "session/session.h"

/* Expected time of a region of the program at these sizes, borders included. values: [value_count]. */
double attribute_price(const struct program *program, const partition_region *region, const inlay_value_state *values);

/* Adds a record for each offer of a region that took `ns` nanoseconds. `like` has the samples, the spread and the time
 * of the new records. Offers with an expected time of 0 get no record, those without a price an average share. If the
 * region has several offers, the spread is at least that of the model that splits the time. False: out of memory. */
INLAY_NODISCARD bool attribute_add(cost_list *list, const struct program *program, const partition_region *region,
                                   const inlay_value_state *values, double ns, const cost_record *like);
#endif
