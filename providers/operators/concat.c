/* Concat: ONNX 1, 4, 11, 13. Split: ONNX 1, 2, 11, 13, 18. Both copy matrices: the axes before the concatenated one
 * form the rows, the others the columns. A part is a dense matrix, and corresponds to a range of columns of the
 * whole. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct join_state {
    int64_t axis;
} join_state;

static inlay_status prepare_concat(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(join_state), out_state, diag);

    if (status == INLAY_OK)
        ((join_state *)*out_state)->axis = kit_attr_int(node->info, "axis", 1); /* the default of Concat-1 */
    return status;
}

static inlay_status prepare_split(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(join_state), out_state, diag);

    if (status == INLAY_OK)
        ((join_state *)*out_state)->axis = kit_attr_int(node->info, "axis", 0);
    return status;
}

/* Checks that the parts (inputs of Concat, outputs of Split) add up to the whole. */
static inlay_status check_parts(const kit_tensor *whole, const kit_tensor *parts, uint32_t count, uint32_t axis,
                                inlay_diag *diag)
{
    int64_t total = 0;
    INLAY_CHECK(axis < whole->rank);

    for (uint32_t part = 0; part < count; part++) {
        if (parts[part].dtype == INLAY_UNDEFINED)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "part %u is omitted", part);
        if (parts[part].rank != whole->rank)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "part %u has rank %u, the whole %u", part, parts[part].rank,
                              whole->rank);
        for (uint32_t i = 0; i < whole->rank; i++)
            if (i != axis && parts[part].dims[i] != whole->dims[i])
                return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "part %u has size %lld on axis %u, the whole %lld", part,
                                  (long long)parts[part].dims[i], i, (long long)whole->dims[i]);
        total += parts[part].dims[axis];
    }
    if (total != whole->dims[axis])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the parts sum up to %lld on axis %u, the whole has %lld",
                          (long long)total, axis, (long long)whole->dims[axis]);
    return INLAY_OK;
}

/* Copies between the parts and their columns of the whole. */
static inlay_status copy_parts(const kit_call *call, const kit_tensor *whole, const kit_tensor *parts, uint32_t count,
                               bool join)
{
    const join_state *state = call->state;
    uint32_t axis;
    inlay_status status = arg_axis(call->diag, state->axis, whole->rank, "axis", &axis);

    if (status == INLAY_OK)
        status = check_parts(whole, parts, count, axis, call->diag);
    if (status != INLAY_OK || whole->count == 0)
        return status;

    const int64_t element = strided_element_bytes(whole->dtype);
    const int64_t outer = strided_product(whole->dims, 0, axis);
    const int64_t inner = strided_product(whole->dims, axis + 1, whole->rank) * element;
    char *at = whole->data;

    for (uint32_t part = 0; part < count && status == INLAY_OK; part++) {
        const int64_t bytes = parts[part].dims[axis] * inner;
        const int64_t dims[] = { outer, bytes / element };
        const int64_t wide[] = { whole->dims[axis] * inner, element }, dense[] = { bytes, element };

        if (bytes > 0 && outer == 1) {
            status = join ? strided_memcpy(call, at, parts[part].data, (uint64_t)bytes)
                          : strided_memcpy(call, parts[part].data, at, (uint64_t)bytes);
        } else if (bytes > 0) {
            strided_plan plan;

            strided_plan_init(&plan, (uint32_t)element, 2, dims, join ? dense : wide, join ? wide : dense);
            status = join ? strided_copy(call, &plan, parts[part].data, at)
                          : strided_copy(call, &plan, at, parts[part].data);
        }
        at += bytes;
    }
    return status;
}

static inlay_status run_concat(const kit_call *call)
{
    return copy_parts(call, &call->out[0], call->in, call->in_count, true);
}

static inlay_status run_split(const kit_call *call)
{
    return copy_parts(call, &call->in[0], call->out, call->out_count, false);
}

static const kit_kernel kernels[] = {
    { .op_type = "Concat", .prepare = prepare_concat, .run = run_concat },
    { .op_type = "Split", .prepare = prepare_split, .run = run_split },
};

const kit_table OPERATOR(operators_concat) = { kernels, KIT_COUNT(kernels) };
