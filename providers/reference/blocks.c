/* UnpackBlocks of ai.inlay: unpacks quantized weights of a file in each run. It is used if placement rules exclude the
 * provider that reads the blocks directly; otherwise the host unpacks them once (host/runtime/passes). */
#include "kit/blocks.h"
#include "operators/operators.h"

typedef struct unpack_call {
    const kit_call *call;
    kit_blocks blocks;
} unpack_call;

static inlay_status unpack_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const unpack_call *range = user;
    const kit_tensor *out = range->call->out;
    const kit_blocks *blocks = &range->blocks;
    const int64_t groups = blocks->type->elements / blocks->group * begin;

    (void)worker;
    kit_blocks_read(blocks, (const char *)range->call->in[0].data + begin * blocks->type->bytes, end - begin,
                    (char *)out[0].data + blocks->type->elements * blocks->bits / 8 * begin,
                    (float *)out[1].data + groups,
                    kit_has_output(range->call, 2) ? (float *)out[2].data + groups : NULL);
    return INLAY_OK;
}

static inlay_status run_unpack(const kit_call *call)
{
    enum { GRAIN = 256 };
    unpack_call range = { call, *(const kit_blocks *)call->state };

    if (!kit_has_output(call, 0) || !kit_has_output(call, 1) ||
        !kit_blocks_fit(&range.blocks, (uint64_t)call->in[0].count, (uint64_t)call->out[0].count,
                        (uint64_t)call->out[1].count))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%lld bytes of %s do not have %lld bytes of codes",
                          (long long)call->in[0].count, range.blocks.type->name, (long long)call->out[0].count);
    return kit_parallel(call, call->in[0].count / range.blocks.type->bytes, GRAIN, unpack_range, &range);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    kit_blocks blocks;
    kit_blocks *state;

    if (!kit_blocks_of(node->info, &blocks))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the type of the blocks is not known");
    state = malloc(sizeof *state);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the type of blocks");
    *state = blocks;
    *out_state = state;
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .domain = "ai.inlay", .op_type = "UnpackBlocks", .since_max = 1, .prepare = prepare, .run = run_unpack },
};
const kit_table reference_blocks = { kernels, KIT_COUNT(kernels) };
