#include "plan/late.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

enum { SHAPES_KEPT = 256 };

/* Shapes for which something was declined. */
struct late_shapes {
    late_shapes *next;
    plan key;      /* its key alone */
    uint8_t *late; /* [offer_count] */
    char *text;
    program *instead; /* NULL: not made yet, or nobody can */
    bool impossible;
    arena a;
};

/* ------------------------------------------------------------------ who is meant */

static bool has_node(const program *p, const part_offer *o, const char *name)
{
    for (uint32_t k = 0; k < o->node_count; k++)
        if (strcmp(p->graph->nodes[o->nodes[k]]->info.name.data, name) == 0)
            return true;
    return false;
}

void late_mark(const program *p, uint32_t step, const inlay_diag *why, uint8_t *late)
{
    const part_region *r = &p->parts.regions[step];
    bool found = false;

    for (uint32_t i = 0; why->node[0] != '\0' && i < r->offer_count; i++)
        if (has_node(p, &p->parts.offers[r->offers[i]], why->node))
            late[r->offers[i]] = 1, found = true;
    for (uint32_t i = 0; !found && i < r->offer_count; i++)
        late[r->offers[i]] = 1;
}

/* Copies what base has heard, without the offers that are late, and with refusals in their place. False: no memory. */
static bool take_back(const partition *base, const uint8_t *late, const char *call, const char *text, arena *a,
                      partition *out)
{
    const char *sentence = arena_format(a, "declined by %s: %.300s", call, text);
    part_refusal *refusals;
    size_t nodes = 0;

    for (uint32_t o = 0; o < base->offer_count; o++)
        nodes += late[o] != 0 ? base->offers[o].node_count : 0;
    *out = *base;
    out->offers = arena_copy(a, base->offers, ((size_t)base->offer_count) * sizeof *out->offers);
    out->refusals = refusals = arena_array(a, base->refusal_count + nodes + 1, sizeof *refusals);
    if (sentence == NULL || out->offers == NULL || refusals == NULL)
        return false;
    if (base->refusal_count > 0)
        memcpy(refusals, base->refusals, base->refusal_count * sizeof *refusals);
    for (uint32_t o = 0; o < out->offer_count; o++) {
        if (late[o] == 0)
            continue;
        out->offers[o].declined = true;
        for (uint32_t k = 0; k < out->offers[o].node_count; k++)
            refusals[out->refusal_count++] = (part_refusal){ .provider = out->offers[o].provider,
                                                             .node = out->offers[o].nodes[k],
                                                             .code = INLAY_REFUSE_LATE,
                                                             .text = sentence };
    }
    return true;
}

/* ------------------------------------------------------------------ assigning again */

static inlay_status assign(const program *p, const partition *heard, arena *a, partition *out, inlay_diag *diag)
{
    part_request request = program_request(p);
    part_rules rules = p->env->rules != NULL ? *p->env->rules : (part_rules){ 0 };

    rules.saved_plan = NULL; /* it would insist on what is declined */
    request.rules = &rules;
    return partition_again(&request, heard, a, out, diag);
}

static bool same_list(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

static bool same_region(const part_region *a, const part_region *b)
{
    return a->provider == b->provider && a->provider != INLAY_NONE &&
           same_list(a->nodes, a->node_count, b->nodes, b->node_count) &&
           same_list(a->offers, a->offer_count, b->offers, b->offer_count) &&
           same_list(a->inputs, a->input_count, b->inputs, b->input_count) &&
           same_list(a->outputs, a->output_count, b->outputs, b->output_count);
}

/* Other neighbours may not agree to other elements. */
static bool is_plain(const program_step *s)
{
    for (uint32_t i = 0; i < s->region->input_count + s->region->output_count; i++)
        if (s->placements[i].dtype != INLAY_UNDEFINED)
            return false;
    return true;
}

/* Steps for the regions of parts; those that `from` has compiled already are taken over. NULL: no memory. */
static program_step *take_over(const partition *parts, const program_step *from, uint32_t from_count, bool borrow,
                               arena *a)
{
    program_step *steps = arena_array(a, (size_t)parts->region_count + 1, sizeof *steps);

    for (uint32_t i = 0; steps != NULL && i < parts->region_count; i++)
        for (uint32_t k = 0; k < from_count; k++)
            if (from[k].compiled != NULL && same_region(&parts->regions[i], from[k].region) && is_plain(&from[k])) {
                steps[i].compiled = from[k].compiled;
                steps[i].provider = from[k].provider;
                steps[i].placements = from[k].placements;
                steps[i].borrowed = borrow || from[k].borrowed;
                steps[i].resident_bytes = from[k].resident_bytes;
                break;
            }
    return steps;
}

static bool is_taken(const program_step *steps, uint32_t count, const inlay_compiled *compiled)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].compiled == compiled)
            return true;
    return false;
}

static inlay_status no_memory(const program *p, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to assign graph '%s' again", p->graph->name);
}

inlay_status late_assign(program *p, uint32_t step, const inlay_diag *why, inlay_diag *diag)
{
    uint8_t *late = arena_array(&p->a, (size_t)p->parts.offer_count + 1, sizeof *late);
    partition heard, next;
    program_step *steps;
    inlay_status status;

    if (late == NULL)
        return no_memory(p, diag);
    late_mark(p, step, why, late);
    if (!take_back(&p->parts, late, "compile", why->text, &p->a, &heard))
        return no_memory(p, diag);
    status = assign(p, &heard, &p->a, &next, diag);
    if (status == INLAY_UNSUPPORTED) {
        const part_request request = program_request(p);

        p->stuck = part_uncovered(&request, &heard, &p->a);
    }
    if (status != INLAY_OK)
        return status;
    steps = take_over(&next, p->steps, p->step_count, false, &p->a);
    if (steps == NULL)
        return no_memory(p, diag);
    for (uint32_t i = 0; i < p->step_count; i++) {
        program_step *s = &p->steps[i];

        if (s->compiled != NULL && !is_taken(steps, next.region_count, s->compiled))
            program_release_step(p->env, s);
    }
    p->parts = next;
    p->steps = steps;
    p->step_count = next.region_count;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ other programs for some shapes */

static void free_shapes(late_shapes *s)
{
    arena_deinit(&s->key.a);
    arena_deinit(&s->a);
    free(s);
}

inlay_status late_remember(program *p, const plan_input *inputs, uint32_t count, const uint8_t *late, const char *text,
                           inlay_diag *diag)
{
    late_shapes *s = calloc(1, sizeof *s), **link = &p->late;
    uint32_t kept = 0;

    if (s == NULL)
        return no_memory(p, diag);
    s->late = arena_copy(&s->a, late, (size_t)p->parts.offer_count);
    s->text = arena_string(&s->a, text);
    if (s->late == NULL || s->text == NULL || !plan_set_key(&s->key, inputs, count)) {
        free_shapes(s);
        return no_memory(p, diag);
    }
    s->next = p->late;
    __atomic_store_n(&p->late, s, __ATOMIC_RELEASE);
    for (; *link != NULL; link = &(*link)->next, kept++) {
        if (kept < SHAPES_KEPT)
            continue;
        free_shapes(*link); /* the oldest: should it come again, specialize is asked again */
        *link = NULL;
        break;
    }
    return INLAY_OK;
}

/* A program of p's graph without the offers in s. Its snapshot, its bodies and what is compiled alike are p's. */
static inlay_status make_instead(program *p, const late_shapes *s, program **out, inlay_diag *diag)
{
    program *other = calloc(1, sizeof *other);
    uint32_t held = threads_hold(p->env->max_threads);
    inlay_status status = INLAY_OK;
    partition heard;

    if (other == NULL) {
        status = no_memory(p, diag);
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
        !take_back(&p->parts, s->late, "specialize at these shapes", s->text, &other->a, &heard)) {
        status = no_memory(p, diag);
        goto done;
    }
    INLAY_TRY(assign(p, &heard, &other->a, &other->parts, diag));
    other->steps = take_over(&other->parts, p->steps, p->step_count, true, &other->a);
    other->step_count = other->steps != NULL ? other->parts.region_count : 0;
    if (other->steps == NULL) {
        status = no_memory(p, diag);
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

/* "[2,3] [7]", cut to fit. */
static void name_shapes(const plan *key, char *text, size_t bytes)
{
    const int64_t *k = key->key, *end = k + key->key_count;
    size_t used = 0;

    text[0] = '\0';
    while (k < end && used < bytes) {
        uint32_t rank = (uint32_t)*k;

        k += 2;
        used += (size_t)snprintf(text + used, bytes - used, "%s[", used > 0 ? " " : "");
        for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank && used < bytes; d++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? "," : "", (long long)*k++);
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, rank == INLAY_RANK_UNKNOWN ? "...]" : "]");
    }
}

uint32_t late_list(program *p, uint32_t most, void (*say)(void *ctx, const char *shapes, const char *text), void *ctx)
{
    uint32_t count = 0;

    (void)pthread_mutex_lock(&p->plan_lock);
    for (const late_shapes *s = p->late; s != NULL; s = s->next, count++) {
        char shapes[160];

        if (count >= most)
            continue;
        name_shapes(&s->key, shapes, sizeof shapes);
        say(ctx, shapes, s->text);
    }
    (void)pthread_mutex_unlock(&p->plan_lock);
    return count;
}

void late_forget(program *p)
{
    while (p->instead != NULL) {
        program *next = p->instead->next_instead;

        program_destroy(p->instead);
        p->instead = next;
    }
    while (p->late != NULL) {
        late_shapes *next = p->late->next;

        free_shapes(p->late);
        p->late = next;
    }
}
