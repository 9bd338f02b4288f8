/* QLinearConv-10 and ConvInteger-10: oneDNN's int8 convolution, with channels last, zero points and a scale per filter,
 * where there is no built-in kernel (quant_tiles.c).
 *
 * oneDNN computes round(sum * scale + zero), but ONNX defines round(sum * scale) + zero: with an odd zero point, ties
 * would round to the other side. So ROUNDER is added to sum * scale, which rounds it to an integer, since floats of
 * this size have no fractional bits, and ROUNDER is subtracted from the zero point. (oneDNN has a rounding function,
 * but not in all kernels.) Results equal the reference's to the last bit
 * as long as sums and biases are below 2^24, because oneDNN converts both to float before it adds them. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"

enum { ROUNDER = 12582912 }; /* 1.5 * 2^23 */
enum { X = 0, X_SCALE = 1, X_ZERO = 2, W_SCALE = 4, Y_SCALE = 6, Y_ZERO = 7, BIAS = 8 };

static bool is_linear(const cpu_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

static uint32_t weights_at(const cpu_op *op)
{
    return is_linear(op) ? 3 : 1;
}

/* Are all bytes in [low, high]? */
static bool bytes_within(const uint8_t *bytes, uint64_t count, uint8_t low, uint8_t high)
{
    uint8_t least = UINT8_MAX, most = 0;

    for (uint64_t i = 0; i < count; i++) {
        least = bytes[i] < least ? bytes[i] : least;
        most = bytes[i] > most ? bytes[i] : most;
    }
    return least >= low && most <= high;
}

/* Are the weights int8 with zero point 0, or uint8 that are int8 without their zero point, one for all filters? Only
 * these are supported. */
static bool weights_fit(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    uint32_t at = weights_at(op), zero_at = is_linear(op) ? 5 : 3;
    const inlay_value_info *weights = kit_input(node, at), *zero = kit_input(node, zero_at);
    uint8_t wanted;

    if (!q_is_bytes(weights) || !kit_is_constant(node, at) || cpu_known_count(weights) < 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make them a constant", "the weights are not constant bytes");
    if (zero == NULL && weights->dtype == INLAY_INT8)
        return true;
    if (zero == NULL || !kit_is_constant(node, zero_at) || zero->data == NULL || zero->dtype != weights->dtype)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of the weights is not a constant");
    wanted = weights->dtype == INLAY_UINT8 && zero->data_bytes > 0 ? *(const uint8_t *)zero->data : 0;
    for (uint64_t i = 0; i < zero->data_bytes; i++)
        if (((const uint8_t *)zero->data)[i] != wanted)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "quantize the weights around 0",
                              "a zero point of the weights is not %u", wanted);
    op->quantized.w_zero = wanted;
    if (weights->dtype == INLAY_UINT8 && wanted != 128 &&
        (weights->data == NULL ||
         !bytes_within(weights->data, weights->data_bytes, wanted > 128 ? (uint8_t)(wanted - 128) : 0,
                       wanted < 128 ? (uint8_t)(wanted + 127) : 255)))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "quantize the weights around 128",
                          "weights minus their zero point %u do not fit into int8", wanted);
    return true;
}

/* Scales, zero points and bias of QLinearConv. */
static bool parse_linear(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, X), *weights = kit_input(node, weights_at(op)),
                           *output = kit_output(node, 0);
    const inlay_value_info *bias = kit_input(node, BIAS);
    int32_t y_zero;
    float ignored;

    if (!q_is_bytes(output))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the output is not an 8-bit integer");
    if (bias != NULL && (!kit_is_constant(node, BIAS) || bias->dtype != INLAY_INT32 || bias->rank != 1 ||
                         bias->dims[0].value != weights->dims[0].value))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the bias is not a constant vector of int32");
    if (!q_known_scale(kit_input(node, X_SCALE), 1, "x", &op->quantized.scale, why) ||
        !q_known_scale(kit_input(node, W_SCALE), weights->dims[0].value, "w", &ignored, why) ||
        !q_known_scale(kit_input(node, Y_SCALE), 1, "y", &op->alpha, why) ||
        !q_known_zero(kit_input(node, X_ZERO), input, "x", &op->quantized.zero, why) ||
        !q_known_zero(kit_input(node, Y_ZERO), output, "y", &y_zero, why))
        return false;
    op->size = y_zero;
    return true;
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    kit_refusal library = { 0, "", "" };
    const inlay_value_info *input = kit_input(node, X), *weights = kit_input(node, weights_at(op)), *zero;

    if (!cpu_known_rank(input, 3, 5, "input 0", why) || !weights_fit(node, op, why) ||
        !cpu_known_rank(weights, input->rank, input->rank, "the weights", why))
        return false;
    if (!q_is_bytes(input))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the input is not an 8-bit integer");
    zero = kit_input(node, X_ZERO); /* ConvInteger's may be computed */
    if (zero != NULL && (zero->dtype != input->dtype || cpu_known_count(zero) != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the zero point of input 0 is not one number");
    if (is_linear(op) && !parse_linear(node, op, why))
        return false;
    op->window.group = kit_attr_int(node->info, "group", 1);
    if (op->window.group < 1 || weights->dims[0].value % op->window.group != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "group does not divide the channels");
    if (library_in_use != &library_none && op->window.group > 1 && weights->dims[1].value > 1 &&
        weights->dims[0].value / op->window.group < 4) /* 4 groups of 8 by 2 in 2.6.3 */
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL,
                          "oneDNN may compute wrong sums with fewer than 4 filters a group");
    if (library_in_use != &library_none && input->rank == 5 && op->window.group > 1 && weights->dims[1].value == 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, /* in 2.6.3, with a zero point or int8 images */
                          "oneDNN computes wrong sums of single channels in three dimensions");
    for (uint32_t i = 0; i < input->rank - 2; i++)
        op->window.kernel[i] = weights->dims[2 + i].value;
    return cpu_parse_window(node, input->rank - 2, op, why) &&
           (q_library_has_products(&library) || bytes_offers_conv(node, op, why));
}

/* ------------------------------------------------------------------ lowering */

/* The scales of sums: one per channel, or one for all. The caller frees them. */
static inlay_status make_scales(cpu_build *build, float **out, int64_t *out_count)
{
    const cpu_op *op = build->op;
    const char *w_scales = q_constant(build, op->in[W_SCALE]);
    int64_t count = cpu_count(build, op->in[W_SCALE]);
    float *scales;

    if (w_scales == NULL)
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': its scales were dropped", op->name);
    scales = calloc((size_t)count, sizeof *scales);
    if (scales == NULL)
        return q_no_memory(build);
    for (int64_t i = 0; i < count; i++) {
        float w;

        memcpy(&w, w_scales + (size_t)i * sizeof w, sizeof w);
        scales[i] = (float)((double)op->quantized.scale / (double)op->alpha * (double)w);
    }
    *out = scales;
    *out_count = count;
    return INLAY_OK;
}

/* Is the zero point of x an operand of the step? It may be one in ConvInteger only. */
static bool has_zero_argument(const cpu_op *op)
{
    return !is_linear(op) && op->in_count > X_ZERO && op->in[X_ZERO] != INLAY_NONE;
}

/* Sets zero points, the rounding post, and the fused bounds. */
static void make_attributes(const cpu_build *build, const cpu_group *group, library_attr *out)
{
    const cpu_op *op = build->op;
    const int32_t round = is_linear(op) && op->size != 0 ? ROUNDER : 0, y_zero = (int32_t)op->size - round;

    out->has_zero = has_zero_argument(op) || op->quantized.zero != 0;
    out->y_zero = is_linear(op) ? y_zero : 0;
    if (round != 0)
        out->posts[out->post_count++] = (library_post){
            .kind = LIBRARY_POST_ELTWISE, .alg = LIBRARY_ELTWISE_LINEAR, .alpha = 1, .beta = (float)round
        };
    if (is_linear(op) && group->post_count > 0) {
        const cpu_eltwise *eltwise = &group->posts[0].eltwise; /* bounds of bytes; oneDNN adds the zero point later */

        out->posts[out->post_count++] = (library_post){ .kind = LIBRARY_POST_ELTWISE,
                                                        .alg = eltwise->alg,
                                                        .alpha = eltwise->alpha - (float)y_zero,
                                                        .beta = eltwise->beta - (float)y_zero };
    }
}

/* Widens the zero point to int32, the type that oneDNN reads. */
static inlay_status run_zero(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    (void)native;
    (void)state;
    (void)run;
    (void)threads;
    *(int32_t *)args[1] = *(const uint8_t *)args[0];
    return INLAY_OK;
}

static inlay_status run_signed_zero(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                    uint32_t threads)
{
    (void)native;
    (void)state;
    (void)run;
    (void)threads;
    *(int32_t *)args[1] = *(const int8_t *)args[0]; /* NOLINT(bugprone-signed-char-misuse): with its sign */
    return INLAY_OK;
}

static inlay_status widen_zero(cpu_build *build, cpu_place *out)
{
    uint32_t value = build->op->in[X_ZERO];
    cpu_native native = { 0 };
    cpu_place byte;
    memory_desc md;
    inlay_status status;

    INLAY_TRY(cpu_read_plain(build, value, &byte));
    memory_desc_plain(&md, 0, NULL);
    md.data_type = LIBRARY_S32;
    INLAY_TRY(cpu_new_place(build, &md, out));
    native.run = cpu_type(build, value) == LIBRARY_S8 ? run_signed_zero : run_zero;
    status = cpu_emit_step(build, &native, sizeof native, (const cpu_place *const[]){ &byte, out }, 2);
done:
    return status;
}

/* A step that writes constants of the build into a buffer, which oneDNN's kernel reads. */
struct numbers {
    cpu_native native;
    size_t bytes;
    int32_t zero;
    float *scales; /* owned; NULL: write `zero` */
};

static inlay_status write_numbers(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct numbers *numbers = (const struct numbers *)native;

    (void)state;
    (void)run;
    (void)threads;
    memcpy(args[0], numbers->scales != NULL ? (const void *)numbers->scales : &numbers->zero, numbers->bytes);
    return INLAY_OK;
}

static void release_numbers(cpu_native *native)
{
    free(((struct numbers *)native)->scales);
}

/* Emits such a step. Takes ownership of scales, also on failure. */
static inlay_status emit_numbers(cpu_build *build, const memory_desc *md, int32_t zero, float *scales, cpu_place *out)
{
    struct numbers *numbers = calloc(1, sizeof *numbers);
    inlay_status status = numbers == NULL ? q_no_memory(build) : cpu_new_place(build, md, out);

    if (status != INLAY_OK) {
        free(scales);
        free(numbers);
        return status;
    }
    *numbers = (struct numbers){ .native = { .run = write_numbers, .release = release_numbers },
                                 .bytes = memory_desc_bytes(md),
                                 .zero = zero,
                                 .scales = scales };
    return cpu_emit_native(build, &numbers->native, (const cpu_place *const[]){ out }, 1);
}

static inlay_status describe(cpu_build *build, const cpu_group *group, const memory_desc *w_plain,
                             const memory_desc *bias, const library_attr *attr, library_description *out)
{
    library_op desc = { .kind = LIBRARY_CONVOLUTION, .alg = LIBRARY_CONVOLUTION_DIRECT };
    const cpu_op *op = build->op;
    uint32_t rank = build->ranks[op->in[X]];

    memory_desc_any(&desc.input, rank, build->dims[op->in[X]]);
    desc.input.data_type = cpu_type(build, op->in[X]);
    memory_desc_any(&desc.output, rank, build->dims[op->out[0]]);
    desc.output.data_type = cpu_type(build, group->out);
    memory_desc_any(&desc.weights, (uint32_t)w_plain->ndims, w_plain->dims);
    desc.weights.data_type = LIBRARY_S8;
    if (bias != NULL)
        desc.bias = *bias;
    cpu_window_pads(op, desc.input.dims + 2, desc.output.dims + 2, op->window.kernel, desc.begins, desc.ends);
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        desc.strides[i] = op->window.strides[i];
        desc.dilations[i] = op->window.dilations[i] - 1;
    }
    return cpu_check(library_describe(build->state->engine, &desc, attr, out), build->diag, "compute this", op->name);
}

/* Adds the zero point of x and the scales to the operands. Takes ownership of *scales if there are any. */
static inlay_status add_numbers(cpu_build *build, const library_attr *attr, float **scales, cpu_place *places,
                                cpu_operand *operands, uint32_t *count)
{
    inlay_status status = INLAY_OK;
    memory_desc one;

    memory_desc_plain(&one, 0, NULL);
    one.data_type = LIBRARY_S32;
    if (attr->has_zero) {
        INLAY_TRY(has_zero_argument(build->op)
                      ? widen_zero(build, &places[0])
                      : emit_numbers(build, &one, build->op->quantized.zero, NULL, &places[0]));
        operands[(*count)++] = (cpu_operand){ LIBRARY_ARG_ZERO, &places[0] };
    }
    if (attr->scales != NULL) {
        float *own = *scales;

        *scales = NULL;
        INLAY_TRY(emit_numbers(build, &attr->scales_md, 0, own, &places[1]));
        operands[(*count)++] = (cpu_operand){ LIBRARY_ARG_SCALES, &places[1] };
    }
done:
    return status;
}

static inlay_status lower_by_library(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    uint32_t weights = op->in[weights_at(op)], operand_count = 0, posts = is_linear(op) ? group->post_count : 0;
    bool biased = is_linear(op) && op->in_count > BIAS && op->in[BIAS] != INLAY_NONE;
    int64_t scale_dims[CPU_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    library_description pd = NULL;
    library_attr attr = { .post_count = 0 };
    float *scales = NULL;
    memory_desc w_plain, bias_md, md;
    cpu_place input, w, output, bias, own[2];
    cpu_operand operands[6];
    inlay_status status;

    cpu_window_weights(build, weights, &w_plain);
    w_plain.data_type = LIBRARY_S8;
    memory_desc_plain(&bias_md, 1, build->dims[weights]);
    bias_md.data_type = LIBRARY_S32;
    make_attributes(build, group, &attr);
    if (is_linear(op)) {
        INLAY_TRY(make_scales(build, &scales, &scale_dims[1]));
        attr.scales = scales;
        memory_desc_plain(&attr.scales_md, build->ranks[op->in[X]], scale_dims);
    }
    INLAY_TRY(describe(build, group, &w_plain, biased ? &bias_md : NULL, &attr, &pd));
    INLAY_TRY(cpu_read_as(build, op->in[X], library_layout(pd, LIBRARY_OPERAND_SRC, &md), &input));
    if (cpu_type(build, weights) == LIBRARY_U8)
        INLAY_TRY(q_shift(build, weights, op->quantized.w_zero));
    INLAY_TRY(cpu_read_constant(build, weights, &w_plain, library_layout(pd, LIBRARY_OPERAND_WEIGHTS, &md), &w));
    operands[operand_count++] = (cpu_operand){ LIBRARY_ARG_SRC, &input };
    operands[operand_count++] = (cpu_operand){ LIBRARY_ARG_WEIGHTS, &w };
    if (biased) {
        INLAY_TRY(cpu_read_constant(build, op->in[BIAS], &bias_md, &bias_md, &bias));
        operands[operand_count++] = (cpu_operand){ LIBRARY_ARG_BIAS, &bias };
    }
    INLAY_TRY(add_numbers(build, &attr, &scales, own, operands, &operand_count));
    if (posts == group->post_count)
        INLAY_TRY(cpu_result_place(build, group->out, library_layout(pd, LIBRARY_OPERAND_DST, &md), &output));
    else
        INLAY_TRY(cpu_new_place(build, library_layout(pd, LIBRARY_OPERAND_DST, &md), &output));
    operands[operand_count++] = (cpu_operand){ LIBRARY_ARG_DST, &output };
    INLAY_CHECK(operand_count <= KIT_COUNT(operands));
    INLAY_TRY(cpu_emit(build, pd, operands, operand_count));
    status = cpu_finish(build, group, posts, &output, true);
done:
    library_destroy(pd);
    free(scales);
    return status;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    bool done = false;
    inlay_status status = bytes_lower_conv(build, group, &done);

    if (status != INLAY_OK || done)
        return status;
    status = lower_by_library(build, group);
    return status != INLAY_OK
               ? status
               : kernel_remember(
                     build, &(kernel_choice){ .op = group->op,
                                              .count = 1,
                                              .source = KERNEL_ONLY,
                                              .kernel = { KERNEL_BYTES_LIBRARY },
                                              .why = is_linear(build->op)
                                                         ? "8-bit activations as in the model: sums are exact, results "
                                                           "equal ONNX's to the last bit if they are below 2^24"
                                                         : "8-bit activations as in the model: sums are exact" });
}

const cpu_family cpu_int8_conv = { .name = "int8 convolution",
                                   .parse = parse,
                                   .lower = lower,
                                   .fuse = cpu_fuse_integer_reader,
                                   .fuse_last = cpu_fuse_final_quantize,
                                   .takes_posts = true };
