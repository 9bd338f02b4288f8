/* Clamped: ai.inlay 1. */
#include "operators/operators.h"

static inlay_status run_clamped(const kit_call *call)
{
    const float *x = call->in[0].data;
    float *y = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .domain = "ai.inlay", .op_type = "Clamped", .flags = KIT_IN_PLACE, .run = run_clamped },
};
const kit_table reference_clamped = { kernels, KIT_COUNT(kernels) };
