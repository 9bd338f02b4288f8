#include "lock/lock.h"
#include "base/order.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t lock_least_rounds(uint32_t count, double rate)
{
    double term = ldexp(1, -(int)count), tail = term; /* P(exactly k), P(at least k) */
    uint32_t k = count;

    if (tail > rate)
        return count + 1;
    for (; k > 0; k--) {
        term *= (double)k / (double)(count - k + 1);
        if (tail + term > rate)
            break;
        tail += term;
    }
    return k;
}

double lock_median(const json_t *ratios)
{
    double list[64], number;
    uint32_t count = 0;

    for (size_t i = 0; i < json_array_size(ratios) && count < sizeof list / sizeof list[0]; i++)
        if ((number = json_number_value(json_array_get(ratios, i))) > 0)
            list[count++] = number;
    qsort(list, count, sizeof list[0], order_doubles);
    return count == 0 ? 0 : count % 2 == 1 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

/* Whether enough ratios are on one side of the bound. */
static bool is_beyond(const json_t *is, double bound, bool above)
{
    const uint32_t count = (uint32_t)json_array_size(is);
    uint32_t beyond = 0;

    for (uint32_t i = 0; i < count; i++) {
        const double ratio = json_number_value(json_array_get(is, i));

        beyond += above ? ratio > bound : ratio < bound;
    }
    return count > 0 && beyond >= lock_least_rounds(count, LOCK_FALSE_ALARMS);
}

bool lock_may_be_slower(const json_t *was, const json_t *is, double limit)
{
    return lock_median(was) > 0 && lock_median(is) > lock_median(was) * limit;
}

bool lock_is_slower(const json_t *was, const json_t *is, double limit)
{
    const double median = lock_median(was);

    return median > 0 && is_beyond(is, median * limit, true);
}

bool lock_is_faster(const json_t *was, const json_t *is, double limit)
{
    const double median = lock_median(was);

    return median > 0 && is_beyond(is, median / limit, false);
}

bool lock_error_holds(const json_t *error, const char *dtype, double limit)
{
    /* Twice the spacing of numbers near 1: results of other kernels differ by roundings of the last bit. */
    static const struct {
        const char *dtype;
        double least;
    } spacings[] = { { "float16", 2e-3 }, { "bfloat16", 1.6e-2 } };
    static const char *const inexact[] = { "float", "double", "bfloat", "complex" };
    const json_t *relative = json_object_get(error, "relative");
    bool exact = true;

    for (size_t i = 0; i < sizeof inexact / sizeof inexact[0]; i++)
        exact = exact && strncmp(dtype, inexact[i], strlen(inexact[i])) != 0;
    if (exact)
        return false; /* integers, booleans and texts have to be the same */
    for (size_t i = 0; i < sizeof spacings / sizeof spacings[0]; i++)
        if (strcmp(dtype, spacings[i].dtype) == 0)
            limit = fmax(limit, spacings[i].least);
    return json_is_number(relative) && json_number_value(relative) <= limit &&
           !json_is_true(json_object_get(error, "other_class"));
}
