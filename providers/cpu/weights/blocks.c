#include "cpu/weights/blocks.h"
#include "inlay/execution.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/packs.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(blocks_make_constants, "cpu_blocks");
OPTIONAL_WITH(blocks_mark_packed, "cpu_blocks");
OPTIONAL_WITH(blocks_pack, "cpu_blocks");
OPTIONAL_WITH(blocks_write, "cpu_blocks");

void blocks_make_constants(inlay_compiled *compiled, const inlay_graph *graph)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        cpu_op *op = &compiled->ops[op_index];
        const cpu_constant *from;

        if (op->row->family->kind != CPU_FAMILY_BLOCKS)
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
                .kind = CONSTANT_BLOCKS,
                .value = value->snapshot,
                .bytes = (uint64_t)cpu_known_count(info) * (part == BLOCKS_CODES ? 1 : sizeof(float)),
                .content_hash = from->content_hash == 0 ? 0
                                                        : (from->content_hash * UINT64_C(0x9e3779b97f4a7c15) +
                                                           op->blocks.type->id * 4 + part) ^
                                                              (uint64_t)(op->blocks.bits << 32 | op->blocks.group),
                .sources = { from->value },
                .stored.blocks = { .data = from->data, .of = op->blocks, .part = (uint8_t)part },
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
        bool all = op->row->family->kind == CPU_FAMILY_BLOCKS && op->silent;

        for (uint32_t part = BLOCKS_CODES; all && part < op->out_count; part++)
            all = is_unread(compiled, op, part) || nbits_replaces(compiled, op->out[part]);
        if (!all)
            continue;
        for (uint32_t part = BLOCKS_CODES; part < op->out_count; part++)
            if (!is_unread(compiled, op, part))
                compiled->constants[compiled->values[op->out[part]].constant].stored.blocks.data = NULL;
        compiled->constants[compiled->values[op->in[0]].constant].repacked_ops++;
    }
}

/* Reads blocks to memory of the part; the other parts are not wanted. */
static void read_part(const kit_blocks *blocks, int part, const void *from, int64_t count, void *out)
{
    kit_blocks_read(blocks, from, count, part == BLOCKS_CODES ? out : NULL, part == BLOCKS_SCALES ? out : NULL,
                    part == BLOCKS_ZEROS ? out : NULL);
}

inlay_status blocks_write(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag)
{
    const kit_blocks *blocks = &constant->stored.blocks.of;
    const int64_t group_bytes =
        constant->stored.blocks.part == BLOCKS_CODES ? blocks->group * blocks->bits / 8 : (int64_t)sizeof(float);

    (void)compiled, (void)diag;
    INLAY_CHECK(constant->kind == CONSTANT_BLOCKS && constant->stored.blocks.data != NULL);
    read_part(blocks, constant->stored.blocks.part, constant->stored.blocks.data,
              (int64_t)constant->bytes / (blocks->type->elements / blocks->group * group_bytes), out);
    return INLAY_OK;
}

typedef struct pack_call {
    const char *data;
    kit_blocks blocks;
    int part;
    nbits_shape shape;
    uint8_t *out;
    int64_t first; /* panel of the slice */
} pack_call;

/* Packs a panel in pieces of its rows, which follow one another in the pack, since a piece has whole blocks of k. */
static void pack_panel(const pack_call *call, int64_t panel, uint8_t *out)
{
    const nbits_shape *shape = &call->shape;
    const kit_blocks *blocks = &call->blocks;
    const int64_t first = panel * NBITS_COLUMNS,
                  count = shape->n - first < NBITS_COLUMNS ? shape->n - first : NBITS_COLUMNS;
    const int64_t row_bytes = shape->k / blocks->type->elements * blocks->type->bytes;
    float lines[NBITS_COLUMNS * KIT_MAX_BLOCK]; /* or bytes */

    for (int64_t at = 0; at < shape->k; at += KIT_MAX_BLOCK) {
        const int64_t elements = shape->k - at < KIT_MAX_BLOCK ? shape->k - at : KIT_MAX_BLOCK,
                      read = elements / blocks->type->elements;
        const bool codes = call->part == BLOCKS_CODES;
        const nbits_source source = { .data = lines,
                                      .k_step = 1,
                                      .n_step = codes ? elements : elements / shape->block,
                                      .is_signed = nbits_has_planes(shape->bits) && !blocks->type->zeros };
        const int64_t line_bytes = codes ? elements * blocks->bits / 8 : source.n_step * (int64_t)sizeof(float);
        const char *from = call->data + first * row_bytes + at / blocks->type->elements * blocks->type->bytes;
        nbits_shape piece;

        (void)nbits_shape_init(&piece, shape->bits, elements, count, shape->block);
        for (int64_t column = 0; column < count; column++)
            read_part(blocks, call->part, from + column * row_bytes, read, (char *)lines + column * line_bytes);
        if (codes) {
            nbits_pack_weights(&piece, &source, 0, 1, out);
            out += nbits_weight_bytes(&piece);
        } else {
            nbits_pack_floats(&piece, &source, (float *)(void *)out);
            out += nbits_scale_count(&piece) * (int64_t)sizeof(float);
        }
    }
}

/* The same for scales, or minima, with joint factors. */
static void pack_joint(const pack_call *call, int64_t panel, uint8_t *out)
{
    const nbits_shape *shape = &call->shape;
    const kit_block_type *type = call->blocks.type;
    const int64_t count = shape->k / NBITS_JOINED, groups = NBITS_JOINED / shape->block,
                  each = type->group / shape->block, first = panel * NBITS_COLUMNS;
    const int64_t factor_bytes = NBITS_COLUMNS * (int64_t)sizeof(float), step = factor_bytes + groups * NBITS_COLUMNS;
    const bool minima = call->part == BLOCKS_ZEROS;

    INLAY_CHECK(type->elements == NBITS_JOINED && type->read_scales != NULL);
    memset(out, 0, (size_t)(nbits_scale_count(shape) / shape->panels) * sizeof(float));
    for (int64_t column = 0; column < NBITS_COLUMNS && first + column < shape->n; column++)
        for (int64_t at = 0; at < count; at++) {
            kit_block_scales own = { .minimum_factor = 0 };

            type->read_scales((const uint8_t *)call->data + ((first + column) * count + at) * type->bytes, &own);
            memcpy(out + at * step + column * (int64_t)sizeof(float), minima ? &own.minimum_factor : &own.factor,
                   sizeof(float));
            for (int64_t i = 0; i < groups; i++)
                out[at * step + factor_bytes + i * NBITS_COLUMNS + column] =
                    (uint8_t)(minima ? own.minimums : own.scales)[i / each];
        }
}

static inlay_status pack_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const pack_call *call = user;
    const nbits_shape *shape = &call->shape;
    const int64_t panel_bytes =
        (call->part == BLOCKS_CODES ? nbits_weight_bytes(shape) : nbits_scale_count(shape) * (int64_t)sizeof(float)) /
        shape->panels;

    (void)worker;
    for (int64_t panel = call->first + begin; panel < call->first + end; panel++)
        (shape->joint != 0 ? pack_joint : pack_panel)(call, panel, call->out + panel * panel_bytes);
    return INLAY_OK;
}

bool blocks_pack(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                 const tensor_layout *layout, void *target)
{
    enum { GRAIN = 8 };
    const inlay_host *host = compiled->state->host;
    int64_t panel_bytes, step;
    pack_call call = {
        .data = constant->stored.blocks.data,
        .blocks = constant->stored.blocks.of,
        .part = constant->stored.blocks.part,
        .out = target,
    };

    (void)plain;
    INLAY_CHECK(constant->kind == CONSTANT_BLOCKS && constant->stored.blocks.data != NULL);
    if (!nbits_is_pack(layout) || !nbits_shape_of(layout, &call.shape) ||
        !blocks_fit(&call.blocks, call.shape.k, call.shape.block))
        return false;
    if (call.shape.bits == call.blocks.type->bits || (call.shape.bits == 4 && blocks_table(&call.blocks) != NULL))
        call.blocks.bits = call.shape.bits;
    if (call.shape.bits != call.blocks.bits && call.shape.bits != blocks_plane_bits(&call.blocks))
        return false;
    panel_bytes = call.shape.k / call.blocks.type->elements * call.blocks.type->bytes * NBITS_COLUMNS;
    step = panel_bytes * GRAIN < PACK_SLICE_BYTES ? PACK_SLICE_BYTES / panel_bytes : GRAIN;
    for (; call.first < call.shape.panels; call.first += step) {
        const int64_t left = call.shape.panels - call.first;

        /* cannot fail: no run can be cancelled, and pack_panels succeeds */
        (void)host->parallel_for(host->ctx, NULL, left < step ? left : step, GRAIN, pack_panels, &call);
        pack_release_source(compiled, constant);
    }
    return true;
}
