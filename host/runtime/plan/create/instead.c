/* plan/create/instead.c - programs that stand in for another one at the shapes at which something was declined
 * (late.h). */
#include "plan/program/compile.h"
#include "plan/program/late.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

/* A program of p's graph without the offers in s. Its snapshot, its bodies and what is compiled alike are p's. */
static inlay_status make_instead(program *p, const late_shapes *s, program **out, inlay_diag *diag)
{
    program *other = calloc(1, sizeof *other);
    uint32_t held = threads_hold(p->env->max_threads);
    inlay_status status = INLAY_OK;
    partition heard;

    if (other == NULL) {
        status = late_no_memory(p, diag);
        goto done;
    }
    other->base = p;
    other->graph = p->graph;
    other->model = p->model;
    other->env = p->env;
    other->path = p->path;
    other->snapshot = p->snapshot;
    other->bodies_of = p->bodies_of;
    (void)pthread_mutex_init(&other->lock, NULL);
    (void)pthread_mutex_init(&other->plan_lock, NULL);
    other->without = arena_copy(&other->a, s->late, p->parts.offer_count);
    if (other->without == NULL ||
        !late_take_back(&p->parts, s->late, "specialize at these shapes", s->text, &other->a, &heard)) {
        status = late_no_memory(p, diag);
        goto done;
    }
    INLAY_TRY(late_choose(p, &heard, &other->a, &other->parts, diag));
    other->steps = late_take_over(&other->parts, p->steps, p->step_count, true, &other->a);
    other->step_count = other->steps != NULL ? other->parts.region_count : 0;
    if (other->steps == NULL) {
        status = late_no_memory(p, diag);
        goto done;
    }
    INLAY_TRY(program_compile(other, diag));
    other->next_instead = p->instead;
    p->instead = other;
    *out = other;
    other = NULL;
done:
    (void)threads_hold(held);
    program_destroy(other);
    return status;
}

/* One that was made without the same offers, for other shapes. */
static program *find_made(const program *p, const late_shapes *s)
{
    program *made = p->instead;

    while (made != NULL && memcmp(made->without, s->late, p->parts.offer_count) != 0)
        made = made->next_instead;
    return made;
}

static void say_late(const program *p, const late_shapes *s)
{
    char line[500];

    (void)snprintf(line, sizeof line, "graph '%s' is assigned again for some shapes: %.300s", p->graph->name, s->text);
    if (p->env->log != NULL)
        p->env->log(p->env->log_ctx, INLAY_LOG_INFO, line);
}

inlay_status late_instead(program *p, const plan_input *inputs, uint32_t count, program **out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    late_shapes *s;

    *out = NULL;
    if (__atomic_load_n(&p->late, __ATOMIC_ACQUIRE) == NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&p->plan_lock);
    for (s = p->late; s != NULL && !plan_fits(&s->key, inputs, count); s = s->next)
        continue;
    if (s != NULL && s->instead == NULL && !s->impossible) {
        s->instead = find_made(p, s);
        if (s->instead == NULL) {
            inlay_diag why = INLAY_DIAG_INIT;

            say_late(p, s);
            status = make_instead(p, s, &s->instead, &why);
            s->impossible = status == INLAY_UNSUPPORTED;
            if (status != INLAY_OK && status != INLAY_UNSUPPORTED)
                (void)inlay_fail(diag, status, "%s", why.text);
        }
    }
    if (s != NULL && s->impossible)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", s->text);
    if (s != NULL && status == INLAY_OK)
        *out = s->instead;
    (void)pthread_mutex_unlock(&p->plan_lock);
    return status;
}
