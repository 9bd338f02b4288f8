/* LayerNormalization (ONNX 17) and RMSNormalization (ONNX 23): each row, the axes from `axis` on, is normalised. And
 * the contributed operators of com.microsoft that add a residual first.
 *
 * stash_type is the least precision of the statistics; these are made in float, for double in double, which is never
 * less. Scale and bias broadcast to X: nearly always they are one row for all, sometimes one element, and very rarely
 * they differ between rows, in which case each row's is gathered. */
#include "instance.h"
#include "reference.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_GRAIN = 1 << 14 };

typedef struct layer_row_args {
    double epsilon;
    bool root_mean_square;
    bool wide;
} layer_row_args;

#define BODY "layer_normalization.inc"
#include "floats.inc"

typedef void (*layer_row_fn)(const void *input, void *output, int64_t n, const void *scale, const void *bias,
                             const layer_row_args *args, double *out_mean, double *out_inverse);
static const layer_row_fn layer_row[INLAY_DTYPE_COUNT] = BY_FLOAT(layer_row);

typedef struct layer_state {
    double epsilon;
    int64_t axis;
    bool root_mean_square;
} layer_state;

/* How input i (scale or bias) is read. */
typedef struct layer_operand {
    bool present;
    bool direct;                     /* already a row of ACC */
    bool per_row;                    /* differs between rows: gather each */
    int64_t strides[INLAY_MAX_RANK]; /* along the axes of X, 0 where it is repeated */
    uint64_t offset;                 /* of its row in the workspace: one for all, or one a worker */
} layer_operand;

typedef struct layer_plan {
    uint32_t axis;
    int64_t rows, n;
    uint32_t acc_bytes;
    layer_operand operands[2];
    bool converts; /* Y has another type than X: rows are made in ACC first */
    uint64_t row_offset;
    uint64_t worker_bytes; /* workspace of one worker; the shared part comes first */
    uint64_t shared_bytes;
} layer_plan;

static inlay_status prepare_layer(const kit_node *node, void **out_state, inlay_diag *diag)
{
    layer_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a normalization");
    state->epsilon = kit_attr_float(node->info, "epsilon", 1e-5);
    state->axis = kit_attr_int(node->info, "axis", -1);
    state->root_mean_square = node->info->op_type.data[0] == 'R';
    *out_state = state;
    return INLAY_OK;
}

static inlay_status layer_operand_plan(const kit_tensor *x, const kit_tensor *tensor, layer_plan *plan,
                                       layer_operand *operand, inlay_diag *diag)
{
    int64_t stride = 1;
    bool whole = true; /* its elements lie as a row's do */

    operand->present = true;
    if (tensor->rank > x->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "scale or bias of rank %u does not broadcast to rank %u",
                          tensor->rank, x->rank);
    for (uint32_t k = 1; k <= tensor->rank; k++) {
        uint32_t d = x->rank - k;
        int64_t dim = tensor->dims[tensor->rank - k];
        if (dim != 1 && dim != x->dims[d])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "scale or bias has %lld elements along axis %u, X has %lld",
                              (long long)dim, d, (long long)x->dims[d]);
        operand->strides[d] = dim == 1 ? 0 : stride;
        operand->per_row |= d < plan->axis && dim != 1;
        stride *= dim;
    }
    for (uint32_t d = plan->axis; d < x->rank; d++)
        whole = whole && (operand->strides[d] != 0 || x->dims[d] == 1);
    operand->direct =
        whole && !operand->per_row && tensor->dtype == (plan->acc_bytes == 8 ? INLAY_DOUBLE : INLAY_FLOAT);
    return INLAY_OK;
}

static inlay_status shape_layer(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const layer_state *s = state;
    const kit_tensor *x = &plan->in[0];
    int64_t axis = s->axis < 0 ? s->axis + x->rank : s->axis;
    layer_plan *p;
    uint64_t row_bytes;
    inlay_status status;

    if (axis < 0 || axis >= x->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside X's rank %u", (long long)s->axis, x->rank);
    p = kit_plan_new(plan, sizeof *p);
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a normalization");
    p->axis = (uint32_t)axis;
    p->rows = p->n = 1;
    p->acc_bytes = x->dtype == INLAY_DOUBLE ? 8 : 4;
    p->converts = plan->out[0].dtype != x->dtype;
    for (uint32_t d = 0; d < x->rank && x->count > 0; d++)
        *(d < p->axis ? &p->rows : &p->n) *= x->dims[d];
    row_bytes = ((uint64_t)p->n * p->acc_bytes + 63) / 64 * 64;
    for (uint32_t i = 0; i < 2; i++) {
        layer_operand *operand = &p->operands[i];
        if (plan->in_count <= 1 + i || plan->in[1 + i].dtype == INLAY_UNDEFINED)
            continue;
        status = layer_operand_plan(x, &plan->in[1 + i], p, operand, diag);
        if (status != INLAY_OK)
            return status;
        if (!operand->direct) {
            uint64_t *where = operand->per_row ? &p->worker_bytes : &p->shared_bytes;
            operand->offset = *where;
            *where += row_bytes;
        }
    }
    if (p->converts) {
        p->row_offset = p->worker_bytes;
        p->worker_bytes += row_bytes;
    }
    plan->workspace_bytes = p->shared_bytes + p->worker_bytes * plan->max_threads;
    return INLAY_OK;
}

/* The part of operand tensor that belongs to a row, as [n] of ACC. */
static void layer_gather(const layer_plan *plan, const layer_operand *operand, const kit_tensor *x,
                         const kit_tensor *tensor, int64_t row, void *out)
{
    int64_t index[INLAY_MAX_RANK] = { 0 }, base = 0;

    for (uint32_t d = plan->axis; d-- > 0; row /= x->dims[d])
        base += row % x->dims[d] * operand->strides[d];
    for (int64_t j = 0; j < plan->n; j++) {
        if (plan->acc_bytes == 8)
            convert_to_f64((double *)out + j, tensor->dtype, tensor->data, base, 1);
        else
            convert_to_f32((float *)out + j, tensor->dtype, tensor->data, base, 1);
        for (uint32_t d = x->rank; d-- > plan->axis;) {
            base += operand->strides[d];
            if (++index[d] < x->dims[d])
                break;
            base -= operand->strides[d] * x->dims[d];
            index[d] = 0;
        }
    }
}

typedef struct layer_job {
    const kit_call *call;
    const layer_plan *plan;
    layer_row_args args;
    const void *shared[2]; /* scale, bias where they are the same for all rows */
} layer_job;

static inlay_status layer_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const layer_job *job = user;
    const layer_plan *plan = job->plan;
    const kit_call *call = job->call;
    const kit_tensor *x = &call->in[0];
    kit_tensor *output = &call->out[0];
    char *mine = (char *)call->workspace + plan->shared_bytes + worker * plan->worker_bytes;
    int64_t x_bytes = plan->n * (int64_t)(inlay_dtype_bits(x->dtype) / 8);

    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x->data + row * x_bytes;
        char *to = plan->converts ? mine + plan->row_offset : (char *)output->data + row * x_bytes;
        const void *operands[2] = { job->shared[0], job->shared[1] };
        double mean, inverse;

        for (uint32_t i = 0; i < 2; i++) {
            if (plan->operands[i].per_row) {
                layer_gather(plan, &plan->operands[i], x, &call->in[1 + i], row, mine + plan->operands[i].offset);
                operands[i] = mine + plan->operands[i].offset;
            }
        }
        layer_row[x->dtype](from, to, plan->n, operands[0], operands[1], &job->args, &mean, &inverse);
        if (plan->converts && plan->acc_bytes == 8)
            convert_from_f64(output->dtype, output->data, row * plan->n, plan->n, (double *)(void *)to, 0);
        else if (plan->converts)
            convert_from_f32(output->dtype, output->data, row * plan->n, plan->n, (float *)(void *)to, 0);
        if (kit_has_output(call, 1))
            convert_from_f64(call->out[1].dtype, call->out[1].data, row, 1, &mean, 0);
        if (kit_has_output(call, 2))
            convert_from_f64(call->out[2].dtype, call->out[2].data, row, 1, &inverse, 0);
    }
    return INLAY_OK;
}

static inlay_status run_layer(const kit_call *call)
{
    const layer_state *state = call->state;
    const layer_plan *plan = call->plan;
    layer_job job = { .call = call, .plan = plan, .args = { state->epsilon, state->root_mean_square, plan->converts } };

    if (call->in[0].count == 0) { /* statistics of nothing */
        for (uint32_t i = 1; i <= 2; i++)
            for (int64_t j = 0; kit_has_output(call, i) && j < call->out[i].count; j++)
                convert_from_f64(call->out[i].dtype, call->out[i].data, j, 1, &(double){ NAN }, 0);
        return INLAY_OK;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const layer_operand *operand = &plan->operands[i];
        const kit_tensor *tensor = &call->in[1 + i];
        if (!operand->present || operand->per_row)
            continue;
        job.shared[i] = operand->direct ? tensor->data : (char *)call->workspace + operand->offset;
        if (!operand->direct)
            layer_gather(plan, operand, &call->in[0], tensor, 0, (char *)call->workspace + operand->offset);
    }
    return kit_parallel(call, plan->rows, LAYER_GRAIN / plan->n + 1, layer_rows, &job);
}

/* ------------------------------------------------------------------ with a residual */

/* Inputs of SkipLayerNormalization (com.microsoft-1); SkipSimplifiedLayerNormalization has no beta. */
enum { SKIP_X, SKIP_SKIP, SKIP_GAMMA, SKIP_BETA, SKIP_BIAS };
enum { SKIP_SUM = 3 }; /* of the outputs */

typedef struct skip_state {
    double epsilon;
    bool simplified;
} skip_state;

typedef struct skip_plan {
    int64_t rows, n, skip_rows; /* skip is read again after so many rows */
    bool wide;                  /* elements are ACC already */
    uint64_t row_bytes;         /* of ACC, or of anything shorter */
} skip_plan;

static inlay_status prepare_skip(const kit_node *node, void **out_state, inlay_diag *diag)
{
    skip_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a normalization");
    state->epsilon = kit_attr_float(node->info, "epsilon", 1e-12);
    state->simplified = strncmp(node->info->op_type.data, "SkipSimplified", 14) == 0;
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape_skip(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *x = &plan->in[SKIP_X], *skip = &plan->in[SKIP_SKIP];
    skip_plan *p;

    (void)state;
    if (x->rank < 1 || skip->rank < 1 || skip->dims[skip->rank - 1] != x->dims[x->rank - 1] ||
        (x->count > 0 && (skip->count == 0 || x->count % skip->count != 0)))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "skip of %lld elements does not go into input of %lld",
                          (long long)skip->count, (long long)x->count);
    for (uint32_t i = SKIP_GAMMA; i < plan->in_count; i++)
        if (plan->in[i].dtype != INLAY_UNDEFINED && plan->in[i].count != x->dims[x->rank - 1])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has %lld elements, the last axis %lld", i,
                              (long long)plan->in[i].count, (long long)x->dims[x->rank - 1]);
    p = kit_plan_new(plan, sizeof *p);
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a normalization");
    p->n = x->dims[x->rank - 1];
    p->rows = x->count > 0 ? x->count / p->n : 0;
    p->skip_rows = x->count > 0 ? skip->count / p->n : 1;
    p->wide = x->dtype == INLAY_FLOAT || x->dtype == INLAY_DOUBLE;
    p->row_bytes = ((uint64_t)p->n * (x->dtype == INLAY_DOUBLE ? 8 : 4) + 63) / 64 * 64;
    /* gamma, beta, bias in ACC; for each worker the sum, and two rows to make it from. */
    plan->workspace_bytes = p->row_bytes * ((p->wide ? 0 : 3) + (p->wide ? 1u : 3u) * plan->max_threads);
    return INLAY_OK;
}

#define SUM_ROW(T)                                                                                                     \
    static void sum_row_##T(const T *x, const T *bias, const T *skip, T *restrict out, int64_t n)                      \
    {                                                                                                                  \
        if (bias != NULL)                                                                                              \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = (x[i] + bias[i]) + skip[i];                                                                   \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = x[i] + skip[i];                                                                               \
    }
SUM_ROW(float)
SUM_ROW(double)

typedef struct skip_job {
    const kit_call *call;
    const skip_plan *plan;
    layer_row_args args;
    const void *gamma, *beta, *bias; /* [n] of ACC; the latter two may be NULL */
    char *workers;                   /* their workspace */
} skip_job;

/* The sum of half-precision rows, rounded after each step as single additions would. */
static void sum_narrow(const skip_job *job, const kit_tensor *x, const char *from, const char *skip, float *a, float *b,
                       void *out)
{
    int64_t n = job->plan->n;

    convert_to_f32(a, x->dtype, from, 0, n);
    for (int step = job->bias != NULL ? 0 : 1; step < 2; step++) {
        const float *other = step == 0 ? job->bias : b;

        if (step == 1)
            convert_to_f32(b, x->dtype, skip, 0, n);
        for (int64_t i = 0; i < n; i++)
            a[i] += other[i];
        convert_from_f32(x->dtype, out, 0, n, a, 0);
        convert_to_f32(a, x->dtype, out, 0, n);
    }
}

static inlay_status skip_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const skip_job *job = user;
    const skip_plan *plan = job->plan;
    const kit_call *call = job->call;
    const kit_tensor *x = &call->in[SKIP_X];
    const int64_t bytes = plan->n * (int64_t)(inlay_dtype_bits(x->dtype) / 8);
    char *mine = job->workers + worker * plan->row_bytes * (plan->wide ? 1 : 3);

    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x->data + row * bytes;
        const char *skip = (const char *)call->in[SKIP_SKIP].data + row % plan->skip_rows * bytes;
        char *sum = kit_has_output(call, SKIP_SUM) ? (char *)call->out[SKIP_SUM].data + row * bytes : mine;
        double mean, inverse;

        if (x->dtype == INLAY_FLOAT)
            sum_row_float((const void *)from, job->bias, (const void *)skip, (void *)sum, plan->n);
        else if (x->dtype == INLAY_DOUBLE)
            sum_row_double((const void *)from, job->bias, (const void *)skip, (void *)sum, plan->n);
        else
            sum_narrow(job, x, from, skip, (void *)(mine + plan->row_bytes), (void *)(mine + 2 * plan->row_bytes), sum);
        layer_row[x->dtype](sum, (char *)call->out[0].data + row * bytes, plan->n, job->gamma, job->beta, &job->args,
                            &mean, &inverse);
        if (kit_has_output(call, 1))
            ((float *)call->out[1].data)[row] = (float)mean;
        if (kit_has_output(call, 2))
            ((float *)call->out[2].data)[row] = (float)inverse;
    }
    return INLAY_OK;
}

/* Input i as [n] of ACC; NULL: it is not there. */
static const void *skip_vector(const kit_call *call, const skip_plan *plan, uint32_t i, uint32_t slot)
{
    float *copy = (float *)(void *)((char *)call->workspace + slot * plan->row_bytes);

    if (i >= call->in_count || call->in[i].dtype == INLAY_UNDEFINED)
        return NULL;
    if (plan->wide)
        return call->in[i].data;
    convert_to_f32(copy, call->in[i].dtype, call->in[i].data, 0, plan->n);
    return copy;
}

static inlay_status run_skip(const kit_call *call)
{
    const skip_state *state = call->state;
    const skip_plan *plan = call->plan;
    skip_job job = { .call = call, .plan = plan, .args = { state->epsilon, state->simplified, false } };

    if (call->in[SKIP_X].count == 0)
        return INLAY_OK;
    job.gamma = skip_vector(call, plan, SKIP_GAMMA, 0);
    job.beta = state->simplified ? NULL : skip_vector(call, plan, SKIP_BETA, 1);
    job.bias = skip_vector(call, plan, state->simplified ? SKIP_BETA : SKIP_BIAS, 2);
    job.workers = (char *)call->workspace + (plan->wide ? 0 : 3 * plan->row_bytes);
    return kit_parallel(call, plan->rows, LAYER_GRAIN / plan->n + 1, skip_rows, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "LayerNormalization",
      .in_types = { KIT_FLOATS, KIT_FLOATS, KIT_FLOATS },
      .flags = KIT_IN_PLACE,
      .prepare = prepare_layer,
      .shape = shape_layer,
      .run = run_layer },
    { .op_type = "RMSNormalization",
      .in_types = { KIT_FLOATS, KIT_FLOATS },
      .prepare = prepare_layer,
      .shape = shape_layer,
      .run = run_layer },
    { .domain = "com.microsoft",
      .op_type = "SkipLayerNormalization",
      .in_types = { KIT_FLOATS, KIT_FLOATS, KIT_FLOATS },
      .prepare = prepare_skip,
      .shape = shape_skip,
      .run = run_skip },
    { .domain = "com.microsoft",
      .op_type = "SkipSimplifiedLayerNormalization",
      .in_types = { KIT_FLOATS, KIT_FLOATS, KIT_FLOATS },
      .prepare = prepare_skip,
      .shape = shape_skip,
      .run = run_skip },
};
const kit_table OPERATOR(reference_layer_normalization) = { kernels, KIT_COUNT(kernels) };
