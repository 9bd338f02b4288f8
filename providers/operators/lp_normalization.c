/* LpNormalization: ONNX 1, 22. Divides the vectors along an axis by their 1-norm or 2-norm. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "operators/elementwise.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "simd/axis.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

/* UNITS_FROM: elements of rows of floats from which on the SIMD kernel is faster than tiles. */
enum { LP_GRAIN = 1 << 14, UNITS_FROM = 24 };

#define BODY "lp_normalization.inc"
#include "operators/floats.inc"

typedef void (*lp_row_fn)(const void *input, void *output, int64_t count, bool euclidean);
static const lp_row_fn lp_row[INLAY_DTYPE_COUNT] = {
    [INLAY_DOUBLE] = lp_row_f64, [INLAY_FLOAT16] = lp_row_f16, [INLAY_BFLOAT16] = lp_row_bf16
};
static const axis_fn lp_columns[INLAY_DTYPE_COUNT] = BY_FLOAT(lp_columns);

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
    axis_cut cut;
    bool euclidean;
} lp_job;

static inlay_status lp_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const lp_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    void *output = job->call->out[0].data;
    const int64_t row = job->cut.n * job->cut.in_bytes;

    (void)worker;
    if (!axis_is_rows(&job->cut)) {
        axis_run(&job->cut, begin, end, input->data, output, lp_columns[input->dtype], &job->euclidean);
        return INLAY_OK;
    }
    if (input->dtype == INLAY_FLOAT)
        KERNEL_BEST(rows)->units((const float *)input->data + begin * job->cut.n, (float *)output + begin * job->cut.n,
                                 end - begin, job->cut.n, job->euclidean);
    for (int64_t r = begin; r < end && input->dtype != INLAY_FLOAT; r++)
        lp_row[input->dtype]((const char *)input->data + r * row, (char *)output + r * row, job->cut.n, job->euclidean);
    return INLAY_OK;
}

static inlay_status run_lp(const kit_call *call)
{
    const lp_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t bytes = inlay_dtype_bits(input->dtype) / 8;
    int64_t axis = state->axis < 0 ? state->axis + input->rank : state->axis;
    lp_job job = { .call = call, .euclidean = state->euclidean };

    if (axis < 0 || axis >= input->rank)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "LpNormalization: axis %lld is outside the input's rank %u",
                          (long long)state->axis, input->rank);
    if (input->count == 0)
        return INLAY_OK;
    job.cut = axis_cut_of(strided_product(input->dims, 0, (uint32_t)axis), input->dims[axis],
                          strided_product(input->dims, (uint32_t)axis + 1, input->rank), bytes, bytes, false,
                          AXIS_COLUMNS, input->dtype == INLAY_FLOAT ? UNITS_FROM : axis_rows_from(bytes));
    return kit_parallel(call, job.cut.units, LP_GRAIN / (input->count / job.cut.units + 1) + 1, lp_units, &job);
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
