/* Buffers -> offsets in one workspace, barriers between dispatches, and where submissions are cut. */
#include "region.h"
#include "spans.h"
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

        if (buffer->kind == VULKAN_WORK && buffer->first != INLAY_NONE)
            list[count++] = (struct span){ buffer->bytes, buffer->first, buffer->last, k, 0 };
    }
    in->workspace_bytes = spans_place(list, count, GPU_ALIGNMENT);
    for (uint32_t k = 0; k < count; k++)
        in->buffers[list[k].id].offset = list[k].offset;
    free(list);
    return INLAY_OK;
}

/* Do two operands touch a byte that one of them writes? Inputs and outputs of the region may share memory only with
 * themselves. */
static bool collide(const inlay_instance *in, const vulkan_operand *input, const vulkan_operand *output)
{
    const vulkan_buffer *bx = &in->buffers[input->buffer], *by = &in->buffers[output->buffer];
    const uint64_t from_x = (bx->kind == VULKAN_WORK ? bx->offset : 0) + input->offset;
    const uint64_t from_y = (by->kind == VULKAN_WORK ? by->offset : 0) + output->offset;

    if ((!input->write && !output->write) || bx->kind != by->kind ||
        (bx->kind != VULKAN_WORK && bx->index != by->index))
        return false;
    return from_x < from_y + output->bytes && from_y < from_x + input->bytes;
}

/* A dispatch that touches what one since the last barrier wrote, or writes what it touched, waits. */
static void place_barriers(inlay_instance *in)
{
    uint32_t since = 0;

    for (uint32_t i = 0; i < in->dispatch_count; i++) {
        vulkan_dispatch *dispatch = &in->dispatches[i];

        for (uint32_t j = since; j < i && !dispatch->barrier; j++)
            for (uint32_t x = 0; x < dispatch->operand_count && !dispatch->barrier; x++)
                for (uint32_t y = 0; y < in->dispatches[j].operand_count && !dispatch->barrier; y++)
                    dispatch->barrier = collide(in, &dispatch->operands[x], &in->dispatches[j].operands[y]);
        if (dispatch->barrier)
            since = i;
    }
}

/* No submission is expected to take longer than this, so that watchdogs of drivers stay quiet and a run can be
 * cancelled. */
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
