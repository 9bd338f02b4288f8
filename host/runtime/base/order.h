/* base/order.h - comparisons for qsort, and a look into short lists. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H
#include <stdbool.h>
#include <stdint.h>

/* Doubles that are numbers, ascending. */
static inline int order_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Is v in list[count]? */
static inline bool is_listed(const uint32_t *list, uint32_t count, uint32_t v)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == v)
            return true;
    return false;
}
#endif
