/* CausalConvWithState: ONNX 27. The kernel of each channel slides over the past state and the input; computed in
 * float. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <stdlib.h>

typedef struct causal_state {
    bool silu;
} causal_state;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *name = kit_attr_string(node->info, "activation", "none");
    causal_state *state = NULL;
    inlay_status status = arg_allocate_state(sizeof *state, (void **)&state, diag);

    if (status != INLAY_OK)
        return status;
    state->silu = strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0;
    if (!state->silu && strcmp(name, "none") != 0) {
        free(state);
        return inlay_fail(diag, INLAY_INVALID_MODEL, "activation is '%s'; use none, silu or swish", name);
    }
    *out_state = state;
    return INLAY_OK;
}

/* Returns the scratch bytes of a thread, for the taps of the kernel, the channel with its past, and a row of
 * results. */
static uint64_t thread_bytes(int64_t taps, int64_t length)
{
    return ((uint64_t)(2 * taps + 2 * length) * sizeof(float) + 63) & ~UINT64_C(63);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *weights = &plan->in[1], *output = &plan->out[0];
    int64_t past;

    (void)state;
    if (input->rank != 3 || weights->rank != 3 || weights->dims[0] != input->dims[1] || weights->dims[1] != 1 ||
        weights->dims[2] < 1)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "input and weight must be [batch, channels, length] and [channels, 1, k]");
    past = input->dims[0] * input->dims[1] * (weights->dims[2] - 1);
    if (output->count != input->count ||
        (plan->out_count > 1 && plan->out[1].dtype != INLAY_UNDEFINED && plan->out[1].count != past) ||
        (plan->in_count > 2 && plan->in[2].dtype != INLAY_UNDEFINED && plan->in[2].count != input->dims[1]) ||
        (plan->in_count > 3 && plan->in[3].dtype != INLAY_UNDEFINED && plan->in[3].count != past))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "bias, past_state or an output do not fit input and weight");
    if (__builtin_mul_overflow(thread_bytes(weights->dims[2], input->dims[2]), (uint64_t)plan->max_threads,
                               &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this convolution exceeds the address space");
    return INLAY_OK;
}

static inlay_status run_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const causal_state *state = call->state;
    const kit_tensor *input = &call->in[0], *weight_tensor = &call->in[1];
    int64_t taps = weight_tensor->dims[2], length = input->dims[2], channels = input->dims[1];
    float *weights = (float *)(void *)((char *)call->workspace + worker * thread_bytes(taps, length));
    float *line = weights + taps, *output = line + taps + length;

    INLAY_CHECK(taps >= 1 && end <= input->dims[0] * channels);
    for (int64_t index = begin; index < end; index++) {
        float bias = 0;
        convert_to_f32(weights, weight_tensor->dtype, weight_tensor->data, index % channels * taps, taps);
        memset(line, 0, (size_t)(taps - 1) * sizeof(float));
        if (kit_has_input(call, 3))
            convert_to_f32(line, call->in[3].dtype, call->in[3].data, index * (taps - 1), taps - 1);
        convert_to_f32(line + taps - 1, input->dtype, input->data, index * length, length);
        if (kit_has_input(call, 2))
            convert_to_f32(&bias, call->in[2].dtype, call->in[2].data, index % channels, 1);
        for (int64_t j = 0; j < length; j++)
            output[j] = bias;
        for (int64_t k = 0; k < taps; k++)
            for (int64_t j = 0; j < length; j++)
                output[j] += weights[k] * line[k + j];
        for (int64_t j = 0; j < length && state->silu; j++)
            output[j] *= vm_sigmoid(output[j]);
        convert_from_f32(call->out[0].dtype, call->out[0].data, index * length, length, output, 0);
        if (kit_has_output(call, 1))
            convert_from_f32(call->out[1].dtype, call->out[1].data, index * (taps - 1), taps - 1, line + length, 0);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    int64_t work = input->dims[2] * call->in[1].dims[2];

    return kit_parallel(call, input->dims[0] * input->dims[1], 32768 / (work + 1) + 1, run_channels,
                        (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "CausalConvWithState", .since_max = 27, .prepare = prepare, .shape = shape, .run = run },
};
const kit_table OPERATOR(operators_causal_conv) = { kernels, KIT_COUNT(kernels) };
