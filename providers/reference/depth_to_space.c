/* DepthToSpace (ONNX 1, 11, 13) and SpaceToDepth (1, 13): transpositions of a 6-dimensional view. */
#include "instance.h"
#include "args.h"
#include "reference.h"
#include "strided.h"

typedef struct block_state {
    int64_t size;
    bool depth_first; /* DepthToSpace mode DCR, the only way of SpaceToDepth */
} block_state;

static inlay_status prepare_block(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *mode = kit_attr_string(node->info, "mode", "DCR");
    const int64_t size = kit_attr_int(node->info, "blocksize", 0);
    inlay_status status;

    if (size <= 0 || size > INT32_MAX)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "blocksize is %lld; it must be at least 1", (long long)size);
    if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%s' is neither DCR nor CRD", mode);
    status = arg_state(sizeof(block_state), out_state, diag);
    if (status == INLAY_OK)
        *(block_state *)*out_state = (block_state){ size, strcmp(mode, "DCR") == 0 };
    return status;
}

/* The view of the side with the small channels count: [N, C, H, b, W, b] elements; of the other side [N, b, b, C, H, W]
 * (or [N, C, b, b, H, W]), whose axes are brought into the first order. */
static inlay_status shape_block(const block_state *state, bool to_space, kit_plan *plan, inlay_diag *diag)
{
    const int64_t b = state->size, element = strided_element_bytes(plan->in[0].dtype);
    int64_t dims[6], deep_steps[6], wide_steps[6], n, c, h, w, expect[4];
    inlay_status status;

    if (plan->in[0].rank != 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; [N, C, H, W] is needed",
                          plan->in[0].rank);
    if (to_space ? plan->in[0].dims[1] % (b * b) != 0 : plan->in[0].dims[2] % b != 0 || plan->in[0].dims[3] % b != 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "blocksize %lld does not divide the input's %s", (long long)b,
                          to_space ? "channels by its square" : "height and width");
    n = plan->in[0].dims[0];
    c = to_space ? plan->in[0].dims[1] / (b * b) : plan->in[0].dims[1];
    h = to_space ? plan->in[0].dims[2] : plan->in[0].dims[2] / b;
    w = to_space ? plan->in[0].dims[3] : plan->in[0].dims[3] / b;
    if (c > INT64_MAX / (b * b))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "blocksize %lld is too large", (long long)b);
    expect[0] = n;
    expect[1] = to_space ? c : c * b * b;
    expect[2] = to_space ? h * b : h;
    expect[3] = to_space ? w * b : w;
    status = arg_expect_dims(diag, &plan->out[0], 4, expect);
    if (status != INLAY_OK)
        return status;
    memcpy(dims, (int64_t[]){ n, c, h, b, w, b }, sizeof dims);
    strided_row_major(6, dims, element, wide_steps);
    memset(deep_steps, 0, sizeof deep_steps);
    if (plan->in[0].count > 0) { /* otherwise sizes may be anything */
        deep_steps[0] = c * b * b * h * w * element;
        deep_steps[1] = (state->depth_first ? 1 : b * b) * h * w * element;
        deep_steps[2] = w * element;
        deep_steps[3] = (state->depth_first ? b * c : b) * h * w * element;
        deep_steps[4] = element;
        deep_steps[5] = (state->depth_first ? c : 1) * h * w * element;
    }
    plan->plan = malloc(sizeof(strided_plan));
    if (plan->plan == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a copy");
    strided_plan_init(plan->plan, (uint32_t)element, 6, dims, to_space ? deep_steps : wide_steps,
                      to_space ? wide_steps : deep_steps);
    return INLAY_OK;
}

static inlay_status shape_depth_to_space(const void *state, kit_plan *plan, inlay_diag *diag)
{
    return shape_block(state, true, plan, diag);
}

static inlay_status shape_space_to_depth(const void *state, kit_plan *plan, inlay_diag *diag)
{
    return shape_block(state, false, plan, diag);
}

static inlay_status run_block(const kit_call *call)
{
    return strided_copy(call, call->plan, call->in[0].data, call->out[0].data);
}

static const kit_kernel kernels[] = {
    { .op_type = "DepthToSpace", .prepare = prepare_block, .shape = shape_depth_to_space, .run = run_block },
    { .op_type = "SpaceToDepth", .prepare = prepare_block, .shape = shape_space_to_depth, .run = run_block },
};
const kit_table OPERATOR(reference_depth_to_space) = { kernels, KIT_COUNT(kernels) };
