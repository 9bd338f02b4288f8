/* plan/layout/hoist_copies.c - starts copies as soon as their source is ready.
 *
 * A plan is created with each copy directly before the step that reads it. An asynchronous device can start earlier:
 * copies of inputs before all steps, copies of a result directly after the step that computes it. So its copies are
 * moved there, before independent steps. Their targets live longer; copies are moved less far if memory is scarce. */
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/layout/planner.h"
#include <string.h>

/* The maximum of live memory may grow by an eighth plus ROOM_BYTES; if memory is scarce, not at all. */
enum { ROOM_BYTES = 1 << 20, SCARCE_RATIO = 16 };

/* Positions count the steps that are not moved: a copy at position p runs before the p-th such step. */
struct hoisting {
    struct planner *planner;
    uint32_t *at;   /* [step_count + 1] the position of a step; for a hoisted copy, its new position */
    uint32_t *made; /* [place_count] the first position at which the place is filled */
    uint64_t *live; /* [domain_count][positions] live bytes of the slab */
    uint64_t *most; /* [domain_count] limit of live bytes */
    uint32_t positions;
    uint32_t *anchor; /* [step_count + 1] the step itself; for a hoisted copy, the preceding step that is not moved */
    uint32_t *number; /* [step_count + 1] new index of each step */
};

static bool can_hoist(const struct planner *planner, const plan_step *step)
{
    return step->kind == PLAN_COPY &&
           (planner->prog->env->providers[step->copy_provider].table->flags & INLAY_PROVIDER_ASYNC) != 0 &&
           !(planner->prog->env->state_count > 0 && planner->plan->places[step->out[0]].source == PLACE_OUTPUT);
}

/* Returns whether the memory of the domain is known to be less than SCARCE_RATIO times `most`. */
static bool is_scarce(const program_env *env, uint32_t domain, uint64_t most)
{
    const uint32_t provider = plan_owner_of(env, domain);
    uint64_t bytes = provider != INLAY_NONE ? plan_domain(env, domain)->memory_bytes : env->runs.max_bytes;

    for (uint32_t i = 0; provider != INLAY_NONE && env->rules != NULL && i < env->rules->limit_count; i++)
        if (strcmp(env->rules->limits[i].provider, env->providers[provider].name) == 0)
            bytes = env->rules->limits[i].bytes;
    return (provider == INLAY_NONE && env->memory.held_bytes != NULL) || (bytes > 0 && bytes / SCARCE_RATIO < most);
}

static void set_available(struct hoisting *hoisting, uint32_t place, uint32_t position)
{
    hoisting->made[plan_memory_place(hoisting->planner->plan, place)] = position;
}

/* Computes the live bytes per domain and position in the current order, and their limits. */
static void count_bytes(struct hoisting *hoisting)
{
    const struct plan *plan = hoisting->planner->plan;

    for (uint32_t i = 0; i < plan->place_count; i++) {
        const plan_place *place = &plan->places[i];
        uint64_t *live = &hoisting->live[(size_t)place->memory_domain * hoisting->positions];

        if (place->source != PLACE_SLAB || place->bytes > UINT64_MAX / 2 / plan->place_count)
            continue;
        live[place->kept ? 0 : hoisting->at[place->first]] += place->bytes;
        if (!place->kept && hoisting->at[place->last] + 1 < hoisting->positions)
            live[hoisting->at[place->last] + 1] -= place->bytes; /* wraps around, and back when summed up */
    }
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        uint64_t *live = &hoisting->live[(size_t)d * hoisting->positions], most = 0;

        for (uint32_t i = 0; i < hoisting->positions; i++) {
            live[i] += i > 0 ? live[i - 1] : 0;
            most = live[i] > most ? live[i] : most;
        }
        hoisting->most[d] = most;
        if (!is_scarce(hoisting->planner->prog->env, d, most))
            hoisting->most[d] += most / 8 + ROOM_BYTES;
    }
}

/* The new position of the copy: as early as its source is ready and its target fits into memory. */
static uint32_t move_up(const struct hoisting *hoisting, const plan_step *step, uint32_t from)
{
    const struct plan *plan = hoisting->planner->plan;
    const plan_place *to = &plan->places[plan_memory_place(plan, step->out[0])];
    uint64_t *live = &hoisting->live[(size_t)to->memory_domain * hoisting->positions];
    const uint32_t first = hoisting->made[plan_memory_place(plan, step->in[0])];

    for (; from > first; from--) {
        if (to->source != PLACE_SLAB || to->kept)
            continue;
        if (live[from - 1] + to->bytes > hoisting->most[to->memory_domain])
            break;
        live[from - 1] += to->bytes;
    }
    return from;
}

/* Finds the new position of each copy. False: none moves. */
static bool find_positions(struct hoisting *hoisting)
{
    const struct plan *plan = hoisting->planner->plan;
    uint32_t position = 0;
    bool any = false;

    for (uint32_t i = 0; i < plan->step_count; i++) {
        hoisting->at[i] = position;
        position += hoisting->anchor[i] == i;
    }
    hoisting->at[plan->step_count] = position;
    count_bytes(hoisting);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];
        const uint32_t now = hoisting->at[i];

        if (hoisting->anchor[i] != i) {
            hoisting->at[i] = move_up(hoisting, step, now);
            any |= hoisting->at[i] < now;
            set_available(hoisting, step->out[0], hoisting->at[i]);
            continue;
        }
        for (uint32_t output = 0; output < (step->kind == PLAN_COPY ? 1 : step->step->region->output_count); output++)
            set_available(hoisting,
                          step->out != NULL ? step->out[output]
                                            : plan->values[step->step->region->outputs[output]].place,
                          now + 1);
    }
    return any;
}

/* Writes the steps in their new order. */
static bool reorder_steps(const struct hoisting *hoisting)
{
    struct plan *plan = hoisting->planner->plan;
    const plan_step *steps = arena_copy(hoisting->planner->scratch, plan->steps, plan->step_count * sizeof *steps);
    uint32_t *next = arena_array(hoisting->planner->scratch, (size_t)hoisting->positions + 1, sizeof *next);

    if (steps == NULL || next == NULL)
        return false;
    for (uint32_t i = 0; i < plan->step_count; i++)
        next[hoisting->at[i] + 1]++;
    for (uint32_t k = 0; k < hoisting->positions; k++)
        next[k + 1] += next[k];
    for (int pass = 0; pass < 2; pass++) /* first the copies of a position, then its step */
        for (uint32_t i = 0; i < plan->step_count; i++)
            if ((hoisting->anchor[i] == i) == (pass != 0)) {
                hoisting->number[i] = next[hoisting->at[i]]++;
                plan->steps[hoisting->number[i]] = steps[i];
            }
    hoisting->number[plan->step_count] = plan->step_count;
    INLAY_CHECK(next[hoisting->positions] == plan->step_count);
    return true;
}

static void use_at(struct plan *plan, uint32_t place, uint32_t step)
{
    plan_place *slot = &plan->places[plan_memory_place(plan, place)];

    slot->first = slot->first < step ? slot->first : step;
    slot->last = slot->last > step ? slot->last : step;
}

/* Updates the lifetimes of places to the new order. If a moved copy was the last reader of a place, the lifetime ends
 * at the preceding step that is not moved, or at the new position of the copy if that is later. */
static void renumber(const struct hoisting *hoisting)
{
    struct plan *plan = hoisting->planner->plan;

    for (uint32_t i = 0; i < plan->place_count; i++) {
        plan_place *place = &plan->places[i];

        place->first = hoisting->number[place->first];
        place->last = hoisting->anchor[place->last] != INLAY_NONE ? hoisting->number[hoisting->anchor[place->last]] : 0;
        place->last = place->last > place->first ? place->last : place->first;
    }
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == PLAN_COPY) {
            use_at(plan, plan->steps[i].in[0], i);
            use_at(plan, plan->steps[i].out[0], i);
        }
}

inlay_status planner_hoist_copies(struct planner *planner)
{
    struct plan *plan = planner->plan;
    struct hoisting hoisting = { .planner = planner, .positions = 1 };
    const size_t steps = (size_t)plan->step_count + 1;
    uint32_t group = 0;

    hoisting.at = arena_array(planner->scratch, steps, sizeof *hoisting.at);
    hoisting.number = arena_array(planner->scratch, steps, sizeof *hoisting.number);
    hoisting.anchor = arena_array(planner->scratch, steps, sizeof *hoisting.anchor);
    if (hoisting.at == NULL || hoisting.number == NULL || hoisting.anchor == NULL)
        return planner_no_memory(planner);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const bool hoisted = can_hoist(planner, &plan->steps[i]);

        plan->steps[i].group = group;
        group += plan->steps[i].kind != PLAN_COPY;
        hoisting.anchor[i] = !hoisted ? i : i > 0 ? hoisting.anchor[i - 1] : INLAY_NONE;
        hoisting.positions += !hoisted;
    }
    if (hoisting.positions == steps)
        return INLAY_OK;
    hoisting.anchor[plan->step_count] = plan->step_count;
    hoisting.made = arena_array(planner->scratch, (size_t)plan->place_count + 1, sizeof *hoisting.made);
    hoisting.live =
        arena_array(planner->scratch, (size_t)plan->domain_count * hoisting.positions, sizeof *hoisting.live);
    hoisting.most = arena_array(planner->scratch, plan->domain_count, sizeof *hoisting.most);
    if (hoisting.made == NULL || hoisting.live == NULL || hoisting.most == NULL)
        return planner_no_memory(planner);
    if (!find_positions(&hoisting))
        return INLAY_OK;
    if (!reorder_steps(&hoisting))
        return planner_no_memory(planner);
    renumber(&hoisting);
    return INLAY_OK;
}
