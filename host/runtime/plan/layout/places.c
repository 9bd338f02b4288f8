#include "base/memory.h"
#include "plan/layout/memory.h"
#include "plan/layout/planner.h"
#include <string.h>

inlay_status planner_no_memory(struct planner *b)
{
    return no_memory(b->diag, "to plan graph '%s'", b->prog->graph->name);
}

uint32_t planner_place(struct planner *b, plan_place place)
{
    struct plan *p = b->p;

    if (p->place_count == p->place_capacity) {
        uint32_t capacity = p->place_capacity == 0 ? b->prog->planning.place_hint + 64 : p->place_capacity * 2;
        plan_place *places = arena_grown(&p->a, p->places, p->place_count, capacity, sizeof *places);

        if (places == NULL)
            return INLAY_NONE;
        p->places = places;
        p->place_capacity = capacity;
    }
    place.lies_in = place.domain;
    p->places[p->place_count] = place;
    return p->place_count++;
}

plan_step *planner_step(struct planner *b, uint32_t kind, const program_step *s)
{
    struct plan *p = b->p;
    plan_step *step;

    if (p->step_count == p->step_capacity) {
        uint32_t capacity = p->step_capacity == 0 ? b->prog->planning.step_hint + 16 : p->step_capacity * 2;
        plan_step *steps = arena_grown(&p->a, p->steps, p->step_count, capacity, sizeof *steps);

        if (steps == NULL)
            return NULL;
        p->steps = steps;
        p->step_capacity = capacity;
    }
    step = &p->steps[p->step_count++];
    *step = (plan_step){ .kind = kind, .step = s, .workspace = INLAY_NONE, .copy_provider = INLAY_NONE };
    return step;
}

void planner_touch(struct planner *b, uint32_t place)
{
    b->p->places[place].last = b->p->step_count; /* the step being made */
    b->p->places[plan_bytes_of(b->p, place)].last = b->p->step_count;
}

uint32_t planner_data_place(struct planner *b, const void *data, uint64_t bytes)
{
    return planner_place(
        b, (plan_place){ .source = PLACE_DATA, .domain = INLAY_DOMAIN_HOST, .data = data, .bytes = bytes });
}

uint32_t plan_owner_of(const program_env *env, uint32_t domain)
{
    for (uint32_t i = 0; domain != INLAY_DOMAIN_HOST && i < env->provider_count; i++)
        if (domain - env->providers[i].first_domain < env->providers[i].table->domain_count)
            return i;
    return INLAY_NONE;
}

const inlay_domain_info *plan_domain(const program_env *env, uint32_t domain)
{
    const uint32_t i = plan_owner_of(env, domain);
    const part_provider *p = i != INLAY_NONE ? &env->providers[i] : NULL;

    return p == NULL
               ? NULL
               : INLAY_AT(inlay_domain_info, p->table->domains, p->table->domain_stride, domain - p->first_domain);
}

bool plan_is_unified(const program_env *env, uint32_t domain)
{
    const uint32_t flags = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;
    const inlay_domain_info *d = plan_domain(env, domain);

    return d != NULL && (d->flags & flags) == flags;
}

/* Does the domain know the memory of this input or output? */
static bool knows_port(const struct planner *b, const plan_place *pl, uint32_t domain)
{
    if (pl->source == PLACE_INPUT)
        return b->inputs[pl->index].also == domain + 1;
    return pl->source == PLACE_OUTPUT && b->wanted != NULL && b->wanted[pl->index].also == domain + 1;
}

/* The place as the other of host and device sees it, without a copy; INLAY_NONE: there is no such view. */
static uint32_t view_of(struct planner *b, uint32_t v, uint32_t from, uint32_t domain)
{
    plan_place *pl = &b->p->places[from];
    const uint32_t device = domain != INLAY_DOMAIN_HOST ? domain : pl->domain;
    const bool leaves = b->output_of[v] != INLAY_NONE && domain == planner_wanted(b, b->output_of[v]);

    if (knows_port(b, pl, domain) && b->infos[v].dtype != INLAY_STRING) {
        b->p->port_views++;
        return planner_place(b, (plan_place){ .source = PLACE_VIEW,
                                              .domain = domain,
                                              .index = from,
                                              .bytes = pl->bytes,
                                              .first = b->p->step_count,
                                              .last = b->p->step_count });
    }
    if (pl->source != PLACE_SLAB || pl->kept || leaves || b->infos[v].dtype == INLAY_STRING ||
        (domain != INLAY_DOMAIN_HOST && pl->domain != INLAY_DOMAIN_HOST) ||
        (pl->lies_in != INLAY_DOMAIN_HOST && pl->lies_in != device) || !plan_is_unified(b->prog->env, device))
        return INLAY_NONE;
    pl->lies_in = device;
    pl->viewed = true;
    return planner_place(b, (plan_place){ .source = PLACE_VIEW,
                                          .domain = domain,
                                          .index = from,
                                          .bytes = pl->bytes,
                                          .first = b->p->step_count,
                                          .last = b->p->step_count,
                                          .last_use = pl->last_use });
}

void planner_lend(struct planner *b, uint32_t place, uint32_t domain)
{
    plan_place *pl = &b->p->places[place];

    if (pl->source != PLACE_SLAB || pl->kept || pl->domain != INLAY_DOMAIN_HOST || pl->lies_in != INLAY_DOMAIN_HOST ||
        !plan_is_unified(b->prog->env, domain))
        return;
    pl->lies_in = domain;
    pl->viewed = true;
}

uint32_t planner_wanted(const struct planner *b, uint32_t k)
{
    return b->wanted != NULL ? b->wanted[k].domain : (uint32_t)INLAY_DOMAIN_HOST;
}

uint32_t planner_place_in(struct planner *b, uint32_t v, uint32_t domain)
{
    struct plan *p = b->p;
    uint32_t from = p->values[v].place, *known = &b->copies[(size_t)v * p->domain_count + domain], to, mover;
    plan_step *step;
    uint32_t *ends;

    if (p->places[from].domain == domain)
        return from;
    if (*known != INLAY_NONE)
        return *known;
    *known = view_of(b, v, from, domain);
    if (*known != INLAY_NONE)
        return *known;
    mover = plan_owner_of(b->prog->env, domain != INLAY_DOMAIN_HOST ? domain : p->places[from].domain);
    if (domain != INLAY_DOMAIN_HOST && p->places[from].domain != INLAY_DOMAIN_HOST &&
        mover != plan_owner_of(b->prog->env, p->places[from].domain)) {
        from = planner_place_in(b, v, INLAY_DOMAIN_HOST);
        if (from == INLAY_NONE)
            return INLAY_NONE;
    }
    to = planner_place(b, (plan_place){ .source = PLACE_SLAB,
                                        .domain = domain,
                                        .bytes = p->places[from].bytes,
                                        .first = p->step_count,
                                        .last = p->step_count,
                                        .last_use = b->prog->uses.last[v] });
    if (to != INLAY_NONE && b->output_of[v] != INLAY_NONE && domain == planner_wanted(b, b->output_of[v])) {
        p->places[to].source = PLACE_OUTPUT;
        p->places[to].index = b->output_of[v];
    }
    ends = arena_array(&p->a, 2, sizeof *ends);
    if (to == INLAY_NONE || ends == NULL)
        return INLAY_NONE;
    p->places[to].kept =
        p->places[to].source == PLACE_SLAB &&
        (p->places[from].source == PLACE_DATA ||
         (p->places[from].source == PLACE_INPUT && p->places[from].index >= b->prog->graph->input_count));
    planner_touch(b, from);
    step = planner_step(b, PLAN_COPY, NULL);
    if (step == NULL)
        return INLAY_NONE;
    ends[0] = from;
    ends[1] = to;
    step->in = &ends[0];
    step->out = &ends[1];
    step->copy_provider = mover;
    step->copy_value = v;
    step->kept = p->places[to].kept;
    step->copy_bytes = p->places[from].bytes;
    *known = to;
    return to;
}

uint32_t planner_output_place(struct planner *b, uint32_t v, uint32_t domain, inlay_dtype dtype)
{
    size_t bytes = 0;
    plan_place place = { .source = PLACE_SLAB,
                         .domain = domain,
                         .first = b->p->step_count,
                         .last = b->p->step_count,
                         .last_use = b->prog->uses.last[v] };

    if (place.last_use == INLAY_NONE)
        place.last_use = 0; /* nobody reads it */
    if (!plan_info_bytes_as(&b->infos[v], dtype, &bytes))
        return INLAY_NONE;
    place.bytes = bytes;
    if (b->output_of[v] != INLAY_NONE && domain == planner_wanted(b, b->output_of[v]) &&
        b->infos[v].dtype != INLAY_STRING) {
        place.source = PLACE_OUTPUT;
        place.index = b->output_of[v];
    }
    return planner_place(b, place);
}

uint32_t planner_dynamic_place(struct planner *b, uint32_t v)
{
    return planner_place(b, (plan_place){ .source = PLACE_DYNAMIC, .index = v });
}

void planner_share_place(struct planner *b, uint32_t v, uint32_t place)
{
    plan_place *pl = &b->p->places[place];
    uint32_t last = b->prog->uses.last[v];
    size_t bytes;

    b->p->values[v].place = place;
    if (last != INLAY_NONE && last > pl->last_use)
        pl->last_use = last;
    if (pl->source == PLACE_SLAB && !pl->viewed && b->output_of[v] != INLAY_NONE &&
        pl->domain == planner_wanted(b, b->output_of[v]) && b->infos[v].dtype != INLAY_STRING &&
        plan_info_bytes(&b->infos[v], &bytes) && bytes == pl->bytes) {
        pl->source = PLACE_OUTPUT;
        pl->index = b->output_of[v];
    }
}

/* ------------------------------------------------------------------ the slab */

uint64_t plan_alignment(const program_env *env, uint32_t domain)
{
    const inlay_domain_info *d = plan_domain(env, domain);
    uint64_t alignment = 64;

    while (d != NULL && alignment < d->alignment)
        alignment *= 2;
    return alignment;
}

inlay_status planner_keep_outputs(struct planner *b)
{
    const struct graph *g = b->prog->graph;

    for (uint32_t k = 0; k < g->output_count; k++) {
        uint32_t v = g->outputs[k], place = v == INLAY_NONE ? INLAY_NONE : b->p->values[v].place;

        if (place == INLAY_NONE)
            continue;
        /* What is sized in the run is made at home, and stays there. */
        place = planner_place_in(
            b, v, b->p->places[place].source == PLACE_DYNAMIC ? (uint32_t)INLAY_DOMAIN_HOST : planner_wanted(b, k));
        if (place == INLAY_NONE)
            return planner_no_memory(b);
        b->p->values[v].place = place;
    }
    for (uint32_t k = 0; k < g->output_count; k++)
        if (g->outputs[k] != INLAY_NONE && b->p->values[g->outputs[k]].place != INLAY_NONE)
            planner_touch(b, b->p->values[g->outputs[k]].place);
    return INLAY_OK;
}

static inlay_status too_large(struct planner *b, uint64_t bytes)
{
    return inlay_fail(
        b->diag, INLAY_LIMIT_EXCEEDED,
        "graph '%s' needs %llu bytes to run, above the limit of %llu; raise max_run_bytes if that is meant",
        b->prog->graph->name, (unsigned long long)bytes, (unsigned long long)b->prog->env->max_run_bytes);
}

inlay_status planner_lay_out(struct planner *b)
{
    struct plan *p = b->p;
    memory_item *items = arena_array(b->scratch, (size_t)p->place_count + 1, sizeof *items);
    uint32_t *index = arena_array(b->scratch, (size_t)p->place_count + 1, sizeof *index);

    if (items == NULL || index == NULL)
        return planner_no_memory(b);
    for (uint32_t domain = 0; domain < p->domain_count; domain++) {
        uint32_t count = 0;
        uint64_t bound = 0, total = 0;

        for (uint32_t i = 0; i < p->place_count; i++) {
            const plan_place *pl = &p->places[i];
            if (pl->source != PLACE_SLAB || pl->lies_in != domain)
                continue;
            /* Offsets are sums of sizes, which come from the model. */
            if (__builtin_add_overflow(total, pl->bytes, &total) || total > UINT64_MAX / 2)
                return too_large(b, pl->bytes);
            items[count] = (memory_item){ .bytes = pl->bytes, .first = pl->first, .last = pl->last };
            if (pl->kept) {
                items[count].first = 0;
                items[count].last = p->step_count;
            }
            index[count++] = i;
        }
        if (!memory_place(items, count, p->step_count, plan_alignment(b->prog->env, domain), b->scratch,
                          &p->slab_bytes[domain], &bound))
            return planner_no_memory(b);
        if (domain == INLAY_DOMAIN_HOST && p->slab_bytes[domain] > b->prog->env->max_run_bytes)
            return too_large(b, p->slab_bytes[domain]);
        p->lower_bound_bytes += bound;
        for (uint32_t i = 0; i < count; i++)
            p->places[index[i]].offset = items[i].offset;
    }
    return INLAY_OK;
}
