/* check/special.h - compares results of special values: NaN, infinities, denormals, zeros of both signs. */
#ifndef CHECK_SPECIAL_H
#define CHECK_SPECIAL_H
#include "check/harness.h"

/* What the results of an operator must agree in. */
enum {
    SPECIAL_NAN = 1u << 0,
    SPECIAL_INFINITY = 1u << 1,
    SPECIAL_VALUE = 1u << 2, /* finite results, also denormals */
    SPECIAL_ZERO_SIGN = 1u << 3,
    SPECIAL_ONE_NAN = 1u << 4, /* a sum of several elements: special values other than NaN depend on its order */
    SPECIAL_LOST = 1u << 5,    /* only a NaN that is missing is a difference */
    SPECIAL_NO_NAN = 1u << 6,  /* ONNX does not define its results for NaN, so its inputs have none */
    SPECIAL_MASKED =
        1u << 7, /* of a row: its inputs have minus infinity where it is masked, in a turn of its own ... */
    SPECIAL_ONE_LOW = 1u << 8, /* ... with these rules: one element is minus infinity */
    SPECIAL_NEAR = 1u << 9     /* finite results, within 1e-4 + 1e-3 of the magnitude */
};
/* The values for case_special() to which the rules apply. */
uint32_t special_values(uint32_t rules);
/* The rules of an operator for one kind of values; 0: it has no (further) ones. Without a row in special.def: one NaN
 * is not lost. turn: 0 to SPECIAL_TURNS - 1. */
enum { SPECIAL_TURNS = 2 };
uint32_t special_rules(const char *op_type, uint32_t turn);

/* Results of special_compare(). */
enum { SPECIAL_SAME, SPECIAL_FLUSHED, SPECIAL_DIFFERENT };
/* Compares float and double outputs by the rules. SPECIAL_FLUSHED: the only differences are zeros where a denormal
 * result or operand would give another number. text names the first difference. */
uint32_t special_compare(const harness_result *got, const harness_result *want, uint32_t rules, char *text,
                         size_t bytes);
#endif
