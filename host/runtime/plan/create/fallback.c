#include "plan/create/fallback.h"
#include "plan/create/create.h"
#include "plan/program/declined.h"
#include <stdlib.h>
#include <string.h>

/* A program of p's graph: its snapshot, its bodies, and as yet its regions, with what is compiled, are p's. NULL: no
 * memory. */
static struct program *copy_of(struct program *p, const uint8_t *without)
{
    struct program *other = calloc(1, sizeof *other);

    if (other == NULL)
        return NULL;
    other->fallback.base = p;
    other->graph = p->graph;
    other->model = p->model;
    other->env = p->env;
    other->path = p->path;
    other->snapshot = p->snapshot;
    other->bodies_of = p->bodies_of;
    other->parts = p->parts;
    (void)pthread_mutex_init(&other->constants.lock, NULL);
    (void)pthread_mutex_init(&other->kept.lock, NULL);
    other->fallback.without = arena_copy(&other->a, without, p->parts.offer_count);
    other->steps = arena_copy(&other->a, p->steps, p->step_count * sizeof *p->steps);
    other->step_count = other->steps != NULL ? p->step_count : 0;
    for (uint32_t i = 0; i < other->step_count; i++)
        other->steps[i].borrowed = true;
    if (other->fallback.without != NULL && other->steps != NULL)
        return other;
    program_destroy(other);
    return NULL;
}

static inlay_status make_fallback(struct program *p, const declined_shapes *s, struct program **out, inlay_diag *diag)
{
    struct assignment a = { .g = p->graph, .env = p->env, .program = copy_of(p, s->offers), .shares_graph = true };
    const program_declined learned = { a.program, s->offers, "specialize at these shapes", s->text };
    inlay_status status;

    if (a.program == NULL)
        return declined_no_memory(p, diag);
    status = program_assign_without(&learned, diag);
    if (status == INLAY_OK)
        status = assign_until_stable(&a, diag);
    if (status != INLAY_OK) {
        program_destroy(a.program);
        return status;
    }
    a.program->fallback.next = p->fallback.programs;
    p->fallback.programs = a.program;
    *out = a.program;
    return INLAY_OK;
}

/* One that was made without the same offers, for other shapes. */
static struct program *find_made(const struct program *p, const declined_shapes *s)
{
    struct program *made = p->fallback.programs;

    while (made != NULL && memcmp(made->fallback.without, s->offers, p->parts.offer_count) != 0)
        made = made->fallback.next;
    return made;
}

static void report(const struct program *p, const declined_shapes *s)
{
    char line[500];

    (void)snprintf(line, sizeof line, "graph '%s' is assigned again for some shapes: %.300s", p->graph->name, s->text);
    if (p->env->log != NULL)
        p->env->log(p->env->log_ctx, INLAY_LOG_INFO, line);
}

inlay_status fallback_find(struct program *p, const plan_input *inputs, uint32_t count, struct program **out,
                           inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    declined_shapes *s;

    *out = NULL;
    if (__atomic_load_n(&p->fallback.shapes, __ATOMIC_ACQUIRE) == NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&p->kept.lock);
    for (s = p->fallback.shapes; s != NULL && !plan_fits(&s->key, inputs, count); s = s->next)
        continue;
    if (s != NULL && s->fallback == NULL && !s->impossible) {
        s->fallback = find_made(p, s);
        if (s->fallback == NULL) {
            inlay_diag why = INLAY_DIAG_INIT;

            report(p, s);
            status = make_fallback(p, s, &s->fallback, &why);
            s->impossible = status == INLAY_UNSUPPORTED;
            if (status != INLAY_OK && status != INLAY_UNSUPPORTED)
                (void)inlay_fail(diag, status, "%s", why.text);
        }
    }
    if (s != NULL && s->impossible)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", s->text);
    if (s != NULL && status == INLAY_OK)
        *out = s->fallback;
    (void)pthread_mutex_unlock(&p->kept.lock);
    return status;
}

inlay_status fallback_without(struct program *p, const plan_input *inputs, uint32_t count, const uint8_t *offers,
                              const char *text, struct program **out, inlay_diag *diag)
{
    inlay_status status;

    (void)pthread_mutex_lock(&p->kept.lock);
    status = declined_remember(p, inputs, count, offers, text, diag);
    (void)pthread_mutex_unlock(&p->kept.lock);
    return status == INLAY_OK ? fallback_find(p, inputs, count, out, diag) : status;
}
