#include "serve/model/ensemble.h"
#include "serve/model/run_profile.h"
#include <stdlib.h>

inlay_status ensemble_init_instance(const struct ensemble *ensemble, struct instance *instance, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    instance->stages = calloc(ensemble->stage_count + 1u, sizeof *instance->stages);
    instance->values = calloc(ensemble->tensor_count + 1u, sizeof *instance->values);
    if (instance->stages == NULL || instance->values == NULL)
        return no_memory(diag, "for an instance");
    for (uint32_t i = 0; status == INLAY_OK && i < ensemble->stage_count; i++)
        status = inlay_context_create(ensemble->stages[i].model->session, &instance->stages[i], diag);
    return status;
}

void ensemble_deinit_instance(const struct ensemble *ensemble, struct instance *instance)
{
    for (uint32_t i = 0; instance->stages != NULL && i < ensemble->stage_count; i++)
        inlay_context_destroy(instance->stages[i]);
    free(instance->stages);
    free(instance->values);
}

/* Binds the stage's inputs, runs it, and stores its outputs, which are valid until it runs again. */
static inlay_status run_stage(const ensemble_stage *stage, inlay_context *context, inlay_value **values,
                              const inlay_run_options *run, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < stage->model->input_count; k++)
        if (stage->inputs[k] != INLAY_NONE && values[stage->inputs[k]] != NULL)
            status = inlay_context_set_input(context, k, values[stage->inputs[k]], diag);
    if (status == INLAY_OK)
        status = inlay_context_run(context, run, diag);
    for (uint32_t k = 0; k < stage->model->input_count; k++)
        (void)inlay_context_set_input(context, k, NULL, NULL);
    for (uint32_t k = 0; status == INLAY_OK && k < stage->model->output_count; k++) {
        if (stage->outputs[k] == INLAY_NONE)
            continue;
        values[stage->outputs[k]] = inlay_context_output(context, k);
        if (values[stage->outputs[k]] == NULL)
            status = inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not available", stage->model->outputs[k].name);
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
        if (instance->profile != NULL)
            instance->profile->parts[i].begun_ns = begun;
        status = run_stage(stage, instance->stages[i], instance->values, &options, &failure);
        ended = clock_ns();
        if (status != INLAY_OK)
            return inlay_fail(diag, status, "step %u (model '%s'): %s", i + 1, stage->model->name, failure.text);
        stats_add_run(stage->model->stats, NULL, rows, 0, ended - begun);
        begun = ended;
    }
    return INLAY_OK;
}
