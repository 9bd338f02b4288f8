/* Copies of a case with other elements. */
#include "check/case.h"
#include "inlay/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Can the elements of the input be replaced without changing the meaning of the case? */
static bool is_free(const case_tensor *tensor)
{
    return tensor->dtype != INLAY_UNDEFINED && tensor->dtype != INLAY_STRING && !tensor->constant &&
           tensor->same_as == 0 && tensor->given_count == 0 && tensor->count > 0;
}

static bool is_float(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

bool case_vary(const op_case *from, uint64_t seed, op_case *out)
{
    bool has_floats = false, varied = false;

    *out = *from;
    out->arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < from->in_count; i++)
        has_floats |= is_free(&from->in[i]) && is_float(from->in[i].dtype);
    for (uint32_t i = 0; i < from->in_count; i++)
        if (is_free(&from->in[i]) && (is_float(from->in[i].dtype) || !has_floats)) {
            out->in[i].data = NULL;
            varied = true;
        }
    if (varied && case_fill(out, seed) == INLAY_OK)
        return true;
    case_deinit(out);
    return false;
}

static void fill_special(case_tensor *tensor, uint32_t input, bool has_nan)
{
    static const float floats[] = { NAN,     1.0F,  INFINITY, -0.0F,  1e-40F,   -2.5F, -INFINITY, 0.0F,
                                    -3e-42F, 3e38F, FLT_MIN,  -3e38F, 1.4e-45F, 0.5F,  -FLT_MIN };
    static const double doubles[] = { (double)NAN,       1.0, (double)INFINITY, -0.0,  1e-310,  -2.5,
                                      -(double)INFINITY, 0.0, -3e-320,          1e308, DBL_MIN, -1e308,
                                      4.9e-324,          0.5, -DBL_MIN };
    enum { COUNT = sizeof floats / sizeof floats[0] };

    /* Inputs of a node meet in all combinations, as the steps differ and COUNT is not a multiple of them. */
    for (int64_t i = 0; i < tensor->count; i++) {
        const size_t any = (size_t)(i + (int64_t)input * (1 + i / COUNT)) % COUNT,
                     which = any == 0 && !has_nan ? 6 : any;

        if (tensor->dtype == INLAY_FLOAT)
            ((float *)tensor->data)[i] = floats[which];
        else
            ((double *)tensor->data)[i] = doubles[which];
    }
}

bool case_special(const op_case *from, uint32_t values, op_case *out)
{
    bool varied = false;

    *out = *from;
    out->arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < from->in_count; i++) {
        case_tensor *tensor = &out->in[i];
        void *data;

        if (!is_free(tensor) || (tensor->dtype != INLAY_FLOAT && tensor->dtype != INLAY_DOUBLE))
            continue;
        data = arena_alloc(&out->arena, (size_t)tensor->bytes + 1);
        if (data == NULL) {
            case_deinit(out);
            return false;
        }
        memcpy(data, tensor->data, (size_t)tensor->bytes);
        tensor->data = data;
        if (values == CASE_SPECIAL || values == CASE_NO_NAN)
            fill_special(tensor, i, values == CASE_SPECIAL);
        else if (tensor->dtype == INLAY_FLOAT && !varied)
            ((float *)data)[tensor->count / 2] = values == CASE_ONE_LOW ? -INFINITY : NAN;
        else if (!varied)
            ((double *)data)[tensor->count / 2] = values == CASE_ONE_LOW ? -(double)INFINITY : (double)NAN;
        varied = true;
    }
    for (uint32_t i = 0; i < from->in_count; i++)
        if (out->in[i].same_as > 0)
            out->in[i].data = out->in[out->in[i].same_as - 1].data;
    return varied;
}

op_case case_with_constant(const op_case *from, uint32_t input)
{
    op_case copy = *from;

    INLAY_CHECK(input < from->in_count);
    copy.arena = (struct arena){ 0 };
    copy.in[input].constant = true;
    copy.in[input].same_as = 0;
    return copy;
}
