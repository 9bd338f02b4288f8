/* Plans an instance: workspace offsets of buffers, barriers between dispatches, and segments. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include "common/spans.h"
#include <stdlib.h>

static inlay_status place_buffers(vulkan_build *build)
{
    inlay_instance *in = build->instance;
    struct span *list = malloc(((size_t)in->buffer_count + 1) * sizeof *list);
    uint32_t count = 0;

    if (list == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to plan a region of %u nodes",
                          build->compiled->op_count);
    for (uint32_t k = 0; k < in->buffer_count; k++) {
        const vulkan_buffer *buffer = &in->buffers[k];

        INLAY_CHECK(buffer->first == INLAY_NONE ||
                    (buffer->first <= buffer->last && buffer->last < in->dispatch_count));
        if (buffer->kind == VULKAN_WORK && buffer->first != INLAY_NONE)
            list[count++] = (struct span){ buffer->bytes, buffer->first, buffer->last, k, 0 };
    }
    in->workspace_bytes = spans_place(list, count, GPU_ALIGNMENT);
    for (uint32_t k = 0; k < count; k++)
        in->buffers[list[k].id].offset = list[k].offset;
    INLAY_CHECK(in->workspace_bytes % GPU_ALIGNMENT == 0);
    free(list);
    return INLAY_OK;
}

/* Whether two operands overlap and one of them is written. An input or output of the region overlaps only itself. */
static bool operands_conflict(const inlay_instance *in, const vulkan_operand *first, const vulkan_operand *second)
{
    const vulkan_buffer *first_buffer = &in->buffers[first->buffer], *second_buffer = &in->buffers[second->buffer];
    const uint64_t first_at = (first_buffer->kind == VULKAN_WORK ? first_buffer->offset : 0) + first->offset;
    const uint64_t second_at = (second_buffer->kind == VULKAN_WORK ? second_buffer->offset : 0) + second->offset;

    if ((!first->write && !second->write) || first_buffer->kind != second_buffer->kind ||
        (first_buffer->kind != VULKAN_WORK && first_buffer->index != second_buffer->index))
        return false;
    return first_at < second_at + second->bytes && second_at < first_at + first->bytes;
}

/* Sets a barrier before each dispatch that conflicts with a dispatch since the last barrier. */
static void place_barriers(inlay_instance *in)
{
    uint32_t since = 0;

    for (uint32_t i = 0; i < in->dispatch_count; i++) {
        vulkan_dispatch *dispatch = &in->dispatches[i];

        for (uint32_t j = since; j < i && !dispatch->barrier; j++)
            for (uint32_t x = 0; x < dispatch->operand_count && !dispatch->barrier; x++)
                for (uint32_t y = 0; y < in->dispatches[j].operand_count && !dispatch->barrier; y++)
                    dispatch->barrier = operands_conflict(in, &dispatch->operands[x], &in->dispatches[j].operands[y]);
        if (dispatch->barrier)
            since = i;
    }
}

/* Limits the expected time of a submission, so that driver watchdogs do not fire and runs can be cancelled. If a test
 * injects a fault, each dispatch is a separate submission. */
static inlay_status cut_segments(vulkan_build *build)
{
    const double most_ns = build->device->fault != GPU_FAULT_NONE ? 0 : 2e8;
    inlay_instance *in = build->instance;
    double ns = 0;

    in->segment_ends = calloc(in->dispatch_count + 1, sizeof *in->segment_ends);
    if (in->segment_ends == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to plan a region of %u nodes",
                          build->compiled->op_count);
    for (uint32_t i = 0; i < in->dispatch_count; i++) {
        if (i > 0 && ns + in->dispatches[i].ns > most_ns) {
            in->segment_ends[in->segment_count++] = i;
            ns = 0;
        }
        ns += in->dispatches[i].ns;
    }
    in->segment_ends[in->segment_count++] = in->dispatch_count;
    return INLAY_OK;
}

inlay_status vulkan_plan(vulkan_build *build)
{
    inlay_status status = place_buffers(build);

    if (status == INLAY_OK)
        place_barriers(build->instance);
    return status == INLAY_OK ? cut_segments(build) : status;
}
