/* What is left as the user's order has it, because a change would hardly be seen.
 *
 * Margins keep single nodes where they are while their prices differ by less than they may be off. That is no help
 * where a node is nothing beside its graph: the change would be right, if prices are, and save a ten-thousandth of a
 * run, which what no price knows of (a step more, a value elsewhere in memory) may take again. So changes that hang
 * together are weighed as one against the whole run. Those that save least are undone as long as all that is given away
 * stays a tenth of what the price of the whole may be off by. */
#include "partition/search/search.h"
#include <stdlib.h>
#include <string.h>

static const double share_of_error = 0.1;
enum { MOST_STEPS = 16 };

struct change {
    uint32_t root; /* a node: the changes of one are undone together */
    double gain;   /* of its offers */
};

struct steady {
    struct problem *x;
    uint32_t *choice, *home, *trial; /* [nodes] offers: what is, what the order of providers asks for, a mix */
    uint32_t *root;                  /* [nodes] union-find; only nodes of changes count */
    uint32_t *listed;                /* [nodes] of a root, where its change is in the list */
    uint8_t *part;                   /* [nodes] 1 = of a change */
    struct change *changes;          /* [count] least gain first */
    uint32_t count;
};

static uint32_t root_of(struct steady *s, uint32_t n)
{
    while (s->root[n] != n)
        n = s->root[n] = s->root[s->root[n]];
    return n;
}

static void join(struct steady *s, uint32_t a, uint32_t b)
{
    s->root[root_of(s, a)] = root_of(s, b);
}

/* Nodes that an offer of several has in common with a change are all of it. Did it bring new ones? */
static bool take_all(struct steady *s, uint32_t offer, uint32_t n)
{
    const part_offer *o = offer != INLAY_NONE ? &s->x->p->offers[offer] : NULL;
    bool more = false;

    for (uint32_t k = 0; o != NULL && o->node_count > 1 && k < o->node_count; k++) {
        more |= !s->part[o->nodes[k]];
        s->part[o->nodes[k]] = 1;
        join(s, n, o->nodes[k]);
    }
    return more;
}

/* Which nodes are run by another provider than at home, and what hangs together. */
static void find_parts(struct steady *s)
{
    const struct problem *x = s->x;

    for (uint32_t n = 0; n < x->nodes; n++) {
        s->root[n] = n;
        s->part[n] = part_provider_of(x, s->choice[n]) != part_provider_of(x, s->home[n]);
    }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t n = 0; n < x->nodes; n++)
            if (s->part[n]) {
                more |= take_all(s, s->choice[n], n);
                more |= take_all(s, s->home[n], n);
            }
    }
    for (uint32_t n = 0; n < x->nodes; n++) {
        const graph_node *node = x->g->nodes[n];

        for (uint32_t i = 0; s->part[n] && i < part_reads(node); i++) {
            uint32_t v = part_read_at(node, i), maker = part_maker_of(x->g, v);

            if (maker != INLAY_NONE && s->part[maker])
                join(s, n, maker);
        }
    }
}

static int by_gain(const void *a, const void *b)
{
    const struct change *p = a, *q = b;

    if (p->gain != q->gain)
        return p->gain < q->gain ? -1 : 1;
    return p->root < q->root ? -1 : p->root > q->root;
}

/* Each offer counts at its first node. */
static double price_at(const struct steady *s, const uint32_t *choice, uint32_t n)
{
    uint32_t offer = choice[n];

    return offer != INLAY_NONE && s->x->p->offers[offer].nodes[0] == n ? s->x->prices.offer[offer] : 0;
}

static void list_changes(struct steady *s)
{
    const struct problem *x = s->x;

    for (uint32_t n = 0; n < x->nodes; n++)
        if (s->part[n] && root_of(s, n) == n) {
            s->listed[n] = s->count;
            s->changes[s->count++] = (struct change){ .root = n };
        }
    for (uint32_t n = 0; n < x->nodes; n++)
        if (s->part[n])
            s->changes[s->listed[root_of(s, n)]].gain += price_at(s, s->home, n) - price_at(s, s->choice, n);
    if (s->count > 0)
        qsort(s->changes, s->count, sizeof *s->changes, by_gain);
    for (uint32_t i = 0; i < s->count; i++)
        s->listed[s->changes[i].root] = i;
}

static bool steady_init(struct steady *s, struct problem *x, uint32_t *choice)
{
    size_t nodes = (size_t)x->nodes + 1;

    *s = (struct steady){ .x = x, .choice = choice };
    s->home = arena_array(x->scratch, nodes, sizeof *s->home);
    s->trial = arena_array(x->scratch, nodes, sizeof *s->trial);
    s->root = arena_array(x->scratch, nodes, sizeof *s->root);
    s->listed = arena_array(x->scratch, nodes, sizeof *s->listed);
    s->part = arena_array(x->scratch, nodes, sizeof *s->part);
    s->changes = arena_array(x->scratch, nodes, sizeof *s->changes);
    return s->home != NULL && s->trial != NULL && s->root != NULL && s->listed != NULL && s->part != NULL &&
           s->changes != NULL;
}

/* What may be given away. */
static double slack_of(const struct steady *s)
{
    double off = 0;

    for (uint32_t n = 0; n < s->x->nodes; n++)
        if (s->choice[n] != INLAY_NONE)
            off += price_at(s, s->choice, n) * s->x->p->offers[s->choice[n]].cost_error;
    return off * share_of_error;
}

/* Undoes changes first .. end - 1 if what all of it costs then is bearable. */
static bool undo(struct steady *s, uint32_t first, uint32_t end, double bearable)
{
    struct problem *x = s->x;
    part_verdict v;

    memcpy(s->trial, s->choice, x->nodes * sizeof *s->trial);
    for (uint32_t n = 0; n < x->nodes; n++) {
        const uint32_t i = s->part[n] ? s->listed[root_of(s, n)] : INLAY_NONE;

        if (i >= first && i < end)
            s->trial[n] = s->home[n];
    }
    v = part_judge(x, s->trial);
    if (x->failed || !v.runs || !v.feasible || v.price > bearable)
        return false;
    memcpy(s->choice, s->trial, x->nodes * sizeof *s->trial);
    return true;
}

bool part_steady(struct problem *x, uint32_t *choice)
{
    double *with_margins = x->prices.offer, *plain = arena_array(x->scratch, (size_t)x->offers + 1, sizeof *plain);
    struct steady s;

    if (plain == NULL || !steady_init(&s, x, choice))
        return false;
    if (part_first_choice(x, true, s.home) != INLAY_NONE)
        return true;
    for (uint32_t o = 0; o < x->offers; o++)
        plain[o] = x->prices.base[o] - x->prices.margin_ns[o];
    x->prices.offer = plain;
    find_parts(&s);
    list_changes(&s);
    if (s.count > 0) {
        const double bearable = part_judge(x, choice).price + slack_of(&s);
        const uint32_t step = s.count / MOST_STEPS + 1;

        if (!undo(&s, 0, s.count, bearable))
            for (uint32_t i = 0; i < s.count && !x->failed; i += step)
                (void)undo(&s, i, i + step < s.count ? i + step : s.count, bearable);
    }
    x->prices.offer = with_margins;
    return !x->failed;
}
