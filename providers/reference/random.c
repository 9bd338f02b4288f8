/* RandomNormal, RandomUniform and their Like forms (ONNX 1, 22), Bernoulli (15, 22), Multinomial (7, 22). */
#include "inlay/check.h"
#include "operators/elementwise.h"
#include "operators/work.h"
#include "reference/twister.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

typedef struct random_state {
    twister_source source;
    bool normal;
    double from, scale; /* mean and deviation, or low and high - low */
} random_state;

static inlay_status prepare_random(const kit_node *node, void **out_state, inlay_diag *diag)
{
    random_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    twister_source_init(&state->source, node);
    state->normal = elementwise_is(node->info, "RandomNormal") || elementwise_is(node->info, "RandomNormalLike");
    if (state->normal) {
        state->from = kit_attr_float(node->info, "mean", 0);
        state->scale = kit_attr_float(node->info, "scale", 1);
    } else {
        state->from = kit_attr_float(node->info, "low", 0);
        state->scale = kit_attr_float(node->info, "high", 1) - state->from;
    }
    return INLAY_OK;
}

static inlay_status run_random(const kit_call *call)
{
    random_state *state = call->state;
    const kit_tensor *output = &call->out[0];
    struct twister twister;

    twister_start(&twister, &state->source);
    for (int64_t i = 0; i < output->count; i += ELEMENTWISE_BLOCK) {
        double block[ELEMENTWISE_BLOCK];
        int64_t count = output->count - i < ELEMENTWISE_BLOCK ? output->count - i : ELEMENTWISE_BLOCK;

        if (state->normal)
            twister_normals(&twister, block, count, output->dtype != INLAY_DOUBLE);
        else
            twister_uniforms(&twister, block, count);
        for (int64_t k = 0; k < count; k++)
            block[k] = state->from + state->scale * block[k];
        convert_from_f64(output->dtype, output->data, i, count, block, CONVERT_SATURATE);
    }
    return INLAY_OK;
}

/* Bernoulli: each element becomes 1 with the probability that the input element gives, otherwise 0. */
static inlay_status run_bernoulli(const kit_call *call)
{
    random_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    struct twister twister;

    twister_start(&twister, &state->source);
    for (int64_t i = 0; i < output->count; i += ELEMENTWISE_BLOCK) {
        double probabilities[ELEMENTWISE_BLOCK], uniform[ELEMENTWISE_BLOCK];
        int64_t count = output->count - i < ELEMENTWISE_BLOCK ? output->count - i : ELEMENTWISE_BLOCK;

        convert_to_f64(probabilities, input->dtype, input->data, i, count);
        twister_uniforms(&twister, uniform, count);
        for (int64_t k = 0; k < count; k++)
            probabilities[k] = uniform[k] < probabilities[k] ? 1.0 : 0.0;
        convert_from_f64(output->dtype, output->data, i, count, probabilities, CONVERT_SATURATE);
    }
    return INLAY_OK;
}

static inlay_status shape_multinomial(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    if (plan->in[0].rank == 2)
        plan->workspace_bytes = sizeof(double) * (uint64_t)plan->in[0].dims[1];
    return INLAY_OK;
}

/* Returns the first class whose cumulative weight exceeds target. */
static int64_t find_class(const double *cumulative, int64_t classes, double target)
{
    int64_t low = 0, high = classes - 1;

    INLAY_CHECK(classes > 0);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (cumulative[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Multinomial: rows contain unnormalized log probabilities x; class c is drawn with probability e^x[c] / sum e^x. */
static inlay_status run_multinomial(const kit_call *call)
{
    random_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    int64_t rows = input->dims[0], classes = input->dims[1], samples = output->dims[1];
    double *cumulative = call->workspace;
    struct twister twister;

    if (output->count == 0)
        return INLAY_OK;
    if (classes == 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "Multinomial: the input has no classes");
    twister_start(&twister, &state->source);
    for (int64_t row = 0; row < rows; row++) {
        double most = -INFINITY, sum = 0;

        convert_to_f64(cumulative, input->dtype, input->data, row * classes, classes);
#pragma omp simd reduction(max : most)
        for (int64_t class = 0; class < classes; class ++)
            most = cumulative[class] > most ? cumulative[class] : most;
        for (int64_t class = 0; class < classes; class ++) /* vectorised: apart from the sum */
            cumulative[class] = vd_exp(cumulative[class] - most);
        for (int64_t class = 0; class < classes; class ++)
            cumulative[class] = sum += cumulative[class];
        for (int64_t k = 0; k < samples; k++) {
            double uniform;
            int64_t drawn;

            twister_uniforms(&twister, &uniform, 1);
            drawn = find_class(cumulative, classes, uniform * sum);
            convert_from_i64(output->dtype, output->data, row * samples + k, 1, &drawn, 0);
        }
    }
    return INLAY_OK;
}

#define RANDOM(name, function)                                                                                         \
    {                                                                                                                  \
        .op_type = name, .prepare = prepare_random, .cost = work_cost_of_stream, .run = function                       \
    }
static const kit_kernel kernels[] = {
    RANDOM("RandomNormal", run_random),
    RANDOM("RandomUniform", run_random),
    RANDOM("RandomNormalLike", run_random),
    RANDOM("RandomUniformLike", run_random),
    RANDOM("Bernoulli", run_bernoulli),
    { .op_type = "Multinomial", .prepare = prepare_random, .shape = shape_multinomial, .run = run_multinomial },
};
const kit_table reference_random = { kernels, KIT_COUNT(kernels) };
