/* CausalConvWithState: ONNX 27, and com.microsoft with dilated taps and channels last. The kernel of each channel
 * slides over the past state and the input; computed in float. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <stdlib.h>

typedef struct causal_state {
    bool silu, channels_last;
    int64_t dilation;
} causal_state;

/* The elements of an input [batch, channels, length] or [batch, length, channels..] and of its state. reach: positions
 * before the current one that the taps read. */
typedef struct causal_sizes {
    int64_t batch, channels, length, taps, reach;
} causal_sizes;

static causal_sizes sizes_of(const causal_state *state, const kit_tensor *input, const kit_tensor *weights)
{
    causal_sizes sizes = { input->dims[0], 1, input->dims[state->channels_last ? 1 : 2], weights->dims[2], 0 };

    for (uint32_t d = state->channels_last ? 2 : 1; d < (state->channels_last ? input->rank : 2); d++)
        sizes.channels *= input->dims[d];
    sizes.reach = (sizes.taps - 1) * state->dilation;
    return sizes;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *name = kit_attr_string(node->info, "activation", "none");
    causal_state *state = NULL;
    inlay_status status = arg_allocate_state(sizeof *state, (void **)&state, diag);

    if (status != INLAY_OK)
        return status;
    state->dilation = kit_attr_int(node->info, "dilation", 1);
    state->channels_last = kit_attr_int(node->info, "channels_last", 0) != 0;
    state->silu = strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0;
    if (!state->silu && strcmp(name, "none") != 0) {
        free(state);
        return inlay_fail(diag, INLAY_INVALID_MODEL, "activation is '%s'; use none, silu or swish", name);
    }
    if (state->dilation < 1 || state->dilation > INT32_MAX) {
        const long long dilation = state->dilation;

        free(state);
        return inlay_fail(diag, INLAY_INVALID_MODEL, "dilation is %lld; it must be within 1 and 2147483647", dilation);
    }
    *out_state = state;
    return INLAY_OK;
}

/* Returns the scratch bytes of a thread, for the taps of the kernel, the channel with its past, and a row of
 * results. */
static uint64_t thread_bytes(const causal_sizes *sizes)
{
    return ((uint64_t)(sizes->taps + sizes->reach + 2 * sizes->length) * sizeof(float) + 63) & ~UINT64_C(63);
}

static bool has(const kit_tensor *tensors, uint32_t count, uint32_t i)
{
    return i < count && tensors[i].dtype != INLAY_UNDEFINED;
}

static inlay_status shape(const void *user, kit_plan *plan, inlay_diag *diag)
{
    const causal_state *state = user;
    const kit_tensor *input = &plan->in[0], *weights = &plan->in[1];
    causal_sizes sizes;
    int64_t past;

    if ((state->channels_last ? input->rank < 3 : input->rank != 3) || weights->rank != 3 || weights->dims[1] != 1 ||
        weights->dims[2] < 1 || weights->dims[2] > INT32_MAX)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "input and weight must be [batch, channels, length] and [channels, 1, k]");
    sizes = sizes_of(state, input, weights);
    if (sizes.reach > INT32_MAX || __builtin_mul_overflow(sizes.batch * sizes.channels, sizes.reach, &past))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "dilation %lld is too large", (long long)state->dilation);
    if (weights->dims[0] != sizes.channels || plan->out[0].count != input->count ||
        (has(plan->out, plan->out_count, 1) && plan->out[1].count != past) ||
        (has(plan->in, plan->in_count, 2) && plan->in[2].count != sizes.channels) ||
        (has(plan->in, plan->in_count, 3) && plan->in[3].count != past))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "weight, bias, past_state or an output do not fit the input's channels");
    if (__builtin_mul_overflow(thread_bytes(&sizes), (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this convolution exceeds the address space");
    return INLAY_OK;
}

/* Where the positions of a channel are: at `at`, and then every `step` elements. */
typedef struct causal_line {
    int64_t at, step;
} causal_line;

static causal_line line_of(const causal_state *state, const causal_sizes *sizes, int64_t index, int64_t length)
{
    if (!state->channels_last)
        return (causal_line){ index * length, 1 };
    return (causal_line){ index / sizes->channels * length * sizes->channels + index % sizes->channels,
                          sizes->channels };
}

static void load_line(float *to, const kit_tensor *from, causal_line line, int64_t count)
{
    if (line.step == 1)
        convert_to_f32(to, from->dtype, from->data, line.at, count);
    for (int64_t i = 0; line.step != 1 && i < count; i++)
        convert_to_f32(to + i, from->dtype, from->data, line.at + i * line.step, 1);
}

static void store_line(const kit_tensor *to, causal_line line, int64_t count, const float *from)
{
    if (line.step == 1)
        convert_from_f32(to->dtype, to->data, line.at, count, from, 0);
    for (int64_t i = 0; line.step != 1 && i < count; i++)
        convert_from_f32(to->dtype, to->data, line.at + i * line.step, 1, from + i, 0);
}

static inlay_status run_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const causal_state *state = call->state;
    const causal_sizes sizes = sizes_of(state, &call->in[0], &call->in[1]);
    float *weights = (float *)(void *)((char *)call->workspace + worker * thread_bytes(&sizes));
    float *line = weights + sizes.taps, *output = line + sizes.reach + sizes.length;

    INLAY_CHECK(sizes.taps >= 1 && end <= sizes.batch * sizes.channels);
    for (int64_t index = begin; index < end; index++) {
        const causal_line now = line_of(state, &sizes, index, sizes.length),
                          past = line_of(state, &sizes, index, sizes.reach);
        float bias = 0;

        convert_to_f32(weights, call->in[1].dtype, call->in[1].data, index % sizes.channels * sizes.taps, sizes.taps);
        memset(line, 0, (size_t)sizes.reach * sizeof(float));
        if (kit_has_input(call, 3))
            load_line(line, &call->in[3], past, sizes.reach);
        load_line(line + sizes.reach, &call->in[0], now, sizes.length);
        if (kit_has_input(call, 2))
            convert_to_f32(&bias, call->in[2].dtype, call->in[2].data, index % sizes.channels, 1);
        for (int64_t j = 0; j < sizes.length; j++)
            output[j] = bias;
        for (int64_t k = 0; k < sizes.taps; k++)
            for (int64_t j = 0; j < sizes.length; j++)
                output[j] += weights[k] * line[k * state->dilation + j];
        for (int64_t j = 0; j < sizes.length && state->silu; j++)
            output[j] *= vm_sigmoid(output[j]);
        store_line(&call->out[0], now, sizes.length, output);
        if (kit_has_output(call, 1))
            store_line(&call->out[1], past, sizes.reach, line + sizes.length);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const causal_sizes sizes = sizes_of(call->state, &call->in[0], &call->in[1]);

    return kit_parallel(call, sizes.batch * sizes.channels, 32768 / (sizes.length * sizes.taps + 1) + 1, run_channels,
                        (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "CausalConvWithState", .since_max = 27, .prepare = prepare, .shape = shape, .run = run },
    { .domain = "com.microsoft",
      .op_type = "CausalConvWithState",
      .since_max = 1,
      .prepare = prepare,
      .shape = shape,
      .run = run },
};
const kit_table OPERATOR(operators_causal_conv) = { kernels, KIT_COUNT(kernels) };
