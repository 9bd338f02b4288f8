/* Low-bit constants (low_bit.h): DequantizeLinear-10..25 of integers of 2, 4, 8 and 16 bits and of floats of 4 and 8
 * bits, with one scale for all elements, per index of an axis, or per block of an axis. */
#include "cpu/weights/low_bit_pack.h"
#include "inlay/execution.h"
#include "inlay/graph_view.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/recurrent_panels.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(cpu_takes_low_bit_constant, "cpu_narrow");
OPTIONAL_WITH(low_bit_is_constant, "cpu_narrow");
OPTIONAL_WITH(low_bit_make_constants, "cpu_narrow");
OPTIONAL_WITH(low_bit_mark_packed, "cpu_narrow");
OPTIONAL_WITH(low_bit_read, "cpu_narrow");
OPTIONAL_WITH(low_bit_read_pack, "cpu_narrow");

static bool is_op(const inlay_node_info *node, const char *op_type)
{
    return strcmp(node->op_type.data, op_type) == 0 && strcmp(node->domain.data, "ai.onnx") == 0;
}

static bool is_constant(const inlay_value_info *value)
{
    return value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0 && value->data != NULL;
}

static bool is_low_bit_type(inlay_dtype dtype)
{
    return dtype == INLAY_INT8 || dtype == INLAY_UINT8 || dtype == INLAY_INT4 || dtype == INLAY_UINT4 ||
           dtype == INLAY_INT2 || dtype == INLAY_UINT2 || dtype == INLAY_INT16 || dtype == INLAY_UINT16 ||
           dtype == INLAY_FLOAT8E4M3FN || dtype == INLAY_FLOAT8E4M3FNUZ || dtype == INLAY_FLOAT8E5M2 ||
           dtype == INLAY_FLOAT8E5M2FNUZ || dtype == INLAY_FLOAT4E2M1;
}

/* Reads the axis of the scales. false: the node is not valid ONNX. */
static bool read_axis(const kit_node *node, struct low_bit_constant *narrow)
{
    const inlay_value_info *input = kit_input(node, 0), *scale = kit_input(node, 1);
    const int64_t block = kit_attr_int(node->info, "block_size", 0);
    int64_t axis;

    narrow->count = cpu_known_count(input);
    narrow->scales = cpu_known_count(scale);
    narrow->single = narrow->scales == 1 && (block == 0 || narrow->count == 1);
    narrow->block = narrow->inner = narrow->size = 1;
    if (narrow->single)
        return true;
    if (block < 0 || !cpu_axis(kit_attr_int(node->info, "axis", 1), input->rank, &axis))
        return false;
    for (uint32_t d = (uint32_t)axis + 1; d < input->rank; d++)
        narrow->inner *= input->dims[d].value;
    narrow->size = input->dims[axis].value;
    narrow->block = block > 0 ? block : 1;
    if (block == 0)
        return scale->rank == 1 && narrow->scales == narrow->size;
    if (scale->rank != input->rank)
        return false;
    for (uint32_t d = 0; d < input->rank; d++)
        if (scale->dims[d].value != (d == axis ? (narrow->size + block - 1) / block : input->dims[d].value))
            return false;
    return true;
}

static bool read_dequantize(const kit_node *node, struct low_bit_constant *narrow)
{
    const inlay_value_info *input = kit_input(node, 0), *scale = kit_input(node, 1), *zero = kit_input(node, 2);

    return is_constant(input) && is_constant(scale) && is_low_bit_type(input->dtype) && input->rank <= CPU_MAX_RANK &&
           scale->dtype == INLAY_FLOAT && kit_output_dtype(node, 0) == INLAY_FLOAT &&
           (zero == NULL ||
            (is_constant(zero) && zero->dtype == input->dtype && cpu_known_count(zero) == cpu_known_count(scale))) &&
           cpu_known_count(input) > 0 && cpu_known_count(input) < INT32_MAX && read_axis(node, narrow);
}

bool cpu_takes_low_bit_constant(const kit_node *node)
{
    struct low_bit_constant narrow;

    return read_dequantize(node, &narrow);
}

static bool is_view(const inlay_node_info *node)
{
    static const char *const views[] = { "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze" };

    for (uint32_t i = 0; i < KIT_COUNT(views); i++)
        if (is_op(node, views[i]))
            return true;
    return false;
}

/* Reads the dims. false: not all are known, or their product is not `count`. */
static bool read_dims(const inlay_value_info *value, int64_t count, int64_t *dims)
{
    int64_t all = 1;

    if (value == NULL || value->rank > CPU_MAX_RANK)
        return false;
    for (uint32_t d = 0; d < value->rank; d++) {
        dims[d] = value->dims[d].value;
        if (value->dims[d].kind != INLAY_DIM_FIXED || __builtin_mul_overflow(all, dims[d], &all))
            return false;
    }
    return all == count;
}

bool low_bit_is_constant(const inlay_graph *graph, uint32_t value, double *out_bytes)
{
    const inlay_value_info *source = inlay_graph_value(graph, value);
    int64_t dims[CPU_MAX_RANK];

    for (int depth = 0; depth <= LOW_BIT_MAX_VIEWS && source != NULL && source->producer < graph->node_count; depth++) {
        const kit_node maker = { .graph = graph, .info = inlay_graph_node(graph, source->producer) };
        double bytes = 0;
        struct low_bit_constant narrow;

        if (is_op(maker.info, "DequantizeLinear")) {
            if (!read_dequantize(&maker, &narrow) || !read_dims(inlay_graph_value(graph, value), narrow.count, dims))
                return false;
            for (uint32_t i = 0; i < maker.info->input_count; i++)
                bytes += kit_input(&maker, i) != NULL ? (double)kit_input(&maker, i)->data_bytes : 0;
            if (out_bytes != NULL)
                *out_bytes = bytes;
            return true;
        }
        if (!is_view(maker.info))
            return false;
        source = inlay_graph_value(graph, maker.info->inputs[0]);
    }
    return false;
}

/* Makes the value a constant of the region, if its shape is known. false: out of memory. */
static bool make_constant(inlay_compiled *compiled, const inlay_graph *graph, uint32_t value,
                          const struct low_bit_constant *narrow)
{
    cpu_value *output = &compiled->values[value];
    struct low_bit_constant *own;

    if (!read_dims(inlay_graph_value(graph, output->snapshot), narrow->count, output->dims))
        return true; /* the output stays a computed value */
    own = malloc(sizeof *own);
    if (own == NULL)
        return false;
    INLAY_CHECK(compiled->constant_count < compiled->value_count);
    *own = *narrow;
    output->constant = compiled->constant_count;
    output->rank = inlay_graph_value(graph, output->snapshot)->rank;
    compiled->constants[compiled->constant_count++] = (cpu_constant){ .kind = CONSTANT_LOW_BIT,
                                                                      .value = output->snapshot,
                                                                      .bytes = (uint64_t)narrow->count * sizeof(float),
                                                                      .stored.low_bit = own };
    return true;
}

inlay_status low_bit_make_constants(inlay_compiled *compiled, const inlay_graph *graph, inlay_diag *diag)
{
    bool any = false;

    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        cpu_op *op = &compiled->ops[op_index];
        const cpu_constant *from = NULL;
        struct low_bit_constant narrow = { .maker = op_index };
        bool ok = true;

        if (op->row->family->kind == CPU_FAMILY_NARROW) {
            const kit_node node = { .host = compiled->state->host,
                                    .graph = graph,
                                    .info = inlay_graph_node(graph, op->node) };

            if (!read_dequantize(&node, &narrow))
                return inlay_fail(diag, INLAY_INTERNAL, "node '%s' has changed since it was offered", op->name);
            narrow.dtype = kit_input_dtype(&node, 0);
            narrow.q = compiled->values[op->in[0]].constant;
            narrow.scale = compiled->values[op->in[1]].constant;
            INLAY_CHECK(narrow.q < compiled->constant_count && narrow.scale < compiled->constant_count);
            narrow.zero =
                op->in_count > 2 && op->in[2] != INLAY_NONE ? compiled->values[op->in[2]].constant : INLAY_NONE;
            ok = make_constant(compiled, graph, op->out[0], &narrow);
            any = true;
        } else if (any && (op->row->family->kind == CPU_FAMILY_TRANSPOSE || op->row->family->kind == CPU_FAMILY_VIEW) &&
                   compiled->values[op->in[0]].constant != INLAY_NONE) {
            from = &compiled->constants[compiled->values[op->in[0]].constant];
            if (from->kind != CONSTANT_LOW_BIT || from->stored.low_bit->turn_count == LOW_BIT_MAX_VIEWS)
                continue;
            narrow = *from->stored.low_bit;
            if (op->row->family->kind == CPU_FAMILY_TRANSPOSE)
                narrow.turns[narrow.turn_count++] = op_index;
            ok = make_constant(compiled, graph, op->out[0], &narrow);
        } else {
            continue;
        }
        if (!ok)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to read a region");
        op->silent =
            compiled->values[op->out[0]].constant != INLAY_NONE && compiled->values[op->out[0]].output == INLAY_NONE;
    }
    return INLAY_OK;
}

void low_bit_mark_packed(inlay_compiled *compiled)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        const cpu_op *op = &compiled->ops[op_index];
        bool packed = false, read = false;

        if (op->row->family->kind != CPU_FAMILY_NARROW)
            continue;
        for (uint32_t i = 0; i < compiled->constant_count; i++)
            packed |= low_bit_is_of(&compiled->constants[i], op_index) && compiled->constants[i].packs != NULL;
        /* An output of the region may be read from a constant without a pack, so the originals must stay. */
        for (uint32_t value = 0; value < compiled->value_count; value++)
            read |= compiled->values[value].constant != INLAY_NONE &&
                    low_bit_is_of(&compiled->constants[compiled->values[value].constant], op_index) &&
                    compiled->values[value].output != INLAY_NONE;
        for (uint32_t i = 0; packed && !read && i < op->in_count; i++)
            if (op->in[i] != INLAY_NONE)
                compiled->constants[compiled->values[op->in[i]].constant].repacked_ops++;
    }
}

/* args: weights [out, in, 3, 3] with contiguous outputs, and the transformed weights. */
typedef struct window_step {
    cpu_native native;
    tensor_layout plain, layout;
} window_step;

static inlay_status run_window(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const window_step *step = (const window_step *)(const void *)native;

    (void)threads;
    return pack_by_kernel(state, run, &step->plain, args[0], &step->layout, args[1]) ? INLAY_OK : INLAY_INTERNAL;
}

/* Emits a step that transforms the weights for Winograd's algorithm in each run. It reads them in a layout that needs
 * no gather instructions. */
static inlay_status read_window(cpu_build *build, uint32_t value, const tensor_layout *plain,
                                const tensor_layout *layout, cpu_place *out)
{
    const int64_t outs = plain->dims[0];
    window_step step = { .native.run = run_window, .layout = *layout };
    cpu_place floats;
    inlay_status status;

    layout_strides(&step.plain, 4, plain->dims, (const int64_t[]){ 1, 9 * outs, 3 * outs, outs });
    INLAY_TRY(low_bit_read(build, value, plain, &step.plain, &floats));
    INLAY_TRY(cpu_new_place(build, layout, out));
    status = cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ &floats, out }, 2);
done:
    return status;
}

inlay_status low_bit_read_pack(cpu_build *build, uint32_t value, const tensor_layout *plain,
                               const tensor_layout *layout, cpu_place *out)
{
    cpu_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];
    const cpu_pack *pack;
    inlay_status status = cpu_constant_pack(build, constant, plain, layout, &pack);

    return status == INLAY_OK ? cpu_pack_place(build, pack->data, low_bit_pack_bytes(pack->data), out) : status;
}

inlay_status low_bit_read(cpu_build *build, uint32_t value, const tensor_layout *plain, const tensor_layout *layout,
                          cpu_place *out)
{
    static const cpu_native step = { .run = low_bit_run_dequantize };
    inlay_status status = INLAY_OK;
    tensor_layout made = *layout;
    cpu_place from;

    if ((build->has[value] & CPU_HAS_COPY) != 0 && layout_equal(&build->copies[value].layout, layout)) {
        *out = build->copies[value];
        return INLAY_OK;
    }
    if (plain->rank == 4 && layout->rank == 3)
        return read_window(build, value, plain, layout, out);
    if (recurrent_is_pack(layout)) {
        const int64_t count = (int64_t)(layout_bytes(layout) / sizeof(float));

        layout_plain(&made, 1, &count);
    } else if (layout->kind != LAYOUT_STRIDED || layout->type != ELEMENT_FLOAT || layout->rank != plain->rank) {
        INLAY_TRY(low_bit_read(build, value, plain, plain, &from));
        return cpu_reorder(build, &from, layout, out);
    }
    INLAY_TRY(low_bit_read_pack(build, value, plain, layout, &from));
    INLAY_TRY(cpu_new_place(build, &made, out));
    INLAY_TRY(cpu_emit_step(build, &step, sizeof step, (const cpu_place *const[]){ &from, out }, 2));
    build->copies[value] = *out;
    build->has[value] |= CPU_HAS_COPY;
done:
    return status;
}
