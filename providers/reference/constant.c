/* Constant (ONNX 1, 9, 11, 12, 13, 19, 21, 23, 24, 25) and ConstantOfShape (9, 20, 21, 23, 24, 25). The host turns
 * Constant nodes into initializers when it loads a model; this kernel runs them in graphs from other sources. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "operators/work.h"

/* The elements, copied from the attributes, which are not valid after prepare. */
typedef struct constant_state {
    uint64_t bytes;
    inlay_dtype dtype;
    uint32_t reserved;
    char data[]; /* elements; the bytes of strings follow them */
} constant_state;

static inlay_status make_state(uint64_t bytes, inlay_dtype dtype, uint64_t extra, constant_state **out,
                               inlay_diag *diag)
{
    void *memory;
    inlay_status status = arg_allocate_state(sizeof(constant_state) + (size_t)(bytes + extra), &memory, diag);

    if (status != INLAY_OK)
        return status;
    *out = memory;
    (*out)->bytes = bytes;
    (*out)->dtype = dtype;
    return INLAY_OK;
}

static inlay_status copy_bytes(const void *data, uint64_t bytes, inlay_dtype dtype, void **out_state, inlay_diag *diag)
{
    constant_state *state = NULL;
    inlay_status status = make_state(bytes, dtype, 0, &state, diag);

    if (status == INLAY_OK) {
        if (bytes > 0)
            memcpy(state->data, data, (size_t)bytes);
        *out_state = state;
    }
    return status;
}

static inlay_status copy_strings(const inlay_str *texts, uint64_t count, void **out_state, inlay_diag *diag)
{
    constant_state *state = NULL;
    uint64_t extra = 0;
    inlay_status status;
    inlay_str *strings;
    char *text;

    for (uint64_t i = 0; i < count; i++)
        extra += texts[i].bytes;
    status = make_state(count * sizeof *texts, INLAY_STRING, extra, &state, diag);
    if (status != INLAY_OK)
        return status;
    strings = (inlay_str *)(void *)state->data;
    text = state->data + count * sizeof *texts;
    for (uint64_t i = 0; i < count; i++) {
        strings[i] = (inlay_str){ text, texts[i].bytes };
        if (texts[i].bytes > 0)
            INLAY_CHECK(text <= state->data + count * sizeof *texts + extra);
        memcpy(text, texts[i].data, (size_t)texts[i].bytes);
        text += texts[i].bytes;
    }
    *out_state = state;
    return INLAY_OK;
}

static inlay_status prepare_constant(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *attribute;

    if ((attribute = kit_attr(node->info, "value")) != NULL && attribute->tensor != NULL)
        return attribute->tensor->dtype == INLAY_STRING
                   ? copy_strings(attribute->tensor->data, attribute->tensor->bytes / sizeof(inlay_str), out_state,
                                  diag)
                   : copy_bytes(attribute->tensor->data, attribute->tensor->bytes, attribute->tensor->dtype, out_state,
                                diag);
    if ((attribute = kit_attr(node->info, "value_float")) != NULL) {
        const float value = (float)attribute->f;
        return copy_bytes(&value, sizeof value, INLAY_FLOAT, out_state, diag);
    }
    if ((attribute = kit_attr(node->info, "value_int")) != NULL)
        return copy_bytes(&attribute->i, sizeof attribute->i, INLAY_INT64, out_state, diag);
    if ((attribute = kit_attr(node->info, "value_string")) != NULL)
        return copy_strings(&attribute->s, 1, out_state, diag);
    if ((attribute = kit_attr(node->info, "value_floats")) != NULL)
        return copy_bytes(attribute->floats, attribute->count * sizeof(float), INLAY_FLOAT, out_state, diag);
    if ((attribute = kit_attr(node->info, "value_ints")) != NULL)
        return copy_bytes(attribute->ints, attribute->count * sizeof(int64_t), INLAY_INT64, out_state, diag);
    if ((attribute = kit_attr(node->info, "value_strings")) != NULL)
        return copy_strings(attribute->strings, attribute->count, out_state, diag);
    return inlay_fail(diag, INLAY_INVALID_MODEL, "a Constant without a value attribute");
}

static inlay_status run_constant(const kit_call *call)
{
    const constant_state *state = call->state;
    const kit_tensor *output = &call->out[0];

    if (state->dtype != output->dtype || kit_bytes(output->dtype, output->count) != state->bytes)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%llu bytes of value for an output of %lld elements",
                          (unsigned long long)state->bytes, (long long)output->count);
    return strided_memcpy(call, output->data, state->data, state->bytes);
}

static inlay_status prepare_constant_of_shape(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *attribute = kit_attr(node->info, "value");
    const float zero = 0;
    int64_t count = 1;

    if (attribute == NULL || attribute->tensor == NULL)
        return copy_bytes(&zero, sizeof zero, INLAY_FLOAT, out_state, diag);
    for (uint32_t i = 0; i < attribute->tensor->rank; i++)
        count = attribute->tensor->dims[i] == 1 ? count : 0;
    if (count != 1 || attribute->tensor->dtype == INLAY_STRING ||
        attribute->tensor->bytes < kit_bytes(attribute->tensor->dtype, 1))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "value must hold one element");
    return copy_bytes(attribute->tensor->data, kit_bytes(attribute->tensor->dtype, 1), attribute->tensor->dtype,
                      out_state, diag);
}

typedef struct fill_job {
    char *out;
    const char *element;
    uint32_t bytes;
} fill_job;

static inlay_status fill_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const fill_job *job = user;

    (void)worker;
    strided_fill(job->out + begin * job->bytes, job->element, job->bytes, end - begin);
    return INLAY_OK;
}

static inlay_status run_constant_of_shape(const kit_call *call)
{
    const constant_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    char element[16] = { 0 };
    fill_job job = { output->data, element, strided_element_bytes(output->dtype) };
    int64_t count = output->count;
    inlay_status status;

    if (input->count > INLAY_MAX_RANK)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "%lld axes; at most %d are supported",
                          (long long)input->count, INLAY_MAX_RANK);
    status = arg_expect_dims(call->diag, output, (uint32_t)input->count, input->data);
    if (status != INLAY_OK)
        return status;
    memcpy(element, state->data, (size_t)state->bytes);
    INLAY_CHECK(state->bytes <= sizeof element);
    if (strided_is_packed(output->dtype)) { /* several elements share a byte: fill a byte with copies of the element */
        const uint32_t bits = inlay_dtype_bits(output->dtype), value = (uint8_t)element[0] & ((1u << bits) - 1);
        const int64_t per_byte = 8 / (int64_t)bits;

        for (uint32_t shift = 0; shift < 8; shift += bits)
            element[0] = (char)(shift == 0 ? value : ((uint8_t)element[0] | value << shift));
        count = (count + per_byte - 1) / per_byte;
    }
    return kit_parallel(call, count, 131072 / job.bytes, fill_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "Constant", .prepare = prepare_constant, .run = run_constant },
    { .op_type = "ConstantOfShape",
      .prepare = prepare_constant_of_shape,
      .cost = work_cost_of_shared_stream,
      .run = run_constant_of_shape },
};
const kit_table reference_constant = { kernels, KIT_COUNT(kernels) };
