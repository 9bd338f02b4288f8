/* Group offers: several nodes that run as one. */
#include "partition/internal.h"
#include <string.h>

/* What decides between groups. A group taken contracts its nodes to one; the graph that is left must have no cycle. */
typedef struct grouping {
    chooser *c;
    uint32_t *group_of;   /* [node_count] the group offer that was taken, INLAY_NONE */
    uint32_t *spans;      /* [node_count] groups taken with nodes before n as well as at n or after it */
    uint32_t *member;     /* [node_count] number of the last walk that had the node in its group */
    uint32_t *seen;       /* [node_count] number of the last walk that came by */
    uint32_t *value_seen; /* [value_count] likewise */
    uint32_t *stack;      /* [node_count] */
    uint32_t stack_count;
    uint32_t walk;
} grouping;

static void push_makers(grouping *x, uint32_t node, bool members_too)
{
    const graph *g = x->c->request->graph;

    for (uint32_t i = 0; i < part_reads(g->nodes[node]); i++) {
        uint32_t maker = part_maker_of(g, part_read_at(g->nodes[node], i));

        if (maker == INLAY_NONE || x->seen[maker] == x->walk || (x->member[maker] == x->walk && !members_too))
            continue;
        x->seen[maker] = x->walk;
        x->stack[x->stack_count++] = maker;
    }
}

/* Does something that the group needs from outside need, by whatever way, something of the group? Walks back from the
 * group's inputs; a group that was taken is entered and left as one. */
static bool closes_circle(grouping *x, const part_offer *offer)
{
    uint32_t floor = offer->nodes[0];

    x->walk++;
    x->stack_count = 0;
    for (uint32_t k = 0; k < offer->node_count; k++)
        x->member[offer->nodes[k]] = x->walk;
    for (uint32_t k = 0; k < offer->node_count; k++)
        push_makers(x, offer->nodes[k], false);
    /* No group reaches across the floor, so what lies below it needs nothing from above. */
    while (x->spans[floor] > 0)
        floor--;
    while (x->stack_count > 0) {
        uint32_t n = x->stack[--x->stack_count], group = x->group_of[n];

        if (x->member[n] == x->walk)
            return true;
        if (n < floor)
            continue;
        if (group == INLAY_NONE) {
            push_makers(x, n, true);
            continue;
        }
        for (uint32_t k = 0; k < x->c->p->offers[group].node_count; k++) {
            x->seen[x->c->p->offers[group].nodes[k]] = x->walk;
            push_makers(x, x->c->p->offers[group].nodes[k], true);
        }
    }
    return false;
}

/* What bringing the group its inputs costs, each once. closes_circle() has marked the members. */
static double group_copy_cost(grouping *x, const part_offer *offer)
{
    const graph *g = x->c->request->graph;
    uint32_t domain = part_default_domain(&x->c->request->providers[offer->provider]);
    double ns = 0;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        const inlay_node_info *n = &g->nodes[offer->nodes[k]]->info;
        for (uint32_t i = 0; i < n->input_count; i++) {
            uint32_t v = n->inputs[i], maker = part_maker_of(g, v);

            if (v == INLAY_NONE || x->value_seen[v] == x->walk || x->c->value_domain[v] == domain ||
                (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0 ||
                (maker != INLAY_NONE && x->member[maker] == x->walk))
                continue;
            x->value_seen[v] = x->walk;
            ns += part_copy_ns(x->c, v, x->c->value_domain[v], domain);
        }
    }
    return ns;
}

static void take_group(grouping *x, uint32_t index)
{
    const part_offer *offer = &x->c->p->offers[index];

    for (uint32_t k = 0; k < offer->node_count; k++)
        x->group_of[offer->nodes[k]] = index;
    for (uint32_t n = offer->nodes[0] + 1; n <= offer->nodes[offer->node_count - 1]; n++)
        x->spans[n]++;
    part_settle(x->c, index);
}

/* Takes the group offer if its nodes are free and it is better than what they have. */
static void weigh_group(grouping *x, uint32_t index, bool only_needed)
{
    chooser *c = x->c;
    const part_request *r = c->request;
    const part_offer *offer = &c->p->offers[index];
    bool needed = false, earlier = false;
    double now_ns = 0;

    for (uint32_t k = 0; k < offer->node_count; k++) {
        uint32_t n = offer->nodes[k], best = c->best[n];

        if (x->group_of[n] != INLAY_NONE)
            return;
        needed |= best == INLAY_NONE;
        now_ns += best == INLAY_NONE ? 0 : c->best_ns[n];
        earlier |= best != INLAY_NONE && c->p->offers[best].provider < offer->provider;
    }
    if (needed != only_needed)
        return;
    if (closes_circle(x, offer)) {
        if (r->log != NULL)
            r->log(r->log_ctx, INLAY_LOG_WARNING, "a group offer was ignored: the group would form a cycle");
        return;
    }
    if (needed || (part_by_priority(r) ? !earlier : part_cheaper(offer->cost.ns + group_copy_cost(x, offer), now_ns)))
        take_group(x, index);
}

inlay_status part_choose_groups(chooser *c, arena *a, inlay_diag *diag)
{
    uint32_t nodes = c->request->snapshot->node_count, values = c->request->snapshot->value_count;
    grouping x = { .c = c };

    x.group_of = arena_array(a, (size_t)nodes + 1, sizeof *x.group_of);
    x.spans = arena_array(a, (size_t)nodes + 1, sizeof *x.spans);
    x.member = arena_array(a, (size_t)nodes + 1, sizeof *x.member);
    x.seen = arena_array(a, (size_t)nodes + 1, sizeof *x.seen);
    x.value_seen = arena_array(a, (size_t)values + 1, sizeof *x.value_seen);
    x.stack = arena_array(a, (size_t)nodes + 1, sizeof *x.stack);
    if (x.group_of == NULL || x.spans == NULL || x.member == NULL || x.seen == NULL || x.value_seen == NULL ||
        x.stack == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to weigh group offers");
    memset(x.group_of, 0xff, nodes * sizeof *x.group_of);
    for (int needed = 1; needed >= 0; needed--)
        for (uint32_t o = 0; o < c->p->offer_count; o++)
            if (c->p->offers[o].node_count > 1 && !part_is_barred(c->request, o))
                weigh_group(&x, o, needed != 0);
    return INLAY_OK;
}
