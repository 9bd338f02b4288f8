/* elementwise.c - element types, broadcasting and threads for element-wise operators. It contains no kernels. */
#include "operators/elementwise.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
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

static inlay_status unary_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const elementwise_unary *unary = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    bool direct_in = input->dtype == unary->compute, direct_out = output->dtype == unary->result;

    INLAY_CHECK(begin <= end && unary->fn != NULL);
    (void)worker;
    if (direct_in && direct_out) {
        unary->fn((char *)output->data + begin * elementwise_bytes(output->dtype),
                  (const char *)input->data + begin * elementwise_bytes(input->dtype), end - begin, unary->args);
        return INLAY_OK;
    }
    for (int64_t i = begin; i < end; i += ELEMENTWISE_BLOCK) {
        int64_t buffer[ELEMENTWISE_BLOCK], count = end - i < ELEMENTWISE_BLOCK ? end - i : ELEMENTWISE_BLOCK;
        const void *from = elementwise_load(unary->compute, input->dtype, input->data, i, count, buffer);
        void *to = direct_out ? (char *)output->data + i * elementwise_bytes(output->dtype) : (char *)buffer;

        unary->fn(to, from, count, unary->args);
        if (!direct_out)
            elementwise_store(unary->result, output->dtype, output->data, i, count, buffer);
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

void elementwise_unary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t count)
{
    const elementwise_unary *unary = state;

    if (step[0] != 0 && unary->fn != NULL) {
        unary->fn(out, in[0], count, unary->args);
        return;
    }
    if (unary->fn == NULL) {
        for (int64_t i = 0; i < count; i++)
            out[i] = in[0][i * step[0]];
        return;
    }
    unary->fn(out, in[0], 1, unary->args); /* one element for all */
    for (int64_t i = 1; i < count; i++)
        out[i] = out[0];
}

typedef struct binary_plan {
    struct bcast bcast;
    bool converts;    /* some tensor does not have the loop's type */
    bool direct;      /* a single row without conversions, computed by one call of the loop */
    bool gathers;     /* many short rows, computed by binary_gather() */
    bool whole[2];    /* the input has as many elements as the output */
    bool one[2];      /* the input is a single element */
    bool periodic[2]; /* the input is the same for every row */
} binary_plan;

bool elementwise_is(const inlay_node_info *node, const char *op_type)
{
    return strlen(op_type) == node->op_type.bytes && memcmp(op_type, node->op_type.data, node->op_type.bytes) == 0;
}

void elementwise_binary_legacy(const kit_node *node, elementwise_binary *binary)
{
    binary->broadcast = ELEMENTWISE_NUMPY;
    binary->axis = -1;
    if (kit_since_version(node) < 7 && kit_attr_int(node->info, "broadcast", 0) != 0) {
        binary->broadcast = ELEMENTWISE_LEGACY;
        binary->axis = kit_attr_int(node->info, "axis", -1);
    }
}

/* The shape of input 1 with ones appended, so that its first dimension is aligned with dimension `axis` of input 0. */
static bool align_left(const kit_tensor *first, const kit_tensor *second, int64_t axis, int64_t *dims, bcast_shape *out)
{
    if (axis < 0)
        axis += (int64_t)first->rank;
    if (axis < 0 || axis + (int64_t)second->rank > (int64_t)first->rank)
        return false;
    out->rank = first->rank - (uint32_t)axis;
    for (uint32_t d = 0; d < out->rank; d++)
        dims[d] = d < second->rank ? second->dims[d] : 1;
    out->dims = dims;
    return true;
}

inlay_status elementwise_binary_shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const elementwise_binary *binary = state;
    const kit_tensor *first = &plan->in[0], *second = &plan->in[1], *output = &plan->out[0];
    bcast_shape shapes[2] = { { first->dims, first->rank }, { second->dims, second->rank } };
    int64_t dims[INLAY_MAX_RANK];
    bool aligned = true;
    binary_plan *broadcast_plan = kit_plan_new(plan, sizeof *broadcast_plan);

    if (broadcast_plan == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a broadcast plan");
    if (binary->broadcast == ELEMENTWISE_LEGACY && binary->axis != -1)
        aligned = align_left(first, second, binary->axis, dims, &shapes[1]);
    else if (binary->broadcast == ELEMENTWISE_CHANNEL && second->rank == 1 && first->rank > 1 &&
             second->dims[0] == first->dims[1])
        aligned = align_left(first, second, 1, dims, &shapes[1]);
    if (!aligned || !bcast_init(&broadcast_plan->bcast, 2, shapes, (bcast_shape){ output->dims, output->rank }))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "input 1 does not broadcast against input 0; make their dimensions "
                          "equal or 1, counted from the last");
    for (int input = 0; input < 2; input++) {
        broadcast_plan->whole[input] = plan->in[input].count == broadcast_plan->bcast.count;
        INLAY_CHECK(broadcast_plan->bcast.rank >= 1);
        broadcast_plan->one[input] = plan->in[input].count == 1;
        broadcast_plan->converts |= plan->in[input].dtype != binary->compute;
        broadcast_plan->periodic[input] = true;
        for (uint32_t d = 0; d + 1 < broadcast_plan->bcast.rank; d++)
            broadcast_plan->periodic[input] &= broadcast_plan->bcast.stride[input][d] == 0;
    }
    broadcast_plan->converts |= output->dtype != binary->result;
    broadcast_plan->direct = broadcast_plan->bcast.rank == 1 && !broadcast_plan->converts;
    broadcast_plan->gathers = broadcast_plan->bcast.rank > 1 &&
                              broadcast_plan->bcast.row <
                                  (broadcast_plan->converts ? ELEMENTWISE_BLOCK / 2 : ELEMENTWISE_SMALL_ROW);
    return INLAY_OK;
}

/* The arguments of a range of the parallel loop. */
typedef struct binary_job {
    const elementwise_binary *binary;
    const binary_plan *plan;
    const kit_tensor *in;
    const kit_tensor *out;
} binary_job;

/* Computes at most ELEMENTWISE_BLOCK elements through buffers on the stack. Inputs with step 0 are converted once. */
static void binary_block(const binary_job *job, int64_t out, const int64_t *at, const int64_t *step, int64_t count)
{
    const elementwise_binary *binary = job->binary;
    int64_t buffer[2][ELEMENTWISE_BLOCK];
    const void *from[2];
    bool direct = job->out->dtype == binary->result;

    INLAY_CHECK(count > 0 && count <= ELEMENTWISE_BLOCK);
    for (int input = 0; input < 2; input++)
        from[input] = elementwise_load(binary->compute, job->in[input].dtype, job->in[input].data, at[input],
                                       step[input] != 0 ? count : 1, buffer[input]);
    if (direct) {
        binary->fn((char *)job->out->data + out * elementwise_bytes(job->out->dtype), from[0], step[0], from[1],
                   step[1], count);
        return;
    }
    int64_t result[ELEMENTWISE_BLOCK];
    binary->fn(result, from[0], step[0], from[1], step[1], count);
    elementwise_store(binary->result, job->out->dtype, job->out->data, out, count, result);
}

/* The position of an output element in a broadcast input. A plane consists of the elements along the last two merged
 * dimensions. */
struct plane {
    int64_t base;    /* offset of the plane in the input, in elements */
    int64_t row, at; /* the row in the plane, and the element in the row */
    int64_t left;    /* output elements up to the end of the plane */
};

static struct plane find_plane(const struct bcast *bcast, int input, int64_t first)
{
    INLAY_CHECK(bcast->rank >= 2);
    uint32_t outer_rank = bcast->rank - 2; /* dimensions before the last two */
    int64_t elements = bcast->row * bcast->dims[outer_rank], remaining = first / elements, in_plane = first % elements;
    struct plane plane = { .row = in_plane / bcast->row, .at = in_plane % bcast->row, .left = elements - in_plane };

    for (uint32_t d = outer_rank; d-- > 0; remaining /= bcast->dims[d])
        plane.base += remaining % bcast->dims[d] * bcast->stride[input][d];
    return plane;
}

/* Expands a broadcast input: writes one element for each of the output elements [first, first + count). The broadcast
 * has at least two merged dimensions. */
#define SPREAD(T)                                                                                                      \
    static void spread_##T(T *to, const T *from, const struct bcast *bcast, int input, int64_t first, int64_t count)   \
    {                                                                                                                  \
        int64_t stride = bcast->stride[input][bcast->rank - 2], row = bcast->row;                                      \
        while (count > 0) {                                                                                            \
            struct plane plane = find_plane(bcast, input, first);                                                      \
            int64_t in_plane = plane.left < count ? plane.left : count, done = 0;                                      \
            const T *at = from + plane.base + plane.row * stride;                                                      \
            first += in_plane;                                                                                         \
            count -= in_plane;                                                                                         \
            if (bcast->step[input] != 0 && stride == row) { /* nothing is repeated in a plane */                       \
                memcpy(to, at + plane.at, (size_t)in_plane * sizeof *to);                                              \
                done = in_plane;                                                                                       \
            }                                                                                                          \
            if (bcast->step[input] != 0 && stride == 0 && plane.at == 0 && in_plane > row) { /* one row is repeated */ \
                memcpy(to, at, (size_t)row * sizeof *to);                                                              \
                for (done = row; done < in_plane;) {                                                                   \
                    int64_t more = done < in_plane - done ? done : in_plane - done;                                    \
                    memcpy(to + done, to, (size_t)more * sizeof *to);                                                  \
                    done += more;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
            for (; done < in_plane; plane.at = 0, at += stride) {                                                      \
                int64_t in_row = row - plane.at < in_plane - done ? row - plane.at : in_plane - done;                  \
                if (bcast->step[input] == 0) {                                                                         \
                    const T value = *at;                                                                               \
                    for (int64_t i = 0; i < in_row; i++)                                                               \
                        to[done + i] = value;                                                                          \
                } else {                                                                                               \
                    for (int64_t i = 0; i < in_row; i++)                                                               \
                        to[done + i] = at[plane.at + i];                                                               \
                }                                                                                                      \
                done += in_row;                                                                                        \
            }                                                                                                          \
            to += in_plane;                                                                                            \
        }                                                                                                              \
    }
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)
SPREAD(inlay_str)
#undef SPREAD

void elementwise_spread(void *to, const void *from, int64_t bytes, const struct bcast *bcast, int input, int64_t first,
                        int64_t count)
{
    if (bytes == 4)
        spread_uint32_t(to, from, bcast, input, first, count);
    else if (bytes == 8)
        spread_uint64_t(to, from, bcast, input, first, count);
    else if (bytes == 2)
        spread_uint16_t(to, from, bcast, input, first, count);
    else if (bytes == 1)
        spread_uint8_t(to, from, bcast, input, first, count);
    else
        spread_inlay_str(to, from, bcast, input, first, count);
}

/* Short rows: the broadcast input is expanded to a block, so that the loop gets long rows. An input that is the same
 * for every row is expanded only once; blocks are whole rows, so the expansion is valid for all of them. */
static void binary_gather(const binary_job *job, int64_t begin, int64_t end)
{
    const binary_plan *plan = job->plan;
    int64_t expansion[2][2 * ELEMENTWISE_BLOCK]; /* 16 bytes per element: strings */
    kit_tensor in[2] = { job->in[0], job->in[1] };
    binary_job block = { job->binary, plan, in, job->out };
    int64_t whole_rows = ELEMENTWISE_BLOCK / plan->bcast.row * plan->bcast.row, count;
    bool expanded[2] = { false, false };
    INLAY_CHECK(whole_rows > 0 && plan->bcast.rank >= 2);

    for (int64_t first = begin; first < end; first += count) {
        int64_t at[2] = { first, first }, step[2] = { 1, 1 };

        count = whole_rows - first % plan->bcast.row; /* end at the end of a row */
        count = count < end - first ? count : end - first;
        for (int input = 0; input < 2; input++) {
            if (plan->whole[input])
                continue;
            at[input] = 0;
            step[input] = plan->one[input] ? 0 : 1;
            if (plan->one[input])
                continue;
            if (!expanded[input]) {
                expanded[input] = plan->periodic[input] && first % plan->bcast.row == 0;
                elementwise_spread(expansion[input], job->in[input].data, elementwise_bytes(job->in[input].dtype),
                                   &plan->bcast, input, first, expanded[input] ? whole_rows : count);
            }
            in[input].data = expansion[input];
        }
        binary_block(&block, first, at, step, count);
    }
}

static inlay_status binary_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const binary_job *job = user;
    const elementwise_binary *binary = job->binary;
    const struct bcast *bcast = &job->plan->bcast;
    bcast_cursor cursor;

    (void)worker;
    if (job->plan->gathers) {
        binary_gather(job, begin, end);
        return INLAY_OK;
    }
    for (bcast_start(bcast, begin, &cursor); bcast_row(bcast, &cursor, end);) {
        if (!job->plan->converts) {
            binary->fn((char *)job->out->data + cursor.out * elementwise_bytes(job->out->dtype),
                       (const char *)job->in[0].data + cursor.at[0] * elementwise_bytes(job->in[0].dtype),
                       bcast->step[0],
                       (const char *)job->in[1].data + cursor.at[1] * elementwise_bytes(job->in[1].dtype),
                       bcast->step[1], cursor.count);
            continue;
        }
        for (int64_t i = 0; i < cursor.count; i += ELEMENTWISE_BLOCK) {
            int64_t at[2] = { cursor.at[0] + i * bcast->step[0], cursor.at[1] + i * bcast->step[1] };
            binary_block(job, cursor.out + i, at, bcast->step,
                         cursor.count - i < ELEMENTWISE_BLOCK ? cursor.count - i : ELEMENTWISE_BLOCK);
        }
    }
    return INLAY_OK;
}

void elementwise_binary_row(const void *state, float *out, const float *const *in, const int64_t *step, int64_t count)
{
    const elementwise_binary *binary = state;
    INLAY_CHECK(binary->fn != NULL);

    binary->fn(out, in[0], step[0], in[1], step[1], count);
}

bool elementwise_binary_row_fits(const kit_node *node)
{
    return kit_since_version(node) >= 7;
}

inlay_status elementwise_binary_run(const kit_call *call)
{
    const elementwise_binary *binary = call->state;
    const binary_plan *plan = call->plan;

    int64_t grain = binary->grain > 0 ? binary->grain : ELEMENTWISE_GRAIN;
    INLAY_CHECK(plan != NULL && binary->fn != NULL);

    if (plan->direct && plan->bcast.count <= grain) {
        if (plan->bcast.count > 0)
            binary->fn(call->out[0].data, call->in[0].data, plan->bcast.step[0], call->in[1].data, plan->bcast.step[1],
                       plan->bcast.count);
        return INLAY_OK;
    }
    binary_job job = { binary, plan, call->in, call->out };
    return kit_parallel(call, plan->bcast.count, grain, binary_range, &job);
}
