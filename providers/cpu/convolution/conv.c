/* Conv (ONNX Conv-1..22), and the cases of ConvTranspose that transposed.c leaves to oneDNN. */
#include "cpu/convolution/library.h"
#include "cpu/convolution/transposed.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/window.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(cpu_deconvolution_pads);

static bool parse_window_op(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *weights = kit_input(node, 1), *bias = kit_input(node, 2);

    if (!cpu_known_rank(input, 3, 5, "input 0", why) ||
        !cpu_known_rank(weights, input->rank, input->rank, "input 1", why))
        return false;
    for (uint32_t d = 0; d < weights->rank; d++)
        if (weights->dims[d].kind != INLAY_DIM_FIXED || weights->dims[d].value < 1)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the shape of the weights is unknown");
    if (bias != NULL && bias->rank != 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the bias is not a vector");
    op->window.group = kit_attr_int(node->info, "group", 1);
    if (op->window.group < 1 || weights->dims[0].value % op->window.group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    for (uint32_t i = 0; i < input->rank - 2; i++)
        op->window.kernel[i] = weights->dims[2 + i].value;
    if (!cpu_parse_window(node, input->rank - 2, op, why))
        return false;
    return true;
}

/* oneDNN's kernels take minutes to create for very long rows (kernels/table.c). Tiled kernels run them, but not every
 * CPU has these. */
enum { MAX_COLUMNS = 1 << 22 };

static bool parse_conv(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *output;

    if (!parse_window_op(node, op, why))
        return false;
    output = kit_output(node, 0);
    if (library_in_use != &library_none && output->rank != INLAY_RANK_UNKNOWN &&
        output->dims[output->rank - 1].kind == INLAY_DIM_FIXED && output->dims[output->rank - 1].value > MAX_COLUMNS &&
        (tiles_of_cpu() == NULL || op->window.spatial > 2 || op->window.group > 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "cut the input into parts",
                          "oneDNN takes too long to create a kernel for rows of %lld elements",
                          (long long)output->dims[output->rank - 1].value);
    return true;
}

/* Computed weights cannot be packed ahead: such nodes belong to a family with its own lowering. */
bool cpu_conv_has_constants(const kit_node *node)
{
    return (kit_is_constant(node, 1) || low_bit_is_constant(node->graph, node->info->inputs[1], NULL) ||
            halves_is_constant(node->graph, node->info->inputs[1])) &&
           (kit_input(node, 2) == NULL || kit_is_constant(node, 2));
}

bool cpu_parse_deconvolution(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    return parse_window_op(node, op, why);
}

/* The weights with oneDNN's order of axes, as a view of ONNX's: Conv [O, I/g, ..], ConvTranspose [I, O/g, ..]. */
static uint32_t weights_axes(const cpu_build *build, bool transposed, memory_desc *out_plain, int64_t *dims)
{
    const cpu_op *op = build->op;
    const int64_t *onnx_dims = build->dims[op->in[1]];
    uint32_t rank = build->ranks[op->in[1]], axis = 0;
    int64_t axis_dims[CPU_MAX_RANK], strides[CPU_MAX_RANK], kernel = 1, first = onnx_dims[0] / op->window.group;

    INLAY_CHECK(rank >= 3 && rank < CPU_MAX_RANK);
    for (uint32_t d = 2; d < rank; d++)
        kernel *= onnx_dims[d];
    if (op->window.group > 1) {
        axis_dims[axis] = op->window.group;
        strides[axis++] = first * onnx_dims[1] * kernel;
    }
    axis_dims[axis] = transposed ? onnx_dims[1] : first;
    strides[axis++] = transposed ? kernel : onnx_dims[1] * kernel;
    axis_dims[axis] = transposed ? first : onnx_dims[1];
    strides[axis++] = transposed ? onnx_dims[1] * kernel : kernel;
    for (uint32_t d = 2; d < rank; d++) {
        kernel /= onnx_dims[d];
        axis_dims[axis] = onnx_dims[d];
        strides[axis++] = kernel;
    }
    memcpy(dims, axis_dims, axis * sizeof *axis_dims);
    memory_desc_strides(out_plain, axis, axis_dims, strides);
    return axis;
}

void cpu_deconvolution_pads(const cpu_op *op, const int64_t *in, const int64_t *out, int64_t *begins, int64_t *ends)
{
    bool same = op->window.auto_pad == CPU_PAD_SAME_UPPER || op->window.auto_pad == CPU_PAD_SAME_LOWER;

    for (uint32_t i = 0; i < op->window.spatial; i++) {
        int64_t full = (in[i] - 1) * op->window.strides[i] + (op->window.kernel[i] - 1) * op->window.dilations[i] + 1;
        int64_t total = full + op->window.output_padding[i] - out[i];

        begins[i] = 0;
        if (op->window.sized || same) {
            total = total > 0 ? total : 0;
            begins[i] = op->window.auto_pad == CPU_PAD_SAME_UPPER ? total / 2 : total - total / 2;
        } else if (op->window.auto_pad == CPU_PAD_EXPLICIT) {
            begins[i] = op->window.pads[i];
        }
        ends[i] = full - out[i] - begins[i];
    }
}

/* Fills the description of the operation. Its operands must be set. */
static inlay_status describe(const cpu_build *build, bool transposed, library_variant variant, library_op *io)
{
    const cpu_op *op = build->op;
    const memory_desc *input = &io->input, *output = &io->output;

    io->kind = transposed ? LIBRARY_DECONVOLUTION : LIBRARY_CONVOLUTION;
    io->alg = transposed                    ? LIBRARY_DECONVOLUTION_DIRECT
              : variant == LIBRARY_WINOGRAD ? LIBRARY_CONVOLUTION_WINOGRAD
                                            : LIBRARY_CONVOLUTION_DIRECT;
    if (!cpu_count_fits(input->dims, (uint32_t)input->ndims) || !cpu_count_fits(output->dims, (uint32_t)output->ndims))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED,
                          "node '%s': the convolution has a tensor of more than 2^31 - 1 elements", op->name);
    if (transposed)
        cpu_deconvolution_pads(op, input->dims + 2, output->dims + 2, io->begins, io->ends);
    else
        cpu_window_pads(op, input->dims + 2, output->dims + 2, op->window.kernel, io->begins, io->ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        io->strides[i] = op->window.strides[i];
        io->dilations[i] = op->window.dilations[i] - 1;
    }
    return INLAY_OK;
}

/* Creates the primitive's description for a variant. A Winograd variant is accepted only if it fuses all post-ops. */
static inlay_status create_description(cpu_build *build, const cpu_group *group, bool transposed,
                                       library_variant variant, const kernel_layer *layer, cpu_fused *out)
{
    const cpu_op *op = build->op;
    uint32_t output = op->out[0], rank = build->ranks[output];
    library_op desc = { .bias = layer->bias_value != INLAY_NONE ? layer->bias : (memory_desc){ 0 } };
    inlay_status status;

    memory_desc_any(&desc.weights, layer->weights_rank, layer->weights_dims);
    memory_desc_any(&desc.input, rank, build->dims[op->in[0]]);
    memory_desc_any(&desc.output, rank, build->dims[output]);
    if (variant == LIBRARY_INPUT_LAYOUT &&
        memory_desc_same_blocks(&layer->input.md, rank, build->dims[output], &desc.output))
        /* oneDNN's kernels compare strides, also those of axes of size 1. */
        (void)memory_desc_same_blocks(&layer->input.md, rank, build->dims[op->in[0]], &desc.input);
    status = describe(build, transposed, variant, &desc);
    if (status == INLAY_OK)
        status = cpu_fuse_posts(build, group, &desc, out);
    if (status == INLAY_OK && ((variant == LIBRARY_WINOGRAD && out->count < group->post_count) ||
                               (variant != LIBRARY_ANY_LAYOUT && !cpu_is_fast(out->pd))))
        status = INLAY_UNSUPPORTED;
    return status;
}

/* True if oneDNN has only a kernel by im2col, or a reference loop. */
static bool uses_im2col(library_const_description pd)
{
    const char *name = library_name(pd);

    return !cpu_is_fast(pd) || strncmp(name, "gemm", 4) == 0 || strncmp(name, "x64:gemm", 8) == 0;
}

bool library_uses_im2col(cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    cpu_op *op = &build->compiled->ops[group->op];
    inlay_diag *diag = build->diag;
    cpu_fused fused = { 0 };
    bool result;

    if (op->window.unfolds != 0) /* known from an earlier instance: it depends on channels and kernel size only */
        return op->window.unfolds == CPU_YES;
    build->diag = NULL;
    result =
        create_description(build, group, false, LIBRARY_ANY_LAYOUT, layer, &fused) == INLAY_OK && uses_im2col(fused.pd);
    build->diag = diag;
    library_destroy(fused.pd);
    op->window.unfolds = result ? CPU_YES : CPU_NO;
    return result;
}

/* Creates the description of a variant for one thread if oneDNN's kernel uses im2col, because these kernels divide
 * sums by the number of threads. Then *out_alone is set, and the step must be emitted with build->alone. */
static inlay_status make_for_threads(cpu_build *build, const cpu_group *group, bool transposed, library_variant variant,
                                     const kernel_layer *layer, cpu_fused *out, bool *out_alone)
{
    inlay_status status = create_description(build, group, transposed, variant, layer, out);
    int before;

    *out_alone = build->alone;
    if (status != INLAY_OK || build->alone || build->instance->threads <= 1 || !uses_im2col(out->pd))
        return status;
    library_destroy(out->pd);
    *out = (cpu_fused){ 0 };
    before = cpu_threads_set(1);
    status = create_description(build, group, transposed, variant, layer, out);
    cpu_threads_restore(before);
    *out_alone = true;
    return status;
}

/* Weights or bias in the layout of the description: packed once, or reordered in each run if they are computed. */
static inlay_status read_weights(cpu_build *build, uint32_t value, const memory_desc *plain, const memory_desc *wanted,
                                 cpu_place *out)
{
    inlay_status status;

    if (build->compiled->values[value].constant != INLAY_NONE)
        return cpu_read_constant(build, value, plain, wanted, out);
    status = cpu_read_plain(build, value, out);
    if (status != INLAY_OK)
        return status;
    out->md = *plain;
    return cpu_reorder(build, out, wanted, out);
}

/* Reads the operands in the layouts of the description and emits the step. alone: on one thread. */
static inlay_status emit(cpu_build *build, const cpu_group *group, const kernel_layer *layer, const cpu_fused *fused,
                         bool alone)
{
    const cpu_op *op = build->op;
    const bool before = build->alone;
    cpu_place input, weights, bias;
    cpu_operand operands[3];
    uint32_t count = 0;
    inlay_status status;

    INLAY_TRY(
        cpu_read_as(build, op->in[0], library_layout(fused->pd, LIBRARY_OPERAND_SRC, &(memory_desc){ 0 }), &input));
    INLAY_TRY(read_weights(build, op->in[1], &layer->weights,
                           library_layout(fused->pd, LIBRARY_OPERAND_WEIGHTS, &(memory_desc){ 0 }), &weights));
    operands[count++] = (cpu_operand){ LIBRARY_ARG_SRC, &input };
    operands[count++] = (cpu_operand){ LIBRARY_ARG_WEIGHTS, &weights };
    if (layer->bias_value != INLAY_NONE) {
        INLAY_TRY(read_weights(build, layer->bias_value, &layer->bias, &layer->bias, &bias));
        operands[count++] = (cpu_operand){ LIBRARY_ARG_BIAS, &bias };
    }
    build->alone = alone;
    status = cpu_emit_fused(build, group, fused, operands, count);
done:
    build->alone = before;
    return status;
}

inlay_status library_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, library_variant variant,
                           bool *out_done)
{
    inlay_diag *diag = build->diag;
    cpu_fused fused = { 0 };
    inlay_status status;
    bool alone;

    *out_done = false;
    if (variant != LIBRARY_ANY_LAYOUT)
        build->diag = NULL; /* no error yet: other kernels remain */
    status = make_for_threads(build, group, false, variant, layer, &fused, &alone);
    build->diag = diag;
    if (status == INLAY_OK) {
        status = emit(build, group, layer, &fused, alone);
        *out_done = status == INLAY_OK;
    } else if (variant != LIBRARY_ANY_LAYOUT) {
        status = status == INLAY_OUT_OF_MEMORY
                     ? inlay_fail(build->diag, status, "node '%s': no memory", build->op->name)
                     : INLAY_OK;
    }
    library_destroy(fused.pd);
    return status;
}

/* ------------------------------------------------------------------ lowering */

static void describe_layer(const cpu_build *build, const cpu_group *group, bool transposed, kernel_layer *layer)
{
    const cpu_op *op = build->op;

    *layer = (kernel_layer){ .bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias };
    layer->weights_rank = weights_axes(build, transposed, &layer->weights, layer->weights_dims);
    memory_desc_plain(&layer->bias, 1, &build->dims[op->out[0]][1]);
}

static inlay_status lower_conv(cpu_build *build, const cpu_group *group)
{
    bool done = false;
    inlay_status status = build->state->bf16 ? cpu_lower_reduced_conv(build, group, &done) : INLAY_OK;

    kernel_layer layer;

    if (status != INLAY_OK || done)
        return status;
    describe_layer(build, group, false, &layer);
    if (build->ahead[build->op->in[0]] != NULL) {
        layer.input.buffer = INLAY_NONE;
        memory_desc_channels_last(&layer.input.md, build->ranks[build->op->in[0]], build->dims[build->op->in[0]]);
    } else {
        status = cpu_read_strided(build, build->op->in[0], &layer.input);
    }
    if (status != INLAY_OK)
        return status;
    kernel_conv_shape_of(build, build->op, &layer.window);
    layer.window.in_concat = tiles_is_concat_slice(build, group->out);
    status = kernel_table[KERNEL_TILES].defer(build, group, &layer, &done);
    return status != INLAY_OK || done ? status : kernel_lower(build, group, &layer);
}

static inlay_status lower_by_library(cpu_build *build, const cpu_group *group, bool transposed)
{
    cpu_fused fused = { 0 };
    kernel_layer layer;
    inlay_status status;
    bool alone;

    describe_layer(build, group, transposed, &layer);
    status = make_for_threads(build, group, transposed, LIBRARY_ANY_LAYOUT, &layer, &fused, &alone);
    if (status == INLAY_OK)
        status = emit(build, group, &layer, &fused, alone);
    library_destroy(fused.pd);
    return status;
}

/* Lowers to one thread, because oneDNN runs the backward pass of a convolution, which divides sums by the number of
 * threads. */
inlay_status cpu_lower_deconvolution(cpu_build *build, const cpu_group *group)
{
    const int before = cpu_threads_set(1);
    inlay_status status;

    build->alone = true;
    status = lower_by_library(build, group, true);
    build->alone = false;
    cpu_threads_restore(before);
    return status;
}

static inlay_status lower_computed(cpu_build *build, const cpu_group *group)
{
    return strcmp(build->op->row->op_type, "ConvTranspose") == 0 ? cpu_lower_deconvolution(build, group)
                                                                 : lower_by_library(build, group, false);
}

static const cpu_operator computed_row = {
    .op_type = "Conv", .since_min = 1, .since_max = 22, .family = &cpu_conv_computed
};

const cpu_family cpu_conv = { .name = "convolution",
                              .parse = parse_conv,
                              .lower = lower_conv,
                              .computed = &computed_row,
                              .has_constants = cpu_conv_has_constants,
                              .defer_scale = tiles_defer_scale,
                              .takes_posts = true,
                              .takes_bias = true };
const cpu_family cpu_conv_computed = { .name = "convolution with computed weights",
                                       .parse = NULL,
                                       .lower = lower_computed,
                                       .takes_posts = true,
                                       .takes_bias = true };
