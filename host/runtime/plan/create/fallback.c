#include "plan/create/fallback.h"
#include "plan/create/create.h"
#include "plan/program/declined.h"
#include "inlay/execution.h"
#include <stdlib.h>
#include <string.h>

/* Creates a fallback of the program, which shares its snapshot, its bodies and, for now, its compiled regions. NULL:
 * out of memory. */
static struct program *copy_of(struct program *program, const declined_shapes *shapes)
{
    struct program *other = calloc(1, sizeof *other);

    if (other == NULL)
        return NULL;
    other->fallback.base = program;
    other->graph = program->graph;
    other->model = program->model;
    other->env = program->env;
    other->path = program->path;
    other->snapshot = program->snapshot;
    other->bodies_of = program->bodies_of;
    other->parts = program->parts;
    (void)pthread_mutex_init(&other->constants.lock, NULL);
    (void)pthread_mutex_init(&other->kept.lock, NULL);
    other->fallback.without = arena_copy(&other->arena, shapes->offers, program->parts.offer_count);
    other->fallback.why = arena_string(&other->arena, shapes->text);
    other->steps = arena_copy(&other->arena, program->steps, program->step_count * sizeof *program->steps);
    other->step_count = other->steps != NULL ? program->step_count : 0;
    for (uint32_t i = 0; i < other->step_count; i++)
        other->steps[i].borrowed = true;
    if (other->fallback.without != NULL && other->fallback.why != NULL && other->steps != NULL)
        return other;
    program_destroy(other);
    return NULL;
}

static inlay_status make_fallback(struct program *program, const declined_shapes *shapes, struct program **out,
                                  inlay_diag *diag)
{
    struct assignment assignment = {
        .graph = program->graph, .env = program->env, .program = copy_of(program, shapes), .shares_graph = true
    };
    const program_declined learned = { assignment.program, shapes->offers,
                                       shapes->all ? "the watchdog" : "specialize at these shapes", shapes->text };
    inlay_status status;

    if (assignment.program == NULL)
        return declined_no_memory(program, diag);
    status = program_assign_without(&learned, diag);
    if (status == INLAY_OK)
        status = assign_until_stable(&assignment, diag);
    if (status != INLAY_OK) {
        program_destroy(assignment.program);
        return status;
    }
    assignment.program->fallback.next = program->fallback.programs;
    program->fallback.programs = assignment.program;
    *out = assignment.program;
    return INLAY_OK;
}

/* A fallback that excludes the same offers, created for other shapes. */
static struct program *find_fallback(const struct program *program, const declined_shapes *shapes)
{
    struct program *made = program->fallback.programs;

    while (made != NULL && memcmp(made->fallback.without, shapes->offers, program->parts.offer_count) != 0)
        made = made->fallback.next;
    return made;
}

static void report(const struct program *program, const declined_shapes *shapes)
{
    char line[500];

    (void)snprintf(line, sizeof line, "graph '%s' is assigned again for %s shapes: %.300s", program->graph->name,
                   shapes->all ? "all" : "some", shapes->text);
    if (program->env->log != NULL)
        program->env->log(program->env->log_ctx, INLAY_LOG_INFO, line);
}

inlay_status fallback_find(struct program *program, const plan_input *inputs, uint32_t count, struct program **out,
                           inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    declined_shapes *shapes;

    *out = NULL;
    if (__atomic_load_n(&program->fallback.shapes, __ATOMIC_ACQUIRE) == NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&program->kept.lock);
    while ((shapes = declined_find(program, inputs, count)) != NULL && shapes->fallback == NULL &&
           !shapes->impossible && status == INLAY_OK) {
        shapes->fallback = find_fallback(program, shapes);
        if (shapes->fallback == NULL) {
            inlay_diag why = INLAY_DIAG_INIT;

            report(program, shapes);
            status = make_fallback(program, shapes, &shapes->fallback, &why);
            shapes->impossible = status == INLAY_UNSUPPORTED;
            if (status == INLAY_UNSUPPORTED)
                status = INLAY_OK;
            else if (status != INLAY_OK)
                (void)inlay_fail(diag, status, "%s", why.text);
        }
    }
    if (shapes != NULL && shapes->impossible)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s", shapes->text);
    if (shapes != NULL && status == INLAY_OK)
        *out = shapes->fallback;
    (void)pthread_mutex_unlock(&program->kept.lock);
    return status;
}

inlay_status fallback_without(struct program *program, const plan_input *inputs, uint32_t count, const uint8_t *offers,
                              const char *text, struct program **out, inlay_diag *diag)
{
    inlay_status status;

    (void)pthread_mutex_lock(&program->kept.lock);
    status = declined_add_shapes(program, inputs, count, offers, text, diag);
    (void)pthread_mutex_unlock(&program->kept.lock);
    return status == INLAY_OK ? fallback_find(program, inputs, count, out, diag) : status;
}

inlay_status fallback_once(struct program *program, const uint8_t *offers, const char *text, struct program **out,
                           inlay_diag *diag)
{
    const declined_shapes shapes = { .offers = (uint8_t *)(uintptr_t)offers, .text = (char *)(uintptr_t)text };
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&program->kept.lock);
    *out = find_fallback(program, &shapes);
    if (*out == NULL)
        status = make_fallback(program, &shapes, out, diag);
    (void)pthread_mutex_unlock(&program->kept.lock);
    return status;
}

inlay_status plan_prepare(struct program *program, const plan_input *inputs, uint32_t count, inlay_diag *diag)
{
    inlay_status planned = INLAY_OK;
    struct program *other;
    struct plan *plan;

    for (;;) {
        inlay_status status = fallback_find(program, inputs, count, &other, diag);

        if (status != INLAY_OK || (other == NULL && planned != INLAY_OK))
            return status != INLAY_OK ? status : planned;
        status = plan_get(other != NULL ? other : program, inputs, count, NULL, &plan, diag);
        if (status == INLAY_OK) {
            plan_pin(plan);
            plan_unref(plan);
        }
        if (status != INLAY_UNSUPPORTED || other != NULL)
            return status;
        planned = status;
    }
}
