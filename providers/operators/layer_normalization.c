/* LayerNormalization (ONNX 17) and RMSNormalization (ONNX 23) normalize each row, which consists of the axes from
 * `axis` on. SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft add a residual first.
 *
 * stash_type is the minimum precision of the statistics. They are computed in double for double, otherwise in float,
 * which is always sufficient. Scale and bias broadcast to X. Usually all rows share one row of scale and bias,
 * sometimes one element. In the rare case that scale or bias differ between rows, they are gathered for each row. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/lanes.h"
#include "operators/operators.h"
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
#include "operators/floats.inc"

typedef void (*layer_row_fn)(const void *input, void *output, int64_t count, const void *scale, const void *bias,
                             const layer_row_args *args, double *out_mean, double *out_inverse);
static const layer_row_fn layer_row[INLAY_DTYPE_COUNT] = BY_FLOAT(layer_row);

typedef struct layer_state {
    double epsilon;
    int64_t axis;
    bool root_mean_square;
} layer_state;

/* How scale or bias is read. */
typedef struct layer_operand {
    bool present;
    bool direct;                     /* the tensor already is a row of ACC, and is read in place */
    bool per_row;                    /* differs between rows: gathered for each row */
    int64_t strides[INLAY_MAX_RANK]; /* along the axes of X, 0 where it is broadcast */
    uint64_t offset; /* offset in the workspace of the converted row: one for all rows, or one per worker */
} layer_operand;

typedef struct layer_plan {
    uint32_t axis;
    int64_t rows, row_length;
    uint32_t acc_bytes;
    layer_operand operands[2];
    bool converts; /* Y has another type than X: rows are computed in ACC first */
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
    state->root_mean_square = kit_op_type(node)[0] == 'R';
    *out_state = state;
    return INLAY_OK;
}

static inlay_status layer_operand_plan(const kit_tensor *input, const kit_tensor *parameter, layer_plan *plan,
                                       layer_operand *operand, inlay_diag *diag)
{
    int64_t stride = 1;
    bool whole = true; /* the parameter has all elements of a row */

    INLAY_CHECK(plan->axis < input->rank);
    operand->present = true;
    if (parameter->rank > input->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "scale or bias of rank %u does not broadcast to rank %u",
                          parameter->rank, input->rank);
    for (uint32_t axis_from_end = 1; axis_from_end <= parameter->rank; axis_from_end++) {
        uint32_t axis = input->rank - axis_from_end;
        int64_t dim = parameter->dims[parameter->rank - axis_from_end];
        if (dim != 1 && dim != input->dims[axis])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "scale or bias has %lld elements along axis %u, X has %lld",
                              (long long)dim, axis, (long long)input->dims[axis]);
        operand->strides[axis] = dim == 1 ? 0 : stride;
        operand->per_row |= axis < plan->axis && dim != 1;
        stride *= dim;
    }
    for (uint32_t axis = plan->axis; axis < input->rank; axis++)
        whole = whole && (operand->strides[axis] != 0 || input->dims[axis] == 1);
    operand->direct =
        whole && !operand->per_row && parameter->dtype == (plan->acc_bytes == 8 ? INLAY_DOUBLE : INLAY_FLOAT);
    return INLAY_OK;
}

static inlay_status shape_layer(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const layer_state *attributes = state;
    const kit_tensor *input = &plan->in[0];
    int64_t axis = attributes->axis < 0 ? attributes->axis + input->rank : attributes->axis;
    layer_plan *layer;
    uint64_t row_bytes;
    inlay_status status;

    if (axis < 0 || axis >= input->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside X's rank %u", (long long)attributes->axis,
                          input->rank);
    layer = kit_plan_new(plan, sizeof *layer);
    if (layer == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a normalization");
    layer->axis = (uint32_t)axis;
    layer->rows = layer->row_length = 1;
    layer->acc_bytes = input->dtype == INLAY_DOUBLE ? 8 : 4;
    layer->converts = plan->out[0].dtype != input->dtype;
    for (uint32_t d = 0; d < input->rank && input->count > 0; d++)
        *(d < layer->axis ? &layer->rows : &layer->row_length) *= input->dims[d];
    row_bytes = ((uint64_t)layer->row_length * layer->acc_bytes + 63) / 64 * 64;
    for (uint32_t parameter = 0; parameter < 2; parameter++) {
        layer_operand *operand = &layer->operands[parameter];
        if (plan->in_count <= 1 + parameter || plan->in[1 + parameter].dtype == INLAY_UNDEFINED)
            continue;
        status = layer_operand_plan(input, &plan->in[1 + parameter], layer, operand, diag);
        if (status != INLAY_OK)
            return status;
        if (!operand->direct) {
            uint64_t *offset = operand->per_row ? &layer->worker_bytes : &layer->shared_bytes;
            operand->offset = *offset;
            *offset += row_bytes;
        }
    }
    if (layer->converts) {
        layer->row_offset = layer->worker_bytes;
        layer->worker_bytes += row_bytes;
    }
    plan->workspace_bytes = layer->shared_bytes + layer->worker_bytes * plan->max_threads;
    return INLAY_OK;
}

/* Converts the part of a parameter that applies to a row to [row_length] of ACC. */
static void layer_gather(const layer_plan *plan, const layer_operand *operand, const kit_tensor *input,
                         const kit_tensor *parameter, int64_t row, void *out)
{
    int64_t index[INLAY_MAX_RANK] = { 0 }, base = 0;

    INLAY_CHECK(plan->axis < input->rank);
    for (uint32_t axis = plan->axis; axis-- > 0; row /= input->dims[axis])
        base += row % input->dims[axis] * operand->strides[axis];
    for (int64_t j = 0; j < plan->row_length; j++) {
        if (plan->acc_bytes == 8)
            convert_to_f64((double *)out + j, parameter->dtype, parameter->data, base, 1);
        else
            convert_to_f32((float *)out + j, parameter->dtype, parameter->data, base, 1);
        for (uint32_t axis = input->rank; axis-- > plan->axis;) {
            base += operand->strides[axis];
            if (++index[axis] < input->dims[axis])
                break;
            base -= operand->strides[axis] * input->dims[axis];
            index[axis] = 0;
        }
    }
}

typedef struct layer_job {
    const kit_call *call;
    const layer_plan *plan;
    layer_row_args args;
    const void *shared[2]; /* scale and bias if all rows share them, else NULL */
} layer_job;

static inlay_status layer_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const layer_job *job = user;
    const layer_plan *plan = job->plan;
    const kit_call *call = job->call;
    const kit_tensor *input = &call->in[0];
    kit_tensor *output = &call->out[0];
    char *worker_memory = (char *)call->workspace + plan->shared_bytes + worker * plan->worker_bytes;
    int64_t row_bytes = plan->row_length * (int64_t)(inlay_dtype_bits(input->dtype) / 8);

    INLAY_CHECK(layer_row[input->dtype] != NULL && end <= plan->rows);
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)input->data + row * row_bytes;
        char *to = plan->converts ? worker_memory + plan->row_offset : (char *)output->data + row * row_bytes;
        const void *operands[2] = { job->shared[0], job->shared[1] };
        double mean, inverse;

        for (uint32_t parameter = 0; parameter < 2; parameter++) {
            if (plan->operands[parameter].per_row) {
                layer_gather(plan, &plan->operands[parameter], input, &call->in[1 + parameter], row,
                             worker_memory + plan->operands[parameter].offset);
                operands[parameter] = worker_memory + plan->operands[parameter].offset;
            }
        }
        layer_row[input->dtype](from, to, plan->row_length, operands[0], operands[1], &job->args, &mean, &inverse);
        if (plan->converts && plan->acc_bytes == 8)
            convert_from_f64(output->dtype, output->data, row * plan->row_length, plan->row_length,
                             (double *)(void *)to, 0);
        else if (plan->converts)
            convert_from_f32(output->dtype, output->data, row * plan->row_length, plan->row_length, (float *)(void *)to,
                             0);
        if (kit_has_output(call, 1))
            convert_from_f64(call->out[1].dtype, call->out[1].data, row, 1, &mean, 0);
        if (kit_has_output(call, 2))
            convert_from_f64(call->out[2].dtype, call->out[2].data, row, 1, &inverse, 0);
    }
    return INLAY_OK;
}

/* The outputs of an input without elements: mean and inverse deviation of rows without elements are NaN. */
static inlay_status empty_rows(const kit_call *call)
{
    for (uint32_t i = 1; i <= 2; i++)
        for (int64_t j = 0; kit_has_output(call, i) && j < call->out[i].count; j++)
            convert_from_f64(call->out[i].dtype, call->out[i].data, j, 1, &(double){ NAN }, 0);
    return INLAY_OK;
}

static inlay_status run_layer(const kit_call *call)
{
    const layer_state *state = call->state;
    const layer_plan *plan = call->plan;
    layer_job job = { .call = call, .plan = plan, .args = { state->epsilon, state->root_mean_square, plan->converts } };

    if (call->in[0].count == 0)
        return empty_rows(call);
    for (uint32_t i = 0; i < 2; i++) {
        const layer_operand *operand = &plan->operands[i];
        const kit_tensor *tensor = &call->in[1 + i];
        if (!operand->present || operand->per_row)
            continue;
        job.shared[i] = operand->direct ? tensor->data : (char *)call->workspace + operand->offset;
        if (!operand->direct)
            layer_gather(plan, operand, &call->in[0], tensor, 0, (char *)call->workspace + operand->offset);
    }
    return kit_parallel(call, plan->rows, LAYER_GRAIN / plan->row_length + 1, layer_rows, &job);
}

/* Inputs of SkipLayerNormalization (com.microsoft-1); SkipSimplifiedLayerNormalization has no beta. */
enum { SKIP_X, SKIP_SKIP, SKIP_GAMMA, SKIP_BETA, SKIP_BIAS };
enum { SKIP_SUM = 3 }; /* index of an output */

typedef struct skip_state {
    double epsilon;
    bool simplified;
} skip_state;

typedef struct skip_plan {
    int64_t rows, row_length, skip_rows; /* row i of X uses row i % skip_rows of skip */
    bool wide;                           /* elements are of type ACC */
    uint64_t row_bytes;                  /* bytes reserved for a row of ACC */
} skip_plan;

static inlay_status prepare_skip(const kit_node *node, void **out_state, inlay_diag *diag)
{
    skip_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a normalization");
    state->epsilon = kit_attr_float(node->info, "epsilon", 1e-12);
    state->simplified = strncmp(kit_op_type(node), "SkipSimplified", 14) == 0;
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape_skip(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[SKIP_X], *skip = &plan->in[SKIP_SKIP];
    skip_plan *layer;

    (void)state;
    if (input->rank < 1 || skip->rank < 1 || skip->dims[skip->rank - 1] != input->dims[input->rank - 1] ||
        (input->count > 0 && (skip->count == 0 || input->count % skip->count != 0)))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "skip of %lld elements does not broadcast to an input of %lld",
                          (long long)skip->count, (long long)input->count);
    for (uint32_t i = SKIP_GAMMA; i < plan->in_count; i++)
        if (plan->in[i].dtype != INLAY_UNDEFINED && plan->in[i].count != input->dims[input->rank - 1])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has %lld elements, the last axis %lld", i,
                              (long long)plan->in[i].count, (long long)input->dims[input->rank - 1]);
    layer = kit_plan_new(plan, sizeof *layer);
    if (layer == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a normalization");
    layer->row_length = input->dims[input->rank - 1];
    layer->rows = input->count > 0 ? input->count / layer->row_length : 0;
    layer->skip_rows = input->count > 0 ? skip->count / layer->row_length : 1;
    layer->wide = input->dtype == INLAY_FLOAT || input->dtype == INLAY_DOUBLE;
    layer->row_bytes = ((uint64_t)layer->row_length * (input->dtype == INLAY_DOUBLE ? 8 : 4) + 63) / 64 * 64;
    /* Rows of ACC: gamma, beta and bias; for each worker the sum, and two rows to compute the sum. */
    plan->workspace_bytes = layer->row_bytes * ((layer->wide ? 0 : 3) + (layer->wide ? 1u : 3u) * plan->max_threads);
    return INLAY_OK;
}

#define SUM_ROW(T)                                                                                                     \
    static void sum_row_##T(const T *input, const T *bias, const T *skip, T *restrict out, int64_t count)              \
    {                                                                                                                  \
        if (bias != NULL)                                                                                              \
            for (int64_t i = 0; i < count; i++)                                                                        \
                out[i] = (input[i] + bias[i]) + skip[i];                                                               \
        else                                                                                                           \
            for (int64_t i = 0; i < count; i++)                                                                        \
                out[i] = input[i] + skip[i];                                                                           \
    }
SUM_ROW(float)
SUM_ROW(double)

typedef struct skip_job {
    const kit_call *call;
    const skip_plan *plan;
    layer_row_args args;
    const void *gamma, *beta, *bias; /* [row_length] of ACC; beta and bias may be NULL */
    char *workers;                   /* workspace of the workers */
} skip_job;

/* Computes the sum of float16 or bfloat16 rows, rounded after each addition like separate Add nodes. */
static void sum_narrow(const skip_job *job, const kit_tensor *input, const char *from, const char *skip, float *sum,
                       float *addend, void *out)
{
    int64_t count = job->plan->row_length;

    convert_to_f32(sum, input->dtype, from, 0, count);
    for (int step = job->bias != NULL ? 0 : 1; step < 2; step++) {
        const float *current_addend = step == 0 ? job->bias : addend;

        if (step == 1)
            convert_to_f32(addend, input->dtype, skip, 0, count);
        for (int64_t i = 0; i < count; i++)
            sum[i] += current_addend[i];
        convert_from_f32(input->dtype, out, 0, count, sum, 0);
        convert_to_f32(sum, input->dtype, out, 0, count);
    }
}

static inlay_status skip_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const skip_job *job = user;
    const skip_plan *plan = job->plan;
    const kit_call *call = job->call;
    const kit_tensor *input = &call->in[SKIP_X];
    const int64_t bytes = plan->row_length * (int64_t)(inlay_dtype_bits(input->dtype) / 8);
    char *worker_memory = job->workers + worker * plan->row_bytes * (plan->wide ? 1 : 3);

    INLAY_CHECK(plan->skip_rows > 0 && job->workers != NULL);
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)input->data + row * bytes;
        const char *skip = (const char *)call->in[SKIP_SKIP].data + row % plan->skip_rows * bytes;
        char *sum = kit_has_output(call, SKIP_SUM) ? (char *)call->out[SKIP_SUM].data + row * bytes : worker_memory;
        double mean, inverse;

        if (input->dtype == INLAY_FLOAT)
            sum_row_float((const void *)from, job->bias, (const void *)skip, (void *)sum, plan->row_length);
        else if (input->dtype == INLAY_DOUBLE)
            sum_row_double((const void *)from, job->bias, (const void *)skip, (void *)sum, plan->row_length);
        else
            sum_narrow(job, input, from, skip, (void *)(worker_memory + plan->row_bytes),
                       (void *)(worker_memory + 2 * plan->row_bytes), sum);
        layer_row[input->dtype](sum, (char *)call->out[0].data + row * bytes, plan->row_length, job->gamma, job->beta,
                                &job->args, &mean, &inverse);
        if (kit_has_output(call, 1))
            ((float *)call->out[1].data)[row] = (float)mean;
        if (kit_has_output(call, 2))
            ((float *)call->out[2].data)[row] = (float)inverse;
    }
    return INLAY_OK;
}

/* Returns input `index` as [row_length] of ACC, converted to workspace slot `slot` if necessary; NULL if the input is
 * missing. */
static const void *skip_vector(const kit_call *call, const skip_plan *plan, uint32_t index, uint32_t slot)
{
    float *copy = (float *)(void *)((char *)call->workspace + slot * plan->row_bytes);

    INLAY_CHECK(slot < 3);
    if (index >= call->in_count || call->in[index].dtype == INLAY_UNDEFINED)
        return NULL;
    if (plan->wide)
        return call->in[index].data;
    convert_to_f32(copy, call->in[index].dtype, call->in[index].data, 0, plan->row_length);
    return copy;
}

static inlay_status run_skip(const kit_call *call)
{
    const skip_state *state = call->state;
    const skip_plan *plan = call->plan;
    skip_job job = { .call = call, .plan = plan, .args = { state->epsilon, state->simplified, false } };

    if (call->in[SKIP_X].count == 0)
        return empty_rows(call);
    job.gamma = skip_vector(call, plan, SKIP_GAMMA, 0);
    job.beta = state->simplified ? NULL : skip_vector(call, plan, SKIP_BETA, 1);
    job.bias = skip_vector(call, plan, state->simplified ? SKIP_BETA : SKIP_BIAS, 2);
    job.workers = (char *)call->workspace + (plan->wide ? 0 : 3 * plan->row_bytes);
    return kit_parallel(call, plan->rows, LAYER_GRAIN / plan->row_length + 1, skip_rows, &job);
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
const kit_table OPERATOR(operators_layer_normalization) = { kernels, KIT_COUNT(kernels) };
