/* n-bit weights: which nodes have them, the layout of their elements, and their packs. Supports DequantizeLinear-10..25
 * of constant matrices, and MatMulNBits-1 of com.microsoft. */
#include "cpu/weights/nbits_weights.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "cpu/weights/blocks.h"
#include "cpu/weights/experts.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/region/families.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(nbits_bind_weights, "cpu_weights cpu_nbits_product cpu_experts");
OPTIONAL_WITH(cpu_takes_nbits_weights, CPU_BYTE_FAMILIES " cpu_weights cpu_nbits_product cpu_experts");

enum { AXES = 2, MAX_TRANSPOSES = 2 /* between DequantizeLinear and GEMM */ };

static uint8_t bits_of(inlay_dtype dtype, bool *out_signed)
{
    *out_signed = dtype == INLAY_INT4 || dtype == INLAY_INT2 || dtype == INLAY_INT8 || dtype == INLAY_FLOAT4E2M1;
    return dtype == INLAY_INT8 || dtype == INLAY_UINT8   ? 8
           : dtype == INLAY_FLOAT4E2M1                   ? 8 /* see nbits_source */
           : dtype == INLAY_INT4 || dtype == INLAY_UINT4 ? 4
           : dtype == INLAY_INT2 || dtype == INLAY_UINT2 ? 2
                                                         : 0;
}

static bool is_op(const inlay_node_info *node, const char *op_type)
{
    return strcmp(node->op_type.data, op_type) == 0 && strcmp(node->domain.data, "ai.onnx") == 0;
}

static bool is_constant(const inlay_value_info *value)
{
    return value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0 && value->data != NULL;
}

/* Does this Transpose exchange the two axes of a matrix? */
static bool is_matrix_transpose(const inlay_node_info *node)
{
    uint32_t count;
    const int64_t *perm = kit_attr_ints(node, "perm", &count);

    return perm == NULL || (count == AXES && perm[0] == 1 && perm[1] == 0);
}

/* The scales of a DequantizeLinear: their axis (AXES: one scale for all), and the elements of it that share a scale. */
struct layout {
    uint32_t axis;
    int64_t block;
};

static bool read_layout(const kit_node *node, struct layout *out)
{
    const inlay_value_info *input = kit_input(node, 0), *scale = kit_input(node, 1), *zero = kit_input(node, 2);
    const int64_t block = kit_attr_int(node->info, "block_size", 0);
    int64_t axis, count;
    bool is_signed;

    if (!is_constant(input) || !is_constant(scale) || bits_of(input->dtype, &is_signed) == 0 || input->rank != AXES ||
        scale->dtype != INLAY_FLOAT || kit_output_dtype(node, 0) != INLAY_FLOAT ||
        (zero != NULL && (input->dtype == INLAY_FLOAT4E2M1 || !is_constant(zero) || zero->dtype != input->dtype ||
                          cpu_known_count(zero) != cpu_known_count(scale))) ||
        cpu_known_count(input) < 1)
        return false;
    count = cpu_known_count(scale);
    *out = (struct layout){ AXES, 0 };
    if (count == 1)
        return true;
    if (!cpu_axis(kit_attr_int(node->info, "axis", 1), AXES, &axis))
        return false;
    *out = (struct layout){ (uint32_t)axis, block };
    if (block == 0)
        return scale->rank == 1 && count == input->dims[axis].value;
    return block > 0 && scale->rank == AXES && scale->dims[1 - axis].value == input->dims[1 - axis].value &&
           scale->dims[axis].value == (input->dims[axis].value + block - 1) / block;
}

/* Can a GEMM use the scales? Weights are [k, n], or [n, k] if turned; there may be one scale for all, for a column, or
 * for a block of k of a column. */
static bool scales_fit_gemm(const struct layout *layout, bool turned)
{
    const uint32_t k = turned ? 1 : 0;

    return layout->axis == AXES || (layout->block == 0 ? layout->axis != k : layout->axis == k);
}

/* Do only GEMMs that can use the scales read the value, perhaps after transposes? */
static bool only_feeds_gemms(const inlay_graph *graph, uint32_t value, const struct layout *layout, bool turned,
                             int depth)
{
    uint32_t count = 0;

    if (depth > MAX_TRANSPOSES || (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t node_index = 0; node_index < graph->node_count; node_index++) {
        const inlay_node_info *info = inlay_graph_node(graph, node_index);

        for (uint32_t i = 0; i < info->input_count; i++) {
            if (info->inputs[i] != value)
                continue;
            count++;
            if (i == 0 && is_op(info, "Transpose") && is_matrix_transpose(info)) {
                if (!only_feeds_gemms(graph, info->outputs[0], layout, !turned, depth + 1))
                    return false;
            } else if (i != 1 ||
                       !(is_op(info, "MatMul")
                             ? scales_fit_gemm(layout, turned)
                             : is_op(info, "Gemm") && kit_attr_int(info, "transA", 0) == 0 &&
                                   kit_attr_float(info, "alpha", 1) == 1 &&
                                   scales_fit_gemm(layout, turned != (kit_attr_int(info, "transB", 0) != 0)))) {
                return false;
            }
        }
    }
    return count > 0;
}

bool cpu_takes_nbits_weights(const kit_node *node)
{
    struct layout layout;

    return read_layout(node, &layout) && only_feeds_gemms(node->graph, node->info->outputs[0], &layout, false, 0);
}

bool nbits_is_weights(const inlay_graph *graph, uint32_t value, double *out_bytes)
{
    const inlay_value_info *source = inlay_graph_value(graph, value);
    const inlay_node_info *maker = NULL;

    for (int depth = 0; depth <= MAX_TRANSPOSES && source != NULL && source->producer < graph->node_count; depth++) {
        maker = inlay_graph_node(graph, source->producer);
        if (!is_op(maker, "Transpose") || !is_matrix_transpose(maker))
            break;
        source = inlay_graph_value(graph, maker->inputs[0]);
        maker = NULL;
    }
    if (maker == NULL || !is_op(maker, "DequantizeLinear") ||
        !cpu_takes_nbits_weights(&(kit_node){ .graph = graph, .info = maker }))
        return false;
    *out_bytes = 0;
    for (uint32_t i = 0; i < maker->input_count; i++)
        if (maker->inputs[i] != INLAY_NONE)
            *out_bytes += (double)inlay_graph_value(graph, maker->inputs[i])->data_bytes;
    return true;
}

static bool parse_weights(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);
    const nbits_kernel *kernel = nbits_kernel_best();
    struct layout layout;

    if (!read_layout(node, &layout))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the shape of the scales does not match the weights");
    op->axis = layout.axis;
    op->size = layout.block;
    op->nbits.bits = bits_of(input->dtype, &op->nbits.is_signed);
    op->nbits.e2m1 = input->dtype == INLAY_FLOAT4E2M1;
    op->nbits.all = op->nbits.is_signed ? (float)(1 << (op->nbits.bits - 1)) : 0;
    if (op->nbits.e2m1 && kernel != NULL && kernel->tables) {
        op->nbits.bits = 4;
        op->nbits.table = nbits_e2m1;
    }
    return true;
}

bool nbits_parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *info = kit_input(node, 0), *value_info = kit_input(node, 1), *scale = kit_input(node, 2);
    const inlay_value_info *zero = kit_input(node, 3), *bias = kit_input(node, 5);
    const int64_t bits = kit_attr_int(node->info, "bits", 4), block = kit_attr_int(node->info, "block_size", 0);
    const int64_t k = kit_attr_int(node->info, "K", 0), n = kit_attr_int(node->info, "N", 0);
    nbits_shape shape;

    if (sgemm_kernel_best() == NULL)
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX2 or NEON",
                          "this CPU has no kernel for packed weights");
    if (block < 1 || nbits_has_planes(bits) || !nbits_shape_init(&shape, (uint32_t)bits, k, n, block))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "no kernel for K %lld, N %lld, bits %lld, block_size %lld",
                          (long long)k, (long long)n, (long long)bits, (long long)block);
    if (info->dtype != INLAY_FLOAT || scale == NULL || scale->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "A and scales are not float");
    if (!(is_constant(value_info) && is_constant(scale) && (zero == NULL || is_constant(zero))) &&
        !(blocks_is_constant(node->graph, node->info->inputs[1]) &&
          blocks_is_constant(node->graph, node->info->inputs[2]) &&
          (zero == NULL || blocks_is_constant(node->graph, node->info->inputs[3]))))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make them constants", "weights are not constant");
    if (zero != NULL && zero->dtype != INLAY_UINT8 && zero->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "pack the zero points, or make them float",
                          "zero points are %s, not packed integers (uint8) or float", inlay_dtype_name(zero->dtype));
    if (kit_input(node, 4) != NULL)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "omit g_idx", "g_idx is not supported");
    if (bias != NULL && (!is_constant(bias) || bias->dtype != INLAY_FLOAT))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the bias is not a float constant");
    op->nbits = (cpu_nbits){ .zero = INLAY_NONE,
                             .bits = (uint8_t)bits,
                             .packed_zeros = zero != NULL && zero->dtype == INLAY_UINT8,
                             .float_zeros = zero != NULL && zero->dtype == INLAY_FLOAT,
                             .all = (float)(1 << (bits - 1)),
                             .k = k,
                             .n = n,
                             .block = block };
    op->nbits.q_steps[0] = op->nbits.scale_steps[0] = op->nbits.zero_steps[0] = 1;
    op->nbits.scale_steps[1] = op->nbits.zero_steps[1] = (k + block - 1) / block;
    op->nbits.q_steps[1] = op->nbits.scale_steps[1] * block;
    op->size = kit_attr_int(node->info, "accuracy_level", 0);
    return cpu_known_rank(info, 1, 6, "input 0", why);
}

static cpu_constant *constant_of(const inlay_compiled *compiled, uint32_t value)
{
    return value == INLAY_NONE || compiled->values[value].constant == INLAY_NONE
               ? NULL
               : &compiled->constants[compiled->values[value].constant];
}

/* Describes the weights of a DequantizeLinear as [k, n]; turned: the node's matrix is [n, k]. */
static void orient(const inlay_compiled *compiled, const cpu_op *op, bool turned, cpu_nbits *nbits)
{
    const int64_t *dims = compiled->values[op->in[0]].dims;
    const int64_t blocks = op->size > 0 ? (dims[op->axis] + op->size - 1) / op->size : 1;

    INLAY_CHECK(op->row->family->kind == CPU_FAMILY_WEIGHTS);
    *nbits = op->nbits;
    nbits->k = dims[turned ? 1 : 0];
    nbits->n = dims[turned ? 0 : 1];
    nbits->block = op->size > 0 ? op->size : nbits->k;
    nbits->q_steps[turned ? 1 : 0] = dims[1];
    nbits->q_steps[turned ? 0 : 1] = 1;
    nbits->q = op->in[0];
    nbits->scale = op->in[1];
    nbits->zero = op->in_count > 2 ? op->in[2] : INLAY_NONE;
    nbits->scale_steps[0] = op->axis == AXES || op->size == 0 ? 0 : turned ? 1 : nbits->n;
    nbits->scale_steps[1] = op->axis == AXES ? 0 : op->size == 0 ? 1 : turned ? blocks : 1;
    memcpy(nbits->zero_steps, nbits->scale_steps, sizeof nbits->zero_steps);
    nbits_merge_zeros(compiled, nbits);
}

static const cpu_op *maker_of(const inlay_compiled *compiled, const uint32_t *makers, uint32_t value)
{
    return value == INLAY_NONE || makers[value] == INLAY_NONE ? NULL : &compiled->ops[makers[value]];
}

/* Looks for the n-bit weights of a GEMM, through transposes, and records them in its operand. */
static void find_weights(inlay_compiled *compiled, const uint32_t *makers, const cpu_op *product)
{
    uint32_t value = product->in[1];
    bool turned = product->product.trans_b;
    const cpu_op *maker = maker_of(compiled, makers, value);

    while (maker != NULL && maker->row->family->kind == CPU_FAMILY_TRANSPOSE &&
           compiled->values[value].output == INLAY_NONE && maker->perm[0] == 1 && maker->perm[1] == 0) {
        turned = !turned;
        value = maker->in[0];
        maker = maker_of(compiled, makers, value);
    }
    if (maker == NULL || maker->row->family->kind != CPU_FAMILY_WEIGHTS || product->product.trans_a ||
        !scales_fit_gemm(&(struct layout){ (uint32_t)maker->axis, maker->size }, turned) ||
        compiled->values[value].output != INLAY_NONE)
        return;
    compiled->values[product->in[1]].weights = makers[value];
    compiled->values[product->in[1]].turned = turned;
}

/* Silences the ops whose output is read only by GEMMs that use the packed weights, or by silenced ops. */
static void silence(inlay_compiled *compiled, const uint32_t *makers)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
            cpu_op *op = &compiled->ops[op_index];
            uint32_t left;

            if (op->silent ||
                (op->row->family->kind != CPU_FAMILY_WEIGHTS && op->row->family->kind != CPU_FAMILY_TRANSPOSE) ||
                compiled->values[op->out[0]].output != INLAY_NONE)
                continue;
            left = compiled->values[op->out[0]].uses;
            for (uint32_t reader = 0; reader < compiled->op_count; reader++)
                for (uint32_t i = 0; i < compiled->ops[reader].in_count; i++)
                    left -= compiled->ops[reader].in[i] == op->out[0] &&
                            (compiled->ops[reader].silent ||
                             (i == 1 && compiled->ops[reader].row->family->kind == CPU_FAMILY_PRODUCT &&
                              compiled->values[op->out[0]].weights != INLAY_NONE));
            again |= op->silent =
                left == 0 &&
                (op->row->family->kind == CPU_FAMILY_WEIGHTS ||
                 (maker_of(compiled, makers, op->in[0]) != NULL && compiled->values[op->out[0]].weights != INLAY_NONE));
        }
    }
}

/* Whether the region has the weights: blocks may be unpacked by another one. */
static bool has_weights(const inlay_compiled *compiled, const cpu_nbits *nbits)
{
    return constant_of(compiled, nbits->q) != NULL && constant_of(compiled, nbits->scale) != NULL &&
           (nbits->zero == INLAY_NONE || constant_of(compiled, nbits->zero) != NULL);
}

static bool has_experts(const inlay_compiled *compiled, const cpu_op *op)
{
    bool all = true;

    for (int layer = 0; op->experts.bits != 0 && layer <= EXPERTS_GATE; layer++) {
        experts_layer own;

        experts_layer_of(compiled, op, layer, &own);
        all = all && (own.weights == INLAY_NONE || has_weights(compiled, &own.nbits));
    }
    return all;
}

static inlay_status fail_elsewhere(const cpu_op *op, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': another region unpacks its weights", op->name);
}

inlay_status nbits_bind_weights(inlay_compiled *compiled, inlay_diag *diag)
{
    uint32_t *makers;
    bool any = false;

    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        cpu_op *op = &compiled->ops[op_index];

        any |= op->row->family->kind == CPU_FAMILY_WEIGHTS;
        if (op->row->family->kind == CPU_FAMILY_EXPERTS) {
            if (!has_experts(compiled, op))
                return fail_elsewhere(op, diag);
            experts_bind(compiled, op);
        }
        if (op->row->family->kind != CPU_FAMILY_NBITS_PRODUCT)
            continue;
        op->nbits.q = op->in[1];
        op->nbits.scale = op->in[2];
        op->nbits.zero = op->in_count > 3 ? op->in[3] : INLAY_NONE;
        if (!has_weights(compiled, &op->nbits))
            return fail_elsewhere(op, diag);
        nbits_merge_zeros(compiled, &op->nbits);
        nbits_take_blocks(compiled, &op->nbits);
    }
    if (!any || compiled->state->nbits == NULL)
        return INLAY_OK;
    makers = malloc((compiled->value_count + 1u) * sizeof *makers);
    if (makers == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to read a region");
    memset(makers, 0xff, (compiled->value_count + 1u) * sizeof *makers);
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++)
        for (uint32_t i = 0; i < compiled->ops[op_index].out_count; i++)
            if (compiled->ops[op_index].out[i] != INLAY_NONE)
                makers[compiled->ops[op_index].out[i]] = op_index;
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++)
        if (compiled->ops[op_index].row->family->kind == CPU_FAMILY_PRODUCT)
            find_weights(compiled, makers, &compiled->ops[op_index]);
    silence(compiled, makers);
    free(makers);
    return INLAY_OK;
}

bool nbits_weights_shape(const cpu_nbits *nbits, int64_t n, nbits_shape *shape)
{
    const bool valid = nbits_shape_init(shape, nbits->bits, nbits->k, n, nbits->block);

    shape->table = nbits->table;
    return valid && (!nbits->joint || nbits_join_scales(shape));
}

const cpu_op *nbits_weights_of(const cpu_build *build, cpu_nbits *out, nbits_shape *shape)
{
    const cpu_op *op = build->op;

    if (op->row->family->kind == CPU_FAMILY_NBITS_PRODUCT) {
        *out = op->nbits;
    } else {
        const cpu_value *value = &build->compiled->values[op->in[1]];

        INLAY_CHECK(value->weights < build->compiled->op_count);
        op = &build->compiled->ops[value->weights];
        orient(build->compiled, op, value->turned, out);
    }
    (void)nbits_weights_shape(out, out->n, shape);
    return op;
}

static inlay_status read_pack(cpu_build *build, const cpu_nbits *nbits, uint32_t value, uint32_t what,
                              const int64_t *steps, int64_t bytes, cpu_place *out)
{
    const int64_t all = (int64_t)constant_of(build->compiled, value)->bytes;
    tensor_layout plain, packed;

    INLAY_CHECK(what >= NBITS_WEIGHTS && what <= NBITS_JOINT);
    layout_plain(&plain, 1, &all);
    plain.type = ELEMENT_UINT8;
    nbits_describe(nbits, what, steps, bytes, &packed);
    return cpu_read_constant(build, value, &plain, &packed, out);
}

inlay_status nbits_read(cpu_build *build, const cpu_nbits *nbits, cpu_place *place, cpu_place *scales, cpu_place *zeros)
{
    const uint32_t floats = nbits->joint ? NBITS_JOINT : NBITS_SCALES;
    inlay_status status;
    nbits_shape shape;

    zeros->buffer = INLAY_NONE;
    if (!nbits_weights_shape(nbits, nbits->n, &shape))
        return inlay_fail(build->diag, INLAY_LIMIT_EXCEEDED, "node '%s': the weights are too large", build->op->name);
    INLAY_TRY(read_pack(build, nbits, nbits->q, NBITS_WEIGHTS, nbits->q_steps, nbits_weight_bytes(&shape), place));
    INLAY_TRY(read_pack(build, nbits, nbits->scale, floats, nbits->scale_steps, nbits_scale_count(&shape) * 4, scales));
    if (nbits->zero != INLAY_NONE)
        INLAY_TRY(read_pack(build, nbits, nbits->zero, nbits->float_zeros ? floats : NBITS_ZEROS, nbits->zero_steps,
                            nbits_scale_count(&shape) * 4, zeros));
done:
    return status;
}

bool nbits_replaces(const inlay_compiled *compiled, uint32_t value)
{
    const cpu_value *read = &compiled->values[value];
    const cpu_op *reader = read->uses == 1 ? &compiled->ops[read->readers[0]] : NULL;
    const cpu_constant *constant = constant_of(compiled, value);

    INLAY_CHECK(constant != NULL);
    return reader != NULL && read->output == INLAY_NONE && !constant->plain_used && constant->packs != NULL &&
           !constant->packs->trial && nbits_is_pack(&constant->packs->layout) &&
           (reader->row->family->kind == CPU_FAMILY_NBITS_PRODUCT || reader->row->family->kind == CPU_FAMILY_EXPERTS);
}

struct unfolded {
    cpu_native native;
    nbits_shape shape;
    cpu_nbits nbits;
};

/* Dequantizes all weights. args: weights, scales, zero points (unused if all are nbits.all), output. */
static inlay_status unfold(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                           uint32_t threads)
{
    const struct unfolded *unfolded = (const struct unfolded *)(const void *)native;
    const nbits_shape *shape = &unfolded->shape;
    float *output = args[3];

    (void)state, (void)run, (void)threads;
    for (int64_t k = 0; k < shape->k; k++)
        for (int64_t n = 0; n < shape->n; n++) {
            const int64_t panel = n / NBITS_COLUMNS, in = n % NBITS_COLUMNS, block = k / shape->block,
                          e = k % shape->block;
            const int64_t per = 32 / shape->bits, scale = (panel * shape->blocks + block) * NBITS_COLUMNS + in;
            const int64_t word =
                (panel * nbits_depth(shape) / per + (block * shape->padded + e) / per) * NBITS_COLUMNS + in;
            const int64_t shift = e % per % 4 * 8 + e % per / 4 * shape->bits;
            const float zero =
                unfolded->nbits.zero != INLAY_NONE ? ((const float *)args[2])[scale] : unfolded->nbits.all;
            const uint32_t code = ((const uint32_t *)args[0])[word] >> shift & ((1u << shape->bits) - 1);
            const uint32_t q = shape->table != NULL ? shape->table[code] : code;

            output[k * shape->n + n] = ((float)q - zero) * ((const float *)args[1])[scale];
        }
    return INLAY_OK;
}

/* Lowers a DequantizeLinear whose reader is in another region or has no kernel for packed weights: each run makes the
 * floats. */
static inlay_status lower_weights(cpu_build *build, const cpu_group *group)
{
    cpu_place place, scales, zeros, output;
    inlay_status status;
    struct unfolded unfolded;
    cpu_nbits nbits;
    tensor_layout packed;
    const bool turned = !scales_fit_gemm(&(struct layout){ (uint32_t)build->op->axis, build->op->size }, false);

    orient(build->compiled, build->op, turned, &nbits);
    INLAY_TRY(nbits_read(build, &nbits, &place, &scales, &zeros));
    layout_plain(&packed, AXES, build->dims[group->out]);
    if (turned)
        layout_strides(&packed, AXES, build->dims[group->out], (const int64_t[]){ 1, nbits.n });
    INLAY_TRY(cpu_new_place(build, &packed, &output));
    unfolded = (struct unfolded){ .native.run = unfold, .nbits = nbits };
    (void)nbits_weights_shape(&nbits, nbits.n, &unfolded.shape);
    INLAY_TRY(cpu_emit_step(
        build, &unfolded.native, sizeof unfolded,
        (const cpu_place *const[]){ &place, &scales, zeros.buffer != INLAY_NONE ? &zeros : &scales, &output }, 4));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}

const cpu_family cpu_weights = {
    .kind = CPU_FAMILY_WEIGHTS, .name = "n-bit weights", .parse = parse_weights, .lower = lower_weights
};
