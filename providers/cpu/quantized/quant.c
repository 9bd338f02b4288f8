/* QuantizeLinear-10..25, DequantizeLinear-10..25, DynamicQuantizeLinear-11, Clip-12..13 of bytes, and
 * Cast-6..25 of the sums of MatMulInteger and ConvInteger. */
#include "cpu/elementwise/elementwise.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/quantized/quant.h"
#include "simd/dynamic_range.h"
#include "simd/vecmath.h"
#include <math.h>

/* QuantizeLinear and DequantizeLinear. */
static bool parse_linear(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    bool back = op->row->family->kind == CPU_FAMILY_DEQUANTIZE;
    const inlay_value_info *floats = back ? kit_output(node, 0) : kit_input(node, 0);
    const inlay_value_info *bytes = back ? kit_input(node, 0) : kit_output(node, 0);

    if (floats->dtype != INLAY_FLOAT || !q_is_bytes(bytes))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "between %s and %s; supported are float and 8-bit integers",
                          inlay_dtype_name(floats->dtype), inlay_dtype_name(bytes->dtype));
    if (kit_attr_int(node->info, "precision", 0) > 1)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the quotients are not computed in float");
    return cpu_known_rank(floats, 1, 6, "the tensor", why) &&
           q_known_scale(kit_input(node, 1), 1, "input 0", &op->quantized.scale, why) &&
           q_known_zero(kit_input(node, 2), bytes, "input 0", &op->quantized.zero, why);
}

static bool parse_dynamic(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)op;
    if (kit_input(node, 0)->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "input 0 is not float");
    return cpu_known_rank(kit_input(node, 0), 1, 6, "input 0", why);
}

struct linear {
    cpu_native native;
    int64_t count;
    float scale, zero;
    int32_t low, high; /* clip */
    bool is_signed;
    void (*run)(const struct linear *linear, void *output, const void *input, int64_t begin, int64_t count);
};

typedef struct linear_call {
    const struct linear *linear;
    const void *input;
    void *output;
} linear_call;

static void quantize_range(const struct linear *linear, void *output, const void *input, int64_t begin, int64_t count)
{
    q_quantize((char *)output + begin, (const float *)input + begin, linear->is_signed, count, linear->scale,
               linear->zero);
}

static void dequantize_range(const struct linear *linear, void *output, const void *input, int64_t begin, int64_t count)
{
    q_dequantize((float *)output + begin, (const char *)input + begin, linear->is_signed, count, linear->scale,
                 linear->zero);
}

static void clip_range(const struct linear *linear, void *output, const void *input, int64_t begin, int64_t count)
{
    KERNEL_BEST(byte_loops)
        ->clip((char *)output + begin, (const char *)input + begin, linear->is_signed, count, linear->low,
               linear->high);
}

static void convert_range(const struct linear *linear, void *output, const void *input, int64_t begin, int64_t count)
{
    const int32_t *from = (const int32_t *)input + begin;
    float *to = (float *)output + begin;

    (void)linear;
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const linear_call *call = user;

    (void)worker;
    call->linear->run(call->linear, call->output, call->input, begin, end - begin);
    return INLAY_OK;
}

enum { GRAIN = 16384 };

static inlay_status run_linear(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct linear *linear = (const struct linear *)(const void *)native;
    linear_call call = { linear, args[0], args[1] };

    if (threads <= 1 || linear->count <= GRAIN)
        return run_range(&call, 0, linear->count, 0);
    return state->host->parallel_for(state->host->ctx, run, linear->count, GRAIN, run_range, &call);
}

static inlay_status lower_linear(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    cpu_place input, output;
    inlay_status status;
    struct linear linear;
    tensor_layout layout;

    INLAY_TRY(q_read_dense(build, op->in[0], NULL, &input));
    layout = q_typed(&input.layout, cpu_type(build, group->out));
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    linear = (struct linear){ .native.run = run_linear,
                              .count = layout_count(&layout),
                              .scale = op->quantized.scale,
                              .zero = (float)op->quantized.zero,
                              .low = (int32_t)op->alpha,
                              .high = (int32_t)op->beta };
    if (op->row->family->kind == CPU_FAMILY_QUANTIZE) {
        linear.is_signed = layout.type == ELEMENT_INT8;
        linear.run = quantize_range;
    } else if (op->row->family->kind == CPU_FAMILY_INT_CAST) {
        linear.run = convert_range;
    } else {
        linear.is_signed = input.layout.type == ELEMENT_INT8;
        linear.run = op->row->family->kind == CPU_FAMILY_DEQUANTIZE ? dequantize_range : clip_range;
    }
    INLAY_TRY(cpu_emit_step(build, &linear.native, sizeof linear, (const cpu_place *const[]){ &input, &output }, 2));
    status = cpu_finish(build, group, 0, &output, true);
done:
    return status;
}

static inlay_status lower_quantize(cpu_build *build, const cpu_group *group);

const cpu_family cpu_quantize = { .kind = CPU_FAMILY_QUANTIZE,
                                  .name = "quantization",
                                  .parse = parse_linear,
                                  .lower = lower_quantize,
                                  .group = cpu_group_quantize_chains };
const cpu_family cpu_dequantize = {
    .kind = CPU_FAMILY_DEQUANTIZE, .name = "dequantization", .parse = parse_linear, .lower = lower_linear
};

static inlay_status lower_quantize(cpu_build *build, const cpu_group *group)
{
    bool done = false;
    inlay_status status = q_lower_chain(build, group, &done);

    return status != INLAY_OK || done ? status : lower_linear(build, group);
}

static bool read_bound(const inlay_value_info *value, int32_t otherwise, float *out)
{
    *out = (float)otherwise;
    if (value == NULL)
        return true;
    if ((value->flags & INLAY_VALUE_CONSTANT) == 0 || value->data == NULL || value->data_bytes != 1)
        return false;
    *out = (float)(value->dtype == INLAY_INT8 ? *(const int8_t *)value->data : *(const uint8_t *)value->data);
    return true;
}

static bool parse_clip(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    bool is_signed = kit_input(node, 0)->dtype == INLAY_INT8;

    if (!read_bound(kit_input(node, 1), is_signed ? -128 : 0, &op->alpha) ||
        !read_bound(kit_input(node, 2), is_signed ? 127 : 255, &op->beta))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make min and max constants", "the bounds are not constant");
    if (op->alpha > op->beta) /* ONNX Clip-13: everything is max */
        op->alpha = op->beta;
    return cpu_known_rank(kit_input(node, 0), 1, 6, "input 0", why);
}

const cpu_family cpu_byte_clip = {
    .kind = CPU_FAMILY_BYTE_CLIP, .name = "bounds", .parse = parse_clip, .lower = lower_linear
};

static bool parse_cast(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)op;
    return cpu_known_rank(kit_input(node, 0), 1, 6, "input 0", why);
}

const cpu_family cpu_int_cast = {
    .kind = CPU_FAMILY_INT_CAST, .name = "conversion", .parse = parse_cast, .lower = lower_linear
};

struct dynamic {
    cpu_native native;
    int64_t count;
};

enum { MOST_RANGES = 64, LINE = 16 };

typedef struct dynamic_call {
    const float *input;
    uint8_t *output;
    int64_t count, part;
    float scale, zero;
    float ranges[MOST_RANGES][LINE]; /* low, high; a range has its own cache line */
} dynamic_call;

static inlay_status find_ranges(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    dynamic_call *call = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i * call->part, n = call->count - from < call->part ? call->count - from : call->part;

        call->ranges[i][0] = call->ranges[i][1] = 0; /* ONNX: the range always includes 0 */
        if (n > 0)
            KERNEL_BEST(byte_loops)->range(call->input + from, n, &call->ranges[i][0], &call->ranges[i][1]);
    }
    return INLAY_OK;
}

static inlay_status quantize_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dynamic_call *call = user;
    int64_t from = begin * call->part, to = end * call->part < call->count ? end * call->part : call->count;

    (void)worker;
    if (to > from)
        q_quantize(call->output + from, call->input + from, false, to - from, call->scale, call->zero);
    return INLAY_OK;
}

static inlay_status run_dynamic(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct dynamic *dynamic = (const struct dynamic *)(const void *)native;
    int64_t parts = threads <= 1 ? 1 : dynamic->count / GRAIN < 1 ? 1 : dynamic->count / GRAIN;
    dynamic_call call = { .input = args[0], .output = args[1], .count = dynamic->count };
    float low = 0, high = 0;
    inlay_status status;

    parts = parts > MOST_RANGES ? MOST_RANGES : parts;
    INLAY_CHECK(parts >= 1);
    call.part = (dynamic->count + parts - 1) / parts;
    if (parts == 1)
        status = find_ranges(&call, 0, 1, 0);
    else
        status = state->host->parallel_for(state->host->ctx, run, parts, 1, find_ranges, &call);
    if (status != INLAY_OK)
        return status;
    for (int64_t i = 0; i < parts; i++) {
        low = dynamic_low(low, call.ranges[i][0]);
        high = call.ranges[i][1] > high ? call.ranges[i][1] : high;
    }
    dynamic_parameters(low, high, &call.scale, &call.zero);
    *(float *)args[2] = call.scale;
    *(uint8_t *)args[3] = (uint8_t)call.zero;
    if (parts == 1)
        return quantize_parts(&call, 0, 1, 0);
    return state->host->parallel_for(state->host->ctx, run, parts, 1, quantize_parts, &call);
}

static inlay_status lower_dynamic(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const element_type types[] = { ELEMENT_UINT8, ELEMENT_FLOAT, ELEMENT_UINT8 };
    const cpu_place *places[4];
    cpu_place input, place[3];
    inlay_status status;
    struct dynamic dynamic;
    tensor_layout layout;

    (void)group;
    INLAY_TRY(q_read_dense(build, op->in[0], NULL, &input));
    places[0] = &input;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t value = i < op->out_count ? op->out[i] : INLAY_NONE;

        if (i == 0)
            layout = input.layout;
        else
            layout_plain(&layout, 0, NULL);
        layout.type = types[i];
        if (value == INLAY_NONE)
            INLAY_TRY(cpu_new_place(build, &layout, &place[i]));
        else
            INLAY_TRY(cpu_result_place(build, value, &layout, &place[i]));
        places[i + 1] = &place[i];
    }
    dynamic = (struct dynamic){ .native.run = run_dynamic, .count = layout_count(&input.layout) };
    INLAY_TRY(cpu_emit_step(build, &dynamic.native, sizeof dynamic, places, 4));
    for (uint32_t i = 0; i < op->out_count && i < 3; i++)
        if (op->out[i] != INLAY_NONE)
            INLAY_TRY(cpu_set_place(build, op->out[i], &place[i]));
done:
    return status;
}

const cpu_family cpu_dynamic = {
    .kind = CPU_FAMILY_DYNAMIC, .name = "dynamic quantization", .parse = parse_dynamic, .lower = lower_dynamic
};
