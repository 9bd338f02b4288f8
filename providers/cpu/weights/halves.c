#include "cpu/weights/halves.h"
#include "inlay/execution.h"
#include "inlay/graph_view.h"
#include "cpu/weights/packs.h"
#include "simd/convert.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(halves_make_constants, "cpu_halves");
OPTIONAL_WITH(halves_mark_packed, "cpu_halves");
OPTIONAL_WITH(halves_floats, "cpu_halves");
OPTIONAL_WITH(halves_is_constant, "cpu_halves");

static bool read_cast(const kit_node *node)
{
    const inlay_value_info *input = kit_input(node, 0);

    return input != NULL && (input->flags & INLAY_VALUE_CONSTANT) != 0 && input->data != NULL &&
           (input->dtype == INLAY_FLOAT16 || input->dtype == INLAY_BFLOAT16) && input->rank <= CPU_MAX_RANK &&
           kit_output_dtype(node, 0) == INLAY_FLOAT && input->data_bytes > 0 && input->data_bytes / 2 < INT32_MAX;
}

bool cpu_takes_float16_constant(const kit_node *node)
{
    return read_cast(node);
}

bool halves_is_constant(const inlay_graph *graph, uint32_t value)
{
    const inlay_value_info *source = inlay_graph_value(graph, value);
    const kit_node maker = { .graph = graph,
                             .info = source != NULL && source->producer < graph->node_count
                                         ? inlay_graph_node(graph, source->producer)
                                         : NULL };

    return maker.info != NULL && strcmp(maker.info->op_type.data, "Cast") == 0 &&
           strcmp(maker.info->domain.data, "ai.onnx") == 0 && read_cast(&maker);
}

void halves_make_constants(inlay_compiled *compiled, const inlay_graph *graph)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        cpu_op *op = &compiled->ops[op_index];
        const cpu_constant *from;
        const cpu_value *input;
        cpu_value *value;

        if (op->row->family->kind != CPU_FAMILY_HALVES)
            continue;
        input = &compiled->values[op->in[0]];
        INLAY_CHECK(input->constant < compiled->constant_count && compiled->constant_count < compiled->value_count);
        from = &compiled->constants[input->constant];
        value = &compiled->values[op->out[0]];
        value->constant = compiled->constant_count;
        value->rank = input->rank;
        memcpy(value->dims, input->dims, sizeof value->dims);
        compiled->constants[compiled->constant_count++] = (cpu_constant){
            .kind = CONSTANT_HALVES,
            .value = value->snapshot,
            .bytes = from->bytes * 2,
            .content_hash = from->content_hash == 0 ? 0 : from->content_hash * UINT64_C(0x9e3779b97f4a7c15) + 1,
            .sources = { from->value, from->value },
            .stored.halves = { from->data, inlay_graph_value(graph, input->snapshot)->dtype },
        };
        op->silent = value->output == INLAY_NONE;
    }
}

void halves_mark_packed(inlay_compiled *compiled)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        const cpu_op *op = &compiled->ops[op_index];
        cpu_constant *constant = op->row->family->kind == CPU_FAMILY_HALVES
                                     ? &compiled->constants[compiled->values[op->out[0]].constant]
                                     : NULL;

        if (constant == NULL || !op->silent || !pack_replaces(compiled, constant))
            continue;
        constant->stored.halves.data = NULL; /* further packs are made from the existing ones */
        compiled->constants[compiled->values[op->in[0]].constant].repacked_ops++;
    }
}

inlay_status halves_floats(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag)
{
    enum { PART = 2048 };
    const int64_t count = (int64_t)(constant->bytes / sizeof(float));

    (void)compiled, (void)diag;
    INLAY_CHECK(constant->kind == CONSTANT_HALVES && constant->stored.halves.data != NULL);
    /* The elements are converted from an aligned buffer, since files do not align them. */
    for (int64_t at = 0, part_count; at < count; at += part_count) {
        uint16_t part[PART];

        part_count = count - at < PART ? count - at : PART;
        memcpy(part, (const char *)constant->stored.halves.data + 2 * at, (size_t)part_count * sizeof *part);
        convert_to_f32((float *)out + at, constant->stored.halves.type, part, 0, part_count);
    }
    return INLAY_OK;
}
