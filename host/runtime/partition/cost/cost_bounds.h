/* partition/cost/cost_bounds.h - upper bounds and estimates of data-dependent sizes. */
#ifndef PARTITION_COST_BOUNDS_H
#define PARTITION_COST_BOUNDS_H
#include <stdint.h>

struct inlay_node_info;
struct inlay_value_info;

/* Estimate of the size for pricing: the bound for Slice and Loop, which usually reach it; half of it for conditions and
 * TopK; a tenth for the boxes of NonMaxSuppression, since most boxes overlap. At least 1 if the bound is; `otherwise`
 * without a bound. */
int64_t cost_estimate(const struct inlay_node_info *node, const struct inlay_value_info *const *in, uint32_t output,
                      uint32_t d, int64_t otherwise);
#endif
