#include "plan/program/kernels.h"
#include "inlay/plugin.h"
#include <stdlib.h>

inlay_status program_list_kernels(struct program *program, const program_step *step, const inlay_value_state *values,
                                  inlay_status (*each)(void *ctx, const inlay_kernel *kernel), void *ctx,
                                  inlay_diag *diag)
{
    const inlay_provider *table = step->provider != NULL ? step->provider->table : NULL;
    const inlay_ext_kernels *kernels = NULL;
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = values,
                                         .value_count = program->snapshot.value_count,
                                         .value_stride = sizeof *values,
                                         .max_threads = program->env->max_threads,
                                         .workspace_alignment = 64,
                                         .output_count = step->region->output_count,
                                         .output_stride = sizeof *request.outputs };
    inlay_instance *instance = NULL;
    blob_map blob;
    inlay_status status;

    if (table != NULL && step->compiled != NULL && INLAY_HAS(table, extension) && table->extension != NULL)
        kernels = table->extension(step->provider->state, INLAY_EXT_KERNELS);
    if (kernels == NULL || values == NULL)
        return INLAY_OK;
    request.outputs = calloc(request.output_count + 1u, sizeof *request.outputs);
    if (request.outputs == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < request.output_count; i++)
        request.outputs[i].alias = INLAY_NONE;
    if (program_specialize(program, step, NULL, &request, &instance, &blob, NULL) != INLAY_OK) {
        free(request.outputs);
        return INLAY_OK; /* the provider declines these shapes */
    }
    status = kernels->list(step->provider->state,
                           &(inlay_kernel_list){ .struct_size = sizeof(inlay_kernel_list),
                                                 .compiled = step->compiled,
                                                 .instance = instance,
                                                 .ctx = ctx,
                                                 .kernel = each },
                           diag);
    table->release_instance(step->provider->state, step->compiled, instance);
    blob_unmap(&blob);
    free(request.outputs);
    return status;
}
