/* Conv (ONNX Conv-1..22), and the parsing that ConvTranspose shares with it. */
#include "cpu/choice/kernels.h"
#include "cpu/convolution/transposed.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/window.h"
#include "cpu/weights/halves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_deconvolution_pads);

/* Are weights and bias constants? Weights are packed ahead of the run. */
static bool has_constants(const kit_node *node)
{
    return (kit_is_constant(node, 1) || low_bit_is_constant(node->graph, node->info->inputs[1], NULL) ||
            halves_is_constant(node->graph, node->info->inputs[1])) &&
           (kit_input(node, 2) == NULL || kit_is_constant(node, 2));
}

bool cpu_parse_window_op(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0), *weights = kit_input(node, 1), *bias = kit_input(node, 2);

    if (!cpu_known_rank(input, 3, 5, "input 0", why) ||
        !cpu_known_rank(weights, input->rank, input->rank, "input 1", why))
        return false;
    for (uint32_t d = 0; d < weights->rank; d++)
        if (weights->dims[d].kind != INLAY_DIM_FIXED || weights->dims[d].value < 1)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the shape of the weights is not fixed");
    if (bias != NULL && bias->rank != 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the bias is not a vector");
    op->window.group = kit_attr_int(node->info, "group", 1);
    if (op->window.group < 1 || weights->dims[0].value % op->window.group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    for (uint32_t i = 0; i < input->rank - 2; i++)
        op->window.kernel[i] = weights->dims[2 + i].value;
    if (!cpu_parse_window(node, input->rank - 2, op, why))
        return false;
    return has_constants(node) || kit_refuse(why, INLAY_REFUSE_OPERATOR, "make weights and bias constants",
                                             "there is no kernel for convolutions by computed weights");
}

/* Are windows single elements, without padding? */
static bool reads_pixels(const cpu_op *op)
{
    for (uint32_t i = 0; i < op->window.spatial; i++)
        if (op->window.kernel[i] != 1 || op->window.pads[i] != 0 || op->window.pads[op->window.spatial + i] != 0)
            return false;
    return true;
}

static bool parse_conv(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    if (!cpu_parse_window_op(node, op, why))
        return false;
    return op->window.spatial <= 2 || op->window.group > 1 || reads_pixels(op) ||
           kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "there is no kernel for convolutions of volumes");
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

static void describe_layer(const cpu_build *build, const cpu_group *group, const tensor_layout *weights,
                           kernel_layer *layer)
{
    const cpu_op *op = build->op;

    *layer = (kernel_layer){ .weights = *weights,
                             .bias_value = op->in_count > 2 && op->in[2] != INLAY_NONE ? op->in[2] : group->bias };
    layout_plain(&layer->bias, 1, &build->dims[op->out[0]][1]);
}

inlay_status cpu_check_weights(const cpu_build *build)
{
    if (build->compiled->values[build->op->in[1]].constant != INLAY_NONE)
        return INLAY_OK;
    return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': another region computes its weights",
                      build->op->name);
}

/* Copies the pixels that a convolution of single pixels reads at a stride; otherwise the layout of all pixels would
 * have to change. Images of channels-last layout are read in place. */
static inlay_status gather_pixels(cpu_build *build, kernel_layer *layer)
{
    const cpu_op *op = build->op;
    tensor_layout read = layer->input.layout, plain;
    const bool row_major = read.kind == LAYOUT_STRIDED && read.type == ELEMENT_FLOAT && !tiles_accept_layout(&read),
               spread = layer->window.spread;
    inlay_status status = INLAY_OK;
    cpu_place from = layer->input;

    if (!kernel_gather_pixels(&layer->window, row_major))
        return INLAY_OK;
    if (spread && !row_major) {
        INLAY_TRY(cpu_read_plain(build, op->in[0], &from));
        read = from.layout;
    }
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        read.dims[2 + i] = read.padded_dims[2 + i] = build->dims[op->out[0]][2 + i];
        read.strides[2 + i] *= read.dims[2 + i] > 1 ? op->window.strides[i] : 1; /* else the product might overflow */
    }
    layout_plain(&plain, (uint32_t)read.rank, read.dims);
    from.layout = read;
    INLAY_TRY(cpu_reorder(build, &from, &plain, &layer->input));
    layer->gathered = true;
done:
    return status;
}

inlay_status cpu_lower_conv(cpu_build *build, const cpu_group *group, const tensor_layout *weights)
{
    const int64_t *input = build->dims[build->op->in[0]];
    inlay_status status = INLAY_OK;
    bool done = false;
    kernel_layer layer;

    describe_layer(build, group, weights, &layer);
    if (build->ahead[build->op->in[0]] != NULL) {
        layer.input.buffer = INLAY_NONE;
        layout_channels_last(&layer.input.layout, build->ranks[build->op->in[0]], build->dims[build->op->in[0]]);
    } else {
        status = cpu_read_strided(build, build->op->in[0], &layer.input);
    }
    if (status != INLAY_OK)
        return status;
    kernel_conv_shape_at(build->op, input, build->dims[build->op->out[0]], input[1] / build->op->window.group,
                         &layer.window);
    if (build->ahead[build->op->in[0]] == NULL)
        status = gather_pixels(build, &layer);
    if (status != INLAY_OK)
        return status;
    if (layer.window.flat && build->op->window.spatial == 3) /* the axes of the only tap */
        layer.weights.rank--;
    layer.window.in_concat = tiles_is_concat_slice(build, group->out);
    status = kernel_table[KERNEL_TILES].defer(build, group, &layer, &done);
    return status != INLAY_OK || done ? status : kernel_lower(build, group, &layer);
}

static inlay_status lower_conv(cpu_build *build, const cpu_group *group)
{
    inlay_status status = cpu_check_weights(build);
    tensor_layout weights;

    if (status != INLAY_OK)
        return status;
    cpu_window_weights(build, build->op->in[1], &weights);
    return cpu_lower_conv(build, group, &weights);
}

const cpu_family cpu_conv = { .kind = CPU_FAMILY_CONV,
                              .name = "convolution",
                              .parse = parse_conv,
                              .lower = lower_conv,
                              .defer_scale = tiles_defer_scale,
                              .takes_posts = true,
                              .takes_bias = true };
