/* QuantizeLinear-10..25, DequantizeLinear-10..25, DynamicQuantizeLinear-11, Clip-12..13 of bytes. */
#include "quantized/quant.h"
#include "simd/vecmath.h"
#include <math.h>

/* ------------------------------------------------------------------ parsing */

/* Both directions: x float and y bytes, or the other way round. */
static bool parse_linear(const kit_node *node, rg_op *op, kit_refusal *why)
{
    bool back = op->row->family == &rg_dequantize;
    const inlay_value_info *floats = back ? kit_output(node, 0) : kit_input(node, 0);
    const inlay_value_info *bytes = back ? kit_input(node, 0) : kit_output(node, 0);

    if (floats->dtype != INLAY_FLOAT || !q_is_bytes(bytes))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "between %s and %s; float and 8 bits are offered",
                          inlay_dtype_name(floats->dtype), inlay_dtype_name(bytes->dtype));
    if (kit_attr_int(node->info, "precision", 0) > 1)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "quotients that are not float");
    return rg_known_rank(floats, 1, 6, "the tensor", why) &&
           q_known_scale(kit_input(node, 1), 1, "input 0", &op->quantized.scale, why) &&
           q_known_zero(kit_input(node, 2), bytes, "input 0", &op->quantized.zero, why);
}

static bool parse_dynamic(const kit_node *node, rg_op *op, kit_refusal *why)
{
    (void)op;
    if (kit_input(node, 0)->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "input 0 is not float");
    return rg_known_rank(kit_input(node, 0), 1, 6, "input 0", why);
}

/* ------------------------------------------------------------------ lowering */

struct linear {
    rg_native native;
    int64_t count;
    float scale, zero;
    int32_t low, high; /* clip */
    bool is_signed;
    void (*run)(const struct linear *l, void *y, const void *x, int64_t begin, int64_t count);
};

typedef struct linear_call {
    const struct linear *l;
    const void *x;
    void *y;
} linear_call;

static void forth(const struct linear *l, void *y, const void *x, int64_t begin, int64_t count)
{
    q_quantize((char *)y + begin, (const float *)x + begin, l->is_signed, count, l->scale, l->zero);
}

static void back(const struct linear *l, void *y, const void *x, int64_t begin, int64_t count)
{
    q_dequantize((float *)y + begin, (const char *)x + begin, l->is_signed, count, l->scale, l->zero);
}

static void clip(const struct linear *l, void *y, const void *x, int64_t begin, int64_t count)
{
    KERNEL_BEST(byte_loops)->clip((char *)y + begin, (const char *)x + begin, l->is_signed, count, l->low, l->high);
}

static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const linear_call *c = user;

    (void)worker;
    c->l->run(c->l, c->y, c->x, begin, end - begin);
    return INLAY_OK;
}

enum { GRAIN = 16384 };

static inlay_status run_linear(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct linear *l = (const struct linear *)(const void *)native;
    linear_call c = { l, args[0], args[1] };

    if (threads <= 1 || l->count <= GRAIN)
        return run_range(&c, 0, l->count, 0);
    return state->host->parallel_for(state->host->ctx, run, l->count, GRAIN, run_range, &c);
}

static inlay_status lower_linear(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    rg_place x, y;
    inlay_status status;
    struct linear l;
    rg_md md;

    INLAY_TRY(q_read_dense(b, op->in[0], NULL, &x));
    md = q_typed(&x.md, rg_type(b, group->out));
    INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    l = (struct linear){ .native.run = run_linear,
                         .count = rg_md_count(&md),
                         .scale = op->quantized.scale,
                         .zero = (float)op->quantized.zero,
                         .low = (int32_t)op->alpha,
                         .high = (int32_t)op->beta };
    if (op->row->family == &rg_quantize) {
        l.is_signed = md.data_type == DN_S8;
        l.run = forth;
    } else {
        l.is_signed = x.md.data_type == DN_S8;
        l.run = op->row->family == &rg_dequantize ? back : clip;
    }
    INLAY_TRY(rg_emit_step(b, &l.native, sizeof l, (const rg_place *const[]){ &x, &y }, 2));
    status = rg_finish(b, group, 0, &y, true);
done:
    return status;
}

static inlay_status lower_quantize(rg_build *b, const rg_group *group);

const rg_family rg_quantize = { "quantization", parse_linear, lower_quantize };
const rg_family rg_dequantize = { "dequantization", parse_linear, lower_linear };

static inlay_status lower_quantize(rg_build *b, const rg_group *group)
{
    bool done = false;
    inlay_status status = q_lower_chain(b, group, &done);

    return status != INLAY_OK || done ? status : lower_linear(b, group);
}

/* ------------------------------------------------------------------ Clip of bytes */

static bool bound(const inlay_value_info *v, int32_t otherwise, float *out)
{
    *out = (float)otherwise;
    if (v == NULL)
        return true;
    if ((v->flags & INLAY_VALUE_CONSTANT) == 0 || v->data == NULL || v->data_bytes != 1)
        return false;
    *out = (float)(v->dtype == INLAY_INT8 ? *(const int8_t *)v->data : *(const uint8_t *)v->data);
    return true;
}

static bool parse_clip(const kit_node *node, rg_op *op, kit_refusal *why)
{
    bool is_signed = kit_input(node, 0)->dtype == INLAY_INT8;

    if (!bound(kit_input(node, 1), is_signed ? -128 : 0, &op->alpha) ||
        !bound(kit_input(node, 2), is_signed ? 127 : 255, &op->beta))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make min and max constants", "the bounds are not constant");
    if (op->alpha > op->beta) /* ONNX Clip-13: everything is max */
        op->alpha = op->beta;
    return rg_known_rank(kit_input(node, 0), 1, 6, "input 0", why);
}

const rg_family rg_byte_clip = { "bounds", parse_clip, lower_linear };

/* ------------------------------------------------------------------ DynamicQuantizeLinear */

struct dynamic {
    rg_native native;
    int64_t count;
};

enum { MOST_RANGES = 64, LINE = 16 };

typedef struct dynamic_call {
    const float *x;
    uint8_t *y;
    int64_t count, part;
    float scale, zero;
    float ranges[MOST_RANGES][LINE]; /* low, high; a cache line each */
} dynamic_call;

static inlay_status find_ranges(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    dynamic_call *c = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i * c->part, n = c->count - from < c->part ? c->count - from : c->part;

        c->ranges[i][0] = c->ranges[i][1] = 0; /* the range always holds 0 */
        if (n > 0)
            KERNEL_BEST(byte_loops)->range(c->x + from, n, &c->ranges[i][0], &c->ranges[i][1]);
    }
    return INLAY_OK;
}

static inlay_status quantize_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dynamic_call *c = user;
    int64_t from = begin * c->part, to = end * c->part < c->count ? end * c->part : c->count;

    (void)worker;
    if (to > from)
        q_quantize(c->y + from, c->x + from, false, to - from, c->scale, c->zero);
    return INLAY_OK;
}

/* As the operator's function body in ONNX has it, with a scale of 1 for zeros alone. */
static inlay_status run_dynamic(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct dynamic *d = (const struct dynamic *)(const void *)native;
    int64_t parts = threads <= 1 ? 1 : d->count / GRAIN < 1 ? 1 : d->count / GRAIN;
    dynamic_call c = { .x = args[0], .y = args[1], .count = d->count };
    float low = 0, high = 0, zero;
    inlay_status status;

    parts = parts > MOST_RANGES ? MOST_RANGES : parts;
    c.part = (d->count + parts - 1) / parts;
    if (parts == 1)
        status = find_ranges(&c, 0, 1, 0);
    else
        status = state->host->parallel_for(state->host->ctx, run, parts, 1, find_ranges, &c);
    if (status != INLAY_OK)
        return status;
    for (int64_t i = 0; i < parts; i++) {
        low = c.ranges[i][0] < low ? c.ranges[i][0] : low;
        high = c.ranges[i][1] > high ? c.ranges[i][1] : high;
    }
    c.scale = high > low ? (high - low) / 255.0f : 1.0f;
    zero = -low / c.scale;
    c.zero = zero > 255.0f ? 255.0f : vm_round(zero);
    *(float *)args[2] = c.scale;
    *(uint8_t *)args[3] = (uint8_t)c.zero;
    if (parts == 1)
        return quantize_parts(&c, 0, 1, 0);
    return state->host->parallel_for(state->host->ctx, run, parts, 1, quantize_parts, &c);
}

static inlay_status lower_dynamic(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    const dn_type types[] = { DN_U8, DN_F32, DN_U8 };
    const rg_place *places[4];
    rg_place x, y[3];
    inlay_status status;
    struct dynamic d;
    rg_md md;

    (void)group;
    INLAY_TRY(q_read_dense(b, op->in[0], NULL, &x));
    places[0] = &x;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t value = i < op->out_count ? op->out[i] : INLAY_NONE;

        if (i == 0)
            md = x.md;
        else
            rg_md_plain(&md, 0, NULL);
        md.data_type = types[i];
        if (value == INLAY_NONE)
            INLAY_TRY(rg_new_place(b, &md, &y[i]));
        else
            INLAY_TRY(rg_result_place(b, value, &md, &y[i]));
        places[i + 1] = &y[i];
    }
    d = (struct dynamic){ .native.run = run_dynamic, .count = rg_md_count(&x.md) };
    INLAY_TRY(rg_emit_step(b, &d.native, sizeof d, places, 4));
    for (uint32_t i = 0; i < op->out_count && i < 3; i++)
        if (op->out[i] != INLAY_NONE)
            INLAY_TRY(rg_set_place(b, op->out[i], &y[i]));
done:
    return status;
}

const rg_family rg_dynamic = { "dynamic quantization", parse_dynamic, lower_dynamic };
