/* Adagrad, Adam, Momentum: ai.onnx.preview.training 1.
 *
 * The inputs after R (the rate) and T (the number of the step) form groups of equal size: all tensors to be optimized,
 * then all their gradients, then one or two groups of state. The outputs are the new tensors, then the new state. */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "operators/operators.h"
#include "simd/convert.h"
#include <math.h>
#include <stdlib.h>

enum { TRAINING_GRAIN = 1 << 14, TRAINING_GROUPS = 4 };

/* The optimization step of one tensor; in and out are indexed by group. */
typedef struct training_step {
    const void *in[TRAINING_GROUPS];
    void *out[TRAINING_GROUPS];
    double rate, norm, norm_post, epsilon, alpha, beta;
    bool nesterov;
} training_step;

#define SUFFIX f32
#define T float
#include "reference/training.inc"
#define SUFFIX f64
#define T double
#include "reference/training.inc"

typedef void (*training_fn)(const training_step *step, int64_t begin, int64_t end);
enum { ADAGRAD, ADAM, MOMENTUM };
static const training_fn training_fns[][2] = { { adagrad_f32, adagrad_f64 },
                                               { adam_f32, adam_f64 },
                                               { momentum_f32, momentum_f64 } };
/* The number of groups of inputs, for each operator. The outputs have one group less, since gradients are not
 * outputs. */
static const uint32_t training_groups[] = { 3, 4, 3 };

typedef struct training_state {
    uint32_t kind;
    double decay;
    training_step step; /* the attributes */
} training_state;

static bool supports_training(const kit_node *node, kit_refusal *why)
{
    const operator_settings *settings = node->provider;

    return (settings != NULL && settings->preview) ||
           kit_refuse(why, INLAY_REFUSE_OPTION, "set option reference.preview to true",
                      "operators of preview domains are disabled");
}

static inlay_status prepare_training(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    const char *name = info->op_type.data, *mode = kit_attr_string(info, "mode", "standard");
    training_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of an optimizer");
    state->kind = name[0] == 'M' ? MOMENTUM : strcmp(name, "Adam") == 0 ? ADAM : ADAGRAD;
    state->decay = kit_attr_float(info, "decay_factor", 0);
    state->step.norm = kit_attr_float(info, "norm_coefficient", 0);
    state->step.norm_post = kit_attr_float(info, "norm_coefficient_post", 0);
    state->step.epsilon = kit_attr_float(info, "epsilon", 1e-6);
    state->step.alpha = kit_attr_float(info, "alpha", 0.9);
    state->step.beta = kit_attr_float(info, "beta", 0.999);
    state->step.nesterov = strcmp(mode, "nesterov") == 0;
    if (info->input_count < 2 || (info->input_count - 2) % training_groups[state->kind] != 0 ||
        info->output_count !=
            (info->input_count - 2) / training_groups[state->kind] * (training_groups[state->kind] - 1) ||
        (!state->step.nesterov && strcmp(mode, "standard") != 0)) {
        inlay_status status = inlay_fail(diag, INLAY_INVALID_MODEL,
                                         "%s: %u inputs, %u outputs and mode '%.40s' do not make groups of tensors, "
                                         "gradients and state, or the mode is neither standard nor nesterov",
                                         name, info->input_count, info->output_count, mode);
        free(state);
        return status;
    }
    *out_state = state;
    return INLAY_OK;
}

typedef struct training_job {
    training_step step;
    training_fn fn;
} training_job;

static inlay_status training_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const training_job *job = user;

    (void)worker;
    job->fn(&job->step, begin, end);
    return INLAY_OK;
}

static inlay_status run_training(const kit_call *call)
{
    const training_state *state = call->state;
    uint32_t groups = training_groups[state->kind], tensors = (call->in_count - 2) / groups;
    double rate = convert_get_f64(call->in[0].dtype, call->in[0].data, 0);
    double step_number = (double)convert_get_i64(call->in[1].dtype, call->in[1].data, 0);
    inlay_status status = INLAY_OK;

    INLAY_CHECK(groups <= TRAINING_GROUPS && call->in_count >= 2);
    for (uint32_t i = 0; i < tensors && status == INLAY_OK; i++) {
        const kit_tensor *input = &call->in[2 + i];
        training_job job = { state->step, training_fns[state->kind][input->dtype == INLAY_DOUBLE] };
        for (uint32_t group = 0; group < groups; group++) {
            const kit_tensor *tensor = &call->in[2 + group * tensors + i];
            if (tensor->count != input->count || tensor->dtype != input->dtype)
                return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "input %u must have the type and shape of input %u",
                                  2 + group * tensors + i, 2 + i);
            job.step.in[group] = tensor->data;
        }
        for (uint32_t group = 0; group + 1 < groups; group++)
            job.step.out[group] = call->out[group * tensors + i].data;
        job.step.rate = rate;
        if (state->kind == ADAGRAD)
            job.step.rate = rate / (1 + step_number * state->decay);
        else if (state->kind == ADAM && step_number > 0)
            job.step.rate =
                rate * sqrt(1 - pow(state->step.beta, step_number)) / (1 - pow(state->step.alpha, step_number));
        else if (state->kind == MOMENTUM && step_number <= 0)
            job.step.beta = 1;
        status = kit_parallel(call, input->count, TRAINING_GRAIN, training_range, &job);
    }
    return status;
}

#define TRAINING_KERNEL(name)                                                                                          \
    {                                                                                                                  \
        .domain = "ai.onnx.preview.training", .op_type = name,                                                         \
        .in_types = { KIT_BIT(FLOAT) | KIT_BIT(DOUBLE), KIT_BIT(INT64), KIT_BIT(FLOAT) | KIT_BIT(DOUBLE) },            \
        .supports = supports_training, .prepare = prepare_training, .run = run_training                                \
    }

static const kit_kernel kernels[] = {
    TRAINING_KERNEL("Adagrad"),
    TRAINING_KERNEL("Adam"),
    TRAINING_KERNEL("Momentum"),
};
const kit_table reference_training = { kernels, KIT_COUNT(kernels) };
