/* Expand (ONNX 8, 13) and Tile (1, 6, 13). For Expand, a repeated axis has step 0 in the source of strided_copy(). Tile
 * writes the first repetition of an axis, and then copies it. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/strided.h"

/* Broadcasts the data to the shape given by input 1, by numpy's rules. Where the shape has a 1, the size of the data is
 * kept. */
static inlay_status run_expand(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const uint32_t element = strided_element_bytes(input->dtype);
    int64_t dims[INLAY_MAX_RANK] = { 0 }, steps[INLAY_MAX_RANK], from[INLAY_MAX_RANK], to[INLAY_MAX_RANK];
    const int64_t shape_rank = call->in[1].count;
    strided_plan plan;
    inlay_status status;
    uint32_t rank;

    if (shape_rank > INLAY_MAX_RANK)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "shape has %lld values; at most %u axes are supported",
                          (long long)shape_rank, (unsigned)INLAY_MAX_RANK);
    rank = shape_rank > (int64_t)input->rank ? (uint32_t)shape_rank : input->rank;
    strided_row_major(input->rank, input->dims, element, steps);
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t old_size = i + input->rank < rank ? 1 : input->dims[i + input->rank - rank];
        const int64_t new_size =
            i + (uint32_t)shape_rank < rank ? 1 : ((const int64_t *)call->in[1].data)[i + (uint32_t)shape_rank - rank];

        if (new_size < 0)
            return inlay_fail(call->diag, INLAY_INVALID_MODEL, "shape has a size of %lld", (long long)new_size);
        if (old_size != new_size && old_size != 1 && new_size != 1)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "axis %u of size %lld cannot be expanded to %lld", i,
                              (long long)old_size, (long long)new_size);
        dims[i] = old_size == 1 ? new_size : old_size;
        from[i] = old_size == 1 ? 0 : steps[i + input->rank - rank];
    }
    status = arg_expect_dims(call->diag, output, rank, dims);
    if (status != INLAY_OK)
        return status;
    strided_row_major(rank, dims, element, to);
    strided_plan_init(&plan, element, rank, dims, from, to);
    return strided_copy(call, &plan, input->data, output->data);
}

/* Reads the number of repeats of each axis. Tile-6 has a list; Tile-1 has one axis and one number, of the data's
 * type. */
static inlay_status read_repeats(const kit_call *call, int64_t *repeats)
{
    const kit_tensor *input = &call->in[0];

    for (uint32_t i = 0; i < input->rank; i++)
        repeats[i] = 1;
    if (kit_has_input(call, 2)) {
        uint32_t axis;
        inlay_status status;

        if (call->in[1].count < 1 || call->in[2].count < 1)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "tiles and axis must hold one value each");
        status =
            arg_axis(call->diag, convert_get_i64(call->in[2].dtype, call->in[2].data, 0), input->rank, "axis", &axis);
        if (status != INLAY_OK)
            return status;
        repeats[axis] = convert_get_i64(call->in[1].dtype, call->in[1].data, 0);
    } else {
        if (call->in[1].count != (int64_t)input->rank)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "repeats has %lld values for a tensor of rank %u",
                              (long long)call->in[1].count, input->rank);
        for (uint32_t i = 0; i < input->rank; i++)
            repeats[i] = ((const int64_t *)call->in[1].data)[i];
    }
    return INLAY_OK;
}

typedef struct tile_job {
    const char *in;
    char *out;
    uint32_t first, last; /* first and last axis that repeats */
    uint32_t element;
    int64_t sizes[INLAY_MAX_RANK]; /* dims of the input */
    int64_t repeats[INLAY_MAX_RANK];
    int64_t steps[INLAY_MAX_RANK];     /* strides of the input in bytes */
    int64_t out_steps[INLAY_MAX_RANK]; /* strides of the output in bytes */
} tile_job;

/* Appends copies of the first piece, until there are `repeats`. Each step copies all that is already written, limited
 * to the cache size. */
static void repeat_piece(char *to, int64_t piece, int64_t repeats)
{
    enum { MAX_CHUNK = 16 << 10 };
    const int64_t bytes = piece * repeats;
    int64_t done = piece, chunk;

    INLAY_CHECK(piece > 0 && repeats > 0);
    for (; done < bytes; done += chunk) {
        chunk = done < MAX_CHUNK || done == piece ? done : MAX_CHUNK / piece > 0 ? MAX_CHUNK / piece * piece : piece;
        chunk = chunk < bytes - done ? chunk : bytes - done;
        memcpy(to + done, to, (size_t)chunk);
    }
}

/* Writes all output elements for one index of the axes before `axis`: first the inner axes, then the repeats. */
static void tile_axis(const tile_job *job, uint32_t axis, const char *from, char *to)
{
    const int64_t piece = job->sizes[axis] * job->out_steps[axis];

    INLAY_CHECK(axis >= job->first && axis <= job->last);
    if (axis == job->last && piece == job->element) {
        strided_fill(to, from, job->element, job->repeats[axis]);
        return;
    }
    if (axis == job->last)
        memcpy(to, from, (size_t)piece);
    for (int64_t i = 0; axis < job->last && i < job->sizes[axis]; i++)
        tile_axis(job, axis + 1, from + i * job->steps[axis], to + i * job->out_steps[axis]);
    repeat_piece(to, piece, job->repeats[axis]);
}

/* Processes a range of indices of the axes before the first repeated one. */
static inlay_status tile_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const tile_job *job = user;
    const int64_t from = job->sizes[job->first] * job->steps[job->first];
    const int64_t to = job->sizes[job->first] * job->repeats[job->first] * job->out_steps[job->first];

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        tile_axis(job, job->first, job->in + i * from, job->out + i * to);
    return INLAY_OK;
}

/* Is a piece of a single repeated axis so short that rows of its copies are written one after another? */
static bool is_short(int64_t piece, int64_t repeats)
{
    enum { SHORT_PIECE = 32, SHORT_ROW = 512 };

    return piece <= SHORT_PIECE && repeats <= SHORT_ROW / piece;
}

static inlay_status run_tile(const kit_call *call)
{
    enum { GRAIN = 64 << 10 };
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    int64_t dims[INLAY_MAX_RANK], units, piece;
    tile_job job = {
        .in = input->data, .out = output->data, .first = input->rank, .element = strided_element_bytes(input->dtype)
    };
    inlay_status status = read_repeats(call, job.repeats);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < input->rank; i++)
        if (job.repeats[i] < 0 || __builtin_mul_overflow(input->dims[i], job.repeats[i], &dims[i]))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axis %u of size %lld cannot be repeated %lld times",
                              i, (long long)input->dims[i], (long long)job.repeats[i]);
    status = arg_expect_dims(call->diag, output, input->rank, dims);
    if (status != INLAY_OK || output->count == 0)
        return status;
    strided_row_major(input->rank, input->dims, job.element, job.steps);
    strided_row_major(input->rank, dims, job.element, job.out_steps);
    memcpy(job.sizes, input->dims, input->rank * sizeof *dims);
    for (uint32_t i = input->rank; i-- > 0;) {
        job.last = job.repeats[i] > 1 && job.first == input->rank ? i : job.last;
        job.first = job.repeats[i] > 1 ? i : job.first;
    }
    if (job.first == input->rank)
        return strided_memcpy(call, output->data, input->data, (uint64_t)(input->count * job.element));
    units = strided_product(input->dims, 0, job.first);
    piece = job.sizes[job.first] * job.out_steps[job.first];
    if (job.first == job.last && is_short(piece, job.repeats[job.first])) {
        const int64_t repeats = job.repeats[job.first];
        const int64_t counts[] = { units, repeats, piece / job.element }, from[] = { piece, 0, job.element },
                      to[] = { piece * repeats, piece, job.element };
        strided_plan plan;

        strided_plan_init(&plan, job.element, 3, counts, from, to);
        return strided_copy(call, &plan, input->data, output->data);
    }
    return kit_parallel(call, units, GRAIN / (output->count / units * job.element + 1) + 1, tile_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "Expand", .run = run_expand },
    { .op_type = "Tile", .run = run_tile },
};
const kit_table OPERATOR(operators_expand) = { kernels, KIT_COUNT(kernels) };
