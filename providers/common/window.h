/* common/window.h - attributes of kernel windows, with one element for each axis. */
#ifndef COMMON_WINDOW_H
#define COMMON_WINDOW_H
#include "inlay/cost.h"
#include "inlay/kit_table.h"

enum { WINDOW_MAX_STEP = 1 << 16 }; /* no sensible model has larger attributes */

/* Reads the attribute `name` to out [count]; `otherwise` if it is absent or empty. False, with the reason, if it has
 * another length or an element that is not from `low` to WINDOW_MAX_STEP. */
static inline bool window_ints(const kit_node *node, const char *name, uint32_t count, int64_t low, int64_t otherwise,
                               int64_t *out, kit_refusal *why)
{
    uint32_t given;
    const int64_t *list = kit_attr_ints(node->info, name, &given);

    for (uint32_t i = 0; i < count; i++)
        out[i] = otherwise;
    if (list == NULL || given == 0)
        return true;
    if (given != count)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "%s has %u elements where the window has %u", name, given,
                          count);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] < low || list[i] > WINDOW_MAX_STEP)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "%s has an element below %lld or above %d", name,
                              (long long)low, (int)WINDOW_MAX_STEP);
        out[i] = list[i];
    }
    return true;
}
#endif
