/* Scatter (ONNX 9, 11), ScatterElements (11, 13, 16, 18), ScatterND (11, 13, 16, 18): the data are copied, then each
 * update replaces an element, or is combined with it (add, mul, max, min). Updates with equal indices are applied in
 * order. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/indices.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "operators/work.h"

typedef void (*reduce_fn)(void *to, const void *from, int64_t count);
enum { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN, REDUCE_COUNT };

#define WRAP ACC
#define BODY "scatter.inc"
#include "operators/floats.inc"
#undef WRAP

#define ACC T
#define WRAP UNSIGNED
#define LOAD(x) (x)
#define STORE(x) (x)
#define BODY "scatter.inc"
#include "operators/integers.inc"
#undef ACC
#undef WRAP
#undef STORE

#define NAME(what) what##_bool
#define T uint8_t
#define ACC uint32_t
#define WRAP uint32_t
#define STORE(x) ((uint8_t)((x) != 0))
#include "operators/scatter.inc"

/* Complex numbers can be added and multiplied, but have no order. */
static void add_c64(void *to, const void *from, int64_t count)
{
    add_f32(to, from, 2 * count);
}
static void add_c128(void *to, const void *from, int64_t count)
{
    add_f64(to, from, 2 * count);
}
static void mul_c64(void *to, const void *from, int64_t count)
{
    float *target = to;
    const float *update = from;

    for (int64_t i = 0; i < count; i++, target += 2, update += 2) {
        const float real = target[0] * update[0] - target[1] * update[1];
        target[1] = target[0] * update[1] + target[1] * update[0];
        target[0] = real;
    }
}
static void mul_c128(void *to, const void *from, int64_t count)
{
    double *target = to;
    const double *update = from;

    for (int64_t i = 0; i < count; i++, target += 2, update += 2) {
        const double real = target[0] * update[0] - target[1] * update[1];
        target[1] = target[0] * update[1] + target[1] * update[0];
        target[0] = real;
    }
}

#define REDUCTIONS(suffix)                                                                                             \
    {                                                                                                                  \
        NULL, add_##suffix, mul_##suffix, max_##suffix, min_##suffix                                                   \
    }
static const reduce_fn by_dtype[INLAY_DTYPE_COUNT][REDUCE_COUNT] = {
    [INLAY_FLOAT] = REDUCTIONS(f32),
    [INLAY_DOUBLE] = REDUCTIONS(f64),
    [INLAY_FLOAT16] = REDUCTIONS(f16),
    [INLAY_BFLOAT16] = REDUCTIONS(bf16),
    [INLAY_INT8] = REDUCTIONS(i8),
    [INLAY_INT16] = REDUCTIONS(i16),
    [INLAY_INT32] = REDUCTIONS(i32),
    [INLAY_INT64] = REDUCTIONS(i64),
    [INLAY_UINT8] = REDUCTIONS(u8),
    [INLAY_UINT16] = REDUCTIONS(u16),
    [INLAY_UINT32] = REDUCTIONS(u32),
    [INLAY_UINT64] = REDUCTIONS(u64),
    [INLAY_BOOL] = REDUCTIONS(bool),
    [INLAY_COMPLEX64] = { NULL, add_c64, mul_c64, NULL, NULL },
    [INLAY_COMPLEX128] = { NULL, add_c128, mul_c128, NULL, NULL },
};

typedef struct scatter_state {
    int64_t axis;
    uint32_t reduction;
} scatter_state;

static const char *const reduction_names[REDUCE_COUNT] = { "none", "add", "mul", "max", "min" };

static uint32_t find_reduction(const kit_node *node)
{
    const char *name = kit_attr_string(node->info, "reduction", "none");
    uint32_t reduction = 0;

    while (reduction < REDUCE_COUNT && strcmp(name, reduction_names[reduction]) != 0)
        reduction++;
    return reduction;
}

static bool supports_scatter(const kit_node *node, kit_refusal *why)
{
    const inlay_dtype dtype = kit_input_dtype(node, 0);
    const uint32_t reduction = find_reduction(node);

    if (reduction >= REDUCE_COUNT)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use none, add, mul, max or min", "reduction '%s' is unknown",
                          kit_attr_string(node->info, "reduction", ""));
    if (reduction != REDUCE_NONE && dtype > 0 && dtype < INLAY_DTYPE_COUNT && by_dtype[dtype][reduction] == NULL)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "", "elements of type %s have no %s", inlay_dtype_name(dtype),
                          reduction_names[reduction]);
    return true;
}

static inlay_status prepare_scatter(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(scatter_state), out_state, diag);

    if (status == INLAY_OK)
        *(scatter_state *)*out_state = (scatter_state){ kit_attr_int(node->info, "axis", 0), find_reduction(node) };
    return status;
}

/* Finds the reduction of the node and element type; NULL: updates replace elements. */
static inlay_status reduction_of(const kit_call *call, reduce_fn *out)
{
    const uint32_t reduction = ((const scatter_state *)call->state)->reduction;

    *out = reduction < REDUCE_COUNT ? by_dtype[call->in[0].dtype][reduction] : NULL;
    if (reduction >= REDUCE_COUNT || (reduction != REDUCE_NONE && *out == NULL))
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "no such reduction of elements of type %s",
                          inlay_dtype_name(call->in[0].dtype));
    return INLAY_OK;
}

typedef struct elements_job {
    char *out;
    const char *updates;
    const kit_tensor *indices;
    reduce_fn reduce;
    int64_t dim;       /* size of the axis in data */
    int64_t axis_step; /* elements */
    int64_t row_step;  /* elements between columns; 0 if the axis is the last one */
    int64_t columns;
    int64_t rows_per_unit; /* rows per index of axis 0 */
    uint32_t element;
    uint32_t row_rank;
    int64_t steps[INLAY_MAX_RANK]; /* strides of data in elements; 0 for the axis */
} elements_job;

/* Replaces elements at the 64-bit indices of a row by the updates; element is a constant after inlining. */
static inline __attribute__((always_inline)) void write_row(const elements_job *job, int64_t first, int64_t row_at,
                                                            const uint32_t element)
{
    const int64_t *at = (const int64_t *)job->indices->data + first;
    const char *from = job->updates + first * element;
    const int64_t dim = job->dim, step = job->axis_step, row_step = job->row_step, columns = job->columns;
    char *out = job->out + row_at * element;

    for (int64_t j = 0; j < columns; j++)
        memcpy(out + (j * row_step + (at[j] + (at[j] < 0 ? dim : 0)) * step) * element, from + j * element, element);
}

/* Processes the row with a specialized loop; returns false if there is no such loop. */
static bool write_specialized(const elements_job *job, int64_t first, int64_t row_at)
{
    if (job->reduce != NULL || job->indices->dtype != INLAY_INT64 || (job->element != 4 && job->element != 8))
        return false;
    if (job->element == 4)
        write_row(job, first, row_at, 4);
    else
        write_row(job, first, row_at, 8);
    return true;
}

/* A unit of work is an index of axis 0. Units write to different positions unless axis 0 is the scattered axis. */
static inlay_status elements_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const elements_job *job = user;
    strided_walk walk;

    (void)worker;
    INLAY_CHECK(job->rows_per_unit > 0 && job->columns > 0);
    strided_walk_init(&walk, job->row_rank, job->indices->dims, job->steps, NULL);
    strided_walk_seek(&walk, begin * job->rows_per_unit);
    for (int64_t row = begin * job->rows_per_unit; row < end * job->rows_per_unit; row++, strided_walk_next(&walk)) {
        for (int64_t j = write_specialized(job, row * job->columns, walk.offset[0]) ? job->columns : 0;
             j < job->columns; j++) {
            const int64_t from = row * job->columns + j, index = arg_index(job->indices, from);
            char *to = job->out +
                       (walk.offset[0] + j * job->row_step + (index < 0 ? index + job->dim : index) * job->axis_step) *
                           job->element;

            if (job->reduce != NULL)
                job->reduce(to, job->updates + from * job->element, 1);
            else
                memcpy(to, job->updates + from * job->element, job->element);
        }
    }
    return INLAY_OK;
}

static inlay_status check_elements(const kit_call *call, uint32_t axis)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *updates = &call->in[2];
    const int64_t dim = input->dims[axis];

    if (indices->rank != input->rank || updates->rank != input->rank ||
        memcmp(indices->dims, updates->dims, input->rank * sizeof *input->dims) != 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "indices and updates must have the same shape, and the rank %u of data", input->rank);
    for (uint32_t i = 0; i < input->rank; i++)
        if (i != axis && indices->dims[i] > input->dims[i])
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "indices have size %lld on axis %u, data only %lld",
                              (long long)indices->dims[i], i, (long long)input->dims[i]);
    return indices_check(call, indices, dim);
}

static inlay_status run_scatter_elements(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    elements_job job = { .out = output->data, .updates = call->in[2].data, .indices = indices };
    inlay_status status = INLAY_OK;
    uint32_t axis;
    int64_t units;

    INLAY_TRY(arg_axis(call->diag, ((const scatter_state *)call->state)->axis, input->rank, "axis", &axis));
    INLAY_TRY(arg_expect_dims(call->diag, output, input->rank, input->dims));
    INLAY_TRY(check_elements(call, axis));
    INLAY_TRY(reduction_of(call, &job.reduce));
    INLAY_TRY(strided_memcpy(call, output->data, input->data, kit_bytes(input->dtype, input->count)));
    if (indices->count == 0)
        goto done;
    job.dim = input->dims[axis];
    job.element = strided_element_bytes(input->dtype);
    strided_row_major(input->rank, input->dims, 1, job.steps);
    job.axis_step = job.steps[axis];
    job.steps[axis] = 0;
    job.row_step = job.axis_step == 1 ? 0 : 1; /* the axis is the last one, or all after it have one element */
    job.row_rank = job.axis_step == 1 ? axis : input->rank - 1;
    job.columns = indices->dims[job.row_rank];
    while (job.row_rank > axis + 1 && indices->dims[job.row_rank] == input->dims[job.row_rank])
        job.columns *= indices->dims[--job.row_rank];
    units = axis > 0 ? indices->dims[0] : 1;
    job.rows_per_unit = indices->count / job.columns / units;
    INLAY_TRY(kit_parallel(call, units, 16384 / (indices->count / units) + 1, elements_range, &job));
done:
    return status;
}

static inlay_status check_nd(const kit_call *call, uint32_t depth)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *updates = &call->in[2];
    const int64_t *index = indices->data;
    bool matches = updates->rank == indices->rank - 1 + input->rank - depth;

    INLAY_CHECK(depth <= input->rank && indices->rank >= 1);
    for (uint32_t i = 0; matches && i < updates->rank; i++)
        matches = updates->dims[i] ==
                  (i + 1 < indices->rank ? indices->dims[i] : input->dims[depth + i - (indices->rank - 1)]);
    if (!matches)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "updates must have the axes of indices but the last, then those of data from axis %u on",
                          depth);
    for (int64_t i = 0; i < indices->count; i++) {
        const int64_t dim = input->dims[i % depth];

        if (index[i] < -dim || index[i] >= dim)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "indices[%lld] is %lld, outside [-%lld, %lld)",
                              (long long)i, (long long)index[i], (long long)dim, (long long)dim);
    }
    return INLAY_OK;
}

static inlay_status run_scatter_nd(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    int64_t steps[INLAY_MAX_RANK] = { 0 }, depth, block, tuples;
    const char *from = call->in[2].data;
    const int64_t *index = indices->data;
    inlay_status status = INLAY_OK;
    reduce_fn reduce;

    if (indices->rank == 0 || input->rank == 0 || indices->dims[indices->rank - 1] > (int64_t)input->rank)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "index tuples do not fit data of rank %u", input->rank);
    depth = indices->dims[indices->rank - 1];
    INLAY_TRY(arg_expect_dims(call->diag, output, input->rank, input->dims));
    INLAY_TRY(check_nd(call, (uint32_t)depth));
    INLAY_TRY(reduction_of(call, &reduce));
    INLAY_TRY(strided_memcpy(call, output->data, input->data, kit_bytes(input->dtype, input->count)));
    strided_row_major(input->rank, input->dims, strided_element_bytes(input->dtype), steps);
    block = strided_product(input->dims, (uint32_t)depth, input->rank);
    tuples = strided_product(indices->dims, 0, indices->rank - 1);
    for (int64_t tuple = 0; tuple < tuples && block > 0;
         tuple++, index += depth, from += block * strided_element_bytes(input->dtype)) {
        char *to = output->data;

        for (int64_t axis = 0; axis < depth; axis++)
            to += (index[axis] < 0 ? index[axis] + input->dims[axis] : index[axis]) * steps[axis];
        if (reduce != NULL)
            reduce(to, from, block);
        else
            memcpy(to, from, (size_t)(block * strided_element_bytes(input->dtype)));
    }
done:
    return status;
}

/* The cost of a copy of the data, unless they are updated in place, and of a random access for each element or slice of
 * the updates. */
static void cost_scatter(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *indices = &shapes->in[1];
    double steps = work_count(indices);

    if (strcmp(kit_op_type(node), "ScatterND") == 0 && indices->rank > 0 && indices->dims[indices->rank - 1] > 0)
        steps /= (double)indices->dims[indices->rank - 1];
    work_cost(shapes, steps, 3, 1, cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "Scatter",
      .flags = KIT_IN_PLACE_FIRST,
      .prepare = prepare_scatter,
      .cost = cost_scatter,
      .run = run_scatter_elements },
    { .op_type = "ScatterElements",
      .flags = KIT_IN_PLACE_FIRST,
      .supports = supports_scatter,
      .prepare = prepare_scatter,
      .cost = cost_scatter,
      .run = run_scatter_elements },
    { .op_type = "ScatterND",
      .flags = KIT_IN_PLACE_FIRST,
      .supports = supports_scatter,
      .prepare = prepare_scatter,
      .cost = cost_scatter,
      .run = run_scatter_nd },
};
const kit_table OPERATOR(operators_scatter) = { kernels, KIT_COUNT(kernels) };
