/* partition/cost/cost_bounds.h - upper bounds and estimates of data-dependent sizes. */
#ifndef PARTITION_COST_BOUNDS_H
#define PARTITION_COST_BOUNDS_H
#include "inlay/graph_view.h"

/* Upper bound of dimension d of an output, -1 if unknown. NonZero finds at most all elements, Compress and Unique keep
 * at most their input, TopK and Slice at most the size of the axis, NonMaxSuppression returns at most
 * max_output_boxes_per_class rows per batch entry and class, Loop at most as many slices as its trip count. in:
 * [node->input_count] with their sizes; NULL = omitted. */
int64_t cost_bound(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d);
/* Estimate of the size for pricing: the bound for Slice and Loop, which usually reach it; half of it for conditions and
 * TopK; a tenth for the boxes of NonMaxSuppression, since most boxes overlap. At least 1 if the bound is; `otherwise`
 * without a bound. */
int64_t cost_estimate(const inlay_node_info *node, const inlay_value_info *const *in, uint32_t output, uint32_t d,
                      int64_t otherwise);
#endif
