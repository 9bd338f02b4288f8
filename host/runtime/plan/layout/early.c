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
    struct planner *b;
    uint32_t *at;   /* [step_count + 1] the position of a step; of a copy that moves, where it goes */
    uint32_t *made; /* [place_count] the first position at which the place is filled */
    uint64_t *live; /* [domain_count][positions] bytes of the slab in use */
    uint64_t *most; /* [domain_count] that may be */
    uint32_t positions;
    uint32_t *staying; /* [step_count + 1] the step itself; for a copy that moves, the one before that does not */
    uint32_t *number;  /* [step_count + 1] of each step in the new order */
};

static bool moves(const struct planner *b, const plan_step *s)
{
    return s->kind == PLAN_COPY &&
           (b->prog->env->providers[s->copy_provider].table->flags & INLAY_PROVIDER_ASYNC) != 0 &&
           !(b->prog->env->state_count > 0 && b->p->places[s->out[0]].source == PLACE_OUTPUT);
}

/* Are there, as far as is known, less than SHORT times that many bytes in the domain? */
static bool is_short(const program_env *env, uint32_t domain, uint64_t most)
{
    const uint32_t p = plan_owner_of(env, domain);
    uint64_t bytes = p != INLAY_NONE ? plan_domain(env, domain)->memory_bytes : env->max_run_bytes;

    for (uint32_t i = 0; p != INLAY_NONE && env->rules != NULL && i < env->rules->limit_count; i++)
        if (strcmp(env->rules->limits[i].provider, env->providers[p].name) == 0)
            bytes = env->rules->limits[i].bytes;
    return (p == INLAY_NONE && env->held_bytes != NULL) || (bytes > 0 && bytes / SHORT < most);
}

static void fills(struct mover *m, uint32_t place, uint32_t position)
{
    m->made[plan_bytes_of(m->b->p, place)] = position;
}

/* What lives where as the plan is, and how much may. */
static void count_bytes(struct mover *m)
{
    const struct plan *p = m->b->p;

    for (uint32_t i = 0; i < p->place_count; i++) {
        const plan_place *pl = &p->places[i];
        uint64_t *live = &m->live[(size_t)pl->lies_in * m->positions];

        if (pl->source != PLACE_SLAB || pl->bytes > UINT64_MAX / 2 / p->place_count)
            continue;
        live[pl->kept ? 0 : m->at[pl->first]] += pl->bytes;
        if (!pl->kept && m->at[pl->last] + 1 < m->positions)
            live[m->at[pl->last] + 1] -= pl->bytes; /* wraps, and back when summed */
    }
    for (uint32_t d = 0; d < p->domain_count; d++) {
        uint64_t *live = &m->live[(size_t)d * m->positions], most = 0;

        for (uint32_t i = 0; i < m->positions; i++) {
            live[i] += i > 0 ? live[i - 1] : 0;
            most = live[i] > most ? live[i] : most;
        }
        m->most[d] = most;
        if (!is_short(m->b->prog->env, d, most))
            m->most[d] += most / 8 + ROOM_BYTES;
    }
}

/* The position that the copy goes to: as far up as its source is there, and its target has room. */
static uint32_t move_up(const struct mover *m, const plan_step *s, uint32_t from)
{
    const plan_place *to = &m->b->p->places[s->out[0]];
    uint64_t *live = &m->live[(size_t)to->lies_in * m->positions];
    const uint32_t first = m->made[plan_bytes_of(m->b->p, s->in[0])];

    for (; from > first; from--) {
        if (to->source != PLACE_SLAB || to->kept)
            continue;
        if (live[from - 1] + to->bytes > m->most[to->lies_in])
            break;
        live[from - 1] += to->bytes;
    }
    return from;
}

/* Finds where each copy goes; false: all stay. */
static bool find_positions(struct mover *m)
{
    const struct plan *p = m->b->p;
    uint32_t position = 0;
    bool any = false;

    for (uint32_t i = 0; i < p->step_count; i++) {
        m->at[i] = position;
        position += m->staying[i] == i;
    }
    m->at[p->step_count] = position;
    count_bytes(m);
    for (uint32_t i = 0; i < p->step_count; i++) {
        const plan_step *s = &p->steps[i];
        const uint32_t now = m->at[i];

        if (m->staying[i] != i) {
            m->at[i] = move_up(m, s, now);
            any |= m->at[i] < now;
            fills(m, s->out[0], m->at[i]);
            continue;
        }
        for (uint32_t o = 0; o < (s->kind == PLAN_COPY ? 1 : s->step->region->output_count); o++)
            fills(m, s->out != NULL ? s->out[o] : p->values[s->step->region->outputs[o]].place, now + 1);
    }
    return any;
}

/* The steps in their new order. */
static bool put_in_order(const struct mover *m)
{
    struct plan *p = m->b->p;
    const plan_step *steps = arena_copy(m->b->scratch, p->steps, p->step_count * sizeof *steps);
    uint32_t *next = arena_array(m->b->scratch, (size_t)m->positions + 1, sizeof *next);

    if (steps == NULL || next == NULL)
        return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        next[m->at[i] + 1]++;
    for (uint32_t k = 0; k < m->positions; k++)
        next[k + 1] += next[k];
    for (int stays = 0; stays < 2; stays++) /* the copies of a position, then the step that has it */
        for (uint32_t i = 0; i < p->step_count; i++)
            if ((m->staying[i] == i) == (stays != 0)) {
                m->number[i] = next[m->at[i]]++;
                p->steps[m->number[i]] = steps[i];
            }
    m->number[p->step_count] = p->step_count;
    return true;
}

static void use_at(struct plan *p, uint32_t place, uint32_t step)
{
    plan_place *pl = &p->places[plan_bytes_of(p, place)];

    pl->first = pl->first < step ? pl->first : step;
    pl->last = pl->last > step ? pl->last : step;
}

/* The lives of places in the new order. What a copy was the last to read lives as long as it did. */
static void renumber(const struct mover *m)
{
    struct plan *p = m->b->p;

    for (uint32_t i = 0; i < p->place_count; i++) {
        plan_place *pl = &p->places[i];

        pl->first = m->number[pl->first];
        pl->last = m->staying[pl->last] != INLAY_NONE ? m->number[m->staying[pl->last]] : 0;
        pl->last = pl->last > pl->first ? pl->last : pl->first;
    }
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == PLAN_COPY) {
            use_at(p, p->steps[i].in[0], i);
            use_at(p, p->steps[i].out[0], i);
        }
}

inlay_status planner_begin_early(struct planner *b)
{
    struct plan *p = b->p;
    struct mover m = { .b = b, .positions = 1 };
    const size_t steps = (size_t)p->step_count + 1;
    uint32_t group = 0;

    m.at = arena_array(b->scratch, steps, sizeof *m.at);
    m.number = arena_array(b->scratch, steps, sizeof *m.number);
    m.staying = arena_array(b->scratch, steps, sizeof *m.staying);
    if (m.at == NULL || m.number == NULL || m.staying == NULL)
        return planner_no_memory(b);
    for (uint32_t i = 0; i < p->step_count; i++) {
        const bool goes = moves(b, &p->steps[i]);

        p->steps[i].group = group;
        group += p->steps[i].kind != PLAN_COPY;
        m.staying[i] = !goes ? i : i > 0 ? m.staying[i - 1] : INLAY_NONE;
        m.positions += !goes;
    }
    if (m.positions == steps)
        return INLAY_OK;
    m.staying[p->step_count] = p->step_count;
    m.made = arena_array(b->scratch, (size_t)p->place_count + 1, sizeof *m.made);
    m.live = arena_array(b->scratch, (size_t)p->domain_count * m.positions, sizeof *m.live);
    m.most = arena_array(b->scratch, p->domain_count, sizeof *m.most);
    if (m.made == NULL || m.live == NULL || m.most == NULL)
        return planner_no_memory(b);
    if (!find_positions(&m))
        return INLAY_OK;
    if (!put_in_order(&m))
        return planner_no_memory(b);
    renumber(&m);
    return INLAY_OK;
}
