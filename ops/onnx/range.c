/* onnx/range.c - an arithmetic sequence. */
#include "schema.h"
#include "inlay/check.h"

/* max(ceil((limit - start) / delta), 0) for floats. */
static inlay_dim count_floats(double start, double limit, double delta, inlay_dtype dtype)
{
    double n = (limit - start) / delta;

    /* Range-11 computes in the element type. */
    if (dtype != INLAY_DOUBLE)
        n = (double)(((float)limit - (float)start) / (float)delta);
    if (n != n)
        return dim_unknown();
    if (n >= 0x1p63)
        return dim_beyond(false);
    return dim_fixed(n <= 0 ? 0 : (int64_t)n + ((double)(int64_t)n < n));
}

/* v: start, limit and delta. Sets the shape, and the elements of a short range. */
static inlay_status range_integers(op_infer *infer, const int64_t *v, inlay_dim *out_count)
{
    inlay_dim elements[INFER_MAX_ELEMENTS];
    uint64_t span, stride, count = 0;
    inlay_status status;

    INLAY_CHECK(v[2] != 0);
    if (v[2] > 0 ? v[1] > v[0] : v[1] < v[0]) {
        span = v[2] > 0 ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
        stride = v[2] > 0 ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
        count = (span - 1) / stride + 1;
    }
    *out_count = count > INT64_MAX ? dim_beyond(false) : dim_fixed((int64_t)count);
    status = infer_set_shape(infer, 0, 1, out_count);
    if (status != INLAY_OK || count > INFER_MAX_ELEMENTS)
        return status;
    for (uint64_t i = 0; i < count; i++)
        elements[i] = dim_fixed((int64_t)((uint64_t)v[0] + i * (uint64_t)v[2]));
    return infer_set_elements(infer, 0, (uint32_t)count, elements);
}

static inlay_status infer_range(op_infer *infer)
{
    const inlay_dtype dtype = infer_has_in(infer, 0) ? infer->in[0]->dtype : INLAY_UNDEFINED;
    inlay_dim count = dim_unknown();
    const inlay_dim *dim[3];
    uint32_t n[3];

    if (dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16) {
        double v[3];

        for (uint32_t i = 0; i < 3; i++)
            if (!infer_floats(infer, i, &v[i], 1, &n[i]) || n[i] != 1)
                return infer_set_shape(infer, 0, 1, &count);
        count = count_floats(v[0], v[1], v[2], dtype);
        if (v[2] == 0 || (count.kind == INLAY_DIM_UNKNOWN && !dim_is_beyond(count)))
            return infer_fail(infer, INLAY_INVALID_MODEL, "start %g, limit %g and delta %g do not define a range", v[0],
                              v[1], v[2]);
        return infer_set_shape(infer, 0, 1, &count);
    }
    for (uint32_t i = 0; i < 3; i++) {
        dim[i] = infer_elements(infer, i, &n[i]);
        if (dim[i] == NULL || n[i] != 1)
            return infer_set_shape(infer, 0, 1, &count);
    }
    if (dim[2]->kind == INLAY_DIM_FIXED && dim[2]->value == 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "delta is 0");
    if (dim[0]->kind == INLAY_DIM_FIXED && dim[1]->kind == INLAY_DIM_FIXED && dim[2]->kind == INLAY_DIM_FIXED) {
        const int64_t v[3] = { dim[0]->value, dim[1]->value, dim[2]->value };
        return range_integers(infer, v, &count);
    }
    /* With start 0 and delta 1, the count is the limit, which is assumed to be a size. With another start, the count is
     * the difference if it is a sum of sizes; a negative difference would give no elements. */
    if (dim_same(*dim[0], dim_fixed(0)) && dim_same(*dim[2], dim_fixed(1)))
        count = *dim[1];
    else if (dim_same(*dim[2], dim_fixed(1)) && dim_is_size(infer, dim_sub(infer, *dim[1], *dim[0])))
        count = dim_sub(infer, *dim[1], *dim[0]);
    return infer_set_shape(infer, 0, 1, &count);
}

static const op_row onnx_range_rows[] = {
    { "Range", 11, 0, "start:T, limit:T, delta:T -> output:T; T=int16|int32|int64|float|double", infer_range },
    { "Range", 27, 0, "start:T, limit:T, delta:T -> output:T; T=@float_ir4|int16|int32|int64; stash_type:i=1",
      infer_range },
};

const op_table op_onnx_range = { "ai.onnx", onnx_range_rows, OP_COUNT(onnx_range_rows) };
