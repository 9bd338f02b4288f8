/* BatchNormalization: ONNX 1, 6, 7, 9, 14, 15.
 *
 * For inference the four parameters are combined to y = (x - center) * factor + offset per channel; for constants this
 * is done once. The center is 0, and the offset has the mean, unless factor or offset would not be finite: inf - inf
 * would be NaN where ONNX's (x - mean) * inf is infinite, and the other way round. In training the moments are those of
 * the batch, and the running moments are updated.
 *
 * Versions 14 and 15 have the attribute training_mode. Earlier versions train if the node has more outputs than Y,
 * unless (1 and 6) is_test is set. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

#define BODY "batch_normalization.inc"
#include "operators/floats.inc"

typedef void (*batch_apply_fn)(const void *input, void *output, int64_t begin, int64_t end, int64_t channels,
                               int64_t spatial, const void *factors, const void *offsets, const void *centers);
typedef void (*batch_moments_fn)(const void *input, int64_t batches, int64_t channels, int64_t spatial, int64_t channel,
                                 double *mean, double *variance);
static const batch_apply_fn batch_apply[INLAY_DTYPE_COUNT] = BY_FLOAT(batch_apply);
static const batch_moments_fn batch_moments[INLAY_DTYPE_COUNT] = BY_FLOAT(batch_moments);

enum { BATCH_GRAIN = 1 << 15 };
enum { IN_SCALE = 1, IN_BIAS = 2, IN_MEAN = 3, IN_VARIANCE = 4 };

typedef struct batch_state {
    double epsilon, momentum;
    bool training;
    bool per_activation;            /* spatial = 0 (1, 6, 7): parameters for each element of a sample */
    int64_t folded;                 /* entries of factor, offset and center, 0 if the parameters are not constants */
    void *factor, *offset, *center; /* [folded] double if X is double, else float; in the same block as the struct */
} batch_state;

/* Computes factor, offset and center of channels [0, count), which are double if `wide`, else float. */
static void batch_fold(const void *const parameters[5], const inlay_dtype dtypes[5], int64_t count, double epsilon,
                       bool wide, void *factor, void *offset, void *center)
{
    for (int64_t channel = 0; channel < count; channel++) {
        double scale = convert_get_f64(dtypes[IN_SCALE], parameters[IN_SCALE], channel) /
                       sqrt(convert_get_f64(dtypes[IN_VARIANCE], parameters[IN_VARIANCE], channel) + epsilon);
        double bias = convert_get_f64(dtypes[IN_BIAS], parameters[IN_BIAS], channel);
        double mean = convert_get_f64(dtypes[IN_MEAN], parameters[IN_MEAN], channel), shift = bias - mean * scale;
        bool finite = wide ? isfinite(scale) && isfinite(shift) : isfinite((float)scale) && isfinite((float)shift);

        if (wide) {
            ((double *)factor)[channel] = scale;
            ((double *)offset)[channel] = finite ? shift : bias;
            ((double *)center)[channel] = finite ? 0 : mean;
        } else {
            ((float *)factor)[channel] = (float)scale;
            ((float *)offset)[channel] = (float)(finite ? shift : bias);
            ((float *)center)[channel] = (float)(finite ? 0 : mean);
        }
    }
}

static int64_t constant_count(const inlay_value_info *value)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < value->rank; d++)
        count *= value->dims[d].value;
    return count;
}

static inlay_status prepare_batch(const kit_node *node, void **out_state, inlay_diag *diag)
{
    bool wide = kit_input_dtype(node, 0) == INLAY_DOUBLE, constant = true;
    size_t entry_bytes = wide ? sizeof(double) : sizeof(float);
    const void *parameters[5] = { NULL };
    inlay_dtype dtypes[5] = { 0 };
    int64_t count = 0;
    batch_state *state;
    uint32_t since = kit_since_version(node);

    for (uint32_t i = IN_SCALE; i <= IN_VARIANCE && constant; i++) {
        constant = kit_is_constant(node, i);
        if (constant && i == IN_SCALE)
            count = constant_count(kit_input(node, i));
        constant = constant && constant_count(kit_input(node, i)) == count;
    }
    state = calloc(1, sizeof *state + (constant ? 3 * (size_t)count * entry_bytes : 0));
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the parameters of a BatchNormalization");
    state->epsilon = kit_attr_float(node->info, "epsilon", 1e-5);
    state->momentum = kit_attr_float(node->info, "momentum", 0.9);
    state->per_activation = kit_attr_int(node->info, "spatial", 1) == 0;
    if (since >= 14)
        state->training = kit_attr_int(node->info, "training_mode", 0) != 0;
    else
        state->training = kit_output(node, 1) != NULL && kit_attr_int(node->info, "is_test", 0) == 0;
    if (constant && !state->training) {
        for (uint32_t i = IN_SCALE; i <= IN_VARIANCE; i++) {
            parameters[i] = kit_constant(node, i);
            dtypes[i] = kit_input_dtype(node, i);
            if (parameters[i] == NULL && count > 0) {
                free(state);
                return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the parameters of a BatchNormalization");
            }
        }
        state->factor = state + 1;
        state->offset = (char *)state->factor + (size_t)count * entry_bytes;
        state->center = (char *)state->offset + (size_t)count * entry_bytes;
        state->folded = count;
        batch_fold(parameters, dtypes, count, state->epsilon, wide, state->factor, state->offset, state->center);
        for (uint32_t i = IN_SCALE; i <= IN_VARIANCE; i++)
            kit_drop_constant(node, i);
    }
    *out_state = state;
    return INLAY_OK;
}

/* Views X as [batches, channels, inner]; a tensor of rank 1 is N samples of one channel (BatchNormalization-9). */
static void batch_view(const batch_state *state, const kit_tensor *input, int64_t *batches, int64_t *channels,
                       int64_t *inner)
{
    *batches = input->rank > 0 ? input->dims[0] : 1;
    *channels = 1;
    *inner = 1;
    for (uint32_t d = 1; d < input->rank && input->count > 0; d++)
        *(d == 1 || state->per_activation ? channels : inner) *= input->dims[d];
}

static inlay_status shape_batch(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const batch_state *attributes = state;
    int64_t batches, channels, inner;

    batch_view(attributes, &plan->in[0], &batches, &channels, &inner);
    for (uint32_t i = IN_SCALE; i <= IN_VARIANCE && plan->in[0].count > 0; i++)
        if (plan->in_count > i && plan->in[i].count != channels)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "BatchNormalization: input %u has %lld elements for %lld channels", i,
                              (long long)plan->in[i].count, (long long)channels);
    if (attributes->folded == 0)
        plan->workspace_bytes = (uint64_t)channels * 5 * sizeof(double);
    return INLAY_OK;
}

typedef struct batch_job {
    const kit_call *call;
    const batch_state *state;
    const void *factor, *offset, *center;
    double *mean, *variance; /* [channels] of the batch, training only */
    int64_t batches, channels, inner;
} batch_job;

static inlay_status batch_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const batch_job *job = user;
    const kit_tensor *input = &job->call->in[0];

    (void)worker;
    INLAY_CHECK(job->factor != NULL && job->offset != NULL);
    batch_apply[input->dtype](input->data, job->call->out[0].data, begin, end, job->channels, job->inner, job->factor,
                              job->offset, job->center);
    return INLAY_OK;
}

static inlay_status batch_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const batch_job *job = user;
    const kit_tensor *input = &job->call->in[0];

    (void)worker;
    INLAY_CHECK(end <= job->channels);
    for (int64_t channel = begin; channel < end; channel++)
        batch_moments[input->dtype](input->data, job->batches, job->channels, job->inner, channel, &job->mean[channel],
                                    &job->variance[channel]);
    return INLAY_OK;
}

static void put(kit_tensor *tensor, int64_t index, double value)
{
    INLAY_CHECK(index >= 0 && index < tensor->count);
    convert_from_f64(tensor->dtype, tensor->data, index, 1, &value, 0);
}

/* Writes outputs 1 and 2, the running moments, and 3 and 4 (before version 14), the moments of the batch. */
static void batch_running(const batch_job *job)
{
    const kit_call *call = job->call;
    double momentum = job->state->momentum;

    for (int64_t channel = 0; channel < job->channels; channel++) {
        double before[2] = { convert_get_f64(call->in[IN_MEAN].dtype, call->in[IN_MEAN].data, channel),
                             convert_get_f64(call->in[IN_VARIANCE].dtype, call->in[IN_VARIANCE].data, channel) };
        double batch[2] = { job->mean[channel], job->variance[channel] };
        for (uint32_t i = 0; i < 2; i++) {
            if (kit_has_output(call, 1 + i))
                put(&call->out[1 + i], channel, before[i] * momentum + batch[i] * (1 - momentum));
            if (kit_has_output(call, 3 + i))
                put(&call->out[3 + i], channel, batch[i]);
        }
    }
}

static inlay_status run_batch(const kit_call *call)
{
    const batch_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    bool wide = input->dtype == INLAY_DOUBLE;
    batch_job job = {
        .call = call, .state = state, .factor = state->factor, .offset = state->offset, .center = state->center
    };
    const void *parameters[5] = { NULL };
    inlay_dtype dtypes[5] = { 0 };
    inlay_status status;

    if (input->count == 0)
        return INLAY_OK;
    batch_view(state, input, &job.batches, &job.channels, &job.inner);
    INLAY_CHECK(state->folded == 0 || state->folded == job.channels);
    if (state->folded == 0) {
        double *factor = call->workspace, *offset = factor + job.channels, *center = offset + job.channels;

        for (uint32_t i = IN_SCALE; i <= IN_VARIANCE; i++) {
            parameters[i] = call->in[i].data;
            dtypes[i] = call->in[i].dtype;
        }
        if (state->training) {
            job.mean = center + job.channels;
            job.variance = job.mean + job.channels;
            status =
                kit_parallel(call, job.channels, BATCH_GRAIN / (job.batches * job.inner) + 1, batch_channels, &job);
            if (status != INLAY_OK)
                return status;
            parameters[IN_MEAN] = job.mean;
            parameters[IN_VARIANCE] = job.variance;
            dtypes[IN_MEAN] = dtypes[IN_VARIANCE] = INLAY_DOUBLE;
        }
        batch_fold(parameters, dtypes, job.channels, state->epsilon, wide, factor, offset, center);
        job.factor = factor;
        job.offset = offset;
        job.center = center;
    }
    status = kit_parallel(call, job.batches * job.channels, BATCH_GRAIN / job.inner + 1, batch_rows, &job);
    if (status == INLAY_OK && state->training)
        batch_running(&job);
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "BatchNormalization",
      .in_types = { KIT_FLOATS, KIT_FLOATS, KIT_FLOATS, KIT_FLOATS },
      .flags = KIT_IN_PLACE,
      .prepare = prepare_batch,
      .shape = shape_batch,
      .run = run_batch },
};
const kit_table OPERATOR(operators_batch_normalization) = { kernels, KIT_COUNT(kernels) };
