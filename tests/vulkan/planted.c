/* Mistakes that a validation layer has to see, made on a device of the provider.
 *   planted beyond FLOATS     a dispatch writes so many floats beyond the end of its buffer; 0: none
 *   planted race BARRIERS     a copy reads what one before wrote; 0: without a barrier between them
 * 77: there is no device. */
#include "region.h"
#include <stdio.h>
#include <stdlib.h>

enum { FLOATS = 64, BYTES = FLOATS * sizeof(float) };

struct plot {
    gpu_device *g;
    VkCommandBuffer commands;
    gpu_buffer buffers[3];
};

static inlay_status begin(struct plot *p, uint64_t bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < 3; i++)
        INLAY_TRY(gpu_buffer_make(p->g, i == 0 ? bytes : BYTES, &p->buffers[i], diag));
    INLAY_TRY(gpu_commands_make(p->g, 1, &p->commands, diag));
    INLAY_TRY(gpu_record_begin(p->g, p->commands, diag));
done:
    return status;
}

static inlay_status end(struct plot *p, inlay_diag *diag)
{
    uint64_t value;
    inlay_status status = gpu_record_end(p->g, p->commands, diag);

    if (status == INLAY_OK)
        status = gpu_submit(p->g, p->commands, &value, diag);
    return status == INLAY_OK ? gpu_wait(p->g, value, NULL, NULL, diag) : status;
}

static inlay_status write_beyond(struct plot *p, uint32_t beyond, inlay_diag *diag)
{
    gpu_recipe r = { .shader = SHADER_pointwise };
    uint32_t words[WORD_OWN + 16] = { [WORD_OWN] = FLOATS + beyond };
    VkDeviceAddress push[PUSH_COUNT] = { 0 };
    VkPipeline pipeline;
    inlay_status status = INLAY_OK;

    r.constants[ID_LOCAL] = FLOATS;
    r.constants[ID_SLOTS] = 1;
    r.constants[ID_SLOT] = OP_ABS | REG_ACC << 8;
    r.constants[ID_OUT] = EL_F32;
    INLAY_TRY(gpu_pipeline_get(p->g, &r, &pipeline, diag));
    INLAY_TRY(begin(p, sizeof words, diag));
    INLAY_TRY(gpu_write(p->g, &p->buffers[0], 0, words, sizeof words, diag));
    push[PUSH_OUT] = p->buffers[1].address;
    push[PUSH_PARAMS] = p->buffers[0].address;
    p->g->vk.CmdBindPipeline(p->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    p->g->vk.CmdPushConstants(p->commands, p->g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, push);
    p->g->vk.CmdDispatch(p->commands, (FLOATS + beyond + FLOATS - 1) / FLOATS, 1, 1);
    INLAY_TRY(end(p, diag));
done:
    return status;
}

static inlay_status copy_twice(struct plot *p, bool with_barrier, inlay_diag *diag)
{
    const VkBufferCopy all = { .size = BYTES };
    inlay_status status = INLAY_OK;

    INLAY_TRY(begin(p, BYTES, diag));
    p->g->vk.CmdCopyBuffer(p->commands, p->buffers[0].buffer, p->buffers[1].buffer, 1, &all);
    if (with_barrier)
        gpu_barrier(p->g, p->commands);
    p->g->vk.CmdCopyBuffer(p->commands, p->buffers[1].buffer, p->buffers[2].buffer, 1, &all);
    INLAY_TRY(end(p, diag));
done:
    return status;
}

int main(int argc, char **argv)
{
    const gpu_options options = { .device = "auto" };
    const uint32_t n = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct plot p = { .commands = VK_NULL_HANDLE };
    inlay_status status = gpu_open(&options, &p.g, &diag);

    if (status != INLAY_OK) {
        (void)printf("skipped: %s\n", diag.text);
        return 77;
    }
    status = argc > 1 && strcmp(argv[1], "race") == 0 ? copy_twice(&p, n != 0, &diag) : write_beyond(&p, n, &diag);
    if (status != INLAY_OK)
        (void)printf("%s\n", diag.text);
    if (p.commands != VK_NULL_HANDLE)
        gpu_commands_drop(p.g, 1, &p.commands);
    for (uint32_t i = 0; i < 3; i++)
        gpu_buffer_drop(p.g, &p.buffers[i]);
    gpu_close(p.g);
    return status != INLAY_OK;
}
