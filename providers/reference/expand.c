/* Expand (ONNX 8, 13) and Tile (1, 6, 13): axes that repeat, which for the copying engine are axes of step 0. */
#include "args.h"
#include "convert.h"
#include "reference.h"
#include "strided.h"

/* Numpy broadcasting against the shape input; its sizes of 1 leave the input's alone. */
static inlay_status run_expand(const kit_call *call)
{
    const kit_tensor *x = &call->in[0], *y = &call->out[0];
    const uint32_t element = strided_element_bytes(x->dtype);
    int64_t dims[INLAY_MAX_RANK] = { 0 }, steps[INLAY_MAX_RANK], from[INLAY_MAX_RANK], to[INLAY_MAX_RANK];
    const int64_t wanted = call->in[1].count;
    strided_plan plan;
    inlay_status status;
    uint32_t rank;

    if (wanted > INLAY_MAX_RANK)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "shape has %lld values; at most %u axes are supported",
                          (long long)wanted, (unsigned)INLAY_MAX_RANK);
    rank = wanted > (int64_t)x->rank ? (uint32_t)wanted : x->rank;
    strided_row_major(x->rank, x->dims, element, steps);
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t have = i + x->rank < rank ? 1 : x->dims[i + x->rank - rank];
        const int64_t want =
            i + (uint32_t)wanted < rank ? 1 : ((const int64_t *)call->in[1].data)[i + (uint32_t)wanted - rank];

        if (want < 0)
            return inlay_fail(call->diag, INLAY_INVALID_MODEL, "shape asks for a size of %lld", (long long)want);
        if (have != want && have != 1 && want != 1)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "axis %u of size %lld cannot be expanded to %lld", i,
                              (long long)have, (long long)want);
        dims[i] = have == 1 ? want : have;
        from[i] = have == 1 ? 0 : steps[i + x->rank - rank];
    }
    status = arg_expect_dims(call->diag, y, rank, dims);
    if (status != INLAY_OK)
        return status;
    strided_row_major(rank, dims, element, to);
    strided_plan_init(&plan, element, rank, dims, from, to);
    return strided_copy(call, &plan, x->data, y->data);
}

/* The number of repeats of each axis: Tile-6 has a list, Tile-1 one axis and one number, of the data's type. */
static inlay_status read_repeats(const kit_call *call, int64_t *repeats)
{
    const kit_tensor *x = &call->in[0];

    for (uint32_t i = 0; i < x->rank; i++)
        repeats[i] = 1;
    if (kit_has_input(call, 2)) {
        uint32_t axis;
        inlay_status status;

        if (call->in[1].count < 1 || call->in[2].count < 1)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "tiles and axis must hold one value each");
        status = arg_axis(call->diag, convert_get_i64(call->in[2].dtype, call->in[2].data, 0), x->rank, "axis", &axis);
        if (status != INLAY_OK)
            return status;
        repeats[axis] = convert_get_i64(call->in[1].dtype, call->in[1].data, 0);
    } else {
        if (call->in[1].count != (int64_t)x->rank)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "repeats has %lld values for a tensor of rank %u",
                              (long long)call->in[1].count, x->rank);
        for (uint32_t i = 0; i < x->rank; i++)
            repeats[i] = ((const int64_t *)call->in[1].data)[i];
    }
    return INLAY_OK;
}

/* Each axis becomes two: repeats, and within them the input's. */
static inlay_status run_tile(const kit_call *call)
{
    const kit_tensor *x = &call->in[0], *y = &call->out[0];
    const uint32_t element = strided_element_bytes(x->dtype);
    int64_t repeats[INLAY_MAX_RANK] = { 0 }, dims[INLAY_MAX_RANK], steps[INLAY_MAX_RANK], out_steps[INLAY_MAX_RANK];
    int64_t counts[2 * INLAY_MAX_RANK], from[2 * INLAY_MAX_RANK], to[2 * INLAY_MAX_RANK];
    strided_plan plan;
    inlay_status status = read_repeats(call, repeats);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < x->rank; i++)
        if (repeats[i] < 0 || __builtin_mul_overflow(x->dims[i], repeats[i], &dims[i]))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axis %u of size %lld cannot be repeated %lld times",
                              i, (long long)x->dims[i], (long long)repeats[i]);
    status = arg_expect_dims(call->diag, y, x->rank, dims);
    if (status != INLAY_OK || y->count == 0)
        return status;
    strided_row_major(x->rank, x->dims, element, steps);
    strided_row_major(x->rank, dims, element, out_steps);
    for (uint32_t i = 0; i < x->rank; i++) {
        counts[2 * i] = repeats[i];
        from[2 * i] = 0;
        to[2 * i] = x->dims[i] * out_steps[i];
        counts[2 * i + 1] = x->dims[i];
        from[2 * i + 1] = steps[i];
        to[2 * i + 1] = out_steps[i];
    }
    strided_plan_init(&plan, element, 2 * x->rank, counts, from, to);
    return strided_copy(call, &plan, x->data, y->data);
}

static const kit_kernel kernels[] = {
    { .op_type = "Expand", .run = run_expand },
    { .op_type = "Tile", .run = run_tile },
};
const kit_table reference_expand = { kernels, KIT_COUNT(kernels) };
