/* OneHot: ONNX 9, 11. Fills the output with the off value, and sets one element per index to the on value. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct one_hot_state {
    int64_t axis;
} one_hot_state;

static inlay_status prepare_one_hot(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(one_hot_state), out_state, diag);

    if (status == INLAY_OK)
        ((one_hot_state *)*out_state)->axis = kit_attr_int(node->info, "axis", -1);
    return status;
}

typedef struct one_hot_job {
    const kit_tensor *indices;
    const char *values; /* off, on */
    char *out;
    int64_t depth, inner; /* inner: elements after the new axis */
    uint32_t element;
} one_hot_job;

/* Sets elements to the on value: of index i, element index * step + i * next. For an index out of range, all elements
 * stay off (OneHot-11). */
#define SET_ON(T, bytes)                                                                                               \
    static void set_on_##bytes(const one_hot_job *job, const int64_t *indices, int64_t count, char *out, int64_t step, \
                               int64_t next)                                                                           \
    {                                                                                                                  \
        const T on = ((const T *)(const void *)job->values)[1];                                                        \
        const int64_t depth = job->depth;                                                                              \
                                                                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const int64_t index = indices[i] < 0 ? indices[i] + depth : indices[i];                                    \
                                                                                                                       \
            if (index >= 0 && index < depth)                                                                           \
                ((T *)(void *)out)[index * step + i * next] = on;                                                      \
        }                                                                                                              \
    }
SET_ON(uint8_t, 1)
SET_ON(uint16_t, 2)
SET_ON(uint32_t, 4)
SET_ON(uint64_t, 8)
SET_ON(inlay_str, 16)

/* Processes a range of indexes of the axes before the new one. */
static inlay_status one_hot_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    enum { BLOCK = 512 };
    static void (*const set_on[])(const one_hot_job *, const int64_t *, int64_t, char *, int64_t,
                                  int64_t) = { set_on_1, set_on_2, set_on_4, set_on_8, set_on_16 };
    const one_hot_job *job = user;
    const int64_t inner = job->inner, plane = job->depth * inner, last = end * inner;
    int64_t indices[BLOCK];

    INLAY_CHECK(job->depth > 0 && inner > 0);
    (void)worker;
    strided_fill(job->out + begin * plane * job->element, job->values, job->element, (end - begin) * plane);
    for (int64_t i = begin * inner, count; i < last; i += count) { /* indices of one plane, or of planes of one each */
        const int64_t left = inner > 1 ? inner - i % inner : last - i;

        count = left < BLOCK ? left : BLOCK;
        convert_to_i64(indices, job->indices->dtype, job->indices->data, i, count);
        set_on[__builtin_ctz(job->element)](job, indices, count,
                                            job->out + (i / inner * plane + i % inner) * job->element, inner,
                                            inner > 1 ? 1 : plane);
    }
    return INLAY_OK;
}

static inlay_status run_one_hot(const kit_call *call)
{
    const kit_tensor *indices = &call->in[0], *output = &call->out[0];
    int64_t dims[INLAY_MAX_RANK + 1], depth;
    one_hot_job job = { .indices = indices, .values = call->in[2].data, .out = output->data };
    inlay_status status = INLAY_OK;
    uint32_t axis;

    if (call->in[1].count != 1 || call->in[2].count != 2)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "depth must hold one value and values two");
    depth = convert_get_i64(call->in[1].dtype, call->in[1].data, 0);
    INLAY_TRY(arg_axis(call->diag, ((const one_hot_state *)call->state)->axis, indices->rank + 1, "axis", &axis));
    for (uint32_t i = 0; i < axis; i++)
        dims[i] = indices->dims[i];
    dims[axis] = depth;
    for (uint32_t i = axis; i < indices->rank; i++)
        dims[i + 1] = indices->dims[i];
    INLAY_TRY(arg_expect_dims(call->diag, output, indices->rank + 1, dims));
    if (output->count == 0)
        goto done;
    job.depth = depth;
    job.inner = strided_product(indices->dims, axis, indices->rank);
    job.element = strided_element_bytes(output->dtype);
    INLAY_TRY(kit_parallel(call, strided_product(indices->dims, 0, axis), 16384 / (depth * job.inner) + 1,
                           one_hot_range, &job));
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "OneHot", .prepare = prepare_one_hot, .run = run_one_hot },
};
const kit_table OPERATOR(operators_one_hot) = { kernels, KIT_COUNT(kernels) };
