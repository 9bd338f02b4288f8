#include "serve/model/sequence.h"
#include "serve/model/text.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64 }; /* initial capacity of states that grow; it doubles */

inlay_status sequences_create(struct model *model, inlay_diag *diag)
{
    inlay_state_info info = { .struct_size = sizeof info };

    model->states.inputs = calloc(model->io.input_count + 1u, sizeof *model->states.inputs);
    model->states.outputs = calloc(model->io.output_count + 1u, sizeof *model->states.outputs);
    if (model->states.inputs == NULL || model->states.outputs == NULL)
        return no_memory(diag, "for the model's inputs");
    for (uint32_t i = 0; model->session != NULL && inlay_session_state(model->session, i, &info) == INLAY_OK; i++) {
        model->states.inputs[info.input] = true;
        model->states.outputs[info.output] = true;
        model->states.count++;
    }
    if (model->states.count == 0 || model->settings.max_sequences == 0)
        return INLAY_OK;
    model->states.sequences = calloc(model->settings.max_sequences, sizeof *model->states.sequences);
    return model->states.sequences != NULL ? INLAY_OK : no_memory(diag, "for sequences");
}

void sequences_destroy(struct model *model)
{
    for (uint32_t i = 0; model->states.sequences != NULL && i < model->settings.max_sequences; i++)
        instance_deinit(model, &model->states.sequences[i].instance);
    free(model->states.sequences);
    free(model->states.inputs);
    free(model->states.outputs);
    (void)pthread_mutex_destroy(&model->states.lock);
}

/* The caller holds the model's sequence lock, as for find_free() and join_locked(). */
static struct sequence *find_sequence(const struct model *model, const char *id)
{
    for (uint32_t i = 0; i < model->settings.max_sequences; i++)
        if (strcmp(model->states.sequences[i].id, id) == 0)
            return &model->states.sequences[i];
    return NULL;
}

/* A free sequence, or else the least recently used one that was idle for sequence_idle_ms. NULL: none. */
static struct sequence *find_free(const struct model *model, uint64_t now)
{
    struct sequence *found = NULL;

    for (uint32_t i = 0; i < model->settings.max_sequences; i++) {
        struct sequence *sequence = &model->states.sequences[i];

        if (sequence->users > 0)
            continue;
        if (sequence->id[0] == '\0')
            return sequence;
        if (now - sequence->used_ns > model->settings.sequence_idle_ns &&
            (found == NULL || sequence->used_ns < found->used_ns))
            found = sequence;
    }
    return found;
}

/* Makes the sequence's context, with states that grow as needed. */
static inlay_status open_context(const struct model *model, struct sequence *sequence, inlay_diag *diag)
{
    inlay_status status = instance_init(model, &sequence->instance, 1, diag);

    if (status == INLAY_OK)
        status = inlay_context_keep_states(sequence->instance.context, FIRST_ROWS, diag);
    if (status != INLAY_OK)
        instance_deinit(model, &sequence->instance);
    return status;
}

static inlay_status join_locked(struct job *job, inlay_diag *diag)
{
    const infer_request *request = job->request;
    struct model *model = job->model;
    struct sequence *sequence = find_sequence(model, request->sequence);
    uint64_t now = clock_ns();
    inlay_status status = INLAY_OK;

    if (sequence == NULL && !request->sequence_start)
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "model '%s' has no sequence '%s': set sequence_start in its first request; idle sequences are "
            "removed after sequence_idle_ms",
            model->name, request->sequence);
    if (sequence == NULL) {
        sequence = find_free(model, now);
        if (sequence == NULL)
            return inlay_fail(diag, INLAY_BUSY, "all %u sequences of model '%s' are in use",
                              model->settings.max_sequences, model->name);
        if (sequence->instance.context == NULL)
            status = open_context(model, sequence, diag);
        if (status != INLAY_OK)
            return status;
        (void)snprintf(sequence->id, sizeof sequence->id, "%s", request->sequence);
        sequence->fresh = true;
    }
    sequence->users++;
    sequence->used_ns = now;
    if (request->sequence_end)
        sequence->id[0] = '\0'; /* later requests must not find it */
    job->sequence = sequence;
    return INLAY_OK;
}

inlay_status sequence_join(struct job *job, inlay_diag *diag)
{
    struct model *model = job->model;
    inlay_status status;

    if (job->request->sequence[0] == '\0')
        return INLAY_OK;
    if (model->states.sequences == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "model '%s' has no states, so it has no sequences",
                          model->name);
    (void)pthread_mutex_lock(&model->states.lock);
    status = join_locked(job, diag);
    (void)pthread_mutex_unlock(&model->states.lock);
    return status;
}

bool sequence_is_known(struct model *model, const char *id)
{
    bool known;

    if (model->states.sequences == NULL || id[0] == '\0')
        return false;
    (void)pthread_mutex_lock(&model->states.lock);
    known = find_sequence(model, id) != NULL;
    (void)pthread_mutex_unlock(&model->states.lock);
    return known;
}

bool sequences_live(struct model *model)
{
    uint64_t now = clock_ns();
    bool live = model->text != NULL && atomic_load(&model->text->decode.texts) > 0;

    (void)pthread_mutex_lock(&model->states.lock);
    for (uint32_t i = 0; model->states.sequences != NULL && !live && i < model->settings.max_sequences; i++) {
        const struct sequence *sequence = &model->states.sequences[i];

        live = sequence->users > 0 ||
               (sequence->id[0] != '\0' && now - sequence->used_ns <= model->settings.sequence_idle_ns);
    }
    (void)pthread_mutex_unlock(&model->states.lock);
    return live;
}

uint64_t sequences_buffer_bytes(struct model *model)
{
    uint64_t bytes = 0;

    (void)pthread_mutex_lock(&model->states.lock);
    for (uint32_t i = 0; model->states.sequences != NULL && i < model->settings.max_sequences; i++)
        bytes += atomic_load_explicit(&model->states.sequences[i].instance.buffer_bytes, memory_order_relaxed);
    (void)pthread_mutex_unlock(&model->states.lock);
    return bytes;
}

void sequence_leave(struct job *job)
{
    if (job->sequence == NULL)
        return;
    (void)pthread_mutex_lock(&job->model->states.lock);
    INLAY_CHECK(job->sequence->users > 0);
    job->sequence->users--;
    job->sequence->used_ns = clock_ns();
    (void)pthread_mutex_unlock(&job->model->states.lock);
    job->sequence = NULL;
}
