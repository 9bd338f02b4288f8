#include "serve/sequence.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64 }; /* room in states that grow; it doubles */

inlay_status sequences_create(struct model *m, inlay_diag *diag)
{
    inlay_state_info info = { .struct_size = sizeof info };

    m->state_inputs = calloc(m->input_count + 1u, sizeof *m->state_inputs);
    m->state_outputs = calloc(m->output_count + 1u, sizeof *m->state_outputs);
    if (m->state_inputs == NULL || m->state_outputs == NULL)
        return no_memory(diag, "for the model's inputs");
    for (uint32_t i = 0; inlay_session_state(m->session, i, &info) == INLAY_OK; i++) {
        m->state_inputs[info.input] = true;
        m->state_outputs[info.output] = true;
        m->state_count++;
    }
    if (m->state_count == 0 || m->settings.max_sequences == 0)
        return INLAY_OK;
    m->sequences = calloc(m->settings.max_sequences, sizeof *m->sequences);
    return m->sequences != NULL ? INLAY_OK : no_memory(diag, "for sequences");
}

void sequences_destroy(struct model *m)
{
    for (uint32_t i = 0; m->sequences != NULL && i < m->settings.max_sequences; i++)
        instance_deinit(m, &m->sequences[i].instance);
    free(m->sequences);
    free(m->state_inputs);
    free(m->state_outputs);
    (void)pthread_mutex_destroy(&m->sequence_lock);
}

/* Under the model's lock, as what follows. */
static struct sequence *find(const struct model *m, const char *id)
{
    for (uint32_t i = 0; i < m->settings.max_sequences; i++)
        if (strcmp(m->sequences[i].id, id) == 0)
            return &m->sequences[i];
    return NULL;
}

/* One that is free: ended, or else the one that nobody has asked for the longest, and for sequence_idle_ms. */
static struct sequence *find_room(const struct model *m, uint64_t now)
{
    struct sequence *found = NULL;

    for (uint32_t i = 0; i < m->settings.max_sequences; i++) {
        struct sequence *q = &m->sequences[i];

        if (q->users > 0)
            continue;
        if (q->id[0] == '\0')
            return q;
        if (now - q->used_ns > m->settings.sequence_idle_ns && (found == NULL || q->used_ns < found->used_ns))
            found = q;
    }
    return found;
}

static inlay_status make_context(const struct model *m, struct sequence *q, inlay_diag *diag)
{
    inlay_status status = instance_init(m, &q->instance, 1, diag);

    if (status == INLAY_OK)
        status = inlay_context_keep_states(q->instance.context, FIRST_ROWS, diag);
    if (status != INLAY_OK)
        instance_deinit(m, &q->instance);
    return status;
}

static inlay_status join(struct job *j, inlay_diag *diag)
{
    const infer_request *r = j->request;
    struct model *m = j->model;
    struct sequence *q = find(m, r->sequence);
    uint64_t now = clock_ns();
    inlay_status status = INLAY_OK;

    if (q == NULL && !r->sequence_start)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "model '%s' has no sequence '%s': its first request says sequence_start, and a sequence that "
                          "is not used for a while is given up",
                          m->name, r->sequence);
    if (q == NULL) {
        q = find_room(m, now);
        if (q == NULL)
            return inlay_fail(diag, INLAY_BUSY, "model '%s' has %u sequences at work, and takes no more", m->name,
                              m->settings.max_sequences);
        if (q->instance.context == NULL)
            status = make_context(m, q, diag);
        if (status != INLAY_OK)
            return status;
        (void)snprintf(q->id, sizeof q->id, "%s", r->sequence);
        q->fresh = true;
    }
    q->users++;
    q->used_ns = now;
    if (r->sequence_end)
        q->id[0] = '\0'; /* nobody finds it any more */
    j->sequence = q;
    return INLAY_OK;
}

inlay_status sequence_join(struct job *j, inlay_diag *diag)
{
    struct model *m = j->model;
    inlay_status status;

    if (j->request->sequence[0] == '\0')
        return INLAY_OK;
    if (m->sequences == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "model '%s' keeps no states from request to request, so it has no sequences", m->name);
    (void)pthread_mutex_lock(&m->sequence_lock);
    status = join(j, diag);
    (void)pthread_mutex_unlock(&m->sequence_lock);
    return status;
}

bool sequence_is_known(struct model *m, const char *id)
{
    bool known;

    if (m->sequences == NULL || id[0] == '\0')
        return false;
    (void)pthread_mutex_lock(&m->sequence_lock);
    known = find(m, id) != NULL;
    (void)pthread_mutex_unlock(&m->sequence_lock);
    return known;
}

bool sequences_live(struct model *m)
{
    uint64_t now = clock_ns();
    bool live = false;

    (void)pthread_mutex_lock(&m->sequence_lock);
    for (uint32_t i = 0; m->sequences != NULL && !live && i < m->settings.max_sequences; i++) {
        const struct sequence *q = &m->sequences[i];

        live = q->users > 0 || (q->id[0] != '\0' && now - q->used_ns <= m->settings.sequence_idle_ns);
    }
    (void)pthread_mutex_unlock(&m->sequence_lock);
    return live;
}

void sequence_leave(struct job *j)
{
    if (j->sequence == NULL)
        return;
    (void)pthread_mutex_lock(&j->model->sequence_lock);
    j->sequence->users--;
    j->sequence->used_ns = clock_ns();
    (void)pthread_mutex_unlock(&j->model->sequence_lock);
    j->sequence = NULL;
}
