/* The search for the cheapest choice: from a first one on, each provider in turn is proposed to every node, and the
 * best mix with what is there is taken, until no proposal improves anything (alpha-expansion; Boykov, Veksler, Zabih
 * 2001).
 * The groups of a provider come with its proposals, in families that do not overlap. What is small enough is then
 * searched to the end. */
#include "partition/search/search.h"
#include <string.h>

enum {
    MOST_SWEEPS = 12,
    EXACT_NODES = 24,       /* graphs up to this size may be searched to the end */
    TWO_STARTS_NODES = 512, /* and up to this one the search starts twice */
    ISLAND_WORK = 60000     /* nodes to look at while regions are given to their neighbours, once a round */
};

struct search {
    struct problem *x;
    uint32_t *choice, *trial; /* [nodes] */
    part_side now, then;
    uint32_t *family;     /* [groups] */
    part_verdict verdict; /* of choice */
    uint32_t in_vain;     /* proposals in a row that improved nothing */
    uint32_t round;       /* proposals in a round; 0 = not yet known */
};

static bool search_init(struct search *s, struct problem *x, uint32_t *choice)
{
    size_t nodes = (size_t)x->nodes + 1;

    *s = (struct search){ .x = x, .choice = choice };
    s->trial = arena_array(x->scratch, nodes, sizeof *s->trial);
    s->now.single = arena_array(x->scratch, nodes, sizeof *s->now.single);
    s->now.group = arena_array(x->scratch, nodes, sizeof *s->now.group);
    s->then.single = arena_array(x->scratch, nodes, sizeof *s->then.single);
    s->then.group = arena_array(x->scratch, nodes, sizeof *s->then.group);
    s->family = arena_array(x->scratch, (size_t)x->picks.group_count + 1, sizeof *s->family);
    return s->trial != NULL && s->now.single != NULL && s->now.group != NULL && s->then.single != NULL &&
           s->then.group != NULL && s->family != NULL && (x->fusion != NULL || part_fuse_init(x));
}

/* Is verdict a better than b? By more than what rounding does. */
static bool improves(part_verdict a, part_verdict b)
{
    return a.runs && (!b.runs || a.price < b.price * (1 - 1e-12) - 1e-9);
}

/* Takes the trial if it is better. Most are not, which is mostly seen without putting them into an order. */
static bool accept(struct search *s)
{
    struct problem *x = s->x;
    part_verdict v;

    if (x->failed || memcmp(s->choice, s->trial, x->nodes * sizeof *s->choice) == 0)
        return false;
    if (s->verdict.runs && part_base_price(x, s->trial) >= s->verdict.price)
        return false;
    if (!part_untangle(x, s->trial))
        return false;
    v = part_judge(x, s->trial);
    if (x->failed || !improves(v, s->verdict))
        return false;
    memcpy(s->choice, s->trial, x->nodes * sizeof *s->choice);
    s->verdict = v;
    return true;
}

/* What the label offers each node: its own single offer, and the groups of one family. */
static void propose(struct search *s, part_label label, uint32_t family)
{
    struct problem *x = s->x;

    for (uint32_t n = 0; n < x->nodes; n++) {
        uint32_t seen = 0;

        s->then.group[n] = INLAY_NONE;
        s->then.single[n] = x->picks.cheapest[(size_t)label.provider * x->nodes + n];
        for (uint32_t i = x->picks.first_single[n]; label.variant > 0 && i < x->picks.first_single[n + 1]; i++) {
            uint32_t o = x->picks.singles[i];
            if (x->p->offers[o].provider == label.provider && x->odd[o] && ++seen == label.variant)
                s->then.single[n] = o;
        }
    }
    for (uint32_t i = 0; family != INLAY_NONE && i < x->picks.group_count; i++) {
        const part_offer *o = &x->p->offers[x->picks.groups[i]];

        if (s->family[i] != family)
            continue;
        for (uint32_t k = 0; k < o->node_count; k++) {
            s->then.group[o->nodes[k]] = x->picks.groups[i];
            if (x->odd[x->picks.groups[i]])
                s->then.single[o->nodes[k]] = INLAY_NONE;
        }
    }
}

/* What is cheapest by itself, whoever offers it. */
static void propose_cheapest(struct search *s)
{
    struct problem *x = s->x;

    part_best_family(x, s->family);
    for (uint32_t n = 0; n < x->nodes; n++) {
        s->then.group[n] = INLAY_NONE;
        s->then.single[n] = part_cheapest_single(x, n);
    }
    for (uint32_t i = 0; i < x->picks.group_count; i++) {
        const part_offer *o = &x->p->offers[x->picks.groups[i]];

        for (uint32_t k = 0; s->family[i] == 0 && k < o->node_count; k++) {
            s->then.group[o->nodes[k]] = x->picks.groups[i];
            s->then.single[o->nodes[k]] = x->odd[x->picks.groups[i]]
                                              ? INLAY_NONE
                                              : x->picks.cheapest[(size_t)o->provider * x->nodes + o->nodes[k]];
        }
    }
}

static bool fuse(struct search *s)
{
    part_side_of(s->x, s->choice, &s->now);
    return part_fuse(s->x, &s->now, &s->then, s->trial) && accept(s);
}

/* One proposal. False: as many as a round has, the last ones, improved nothing. */
static bool try_proposal(struct search *s, part_label label, uint32_t family)
{
    propose(s, label, family);
    s->in_vain = fuse(s) ? 0 : s->in_vain + 1;
    return !s->x->failed && (s->round == 0 || s->in_vain < s->round);
}

/* One round of proposals. Did any of them help? */
static bool sweep(struct search *s)
{
    struct problem *x = s->x;
    uint32_t round = 0;

    if (x->picks.group_count > 0 && s->round == 0) {
        propose_cheapest(s);
        (void)(!x->failed && fuse(s));
    }
    for (uint32_t l = 0; l < x->picks.label_count; l++) {
        uint32_t families = 0;

        if (x->picks.group_count > 0 && x->picks.labels[l].variant == 0)
            families = part_families(x, x->picks.labels[l].provider, s->family);
        for (uint32_t f = 0; f == 0 || f < families; f++, round++)
            if (!try_proposal(s, x->picks.labels[l], families > 0 ? f : INLAY_NONE))
                return false;
    }
    s->round = round;
    return s->in_vain < round;
}

/* Gives a region to the provider of a neighbour: a launch and its copies may cost more than a slower kernel. Small
 * regions first, since those have the least to lose. */
static bool move_islands(struct search *s)
{
    struct problem *x = s->x;
    part_schedule *c = &x->schedule;
    uint32_t *region_of, *size, *near, tries = 0;
    bool better = false;

    if (!x->ordered || !part_schedule_choice(x, s->choice, false))
        return false;
    region_of = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *region_of);
    size = arena_array(x->scratch, (size_t)c->region_count + 1, sizeof *size);
    near = arena_array(x->scratch, (size_t)c->region_count + 1, sizeof *near);
    if (region_of == NULL || size == NULL || near == NULL) {
        x->failed = true;
        return false;
    }
    for (uint32_t n = 0; n < x->nodes; n++)
        region_of[n] = INLAY_NONE;
    for (uint32_t i = 0; i < c->unit_count; i++) {
        size[c->region_of[i]]++;
        region_of[c->head[c->order[i]]] = c->region_of[i];
    }
    for (uint32_t n = 0; n < x->nodes; n++)
        region_of[n] = region_of[c->head[c->unit_of[n]]];
    for (uint32_t step = 1; step <= 4 && !better && !x->failed; step++) {
        for (uint32_t n = 0; n < x->nodes && tries * x->nodes < ISLAND_WORK && !better; n++) {
            uint32_t parent = x->links.parent[n], provider;

            if (size[region_of[n]] != step || parent == INLAY_NONE || region_of[parent] == region_of[n])
                continue;
            provider = part_provider_of(x, s->choice[parent]);
            if (provider == INLAY_NONE || s->choice[n] == INLAY_NONE)
                continue;
            memcpy(s->trial, s->choice, x->nodes * sizeof *s->trial);
            for (uint32_t m = 0; m < x->nodes; m++) {
                uint32_t other = x->picks.cheapest[(size_t)provider * x->nodes + m];
                if (region_of[m] == region_of[n] && other != INLAY_NONE && s->trial[m] != INLAY_NONE &&
                    x->p->offers[s->trial[m]].node_count == 1)
                    s->trial[m] = other;
            }
            tries++;
            better = accept(s);
        }
    }
    return better;
}

static void descend(struct search *s)
{
    s->verdict = part_judge(s->x, s->choice);
    s->in_vain = s->round = 0;
    for (uint32_t round = 0; round < MOST_SWEEPS && !s->x->failed; round++) {
        if (sweep(s))
            continue;
        if (!move_islands(s))
            return;
        s->in_vain = 0;
    }
}

/* One offer for each node, and no groups: nothing to choose. */
static bool is_settled(const struct problem *x)
{
    if (x->picks.group_count > 0)
        return false;
    for (uint32_t n = 0; n < x->nodes; n++)
        if (x->picks.first_single[n + 1] - x->picks.first_single[n] > 1)
            return false;
    return true;
}

bool part_solve(struct problem *x, uint32_t *choice, uint32_t *uncovered)
{
    bool settled = is_settled(x), by_priority = part_by_priority(x->request);
    uint32_t *other;
    part_verdict first;
    struct search s;

    *uncovered = part_first_choice(x, true, choice);
    if (settled || by_priority)
        return !x->failed;
    other = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *other);
    if (other == NULL || !search_init(&s, x, choice))
        return false;
    s.verdict = (part_verdict){ 0 };
    if (*uncovered == INLAY_NONE) {
        descend(&s);
        first = s.verdict;
        /* From the cheapest offer of each node another way may lead further down. With two providers the first is the
         * best already, but for groups and launches. */
        if (x->nodes <= TWO_STARTS_NODES && (x->picks.label_count > 2 || x->ordered || x->picks.group_count > 0)) {
            s.choice = other;
            if (part_first_choice(x, false, other) == INLAY_NONE)
                descend(&s);
            if (!x->failed && improves(s.verdict, first)) {
                memcpy(choice, other, x->nodes * sizeof *choice);
                first = s.verdict;
            }
        }
        s.verdict = first;
    }
    if (!x->failed && x->nodes <= EXACT_NODES) {
        bool found = *uncovered == INLAY_NONE;

        if (!found)
            s.verdict = (part_verdict){ 0 };
        (void)part_exact(x, x->exact_steps, choice, &s.verdict);
        if (s.verdict.runs)
            *uncovered = INLAY_NONE;
    }
    return !x->failed;
}
