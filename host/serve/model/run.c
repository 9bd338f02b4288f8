/* Runs a model for one request, or for several that are batched along their first axis. */
#include "inlay/check.h"
#include "serve/base/settings.h"
#include "codecs/datatype.h"
#include "serve/base/run_budget.h"
#include "serve/model/run_profile.h"
#include "serve/model/sequence.h"
#include <stdlib.h>
#include <string.h>

static inlay_status bind_input(const struct model *model, struct instance *instance, uint32_t input,
                               const infer_tensor *tensor, const int64_t *dims, void *data, uint64_t bytes,
                               inlay_diag *diag)
{
    inlay_value *value = NULL;
    inlay_status status = inlay_value_borrow(tensor->dtype, tensor->rank, dims, data, bytes, &value, diag);

    if (status == INLAY_OK)
        status = instance_bind(model, instance, input, value, diag);
    inlay_value_unref(value);
    return status;
}

/* Concatenates the inputs of all jobs, padded if the run is. */
static inlay_status bind_batch(const struct model *model, struct instance *instance, uint32_t k, uint32_t count,
                               uint64_t rows, inlay_diag *diag)
{
    const infer_tensor *first = &instance->jobs[0]->request->inputs[k];
    uint32_t input = first->input, axis = instance->jobs[0]->size.padded > 0 ? model->padding.input_axes[input] : 0;
    uint64_t length = instance->jobs[0]->size.padded, bytes = first->bytes / instance->jobs[0]->size.rows * rows,
             used = 0;
    int64_t dims[INLAY_MAX_RANK];

    memcpy(dims, first->dims, sizeof dims);
    dims[0] = model->batchable ? (int64_t)rows : dims[0];
    if (axis > 0) {
        bytes = bytes / (uint64_t)dims[axis] * length;
        dims[axis] = (int64_t)length;
    }
    if (instance->batch_input_bytes[input] < bytes) {
        void *more = aligned_alloc(64, (bytes + 63) / 64 * 64);

        if (more == NULL)
            return no_memory(diag, "for a batch of %llu rows", (unsigned long long)rows);
        free(instance->batch_inputs[input]);
        instance->batch_inputs[input] = more;
        instance_grow(instance, bytes - instance->batch_input_bytes[input]);
        instance->batch_input_bytes[input] = bytes;
    }
    for (uint32_t i = 0; i < count; i++) {
        const infer_request *request = instance->jobs[i]->request;

        for (uint32_t tensor = 0; tensor < request->input_count; tensor++)
            if (request->inputs[tensor].input == input)
                used += padding_write(&model->padding, &request->inputs[tensor], length,
                                      (char *)instance->batch_inputs[input] + used);
    }
    INLAY_CHECK(used == bytes); /* the inputs fill the buffer */
    return bind_input(model, instance, input, first, dims, instance->batch_inputs[input], bytes, diag);
}

static inlay_status bind_inputs(const struct model *model, struct instance *instance, uint32_t count, uint64_t rows,
                                inlay_diag *diag)
{
    const struct job *job = instance->jobs[0];
    bool written = count > 1 || job->size.padded > job->size.length; /* otherwise the inputs are used in place */
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < job->request->input_count; k++) {
        const infer_tensor *tensor = &job->request->inputs[k];

        status = written ? bind_batch(model, instance, k, count, rows, diag)
                         : bind_input(model, instance, tensor->input, tensor, tensor->dims, tensor->data, tensor->bytes,
                                      diag);
    }
    return status;
}

static inlay_status read_output(const struct model *model, const struct instance *instance, uint32_t k,
                                infer_output *output, inlay_diag *diag)
{
    inlay_value *value = instance_output(model, instance, k);

    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not a tensor, and the protocol has only tensors",
                          model->io.outputs[k].name);
    *output = (infer_output){ .name = model->io.outputs[k].name,
                              .dtype = inlay_value_dtype(value),
                              .rank = inlay_value_rank(value),
                              .count = (uint64_t)inlay_value_count(value),
                              .data = inlay_value_data(value) };
    if (output->rank > 0)
        memcpy(output->dims, inlay_value_dims(value), output->rank * sizeof output->dims[0]);
    if (output->data == NULL && output->count > 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not in host memory", output->name);
    return INLAY_OK;
}

/* The job's rows of an output of the run, beginning with row `from`, with its padding removed. */
static inlay_status slice_output(const struct model *model, struct instance *instance, const struct job *job,
                                 uint64_t from, uint64_t rows, uint32_t k, infer_output *output, inlay_diag *diag)
{
    uint32_t axis = job->size.padded > job->size.length ? model->padding.output_axes[k] : 0;
    inlay_status status = read_output(model, instance, k, output, diag);
    uint64_t row_count, had;

    if (status != INLAY_OK)
        return status;
    INLAY_CHECK(from + job->size.rows <= rows);
    if (rows != job->size.rows) {
        if (output->rank == 0 || (uint64_t)output->dims[0] != rows)
            return inlay_fail(
                diag, INLAY_SHAPE_MISMATCH,
                "output '%s' does not have one row for each row of the inputs; serve this model with max_batch: 1",
                output->name);
        row_count = output->count / rows;
        output->data =
            output->count > 0 ? (const char *)output->data + from * row_count * datatype_bytes(output->dtype) : NULL;
        output->count = job->size.rows * row_count;
        output->dims[0] = (int64_t)job->size.rows;
    }
    if (axis == 0)
        return INLAY_OK;
    if (axis >= output->rank || (uint64_t)output->dims[axis] != job->size.padded)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "output '%s' does not have the padded length of the inputs; serve this model without buckets",
                          output->name);
    had = instance->trimmed_bytes[k];
    if (!padding_trim(output, axis, job->size.length, &instance->trimmed[k], &instance->trimmed_bytes[k]))
        return no_memory(diag, "for output '%s'", output->name);
    instance_grow(instance, instance->trimmed_bytes[k] - had);
    return INLAY_OK;
}

/* The job's outputs, in the order of its request. */
static inlay_status slice_outputs(const struct model *model, struct instance *instance, const struct job *job,
                                  uint64_t from, uint64_t rows, uint32_t *out_count, inlay_diag *diag)
{
    const infer_request *request = job->request;
    uint32_t count = request->output_count > 0 ? request->output_count : model->io.output_count;
    inlay_status status = INLAY_OK;

    *out_count = 0;
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        if (request->output_count == 0 && job->sequence != NULL && model->states.outputs[i])
            continue; /* a state: the context keeps it */
        status =
            slice_output(model, instance, job, from, rows, request->output_count > 0 ? request->outputs[i].output : i,
                         &instance->outputs[(*out_count)++], diag);
    }
    return status;
}

/* Time limit of the run: the latest deadline of its jobs; 0 = none, since one of the jobs has none. */
static uint64_t time_left(const struct instance *instance, uint32_t count, uint64_t now)
{
    uint64_t latest = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (instance->jobs[i]->deadline_ns == 0)
            return 0;
        latest = instance->jobs[i]->deadline_ns > latest ? instance->jobs[i]->deadline_ns : latest;
    }
    return latest > now ? latest - now : 1;
}

/* The earliest deadline of the jobs, for option ladder; 0 = none. */
static uint64_t first_deadline(const struct instance *instance, uint32_t count)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < count; i++)
        if (instance->jobs[i]->deadline_ns != 0 && (first == 0 || instance->jobs[i]->deadline_ns < first))
            first = instance->jobs[i]->deadline_ns;
    return first;
}

/* Runs each job alone after a batched run failed, so that an invalid request does not fail the others. */
static void run_each(struct model *model, struct instance *instance, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct job *job = instance->jobs[i];

        instance->jobs[0] = job;
        (void)model_run(model, instance, 1);
    }
}

/* Resets the states where a sequence begins. */
static void begin_sequence(const struct instance *instance)
{
    struct sequence *sequence = instance->jobs[0]->sequence;

    if (sequence == NULL || !(sequence->fresh || instance->jobs[0]->request->sequence_start))
        return;
    (void)inlay_context_state_rewind(instance->context, 0, NULL);
    sequence->fresh = false;
}

/* Whether a run was refused memory that it may get later. The states of texts that the same session keeps are dropped
 * by their decoder, after its run has failed. */
static bool lacks_memory(const struct instance *instance, uint32_t count, inlay_status status, const inlay_diag *diag)
{
    return status == INLAY_LIMIT_EXCEEDED && count == 1 &&
           (diag->error_class == INLAY_CLASS_RETRY ||
            (diag->error_class == INLAY_CLASS_MEMORY && instance->jobs[0]->sequence == NULL));
}

void model_run_idle(const struct model *model, struct instance *instance)
{
    if (instance->is_counted)
        run_budget_end(model->settings.budget);
    instance->is_counted = false;
}

/* Runs the instance, again if other runs held the memory that it needs. */
static inlay_status run_in_budget(const struct model *model, struct instance *instance, uint32_t count, uint64_t rows,
                                  inlay_diag *diag)
{
    struct run_budget *budget = model->settings.budget;
    run_turn turn = { .cancel = &instance->cancel };
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    inlay_status status = INLAY_OK, waited = INLAY_OK;

    run.cancel = &instance->cancel;
    run.max_threads = instance->threads;
    run.deadline_ns = first_deadline(instance, count);
    do {
        const uint64_t now = clock_ns();

        run.timeout_ns = time_left(instance, count, now);
        turn.deadline_ns = run.timeout_ns > 0 ? now + run.timeout_ns : 0;
        model_run_idle(model, instance);
        run_budget_begin(budget, &turn);
        instance->is_counted = true;
        status = instance_run(model, instance, rows, &run, diag);
        if (!lacks_memory(instance, count, status, diag))
            break;
        instance_trim(model, instance);
        model_run_idle(model, instance);
        waited = run_budget_wait(budget, &turn, diag);
    } while (waited == INLAY_OK);
    run_budget_leave(budget, &turn);
    return waited != INLAY_OK ? waited : status;
}

/* The counters of runs with `rows` rows; NULL: none. */
static stats_batch *batch_of(const struct model *model, uint64_t rows)
{
    return rows > 0 && rows <= model->settings.max_batch ? &model->metrics.batches[rows - 1] : NULL;
}

bool model_run(struct model *model, struct instance *instance, uint32_t count)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t rows = 0, from = 0, start = clock_ns(), bound, ended;
    const char *variant = NULL;
    double variant_error = -1;
    run_profile *profile;
    inlay_status status;

    INLAY_CHECK(count > 0 && count <= instance->job_capacity);
    for (uint32_t i = 0; i < count; i++)
        rows += instance->jobs[i]->size.rows;
    begin_sequence(instance);
    status = bind_inputs(model, instance, count, rows, &diag);
    profile = run_profile_begin(model, instance, count);
    bound = clock_ns();
    if (status == INLAY_OK)
        status = run_in_budget(model, instance, count, rows, &diag);
    if (status == INLAY_IO_ERROR && model->ensemble == NULL)
        atomic_store(&model->file.lost, true);
    ended = clock_ns();
    if (instance->context != NULL)
        variant = inlay_context_variant(instance->context, &variant_error);
    run_profile_end(model, instance, profile, status == INLAY_OK);
    instance_unbind(model, instance);
    model_count_watchdog(model);
    if (status != INLAY_OK && count > 1 && status != INLAY_CANCELLED && status != INLAY_DEADLINE_EXCEEDED) {
        run_profile_unref(profile);
        run_each(model, instance, count);
        return false;
    }
    /* Before the first reply is sent, so that a client that has its reply finds the run in the statistics. */
    if (status == INLAY_OK && !instance->is_spare)
        stats_add_run(model->metrics.stats, batch_of(model, rows), rows, bound - start, ended - bound);
    for (uint32_t i = 0; i < count; i++) {
        struct job *job = instance->jobs[i];
        uint32_t outputs = 0;
        inlay_status result = status;

        job->run.started_ns = start;
        job->run.compute_ns = ended - bound;
        job->run.ended_ns = ended;
        job->run.rows = rows;
        job->run.threads = instance->threads;
        job->run.variant = variant;
        job->run.variant_error = variant_error;
        job->run.profile = profile != NULL && job->sampled ? run_profile_ref(profile) : NULL;
        if (!job->is_copy)
            stats_add_time(&model->metrics.stats->queue, start - job->received_ns);
        if (result == INLAY_OK)
            result = slice_outputs(model, instance, job, from, rows, &outputs, &diag);
        else if (result == INLAY_CANCELLED && !job->cancelled)
            result = inlay_fail(&diag, INLAY_BUSY, SERVER_ENDING);
        from += job->size.rows;
        job->finish(job, result == INLAY_OK ? NULL : &diag, result == INLAY_OK ? instance->outputs : NULL,
                    result == INLAY_OK ? outputs : 0);
    }
    run_profile_unref(profile);
    if (status == INLAY_OK && !instance->is_spare)
        stats_add_output(model->metrics.stats, batch_of(model, rows), clock_ns() - ended);
    return status == INLAY_OK;
}
