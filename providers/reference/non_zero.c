/* NonZero (ONNX 9, 13) and Compress (9, 11). The output sizes depend on data, so the run allocates the outputs. */
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "operators/work.h"

#define FLAGS(type, bits)                                                                                              \
    for (int64_t i = begin; i < end; i++)                                                                              \
    flags[i] = (type)(((const type *)input->data)[i] << (bits)) != 0

/* flags[i] = element i is not zero. The sign of a float is ignored; a string counts if it is not empty. */
static void find_non_zero(const kit_tensor *input, int64_t begin, int64_t end, uint8_t *flags)
{
    switch (input->dtype) {
    case INLAY_FLOAT:
        FLAGS(uint32_t, 1);
        break;
    case INLAY_DOUBLE:
        FLAGS(uint64_t, 1);
        break;
    case INLAY_FLOAT16:
    case INLAY_BFLOAT16:
        FLAGS(uint16_t, 1);
        break;
    case INLAY_COMPLEX64:
        for (int64_t i = begin; i < end; i++)
            flags[i] = ((const float *)input->data)[2 * i] != 0 || ((const float *)input->data)[2 * i + 1] != 0;
        break;
    case INLAY_COMPLEX128:
        for (int64_t i = begin; i < end; i++)
            flags[i] = ((const double *)input->data)[2 * i] != 0 || ((const double *)input->data)[2 * i + 1] != 0;
        break;
    case INLAY_STRING:
        for (int64_t i = begin; i < end; i++)
            flags[i] = ((const inlay_str *)input->data)[i].bytes > 0;
        break;
    case INLAY_BOOL:
    case INLAY_INT8:
    case INLAY_UINT8:
        FLAGS(uint8_t, 0);
        break;
    case INLAY_INT16:
    case INLAY_UINT16:
        FLAGS(uint16_t, 0);
        break;
    case INLAY_INT32:
    case INLAY_UINT32:
        FLAGS(uint32_t, 0);
        break;
    default:
        FLAGS(uint64_t, 0);
    }
}
#undef FLAGS

/* The workspace has one byte per element. */
static inlay_status shape_non_zero(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    plan->workspace_bytes = (uint64_t)plan->in[0].count;
    return INLAY_OK;
}

/* Writes the indexes of the nonzero elements: [rank, count]. A scalar has no axis: [0, count]. */
static inlay_status run_non_zero(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const int64_t columns = input->rank > 0 ? input->dims[input->rank - 1] : 1;
    int64_t dims[2] = { input->rank, 0 }, index[INLAY_MAX_RANK] = { 0 }, at = 0;
    uint8_t *flags = call->workspace;
    inlay_status status;
    int64_t *output;

    find_non_zero(input, 0, input->count, flags);
    for (int64_t i = 0; i < input->count; i++)
        dims[1] += flags[i];
    status = kit_alloc_output(call, 0, 2, dims);
    if (status != INLAY_OK || call->out[0].data == NULL || input->rank == 0)
        return status;
    output = call->out[0].data;
    for (int64_t row = 0; columns > 0 && row < input->count / columns; row++, flags += columns) {
        int64_t *last = output + (input->rank - 1) * dims[1];
        const int64_t begin = at;

        for (int64_t i = 0; i < columns && at < dims[1]; i++) { /* no data-dependent branch */
            last[at] = i;
            at += flags[i];
        }
        for (uint32_t axis = 0; axis + 1 < input->rank; axis++)
            for (int64_t found = begin; found < at; found++)
                output[axis * dims[1] + found] = index[axis];
        for (uint32_t axis = input->rank - 1; axis-- > 0;) {
            if (++index[axis] < input->dims[axis])
                break;
            index[axis] = 0;
        }
    }
    INLAY_CHECK(at == dims[1]);
    return INLAY_OK;
}

/* Each element is read three times; each nonzero element writes one index per axis. */
static void cost_non_zero(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    work_cost(shapes, work_count(&shapes->in[0]) + work_count(&shapes->out[0]) / 2, 0.8, 1, cost);
}

typedef struct compress_state {
    int64_t axis;
    bool flat;
} compress_state;

static inlay_status prepare_compress(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(compress_state), out_state, diag);

    if (status == INLAY_OK)
        *(compress_state *)*out_state =
            (compress_state){ kit_attr_int(node->info, "axis", 0), kit_attr(node->info, "axis") == NULL };
    return status;
}

/* Copies the elements of type `type` whose condition is true to [to, end). There is no branch that depends on data: an
 * element that is dropped is overwritten by the next one. */
#define KEEP(type)                                                                                                     \
    for (int64_t i = 0; i < count && to < end; i++) {                                                                  \
        memcpy(to, from + i * (int64_t)sizeof(type), sizeof(type));                                                    \
        to += keep[i] != 0 ? sizeof(type) : 0;                                                                         \
    }

/* Copies the blocks of `block` bytes whose condition is true to [to, end). */
static void keep_blocks(const uint8_t *keep, int64_t count, const char *from, int64_t block, char *to, const char *end)
{
    switch (block) {
    case 1:
        KEEP(uint8_t);
        break;
    case 2:
        KEEP(uint16_t);
        break;
    case 4:
        KEEP(uint32_t);
        break;
    case 8:
        KEEP(uint64_t);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            if (keep[i] != 0) {
                memcpy(to, from + i * block, (size_t)block);
                to += block;
            }
    }
    INLAY_CHECK(to == end);
}
#undef KEEP

/* A unit of work is a chunk of the condition: (index before the axis, chunk). */
enum { CHUNKS = 64, CHUNK_BYTES = 65536 };
typedef struct compress_job {
    const uint8_t *keep;
    const char *in;
    char *out;
    int64_t count, length, block; /* elements of the condition, and of the axis; bytes of a slice */
    int64_t chunks, chunk;        /* chunks of the condition, and their elements */
    int64_t before[CHUNKS + 1];   /* slices that are kept before each chunk */
} compress_job;

static inlay_status compress_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const compress_job *job = user;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t outer = unit / job->chunks, chunk = unit % job->chunks, first = chunk * job->chunk;
        const int64_t count = job->count - first < job->chunk ? job->count - first : job->chunk;
        char *out = job->out + outer * job->before[job->chunks] * job->block;

        keep_blocks(job->keep + first, count, job->in + (outer * job->length + first) * job->block, job->block,
                    out + job->before[chunk] * job->block, out + job->before[chunk + 1] * job->block);
    }
    return INLAY_OK;
}

/* Copies the slices whose condition is true. If the condition is shorter than the axis, the remaining slices are
 * dropped. */
static inlay_status run_compress(const kit_call *call)
{
    const compress_state *state = call->state;
    const kit_tensor *input = &call->in[0], *condition = &call->in[1];
    const uint8_t *keep = condition->data;
    int64_t dims[INLAY_MAX_RANK], outer, bytes;
    uint32_t axis = 0, rank = state->flat ? 1 : input->rank;
    compress_job job = { .keep = keep, .in = input->data };
    inlay_status status;

    if (!state->flat) {
        status = arg_axis(call->diag, state->axis, input->rank, "axis", &axis);
        if (status != INLAY_OK)
            return status;
        memcpy(dims, input->dims, input->rank * sizeof *dims);
    }
    job.length = state->flat ? input->count : input->dims[axis];
    if (condition->rank != 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "condition has rank %u; it must be a vector",
                          condition->rank);
    job.count = condition->count < job.length ? condition->count : job.length;
    for (int64_t i = job.count; i < condition->count; i++)
        if (keep[i] != 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "condition[%lld] is true, but the input has %lld slices", (long long)i,
                              (long long)job.length);
    INLAY_CHECK(state->flat || axis < input->rank);
    outer = state->flat ? 1 : strided_product(input->dims, 0, axis);
    job.block =
        (state->flat ? 1 : strided_product(input->dims, axis + 1, input->rank)) * strided_element_bytes(input->dtype);
    bytes = job.count * job.block;
    job.chunk = job.count / (bytes / CHUNK_BYTES < CHUNKS ? bytes / CHUNK_BYTES + 1 : CHUNKS) + 1;
    job.chunks = (job.count + job.chunk - 1) / job.chunk;
    for (int64_t chunk = 0; chunk < job.chunks; chunk++) {
        const int64_t first = chunk * job.chunk, last = first + job.chunk < job.count ? first + job.chunk : job.count;
        int64_t kept = 0;

        for (int64_t i = first; i < last; i++)
            kept += keep[i] != 0;
        job.before[chunk + 1] = job.before[chunk] + kept;
    }
    dims[axis] = job.before[job.chunks];
    status = kit_alloc_output(call, 0, rank, dims);
    if (status != INLAY_OK || call->out[0].data == NULL || input->count == 0 || job.count == 0)
        return status;
    job.out = call->out[0].data;
    return kit_parallel(call, outer * job.chunks, CHUNK_BYTES / (job.chunk * job.block + 1) + 1, compress_range, &job);
}

/* Kept slices are read and written one at a time. */
static void cost_compress(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[0], *condition = &shapes->in[1];
    double slices = work_count(condition);

    if (kit_attr(node->info, "axis") != NULL && input->count > 0 && input->rank > 0) {
        int64_t axis = kit_attr_int(node->info, "axis", 0);

        axis += axis < 0 ? (int64_t)input->rank : 0;
        for (int64_t d = 0; d < axis && d < (int64_t)input->rank; d++)
            slices *= (double)input->dims[d];
    }
    cost->bytes_read = cost->bytes_written + (uint64_t)work_count(condition);
    work_cost(shapes, slices, 3, 1, cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "NonZero",
      .flags = KIT_SHAPES_AT_RUN,
      .shape = shape_non_zero,
      .cost = cost_non_zero,
      .run = run_non_zero },
    { .op_type = "Compress",
      .flags = KIT_SHAPES_AT_RUN,
      .prepare = prepare_compress,
      .cost = cost_compress,
      .run = run_compress },
};
const kit_table reference_non_zero = { kernels, KIT_COUNT(kernels) };
