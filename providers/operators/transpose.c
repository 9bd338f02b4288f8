/* Transpose: ONNX 1, 13, 21, 23, 24, 25. */
#include "operators/instance.h"
#include "common/price_moves.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct transpose_state {
    int64_t perm[INLAY_MAX_RANK];
    int32_t count; /* -1: reverse the axes */
} transpose_state;

static inlay_status prepare_transpose(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(transpose_state), out_state, diag);

    if (status == INLAY_OK) {
        transpose_state *state = *out_state;
        status = arg_ints(node, "perm", state->perm, INLAY_MAX_RANK, &state->count, diag);
    }
    return status;
}

/* Computes and checks the complete permutation. */
static inlay_status find_perm(const transpose_state *state, uint32_t rank, uint32_t *perm, inlay_diag *diag)
{
    uint32_t seen = 0;

    if (state->count >= 0 && (uint32_t)state->count != rank)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "perm has %d values for a tensor of rank %u", (int)state->count,
                          rank);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t axis = state->count < 0 ? (int64_t)(rank - 1 - i) : state->perm[i];

        if (axis < 0 || axis >= (int64_t)rank || (seen >> axis & 1) != 0)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "perm[%u] is %lld; perm must contain each of %u axes once", i,
                              (long long)axis, rank);
        seen |= 1u << axis;
        perm[i] = (uint32_t)axis;
    }
    return INLAY_OK;
}

static inlay_status shape_transpose(const void *opaque, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    int64_t in_steps[INLAY_MAX_RANK], from[INLAY_MAX_RANK], to[INLAY_MAX_RANK], dims[INLAY_MAX_RANK];
    uint32_t perm[INLAY_MAX_RANK];
    const uint32_t element = strided_element_bytes(input->dtype);
    inlay_status status = find_perm(opaque, input->rank, perm, diag);

    if (status != INLAY_OK)
        return status;
    strided_row_major(input->rank, input->dims, element, in_steps);
    for (uint32_t i = 0; i < input->rank; i++) {
        dims[i] = input->dims[perm[i]];
        from[i] = in_steps[perm[i]];
    }
    status = arg_expect_dims(diag, &plan->out[0], input->rank, dims);
    if (status != INLAY_OK)
        return status;
    strided_row_major(input->rank, dims, element, to);
    if (kit_plan_new(plan, sizeof(strided_plan)) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a transposition");
    strided_plan_init(plan->plan, element, input->rank, dims, from, to);
    if (strided_is_packed(input->dtype))
        plan->workspace_bytes = 2 * (uint64_t)input->count;
    return INLAY_OK;
}

static inlay_status run_transpose(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    kit_tensor *output = &call->out[0];
    inlay_status status;

    INLAY_CHECK(call->plan != NULL);
    if (strided_is_packed(input->dtype)) {
        uint8_t *from = call->workspace, *to = from + input->count;

        strided_unpack(input->dtype, input->data, input->count, from);
        status = strided_copy(call, call->plan, from, to);
        strided_pack(input->dtype, to, input->count, output->data);
        return status;
    }
    return strided_copy(call, call->plan, input->data, output->data);
}

static void cost_transpose(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[0];
    const price_memory memory = price_memory_of(node->host);
    const double bytes = (double)cost->bytes_written, element = strided_element_bytes(input->dtype);
    const double threads = price_loop_threads(2 * bytes, 2 * 131072, shapes->max_threads);
    uint32_t count = 0;
    const int64_t *perm = kit_attr_ints(node->info, "perm", &count);

    if (input->count > 0 && (perm == NULL || count == input->rank))
        cost->ns =
            60 + price_moved_ns(&memory, bytes, price_transpose_ns(input->dims, perm, input->rank, element), threads);
}

static const kit_kernel kernels[] = {
    { .op_type = "Transpose",
      .prepare = prepare_transpose,
      .shape = shape_transpose,
      .cost = cost_transpose,
      .run = run_transpose },
};
const kit_table OPERATOR(operators_transpose) = { kernels, KIT_COUNT(kernels) };
