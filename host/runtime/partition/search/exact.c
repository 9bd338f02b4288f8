/* Branch and bound: every choice, but for those that cost too much before they are complete. */
#include "partition/search/search.h"
#include <math.h>
#include <string.h>

struct branch {
    struct problem *x;
    uint32_t *choice, *best; /* [nodes] */
    double *least;           /* [nodes] what the node costs at least, a share of a group's price */
    double *travel;          /* [values] what its copies cost, as far as makers and readers are chosen */
    uint32_t *first_group;   /* [nodes + 1] into by_head */
    uint32_t *by_head;       /* groups by their first node */
    part_verdict verdict;    /* of best */
    uint32_t steps;
    bool cut_short;
};

static bool branch_init(struct branch *b, struct problem *x, uint32_t *best)
{
    uint32_t *at;

    *b = (struct branch){ .x = x, .best = best };
    b->choice = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *b->choice);
    b->least = arena_array(x->scratch, (size_t)x->nodes + 1, sizeof *b->least);
    b->travel = arena_array(x->scratch, (size_t)x->values + 1, sizeof *b->travel);
    b->first_group = at = arena_array(x->scratch, (size_t)x->nodes + 2, sizeof *b->first_group);
    b->by_head = arena_array(x->scratch, (size_t)x->picks.group_count + 1, sizeof *b->by_head);
    if (b->choice == NULL || b->least == NULL || b->travel == NULL || at == NULL || b->by_head == NULL)
        return false;
    memset(b->choice, 0xff, x->nodes * sizeof *b->choice);
    for (uint32_t n = 0; n < x->nodes; n++)
        b->least[n] = x->candidates[n] ? INFINITY : 0;
    for (uint32_t n = 0; n < x->nodes; n++)
        for (uint32_t i = x->picks.first_single[n]; i < x->picks.first_single[n + 1]; i++)
            b->least[n] = fmin(b->least[n], x->prices.offer[x->picks.singles[i]]);
    for (uint32_t i = 0; i < x->picks.group_count; i++) {
        const part_offer *o = &x->p->offers[x->picks.groups[i]];
        for (uint32_t k = 0; k < o->node_count; k++)
            b->least[o->nodes[k]] = fmin(b->least[o->nodes[k]], x->prices.offer[x->picks.groups[i]] / o->node_count);
        at[o->nodes[0] + 1]++;
    }
    for (uint32_t n = 0; n < x->nodes; n++)
        at[n + 1] += at[n];
    for (uint32_t i = x->picks.group_count; i-- > 0;)
        b->by_head[--at[x->p->offers[x->picks.groups[i]].nodes[0] + 1]] = x->picks.groups[i];
    memmove(at, at + 1, x->nodes * sizeof *at);
    at[x->nodes] = x->picks.group_count;
    return true;
}

/* Counts the copies of v anew; the difference. */
static double recount(struct branch *b, uint32_t v)
{
    double before = b->travel[v], ns = 0;

    if (v == INLAY_NONE || b->x->domains.count == 1)
        return 0;
    for (uint32_t count = part_hops(b->x, b->choice, v); count > 0; count--)
        ns +=
            part_hop_ns(b->x, v, b->x->domains.hops[count - 1]) * part_share(b->x, b->x->domains.hops[count - 1].once);
    b->travel[v] = ns;
    return ns - before;
}

/* Counts v anew, which a node makes, and what it is in the next iteration. */
static double recount_made(struct branch *b, uint32_t v)
{
    const struct graph *g = b->x->g;
    double ns = recount(b, v);

    for (uint32_t i = 0; b->x->p->homes != NULL && i < g->input_count; i++)
        if (b->x->p->homes[g->inputs[i]].next == v)
            ns += recount(b, g->inputs[i]);
    return ns;
}

/* Sets the nodes of the offer; the difference in copies. */
static double put(struct branch *b, uint32_t offer, bool there)
{
    const part_offer *o = &b->x->p->offers[offer];
    double ns = 0;

    for (uint32_t k = 0; k < o->node_count; k++)
        b->choice[o->nodes[k]] = there ? offer : INLAY_NONE;
    for (uint32_t k = 0; b->x->domains.count > 1 && k < o->node_count; k++) {
        const graph_node *n = b->x->g->nodes[o->nodes[k]];
        for (uint32_t i = 0; i < part_reads(n); i++)
            ns += part_read_at(n, i) == INLAY_NONE ? 0 : recount(b, part_read_at(n, i));
        for (uint32_t i = 0; i < n->info.output_count; i++)
            ns += n->info.outputs[i] == INLAY_NONE ? 0 : recount_made(b, n->info.outputs[i]);
    }
    return ns;
}

static bool is_open(const struct branch *b, uint32_t offer)
{
    const part_offer *o = &b->x->p->offers[offer];

    for (uint32_t k = 0; k < o->node_count; k++)
        if (b->choice[o->nodes[k]] != INLAY_NONE)
            return false;
    return true;
}

static void judge_leaf(struct branch *b)
{
    part_verdict v = part_judge(b->x, b->choice);

    if (!v.runs || (b->verdict.feasible && !v.feasible))
        return;
    if (b->verdict.runs && b->verdict.feasible == v.feasible && v.price >= b->verdict.price * (1 - 1e-12) - 1e-9)
        return;
    b->verdict = v;
    memcpy(b->best, b->choice, b->x->nodes * sizeof *b->best);
}

/* Chooses for node n and all after it. spent: offers and copies so far; rest: the least for nodes not yet chosen. */
static void search_from(struct branch *b, uint32_t n, double spent, double rest, uint32_t budget)
{
    struct problem *x = b->x;
    uint32_t singles, all;

    while (n < x->nodes && (b->choice[n] != INLAY_NONE || !x->candidates[n]))
        n++;
    if (b->verdict.feasible && spent + rest >= b->verdict.price * (1 - 1e-12))
        return;
    if (b->steps++ >= budget || x->failed) {
        b->cut_short = true;
        return;
    }
    if (n == x->nodes) {
        judge_leaf(b);
        return;
    }
    singles = x->picks.first_single[n + 1] - x->picks.first_single[n];
    all = singles + b->first_group[n + 1] - b->first_group[n];
    for (uint32_t i = 0; i < all && !b->cut_short; i++) {
        uint32_t offer =
            i < singles ? x->picks.singles[x->picks.first_single[n] + i] : b->by_head[b->first_group[n] + i - singles];
        const part_offer *o = &x->p->offers[offer];
        double saved = 0, ns;

        if (i >= singles && !is_open(b, offer))
            continue;
        for (uint32_t k = 0; k < o->node_count; k++)
            saved += b->least[o->nodes[k]];
        ns = put(b, offer, true);
        search_from(b, n + 1, spent + x->prices.offer[offer] + ns, rest - saved, budget);
        (void)put(b, offer, false);
    }
}

bool part_exact(struct problem *x, uint32_t budget, uint32_t *choice, part_verdict *verdict)
{
    double rest = 0;
    struct branch b;

    if (!branch_init(&b, x, choice)) {
        x->failed = true;
        return false;
    }
    b.verdict = *verdict;
    for (uint32_t n = 0; n < x->nodes; n++)
        rest += b.least[n];
    if (rest < INFINITY)
        search_from(&b, 0, 0, rest, budget);
    *verdict = b.verdict;
    return !b.cut_short;
}
