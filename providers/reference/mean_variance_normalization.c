/* MeanVarianceNormalization: ONNX 9, 13. (x - mean) / (deviation + 1e-9) over any set of axes. */
#include "instance.h"
#include "reference.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { MVN_GRAIN = 1 << 14 };

/* The axes that are normalised over: `rows` rows, the indexes of dims [rank], of n elements. */
typedef struct mvn_run {
    int64_t dims[INLAY_MAX_RANK], strides[INLAY_MAX_RANK];
    uint32_t rank;
    int64_t rows, n, step;
} mvn_run;

/* Moves index to the next row; returns by how many elements that moves the offset. */
static inline int64_t mvn_next(const mvn_run *run, int64_t *index)
{
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
#include "floats.inc"

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
        return inlay_fail(diag, INLAY_INVALID_MODEL, "axes has %u entries, more than any tensor has axes", count);
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
    const mvn_state *s = state;
    const kit_tensor *input = &plan->in[0];
    bool normalised[INLAY_MAX_RANK] = { false };
    int64_t stride = 1, strides[INLAY_MAX_RANK];
    mvn_plan *p;

    for (uint32_t i = 0; i < s->axis_count; i++) {
        int64_t axis = s->axes[i] < 0 ? s->axes[i] + input->rank : s->axes[i];
        if (axis < 0 || axis >= input->rank)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside the input's rank %u",
                              (long long)s->axes[i], input->rank);
        normalised[axis] = true;
    }
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a normalization");
    plan->plan = p;
    p->groups = p->run.rows = p->run.n = p->run.step = 1;
    if (input->count == 0)
        return INLAY_OK;
    for (uint32_t d = input->rank; d-- > 0; stride *= input->dims[d])
        strides[d] = stride;
    for (uint32_t d = 0; d < input->rank; d++) {
        mvn_run *run = &p->run;
        if (input->dims[d] == 1)
            continue;
        if (!normalised[d]) {
            p->kept_dims[p->kept_rank] = input->dims[d];
            p->kept_strides[p->kept_rank++] = strides[d];
            p->groups *= input->dims[d];
        } else if (run->rank > 0 &&
                   run->strides[run->rank - 1] == strides[d] * input->dims[d]) { /* joins the axis before */
            run->dims[run->rank - 1] *= input->dims[d];
            run->strides[run->rank - 1] = strides[d];
        } else {
            run->dims[run->rank] = input->dims[d];
            run->strides[run->rank++] = strides[d];
        }
    }
    if (p->run.rank > 0) {
        p->run.rank--;
        p->run.n = p->run.dims[p->run.rank];
        p->run.step = p->run.strides[p->run.rank];
    }
    for (uint32_t d = 0; d < p->run.rank; d++)
        p->run.rows *= p->run.dims[d];
    return INLAY_OK;
}

static inlay_status mvn_groups(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const mvn_plan *plan = call->plan;
    const kit_tensor *input = &call->in[0];

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t offset = 0, rest = i;
        for (uint32_t d = plan->kept_rank; d-- > 0; rest /= plan->kept_dims[d])
            offset += rest % plan->kept_dims[d] * plan->kept_strides[d];
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
    return kit_parallel(call, plan->groups, MVN_GRAIN / (plan->run.n * plan->run.rows) + 1, mvn_groups, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "MeanVarianceNormalization",
      .in_types = { KIT_FLOATS },
      .flags = KIT_IN_PLACE_FIRST,
      .prepare = prepare_mvn,
      .shape = shape_mvn,
      .run = run_mvn },
};
const kit_table OPERATOR(reference_mean_variance_normalization) = { kernels, KIT_COUNT(kernels) };
