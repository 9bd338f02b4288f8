/* The steps of an ensemble's config.pbtxt: their models, their order, and what connects them. */
#include "model_config.pb-c.h"
#include "inlay/check.h"
#include "serve/model/ensemble.h"
#include "serve/repository/model_config.h"
#include <stdlib.h>
#include <string.h>

/* The steps of the file, while they are put in order. */
typedef struct step_list {
    const struct pbtxt *text;
    Inference__ModelEnsembling__Step **steps; /* [count] of the file */
    size_t count;
    struct model **models; /* [count] references */
    bool *placed;          /* [count] */
    struct ensemble *ensemble;
} step_list;

static inlay_status find_models(step_list *list, ensemble_find_fn find, void *user, inlay_diag *diag)
{
    for (size_t i = 0; i < list->count; i++) {
        const Inference__ModelEnsembling__Step *step = list->steps[i];

        if (step->model_name[0] == '\0')
            return pbtxt_fail(list->text, step, "model_name", diag, "it is missing");
        list->models[i] = find(user, step->model_name, step->model_version > 0 ? (uint64_t)step->model_version : 0);
        if (list->models[i] == NULL)
            return pbtxt_fail(list->text, step, "model_name", diag, "no model '%s' is loaded, or not that version",
                              step->model_name);
        if (list->models[i]->ensemble != NULL)
            return pbtxt_fail(list->text, step, "model_name", diag, "'%s' is an ensemble; its steps must be given here",
                              step->model_name);
    }
    return INLAY_OK;
}

/* The step that makes the tensor; count: none does. */
static size_t maker_of(const step_list *list, const char *tensor)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < list->steps[i]->n_output_map; k++)
            if (strcmp(list->steps[i]->output_map[k]->value, tensor) == 0)
                return i;
    return list->count;
}

/* Each tensor is an input of the ensemble or is made by one step, once. */
static inlay_status check_makers(const step_list *list, inlay_diag *diag)
{
    for (size_t i = 0; i < list->count; i++) {
        const Inference__ModelEnsembling__Step *step = list->steps[i];

        for (size_t k = 0; k < step->n_output_map; k++) {
            const char *tensor = step->output_map[k]->value;
            uint32_t same = 0;

            for (size_t n = 0; n <= k; n++)
                same += strcmp(step->output_map[n]->value, tensor) == 0;
            if (ensemble_find(list->ensemble, tensor) != INLAY_NONE)
                return pbtxt_fail(list->text, step, "output_map", diag, "tensor '%s' is an input of the ensemble",
                                  tensor);
            if (same > 1 || maker_of(list, tensor) != i)
                return pbtxt_fail(list->text, step, "output_map", diag, "tensor '%s' is made twice", tensor);
        }
    }
    return INLAY_OK;
}

/* The tensor that the step waits for; NULL: all of its inputs exist. */
static const char *missing_of(const step_list *list, const Inference__ModelEnsembling__Step *step)
{
    for (size_t k = 0; k < step->n_input_map; k++)
        if (ensemble_find(list->ensemble, step->input_map[k]->value) == INLAY_NONE)
            return step->input_map[k]->value;
    return NULL;
}

/* Whether a tensor with the description `from` can be the input `to`. */
static bool is_compatible(const inlay_io_info *from, const inlay_io_info *to)
{
    if (from->kind != to->kind || from->dtype != to->dtype)
        return false;
    if (from->rank == INLAY_RANK_UNKNOWN || to->rank == INLAY_RANK_UNKNOWN)
        return true;
    for (uint32_t i = 0; from->rank == to->rank && i < from->rank; i++)
        if (from->dims[i] >= 0 && to->dims[i] >= 0 && from->dims[i] != to->dims[i])
            return false;
    return from->rank == to->rank;
}

static inlay_status connect_inputs(const step_list *list, size_t index, ensemble_stage *stage, inlay_diag *diag)
{
    const Inference__ModelEnsembling__Step *step = list->steps[index];
    const struct model *model = stage->model;

    for (size_t i = 0; i < step->n_input_map; i++) {
        const char *name = step->input_map[i]->key, *tensor = step->input_map[i]->value;
        uint32_t k = model_find_io(model->io.inputs, model->io.input_count, name),
                 from = ensemble_find(list->ensemble, tensor);
        const inlay_io_info *made = ensemble_io(list->ensemble, from);

        if (k == INLAY_NONE)
            return pbtxt_fail(list->text, step, "input_map", diag, "model '%s' has no input '%s'", model->name, name);
        if (stage->inputs[k] != INLAY_NONE)
            return pbtxt_fail(list->text, step, "input_map", diag, "input '%s' is given twice", name);
        if (made != NULL && !is_compatible(made, &model->io.inputs[k]))
            return pbtxt_fail(list->text, step, "input_map", diag,
                              "tensor '%s' does not have the type or the shape of input '%s' of model '%s'", tensor,
                              name, model->name);
        stage->inputs[k] = from;
    }
    for (uint32_t k = 0; k < model->io.input_count; k++)
        if (stage->inputs[k] == INLAY_NONE && !model->io.inputs[k].optional)
            return pbtxt_fail(list->text, step, "input_map", diag, "input '%s' of model '%s' is missing",
                              model->io.inputs[k].name, model->name);
    return INLAY_OK;
}

static inlay_status connect_outputs(const step_list *list, size_t index, ensemble_stage *stage, inlay_diag *diag)
{
    const Inference__ModelEnsembling__Step *step = list->steps[index];
    const struct model *model = stage->model;
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < step->n_output_map; i++) {
        const char *name = step->output_map[i]->key;
        uint32_t k = model_find_io(model->io.outputs, model->io.output_count, name);

        if (k == INLAY_NONE)
            return pbtxt_fail(list->text, step, "output_map", diag, "model '%s' has no output '%s'", model->name, name);
        if (stage->outputs[k] != INLAY_NONE)
            return pbtxt_fail(list->text, step, "output_map", diag, "output '%s' is given twice", name);
        status = ensemble_add_tensor(list->ensemble, step->output_map[i]->value, &stage->outputs[k], diag);
    }
    return status;
}

/* No step can be next: a tensor is missing, or steps wait for each other. */
static inlay_status fail_order(const step_list *list, inlay_diag *diag)
{
    size_t at = 0;

    for (size_t i = 0; i < list->count; i++) {
        const Inference__ModelEnsembling__Step *step = list->steps[i];

        for (size_t k = 0; !list->placed[i] && k < step->n_input_map; k++)
            if (ensemble_find(list->ensemble, step->input_map[k]->value) == INLAY_NONE &&
                maker_of(list, step->input_map[k]->value) == list->count)
                return pbtxt_fail(list->text, step, "input_map", diag,
                                  "tensor '%s' is neither an input of the ensemble nor made by a step",
                                  step->input_map[k]->value);
    }
    while (list->placed[at])
        at++;
    for (size_t i = 0; i < list->count; i++) /* afterwards, `at` is in the cycle */
        at = maker_of(list, missing_of(list, list->steps[at]));
    return pbtxt_fail(list->text, list->steps[at], "input_map", diag,
                      "the steps form a cycle: tensor '%s' depends on the outputs of this step (model '%s')",
                      missing_of(list, list->steps[at]), list->steps[at]->model_name);
}

/* Appends the steps in an order in which each has its inputs: that of the file where it can be. */
static inlay_status place_steps(step_list *list, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    struct ensemble *ensemble = list->ensemble;

    for (size_t done = 0; status == INLAY_OK && done < list->count; done++) {
        size_t next = 0;

        while (next < list->count && (list->placed[next] || missing_of(list, list->steps[next]) != NULL))
            next++;
        if (next == list->count)
            return fail_order(list, diag);
        list->placed[next] = true;
        status = ensemble_add_stage(ensemble, list->models[next], diag);
        if (status == INLAY_OK)
            status = connect_inputs(list, next, &ensemble->stages[done], diag);
        if (status == INLAY_OK)
            status = connect_outputs(list, next, &ensemble->stages[done], diag);
    }
    return status;
}

static inlay_status add_inputs(const struct pbtxt *text, struct ensemble *ensemble, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    inlay_status status = INLAY_OK;
    uint32_t tensor;

    for (size_t i = 0; status == INLAY_OK && i < file->n_input; i++) {
        if (ensemble_find(ensemble, file->input[i]->name) != INLAY_NONE)
            return pbtxt_fail(text, file->input[i], "name", diag, "input '%s' is given twice", file->input[i]->name);
        status = ensemble_add_tensor(ensemble, file->input[i]->name, &tensor, diag);
        ensemble->input_count++;
    }
    return status;
}

static inlay_status add_outputs(const struct pbtxt *text, struct ensemble *ensemble, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;

    for (uint32_t i = 0; i < ensemble->input_count; i++)
        if (ensemble_io(ensemble, i) == NULL)
            return pbtxt_fail(text, file->input[i], "name", diag, "no step uses the input '%s'", ensemble->names[i]);
    ensemble->output_tensors = calloc(file->n_output + 1, sizeof *ensemble->output_tensors);
    if (ensemble->output_tensors == NULL)
        return no_memory(diag, "for the outputs of an ensemble");
    for (size_t i = 0; i < file->n_output; i++) {
        uint32_t tensor = ensemble_find(ensemble, file->output[i]->name);

        if (tensor == INLAY_NONE || tensor < ensemble->input_count)
            return pbtxt_fail(text, file->output[i], "name", diag, "no step makes the output '%s'",
                              file->output[i]->name);
        ensemble->output_tensors[ensemble->output_count++] = tensor;
    }
    return INLAY_OK;
}

/* Requests of an ensemble are batched as far as those of all of its models may be. */
static void limit_batches(const struct ensemble *ensemble, model_settings *settings)
{
    for (uint32_t i = 0; i < ensemble->stage_count; i++) {
        const model_settings *other = &ensemble->stages[i].model->settings;

        if (other->max_batch < settings->max_batch)
            settings->max_batch = other->max_batch;
        if (other->batch_delay_us > settings->batch_delay_us)
            settings->batch_delay_us = other->batch_delay_us;
    }
}

inlay_status config_ensemble(const model_config *config, ensemble_find_fn find, void *user, model_settings *settings,
                             struct ensemble **out_ensemble, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)config->text.message;
    step_list list = { .text = &config->text,
                       .steps = file->ensemble_scheduling->step,
                       .count = file->ensemble_scheduling->n_step };
    inlay_status status = INLAY_OK;

    *out_ensemble = NULL;
    if (list.count == 0)
        return pbtxt_fail(list.text, file, "ensemble_scheduling", diag, "it has no step");
    if (file->n_input == 0 || file->n_output == 0)
        return pbtxt_fail(list.text, file, file->n_input == 0 ? "input" : "output", diag, "an ensemble needs it");
    list.models = calloc(list.count, sizeof(struct model *));
    list.placed = calloc(list.count, sizeof *list.placed);
    list.ensemble = calloc(1, sizeof *list.ensemble);
    if (list.models == NULL || list.placed == NULL || list.ensemble == NULL)
        INLAY_TRY(no_memory(diag, "for the steps of an ensemble"));
    INLAY_TRY(find_models(&list, find, user, diag));
    INLAY_TRY(add_inputs(list.text, list.ensemble, diag));
    INLAY_TRY(check_makers(&list, diag));
    INLAY_TRY(place_steps(&list, diag));
    INLAY_TRY(add_outputs(list.text, list.ensemble, diag));
    INLAY_TRY(ensemble_describe(list.ensemble, diag));
    limit_batches(list.ensemble, settings);
    *out_ensemble = list.ensemble;
    list.ensemble = NULL;
done:
    for (size_t i = 0; list.models != NULL && i < list.count; i++)
        model_unref(list.models[i]);
    free((void *)list.models);
    free(list.placed);
    ensemble_destroy(list.ensemble);
    return status;
}
