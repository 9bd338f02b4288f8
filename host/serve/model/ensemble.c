#include "serve/model/ensemble.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static uint32_t *no_tensors(uint32_t count)
{
    uint32_t *tensors = malloc((count + 1u) * sizeof *tensors);

    for (uint32_t i = 0; tensors != NULL && i < count; i++)
        tensors[i] = INLAY_NONE;
    return tensors;
}

inlay_status ensemble_add_stage(struct ensemble *ensemble, struct model *model, inlay_diag *diag)
{
    ensemble_stage *stage;

    if (!LIST_GROW(ensemble->stages, ensemble->stage_count))
        return no_memory(diag, "for a step");
    stage = &ensemble->stages[ensemble->stage_count++];
    *stage = (ensemble_stage){ .model = model_ref(model),
                               .inputs = no_tensors(model->io.input_count),
                               .outputs = no_tensors(model->io.output_count) };
    (void)atomic_fetch_add(&model->pins, 1);
    return stage->inputs != NULL && stage->outputs != NULL ? INLAY_OK : no_memory(diag, "for a step");
}

uint32_t ensemble_find(const struct ensemble *ensemble, const char *name)
{
    for (uint32_t i = 0; i < ensemble->tensor_count; i++)
        if (strcmp(ensemble->names[i], name) == 0)
            return i;
    return INLAY_NONE;
}

inlay_status ensemble_add_tensor(struct ensemble *ensemble, const char *name, uint32_t *out_tensor, inlay_diag *diag)
{
    if (!LIST_GROW(ensemble->names, ensemble->tensor_count) ||
        (ensemble->names[ensemble->tensor_count] = strdup(name)) == NULL)
        return no_memory(diag, "for the tensors of an ensemble");
    *out_tensor = ensemble->tensor_count++;
    return INLAY_OK;
}

const inlay_io_info *ensemble_io(const struct ensemble *ensemble, uint32_t tensor)
{
    for (uint32_t i = 0; i < ensemble->stage_count; i++) {
        const ensemble_stage *stage = &ensemble->stages[i];

        for (uint32_t k = 0; k < stage->model->io.output_count; k++)
            if (stage->outputs[k] == tensor)
                return &stage->model->io.outputs[k];
        for (uint32_t k = 0; k < stage->model->io.input_count; k++)
            if (stage->inputs[k] == tensor)
                return &stage->model->io.inputs[k];
    }
    return NULL;
}

static void describe(const struct ensemble *ensemble, uint32_t tensor, inlay_io_info *to)
{
    const inlay_io_info *io = ensemble_io(ensemble, tensor);

    INLAY_CHECK(io != NULL);
    *to = *io;
    to->name = ensemble->names[tensor];
    to->optional = 0;
}

inlay_status ensemble_describe(struct ensemble *ensemble, inlay_diag *diag)
{
    ensemble->inputs = calloc(ensemble->input_count + 1u, sizeof *ensemble->inputs);
    ensemble->outputs = calloc(ensemble->output_count + 1u, sizeof *ensemble->outputs);
    if (ensemble->inputs == NULL || ensemble->outputs == NULL)
        return no_memory(diag, "for the inputs of an ensemble");
    for (uint32_t i = 0; i < ensemble->input_count; i++)
        describe(ensemble, i, &ensemble->inputs[i]);
    for (uint32_t i = 0; i < ensemble->output_count; i++)
        describe(ensemble, ensemble->output_tensors[i], &ensemble->outputs[i]);
    ensemble->batchable = true;
    for (uint32_t i = 0; i < ensemble->stage_count; i++)
        ensemble->batchable = ensemble->batchable && ensemble->stages[i].model->batchable;
    return INLAY_OK;
}
