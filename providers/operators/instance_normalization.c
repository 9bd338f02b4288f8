/* InstanceNormalization (ONNX 1, 6, 22) and GroupNormalization (18, 21).
 *
 * Both normalize groups of channels of each sample; InstanceNormalization has as many groups as channels. Scale and
 * bias have one element per channel, but one per group in GroupNormalization-18. Statistics are computed in double for
 * double, otherwise in float. This is at least the precision that stash_type requires. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { INSTANCE_GRAIN = 1 << 14 };

#define BODY "instance_normalization.inc"
#include "operators/floats.inc"

typedef void (*instance_group_fn)(const void *input, void *output, int64_t channels, int64_t spatial, const void *scale,
                                  const void *bias, bool shared, double epsilon);
static const instance_group_fn instance_group[INLAY_DTYPE_COUNT] = BY_FLOAT(instance_group);

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

static inlay_status instance_groups(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const instance_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    int64_t element_bytes = inlay_dtype_bits(input->dtype) / 8;

    (void)worker;
    INLAY_CHECK(job->groups > 0 && job->channels > 0);
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
