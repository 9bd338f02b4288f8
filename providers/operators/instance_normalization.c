/* InstanceNormalization (ONNX 1, 6, 22) and GroupNormalization (18, 21).
 *
 * Both normalize groups of channels of each sample; InstanceNormalization has as many groups as channels. Scale and
 * bias have one element per channel, but one per group in GroupNormalization-18. Statistics are computed in double for
 * double, otherwise in float. This is at least the precision that stash_type requires. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { INSTANCE_GRAIN = 1 << 14 };

#define BODY "instance_normalization.inc"
#include "operators/floats.inc"

typedef void (*instance_group_fn)(const void *input, void *output, int64_t channels, int64_t spatial, const void *scale,
                                  const void *bias, bool shared, double epsilon);
/* Floats are processed by SIMD kernels. */
static const instance_group_fn instance_group[INLAY_DTYPE_COUNT] = { [INLAY_DOUBLE] = instance_group_f64,
                                                                     [INLAY_FLOAT16] = instance_group_f16,
                                                                     [INLAY_BFLOAT16] = instance_group_bf16 };

typedef struct instance_state {
    double epsilon;
    int64_t groups; /* 0: one per channel */
    bool per_group; /* scale and bias have one element per group */
} instance_state;

static inlay_status prepare_instance(const kit_node *node, void **out_state, inlay_diag *diag)
{
    bool grouped = kit_op_type(node)[0] == 'G';
    int64_t groups = kit_attr_int(node->info, "num_groups", 0);
    instance_state *state;

    if (grouped && groups <= 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "num_groups is %lld; it must be at least 1", (long long)groups);
    state = malloc(sizeof *state);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a normalization");
    state->epsilon = kit_attr_float(node->info, "epsilon", 1e-5);
    state->groups = grouped ? groups : 0;
    state->per_group = grouped && kit_since_version(node) < 21;
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape_instance(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const instance_state *attributes = state;
    const kit_tensor *input = &plan->in[0];
    int64_t channels, groups, parameters;

    if (input->rank < 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [N, C, ...]", input->rank);
    channels = input->dims[1];
    groups = attributes->groups > 0 ? attributes->groups : channels;
    parameters = attributes->per_group ? groups : channels;
    if (groups > 0 && channels % groups != 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%lld channels cannot be cut into num_groups = %lld",
                          (long long)channels, (long long)groups);
    for (uint32_t i = 1; i <= 2; i++)
        if (plan->in_count <= i || plan->in[i].count != parameters)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u (%s) must have %lld elements", i,
                              i == 1 ? "scale" : "bias", (long long)parameters);
    return INLAY_OK;
}

typedef struct instance_job {
    const kit_call *call;
    const instance_state *state;
    int64_t groups, channels, inner; /* groups of a sample; channels of a group; elements of a channel */
} instance_job;

/* Several small groups at a time, which the first-level cache holds until they are normalized. */
static void groups_of_floats(const instance_job *job, int64_t begin, int64_t end)
{
    enum { SOME = 16, ELEMENTS = 8192 };
    const row_set *rows = KERNEL_BEST(rows);
    const int64_t n = job->channels * job->inner, most = n * SOME <= ELEMENTS ? SOME : 1;
    const float *input = job->call->in[0].data, *scale = job->call->in[1].data, *bias = job->call->in[2].data;
    float *output = job->call->out[0].data, means[SOME], factors[SOME];

    for (int64_t first = begin; first < end; first += most) {
        const int64_t count = end - first < most ? end - first : most;

        rows->moments(input + first * n, means, factors, count, n);
        for (int64_t g = 0; g < count; g++)
            factors[g] = 1 / sqrtf(factors[g] + (float)job->state->epsilon);
        for (int64_t g = 0; g < count; g++)
            for (int64_t c = 0; c < job->channels; c++) {
                const int64_t group = (first + g) % job->groups, at = ((first + g) * job->channels + c) * job->inner;
                const int64_t parameter = job->state->per_group ? group : group * job->channels + c;

                rows->affine(input + at, output + at, job->inner, means[g], factors[g] * scale[parameter],
                             bias[parameter]);
            }
    }
}

static inlay_status instance_groups(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const instance_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    int64_t element_bytes = inlay_dtype_bits(input->dtype) / 8;

    (void)worker;
    INLAY_CHECK(job->groups > 0 && job->channels > 0);
    if (input->dtype == INLAY_FLOAT) {
        groups_of_floats(job, begin, end);
        return INLAY_OK;
    }
    for (int64_t group = begin; group < end; group++) {
        int64_t offset = group * job->channels * job->inner * element_bytes;
        int64_t parameter = group % job->groups * (job->state->per_group ? 1 : job->channels) * element_bytes;
        instance_group[input->dtype]((const char *)input->data + offset, (char *)job->call->out[0].data + offset,
                                     job->channels, job->inner, (const char *)job->call->in[1].data + parameter,
                                     (const char *)job->call->in[2].data + parameter, job->state->per_group,
                                     job->state->epsilon);
    }
    return INLAY_OK;
}

static inlay_status run_instance(const kit_call *call)
{
    const instance_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    instance_job job = { .call = call, .state = state, .inner = 1 };

    if (input->count == 0)
        return INLAY_OK;
    job.groups = state->groups > 0 ? state->groups : input->dims[1];
    job.channels = input->dims[1] / job.groups;
    for (uint32_t d = 2; d < input->rank; d++)
        job.inner *= input->dims[d];
    return kit_parallel(call, input->dims[0] * job.groups, INSTANCE_GRAIN / (job.channels * job.inner) + 1,
                        instance_groups, &job);
}

#define INSTANCE_KERNEL(name)                                                                                          \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_FLOATS }, .flags = KIT_IN_PLACE_FIRST, .prepare = prepare_instance,         \
        .shape = shape_instance, .run = run_instance                                                                   \
    }

static const kit_kernel kernels[] = {
    INSTANCE_KERNEL("InstanceNormalization"),
    INSTANCE_KERNEL("GroupNormalization"),
};
const kit_table OPERATOR(operators_instance_normalization) = { kernels, KIT_COUNT(kernels) };
