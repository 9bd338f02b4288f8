/* partition/cost/cost_bounds.h - sizes that only data decides, before any data was seen. */
#ifndef PARTITION_COST_BOUNDS_H
#define PARTITION_COST_BOUNDS_H
#include "inlay/plugin.h"

/* The most that dimension d of an output can be, -1 where that is not known: NonZero finds at most all elements,
 * Compress and Unique keep at most all of what they read, TopK takes at most what the axis has, Slice too,
 * NonMaxSuppression makes at most max_output_boxes_per_class rows of each batch and class, Loop at most as many slices
 * as it may run. in: [node->input_count] with their sizes; NULL = omitted. */
int64_t cost_bound(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d);
/* A size to price it at: all of the bound of Slice and Loop, which mostly take all; half of what a condition keeps or K
 * takes; a tenth of NonMaxSuppression's boxes, for most overlap others. At least 1 where the bound is; `otherwise`
 * without a bound. */
int64_t cost_estimate(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d,
                      int64_t otherwise);
#endif
