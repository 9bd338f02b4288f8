/* Group offers: several nodes that run as one. */
#include "partition/problem/problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A group taken contracts its nodes to one; the graph that is left must have no cycle. */
struct grouping {
    uint32_t *group_of; /* [nodes] the group offer that was taken, NONE */
    uint32_t *spans;    /* [nodes] groups taken with nodes before n as well as at n or after it */
    uint32_t *member;   /* [nodes] number of the last walk that had the node in its group */
    uint32_t *seen;     /* [nodes] number of the last walk that came by */
    uint32_t *stack;    /* [nodes] */
    uint32_t *list;     /* [offers] scratch */
    uint8_t *told;      /* [offers] the log has it */
    uint32_t stack_count;
    uint32_t walk;
};

bool part_groups_init(struct problem *x)
{
    size_t nodes = (size_t)x->nodes + 1, offers = (size_t)x->offers + 1;
    struct grouping *y = arena_alloc(x->scratch, sizeof *y);

    x->grouping = y;
    if (y == NULL)
        return false;
    y->group_of = arena_array(x->scratch, nodes, sizeof *y->group_of);
    y->spans = arena_array(x->scratch, nodes, sizeof *y->spans);
    y->member = arena_array(x->scratch, nodes, sizeof *y->member);
    y->seen = arena_array(x->scratch, nodes, sizeof *y->seen);
    y->stack = arena_array(x->scratch, nodes, sizeof *y->stack);
    y->list = arena_array(x->scratch, offers, sizeof *y->list);
    y->told = arena_array(x->scratch, offers, sizeof *y->told);
    if (y->group_of != NULL)
        memset(y->group_of, 0xff, x->nodes * sizeof *y->group_of);
    return y->group_of != NULL && y->spans != NULL && y->member != NULL && y->seen != NULL && y->stack != NULL &&
           y->list != NULL && y->told != NULL;
}

/* ------------------------------------------------------------------ circles */

static void push_makers(const struct problem *x, uint32_t node, bool members_too)
{
    const struct graph *g = x->g;
    struct grouping *y = x->grouping;

    for (uint32_t i = 0; i < part_reads(g->nodes[node]); i++) {
        uint32_t maker = part_maker_of(g, part_read_at(g->nodes[node], i));

        if (maker == INLAY_NONE || y->seen[maker] == y->walk || (y->member[maker] == y->walk && !members_too))
            continue;
        y->seen[maker] = y->walk;
        y->stack[y->stack_count++] = maker;
    }
}

/* Does something that the group needs from outside need, by whatever way, something of the group? Walks back from the
 * group's inputs; a group that was taken is entered and left as one. */
static bool closes_circle(const struct problem *x, const part_offer *offer)
{
    struct grouping *y = x->grouping;
    uint32_t floor = offer->nodes[0];

    y->walk++;
    y->stack_count = 0;
    for (uint32_t k = 0; k < offer->node_count; k++)
        y->member[offer->nodes[k]] = y->walk;
    for (uint32_t k = 0; k < offer->node_count; k++)
        push_makers(x, offer->nodes[k], false);
    /* No group reaches across the floor, so what lies below it needs nothing from above. */
    while (y->spans[floor] > 0)
        floor--;
    while (y->stack_count > 0) {
        uint32_t n = y->stack[--y->stack_count], group = y->group_of[n];

        if (y->member[n] == y->walk)
            return true;
        if (n < floor)
            continue;
        if (group == INLAY_NONE) {
            push_makers(x, n, true);
            continue;
        }
        for (uint32_t k = 0; k < x->p->offers[group].node_count; k++) {
            y->seen[x->p->offers[group].nodes[k]] = y->walk;
            push_makers(x, x->p->offers[group].nodes[k], true);
        }
    }
    return false;
}

static void take_group(const struct problem *x, uint32_t index)
{
    const part_offer *o = &x->p->offers[index];

    for (uint32_t k = 0; k < o->node_count; k++)
        x->grouping->group_of[o->nodes[k]] = index;
    for (uint32_t n = o->nodes[0] + 1; n <= o->nodes[o->node_count - 1]; n++)
        x->grouping->spans[n]++;
}

static void forget_groups(const struct problem *x)
{
    memset(x->grouping->group_of, 0xff, x->nodes * sizeof *x->grouping->group_of);
    memset(x->grouping->spans, 0, x->nodes * sizeof *x->grouping->spans);
}

static void tell_circle(const struct problem *x, uint32_t offer, const char *what)
{
    const part_request *r = x->request;
    const part_offer *o = &x->p->offers[offer];
    char text[320];

    if (r->log == NULL || x->grouping->told[offer])
        return;
    x->grouping->told[offer] = 1;
    (void)snprintf(text, sizeof text, "provider %s: a group offer of %u nodes from '%.100s' on %s",
                   r->providers[o->provider].name, o->node_count, x->g->nodes[o->nodes[0]]->info.name.data, what);
    r->log(r->log_ctx, INLAY_LOG_WARNING, text);
}

void part_void_circles(struct problem *x)
{
    for (uint32_t o = 0; o < x->offers; o++) {
        if (x->p->offers[o].node_count == 1 || !x->usable[o] || !closes_circle(x, &x->p->offers[o]))
            continue;
        x->usable[o] = 0;
        tell_circle(x, o, "was ignored: the group would form a cycle");
    }
}

/* Nodes of the offer that have no usual single offer of its provider to fall back on. */
static uint32_t bare_nodes(const struct problem *x, const part_offer *o)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < o->node_count; k++)
        count += x->picks.cheapest[(size_t)o->provider * x->nodes + o->nodes[k]] == INLAY_NONE;
    return count;
}

/* What taking the group saves over its nodes' single offers. */
static double gain_of(const struct problem *x, uint32_t offer)
{
    const part_offer *o = &x->p->offers[offer];
    double ns = -x->prices.offer[offer];

    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t single = x->picks.cheapest[(size_t)o->provider * x->nodes + o->nodes[k]];
        ns += single == INLAY_NONE ? 0 : x->prices.offer[single];
    }
    return ns;
}

bool part_untangle(struct problem *x, uint32_t *choice)
{
    uint32_t *list = x->grouping->list, count = 0;

    for (uint32_t n = 0; n < x->nodes; n++)
        if (choice[n] != INLAY_NONE && x->p->offers[choice[n]].node_count > 1 && x->p->offers[choice[n]].nodes[0] == n)
            list[count++] = choice[n];
    if (count < 2 || part_schedule_choice(x, choice, false))
        return true;
    /* Those that can't be dissolved first, then by what they save. */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t offer = list[i], k = i;
        double gain = bare_nodes(x, &x->p->offers[offer]) > 0 ? INFINITY : gain_of(x, offer);

        for (; k > 0; k--) {
            double other = bare_nodes(x, &x->p->offers[list[k - 1]]) > 0 ? INFINITY : gain_of(x, list[k - 1]);
            if (other >= gain)
                break;
            list[k] = list[k - 1];
        }
        list[k] = offer;
    }
    forget_groups(x);
    for (uint32_t i = 0; i < count; i++) {
        const part_offer *o = &x->p->offers[list[i]];

        if (!closes_circle(x, o)) {
            take_group(x, list[i]);
            continue;
        }
        if (bare_nodes(x, o) > 0)
            return false;
        tell_circle(x, list[i], "and another one would form a cycle together: one of them is not taken");
        for (uint32_t k = 0; k < o->node_count; k++)
            choice[o->nodes[k]] = x->picks.cheapest[(size_t)o->provider * x->nodes + o->nodes[k]];
    }
    return true;
}

/* ------------------------------------------------------------------ a first choice */

/* Is offer a a better choice than b for the same nodes? */
static bool is_better(const struct problem *x, bool by_priority, uint32_t a, uint32_t b)
{
    const part_offer *p = &x->p->offers[a], *q = &x->p->offers[b];

    if (by_priority && p->provider != q->provider)
        return p->provider < q->provider;
    return x->prices.offer[a] / p->node_count < x->prices.offer[b] / q->node_count;
}

/* Is the node in the offer? */
static bool holds(const part_offer *o, uint32_t node)
{
    uint32_t low = 0, high = o->node_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (o->nodes[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->node_count && o->nodes[low] == node;
}

/* May the group be taken: none of its nodes is in another, and no circle? */
static bool is_free(const struct problem *x, uint32_t offer)
{
    const part_offer *o = &x->p->offers[offer];

    for (uint32_t k = 0; k < o->node_count; k++)
        if (x->grouping->group_of[o->nodes[k]] != INLAY_NONE)
            return false;
    return !closes_circle(x, o);
}

static void settle_group(const struct problem *x, uint32_t offer, uint32_t *choice)
{
    const part_offer *o = &x->p->offers[offer];

    take_group(x, offer);
    for (uint32_t k = 0; k < o->node_count; k++)
        choice[o->nodes[k]] = offer;
}

/* Does the group displace no provider that comes before its own, and cost less than its own provider's offers? */
static bool has_priority(const struct problem *x, uint32_t offer, const uint32_t *choice)
{
    const part_offer *o = &x->p->offers[offer];
    double own = 0;

    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t now = choice[o->nodes[k]];
        if (x->p->offers[now].provider < o->provider)
            return false;
        own += x->p->offers[now].provider == o->provider ? x->prices.offer[now] : INFINITY;
    }
    return x->prices.offer[offer] < own;
}

uint32_t part_first_choice(struct problem *x, bool by_priority, uint32_t *choice)
{
    uint32_t missing = INLAY_NONE;

    forget_groups(x);
    for (uint32_t n = 0; n < x->nodes; n++) {
        choice[n] = INLAY_NONE;
        for (uint32_t i = x->picks.first_single[n]; i < x->picks.first_single[n + 1]; i++)
            if (choice[n] == INLAY_NONE || is_better(x, by_priority, x->picks.singles[i], choice[n]))
                choice[n] = x->picks.singles[i];
    }
    for (uint32_t n = 0; n < x->nodes; n++) {
        uint32_t best = INLAY_NONE;

        if (choice[n] != INLAY_NONE || !x->candidates[n])
            continue;
        for (uint32_t i = 0; i < x->picks.group_count; i++) {
            const part_offer *o = &x->p->offers[x->picks.groups[i]];
            if (holds(o, n) && is_free(x, x->picks.groups[i]) &&
                (best == INLAY_NONE || is_better(x, by_priority, x->picks.groups[i], best)))
                best = x->picks.groups[i];
        }
        if (best == INLAY_NONE)
            missing = missing == INLAY_NONE ? n : missing;
        else
            settle_group(x, best, choice);
    }
    for (uint32_t i = 0; by_priority && missing == INLAY_NONE && i < x->picks.group_count; i++)
        if (has_priority(x, x->picks.groups[i], choice) && is_free(x, x->picks.groups[i]))
            settle_group(x, x->picks.groups[i], choice);
    return missing;
}

/* ------------------------------------------------------------------ families */

struct ranked {
    double gain;
    uint32_t index; /* into x->groups */
};

static int by_gain(const void *a, const void *b)
{
    const struct ranked *p = a, *q = b;

    if (p->gain != q->gain)
        return p->gain > q->gain ? -1 : 1;
    return p->index < q->index ? -1 : p->index > q->index;
}

uint32_t part_families(struct problem *x, uint32_t provider, uint32_t *family)
{
    struct ranked *list = arena_array(x->scratch, (size_t)x->picks.group_count + 1, sizeof *list);
    uint32_t *next = x->grouping->seen, count = 0, families = 0;

    if (list == NULL) {
        x->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < x->picks.group_count; i++) {
        const part_offer *o = &x->p->offers[x->picks.groups[i]];

        family[i] = INLAY_NONE;
        if (o->provider == provider)
            list[count++] =
                (struct ranked){ bare_nodes(x, o) > 0 ? INFINITY : gain_of(x, x->picks.groups[i]) / o->node_count, i };
    }
    qsort(list, count, sizeof *list, by_gain);
    /* Each group joins the first family in which its nodes are free. next[n]: families below it have node n already. */
    memset(next, 0, x->nodes * sizeof *next);
    for (uint32_t i = 0; i < count; i++) {
        const part_offer *o = &x->p->offers[x->picks.groups[list[i].index]];
        uint32_t f = 0;

        for (uint32_t k = 0; k < o->node_count; k++)
            f = next[o->nodes[k]] > f ? next[o->nodes[k]] : f;
        for (uint32_t k = 0; k < o->node_count; k++)
            next[o->nodes[k]] = f + 1;
        family[list[i].index] = f;
        families = f + 1 > families ? f + 1 : families;
    }
    /* The walks use the same marks. */
    memset(next, 0, x->nodes * sizeof *next);
    memset(x->grouping->member, 0, x->nodes * sizeof *x->grouping->member);
    x->grouping->walk = 0;
    return families;
}

uint32_t part_cheapest_single(const struct problem *x, uint32_t node)
{
    uint32_t best = INLAY_NONE;

    for (uint32_t p = 0; p < x->providers; p++) {
        uint32_t o = x->picks.cheapest[(size_t)p * x->nodes + node];
        if (o != INLAY_NONE && (best == INLAY_NONE || x->prices.offer[o] < x->prices.offer[best]))
            best = o;
    }
    return best;
}

/* Groups as intervals from first to last node: the best up to node n either leaves n alone, or ends with a group there
 * and is the best up to before that group. */
void part_best_family(struct problem *x, uint32_t *family)
{
    double *gain = arena_array(x->scratch, (size_t)x->nodes + 2, sizeof *gain);
    uint32_t *pick = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *pick);
    uint32_t *first = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *first);
    uint32_t *next = arena_array(x->scratch, (size_t)x->picks.group_count + 1, sizeof *next);

    if (gain == NULL || pick == NULL || first == NULL || next == NULL) {
        x->failed = true;
        return;
    }
    memset(first, 0xff, x->nodes * sizeof *first);
    memset(family, 0xff, x->picks.group_count * sizeof *family);
    for (uint32_t i = x->picks.group_count; i-- > 0;) {
        const part_offer *o = &x->p->offers[x->picks.groups[i]];
        next[i] = first[o->nodes[o->node_count - 1]];
        first[o->nodes[o->node_count - 1]] = i;
    }
    for (uint32_t n = 0; n < x->nodes; n++) {
        gain[n + 1] = gain[n];
        pick[n] = INLAY_NONE;
        for (uint32_t i = first[n]; i != INLAY_NONE; i = next[i]) {
            const part_offer *o = &x->p->offers[x->picks.groups[i]];
            double ns = gain[o->nodes[0]] - x->prices.offer[x->picks.groups[i]];

            for (uint32_t k = 0; k < o->node_count; k++) {
                uint32_t single = part_cheapest_single(x, o->nodes[k]);
                ns += single == INLAY_NONE ? 1e15 : x->prices.offer[single]; /* nodes that only groups run come first */
            }
            if (ns > gain[n + 1]) {
                gain[n + 1] = ns;
                pick[n] = i;
            }
        }
    }
    for (uint32_t n = x->nodes; n > 0;) {
        uint32_t i = pick[n - 1];

        if (i == INLAY_NONE) {
            n--;
            continue;
        }
        family[i] = 0;
        n = x->p->offers[x->picks.groups[i]].nodes[0];
    }
}
