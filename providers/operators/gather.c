/* Gather (ONNX 1, 11, 13), GatherElements (11, 13), GatherND (11, 12, 13). Elements are copied by size, independent of
 * their type. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/indices.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "operators/work.h"
#include "simd/vec.h"

typedef struct gather_state {
    int64_t axis;
    int64_t batch_dims;
} gather_state;

static inlay_status prepare_gather(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(gather_state), out_state, diag);

    if (status == INLAY_OK) {
        gather_state *state = *out_state;
        state->axis = kit_attr_int(node->info, "axis", 0);
        state->batch_dims = kit_attr_int(node->info, "batch_dims", 0);
    }
    return status;
}

/* For kernels that copy rows of the data with memcpy: a table of embeddings stays in the model's file. */
static inlay_status prepare_rows(const kit_node *node, void **out_state, inlay_diag *diag)
{
    kit_accept_unaligned(node, 0);
    return prepare_gather(node, out_state, diag);
}

typedef struct gather_job {
    const char *in;
    char *out;
    const kit_tensor *indices;
    int64_t dim;   /* size of the gathered axis */
    int64_t block; /* bytes of one row */
} gather_job;

/* Copies rows [begin, end). There is one row for each index of the axes before the gathered one and each element of
 * indices. */
static inlay_status gather_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const gather_job *job = user;
    const int64_t count = job->indices->count, block = job->block;
    int64_t at = begin % count;
    const char *plane = job->in + begin / count * job->dim * block;
    char *to = job->out + begin * block;

    INLAY_CHECK(count > 0 && block > 0);
    (void)worker;
    for (int64_t i = begin; i < end; i++, to += block) {
        int64_t index = arg_index(job->indices, at);
        const char *from = plane + (index < 0 ? index + job->dim : index) * block;

        switch (block) {
        case 4:
            memcpy(to, from, 4);
            break;
        case 8:
            memcpy(to, from, 8);
            break;
        default:
            memcpy(to, from, (size_t)block);
        }
        if (++at == count) {
            at = 0;
            plane += job->dim * block;
        }
    }
    return INLAY_OK;
}

static inlay_status run_gather(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    int64_t dims[2 * INLAY_MAX_RANK];
    uint32_t axis;
    gather_job job = { input->data, output->data, indices, 0, 0 };
    inlay_status status = INLAY_OK;

    INLAY_TRY(arg_axis(call->diag, ((const gather_state *)call->state)->axis, input->rank, "axis", &axis));
    for (uint32_t i = 0; i < axis; i++)
        dims[i] = input->dims[i];
    for (uint32_t i = 0; i < indices->rank; i++)
        dims[axis + i] = indices->dims[i];
    for (uint32_t i = axis + 1; i < input->rank; i++)
        dims[indices->rank + i - 1] = input->dims[i];
    INLAY_TRY(arg_expect_dims(call->diag, output, input->rank + indices->rank - 1, dims));
    INLAY_TRY(indices_check(call, indices, input->dims[axis]));
    if (output->count == 0)
        goto done;
    job.dim = input->dims[axis];
    job.block = strided_product(input->dims, axis + 1, input->rank) * strided_element_bytes(input->dtype);
    INLAY_TRY(kit_parallel(call, strided_product(input->dims, 0, axis) * indices->count, 65536 / job.block + 1,
                           gather_range, &job));
done:
    return status;
}

enum { ELEMENTS_CHECKED = 1024 }; /* indices of GatherElements that are checked before they are used */

typedef struct elements_job {
    const char *in;
    char *out;
    const kit_tensor *indices;
    int64_t dim;       /* size of the axis in data */
    int64_t axis_step; /* elements from one index of the axis to the next */
    int64_t row_step;  /* elements of data between columns of a row; 0 if the axis is the last one */
    int64_t columns;
    void (*row)(const struct elements_job *job, int64_t row_at, int64_t first);
    uint32_t row_rank;                /* number of axes whose indices select a row: all but the last, which merge */
    bool outside;                     /* an index is out of range; rows with such an index were not read */
    int64_t in_steps[INLAY_MAX_RANK]; /* strides of data in elements; 0 for the axis */
} elements_job;

struct element16 {
    uint64_t low, high;
};
#define T uint8_t
#define NAME(x) x##_1
#include "operators/gather_elements.inc"
#define T uint16_t
#define NAME(x) x##_2
#include "operators/gather_elements.inc"
#define T uint32_t
#define NAME(x) x##_4
#include "operators/gather_elements.inc"
#define T uint64_t
#define NAME(x) x##_8
#include "operators/gather_elements.inc"
#define T struct element16
#define NAME(x) x##_16
#include "operators/gather_elements.inc"

/* Processes a range of rows of the indices. The indices of some rows are checked, and then used
 * while the cache holds them. */
static inlay_status elements_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    elements_job *job = user;
    const int64_t some = ELEMENTS_CHECKED / job->columns + 1;
    strided_walk walk;

    INLAY_CHECK(job->columns > 0 && job->row_rank < INLAY_MAX_RANK);
    (void)worker;
    strided_walk_init(&walk, job->row_rank, job->indices->dims, job->in_steps, NULL);
    strided_walk_seek(&walk, begin);
    for (int64_t last; begin < end; begin = last) {
        last = end - begin < some ? end : begin + some;
        if (!indices_inside(job->indices, begin * job->columns, (last - begin) * job->columns, job->dim)) {
            __atomic_store_n(&job->outside, true, __ATOMIC_RELAXED);
            return INLAY_OK;
        }
        for (int64_t row = begin; row < last; row++, strided_walk_next(&walk))
            job->row(job, walk.offset[0], row * job->columns);
    }
    return INLAY_OK;
}

static inlay_status run_gather_elements(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    uint32_t axis;
    static void (*const rows[])(const elements_job *, int64_t, int64_t) = { elements_row_1, elements_row_2,
                                                                            elements_row_4, elements_row_8,
                                                                            elements_row_16 };
    elements_job job = { .in = input->data, .out = output->data, .indices = indices };
    inlay_status status = INLAY_OK;

    INLAY_TRY(arg_axis(call->diag, ((const gather_state *)call->state)->axis, input->rank, "axis", &axis));
    INLAY_TRY(arg_expect_dims(call->diag, output, indices->rank, indices->dims));
    if (indices->rank != input->rank)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "indices have rank %u, data %u; they must be equal",
                          indices->rank, input->rank);
    for (uint32_t i = 0; i < input->rank; i++)
        if (i != axis && indices->dims[i] > input->dims[i])
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "indices have size %lld on axis %u, data only %lld",
                              (long long)indices->dims[i], i, (long long)input->dims[i]);
    if (output->count == 0)
        goto done;
    job.dim = input->dims[axis];
    job.row = rows[__builtin_ctz(strided_element_bytes(input->dtype))];
    strided_row_major(input->rank, input->dims, 1, job.in_steps);
    job.axis_step = job.in_steps[axis];
    job.in_steps[axis] = 0;
    job.row_step = job.axis_step == 1 ? 0 : 1;
    job.row_rank = job.axis_step == 1 ? axis : input->rank - 1;
    job.columns = indices->dims[job.row_rank];
    while (job.row_rank > axis + 1 && job.columns < ELEMENTS_CHECKED &&
           indices->dims[job.row_rank] == input->dims[job.row_rank]) /* short rows that are adjacent are one */
        job.columns *= indices->dims[--job.row_rank];
    INLAY_TRY(kit_parallel(call, output->count / job.columns, 4096 / job.columns + 1, elements_range, &job));
    if (job.outside)
        return indices_check(call, indices, job.dim);
done:
    return status;
}

typedef struct nd_job {
    const char *in;
    char *out;
    const int64_t *indices;
    const int64_t *dims; /* dims of data, starting at the first indexed one */
    uint32_t depth;      /* values per tuple */
    uint32_t reserved;
    int64_t steps[INLAY_MAX_RANK]; /* strides of these dims in bytes */
    int64_t block;                 /* bytes selected by a tuple */
    int64_t tuples_per_batch;
    int64_t batch_step; /* bytes of data from one batch to the next */
} nd_job;

static inlay_status nd_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nd_job *job = user;

    INLAY_CHECK(job->tuples_per_batch > 0 && job->depth <= INLAY_MAX_RANK);
    (void)worker;
    for (int64_t tuple = begin; tuple < end; tuple++) {
        const char *from = job->in + tuple / job->tuples_per_batch * job->batch_step;

        for (uint32_t axis = 0; axis < job->depth; axis++) {
            int64_t index = job->indices[tuple * job->depth + axis];
            from += (index < 0 ? index + job->dims[axis] : index) * job->steps[axis];
        }
        memcpy(job->out + tuple * job->block, from, (size_t)job->block);
    }
    return INLAY_OK;
}

/* Checks the indices, and the output shape of GatherND-12: indices without its last axis, then the axes of data that no
 * tuple indexes. */
static inlay_status check_nd(const kit_call *call, uint32_t batch_dims, uint32_t depth)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1];
    int64_t dims[2 * INLAY_MAX_RANK];
    uint32_t rank = 0;

    INLAY_CHECK(batch_dims + depth <= input->rank && batch_dims < indices->rank);
    for (uint32_t i = 0; i < batch_dims; i++)
        if (input->dims[i] != indices->dims[i])
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                              "batch axis %u has size %lld in data and %lld in indices", i, (long long)input->dims[i],
                              (long long)indices->dims[i]);
    for (uint32_t i = 0; i + 1 < indices->rank; i++)
        dims[rank++] = indices->dims[i];
    for (uint32_t i = batch_dims + depth; i < input->rank; i++)
        dims[rank++] = input->dims[i];
    for (int64_t i = 0; depth > 0 && i < indices->count; i++) {
        const int64_t index = ((const int64_t *)indices->data)[i],
                      dim = input->dims[batch_dims + (uint32_t)(i % depth)];

        if (index < -dim || index >= dim)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "indices[%lld] is %lld, outside [-%lld, %lld)",
                              (long long)i, (long long)index, (long long)dim, (long long)dim);
    }
    return arg_expect_dims(call->diag, &call->out[0], rank, dims);
}

static inlay_status run_gather_nd(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    const int64_t batch = ((const gather_state *)call->state)->batch_dims;
    int64_t steps[INLAY_MAX_RANK] = { 0 }, depth;
    nd_job job = { .in = input->data, .out = output->data, .indices = indices->data };
    inlay_status status = INLAY_OK;

    if (indices->rank == 0 || input->rank == 0)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "data and indices must have at least one axis");
    depth = indices->dims[indices->rank - 1];
    if (batch < 0 || batch >= (int64_t)indices->rank || batch > (int64_t)input->rank ||
        depth > (int64_t)input->rank - batch)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "index tuples of %lld values after %lld batch axes do not fit data of rank %u and indices of "
                          "rank %u",
                          (long long)depth, (long long)batch, input->rank, indices->rank);
    INLAY_TRY(check_nd(call, (uint32_t)batch, (uint32_t)depth));
    if (output->count == 0)
        goto done;
    strided_row_major(input->rank, input->dims, strided_element_bytes(input->dtype), steps);
    job.depth = (uint32_t)depth;
    job.dims = input->dims + batch;
    for (uint32_t axis = 0; axis < job.depth; axis++)
        job.steps[axis] = steps[(uint32_t)batch + axis];
    job.block =
        strided_product(input->dims, (uint32_t)(batch + depth), input->rank) * strided_element_bytes(input->dtype);
    job.tuples_per_batch = strided_product(indices->dims, (uint32_t)batch, indices->rank - 1);
    job.batch_step = strided_product(input->dims, (uint32_t)batch, input->rank) * strided_element_bytes(input->dtype);
    INLAY_TRY(kit_parallel(call, strided_product(indices->dims, 0, indices->rank - 1), 65536 / job.block + 1, nd_range,
                           &job));
done:
    return status;
}

/* The cost of reading the selected elements only, in one step for each index and each of `outer` parts of the data. The
 * first lines of a piece of the data are not fetched ahead. */
static void cost_of_steps(const kit_plan *shapes, int64_t outer, inlay_cost *out)
{
    enum { LINE = 64, FIRST = 4 };
    const kit_tensor *indices = &shapes->in[1], *output = &shapes->out[0];
    double steps, lines;

    if (indices->count < 0 || output->count < 0)
        return;
    out->bytes_written = kit_bytes(output->dtype, output->count);
    out->bytes_read = out->bytes_written + kit_bytes(indices->dtype, indices->count);
    steps = fmax((double)outer * (double)indices->count, 1);
    lines = fmin(ceil((double)out->bytes_written / steps / LINE), FIRST);
    work_cost(shapes, steps, 0.7 * fmax(lines, 1), steps, out);
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node;
    cost_of_steps(shapes, 1, out);
}

static void cost_gather(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *data = &shapes->in[0];
    int64_t axis = kit_attr_int(node->info, "axis", 0);

    axis += axis < 0 ? (int64_t)data->rank : 0;
    if (data->count >= 0 && axis >= 0 && axis < (int64_t)data->rank)
        cost_of_steps(shapes, strided_product(data->dims, 0, (uint32_t)axis), out);
}

static const kit_kernel kernels[] = {
    { .op_type = "Gather", .prepare = prepare_rows, .run = run_gather, .cost = cost_gather },
    { .op_type = "GatherElements", .prepare = prepare_gather, .run = run_gather_elements, .cost = cost },
    { .op_type = "GatherND", .prepare = prepare_rows, .run = run_gather_nd, .cost = cost },
};
const kit_table OPERATOR(operators_gather) = { kernels, KIT_COUNT(kernels) };
