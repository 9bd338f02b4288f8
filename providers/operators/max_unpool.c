/* MaxUnpool: ONNX 9, 11, 22. Writes the results of MaxPool to their original positions; all other elements are 0. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct unpool_state {
    int64_t kernel[INLAY_MAX_RANK], pads[2 * INLAY_MAX_RANK], strides[INLAY_MAX_RANK];
    int32_t kernel_count, pad_count, stride_count;
} unpool_state;

static inlay_status prepare_unpool(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(unpool_state), out_state, diag);

    if (status == INLAY_OK) {
        unpool_state *state = *out_state;

        INLAY_TRY(arg_ints(node, "kernel_shape", state->kernel, INLAY_MAX_RANK, &state->kernel_count, diag));
        INLAY_TRY(arg_ints(node, "pads", state->pads, 2 * INLAY_MAX_RANK, &state->pad_count, diag));
        INLAY_TRY(arg_ints(node, "strides", state->strides, INLAY_MAX_RANK, &state->stride_count, diag));
    }
done:
    return status;
}

/* Computes the shape of the pooled tensor, to which the indices refer; output_shape may be different. */
static inlay_status pooled_shape(const kit_call *call, int64_t *dims)
{
    const unpool_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t spatial = (int64_t)input->rank - 2;

    if (spatial < 1 || state->kernel_count != spatial || (state->stride_count >= 0 && state->stride_count != spatial) ||
        (state->pad_count >= 0 && state->pad_count != 2 * spatial))
        return inlay_fail(call->diag, INLAY_INVALID_MODEL,
                          "kernel_shape, strides or pads do not match an input of rank %u", input->rank);
    dims[0] = input->dims[0];
    dims[1] = input->dims[1];
    for (int64_t d = 0; d < spatial; d++) {
        const int64_t stride = state->stride_count >= 0 ? state->strides[d] : 1;
        const int64_t pads = state->pad_count >= 0 ? state->pads[d] + state->pads[d + spatial] : 0;

        if (stride <= 0 || stride > INT32_MAX || state->kernel[d] <= 0 || state->kernel[d] > INT32_MAX || pads < 0 ||
            pads > INT32_MAX || input->dims[d + 2] > INT32_MAX)
            return inlay_fail(call->diag, INLAY_INVALID_MODEL,
                              "axis %lld: kernel %lld and stride %lld must be at least 1, pads %lld at least 0",
                              (long long)d + 2, (long long)state->kernel[d], (long long)stride, (long long)pads);
        dims[d + 2] = (input->dims[d + 2] - 1) * stride + state->kernel[d] - pads;
        if (dims[d + 2] <= 0)
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "axis %lld would have size %lld", (long long)d + 2,
                              (long long)dims[d + 2]);
    }
    return INLAY_OK;
}

/* Copies `count` elements of input to the positions that indices gives. `output` is element `from` of the tensor, and
 * output_count elements from there on may be written. Returns the position of the first index outside of them, or
 * `count` if there is none. */
static int64_t unpool_some(const void *input, const int64_t *indices, int64_t count, int64_t from, void *output,
                           uint64_t output_count, int64_t element)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t at = (uint64_t)indices[i] - (uint64_t)from;

        if (at >= output_count)
            return i;
        switch (element) {
        case 4:
            ((uint32_t *)output)[at] = ((const uint32_t *)input)[i];
            break;
        case 2:
            ((uint16_t *)output)[at] = ((const uint16_t *)input)[i];
            break;
        default:
            memcpy((char *)output + at * (uint64_t)element, (const char *)input + i * element, (size_t)element);
        }
    }
    return count;
}

typedef struct unpool_job {
    const kit_tensor *input, *output;
    const int64_t *indices;
    int64_t in, out, element; /* elements of a plane of the input and of the output; bytes of an element */
    bool elsewhere;           /* a plane with an index outside that plane was found */
} unpool_job;

/* Processes planes [begin, end). The indices of MaxPool refer to elements of the same plane, so each plane is zeroed
 * and filled while it is in the cache. */
static inlay_status unpool_planes(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    unpool_job *job = user;

    INLAY_CHECK(job->out > 0);
    (void)worker;
    for (int64_t plane = begin; plane < end; plane++) {
        char *output = (char *)job->output->data + plane * job->out * job->element;

        memset(output, 0, (size_t)(job->out * job->element));
        if (unpool_some((const char *)job->input->data + plane * job->in * job->element, job->indices + plane * job->in,
                        job->in, plane * job->out, output, (uint64_t)job->out, job->element) < job->in) {
            __atomic_store_n(&job->elsewhere, true, __ATOMIC_RELAXED);
            break;
        }
    }
    return INLAY_OK;
}

/* The fast path: the output has the pooled shape, so the indices refer to its elements. */
static inlay_status unpool_flat(const kit_call *call, int64_t element)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const int64_t planes = input->dims[0] * input->dims[1];
    unpool_job job = { input, output, call->in[1].data, input->count / planes, output->count / planes, element, false };
    const inlay_status status = kit_parallel(call, planes, 65536 / job.out + 1, unpool_planes, &job);
    int64_t first;

    if (status != INLAY_OK || !job.elsewhere)
        return status;
    memset(output->data, 0, (size_t)(output->count * element));
    first = unpool_some(input->data, job.indices, input->count, 0, output->data, (uint64_t)output->count, element);
    if (first < input->count)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "I[%lld] is %lld, outside the output", (long long)first,
                          (long long)job.indices[first]);
    return INLAY_OK;
}

static inlay_status run_unpool(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    const int64_t element = strided_element_bytes(input->dtype);
    int64_t dims[INLAY_MAX_RANK], steps[INLAY_MAX_RANK];
    inlay_status status = pooled_shape(call, dims);

    if (status == INLAY_OK && !kit_has_input(call, 2))
        status = arg_expect_dims(call->diag, output, input->rank, dims);
    if (status != INLAY_OK)
        return status;
    if (output->rank != input->rank || indices->count != input->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "X, I and the output must have the same rank, X and I the same shape");
    if (input->count > 0 && memcmp(dims, output->dims, input->rank * sizeof *dims) == 0)
        return unpool_flat(call, element);
    memset(output->data, 0, (size_t)(output->count * element));
    strided_row_major(output->rank, output->dims, element, steps);
    for (int64_t i = 0; i < input->count; i++) {
        int64_t rest = ((const int64_t *)indices->data)[i];
        char *to = output->data;
        bool inside = rest >= 0;

        for (uint32_t d = input->rank; d-- > 0;) {
            const int64_t at = rest % dims[d];

            rest /= dims[d];
            inside = inside && at < output->dims[d];
            to += inside ? at * steps[d] : 0;
        }
        if (!inside || rest != 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "I[%lld] is %lld, outside the output", (long long)i,
                              (long long)((const int64_t *)indices->data)[i]);
        memcpy(to, (const char *)input->data + i * element, (size_t)element);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "MaxUnpool", .prepare = prepare_unpool, .run = run_unpool },
};
const kit_table OPERATOR(operators_max_unpool) = { kernels, KIT_COUNT(kernels) };
