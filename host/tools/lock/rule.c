#include "lock/lock.h"
#include <math.h>
#include <string.h>

double lock_fast_round(const json_t *ratios)
{
    double least[LOCK_FAST] = { 0 }; /* ascending */
    uint32_t count = 0, at;

    for (size_t i = 0; i < json_array_size(ratios); i++) {
        const double ratio = json_number_value(json_array_get(ratios, i));

        if (!(ratio > 0) || (count == LOCK_FAST && ratio >= least[LOCK_FAST - 1]))
            continue;
        for (at = count < LOCK_FAST ? count++ : LOCK_FAST - 1; at > 0 && least[at - 1] > ratio; at--)
            least[at] = least[at - 1];
        least[at] = ratio;
    }
    return count == LOCK_FAST ? least[LOCK_FAST - 1] : 0;
}

bool lock_is_slower(const json_t *was, const json_t *is, double limit)
{
    const double before = lock_fast_round(was);

    return before > 0 && lock_fast_round(is) > before * limit;
}

bool lock_is_faster(const json_t *was, const json_t *is, double limit)
{
    const double after = lock_fast_round(is);

    return after > 0 && after * limit < lock_fast_round(was);
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
