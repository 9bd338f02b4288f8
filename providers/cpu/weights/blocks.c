#include "cpu/weights/blocks.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/packs.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(blocks_make_constants, "cpu_blocks");
OPTIONAL_WITH(blocks_mark_packed, "cpu_blocks");
OPTIONAL_WITH(blocks_pack, "cpu_blocks");
OPTIONAL_WITH(blocks_write, "cpu_blocks");

void blocks_make_constants(inlay_compiled *compiled, const inlay_graph *graph)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        cpu_op *op = &compiled->ops[op_index];
        const cpu_constant *from;

        if (op->row->family != &cpu_blocks)
            continue;
        INLAY_CHECK(compiled->values[op->in[0]].constant < compiled->constant_count);
        from = &compiled->constants[compiled->values[op->in[0]].constant];
        op->silent = true;
        for (uint32_t part = BLOCKS_CODES; part < op->out_count; part++) {
            cpu_value *value = op->out[part] == INLAY_NONE ? NULL : &compiled->values[op->out[part]];
            const inlay_value_info *info = value == NULL ? NULL : inlay_graph_value(graph, value->snapshot);

            if (value == NULL)
                continue;
            INLAY_CHECK(compiled->constant_count < compiled->value_count && info->rank <= CPU_MAX_RANK);
            value->constant = compiled->constant_count;
            value->rank = info->rank;
            for (uint32_t d = 0; d < info->rank; d++)
                value->dims[d] = info->dims[d].value;
            compiled->constants[compiled->constant_count++] = (cpu_constant){
                .value = value->snapshot,
                .bytes = (uint64_t)cpu_known_count(info) * (part == BLOCKS_CODES ? 1 : sizeof(float)),
                .content_hash = from->content_hash == 0 ? 0
                                                        : (from->content_hash * UINT64_C(0x9e3779b97f4a7c15) +
                                                           op->blocks.type->id * 4 + part) ^
                                                              (uint64_t)(op->blocks.bits << 32 | op->blocks.group),
                .sources = { from->value },
                .blocks = op->blocks,
                .block_data = from->data,
                .block_part = (uint8_t)part,
            };
            op->silent &= value->output == INLAY_NONE;
        }
    }
}

/* Zero points of a type that has none are all the same, and not packed (nbits_merge_zeros). */
static bool is_unread(const inlay_compiled *compiled, const cpu_op *op, uint32_t part)
{
    return op->out[part] == INLAY_NONE || compiled->values[op->out[part]].uses == 0 ||
           (part == BLOCKS_ZEROS && !op->blocks.type->zeros);
}

void blocks_mark_packed(inlay_compiled *compiled)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        const cpu_op *op = &compiled->ops[op_index];
        bool all = op->row->family == &cpu_blocks && op->silent;

        for (uint32_t part = BLOCKS_CODES; all && part < op->out_count; part++)
            all = is_unread(compiled, op, part) || nbits_replaces(compiled, op->out[part]);
        if (!all)
            continue;
        for (uint32_t part = BLOCKS_CODES; part < op->out_count; part++)
            if (!is_unread(compiled, op, part))
                compiled->constants[compiled->values[op->out[part]].constant].block_data = NULL;
        compiled->constants[compiled->values[op->in[0]].constant].repacked_ops++;
    }
}

/* Reads blocks to memory of the part; the other parts are not wanted. */
static void read_part(const cpu_constant *constant, int64_t first, int64_t count, void *out)
{
    const kit_blocks *blocks = &constant->blocks;

    kit_blocks_read(blocks, (const char *)constant->block_data + first * blocks->type->bytes, count,
                    constant->block_part == BLOCKS_CODES ? out : NULL,
                    constant->block_part == BLOCKS_SCALES ? out : NULL,
                    constant->block_part == BLOCKS_ZEROS ? out : NULL);
}

inlay_status blocks_write(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag)
{
    const kit_blocks *blocks = &constant->blocks;
    const int64_t group_bytes =
        constant->block_part == BLOCKS_CODES ? blocks->group * blocks->bits / 8 : (int64_t)sizeof(float);

    (void)compiled, (void)diag;
    INLAY_CHECK(constant->block_data != NULL);
    read_part(constant, 0, (int64_t)constant->bytes / (blocks->type->elements / blocks->group * group_bytes), out);
    return INLAY_OK;
}

typedef struct pack_call {
    const cpu_constant *constant;
    nbits_shape shape;
    uint8_t *out;
    bool failed; /* atomic: out of memory */
} pack_call;

static inlay_status pack_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    pack_call *call = user;
    const nbits_shape *shape = &call->shape;
    const kit_blocks *blocks = &call->constant->blocks;
    const int64_t row_blocks = shape->k / blocks->type->elements;
    const bool codes = call->constant->block_part == BLOCKS_CODES;
    const int64_t row_bytes = codes ? shape->k * blocks->bits / 8 : shape->blocks * (int64_t)sizeof(float);
    const int64_t panel_bytes =
        (codes ? nbits_weight_bytes(shape) : nbits_scale_count(shape) * (int64_t)sizeof(float)) / shape->panels;
    uint8_t *lines = malloc((size_t)(NBITS_COLUMNS * row_bytes));

    (void)worker;
    if (lines == NULL)
        __atomic_store_n(&call->failed, true, __ATOMIC_RELAXED);
    for (int64_t panel = begin; lines != NULL && panel < end; panel++) {
        const int64_t first = panel * NBITS_COLUMNS,
                      count = shape->n - first < NBITS_COLUMNS ? shape->n - first : NBITS_COLUMNS;
        const nbits_source source = { .data = lines, .k_step = 1, .n_step = codes ? shape->k : shape->blocks };
        nbits_shape one;

        (void)nbits_shape_init(&one, shape->bits, shape->k, count, shape->block);
        read_part(call->constant, first * row_blocks, count * row_blocks, lines);
        if (codes)
            nbits_pack_weights(&one, &source, 0, 1, call->out + panel * panel_bytes);
        else
            nbits_pack_floats(&one, &source, (float *)(void *)(call->out + panel * panel_bytes));
    }
    free(lines);
    return INLAY_OK;
}

bool blocks_pack(const cpu_state *state, const cpu_constant *constant, const tensor_layout *plain,
                 const tensor_layout *layout, void *target)
{
    enum { GRAIN = 8 };
    pack_call call = { .constant = constant, .out = target };

    (void)plain;
    INLAY_CHECK(constant->block_data != NULL);
    if (!nbits_is_pack(layout) || !nbits_shape_of(layout, &call.shape) || call.shape.block != constant->blocks.group ||
        call.shape.k % constant->blocks.type->elements != 0)
        return false;
    /* the loop cannot fail: no run can be cancelled, and pack_panels succeeds */
    (void)state->host->parallel_for(state->host->ctx, NULL, call.shape.panels, GRAIN, pack_panels, &call);
    return !call.failed;
}
