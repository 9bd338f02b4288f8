#include "base/device_link.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/cost/cost.h"
#include "plan/layout/memory.h"
#include "plan/layout/planner.h"

inlay_status planner_no_memory(struct planner *planner)
{
    return no_memory(planner->diag, "to plan graph '%s'", planner->prog->graph->name);
}

uint32_t planner_add_place(struct planner *planner, plan_place place)
{
    struct plan *plan = planner->plan;

    if (plan->place_count == plan->place_capacity) {
        uint32_t capacity =
            plan->place_capacity == 0 ? planner->prog->planning.place_hint + 64 : plan->place_capacity * 2;
        plan_place *places = arena_grown(&plan->arena, plan->places, plan->place_count, capacity, sizeof *places);

        if (places == NULL)
            return INLAY_NONE;
        plan->places = places;
        plan->place_capacity = capacity;
    }
    place.memory_domain = place.domain;
    plan->places[plan->place_count] = place;
    return plan->place_count++;
}

plan_step *planner_add_step(struct planner *planner, uint32_t kind, const program_step *prog_step)
{
    struct plan *plan = planner->plan;
    plan_step *step;

    if (plan->step_count == plan->step_capacity) {
        uint32_t capacity = plan->step_capacity == 0 ? planner->prog->planning.step_hint + 16 : plan->step_capacity * 2;
        plan_step *steps = arena_grown(&plan->arena, plan->steps, plan->step_count, capacity, sizeof *steps);

        if (steps == NULL)
            return NULL;
        plan->steps = steps;
        plan->step_capacity = capacity;
    }
    step = &plan->steps[plan->step_count++];
    *step = (plan_step){ .kind = kind, .step = prog_step, .workspace = INLAY_NONE, .copy_provider = INLAY_NONE };
    return step;
}

void planner_extend_lifetime(struct planner *planner, uint32_t place)
{
    INLAY_CHECK(place < planner->plan->place_count);
    planner->plan->places[place].last = planner->plan->step_count; /* the current step */
    planner->plan->places[plan_memory_place(planner->plan, place)].last = planner->plan->step_count;
}

uint32_t planner_add_data_place(struct planner *planner, const void *data, uint64_t bytes)
{
    return planner_add_place(
        planner, (plan_place){ .source = PLACE_DATA, .domain = INLAY_DOMAIN_HOST, .data = data, .bytes = bytes });
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
    const partition_provider *provider = i != INLAY_NONE ? &env->providers[i] : NULL;

    return provider == NULL ? NULL
                            : INLAY_AT(inlay_domain_info, provider->table->domains, provider->table->domain_stride,
                                       domain - provider->first_domain);
}

bool plan_is_unified(const program_env *env, uint32_t domain)
{
    const uint32_t flags = INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT;
    const inlay_domain_info *info = plan_domain(env, domain);

    return info != NULL && (info->flags & flags) == flags;
}

/* Returns whether the memory of this input or output is accessible in the domain. */
static bool port_is_accessible(const struct planner *planner, const plan_place *place, uint32_t domain)
{
    if (place->source == PLACE_INPUT)
        return planner->inputs[place->index].also == domain + 1;
    return place->source == PLACE_OUTPUT && planner->wanted != NULL && planner->wanted[place->index].also == domain + 1;
}

static uint32_t add_view(struct planner *planner, uint32_t place, uint32_t domain)
{
    const plan_place *viewed = &planner->plan->places[place];

    return planner_add_place(planner, (plan_place){ .source = PLACE_VIEW,
                                                    .domain = domain,
                                                    .index = place,
                                                    .bytes = viewed->bytes,
                                                    .first = planner->plan->step_count,
                                                    .last = planner->plan->step_count,
                                                    .last_use = viewed->last_use });
}

/* The link from the place to a domain of another device. Only memory that the plan allocates has one. */
static uint32_t link_of(const struct planner *planner, const plan_place *place, uint32_t domain)
{
    const program_env *env = planner->prog->env;

    return place->source != PLACE_SLAB || place->kept || place->memory_domain == INLAY_DOMAIN_HOST ||
                   domain == INLAY_DOMAIN_HOST
               ? (uint32_t)LINK_HOST
               : cost_link(env->providers, env->provider_count, place->memory_domain, domain);
}

/* Creates a view of the place in `domain`, without a copy, if host and device, or two devices, share its memory;
 * INLAY_NONE: not possible. */
static uint32_t view_of(struct planner *planner, uint32_t value, uint32_t from, uint32_t domain)
{
    plan_place *place = &planner->plan->places[from];
    const uint32_t device = domain != INLAY_DOMAIN_HOST ? domain : place->domain;
    const bool leaves =
        planner->output_of[value] != INLAY_NONE && domain == planner_output_domain(planner, planner->output_of[value]);

    if (planner->infos[value].dtype == INLAY_STRING)
        return INLAY_NONE;
    if (port_is_accessible(planner, place, domain)) {
        planner->plan->port_views++;
        return add_view(planner, from, domain);
    }
    if (leaves || place->source != PLACE_SLAB || place->kept)
        return INLAY_NONE;
    if (link_of(planner, place, domain) == LINK_IMPORT) {
        place->viewed = true;
        return add_view(planner, from, domain);
    }
    if ((domain != INLAY_DOMAIN_HOST && place->domain != INLAY_DOMAIN_HOST) ||
        (place->memory_domain != INLAY_DOMAIN_HOST && place->memory_domain != device) ||
        !plan_is_unified(planner->prog->env, device))
        return INLAY_NONE;
    place->memory_domain = device;
    place->viewed = true;
    return add_view(planner, from, domain);
}

void planner_share_with_device(struct planner *planner, uint32_t place, uint32_t domain)
{
    plan_place *slot = &planner->plan->places[place];

    if (slot->source != PLACE_SLAB || slot->kept || slot->domain != INLAY_DOMAIN_HOST ||
        slot->memory_domain != INLAY_DOMAIN_HOST || !plan_is_unified(planner->prog->env, domain))
        return;
    slot->memory_domain = domain;
    slot->viewed = true;
}

uint32_t planner_output_domain(const struct planner *planner, uint32_t k)
{
    return planner->wanted != NULL ? planner->wanted[k].domain : (uint32_t)INLAY_DOMAIN_HOST;
}

/* Returns whether the device of `from` copies the value into the memory of the device of `to`, because it imports that
 * memory. The target must be memory that the plan allocates. */
static bool can_push(const struct planner *planner, uint32_t value, uint32_t from, uint32_t to)
{
    const program_env *env = planner->prog->env;
    const uint32_t output = planner->output_of[value];

    return (output == INLAY_NONE || to != planner_output_domain(planner, output)) &&
           cost_link(env->providers, env->provider_count, to, from) == LINK_IMPORT;
}

/* The place from which the device of `domain` can copy a value of another device: the memory itself, if the device
 * imports it, otherwise a copy in host memory. INLAY_NONE: out of memory. */
static uint32_t readable_place(struct planner *planner, uint32_t value, uint32_t domain)
{
    const uint32_t from = planner->plan->values[value].place;

    if (link_of(planner, &planner->plan->places[from], domain) != LINK_IMPORT)
        return planner_place_in(planner, value, INLAY_DOMAIN_HOST);
    planner->plan->places[from].viewed = true;
    return add_view(planner, from, domain);
}

uint32_t planner_place_in(struct planner *planner, uint32_t value, uint32_t domain)
{
    struct plan *plan = planner->plan;
    uint32_t from = plan->values[value].place, *known = &planner->copies[(size_t)value * plan->domain_count + domain],
             to, target, mover;
    plan_step *step;
    uint32_t *ends;
    bool pushes = false;

    INLAY_CHECK(from != INLAY_NONE && domain < plan->domain_count);
    if (plan->places[from].domain == domain)
        return from;
    if (*known != INLAY_NONE)
        return *known;
    *known = view_of(planner, value, from, domain);
    if (*known != INLAY_NONE)
        return *known;
    mover = plan_owner_of(planner->prog->env, domain != INLAY_DOMAIN_HOST ? domain : plan->places[from].domain);
    if (domain != INLAY_DOMAIN_HOST && plan->places[from].domain != INLAY_DOMAIN_HOST &&
        mover != plan_owner_of(planner->prog->env, plan->places[from].domain)) {
        pushes = can_push(planner, value, plan->places[from].domain, domain);
        if (pushes)
            mover = plan_owner_of(planner->prog->env, plan->places[from].domain);
        else
            from = readable_place(planner, value, domain);
        if (from == INLAY_NONE)
            return INLAY_NONE;
    }
    to = planner_add_place(planner, (plan_place){ .source = PLACE_SLAB,
                                                  .domain = domain,
                                                  .bytes = plan->places[from].bytes,
                                                  .first = plan->step_count,
                                                  .last = plan->step_count,
                                                  .last_use = planner->prog->uses.last[value] });
    if (to != INLAY_NONE && planner->output_of[value] != INLAY_NONE &&
        domain == planner_output_domain(planner, planner->output_of[value])) {
        plan->places[to].source = PLACE_OUTPUT;
        plan->places[to].index = planner->output_of[value];
    }
    ends = arena_array(&plan->arena, 2, sizeof *ends);
    if (to == INLAY_NONE || ends == NULL)
        return INLAY_NONE;
    plan->places[to].viewed |= pushes;
    target = pushes ? add_view(planner, to, plan->places[from].domain) : to;
    if (target == INLAY_NONE)
        return INLAY_NONE;
    plan->places[to].kept =
        plan->places[to].source == PLACE_SLAB &&
        (plan->places[from].source == PLACE_DATA ||
         (plan->places[from].source == PLACE_INPUT && plan->places[from].index >= planner->prog->graph->input_count));
    planner_extend_lifetime(planner, from);
    step = planner_add_step(planner, PLAN_COPY, NULL);
    if (step == NULL)
        return INLAY_NONE;
    ends[0] = from;
    ends[1] = target;
    step->in = &ends[0];
    step->out = &ends[1];
    step->copy_provider = mover;
    step->copy_value = value;
    step->kept = plan->places[to].kept;
    step->copy_bytes = plan->places[from].bytes;
    *known = to;
    return to;
}

uint32_t planner_add_output_place(struct planner *planner, uint32_t value, uint32_t domain, inlay_dtype dtype)
{
    size_t bytes = 0;
    plan_place place = { .source = PLACE_SLAB,
                         .domain = domain,
                         .first = planner->plan->step_count,
                         .last = planner->plan->step_count,
                         .last_use = planner->prog->uses.last[value] };

    if (place.last_use == INLAY_NONE)
        place.last_use = 0; /* no step reads it */
    if (!plan_info_bytes_as(&planner->infos[value], dtype, &bytes))
        return INLAY_NONE;
    place.bytes = bytes;
    if (planner->output_of[value] != INLAY_NONE &&
        domain == planner_output_domain(planner, planner->output_of[value]) &&
        planner->infos[value].dtype != INLAY_STRING) {
        place.source = PLACE_OUTPUT;
        place.index = planner->output_of[value];
    }
    return planner_add_place(planner, place);
}

uint32_t planner_add_dynamic_place(struct planner *planner, uint32_t value)
{
    return planner_add_place(planner, (plan_place){ .source = PLACE_DYNAMIC, .index = value });
}

void planner_share_place(struct planner *planner, uint32_t value, uint32_t place)
{
    plan_place *slot = &planner->plan->places[place];
    uint32_t last = planner->prog->uses.last[value];
    size_t bytes;

    INLAY_CHECK(place < planner->plan->place_count);
    planner->plan->values[value].place = place;
    if (last != INLAY_NONE && last > slot->last_use)
        slot->last_use = last;
    if (slot->source == PLACE_SLAB && !slot->viewed && planner->output_of[value] != INLAY_NONE &&
        slot->domain == planner_output_domain(planner, planner->output_of[value]) &&
        planner->infos[value].dtype != INLAY_STRING && plan_info_bytes(&planner->infos[value], &bytes) &&
        bytes == slot->bytes) {
        slot->source = PLACE_OUTPUT;
        slot->index = planner->output_of[value];
    }
}

uint64_t plan_alignment(const program_env *env, uint32_t domain)
{
    const inlay_domain_info *info = plan_domain(env, domain);
    uint64_t alignment = 64;

    while (info != NULL && alignment < info->alignment)
        alignment *= 2;
    return alignment;
}

inlay_status planner_place_outputs(struct planner *planner)
{
    const struct graph *graph = planner->prog->graph;

    for (uint32_t k = 0; k < graph->output_count; k++) {
        uint32_t value = graph->outputs[k],
                 place = value == INLAY_NONE ? INLAY_NONE : planner->plan->values[value].place;

        if (place == INLAY_NONE)
            continue;
        /* Values whose size is known only at run time are in host memory. */
        place =
            planner_place_in(planner, value,
                             planner->plan->places[place].source == PLACE_DYNAMIC ? (uint32_t)INLAY_DOMAIN_HOST
                                                                                  : planner_output_domain(planner, k));
        if (place == INLAY_NONE)
            return planner_no_memory(planner);
        planner->plan->values[value].place = place;
    }
    for (uint32_t k = 0; k < graph->output_count; k++)
        if (graph->outputs[k] != INLAY_NONE && planner->plan->values[graph->outputs[k]].place != INLAY_NONE)
            planner_extend_lifetime(planner, planner->plan->values[graph->outputs[k]].place);
    return INLAY_OK;
}

static inlay_status fail_too_large(struct planner *planner, uint64_t bytes)
{
    return inlay_fail(
        planner->diag, INLAY_LIMIT_EXCEEDED,
        "graph '%s' needs %llu bytes to run, above the limit of %llu; raise max_run_bytes if that is meant",
        planner->prog->graph->name, (unsigned long long)bytes, (unsigned long long)planner->prog->env->runs.max_bytes);
}

/* The alignment of places in the slab of the domain, which other devices may import. */
static uint64_t slab_alignment(const struct planner *planner, uint32_t domain)
{
    const struct plan *plan = planner->plan;
    uint64_t alignment = plan_alignment(planner->prog->env, domain);

    for (uint32_t i = 0; i < plan->place_count; i++) {
        const uint64_t of_view =
            plan->places[i].source == PLACE_VIEW && plan->places[plan->places[i].index].memory_domain == domain
                ? plan_alignment(planner->prog->env, plan->places[i].domain)
                : 0;
        alignment = of_view > alignment ? of_view : alignment;
    }
    return alignment;
}

inlay_status planner_assign_offsets(struct planner *planner)
{
    struct plan *plan = planner->plan;
    memory_item *items = arena_array(planner->scratch, (size_t)plan->place_count + 1, sizeof *items);
    uint32_t *index = arena_array(planner->scratch, (size_t)plan->place_count + 1, sizeof *index);

    if (items == NULL || index == NULL)
        return planner_no_memory(planner);
    for (uint32_t domain = 0; domain < plan->domain_count; domain++) {
        uint32_t count = 0;
        uint64_t bound = 0, total = 0;

        for (uint32_t i = 0; i < plan->place_count; i++) {
            const plan_place *place = &plan->places[i];
            if (place->source != PLACE_SLAB || place->memory_domain != domain)
                continue;
            /* Offsets are sums of sizes, which come from the model. */
            if (__builtin_add_overflow(total, place->bytes, &total) || total > UINT64_MAX / 2)
                return fail_too_large(planner, place->bytes);
            items[count] = (memory_item){ .bytes = place->bytes, .first = place->first, .last = place->last };
            if (place->kept) {
                items[count].first = 0;
                items[count].last = plan->step_count;
            }
            index[count++] = i;
        }
        if (!memory_place(items, count, plan->step_count, slab_alignment(planner, domain), planner->scratch,
                          &plan->slab_bytes[domain], &bound))
            return planner_no_memory(planner);
        if (domain == INLAY_DOMAIN_HOST && plan->slab_bytes[domain] > planner->prog->env->runs.max_bytes)
            return fail_too_large(planner, plan->slab_bytes[domain]);
        plan->lower_bound_bytes += bound;
        for (uint32_t i = 0; i < count; i++)
            plan->places[index[i]].offset = items[i].offset;
    }
    return INLAY_OK;
}
