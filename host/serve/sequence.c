#include "serve/sequence.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64 }; /* room in states that grow; it doubles */

inlay_status sequences_create(struct model *model, inlay_diag *diag)
{
    inlay_state_info info = { .struct_size = sizeof info };

    model->state_inputs = calloc(model->input_count + 1u, sizeof *model->state_inputs);
    model->state_outputs = calloc(model->output_count + 1u, sizeof *model->state_outputs);
    if (model->state_inputs == NULL || model->state_outputs == NULL)
        return no_memory(diag, "for the model's inputs");
    for (uint32_t i = 0; inlay_session_state(model->session, i, &info) == INLAY_OK; i++) {
        model->state_inputs[info.input] = true;
        model->state_outputs[info.output] = true;
        model->state_count++;
    }
    if (model->state_count == 0 || model->settings.max_sequences == 0)
        return INLAY_OK;
    model->sequences = calloc(model->settings.max_sequences, sizeof *model->sequences);
    return model->sequences != NULL ? INLAY_OK : no_memory(diag, "for sequences");
}

void sequences_destroy(struct model *model)
{
    for (uint32_t i = 0; model->sequences != NULL && i < model->settings.max_sequences; i++)
        instance_deinit(model, &model->sequences[i].instance);
    free(model->sequences);
    free(model->state_inputs);
    free(model->state_outputs);
    (void)pthread_mutex_destroy(&model->sequence_lock);
}

/* Under the model's lock, as what follows. */
static struct sequence *find(const struct model *model, const char *id)
{
    for (uint32_t i = 0; i < model->settings.max_sequences; i++)
        if (strcmp(model->sequences[i].id, id) == 0)
            return &model->sequences[i];
    return NULL;
}

/* One that is free: ended, or else the one that nobody has asked for the longest, and for sequence_idle_ms. */
static struct sequence *find_room(const struct model *model, uint64_t now)
{
    struct sequence *found = NULL;

    for (uint32_t i = 0; i < model->settings.max_sequences; i++) {
        struct sequence *sequence = &model->sequences[i];

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

static inlay_status make_context(const struct model *model, struct sequence *sequence, inlay_diag *diag)
{
    inlay_status status = instance_init(model, &sequence->instance, 1, diag);

    if (status == INLAY_OK)
        status = inlay_context_keep_states(sequence->instance.context, FIRST_ROWS, diag);
    if (status != INLAY_OK)
        instance_deinit(model, &sequence->instance);
    return status;
}

static inlay_status join(struct job *job, inlay_diag *diag)
{
    const infer_request *request = job->request;
    struct model *model = job->model;
    struct sequence *sequence = find(model, request->sequence);
    uint64_t now = clock_ns();
    inlay_status status = INLAY_OK;

    if (sequence == NULL && !request->sequence_start)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "model '%s' has no sequence '%s': its first request says sequence_start, and a sequence that "
                          "is not used for a while is given up",
                          model->name, request->sequence);
    if (sequence == NULL) {
        sequence = find_room(model, now);
        if (sequence == NULL)
            return inlay_fail(diag, INLAY_BUSY, "model '%s' has %u sequences at work, and takes no more", model->name,
                              model->settings.max_sequences);
        if (sequence->instance.context == NULL)
            status = make_context(model, sequence, diag);
        if (status != INLAY_OK)
            return status;
        (void)snprintf(sequence->id, sizeof sequence->id, "%s", request->sequence);
        sequence->fresh = true;
    }
    sequence->users++;
    sequence->used_ns = now;
    if (request->sequence_end)
        sequence->id[0] = '\0'; /* nobody finds it any more */
    job->sequence = sequence;
    return INLAY_OK;
}

inlay_status sequence_join(struct job *job, inlay_diag *diag)
{
    struct model *model = job->model;
    inlay_status status;

    if (job->request->sequence[0] == '\0')
        return INLAY_OK;
    if (model->sequences == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "model '%s' keeps no states from request to request, so it has no sequences", model->name);
    (void)pthread_mutex_lock(&model->sequence_lock);
    status = join(job, diag);
    (void)pthread_mutex_unlock(&model->sequence_lock);
    return status;
}

bool sequence_is_known(struct model *model, const char *id)
{
    bool known;

    if (model->sequences == NULL || id[0] == '\0')
        return false;
    (void)pthread_mutex_lock(&model->sequence_lock);
    known = find(model, id) != NULL;
    (void)pthread_mutex_unlock(&model->sequence_lock);
    return known;
}

bool sequences_live(struct model *model)
{
    uint64_t now = clock_ns();
    bool live = false;

    (void)pthread_mutex_lock(&model->sequence_lock);
    for (uint32_t i = 0; model->sequences != NULL && !live && i < model->settings.max_sequences; i++) {
        const struct sequence *sequence = &model->sequences[i];

        live = sequence->users > 0 ||
               (sequence->id[0] != '\0' && now - sequence->used_ns <= model->settings.sequence_idle_ns);
    }
    (void)pthread_mutex_unlock(&model->sequence_lock);
    return live;
}

void sequence_leave(struct job *job)
{
    if (job->sequence == NULL)
        return;
    (void)pthread_mutex_lock(&job->model->sequence_lock);
    job->sequence->users--;
    job->sequence->used_ns = clock_ns();
    (void)pthread_mutex_unlock(&job->model->sequence_lock);
    job->sequence = NULL;
}
