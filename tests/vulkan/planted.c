/* Deliberate errors that a validation layer must detect, made on a device of the provider.
 *   planted beyond FLOATS     a dispatch writes this many floats beyond the end of its buffer
 *   planted race BARRIERS     a copy reads the result of an earlier copy; 0: without a barrier between them
 * Exit status 77: there is no device. */
#include "vulkan/region.h"
#include <stdio.h>
#include <stdlib.h>

enum { FLOATS = 64, BYTES = FLOATS * sizeof(float) };

struct plot {
    gpu_device *device;
    VkCommandBuffer commands;
    gpu_buffer buffers[3];
};

static inlay_status begin(struct plot *plot, uint64_t bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < 3; i++)
        INLAY_TRY(gpu_buffer_create(plot->device, i == 0 ? bytes : BYTES, &plot->buffers[i], diag));
    INLAY_TRY(gpu_commands_create(plot->device, 1, &plot->commands, diag));
    INLAY_TRY(gpu_record_begin(plot->device, plot->commands, diag));
done:
    return status;
}

static inlay_status end(struct plot *plot, inlay_diag *diag)
{
    uint64_t value;
    inlay_status status = gpu_record_end(plot->device, plot->commands, diag);

    if (status == INLAY_OK)
        status = gpu_submit(plot->device, plot->commands, &value, diag);
    return status == INLAY_OK ? gpu_wait(plot->device, value, NULL, NULL, diag) : status;
}

static inlay_status write_beyond(struct plot *plot, uint32_t beyond, inlay_diag *diag)
{
    gpu_pipeline_key key = { .shader = SHADER_pointwise };
    uint32_t words[WORD_OWN + 16] = { [WORD_OWN] = FLOATS + beyond };
    VkDeviceAddress push[PUSH_COUNT] = { 0 };
    VkPipeline pipeline;
    inlay_status status = INLAY_OK;

    key.constants[ID_LOCAL] = FLOATS;
    key.constants[ID_OWN] = 1; /* element for each invocation */
    key.constants[ID_SLOTS] = 1;
    key.constants[ID_SLOT] = OP_ABS | REG_ACC << 8;
    key.constants[ID_OUT] = EL_F32;
    INLAY_TRY(gpu_pipeline_get(plot->device, &key, &pipeline, diag));
    INLAY_TRY(begin(plot, sizeof words, diag));
    INLAY_TRY(gpu_write(plot->device, &plot->buffers[0], 0, words, sizeof words, diag));
    push[PUSH_OUT] = plot->buffers[1].address;
    push[PUSH_PARAMS] = plot->buffers[0].address;
    plot->device->vk.CmdBindPipeline(plot->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    plot->device->vk.CmdPushConstants(plot->commands, plot->device->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                      sizeof push, push);
    plot->device->vk.CmdDispatch(plot->commands, (FLOATS + beyond + FLOATS - 1) / FLOATS, 1, 1);
    INLAY_TRY(end(plot, diag));
done:
    return status;
}

static inlay_status copy_twice(struct plot *plot, bool with_barrier, inlay_diag *diag)
{
    const VkBufferCopy all = { .size = BYTES };
    inlay_status status = INLAY_OK;

    INLAY_TRY(begin(plot, BYTES, diag));
    plot->device->vk.CmdCopyBuffer(plot->commands, plot->buffers[0].buffer, plot->buffers[1].buffer, 1, &all);
    if (with_barrier)
        gpu_barrier(plot->device, plot->commands);
    plot->device->vk.CmdCopyBuffer(plot->commands, plot->buffers[1].buffer, plot->buffers[2].buffer, 1, &all);
    INLAY_TRY(end(plot, diag));
done:
    return status;
}

int main(int argc, char **argv)
{
    const gpu_options options = { .device = "auto" };
    const uint32_t argument = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct plot plot = { .commands = VK_NULL_HANDLE };
    inlay_status status = gpu_open(&options, &plot.device, &diag);

    if (status != INLAY_OK) {
        (void)printf("skipped: %s\n", diag.text);
        return 77;
    }
    status = argc > 1 && strcmp(argv[1], "race") == 0 ? copy_twice(&plot, argument != 0, &diag)
                                                      : write_beyond(&plot, argument, &diag);
    if (status != INLAY_OK)
        (void)printf("%s\n", diag.text);
    if (plot.commands != VK_NULL_HANDLE)
        gpu_commands_destroy(plot.device, 1, &plot.commands);
    for (uint32_t i = 0; i < 3; i++)
        gpu_buffer_destroy(plot.device, &plot.buffers[i]);
    gpu_close(plot.device);
    return status != INLAY_OK;
}
