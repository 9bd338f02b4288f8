#include "serve/model/ensemble.h"
#include "serve/model/files.h"
#include <stdlib.h>

inlay_status ensemble_init_instance(const struct ensemble *ensemble, struct instance *instance, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    instance->stages = calloc(ensemble->stage_count + 1u, sizeof *instance->stages);
    instance->values = calloc(ensemble->tensor_count + 1u, sizeof *instance->values);
    instance->rows = calloc(ensemble->stage_count + 1u, sizeof *instance->rows);
    if (instance->stages == NULL || instance->values == NULL || instance->rows == NULL)
        return no_memory(diag, "for an instance");
    for (uint32_t i = 0; status == INLAY_OK && i < ensemble->stage_count; i++) {
        const struct model *model = ensemble->stages[i].model;

        status = inlay_context_create(model->session, &instance->stages[i], diag);
        if (status == INLAY_OK && model->io.files != NULL)
            status = files_init(model, &instance->rows[i], diag);
    }
    return status;
}

void ensemble_deinit_instance(const struct ensemble *ensemble, struct instance *instance)
{
    for (uint32_t i = 0; instance->stages != NULL && i < ensemble->stage_count; i++) {
        if (instance->rows != NULL)
            files_deinit(ensemble->stages[i].model, &instance->rows[i]);
        inlay_context_destroy(instance->stages[i]);
    }
    free(instance->stages);
    free(instance->values);
}

void ensemble_trim_instance(const struct ensemble *ensemble, struct instance *instance)
{
    for (uint32_t i = 0; i < ensemble->stage_count; i++)
        (void)inlay_context_trim(instance->stages[i], NULL);
}

/* Binds the inputs of the stage's model and runs it. */
static inlay_status run_model(const ensemble_stage *stage, inlay_context *context, inlay_value *const *values,
                              const inlay_run_options *run, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < stage->model->io.input_count; k++)
        if (stage->inputs[k] != INLAY_NONE && values[stage->inputs[k]] != NULL)
            status = inlay_context_set_input(context, k, values[stage->inputs[k]], diag);
    if (status == INLAY_OK)
        status = inlay_context_run(context, run, diag);
    for (uint32_t k = 0; k < stage->model->io.input_count; k++)
        (void)inlay_context_set_input(context, k, NULL, NULL);
    return status;
}

/* Runs the stage and stores its outputs, which are valid until it runs again. */
static inlay_status run_stage(const struct ensemble *ensemble, struct instance *instance, uint32_t index,
                              const inlay_run_options *run, inlay_diag *diag)
{
    const ensemble_stage *stage = &ensemble->stages[index];
    inlay_context *context = instance->stages[index];
    struct file_rows *rows = stage->model->io.files != NULL ? &instance->rows[index] : NULL;
    inlay_value **values = instance->values;
    uint64_t grown = 0;
    inlay_status status = rows != NULL ? files_run(stage->model, context, rows, ensemble->names[stage->inputs[0]],
                                                   values[stage->inputs[0]], run, &grown, diag)
                                       : run_model(stage, context, values, run, diag);

    instance_grow(instance, grown);
    for (uint32_t k = 0; status == INLAY_OK && k < stage->model->io.output_count; k++) {
        if (stage->outputs[k] == INLAY_NONE)
            continue;
        values[stage->outputs[k]] = rows != NULL ? files_output(context, rows, k) : inlay_context_output(context, k);
        if (values[stage->outputs[k]] == NULL)
            status =
                inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not available", stage->model->io.outputs[k].name);
    }
    return status;
}

inlay_status ensemble_run(const struct ensemble *ensemble, struct instance *instance, uint64_t rows,
                          const inlay_run_options *run, inlay_diag *diag)
{
    uint64_t start = clock_ns(), begun = start;

    for (uint32_t i = 0; i < ensemble->stage_count; i++) {
        const ensemble_stage *stage = &ensemble->stages[i];
        inlay_run_options options = *run;
        inlay_diag failure = INLAY_DIAG_INIT;
        inlay_status status;
        uint64_t ended;

        if (run->timeout_ns > 0)
            options.timeout_ns = run->timeout_ns > begun - start ? run->timeout_ns - (begun - start) : 1;
        status = run_stage(ensemble, instance, i, &options, &failure);
        ended = clock_ns();
        if (status == INLAY_IO_ERROR)
            atomic_store(&stage->model->file.lost, true);
        if (status != INLAY_OK) {
            (void)inlay_fail(diag, status, "step %u (model '%s'): %s", i + 1, stage->model->name, failure.text);
            if (diag != NULL)
                diag->error_class = failure.error_class;
            return status;
        }
        stats_add_run(stage->model->metrics.stats, NULL, rows, 0, ended - begun);
        begun = ended;
    }
    return INLAY_OK;
}
