/* Builds a region at concrete shapes: places of values, buffers, and steps. */
#include "cpu/region/build.h"

static inlay_status no_memory(const cpu_build *build)
{
    return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes",
                      build->compiled->op_count);
}

int64_t cpu_count(const cpu_build *build, uint32_t value)
{
    int64_t count = 1;

    INLAY_CHECK(value < build->compiled->value_count && build->ranks[value] <= CPU_MAX_RANK);
    for (uint32_t d = 0; d < build->ranks[value]; d++)
        count *= build->dims[value][d];
    return count;
}

static inlay_status add_buffer(cpu_build *build, cpu_buffer buffer, uint32_t *out)
{
    inlay_instance *instance = build->instance;

    INLAY_CHECK(buffer.kind <= CPU_CONST);
    if (!cpu_scratch_grow(instance->memory, &instance->buffers, instance->buffer_count, &build->buffer_capacity,
                          sizeof *instance->buffers))
        return no_memory(build);
    buffer.first = INLAY_NONE;
    buffer.parent = INLAY_NONE;
    buffer.copy_of = INLAY_NONE;
    *out = instance->buffer_count;
    instance->buffers[instance->buffer_count++] = buffer;
    return INLAY_OK;
}

inlay_status cpu_new_place(cpu_build *build, const tensor_layout *layout, cpu_place *out)
{
    *out = (cpu_place){ .layout = *layout };
    return add_buffer(build, (cpu_buffer){ .kind = CPU_WORK, .bytes = layout_bytes(layout) }, &out->buffer);
}

inlay_status cpu_new_floats(cpu_build *build, int64_t count, cpu_place *out)
{
    tensor_layout layout;

    layout_plain(&layout, 1, &count);
    return cpu_new_place(build, &layout, out);
}

inlay_status cpu_pack_place(cpu_build *build, const void *data, uint64_t bytes, cpu_place *out)
{
    const int64_t count = (int64_t)bytes;

    *out = (cpu_place){ 0 };
    layout_plain(&out->layout, 1, &count);
    out->layout.type = ELEMENT_UINT8;
    return add_buffer(build, (cpu_buffer){ .kind = CPU_CONST, .data = data, .bytes = bytes }, &out->buffer);
}

inlay_status cpu_input_place(cpu_build *build, uint32_t value, cpu_place *place)
{
    place->offset = 0;
    return add_buffer(build,
                      (cpu_buffer){ .kind = CPU_INPUT,
                                    .index = build->compiled->values[value].input,
                                    .bytes = layout_bytes(&place->layout) },
                      &place->buffer);
}

inlay_status cpu_output_place(cpu_build *build, uint32_t value, const tensor_layout *layout, cpu_place *out)
{
    *out = (cpu_place){ .layout = *layout };
    return add_buffer(build,
                      (cpu_buffer){ .kind = CPU_OUTPUT,
                                    .index = build->compiled->values[value].output,
                                    .bytes = layout_bytes(layout) },
                      &out->buffer);
}

inlay_status cpu_result_place(cpu_build *build, uint32_t value, const tensor_layout *layout, cpu_place *out)
{
    const cpu_value *properties = &build->compiled->values[value];

    if (properties->output == INLAY_NONE || !layout_is_plain(layout))
        return cpu_new_place(build, layout, out);
    return cpu_output_place(build, value, layout, out);
}

inlay_status cpu_step_result_place(cpu_build *build, const cpu_group *group, uint32_t posts_done,
                                   const tensor_layout *layout, cpu_place *out)
{
    return posts_done == group->post_count ? cpu_result_place(build, group->out, layout, out)
                                           : cpu_new_place(build, layout, out);
}

bool cpu_is_last_use(const cpu_build *build, uint32_t value)
{
    const cpu_buffer *buffer;

    if (build->places[value].buffer == INLAY_NONE)
        return false;
    buffer = &build->instance->buffers[build->places[value].buffer];
    return buffer->kind == CPU_WORK && buffer->pending == 1 && build->uses[value] == 1 &&
           (buffer->copy_of == INLAY_NONE || build->uses[buffer->copy_of] == 0);
}

static inlay_status add_arg(cpu_build *build, cpu_step *step, const cpu_place *place)
{
    inlay_instance *instance = build->instance;
    cpu_buffer *buffer = &instance->buffers[place->buffer];

    INLAY_CHECK(place->buffer < instance->buffer_count);
    if (!cpu_scratch_grow(instance->memory, &instance->args, instance->arg_count, &build->arg_capacity,
                          sizeof *instance->args))
        return no_memory(build);
    if (buffer->first == INLAY_NONE)
        buffer->first = instance->step_count;
    buffer->last = instance->step_count;
    instance->args[instance->arg_count++] = (cpu_arg){ place->offset, place->buffer };
    step->arg_count++;
    return INLAY_OK;
}

static inlay_status add_step(cpu_build *build, cpu_step *step)
{
    inlay_instance *instance = build->instance;

    INLAY_CHECK(step->native != NULL);
    INLAY_CHECK(step->first_arg + step->arg_count == instance->arg_count);
    if (!cpu_scratch_grow(instance->memory, &instance->steps, instance->step_count, &build->step_capacity,
                          sizeof *instance->steps))
        return no_memory(build);
    if (step->arg_count > instance->max_args)
        instance->max_args = step->arg_count;
    instance->steps[instance->step_count++] = *step;
    return INLAY_OK;
}

inlay_status cpu_emit_native(cpu_build *build, cpu_native *native, const cpu_place *const *places, uint32_t count)
{
    cpu_step step = { .first_arg = build->instance->arg_count, .op = build->op_index, .native = native };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(native != NULL && native->run != NULL);
    for (uint32_t i = 0; i < count; i++)
        INLAY_TRY(add_arg(build, &step, places[i]));
    INLAY_TRY(add_step(build, &step));
    step.native = NULL;
done:
    cpu_native_destroy(step.native);
    return status;
}

void *cpu_new_native(cpu_build *build, size_t bytes)
{
    cpu_native *native = cpu_scratch_take_zeroed(build->instance->memory, 1, bytes);

    INLAY_CHECK(bytes >= sizeof *native);
    if (native != NULL)
        native->pooled = true;
    return native;
}

inlay_status cpu_emit_step(cpu_build *build, const cpu_native *step, size_t bytes, const cpu_place *const *places,
                           uint32_t count)
{
    cpu_native *native = cpu_new_native(build, bytes);

    if (native == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    INLAY_CHECK(step->release == NULL);
    memcpy(native, step, bytes);
    native->pooled = true;
    return cpu_emit_native(build, native, places, count);
}

void cpu_native_destroy(cpu_native *native)
{
    if (native != NULL && native->release != NULL)
        native->release(native);
    if (native != NULL && !native->pooled)
        free(native);
}
