/* MeanVarianceNormalization: ONNX 9, 13. (x - mean) / (deviation + 1e-9) over any set of axes. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { MVN_GRAIN = 1 << 14 };

/* The elements that are normalized together: `rows` rows of row_length elements, one row for each index of dims
 * [rank]. */
typedef struct mvn_run {
    int64_t dims[INLAY_MAX_RANK], strides[INLAY_MAX_RANK];
    uint32_t rank;
    int64_t rows, row_length, step;
} mvn_run;

/* Moves index to the next row; returns the change of the offset in elements. */
static inline int64_t mvn_next(const mvn_run *run, int64_t *index)
{
    INLAY_CHECK(run->rank < INLAY_MAX_RANK);
    int64_t moved = 0;

    for (uint32_t d = run->rank; d-- > 0;) {
        moved += run->strides[d];
        if (++index[d] < run->dims[d])
            break;
        moved -= run->strides[d] * run->dims[d];
        index[d] = 0;
    }
    return moved;
}

#define BODY "mean_variance_normalization.inc"
#include "operators/floats.inc"

typedef void (*mvn_group_fn)(const void *input, void *output, const mvn_run *run);
static const mvn_group_fn mvn_group[INLAY_DTYPE_COUNT] = BY_FLOAT(mvn_group);

typedef struct mvn_state {
    uint32_t axis_count;
    int64_t axes[INLAY_MAX_RANK];
} mvn_state;

typedef struct mvn_plan {
    mvn_run run;
    int64_t kept_dims[INLAY_MAX_RANK], kept_strides[INLAY_MAX_RANK];
    uint32_t kept_rank;
    int64_t groups;
} mvn_plan;

static inlay_status prepare_mvn(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const int64_t usual[] = { 0, 2, 3 };
    uint32_t count;
    const int64_t *axes = kit_attr_ints(node->info, "axes", &count);
    mvn_state *state;

    if (axes == NULL) {
        axes = usual;
        count = KIT_COUNT(usual);
    }
    if (count > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "axes has %u entries, more than the maximum rank", count);
    state = calloc(1, sizeof *state);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a normalization");
    state->axis_count = count;
    if (count > 0)
        memcpy(state->axes, axes, count * sizeof *axes);
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape_mvn(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const mvn_state *attributes = state;
    const kit_tensor *input = &plan->in[0];
    bool normalized[INLAY_MAX_RANK] = { false };
    int64_t stride = 1, strides[INLAY_MAX_RANK];
    mvn_plan *mvn;

    for (uint32_t i = 0; i < attributes->axis_count; i++) {
        int64_t axis = attributes->axes[i] < 0 ? attributes->axes[i] + input->rank : attributes->axes[i];
        if (axis < 0 || axis >= input->rank)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside the input's rank %u",
                              (long long)attributes->axes[i], input->rank);
        normalized[axis] = true;
    }
    mvn = calloc(1, sizeof *mvn);
    if (mvn == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a normalization");
    plan->plan = mvn;
    mvn->groups = mvn->run.rows = mvn->run.row_length = mvn->run.step = 1;
    if (input->count == 0)
        return INLAY_OK;
    for (uint32_t d = input->rank; d-- > 0; stride *= input->dims[d])
        strides[d] = stride;
    for (uint32_t d = 0; d < input->rank; d++) {
        mvn_run *run = &mvn->run;
        if (input->dims[d] == 1)
            continue;
        if (!normalized[d]) {
            mvn->kept_dims[mvn->kept_rank] = input->dims[d];
            mvn->kept_strides[mvn->kept_rank++] = strides[d];
            mvn->groups *= input->dims[d];
        } else if (run->rank > 0 &&
                   run->strides[run->rank - 1] == strides[d] * input->dims[d]) { /* merge with the previous axis */
            run->dims[run->rank - 1] *= input->dims[d];
            run->strides[run->rank - 1] = strides[d];
        } else {
            run->dims[run->rank] = input->dims[d];
            run->strides[run->rank++] = strides[d];
        }
    }
    if (mvn->run.rank > 0) {
        mvn->run.rank--;
        mvn->run.row_length = mvn->run.dims[mvn->run.rank];
        mvn->run.step = mvn->run.strides[mvn->run.rank];
    }
    for (uint32_t d = 0; d < mvn->run.rank; d++)
        mvn->run.rows *= mvn->run.dims[d];
    return INLAY_OK;
}

static inlay_status mvn_groups(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const mvn_plan *plan = call->plan;
    const kit_tensor *input = &call->in[0];

    INLAY_CHECK(plan->kept_rank <= INLAY_MAX_RANK && end <= plan->groups);
    (void)worker;
    for (int64_t group = begin; group < end; group++) {
        int64_t offset = 0, remaining = group;
        for (uint32_t d = plan->kept_rank; d-- > 0; remaining /= plan->kept_dims[d])
            offset += remaining % plan->kept_dims[d] * plan->kept_strides[d];
        offset *= inlay_dtype_bits(input->dtype) / 8;
        mvn_group[input->dtype]((const char *)input->data + offset, (char *)call->out[0].data + offset, &plan->run);
    }
    return INLAY_OK;
}

static inlay_status run_mvn(const kit_call *call)
{
    const mvn_plan *plan = call->plan;
    kit_call job = *call;

    if (call->in[0].count == 0)
        return INLAY_OK;
    return kit_parallel(call, plan->groups, MVN_GRAIN / (plan->run.row_length * plan->run.rows) + 1, mvn_groups, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "MeanVarianceNormalization",
      .since_min = 9,
      .in_types = { KIT_FLOATS },
      .flags = KIT_IN_PLACE_FIRST,
      .prepare = prepare_mvn,
      .shape = shape_mvn,
      .run = run_mvn },
};
const kit_table OPERATOR(operators_mean_variance_normalization) = { kernels, KIT_COUNT(kernels) };
