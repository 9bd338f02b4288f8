/* LpNormalization: ONNX 1, 22. Divides the vectors along an axis by their 1-norm or 2-norm. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { LP_TILE = 256, LP_GRAIN = 1 << 14 };

#define BODY "lp_normalization.inc"
#include "operators/floats.inc"

typedef void (*lp_columns_fn)(const void *input, void *output, int64_t count, int64_t stride, int64_t columns,
                              bool euclidean);
static const lp_columns_fn lp_columns[INLAY_DTYPE_COUNT] = BY_FLOAT(lp_columns);

typedef struct lp_state {
    int64_t axis;
    bool euclidean;
} lp_state;

static bool supports_lp(const kit_node *node, kit_refusal *why)
{
    int64_t power = kit_attr_int(node->info, "p", 2);

    return power == 1 || power == 2 ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "p is 1 or 2", "p is %lld, which LpNormalization does not define",
                      (long long)power);
}

static inlay_status prepare_lp(const kit_node *node, void **out_state, inlay_diag *diag)
{
    lp_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of an LpNormalization");
    state->axis = kit_attr_int(node->info, "axis", -1);
    state->euclidean = kit_attr_int(node->info, "p", 2) == 2;
    *out_state = state;
    return INLAY_OK;
}

typedef struct lp_job {
    const kit_call *call;
    bool euclidean;
    int64_t axis_length, inner, tiles;
} lp_job;

static inlay_status lp_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const lp_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    int64_t element_bytes = inlay_dtype_bits(input->dtype) / 8;

    (void)worker;
    INLAY_CHECK(job->tiles > 0 && job->axis_length > 0);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile % job->tiles * LP_TILE;
        int64_t columns = job->inner - first < LP_TILE ? job->inner - first : LP_TILE;
        int64_t offset = (tile / job->tiles * job->axis_length * job->inner + first) * element_bytes;
        lp_columns[input->dtype]((const char *)input->data + offset, (char *)job->call->out[0].data + offset,
                                 job->axis_length, job->inner, columns, job->euclidean);
    }
    return INLAY_OK;
}

static inlay_status run_lp(const kit_call *call)
{
    const lp_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    int64_t axis = state->axis < 0 ? state->axis + input->rank : state->axis, outer = 1;
    lp_job job = { .call = call, .euclidean = state->euclidean, .inner = 1 };

    if (axis < 0 || axis >= input->rank)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "LpNormalization: axis %lld is outside the input's rank %u",
                          (long long)state->axis, input->rank);
    if (input->count == 0)
        return INLAY_OK;
    for (uint32_t d = 0; d < input->rank; d++) {
        if (d < axis)
            outer *= input->dims[d];
        else if (d > axis)
            job.inner *= input->dims[d];
    }
    job.axis_length = input->dims[axis];
    job.tiles = (job.inner + LP_TILE - 1) / LP_TILE;
    return kit_parallel(call, outer * job.tiles, LP_GRAIN / (input->count / (outer * job.tiles) + 1) + 1, lp_items,
                        &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "LpNormalization",
      .in_types = { KIT_FLOATS },
      .flags = KIT_IN_PLACE_FIRST,
      .supports = supports_lp,
      .prepare = prepare_lp,
      .run = run_lp },
};
const kit_table OPERATOR(operators_lp_normalization) = { kernels, KIT_COUNT(kernels) };
