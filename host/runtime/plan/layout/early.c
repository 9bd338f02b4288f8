/* plan/layout/early.c - copies begin as soon as what they move is there.
 *
 * A plan is made with each copy just before the step that reads it. A device that works behind the host's back can
 * begin sooner: with what the caller brings before anything else, with what a step makes right behind that step. So its
 * copies move up to there, past steps that don't care. What they fill lives longer for it; they stay further down where
 * that would take memory that is short. */
#include "plan/layout/planner.h"
#include <string.h>

/* How much the most that lives at once may grow: by an eighth and a little; where memory is short, not at all. */
enum { ROOM_BYTES = 1 << 20, SHORT = 16 };

/* Positions are numbers among the steps that stay: a copy at position p is made before the p-th of them. */
struct mover {
    struct planner *planner;
    uint32_t *at;   /* [step_count + 1] the position of a step; of a copy that moves, where it goes */
    uint32_t *made; /* [place_count] the first position at which the place is filled */
    uint64_t *live; /* [domain_count][positions] bytes of the slab in use */
    uint64_t *most; /* [domain_count] that may be */
    uint32_t positions;
    uint32_t *staying; /* [step_count + 1] the step itself; for a copy that moves, the one before that does not */
    uint32_t *number;  /* [step_count + 1] of each step in the new order */
};

static bool moves(const struct planner *planner, const plan_step *step)
{
    return step->kind == PLAN_COPY &&
           (planner->prog->env->providers[step->copy_provider].table->flags & INLAY_PROVIDER_ASYNC) != 0 &&
           !(planner->prog->env->state_count > 0 && planner->plan->places[step->out[0]].source == PLACE_OUTPUT);
}

/* Are there, as far as is known, less than SHORT times that many bytes in the domain? */
static bool is_short(const program_env *env, uint32_t domain, uint64_t most)
{
    const uint32_t provider = plan_owner_of(env, domain);
    uint64_t bytes = provider != INLAY_NONE ? plan_domain(env, domain)->memory_bytes : env->max_run_bytes;

    for (uint32_t i = 0; provider != INLAY_NONE && env->rules != NULL && i < env->rules->limit_count; i++)
        if (strcmp(env->rules->limits[i].provider, env->providers[provider].name) == 0)
            bytes = env->rules->limits[i].bytes;
    return (provider == INLAY_NONE && env->held_bytes != NULL) || (bytes > 0 && bytes / SHORT < most);
}

static void fills(struct mover *mover, uint32_t place, uint32_t position)
{
    mover->made[plan_bytes_of(mover->planner->plan, place)] = position;
}

/* What lives where as the plan is, and how much may. */
static void count_bytes(struct mover *mover)
{
    const struct plan *plan = mover->planner->plan;

    for (uint32_t i = 0; i < plan->place_count; i++) {
        const plan_place *pl = &plan->places[i];
        uint64_t *live = &mover->live[(size_t)pl->lies_in * mover->positions];

        if (pl->source != PLACE_SLAB || pl->bytes > UINT64_MAX / 2 / plan->place_count)
            continue;
        live[pl->kept ? 0 : mover->at[pl->first]] += pl->bytes;
        if (!pl->kept && mover->at[pl->last] + 1 < mover->positions)
            live[mover->at[pl->last] + 1] -= pl->bytes; /* wraps, and back when summed */
    }
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        uint64_t *live = &mover->live[(size_t)d * mover->positions], most = 0;

        for (uint32_t i = 0; i < mover->positions; i++) {
            live[i] += i > 0 ? live[i - 1] : 0;
            most = live[i] > most ? live[i] : most;
        }
        mover->most[d] = most;
        if (!is_short(mover->planner->prog->env, d, most))
            mover->most[d] += most / 8 + ROOM_BYTES;
    }
}

/* The position that the copy goes to: as far up as its source is there, and its target has room. */
static uint32_t move_up(const struct mover *mover, const plan_step *step, uint32_t from)
{
    const plan_place *to = &mover->planner->plan->places[step->out[0]];
    uint64_t *live = &mover->live[(size_t)to->lies_in * mover->positions];
    const uint32_t first = mover->made[plan_bytes_of(mover->planner->plan, step->in[0])];

    for (; from > first; from--) {
        if (to->source != PLACE_SLAB || to->kept)
            continue;
        if (live[from - 1] + to->bytes > mover->most[to->lies_in])
            break;
        live[from - 1] += to->bytes;
    }
    return from;
}

/* Finds where each copy goes; false: all stay. */
static bool find_positions(struct mover *mover)
{
    const struct plan *plan = mover->planner->plan;
    uint32_t position = 0;
    bool any = false;

    for (uint32_t i = 0; i < plan->step_count; i++) {
        mover->at[i] = position;
        position += mover->staying[i] == i;
    }
    mover->at[plan->step_count] = position;
    count_bytes(mover);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const plan_step *step = &plan->steps[i];
        const uint32_t now = mover->at[i];

        if (mover->staying[i] != i) {
            mover->at[i] = move_up(mover, step, now);
            any |= mover->at[i] < now;
            fills(mover, step->out[0], mover->at[i]);
            continue;
        }
        for (uint32_t output = 0; output < (step->kind == PLAN_COPY ? 1 : step->step->region->output_count); output++)
            fills(mover,
                  step->out != NULL ? step->out[output] : plan->values[step->step->region->outputs[output]].place,
                  now + 1);
    }
    return any;
}

/* The steps in their new order. */
static bool put_in_order(const struct mover *mover)
{
    struct plan *plan = mover->planner->plan;
    const plan_step *steps = arena_copy(mover->planner->scratch, plan->steps, plan->step_count * sizeof *steps);
    uint32_t *next = arena_array(mover->planner->scratch, (size_t)mover->positions + 1, sizeof *next);

    if (steps == NULL || next == NULL)
        return false;
    for (uint32_t i = 0; i < plan->step_count; i++)
        next[mover->at[i] + 1]++;
    for (uint32_t k = 0; k < mover->positions; k++)
        next[k + 1] += next[k];
    for (int stays = 0; stays < 2; stays++) /* the copies of a position, then the step that has it */
        for (uint32_t i = 0; i < plan->step_count; i++)
            if ((mover->staying[i] == i) == (stays != 0)) {
                mover->number[i] = next[mover->at[i]]++;
                plan->steps[mover->number[i]] = steps[i];
            }
    mover->number[plan->step_count] = plan->step_count;
    return true;
}

static void use_at(struct plan *plan, uint32_t place, uint32_t step)
{
    plan_place *pl = &plan->places[plan_bytes_of(plan, place)];

    pl->first = pl->first < step ? pl->first : step;
    pl->last = pl->last > step ? pl->last : step;
}

/* The lives of places in the new order. What a copy was the last to read lives as long as it did. */
static void renumber(const struct mover *mover)
{
    struct plan *plan = mover->planner->plan;

    for (uint32_t i = 0; i < plan->place_count; i++) {
        plan_place *pl = &plan->places[i];

        pl->first = mover->number[pl->first];
        pl->last = mover->staying[pl->last] != INLAY_NONE ? mover->number[mover->staying[pl->last]] : 0;
        pl->last = pl->last > pl->first ? pl->last : pl->first;
    }
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == PLAN_COPY) {
            use_at(plan, plan->steps[i].in[0], i);
            use_at(plan, plan->steps[i].out[0], i);
        }
}

inlay_status planner_begin_early(struct planner *planner)
{
    struct plan *plan = planner->plan;
    struct mover mover = { .planner = planner, .positions = 1 };
    const size_t steps = (size_t)plan->step_count + 1;
    uint32_t group = 0;

    mover.at = arena_array(planner->scratch, steps, sizeof *mover.at);
    mover.number = arena_array(planner->scratch, steps, sizeof *mover.number);
    mover.staying = arena_array(planner->scratch, steps, sizeof *mover.staying);
    if (mover.at == NULL || mover.number == NULL || mover.staying == NULL)
        return planner_no_memory(planner);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const bool goes = moves(planner, &plan->steps[i]);

        plan->steps[i].group = group;
        group += plan->steps[i].kind != PLAN_COPY;
        mover.staying[i] = !goes ? i : i > 0 ? mover.staying[i - 1] : INLAY_NONE;
        mover.positions += !goes;
    }
    if (mover.positions == steps)
        return INLAY_OK;
    mover.staying[plan->step_count] = plan->step_count;
    mover.made = arena_array(planner->scratch, (size_t)plan->place_count + 1, sizeof *mover.made);
    mover.live = arena_array(planner->scratch, (size_t)plan->domain_count * mover.positions, sizeof *mover.live);
    mover.most = arena_array(planner->scratch, plan->domain_count, sizeof *mover.most);
    if (mover.made == NULL || mover.live == NULL || mover.most == NULL)
        return planner_no_memory(planner);
    if (!find_positions(&mover))
        return INLAY_OK;
    if (!put_in_order(&mover))
        return planner_no_memory(planner);
    renumber(&mover);
    return INLAY_OK;
}
