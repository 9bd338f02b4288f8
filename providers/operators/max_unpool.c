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

/* Copies elements to the positions that indices gives, if they are in [from, from + output_count); `output` is element
 * `from`. Returns how many are. There is no branch that depends on data. */
#define PUT(T)                                                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        const uint64_t at = (uint64_t)indices[i] - (uint64_t)from;                                                     \
        T unused, *to = at < output_count ? (T *)output + at : &unused;                                                \
                                                                                                                       \
        *to = ((const T *)input)[i];                                                                                   \
        inside += at < output_count;                                                                                   \
    }
struct element16 {
    uint64_t low, high;
};
static int64_t put_elements(const void *input, const int64_t *indices, int64_t count, int64_t from, void *output,
                            uint64_t output_count, int64_t element)
{
    int64_t inside = 0;

    switch (element) {
    case 1:
        PUT(uint8_t);
        break;
    case 2:
        PUT(uint16_t);
        break;
    case 4:
        PUT(uint32_t);
        break;
    case 8:
        PUT(uint64_t);
        break;
    default:
        PUT(struct element16);
    }
    return inside;
}
#undef PUT

typedef struct unpool_job {
    const kit_tensor *input, *output;
    const int64_t *indices;
    int64_t in, out, element; /* elements of a plane of the input and of the output; bytes of an element */
    int64_t part;             /* elements of a part of the output */
    int64_t inside;           /* indices that were inside a part */
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
        if (put_elements((const char *)job->input->data + plane * job->in * job->element,
                         job->indices + plane * job->in, job->in, plane * job->out, output, (uint64_t)job->out,
                         job->element) < job->in) {
            __atomic_store_n(&job->elsewhere, true, __ATOMIC_RELAXED);
            break;
        }
    }
    return INLAY_OK;
}

/* Fills parts [begin, end) of the output, each from all elements of the input. */
static inlay_status unpool_parts(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    unpool_job *job = user;
    const int64_t from = begin * job->part, all = job->output->count,
                  count = (end * job->part < all ? end * job->part : all) - from;
    char *output = (char *)job->output->data + from * job->element;

    (void)worker;
    if (count <= 0)
        return INLAY_OK;
    memset(output, 0, (size_t)(count * job->element));
    __atomic_fetch_add(
        &job->inside,
        put_elements(job->input->data, job->indices, job->input->count, from, output, (uint64_t)count, job->element),
        __ATOMIC_RELAXED);
    return INLAY_OK;
}

/* The fast path: the output has the pooled shape, so the indices refer to its elements. */
static inlay_status unpool_flat(const kit_call *call, int64_t element)
{
    enum { PART = 32768 }; /* minimum elements of a part */
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const int64_t planes = input->dims[0] * input->dims[1];
    unpool_job job = { .input = input,
                       .output = output,
                       .indices = call->in[1].data,
                       .in = input->count / planes,
                       .out = output->count / planes,
                       .element = element };
    int64_t parts = call->max_threads > 1 ? call->max_threads : 1;
    inlay_status status = INLAY_OK;

    for (int64_t plane = 0; plane < planes && !job.elsewhere; plane++)
        job.elsewhere = job.indices[plane * job.in] / job.out != plane;
    if (!job.elsewhere)
        status = kit_parallel(call, planes, 65536 / job.out + 1, unpool_planes, &job);
    if (status != INLAY_OK || !job.elsewhere)
        return status;
    parts = parts < output->count / PART ? parts : output->count / PART + 1;
    job.part = (output->count + parts - 1) / parts;
    status = kit_parallel(call, parts, 1, unpool_parts, &job);
    for (int64_t i = 0; i < input->count && status == INLAY_OK && job.inside < input->count; i++)
        if ((uint64_t)job.indices[i] >= (uint64_t)output->count)
            status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "I[%lld] is %lld, outside the output", (long long)i,
                                (long long)job.indices[i]);
    return status;
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
