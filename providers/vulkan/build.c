/* Helpers of the lowering functions: dispatches, operands, places, strides. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <stdarg.h>
#include <stdlib.h>

/* Grows an array to `count` elements; new ones are zero. `array` is the address of a typed pointer. Sets the status
 * on failure. */
static bool grow(vulkan_build *build, void *array, uint32_t count, uint32_t *capacity, size_t element)
{
    const uint32_t doubled = *capacity < 32 ? 64 : *capacity * 2, new_capacity = doubled > count ? doubled : count;
    void *old, *resized;

    if (build->status != INLAY_OK || count <= *capacity)
        return build->status == INLAY_OK;
    memcpy(&old, array, sizeof old);
    resized = realloc(old, new_capacity * element);
    if (resized == NULL) {
        build->status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes",
                                   build->compiled->op_count);
        return false;
    }
    memset((char *)resized + *capacity * element, 0, (new_capacity - *capacity) * element);
    memcpy(array, &resized, sizeof resized);
    *capacity = new_capacity;
    return true;
}

inlay_status vulkan_decline(vulkan_build *build, const vulkan_op *op, const char *format, ...)
{
    char text[256];
    va_list args;

    if (build->status != INLAY_OK)
        return build->status;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    build->status = inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': %s", op->info.name.data, text);
    (void)snprintf(build->diag->node, sizeof build->diag->node, "%s", op->info.name.data);
    return build->status;
}

uint32_t vulkan_element(inlay_dtype dtype)
{
    static const uint8_t elements[32] = {
        [INLAY_FLOAT] = EL_F32,  [INLAY_FLOAT16] = EL_F16, [INLAY_BFLOAT16] = EL_BF16, [INLAY_INT8] = EL_I8,
        [INLAY_UINT8] = EL_U8,   [INLAY_INT16] = EL_I16,   [INLAY_UINT16] = EL_U16,    [INLAY_INT32] = EL_I32,
        [INLAY_UINT32] = EL_U32, [INLAY_INT64] = EL_I64,   [INLAY_UINT64] = EL_I64,    [INLAY_DOUBLE] = EL_F64,
        [INLAY_BOOL] = EL_BOOL,
    };

    return dtype < 32 ? elements[dtype] : EL_BOOL;
}

bool vulkan_axis(int64_t axis, uint32_t rank, uint32_t *out)
{
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return axis >= -(int64_t)rank && axis < (int64_t)rank;
}

bool vulkan_require_axis(vulkan_build *build, const vulkan_op *op, int64_t axis, uint32_t rank, uint32_t *out)
{
    if (!vulkan_axis(axis, rank, out))
        (void)vulkan_decline(build, op, "axis %lld is out of range for rank %u", (long long)axis, rank);
    return build->status == INLAY_OK;
}

bool vulkan_axis_attribute(vulkan_build *build, const vulkan_op *op, int64_t otherwise, uint32_t rank, uint32_t *out)
{
    return vulkan_require_axis(build, op, kit_attr_int(&op->info, "axis", otherwise), rank, out);
}

uint32_t vulkan_input_value(const vulkan_op *op, uint32_t input)
{
    return input < op->info.input_count ? op->info.inputs[input] : INLAY_NONE;
}

uint32_t vulkan_output_value(const vulkan_op *op, uint32_t output)
{
    return output < op->info.output_count ? op->info.outputs[output] : INLAY_NONE;
}

const vulkan_tensor *vulkan_input(const vulkan_build *build, const vulkan_op *op, uint32_t input)
{
    return vulkan_input_value(op, input) != INLAY_NONE ? &build->tensors[vulkan_input_value(op, input)] : NULL;
}

const vulkan_tensor *vulkan_output(const vulkan_build *build, const vulkan_op *op, uint32_t output)
{
    return vulkan_output_value(op, output) != INLAY_NONE ? &build->tensors[vulkan_output_value(op, output)] : NULL;
}

int64_t vulkan_known_ints(const vulkan_build *build, const vulkan_op *op, uint32_t input, int64_t *out, uint32_t most)
{
    const vulkan_tensor *tensor = vulkan_input(build, op, input);

    if (tensor == NULL || tensor->data == NULL || tensor->count > most ||
        (tensor->dtype != INLAY_INT64 && tensor->dtype != INLAY_INT32))
        return -1;
    for (int64_t i = 0; i < tensor->count; i++) {
        int32_t narrow;

        memcpy(&narrow, (const char *)tensor->data + i * 4, sizeof narrow);
        out[i] = narrow;
        if (tensor->dtype == INLAY_INT64)
            memcpy(&out[i], (const char *)tensor->data + i * 8, sizeof out[i]);
    }
    return tensor->count;
}

int64_t vulkan_attr_or_known_ints(const vulkan_build *build, const vulkan_op *op, const char *name, uint32_t input,
                                  int64_t *out, uint32_t most)
{
    uint32_t count = 0;
    const int64_t *attr = kit_attr_ints(&op->info, name, &count);

    if (attr == NULL || count > most)
        return vulkan_known_ints(build, op, input, out, most);
    memcpy(out, attr, count * sizeof *out);
    return count;
}

bool vulkan_permutation(const vulkan_op *op, uint32_t rank, uint32_t *out)
{
    uint32_t count = 0;
    const int64_t *perm = kit_attr_ints(&op->info, "perm", &count);

    for (uint32_t d = 0; d < rank; d++) {
        const int64_t from = perm != NULL && d < count ? perm[d] : rank - 1 - d;

        if (from < 0 || from >= rank)
            return false;
        out[d] = (uint32_t)from;
    }
    return true;
}

vulkan_place vulkan_buffer_place(vulkan_build *build, vulkan_buffer buffer)
{
    inlay_instance *in = build->instance;

    if (!grow(build, &in->buffers, in->buffer_count + 1, &in->buffer_capacity, sizeof *in->buffers))
        return (vulkan_place){ .buffer = INLAY_NONE };
    buffer.first = INLAY_NONE;
    in->buffers[in->buffer_count] = buffer;
    return (vulkan_place){ .buffer = in->buffer_count++ };
}

vulkan_place vulkan_constant_place(vulkan_build *build, const vulkan_constant *constant)
{
    return vulkan_buffer_place(
        build, (vulkan_buffer){ .kind = VULKAN_CONSTANT, .bytes = constant->bytes, .offset = constant->offset });
}

bool vulkan_is_output(const vulkan_build *build, uint32_t value)
{
    return build->compiled->values[value].output != INLAY_NONE;
}

void vulkan_allocate_value(vulkan_build *build, uint32_t value)
{
    const uint32_t output = build->compiled->values[value].output;

    if (build->tensors[value].place.buffer == INLAY_NONE)
        build->tensors[value].place =
            vulkan_buffer_place(build, (vulkan_buffer){ .kind = output != INLAY_NONE ? VULKAN_OUTPUT : VULKAN_WORK,
                                                        .index = output,
                                                        .bytes = vulkan_source_of(build, value).bytes });
}

uint32_t vulkan_add_temporary(vulkan_build *build, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    const uint32_t value = build->compiled->value_count + build->temporaries++;
    vulkan_tensor *tensor = &build->tensors[value];

    INLAY_CHECK(rank <= VULKAN_RANK && build->temporaries <= VULKAN_MAX_TEMPORARIES * build->compiled->op_count);
    *tensor = (vulkan_tensor){ .rank = rank, .dtype = dtype, .known = true };
    memcpy(tensor->dims, dims, rank * sizeof *dims);
    tensor->count = vulkan_dims_product(tensor, 0, rank);
    build->tensors[value].place.buffer = INLAY_NONE;
    return value;
}

void vulkan_alias(vulkan_build *build, uint32_t value, uint32_t of, uint64_t offset)
{
    build->tensors[value].place.buffer = build->tensors[of].place.buffer;
    build->tensors[value].place.offset = build->tensors[of].place.offset + offset;
}

/* Whether the shader runs no elementwise program. Its own parameters then start at word 0. */
static bool has_no_program(gpu_shader shader)
{
    return shader == SHADER_move;
}

vulkan_dispatch *vulkan_add_dispatch(vulkan_build *build, gpu_shader shader, uint32_t own_words)
{
    inlay_instance *in = build->instance;
    const uint32_t words = (has_no_program(shader) ? 0 : WORD_OWN) + own_words;
    vulkan_dispatch *dispatch = &build->overflow_dispatch;

    if (grow(build, &in->dispatches, in->dispatch_count + 1, &in->dispatch_capacity, sizeof *in->dispatches) &&
        grow(build, &in->words, in->word_count + words + 16, &in->word_capacity, sizeof *in->words))
        dispatch = &in->dispatches[in->dispatch_count++];
    *dispatch =
        (vulkan_dispatch){ .shader = shader, .words = in->word_count, .word_count = words, .groups = { 1, 1, 1 } };
    dispatch->constants[ID_LOCAL] = VULKAN_WORKGROUP_SIZE;
    in->word_count += dispatch != &build->overflow_dispatch ? (words + 15) / 16 * 16 : 0;
    return dispatch;
}

void vulkan_set_constants(vulkan_dispatch *dispatch, size_t count, const uint32_t *list)
{
    INLAY_CHECK(count <= ID_BLOCK - ID_OWN);
    memcpy(&dispatch->constants[ID_OWN], list, count * sizeof *list);
}

void vulkan_set_words(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first, size_t count,
                      const int64_t *list)
{
    uint32_t *words =
        build->instance->words + dispatch->words + (has_no_program(dispatch->shader) ? 0 : WORD_OWN) + first;

    INLAY_CHECK(build->status != INLAY_OK ||
                words + count <= build->instance->words + dispatch->words + dispatch->word_count);
    for (size_t i = 0; i < count && build->status == INLAY_OK; i++)
        words[i] = (uint32_t)list[i];
}

vulkan_source vulkan_source_of(const vulkan_build *build, uint32_t value)
{
    const vulkan_tensor *tensor = &build->tensors[value];
    int64_t reach = tensor->count;

    INLAY_CHECK(value < build->compiled->value_count + build->temporaries);
    if (tensor->strided) { /* to its last element, past those between */
        reach = 1;
        for (uint32_t d = 0; d < tensor->rank; d++)
            reach += (tensor->dims[d] - 1) * tensor->strides[d];
    }
    return (vulkan_source){ tensor->place,
                            tensor->parts > 0 ? (uint64_t)reach * tensor->parts * sizeof(float)
                                              : (uint64_t)reach * vulkan_size_of(tensor->dtype),
                            tensor->dtype };
}

void vulkan_add_operand(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t push, vulkan_place place,
                        uint64_t bytes, bool write)
{
    const uint32_t index = (uint32_t)(dispatch - build->instance->dispatches);
    vulkan_buffer *buffer;

    if (build->status != INLAY_OK)
        return;
    if (dispatch->operand_count == VULKAN_MAX_OPERANDS) {
        build->status =
            inlay_fail(build->diag, INLAY_INTERNAL, "a dispatch has more than %d operands", VULKAN_MAX_OPERANDS);
        return;
    }
    INLAY_CHECK(push < PUSH_PARAMS && place.buffer < build->instance->buffer_count);
    buffer = &build->instance->buffers[place.buffer];
    INLAY_CHECK(place.offset + bytes <= buffer->bytes);
    dispatch->operands[dispatch->operand_count++] = (vulkan_operand){
        .push = push, .buffer = place.buffer, .offset = place.offset, .bytes = bytes, .write = write
    };
    if (buffer->first == INLAY_NONE)
        buffer->first = index;
    buffer->last = index;
}

void vulkan_add_value_operand(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t push, uint32_t value, bool write)
{
    const vulkan_source source = vulkan_source_of(build, value);

    vulkan_add_operand(build, dispatch, push, source.place, source.bytes, write);
}

void vulkan_set_input_source(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, const vulkan_source *source)
{
    dispatch->constants[ID_LOAD + k] = vulkan_element(source->dtype);
    vulkan_add_operand(build, dispatch, PUSH_OWN + k, source->place, source->bytes, false);
}

void vulkan_set_input(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, uint32_t value)
{
    const vulkan_source source = value != INLAY_NONE ? vulkan_source_of(build, value) : (vulkan_source){ .bytes = 0 };

    if (value != INLAY_NONE)
        vulkan_set_input_source(build, dispatch, k, &source);
}

bool vulkan_scalar_loads(const vulkan_build *build)
{
    return build->fixed_sizes && build->device->facts.scalar_loads;
}

bool vulkan_rounds_fit(const vulkan_build *build, int64_t rounds)
{
    return !build->device->facts.is_cpu || rounds <= VULKAN_MAX_LOOP_ROUNDS;
}

void vulkan_require_rounds(vulkan_build *build, const vulkan_op *op, int64_t rounds)
{
    if (!vulkan_rounds_fit(build, rounds))
        (void)vulkan_decline(build, op, "its sums exceed the loop limit of CPU drivers");
}

void vulkan_expect_bytes(const vulkan_build *build, vulkan_dispatch *dispatch, double count, double bytes)
{
    dispatch->ns = count * bytes / build->compiled->state->bytes_per_ns;
}

void vulkan_expect_flops(const vulkan_build *build, vulkan_dispatch *dispatch, double flops)
{
    dispatch->ns = flops / build->compiled->state->flops_per_ns;
}

inlay_status vulkan_grid_groups(vulkan_build *build, vulkan_dispatch *dispatch, uint64_t groups)
{
    const uint32_t *most = build->device->facts.max_groups;

    dispatch->groups[0] = (uint32_t)(groups < most[0] ? groups : most[0]);
    dispatch->groups[1] = (uint32_t)((groups + most[0] - 1) / most[0]);
    if (build->status == INLAY_OK && groups > 0 && (groups + most[0] - 1) / most[0] > most[1])
        build->status = inlay_fail(build->diag, INLAY_UNSUPPORTED, "%llu workgroups exceed the limit of %s",
                                   (unsigned long long)groups, build->device->facts.name);
    return build->status;
}

inlay_status vulkan_grid(vulkan_build *build, vulkan_dispatch *dispatch, int64_t items)
{
    const uint32_t local = dispatch->constants[ID_LOCAL];

    INLAY_CHECK(local > 0 && items >= 0);
    return vulkan_grid_groups(build, dispatch, ((uint64_t)items + local - 1) / local);
}

void vulkan_row_major(const int64_t *dims, uint32_t rank, int64_t *strides)
{
    int64_t step = 1;

    for (uint32_t d = rank; d-- > 0; step *= dims[d])
        strides[d] = step;
}

void vulkan_strides(const vulkan_build *build, uint32_t value, int64_t *strides)
{
    if (build->tensors[value].strided)
        memcpy(strides, build->tensors[value].strides, sizeof build->tensors[value].strides);
    else
        vulkan_row_major(build->tensors[value].dims, build->tensors[value].rank, strides);
}

int64_t vulkan_dims_product(const vulkan_tensor *tensor, uint32_t from, uint32_t to)
{
    int64_t product = 1;

    for (uint32_t d = from; d < to; d++)
        product *= tensor->dims[d];
    return product;
}

uint32_t vulkan_merge_dims(uint32_t rank, int64_t *dims, uint32_t tensors, int64_t *const *strides)
{
    uint32_t merged = 0;

    for (uint32_t d = 0; d < rank; d++) {
        const int64_t size = dims[d];
        bool joins = merged > 0;

        if (size == 1)
            continue;
        for (uint32_t t = 0; t < tensors; t++)
            joins = joins && strides[t][merged - 1] == strides[t][d] * size;
        merged -= joins;
        dims[merged] = joins ? dims[merged] * size : size;
        for (uint32_t t = 0; t < tensors; t++)
            strides[t][merged] = strides[t][d];
        merged++;
    }
    return merged;
}

const vulkan_op *vulkan_single_reader(const vulkan_build *build, uint32_t value)
{
    if (value >= build->compiled->value_count || build->compiled->values[value].uses != 1 ||
        vulkan_is_output(build, value))
        return NULL;
    for (uint32_t op = 0; op < build->compiled->op_count; op++)
        for (uint32_t i = 0; i < build->compiled->ops[op].info.input_count; i++)
            if (build->compiled->ops[op].info.inputs[i] == value && !build->done[op])
                return &build->compiled->ops[op];
    return NULL;
}
