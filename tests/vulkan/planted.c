/* A dispatch that writes so many floats beyond the end of its buffer, which a layer that looks at accesses has to see.
 *   planted FLOATS        77: there is no device */
#include "region.h"
#include <stdio.h>
#include <stdlib.h>

enum { FLOATS = 64 };

static inlay_status run(gpu_device *g, uint32_t beyond, inlay_diag *diag)
{
    gpu_recipe r = { .shader = SHADER_pointwise };
    uint32_t words[WORD_OWN + 16] = { [WORD_OWN] = FLOATS + beyond };
    VkDeviceAddress push[PUSH_COUNT] = { 0 };
    gpu_buffer data = { .bytes = 0 }, parameters = { .bytes = 0 };
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkPipeline pipeline;
    uint64_t value;
    inlay_status status = INLAY_OK;

    r.constants[ID_LOCAL] = FLOATS;
    r.constants[ID_SLOTS] = 1;
    r.constants[ID_SLOT] = OP_ABS | REG_ACC << 8;
    r.constants[ID_OUT] = EL_F32;
    INLAY_TRY(gpu_buffer_make(g, FLOATS * sizeof(float), &data, diag));
    INLAY_TRY(gpu_buffer_make(g, sizeof words, &parameters, diag));
    INLAY_TRY(gpu_write(g, &parameters, 0, words, sizeof words, diag));
    INLAY_TRY(gpu_pipeline_get(g, &r, &pipeline, diag));
    INLAY_TRY(gpu_commands_make(g, 1, &commands, diag));
    INLAY_TRY(gpu_record_begin(g, commands, diag));
    push[PUSH_OUT] = data.address;
    push[PUSH_PARAMS] = parameters.address;
    g->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    g->vk.CmdPushConstants(commands, g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, push);
    g->vk.CmdDispatch(commands, (FLOATS + beyond + FLOATS - 1) / FLOATS, 1, 1);
    INLAY_TRY(gpu_record_end(g, commands, diag));
    INLAY_TRY(gpu_submit(g, commands, &value, diag));
    INLAY_TRY(gpu_wait(g, value, NULL, NULL, diag));
done:
    if (commands != VK_NULL_HANDLE)
        gpu_commands_drop(g, 1, &commands);
    gpu_buffer_drop(g, &data);
    gpu_buffer_drop(g, &parameters);
    return status;
}

int main(int argc, char **argv)
{
    const gpu_options options = { .device = "auto" };
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_device *g = NULL;
    inlay_status status = gpu_open(&options, &g, &diag);

    if (status != INLAY_OK) {
        (void)printf("skipped: %s\n", diag.text);
        return 77;
    }
    status = run(g, argc > 1 ? (uint32_t)atoi(argv[1]) : 0, &diag);
    if (status != INLAY_OK)
        (void)printf("%s\n", diag.text);
    gpu_close(g);
    return status != INLAY_OK;
}
