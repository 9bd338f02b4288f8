/* common/window.h - attributes of kernel windows, with one element for each axis. */
#ifndef COMMON_WINDOW_H
#define COMMON_WINDOW_H
#include "inlay/kit_shapes.h"

enum { WINDOW_MAX_STEP = 1 << 16 }; /* no sensible model has larger attributes */

/* kit_attr_list() up to WINDOW_MAX_STEP. */
static inline bool window_ints(const kit_node *node, const char *name, uint32_t count, int64_t low, int64_t otherwise,
                               int64_t *out, kit_refusal *why)
{
    return kit_attr_list(node->info, name, count, low, WINDOW_MAX_STEP, otherwise, out, why);
}
#endif
