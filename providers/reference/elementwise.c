/* elementwise.c - element types, broadcasting and threads for operators that work element by element; no kernels
 * here. */
#include "elementwise.h"
#include <stdlib.h>

const void *elementwise_load(inlay_dtype compute, inlay_dtype dtype, const void *data, int64_t first, int64_t count,
                             void *buffer)
{
    if (dtype == compute)
        return (const char *)data + first * elementwise_bytes(dtype);
    if (compute == INLAY_FLOAT)
        convert_to_f32(buffer, dtype, data, first, count);
    else if (compute == INLAY_DOUBLE)
        convert_to_f64(buffer, dtype, data, first, count);
    else
        convert_to_i64(buffer, dtype, data, first, count);
    return buffer;
}

void elementwise_store(inlay_dtype compute, inlay_dtype dtype, void *data, int64_t first, int64_t count,
                       const void *buffer)
{
    if (compute == INLAY_FLOAT)
        convert_from_f32(dtype, data, first, count, buffer, CONVERT_SATURATE);
    else if (compute == INLAY_DOUBLE)
        convert_from_f64(dtype, data, first, count, buffer, CONVERT_SATURATE);
    else
        convert_from_i64(dtype, data, first, count, buffer, CONVERT_SATURATE);
}

/* ------------------------------------------------------------------ one input */

static inlay_status unary_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const elementwise_unary *unary = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    bool direct_in = input->dtype == unary->compute, direct_out = output->dtype == unary->result;

    (void)worker;
    if (direct_in && direct_out) {
        unary->fn((char *)output->data + begin * elementwise_bytes(output->dtype),
                  (const char *)input->data + begin * elementwise_bytes(input->dtype), end - begin, unary->args);
        return INLAY_OK;
    }
    for (int64_t i = begin; i < end; i += ELEMENTWISE_BLOCK) {
        int64_t buffer[ELEMENTWISE_BLOCK], n = end - i < ELEMENTWISE_BLOCK ? end - i : ELEMENTWISE_BLOCK;
        const void *from = elementwise_load(unary->compute, input->dtype, input->data, i, n, buffer);
        void *to = direct_out ? (char *)output->data + i * elementwise_bytes(output->dtype) : (char *)buffer;

        unary->fn(to, from, n, unary->args);
        if (!direct_out)
            elementwise_store(unary->result, output->dtype, output->data, i, n, buffer);
    }
    return INLAY_OK;
}

inlay_status elementwise_unary_run(const kit_call *call)
{
    const elementwise_unary *unary = call->state;
    const kit_tensor *input = &call->in[0];

    if (unary->fn == NULL) {
        if (call->out[0].data != input->data)
            memcpy(call->out[0].data, input->data, kit_bytes(input->dtype, input->count));
        return INLAY_OK;
    }
    return kit_parallel(call, input->count, unary->grain, unary_range, (void *)(uintptr_t)call);
}

void elementwise_unary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n)
{
    const elementwise_unary *unary = state;

    if (step[0] != 0 && unary->fn != NULL) {
        unary->fn(out, in[0], n, unary->args);
        return;
    }
    if (unary->fn == NULL) {
        for (int64_t i = 0; i < n; i++)
            out[i] = in[0][i * step[0]];
        return;
    }
    unary->fn(out, in[0], 1, unary->args); /* one element that counts for all */
    for (int64_t i = 1; i < n; i++)
        out[i] = out[0];
}

/* ------------------------------------------------------------------ two inputs */

typedef struct binary_plan {
    struct bcast bcast;
    bool converts;    /* some tensor is not of the type that the loop works on */
    bool direct;      /* one row, nothing to convert: the loop does it all */
    bool gathers;     /* many short rows */
    bool whole[2];    /* input k has every element of the output */
    bool one[2];      /* input k is one element */
    bool periodic[2]; /* input k is the same for every row */
} binary_plan;

void elementwise_binary_legacy(const kit_node *node, elementwise_binary *b)
{
    b->broadcast = ELEMENTWISE_NUMPY;
    b->axis = -1;
    if (node->info->since_version < 7 && kit_attr_int(node->info, "broadcast", 0) != 0) {
        b->broadcast = ELEMENTWISE_LEGACY;
        b->axis = kit_attr_int(node->info, "axis", -1);
    }
}

/* The shape of input 1 with ones appended, so that it lines up with dimension `axis` of input 0 counted from the
 * left. */
static bool align_left(const kit_tensor *input, const kit_tensor *output, int64_t axis, int64_t *dims, bcast_shape *out)
{
    if (axis < 0)
        axis += (int64_t)input->rank;
    if (axis < 0 || axis + (int64_t)output->rank > (int64_t)input->rank)
        return false;
    out->rank = input->rank - (uint32_t)axis;
    for (uint32_t d = 0; d < out->rank; d++)
        dims[d] = d < output->rank ? output->dims[d] : 1;
    out->dims = dims;
    return true;
}

inlay_status elementwise_binary_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const elementwise_binary *binary = state;
    const kit_tensor *input = &plan->in[0], *output = &plan->in[1], *tensor = &plan->out[0];
    bcast_shape shapes[2] = { { input->dims, input->rank }, { output->dims, output->rank } };
    int64_t dims[INLAY_MAX_RANK];
    bool aligned = true;
    binary_plan *p = kit_plan_new(plan, sizeof *p);

    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a broadcast plan");
    if (binary->broadcast == ELEMENTWISE_LEGACY && binary->axis != -1)
        aligned = align_left(input, output, binary->axis, dims, &shapes[1]);
    else if (binary->broadcast == ELEMENTWISE_CHANNEL && output->rank == 1 && input->rank > 1 &&
             output->dims[0] == input->dims[1])
        aligned = align_left(input, output, 1, dims, &shapes[1]);
    if (!aligned || !bcast_init(&p->bcast, 2, shapes, (bcast_shape){ tensor->dims, tensor->rank }))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "input 1 does not broadcast against input 0; make their dimensions "
                          "equal or 1, counted from the last");
    for (int k = 0; k < 2; k++) {
        p->whole[k] = plan->in[k].count == p->bcast.count;
        p->one[k] = plan->in[k].count == 1;
        p->converts |= plan->in[k].dtype != binary->compute;
        p->periodic[k] = true;
        for (uint32_t d = 0; d + 1 < p->bcast.rank; d++)
            p->periodic[k] &= p->bcast.stride[k][d] == 0;
    }
    p->converts |= tensor->dtype != binary->result;
    p->direct = p->bcast.rank == 1 && !p->converts;
    p->gathers = p->bcast.rank > 1 && p->bcast.row < ELEMENTWISE_SMALL_ROW;
    return INLAY_OK;
}

/* What a range works with. */
typedef struct binary_job {
    const elementwise_binary *binary;
    const binary_plan *plan;
    const kit_tensor *in;
    const kit_tensor *out;
} binary_job;

/* One run of at most ELEMENTWISE_BLOCK elements through the stack. step 0 inputs are converted once. */
static void binary_block(const binary_job *job, int64_t out, const int64_t *at, const int64_t *step, int64_t n)
{
    const elementwise_binary *binary = job->binary;
    int64_t buffer[2][ELEMENTWISE_BLOCK];
    const void *from[2];
    bool direct = job->out->dtype == binary->result;

    for (int k = 0; k < 2; k++)
        from[k] = elementwise_load(binary->compute, job->in[k].dtype, job->in[k].data, at[k], step[k] != 0 ? n : 1,
                                   buffer[k]);
    if (direct) {
        binary->fn((char *)job->out->data + out * elementwise_bytes(job->out->dtype), from[0], step[0], from[1],
                   step[1], n);
        return;
    }
    int64_t result[ELEMENTWISE_BLOCK];
    binary->fn(result, from[0], step[0], from[1], step[1], n);
    elementwise_store(binary->result, job->out->dtype, job->out->data, out, n, result);
}

/* Where the rows of a block lie in an input: rows of `row` elements, `stride` apart, in planes of all rows of the last
 * but one dimension. */
struct plane {
    int64_t base;    /* of the plane */
    int64_t row, at; /* the row in it, and where in that row to begin */
    int64_t left;    /* elements of the output to the end of the plane */
};

static struct plane find_plane(const struct bcast *b, int k, int64_t first)
{
    uint32_t outer = b->rank - 2; /* dimensions outside */
    int64_t elements = b->row * b->dims[outer], rest = first / elements, in_plane = first % elements;
    struct plane p = { .row = in_plane / b->row, .at = in_plane % b->row, .left = elements - in_plane };

    for (uint32_t d = outer; d-- > 0; rest /= b->dims[d])
        p.base += rest % b->dims[d] * b->stride[k][d];
    return p;
}

/* Lays elements [first, first + n) of a repeating input out, one for each element of the output. Only for several
 * rows. */
#define SPREAD(T)                                                                                                      \
    static void spread_##T(T *to, const T *from, const struct bcast *b, int k, int64_t first, int64_t n)               \
    {                                                                                                                  \
        int64_t stride = b->stride[k][b->rank - 2], row = b->row;                                                      \
        while (n > 0) {                                                                                                \
            struct plane p = find_plane(b, k, first);                                                                  \
            int64_t count = p.left < n ? p.left : n, done = 0;                                                         \
            const T *at = from + p.base + p.row * stride;                                                              \
            first += count;                                                                                            \
            n -= count;                                                                                                \
            if (b->step[k] != 0 && stride == row) { /* nothing repeats within a plane */                               \
                memcpy(to, at + p.at, (size_t)count * sizeof *to);                                                     \
                done = count;                                                                                          \
            }                                                                                                          \
            if (b->step[k] != 0 && stride == 0 && p.at == 0 && count > row) { /* one row again and again */            \
                memcpy(to, at, (size_t)row * sizeof *to);                                                              \
                for (done = row; done < count;) {                                                                      \
                    int64_t more = done < count - done ? done : count - done;                                          \
                    memcpy(to + done, to, (size_t)more * sizeof *to);                                                  \
                    done += more;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
            for (; done < count; p.at = 0, at += stride) {                                                             \
                int64_t in_row = row - p.at < count - done ? row - p.at : count - done;                                \
                for (int64_t i = 0; i < in_row; i++)                                                                   \
                    to[done + i] = at[(p.at + i) * b->step[k]];                                                        \
                done += in_row;                                                                                        \
            }                                                                                                          \
            to += count;                                                                                               \
        }                                                                                                              \
    }
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)
SPREAD(inlay_str)
#undef SPREAD

void elementwise_spread(void *to, const void *from, int64_t bytes, const struct bcast *b, int k, int64_t first,
                        int64_t n)
{
    if (bytes == 4)
        spread_uint32_t(to, from, b, k, first, n);
    else if (bytes == 8)
        spread_uint64_t(to, from, b, k, first, n);
    else if (bytes == 2)
        spread_uint16_t(to, from, b, k, first, n);
    else if (bytes == 1)
        spread_uint8_t(to, from, b, k, first, n);
    else
        spread_inlay_str(to, from, b, k, first, n);
}

/* Short rows: the input that repeats is laid out in a block, so that the loop sees long runs. What repeats with every
 * row is laid out once; blocks are whole rows, so that it fits all of them. */
static void binary_gather(const binary_job *job, int64_t begin, int64_t end)
{
    const binary_plan *p = job->plan;
    int64_t piece[2][2 * ELEMENTWISE_BLOCK]; /* 16 bytes an element: strings */
    kit_tensor in[2] = { job->in[0], job->in[1] };
    binary_job block = { job->binary, p, in, job->out };
    int64_t whole_rows = ELEMENTWISE_BLOCK / p->bcast.row * p->bcast.row, n;
    bool laid[2] = { false, false };

    for (int64_t first = begin; first < end; first += n) {
        int64_t at[2] = { first, first }, step[2] = { 1, 1 };

        n = whole_rows - first % p->bcast.row; /* to the end of a row */
        n = n < end - first ? n : end - first;
        for (int k = 0; k < 2; k++) {
            if (p->whole[k])
                continue;
            at[k] = 0;
            step[k] = p->one[k] ? 0 : 1;
            if (p->one[k])
                continue;
            if (!laid[k]) {
                laid[k] = p->periodic[k] && first % p->bcast.row == 0;
                elementwise_spread(piece[k], job->in[k].data, elementwise_bytes(job->in[k].dtype), &p->bcast, k, first,
                                   laid[k] ? whole_rows : n);
            }
            in[k].data = piece[k];
        }
        binary_block(&block, first, at, step, n);
    }
}

static inlay_status binary_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const binary_job *job = user;
    const elementwise_binary *binary = job->binary;
    const struct bcast *b = &job->plan->bcast;
    bcast_cursor cursor;

    (void)worker;
    if (job->plan->gathers) {
        binary_gather(job, begin, end);
        return INLAY_OK;
    }
    for (bcast_start(b, begin, &cursor); bcast_row(b, &cursor, end);) {
        if (!job->plan->converts) {
            binary->fn((char *)job->out->data + cursor.out * elementwise_bytes(job->out->dtype),
                       (const char *)job->in[0].data + cursor.at[0] * elementwise_bytes(job->in[0].dtype), b->step[0],
                       (const char *)job->in[1].data + cursor.at[1] * elementwise_bytes(job->in[1].dtype), b->step[1],
                       cursor.count);
            continue;
        }
        for (int64_t i = 0; i < cursor.count; i += ELEMENTWISE_BLOCK) {
            int64_t at[2] = { cursor.at[0] + i * b->step[0], cursor.at[1] + i * b->step[1] };
            binary_block(job, cursor.out + i, at, b->step,
                         cursor.count - i < ELEMENTWISE_BLOCK ? cursor.count - i : ELEMENTWISE_BLOCK);
        }
    }
    return INLAY_OK;
}

void elementwise_binary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n)
{
    const elementwise_binary *binary = state;

    binary->fn(out, in[0], step[0], in[1], step[1], n);
}

bool elementwise_binary_row_fits(const kit_node *node)
{
    return node->info->since_version >= 7;
}

inlay_status elementwise_binary_run(const kit_call *call)
{
    const elementwise_binary *binary = call->state;
    const binary_plan *p = call->plan;

    int64_t grain = binary->grain > 0 ? binary->grain : ELEMENTWISE_GRAIN;

    if (p->direct && p->bcast.count <= grain) {
        if (p->bcast.count > 0)
            binary->fn(call->out[0].data, call->in[0].data, p->bcast.step[0], call->in[1].data, p->bcast.step[1],
                       p->bcast.count);
        return INLAY_OK;
    }
    binary_job job = { binary, p, call->in, call->out };
    return kit_parallel(call, p->bcast.count, grain, binary_range, &job);
}
