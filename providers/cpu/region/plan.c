/* Assigns all work buffers to one workspace; buffers that are never used by the same step may share bytes. */
#include "cpu/region/build.h"
#include "common/spans.h"

enum { ALIGN = 64 };

inlay_status cpu_plan(cpu_build *build)
{
    inlay_instance *instance = build->instance;
    struct span *list = cpu_scratch_take(build->scratch, (size_t)instance->buffer_count + 1, sizeof *list);
    uint32_t count = 0;

    if (list == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to plan a region of %u nodes",
                          build->compiled->op_count);
    for (uint32_t k = 0; k < instance->buffer_count; k++) {
        const cpu_buffer *buffer = &instance->buffers[k];

        if (buffer->kind == CPU_WORK && buffer->first != INLAY_NONE && buffer->parent == INLAY_NONE)
            list[count++] = (struct span){ buffer->bytes, buffer->first, buffer->last, k, 0 };
    }
    instance->workspace_bytes = spans_place(list, count, ALIGN);
    for (uint32_t k = 0; k < count; k++)
        instance->buffers[list[k].id].offset = list[k].offset;
    for (uint32_t k = 0; k < instance->buffer_count; k++) {
        cpu_buffer *buffer = &instance->buffers[k];
        const cpu_buffer *root = buffer;
        uint64_t within = 0;

        while (root->parent != INLAY_NONE) {
            INLAY_CHECK(root->parent < instance->buffer_count);
            within += root->within;
            root = &instance->buffers[root->parent];
        }
        if (root != buffer)
            buffer->offset = root->offset + within;
    }
    return INLAY_OK;
}
