#include "check/compare_results.h"
#include "base/element.h"
#include "data/compare.h"
#include "inlay/check.h"
#include <math.h>

double result_rtol(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_DOUBLE:
    case INLAY_COMPLEX128:
        return 1e-10;
    case INLAY_FLOAT:
    case INLAY_COMPLEX64:
        return 1e-4;
    case INLAY_FLOAT16:
        return 4e-3;
    case INLAY_BFLOAT16:
        return 3e-2;
    default:
        return element_is_float(dtype) ? 0.13 : 0;
    }
}

static inlay_tensor_view view_of(const harness_output *output)
{
    return (inlay_tensor_view){
        .data = output->data, .bytes = output->bytes, .dims = output->dims, .rank = output->rank, .dtype = output->dtype
    };
}

bool compare_result_tensor(const harness_output *got, const inlay_tensor_view *want, double rtol, double atol,
                           char *text, size_t bytes)
{
    const inlay_tensor_view view = view_of(got);

    return compare_tensor(&view, want, rtol, atol, text, bytes);
}

bool compare_one_result(const harness_result *got, const harness_result *want, uint32_t output, double more_atol,
                        char *text, size_t bytes)
{
    const inlay_tensor_view view = view_of(&want->out[output]);
    const double rtol = result_rtol(view.dtype), atol = rtol * compare_largest(&view, want->out[output].count);
    char inner[400];

    if (compare_result_tensor(&got->out[output], &view, rtol, atol + more_atol, inner, sizeof inner))
        return true;
    (void)snprintf(text, bytes, "output %u: %s", output, inner);
    return false;
}

double result_distance(const harness_result *got, const harness_result *want)
{
    double distance = 0;

    for (uint32_t o = 0; o < want->out_count && o < got->out_count; o++) {
        const inlay_tensor_view view = view_of(&want->out[o]);
        const double largest = compare_largest(&view, want->out[o].count);

        if (view.dtype != INLAY_STRING && largest > 0) /* no error is below the tolerance, so all are compared */
            distance =
                fmax(distance, compare_elements(got->out[o].data, &view, want->out[o].count, 0, -1).worst / largest);
    }
    return distance;
}

bool compare_results(const harness_result *got, const harness_result *want, char *text, size_t bytes)
{
    INLAY_CHECK(got->out_count == want->out_count);
    for (uint32_t o = 0; o < want->out_count && o < got->out_count; o++)
        if (!compare_one_result(got, want, o, 0, text, bytes))
            return false;
    return true;
}
