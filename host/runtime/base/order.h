/* base/order.h - comparisons for qsort, and search and comparison of short lists. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Doubles in ascending order, without NaN. */
static inline int order_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Numbers in ascending order. */
static inline int order_numbers(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Is value in list[count]? */
static inline bool is_listed(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

/* Is text in list[count]? */
static inline bool is_text_listed(const char *const *list, uint32_t count, const char *text)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}

/* Are the lists equal? */
static inline bool same_list(const uint32_t *first, uint32_t first_count, const uint32_t *second, uint32_t second_count)
{
    return first_count == second_count && (first_count == 0 || memcmp(first, second, first_count * sizeof *first) == 0);
}
#endif
