/* BatchNormalization: ONNX 1, 6, 7, 9, 14, 15.
 *
 * For inference the four parameters come down to one factor and one offset per channel, made once when they are
 * constants. In training the moments are those of the batch, and the running ones follow.
 *
 * When is it training? 14 and 15 have training_mode. Before, a node with more outputs than Y trained, unless (1 and 6)
 * is_test says that it does not. */
#include "instance.h"
#include "reference.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

#define BODY "batch_normalization.inc"
#include "floats.inc"

typedef void (*batch_apply_fn)(const void *input, void *output, int64_t begin, int64_t end, int64_t channels, int64_t s,
                               const void *factors, const void *offsets);
typedef void (*batch_moments_fn)(const void *input, int64_t n, int64_t channels, int64_t s, int64_t c, double *mean,
                                 double *variance);
static const batch_apply_fn batch_apply[INLAY_DTYPE_COUNT] = BY_FLOAT(batch_apply);
static const batch_moments_fn batch_moments[INLAY_DTYPE_COUNT] = BY_FLOAT(batch_moments);

enum { BATCH_GRAIN = 1 << 15 };
enum { IN_SCALE = 1, IN_BIAS = 2, IN_MEAN = 3, IN_VARIANCE = 4 };

typedef struct batch_state {
    double epsilon, momentum;
    bool training;
    bool per_activation;   /* spatial = 0 (1, 6, 7): parameters for each element of a sample */
    int64_t folded;        /* entries of factor and offset, 0 when the parameters are not constants */
    void *factor, *offset; /* [folded] double when X is, else float; in the same block as the struct */
} batch_state;

/* Makes factor[c] and offset[c] for c in [0, count); both double when wide, else float. */
static void batch_fold(const void *const parameters[5], const inlay_dtype dtypes[5], int64_t count, double epsilon,
                       bool wide, void *factor, void *offset)
{
    for (int64_t c = 0; c < count; c++) {
        double a = convert_get_f64(dtypes[IN_SCALE], parameters[IN_SCALE], c) /
                   sqrt(convert_get_f64(dtypes[IN_VARIANCE], parameters[IN_VARIANCE], c) + epsilon);
        double b = convert_get_f64(dtypes[IN_BIAS], parameters[IN_BIAS], c) -
                   convert_get_f64(dtypes[IN_MEAN], parameters[IN_MEAN], c) * a;
        if (wide) {
            ((double *)factor)[c] = a;
            ((double *)offset)[c] = b;
        } else {
            ((float *)factor)[c] = (float)a;
            ((float *)offset)[c] = (float)b;
        }
    }
}

static int64_t constant_count(const inlay_value_info *value)
{
    int64_t n = 1;

    for (uint32_t d = 0; d < value->rank; d++)
        n *= value->dims[d].value;
    return n;
}

static inlay_status prepare_batch(const kit_node *node, void **out_state, inlay_diag *diag)
{
    bool wide = kit_input_dtype(node, 0) == INLAY_DOUBLE, constant = true;
    size_t each = wide ? sizeof(double) : sizeof(float);
    const void *parameters[5] = { NULL };
    inlay_dtype dtypes[5] = { 0 };
    int64_t count = 0;
    batch_state *state;
    uint32_t since = node->info->since_version;

    for (uint32_t i = IN_SCALE; i <= IN_VARIANCE && constant; i++) {
        constant = kit_is_constant(node, i);
        if (constant && i == IN_SCALE)
            count = constant_count(kit_input(node, i));
        constant = constant && constant_count(kit_input(node, i)) == count;
    }
    state = calloc(1, sizeof *state + (constant ? 2 * (size_t)count * each : 0));
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
        state->offset = (char *)state->factor + (size_t)count * each;
        state->folded = count;
        batch_fold(parameters, dtypes, count, state->epsilon, wide, state->factor, state->offset);
        for (uint32_t i = IN_SCALE; i <= IN_VARIANCE; i++)
            kit_drop_constant(node, i);
    }
    *out_state = state;
    return INLAY_OK;
}

/* X as [n, channels, state]; a tensor of rank 1 is N samples of one channel (BatchNormalization-9). */
static void batch_view(const batch_state *state, const kit_tensor *input, int64_t *n, int64_t *channels, int64_t *inner)
{
    *n = input->rank > 0 ? input->dims[0] : 1;
    *channels = 1;
    *inner = 1;
    for (uint32_t d = 1; d < input->rank && input->count > 0; d++)
        *(d == 1 || state->per_activation ? channels : inner) *= input->dims[d];
}

static inlay_status shape_batch(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const batch_state *s = state;
    int64_t n, channels, inner;

    batch_view(s, &plan->in[0], &n, &channels, &inner);
    for (uint32_t i = IN_SCALE; i <= IN_VARIANCE && plan->in[0].count > 0; i++)
        if (plan->in_count > i && plan->in[i].count != channels)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "BatchNormalization: input %u has %lld elements for %lld channels", i,
                              (long long)plan->in[i].count, (long long)channels);
    if (s->folded == 0)
        plan->workspace_bytes = (uint64_t)channels * 4 * sizeof(double);
    return INLAY_OK;
}

typedef struct batch_job {
    const kit_call *call;
    const batch_state *state;
    const void *factor, *offset;
    double *mean, *variance; /* [channels] of the batch, training only */
    int64_t n, channels, inner;
} batch_job;

static inlay_status batch_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const batch_job *job = user;
    const kit_tensor *input = &job->call->in[0];

    (void)worker;
    batch_apply[input->dtype](input->data, job->call->out[0].data, begin, end, job->channels, job->inner, job->factor,
                              job->offset);
    return INLAY_OK;
}

static inlay_status batch_channels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const batch_job *job = user;
    const kit_tensor *input = &job->call->in[0];

    (void)worker;
    for (int64_t c = begin; c < end; c++)
        batch_moments[input->dtype](input->data, job->n, job->channels, job->inner, c, &job->mean[c],
                                    &job->variance[c]);
    return INLAY_OK;
}

static void put(kit_tensor *tensor, int64_t i, double value)
{
    convert_from_f64(tensor->dtype, tensor->data, i, 1, &value, 0);
}

/* Outputs 1 and 2: the running moments; 3 and 4 (before 14): those of the batch. */
static void batch_running(const batch_job *job)
{
    const kit_call *call = job->call;
    double m = job->state->momentum;

    for (int64_t c = 0; c < job->channels; c++) {
        double before[2] = { convert_get_f64(call->in[IN_MEAN].dtype, call->in[IN_MEAN].data, c),
                             convert_get_f64(call->in[IN_VARIANCE].dtype, call->in[IN_VARIANCE].data, c) };
        double batch[2] = { job->mean[c], job->variance[c] };
        for (uint32_t i = 0; i < 2; i++) {
            if (kit_has_output(call, 1 + i))
                put(&call->out[1 + i], c, before[i] * m + batch[i] * (1 - m));
            if (kit_has_output(call, 3 + i))
                put(&call->out[3 + i], c, batch[i]);
        }
    }
}

static inlay_status run_batch(const kit_call *call)
{
    const batch_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    bool wide = input->dtype == INLAY_DOUBLE;
    batch_job job = { .call = call, .state = state, .factor = state->factor, .offset = state->offset };
    const void *parameters[5] = { NULL };
    inlay_dtype dtypes[5] = { 0 };
    inlay_status status;

    if (input->count == 0)
        return INLAY_OK;
    batch_view(state, input, &job.n, &job.channels, &job.inner);
    if (state->folded == 0) {
        double *factor = call->workspace, *offset = factor + job.channels;
        for (uint32_t i = IN_SCALE; i <= IN_VARIANCE; i++) {
            parameters[i] = call->in[i].data;
            dtypes[i] = call->in[i].dtype;
        }
        if (state->training) {
            job.mean = offset + job.channels;
            job.variance = job.mean + job.channels;
            status = kit_parallel(call, job.channels, BATCH_GRAIN / (job.n * job.inner) + 1, batch_channels, &job);
            if (status != INLAY_OK)
                return status;
            parameters[IN_MEAN] = job.mean;
            parameters[IN_VARIANCE] = job.variance;
            dtypes[IN_MEAN] = dtypes[IN_VARIANCE] = INLAY_DOUBLE;
        }
        batch_fold(parameters, dtypes, job.channels, state->epsilon, wide, factor, offset);
        job.factor = factor;
        job.offset = offset;
    }
    status = kit_parallel(call, job.n * job.channels, BATCH_GRAIN / job.inner + 1, batch_rows, &job);
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
const kit_table OPERATOR(reference_batch_normalization) = { kernels, KIT_COUNT(kernels) };
