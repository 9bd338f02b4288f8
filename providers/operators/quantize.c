/* QuantizeLinear and DequantizeLinear (ONNX 10, 13, 19, 21, 23, 24, 25), DynamicQuantizeLinear (11).
 *
 * A scale applies to the whole tensor, to one index of an axis, or (since version 21) to a block of an axis. A tensor
 * viewed as [outer, axis, inner] consists of runs of elements: within a run the scale is constant, or there is one
 * scale per element. A loop processes a run in float; other types are converted in blocks on the stack. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/elementwise.h"
#include "simd/dynamic_range.h"
#include "simd/vecmath.h"
#include <stdlib.h>

enum {
    QUANT_GRAIN = 32 /* minimum blocks of ELEMENTWISE_BLOCK per thread */
};

typedef struct quant_state {
    int64_t axis;
    int64_t block;         /* elements of the axis that share a scale; 0 = not blocked */
    inlay_dtype precision; /* FLOAT, FLOAT16 or BFLOAT16: type to which quotients are rounded (version 23) */
    bool saturate;
} quant_state;

enum { SCALE_TENSOR = 0, SCALE_AXIS = 1, SCALE_BLOCK = 2 };

typedef struct quant_plan {
    uint32_t mode;         /* a SCALE_* constant */
    int64_t axis;          /* elements of the axis */
    int64_t inner;         /* elements of all later dimensions */
    int64_t block, blocks; /* SCALE_BLOCK: elements of a block, blocks of the axis */
    int64_t scales;
    int64_t copies; /* SCALE_AXIS: consecutive copies of each scale in the workspace, */
    int64_t cycles; /* and of all of them, so that there is one for each element of long runs */
} quant_plan;

static inlay_status prepare_quant(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype scale = kit_input_dtype(node, 1);
    quant_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    state->axis = kit_attr_int(node->info, "axis", 1);
    state->block = kit_attr_int(node->info, "block_size", 0);
    state->saturate = kit_attr_int(node->info, "saturate", 1) != 0;
    state->precision = (inlay_dtype)kit_attr_int(node->info, "precision", 0);
    if (state->precision == 0)
        state->precision = scale == INLAY_FLOAT16 || scale == INLAY_BFLOAT16 ? scale : INLAY_FLOAT;
    if (state->precision != INLAY_FLOAT && state->precision != INLAY_FLOAT16 && state->precision != INLAY_BFLOAT16 &&
        state->precision != INLAY_DOUBLE)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "QuantizeLinear: precision is %d; it can be float, float16, "
                          "bfloat16 or double",
                          (int)state->precision);
    if (state->block < 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "block_size is %lld; it must be positive, or 0 for none",
                          (long long)state->block);
    return INLAY_OK;
}

/* Short runs of elements with the same scale: copies it for each of them, if the cache holds the copies and they are
 * read often, and copies all scales until runs are long. The axis is longer then, and `inner` 1. count: elements of the
 * input. */
static void lengthen_runs(quant_plan *plan, int64_t count)
{
    enum { SHORT = 64, SHORT_ONCE = 16, CACHED = 16384 };
    const int64_t period = plan->axis > 0 && plan->inner <= CACHED / plan->axis ? plan->axis * plan->inner : 0;
    const int64_t outer = period > 0 ? count / period : 0, cycles = (ELEMENTWISE_BLOCK + period) / (period + 1);

    if (plan->inner > SHORT || plan->inner > SHORT_ONCE * outer)
        return;
    plan->copies = plan->inner;
    plan->cycles = cycles < outer ? cycles : outer;
    plan->axis = period * plan->cycles;
    plan->inner = 1;
}

/* Returns whether the scale has the dimensions of the input, except that the axis has one entry per block. */
static bool blocked_shape(const kit_tensor *input, const kit_tensor *scale, uint32_t axis, int64_t blocks)
{
    if (scale->rank != input->rank)
        return false;
    for (uint32_t d = 0; d < input->rank; d++)
        if (scale->dims[d] != (d == axis ? blocks : input->dims[d]))
            return false;
    return true;
}

static inlay_status shape_quant(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const quant_state *attributes = state;
    const kit_tensor *input = &plan->in[0], *scale = &plan->in[1];
    int64_t axis = attributes->axis < 0 ? attributes->axis + (int64_t)input->rank : attributes->axis;
    quant_plan *quant = kit_plan_new(plan, sizeof *quant);

    if (quant == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    quant->axis = quant->inner = 1;
    quant->scales = scale->count;
    quant->copies = quant->cycles = 1;
    plan->workspace_bytes = 2 * sizeof(float) * (uint64_t)scale->count;
    if (plan->in_count > 2 && plan->in[2].dtype != INLAY_UNDEFINED && plan->in[2].count != scale->count)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the zero point has %lld elements, the scale %lld; they must be "
                          "equal",
                          (long long)plan->in[2].count, (long long)scale->count);
    if (scale->count == 1)
        return INLAY_OK;
    if (axis < 0 || axis >= (int64_t)input->rank)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "axis %lld is outside a tensor of rank %u",
                          (long long)attributes->axis, input->rank);
    quant->axis = input->dims[axis];
    for (uint32_t d = (uint32_t)axis + 1; d < input->rank; d++)
        quant->inner *= input->dims[d];
    if (attributes->block == 0) {
        quant->mode = SCALE_AXIS;
        if (scale->rank != 1 || scale->count != quant->axis)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "the scale has rank %u and %lld elements; it must be a vector "
                              "of %lld, the size of axis %lld",
                              scale->rank, (long long)scale->count, (long long)quant->axis, (long long)axis);
        lengthen_runs(quant, input->count);
        plan->workspace_bytes *= (uint64_t)(quant->copies * quant->cycles);
        return INLAY_OK;
    }
    quant->mode = SCALE_BLOCK;
    quant->block = attributes->block;
    quant->blocks = quant->axis / attributes->block + (quant->axis % attributes->block != 0);
    if (!blocked_shape(input, scale, (uint32_t)axis, quant->blocks))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the scale must have the shape of the input with %lld instead of "
                          "%lld along axis %lld: one for each %lld elements",
                          (long long)quant->blocks, (long long)quant->axis, (long long)axis,
                          (long long)attributes->block);
    return INLAY_OK;
}

/* The index of an element: before the axis, on the axis and after it. */
typedef struct quant_cursor {
    int64_t outer, axis, inner;
} quant_cursor;

static quant_cursor cursor_at(const quant_plan *plan, int64_t at)
{
    INLAY_CHECK(plan->axis > 0 && plan->inner > 0);
    return (quant_cursor){ at / plan->inner / plan->axis, at / plan->inner % plan->axis, at % plan->inner };
}

/* Returns the length of the run that starts at the cursor, at most `limit`, and moves the cursor to its end. *out_scale
 * receives the index of its first scale, *out_step 1 if each element has its own scale, else 0. */
static inline int64_t next_run(const quant_plan *plan, quant_cursor *at, int64_t limit, int64_t *out_scale,
                               int64_t *out_step)
{
    const bool one = plan->inner == 1; /* the axis is the last one */
    int64_t left = one ? plan->axis - at->axis : plan->inner - at->inner;

    INLAY_CHECK(limit > 0 && left > 0);
    *out_scale = 0;
    *out_step = 0;
    if (plan->mode == SCALE_TENSOR)
        return limit;
    if (plan->mode == SCALE_AXIS) {
        *out_scale = at->axis;
        *out_step = one;
    } else {
        const int64_t block = at->axis / plan->block, in_block = (block + 1) * plan->block - at->axis;

        *out_scale = (at->outer * plan->blocks + block) * plan->inner + at->inner;
        *out_step = !one;
        left = one && in_block < left ? in_block : left;
    }
    left = left < limit ? left : limit;
    at->inner += one ? 0 : left;
    at->axis += one ? left : at->inner == plan->inner;
    at->inner = at->inner == plan->inner ? 0 : at->inner;
    at->outer += at->axis == plan->axis;
    at->axis = at->axis == plan->axis ? 0 : at->axis;
    return left;
}

/* Finds the range of an integer type of at most 16 bits; returns false for any other type. */
static bool integer_range(inlay_dtype dtype, float *low, float *high)
{
    uint32_t bits = inlay_dtype_bits(dtype);
    bool is_signed = ((KIT_SIGNED | KIT_BIT(INT4) | KIT_BIT(INT2)) & INLAY_DTYPE_BIT(dtype)) != 0;

    *low = *high = 0;
    if (bits == 0 || bits > 16)
        return false;
    *low = is_signed ? -(float)(1 << (bits - 1)) : 0.0f;
    *high = (float)((1 << (is_signed ? bits - 1 : bits)) - 1);
    return ((KIT_INTEGERS | (KIT_SUBBYTE & ~KIT_BIT(FLOAT4E2M1))) & INLAY_DTYPE_BIT(dtype)) != 0;
}

static void divide(float *output, const float *input, int64_t count, const float *scale, int64_t step)
{
    if (step != 0) {
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] / scale[i];
    } else {
        const float divisor = scale[0];
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] / divisor;
    }
}

/* Rounds quotients to the nearest integer, ties to even, adds the zero point and clamps. Quotients beyond 2^18 give a
 * bound of the range for any 16-bit zero point. */
static void finish_integer(float *output, int64_t count, const float *zero, int64_t step, float low, float high)
{
    INLAY_CHECK(low <= high);
    VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) {
        float quantized = output[i] > -262144.0f ? output[i] : -262144.0f;
        quantized = vm_round(quantized < 262144.0f ? quantized : 262144.0f) + zero[i * step];
        quantized = quantized > low ? quantized : low;
        output[i] = quantized < high ? quantized : high;
    }
}

static void scale_up(float *output, const float *input, int64_t count, const float *scale, const float *zero,
                     int64_t step)
{
    if (step != 0) {
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = (input[i] - zero[i]) * scale[i];
    } else {
        const float factor = scale[0], zero_point = zero[0];
        VECTOR_LOOP
        for (int64_t i = 0; i < count; i++)
            output[i] = (input[i] - zero_point) * factor;
    }
}

/* Reads the scales or zero points, and copies them as the plan states. */
static void read_parameters(const quant_plan *plan, const kit_tensor *from, float *to)
{
    const int64_t period = plan->scales * plan->copies;

    convert_to_f32(to, from->dtype, from->data, 0, plan->scales);
    for (int64_t i = plan->copies > 1 ? plan->scales : 0; i-- > 0;)
        for (int64_t k = plan->copies; k-- > 0;)
            to[i * plan->copies + k] = to[i];
    for (int64_t i = 1; i < plan->cycles; i++)
        memcpy(to + i * period, to, (size_t)period * sizeof *to);
}

typedef struct quant_job {
    const kit_call *call;
    const float *scale, *zero; /* [plan->scales] */
} quant_job;

static void round_to(inlay_dtype dtype, float *output, int64_t count)
{
    if (dtype == INLAY_FLOAT16)
        for (int64_t i = 0; i < count; i++)
            output[i] = f16_to_f32(f32_to_f16(output[i]));
    else if (dtype == INLAY_BFLOAT16)
        for (int64_t i = 0; i < count; i++)
            output[i] = bf16_to_f32(f32_to_bf16(output[i]));
}

static inlay_status quantize_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const quant_job *job = user;
    const quant_state *state = job->call->state;
    const quant_plan *plan = job->call->plan;
    const kit_tensor *input = &job->call->in[0], *output = &job->call->out[0];
    int64_t last = end * ELEMENTWISE_BLOCK < input->count ? end * ELEMENTWISE_BLOCK : input->count;
    float low, high;
    bool is_integer = integer_range(output->dtype, &low, &high);
    quant_cursor cursor = cursor_at(plan, begin * ELEMENTWISE_BLOCK);

    (void)worker;
    for (int64_t i = begin * ELEMENTWISE_BLOCK; i < last; i += ELEMENTWISE_BLOCK) {
        float in[ELEMENTWISE_BLOCK], out[ELEMENTWISE_BLOCK];
        int64_t count = last - i < ELEMENTWISE_BLOCK ? last - i : ELEMENTWISE_BLOCK;
        const float *from = elementwise_load(INLAY_FLOAT, input->dtype, input->data, i, count, in);

        for (int64_t offset = 0, run, at, step; offset < count; offset += run) {
            run = next_run(plan, &cursor, count - offset, &at, &step);
            divide(out + offset, from + offset, run, job->scale + at, step);
            if (state->precision != INLAY_FLOAT)
                round_to(state->precision, out + offset, run);
            if (is_integer)
                finish_integer(out + offset, run, job->zero + at, step, low, high);
            else
                for (int64_t k = 0; k < run; k++)
                    if (job->zero[at + k * step] != 0) /* -0 + 0 would be 0 */
                        out[offset + k] += job->zero[at + k * step];
        }
        convert_from_f32(output->dtype, output->data, i, count, out, state->saturate ? CONVERT_SATURATE : 0);
    }
    return INLAY_OK;
}

/* Dequantizes int32 in double, because an int32 minus its zero point needs more bits than float has. */
static void dequantize_wide(const quant_job *job, int64_t first, int64_t count)
{
    const quant_plan *plan = job->call->plan;
    const kit_tensor *input = &job->call->in[0], *output = &job->call->out[0];
    quant_cursor cursor = cursor_at(plan, first);
    double wide[ELEMENTWISE_BLOCK];

    INLAY_CHECK(count <= ELEMENTWISE_BLOCK);
    convert_to_f64(wide, input->dtype, input->data, first, count);
    for (int64_t offset = 0, run, at, step; offset < count; offset += run) {
        run = next_run(plan, &cursor, count - offset, &at, &step);
        for (int64_t k = 0; k < run; k++) {
            int64_t parameter = at + k * step, given = parameter / plan->copies % plan->scales;
            double zero = kit_has_input(job->call, 2) ? convert_get_f64(input->dtype, job->call->in[2].data, given) : 0;
            wide[offset + k] = (wide[offset + k] - zero) * (double)job->scale[parameter];
        }
    }
    convert_from_f64(output->dtype, output->data, first, count, wide, CONVERT_SATURATE);
}

static inlay_status dequantize_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const quant_job *job = user;
    const quant_plan *plan = job->call->plan;
    const kit_tensor *input = &job->call->in[0], *output = &job->call->out[0];
    int64_t last = end * ELEMENTWISE_BLOCK < input->count ? end * ELEMENTWISE_BLOCK : input->count;
    quant_cursor cursor = cursor_at(plan, begin * ELEMENTWISE_BLOCK);

    (void)worker;
    for (int64_t i = begin * ELEMENTWISE_BLOCK; i < last; i += ELEMENTWISE_BLOCK) {
        float buffer[ELEMENTWISE_BLOCK];
        int64_t count = last - i < ELEMENTWISE_BLOCK ? last - i : ELEMENTWISE_BLOCK;
        float *out = output->dtype == INLAY_FLOAT ? (float *)output->data + i : buffer;

        if (input->dtype == INLAY_INT32) {
            dequantize_wide(job, i, count);
            continue;
        }
        convert_to_f32(out, input->dtype, input->data, i, count);
        for (int64_t offset = 0, run, at, step; offset < count; offset += run) {
            run = next_run(plan, &cursor, count - offset, &at, &step);
            scale_up(out + offset, out + offset, run, job->scale + at, job->zero + at, step);
        }
        if (out == buffer)
            convert_from_f32(output->dtype, output->data, i, count, buffer, CONVERT_SATURATE);
    }
    return INLAY_OK;
}

static inlay_status run_quant(const kit_call *call, inlay_parallel_fn fn)
{
    const quant_plan *plan = call->plan;
    int64_t blocks = call->in[0].count / ELEMENTWISE_BLOCK + (call->in[0].count % ELEMENTWISE_BLOCK != 0);
    const int64_t all = plan->scales * plan->copies * plan->cycles;
    float *scale = call->workspace, *zero = scale + all;
    quant_job job = { call, scale, zero };

    if (blocks == 0)
        return INLAY_OK;
    read_parameters(plan, &call->in[1], scale);
    if (kit_has_input(call, 2))
        read_parameters(plan, &call->in[2], zero);
    else
        memset(zero, 0, (size_t)all * sizeof *zero);
    return kit_parallel(call, blocks, QUANT_GRAIN, fn, &job);
}

static inlay_status run_quantize(const kit_call *call)
{
    return run_quant(call, quantize_range);
}

static inlay_status run_dequantize(const kit_call *call)
{
    return run_quant(call, dequantize_range);
}

enum { LANES = 32 };

static void find_range(const float *input, int64_t count, float *out_low, float *out_high)
{
    float low[LANES] = { 0 }, high[LANES] = { 0 }; /* the range always contains 0 */
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            low[k] = dynamic_low(low[k], input[i + k]);
            high[k] = input[i + k] > high[k] ? input[i + k] : high[k];
        }
    for (; i < count; i++) {
        low[0] = dynamic_low(low[0], input[i]);
        high[0] = input[i] > high[0] ? input[i] : high[0];
    }
    for (int k = 1; k < LANES; k++) {
        low[0] = dynamic_low(low[0], low[k]);
        high[0] = high[k] > high[0] ? high[k] : high[0];
    }
    *out_low = low[0];
    *out_high = high[0];
}

typedef struct dynamic_job {
    const kit_call *call;
    float *ranges; /* [max_threads][16]: low, high; one cache line per thread */
    float scale, zero;
} dynamic_job;

static inlay_status dynamic_find(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dynamic_job *job = user;
    float *range = job->ranges + 16 * (size_t)worker, low, high;

    INLAY_CHECK(worker < (job->call->max_threads > 0 ? job->call->max_threads : 1));
    find_range((const float *)job->call->in[0].data + begin, end - begin, &low, &high);
    range[0] = dynamic_low(range[0], low);
    range[1] = high > range[1] ? high : range[1];
    return INLAY_OK;
}

static inlay_status dynamic_quantize(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dynamic_job *job = user;
    const float *input = job->call->in[0].data;

    (void)worker;
    for (int64_t i = begin; i < end; i += ELEMENTWISE_BLOCK) {
        float out[ELEMENTWISE_BLOCK];
        int64_t count = end - i < ELEMENTWISE_BLOCK ? end - i : ELEMENTWISE_BLOCK;
        divide(out, input + i, count, &job->scale, 0);
        finish_integer(out, count, &job->zero, 0, 0.0f, 255.0f);
        convert_from_f32(INLAY_UINT8, job->call->out[0].data, i, count, out, 0);
    }
    return INLAY_OK;
}

static inlay_status shape_dynamic(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    plan->workspace_bytes = 16 * sizeof(float) * ((uint64_t)plan->max_threads + 1);
    return INLAY_OK;
}

static inlay_status run_dynamic(const kit_call *call)
{
    dynamic_job job = { .call = call, .ranges = call->workspace };
    int64_t count = call->in[0].count;
    float low = 0, high = 0;
    uint32_t threads = call->max_threads > 0 ? call->max_threads : 1;
    inlay_status status;

    memset(job.ranges, 0, 16 * sizeof(float) * threads);
    status = kit_parallel(call, count, ELEMENTWISE_GRAIN, dynamic_find, &job);
    if (status != INLAY_OK)
        return status;
    for (uint32_t thread = 0; thread < threads; thread++) {
        low = dynamic_low(low, job.ranges[16 * thread]);
        high = job.ranges[16 * thread + 1] > high ? job.ranges[16 * thread + 1] : high;
    }
    dynamic_parameters(low, high, &job.scale, &job.zero);
    if (kit_has_output(call, 1))
        *(float *)call->out[1].data = job.scale;
    if (kit_has_output(call, 2))
        *(uint8_t *)call->out[2].data = (uint8_t)job.zero;
    return kit_has_output(call, 0) ? kit_parallel(call, count, ELEMENTWISE_GRAIN, dynamic_quantize, &job) : INLAY_OK;
}

#define HALVES (KIT_BIT(FLOAT) | KIT_BIT(FLOAT16) | KIT_BIT(BFLOAT16))
#define SCALES (HALVES | KIT_BIT(FLOAT8E8M0))
#define QUANTIZED                                                                                                      \
    (KIT_BIT(UINT8) | KIT_BIT(INT8) | KIT_BIT(UINT16) | KIT_BIT(INT16) | (KIT_FLOAT8 & ~KIT_BIT(FLOAT8E8M0)) |         \
     KIT_SUBBYTE)
static const kit_kernel kernels[] = {
    { .op_type = "QuantizeLinear",
      .in_types = { HALVES | KIT_BIT(INT32), SCALES | KIT_BIT(INT32), QUANTIZED },
      .out_types = { QUANTIZED },
      .prepare = prepare_quant,
      .shape = shape_quant,
      .run = run_quantize },
    { .op_type = "DequantizeLinear",
      .in_types = { QUANTIZED | KIT_BIT(INT32), SCALES, QUANTIZED | KIT_BIT(INT32) },
      .out_types = { HALVES },
      .prepare = prepare_quant,
      .shape = shape_quant,
      .run = run_dequantize },
    { .op_type = "DynamicQuantizeLinear", .shape = shape_dynamic, .run = run_dynamic },
};
const kit_table OPERATOR(operators_quantize) = { kernels, KIT_COUNT(kernels) };
