#include "check/special.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

uint32_t special_rules(const char *op_type, uint32_t turn)
{
    static const struct {
        const char *op_type;
        uint32_t rules;
    } rules[] = {
#define SPECIAL(op, rules) { op, rules },
#include "check/special.def"
#undef SPECIAL
    };
    uint32_t found = SPECIAL_NAN | SPECIAL_ONE_NAN | SPECIAL_LOST;

    INLAY_CHECK(turn < SPECIAL_TURNS);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(rules[i].op_type, op_type) == 0)
            found = rules[i].rules;
    if (turn == 0)
        return found & ~(uint32_t)SPECIAL_MASKED;
    return (found & SPECIAL_MASKED) != 0 ? SPECIAL_NAN | SPECIAL_INFINITY | SPECIAL_ONE_LOW : 0;
}

uint32_t special_values(uint32_t rules)
{
    return (rules & SPECIAL_ONE_NAN) != 0   ? CASE_ONE_NAN
           : (rules & SPECIAL_ONE_LOW) != 0 ? CASE_ONE_LOW
           : (rules & SPECIAL_NO_NAN) != 0  ? CASE_NO_NAN
                                            : CASE_SPECIAL;
}

static double element_at(const harness_output *output, int64_t i)
{
    return output->dtype == INLAY_FLOAT ? (double)((const float *)output->data)[i] : ((const double *)output->data)[i];
}

static uint32_t compare_element(double got, double want, uint32_t rules)
{
    if ((rules & SPECIAL_LOST) != 0)
        return isnan(want) && !isnan(got) ? SPECIAL_DIFFERENT : SPECIAL_SAME;
    if (isnan(want) || isnan(got))
        return isnan(want) == isnan(got) || (rules & SPECIAL_NAN) == 0 ? SPECIAL_SAME : SPECIAL_DIFFERENT;
    if ((rules & SPECIAL_ONE_NAN) != 0)
        return SPECIAL_SAME; /* group `results` compares the others */
    if (isinf(want) || isinf(got))
        return got == want || (rules & SPECIAL_INFINITY) == 0 ? SPECIAL_SAME : SPECIAL_DIFFERENT;
    if ((rules & (SPECIAL_ONE_LOW | SPECIAL_NEAR)) != 0)
        return fabs(got - want) <= 1e-4 + 1e-3 * fabs(want) ? SPECIAL_SAME : SPECIAL_DIFFERENT;
    if (want == 0 && got == 0)
        return signbit(want) == signbit(got) || (rules & SPECIAL_ZERO_SIGN) == 0 ? SPECIAL_SAME : SPECIAL_DIFFERENT;
    if ((rules & SPECIAL_VALUE) == 0 || fabs(got - want) <= 1e-5 * fabs(want))
        return SPECIAL_SAME;
    return got == 0 ? SPECIAL_FLUSHED : SPECIAL_DIFFERENT;
}

uint32_t special_compare(const harness_result *got, const harness_result *want, uint32_t rules, char *text,
                         size_t bytes)
{
    uint32_t found = SPECIAL_SAME;

    INLAY_CHECK(got->out_count == want->out_count);
    for (uint32_t o = 0; o < want->out_count && found != SPECIAL_DIFFERENT; o++) {
        const harness_output *left = &got->out[o], *right = &want->out[o];

        if ((right->dtype != INLAY_FLOAT && right->dtype != INLAY_DOUBLE) || left->count != right->count ||
            left->dtype != right->dtype)
            continue;
        for (int64_t i = 0; i < right->count && found != SPECIAL_DIFFERENT; i++) {
            const uint32_t kind = compare_element(element_at(left, i), element_at(right, i), rules);

            if (kind <= found)
                continue;
            found = kind;
            (void)snprintf(text, bytes, "output %u: element %lld: got %g, want %g", o, (long long)i,
                           element_at(left, i), element_at(right, i));
        }
    }
    return found;
}
