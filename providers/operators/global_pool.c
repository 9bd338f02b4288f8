/* GlobalAveragePool (ONNX 1, 22), GlobalMaxPool (1, 22), GlobalLpPool (1, 2, 22): each plane [D1, ...] becomes one
 * element. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "simd/convert.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { GLOBAL_GRAIN = 1 << 15 };

#define BODY "global_pool.inc"
#include "operators/floats.inc"

typedef void (*global_fn)(const void *input, void *output, int64_t count, double power);
enum { GLOBAL_MEAN, GLOBAL_MAX, GLOBAL_MAGNITUDE, GLOBAL_EUCLID, GLOBAL_POWER, GLOBAL_KINDS };
static const global_fn global_fns[GLOBAL_KINDS][INLAY_DTYPE_COUNT] = {
    BY_FLOAT(global_mean),   BY_FLOAT(global_max),   BY_FLOAT(global_magnitude),
    BY_FLOAT(global_euclid), BY_FLOAT(global_power),
};

typedef struct global_state {
    uint32_t kind;
    double p;
} global_state;

static inlay_status prepare_global(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *attribute = kit_attr(node->info, "p"); /* GlobalLpPool-1: a float */
    const char *name = kit_op_type(node) + strlen("Global");
    global_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a pooling");
    state->p = attribute == NULL ? 2 : attribute->kind == INLAY_ATTR_FLOAT ? attribute->f : (double)attribute->i;
    if (name[0] == 'A')
        state->kind = GLOBAL_MEAN;
    else if (name[0] == 'M')
        state->kind = GLOBAL_MAX;
    else
        state->kind = state->p == 1 ? GLOBAL_MAGNITUDE : state->p == 2 ? GLOBAL_EUCLID : GLOBAL_POWER;
    *out_state = state;
    return INLAY_OK;
}

typedef struct global_job {
    const kit_call *call;
    global_fn fn;
    double p;
    int64_t plane_size;
    uint32_t kind;
} global_job;

enum { BUFFER_FLOATS = 4096 };

/* Returns whether a SIMD kernel computes the result: the mean or maximum of float planes. float16 and bfloat16 planes
 * are converted to float, several planes at a time. */
static bool has_simd_kernel(const global_job *job)
{
    const inlay_dtype dtype = job->call->in[0].dtype;

    return job->kind <= GLOBAL_MAX && job->plane_size > 0 &&
           (dtype == INLAY_FLOAT ||
            ((dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16) && job->plane_size <= BUFFER_FLOATS));
}

static void kernel_planes(const global_job *job, int64_t begin, int64_t end)
{
    void (*const rows)(const float *, float *, int64_t, int64_t) =
        job->kind == GLOBAL_MEAN ? KERNEL_BEST(rows)->means : KERNEL_BEST(rows)->tops;
    const kit_tensor *input = &job->call->in[0], *output = &job->call->out[0];
    const int64_t planes = job->plane_size < BUFFER_FLOATS ? BUFFER_FLOATS / job->plane_size : 1;
    float from[BUFFER_FLOATS], to[BUFFER_FLOATS];

    INLAY_CHECK(job->plane_size > 0);
    if (input->dtype == INLAY_FLOAT) {
        rows((const float *)input->data + begin * job->plane_size, (float *)output->data + begin, end - begin,
             job->plane_size);
        return;
    }
    for (int64_t i = begin; i < end; i += planes) {
        const int64_t count = end - i < planes ? end - i : planes;

        convert_to_f32(from, input->dtype, input->data, i * job->plane_size, count * job->plane_size);
        rows(from, to, count, job->plane_size);
        convert_from_f32(output->dtype, output->data, i, count, to, 0);
    }
}

static inlay_status global_planes(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const global_job *job = user;
    int64_t element_bytes = inlay_dtype_bits(job->call->in[0].dtype) / 8;

    (void)worker;
    if (has_simd_kernel(job)) {
        kernel_planes(job, begin, end);
        return INLAY_OK;
    }
    INLAY_CHECK(job->fn != NULL);
    for (int64_t i = begin; i < end; i++)
        job->fn((const char *)job->call->in[0].data + i * job->plane_size * element_bytes,
                (char *)job->call->out[0].data + i * element_bytes, job->plane_size, job->p);
    return INLAY_OK;
}

static inlay_status run_global(const kit_call *call)
{
    const global_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    int64_t planes = call->out[0].count; /* [N, C, 1, ...] */
    global_job job = { call, global_fns[state->kind][input->dtype], state->p, planes > 0 ? input->count / planes : 0,
                       state->kind };

    if (input->rank < 2 || (input->count > 0 && planes != input->dims[0] * input->dims[1]))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [N, C, ...]", input->rank);
    return kit_parallel(call, planes, GLOBAL_GRAIN / (job.plane_size + 1) + 1, global_planes, &job);
}

#define GLOBAL_KERNEL(name)                                                                                            \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_FLOATS }, .prepare = prepare_global, .run = run_global                      \
    }

static const kit_kernel kernels[] = {
    GLOBAL_KERNEL("GlobalAveragePool"),
    GLOBAL_KERNEL("GlobalMaxPool"),
    GLOBAL_KERNEL("GlobalLpPool"),
};
const kit_table OPERATOR(operators_global_pool) = { kernels, KIT_COUNT(kernels) };
