/* Range: ONNX 11, 27. Element i is start + i * delta, computed in the element type; float16 and bfloat16 in float, as
 * required by Range-27's stash_type. */
#include "operators/instance.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"

/* Returns max(ceil((limit - start) / delta), 0), or -1 if that is not a valid number of elements. */
static int64_t count_elements(const kit_call *call)
{
    const kit_tensor *in = call->in;
    const inlay_dtype dtype = in[0].dtype;

    if (dtype == INLAY_INT16 || dtype == INLAY_INT32 || dtype == INLAY_INT64) {
        const int64_t start = convert_get_i64(dtype, in[0].data, 0), limit = convert_get_i64(dtype, in[1].data, 0);
        const int64_t delta = convert_get_i64(dtype, in[2].data, 0);
        uint64_t span, stride;

        if (delta == 0)
            return -1;
        if (delta > 0 ? limit <= start : limit >= start)
            return 0;
        span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
        stride = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
        span = (span - 1) / stride + 1;
        return span > INT64_MAX ? -1 : (int64_t)span;
    } else {
        const double start = convert_get_f64(dtype, in[0].data, 0), limit = convert_get_f64(dtype, in[1].data, 0);
        const double delta = convert_get_f64(dtype, in[2].data, 0);
        const double count =
            dtype == INLAY_DOUBLE ? (limit - start) / delta : (double)(((float)limit - (float)start) / (float)delta);

        if (delta == 0 || count != count || count > 9e15)
            return -1;
        return count <= 0 ? 0 : (int64_t)count + ((double)(int64_t)count < count);
    }
}

/* Fills the output with integers, by unsigned arithmetic: the elements do not overflow, but the sum after the last
 * element may. */
static void fill_integers(const kit_tensor *in, const kit_tensor *output)
{
    const uint64_t start = (uint64_t)convert_get_i64(output->dtype, in[0].data, 0);
    const uint64_t delta = (uint64_t)convert_get_i64(output->dtype, in[2].data, 0);
    uint64_t at = start;
    const int64_t count = output->count;
    int16_t *y16 = output->data;
    int32_t *y32 = output->data;
    int64_t *y64 = output->data;

    if (output->dtype == INLAY_INT16)
        for (int64_t i = 0; i < count; i++)
            y16[i] = (int16_t)(start + (uint64_t)i * delta);
    else if (output->dtype == INLAY_INT32)
        for (int64_t i = 0; i < count; i++)
            y32[i] = (int32_t)((uint32_t)start + (uint32_t)i * (uint32_t)delta);
    else
        for (int64_t i = 0; i < count; i++, at += delta)
            y64[i] = (int64_t)at;
}

static void fill_floats(const kit_tensor *in, const kit_tensor *output)
{
    const double start = convert_get_f64(output->dtype, in[0].data, 0),
                 delta = convert_get_f64(output->dtype, in[2].data, 0);
    const float start32 = (float)start, delta32 = (float)delta;
    double *y64 = output->data;
    float *y32 = output->data;
    uint16_t *y16 = output->data;

    const int64_t count = output->count;
    /* Conversions of int32 to float are vectorized; those of int64 are not. */
    const int32_t narrow = (int32_t)(count < INT32_MAX ? count : INT32_MAX);

    if (output->dtype == INLAY_DOUBLE) {
        for (int64_t i = 0; i < count; i++)
            y64[i] = start + (double)i * delta;
    } else if (output->dtype == INLAY_FLOAT) {
        for (int32_t i = 0; i < narrow; i++)
            y32[i] = start32 + (float)i * delta32;
        for (int64_t i = narrow; i < count; i++)
            y32[i] = start32 + (float)i * delta32;
    } else if (output->dtype == INLAY_FLOAT16) {
        for (int64_t i = 0; i < count; i++)
            y16[i] = f32_to_f16(start32 + (float)i * delta32);
    } else {
        for (int64_t i = 0; i < count; i++)
            y16[i] = f32_to_bf16(start32 + (float)i * delta32);
    }
}

static inlay_status run_range(const kit_call *call)
{
    const kit_tensor *output = &call->out[0];
    int64_t count;
    inlay_status status;

    if (call->in[0].count < 1 || call->in[1].count < 1 || call->in[2].count < 1)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "start, limit and delta must hold one value each");
    count = count_elements(call);
    if (count < 0)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "start, limit and delta do not give a valid number of elements");
    status = arg_expect_dims(call->diag, output, 1, &count);
    if (status != INLAY_OK)
        return status;
    if (output->dtype == INLAY_INT16 || output->dtype == INLAY_INT32 || output->dtype == INLAY_INT64)
        fill_integers(call->in, output);
    else
        fill_floats(call->in, output);
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "Range", .run = run_range },
};
const kit_table OPERATOR(operators_range) = { kernels, KIT_COUNT(kernels) };
