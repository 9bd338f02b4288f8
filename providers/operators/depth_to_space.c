/* DepthToSpace (ONNX 1, 11, 13) and SpaceToDepth (1, 13): transpositions of a 6-dimensional view. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct block_state {
    int64_t size;
    bool depth_first; /* DepthToSpace mode DCR; SpaceToDepth has only this mode */
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
    status = arg_allocate_state(sizeof(block_state), out_state, diag);
    if (status == INLAY_OK)
        *(block_state *)*out_state = (block_state){ size, strcmp(mode, "DCR") == 0 };
    return status;
}

/* The tensor with fewer channels is viewed as [N, C, H, b, W, b]. The other one is viewed as [N, b, b, C, H, W] or,
 * unless depth_first, as [N, C, b, b, H, W]; its axes are permuted to the order of the first view. */
static inlay_status shape_block(const block_state *state, bool to_space, kit_plan *plan, inlay_diag *diag)
{
    const int64_t size = state->size, element = strided_element_bytes(plan->in[0].dtype);
    int64_t dims[6], deep_steps[6], wide_steps[6], batch, channels, height, width, expected[4];
    inlay_status status;

    INLAY_CHECK(size > 0);
    if (plan->in[0].rank != 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; [N, C, H, W] is needed",
                          plan->in[0].rank);
    if (to_space ? plan->in[0].dims[1] % (size * size) != 0
                 : plan->in[0].dims[2] % size != 0 || plan->in[0].dims[3] % size != 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "blocksize %lld does not divide the input's %s", (long long)size,
                          to_space ? "channels by its square" : "height and width");
    batch = plan->in[0].dims[0];
    channels = to_space ? plan->in[0].dims[1] / (size * size) : plan->in[0].dims[1];
    height = to_space ? plan->in[0].dims[2] : plan->in[0].dims[2] / size;
    width = to_space ? plan->in[0].dims[3] : plan->in[0].dims[3] / size;
    if (channels > INT64_MAX / (size * size))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "blocksize %lld is too large", (long long)size);
    expected[0] = batch;
    expected[1] = to_space ? channels : channels * size * size;
    expected[2] = to_space ? height * size : height;
    expected[3] = to_space ? width * size : width;
    status = arg_expect_dims(diag, &plan->out[0], 4, expected);
    if (status != INLAY_OK)
        return status;
    memcpy(dims, (int64_t[]){ batch, channels, height, size, width, size }, sizeof dims);
    strided_row_major(6, dims, element, wide_steps);
    memset(deep_steps, 0, sizeof deep_steps);
    if (plan->in[0].count > 0) { /* otherwise the products may overflow */
        deep_steps[0] = channels * size * size * height * width * element;
        deep_steps[1] = (state->depth_first ? 1 : size * size) * height * width * element;
        deep_steps[2] = width * element;
        deep_steps[3] = (state->depth_first ? size * channels : size) * height * width * element;
        deep_steps[4] = element;
        deep_steps[5] = (state->depth_first ? channels : 1) * height * width * element;
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
    INLAY_CHECK(call->plan != NULL);
    return strided_copy(call, call->plan, call->in[0].data, call->out[0].data);
}

static const kit_kernel kernels[] = {
    { .op_type = "DepthToSpace", .prepare = prepare_block, .shape = shape_depth_to_space, .run = run_block },
    { .op_type = "SpaceToDepth", .prepare = prepare_block, .shape = shape_space_to_depth, .run = run_block },
};
const kit_table OPERATOR(operators_depth_to_space) = { kernels, KIT_COUNT(kernels) };
