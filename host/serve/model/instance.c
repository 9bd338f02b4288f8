/* Instances: a context of a model with the memory of its runs. */
#include "inlay/check.h"
#include "serve/model/ensemble.h"
#include "serve/model/files.h"
#include <stdlib.h>

inlay_status instance_init(const struct model *model, struct instance *instance, uint32_t jobs, inlay_diag *diag)
{
    INLAY_CHECK(jobs > 0);
    instance->job_capacity = jobs;
    instance->batch_inputs = calloc(model->io.input_count + 1u, sizeof *instance->batch_inputs);
    instance->batch_input_bytes = calloc(model->io.input_count + 1u, sizeof *instance->batch_input_bytes);
    instance->trimmed = calloc(model->io.output_count + 1u, sizeof *instance->trimmed);
    instance->trimmed_bytes = calloc(model->io.output_count + 1u, sizeof *instance->trimmed_bytes);
    instance->given = calloc(model->io.input_count + 1u, sizeof *instance->given);
    instance->outputs = calloc(model->io.output_count + 1u, sizeof *instance->outputs);
    instance->jobs = calloc(jobs, sizeof(struct job *));
    if (instance->batch_inputs == NULL || instance->batch_input_bytes == NULL || instance->trimmed == NULL ||
        instance->trimmed_bytes == NULL || instance->given == NULL || instance->outputs == NULL ||
        instance->jobs == NULL)
        return no_memory(diag, "for an instance");
    if (model->ensemble != NULL)
        return ensemble_init_instance(model->ensemble, instance, diag);
    if (model->io.files != NULL) {
        inlay_status status;

        instance->rows = calloc(1, sizeof *instance->rows);
        status = instance->rows != NULL ? files_init(model, instance->rows, diag) : no_memory(diag, "for an instance");
        if (status != INLAY_OK)
            return status;
    }
    return inlay_context_create(model->session, &instance->context, diag);
}

void instance_deinit(const struct model *model, struct instance *instance)
{
    if (model->ensemble != NULL)
        ensemble_deinit_instance(model->ensemble, instance);
    else if (instance->rows != NULL)
        files_deinit(model, instance->rows);
    free(instance->rows);
    inlay_context_destroy(instance->context);
    for (uint32_t k = 0; instance->batch_inputs != NULL && k < model->io.input_count; k++)
        free(instance->batch_inputs[k]);
    for (uint32_t k = 0; instance->trimmed != NULL && k < model->io.output_count; k++)
        free(instance->trimmed[k]);
    free(instance->batch_inputs);
    free(instance->batch_input_bytes);
    free(instance->trimmed);
    free(instance->trimmed_bytes);
    free((void *)instance->given);
    free(instance->outputs);
    free((void *)instance->jobs);
    *instance = (struct instance){ .context = NULL };
}

void instance_trim(const struct model *model, struct instance *instance)
{
    if (model->ensemble != NULL)
        ensemble_trim_instance(model->ensemble, instance);
    else if (instance->context != NULL)
        (void)inlay_context_trim(instance->context, NULL);
}

inlay_status instance_bind(const struct model *model, struct instance *instance, uint32_t k, inlay_value *value,
                           inlay_diag *diag)
{
    inlay_value **place = model->ensemble != NULL ? &instance->values[k] : &instance->files;

    if (model->ensemble == NULL && model->io.files == NULL)
        return inlay_context_set_input(instance->context, k, value, diag);
    inlay_value_unref(*place);
    *place = inlay_value_ref(value);
    return INLAY_OK;
}

void instance_unbind(const struct model *model, struct instance *instance)
{
    for (uint32_t k = 0; k < model->io.input_count; k++)
        (void)instance_bind(model, instance, k, NULL, NULL);
}

inlay_status instance_run(const struct model *model, struct instance *instance, uint64_t rows,
                          const inlay_run_options *run, inlay_diag *diag)
{
    if (model->ensemble != NULL)
        return ensemble_run(model->ensemble, instance, rows, run, diag);
    if (model->io.files != NULL) {
        uint64_t grown = 0;
        inlay_status status = files_run(model, instance->context, instance->rows, model->io.inputs[0].name,
                                        instance->files, run, &grown, diag);

        instance_grow(instance, grown);
        return status;
    }
    return inlay_context_run(instance->context, run, diag);
}

inlay_value *instance_output(const struct model *model, const struct instance *instance, uint32_t k)
{
    if (model->ensemble != NULL)
        return instance->values[model->ensemble->output_tensors[k]];
    if (model->io.files != NULL)
        return files_output(instance->context, instance->rows, k);
    return inlay_context_output(instance->context, k);
}

uint32_t model_generated_dims(const struct model *model, uint32_t k, int64_t rows, int64_t length, int64_t *out_dims)
{
    const inlay_io_info *io = &model->io.inputs[k];

    INLAY_CHECK(k < model->io.input_count);
    out_dims[0] = 1;
    if (io->rank == INLAY_RANK_UNKNOWN)
        return 1;
    for (uint32_t axis = 0; axis < io->rank; axis++) {
        bool is_padded = model->padding.axis != NULL && axis > 0 && axis == model->padding.input_axes[k];

        out_dims[axis] = io->dims[axis] >= 0             ? io->dims[axis]
                         : axis == 0 && model->batchable ? rows
                         : is_padded                     ? length
                                                         : 1;
    }
    return io->rank;
}

inlay_status instance_run_generated(const struct model *model, struct instance *instance, model_input_fn make,
                                    const void *user, inlay_diag *diag)
{
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    inlay_status status = INLAY_OK;

    run.cancel = model->settings.stop;
    run.max_threads = instance->threads;
    for (uint32_t k = 0; status == INLAY_OK && k < model->io.input_count; k++) {
        inlay_value *value = NULL;

        status = make(model, k, user, &value, diag);
        if (status == INLAY_OK && value != NULL)
            status = instance_bind(model, instance, k, value, diag);
        inlay_value_unref(value);
    }
    if (status == INLAY_OK)
        status = instance_run(model, instance, 1, &run, diag);
    instance_unbind(model, instance);
    return status;
}
