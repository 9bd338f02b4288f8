/* What the figures of inlay_tune() change: the cost of the assignment before and after, and the nodes that move. */
#include "base/memory.h"
#include "measure/tune.h"

/* The main graph's offers at the prices of a book; memory is the tuning's. */
static bool price_again(struct tuning *t, const cost_book *book, struct partition *out)
{
    const struct tuned *g = &t->graphs[0];
    const struct program *p = g->program;

    *out = p->parts;
    out->profile = g->values;
    out->offers = arena_array(&t->a, (size_t)p->parts.offer_count + 1, sizeof *out->offers);
    for (uint32_t o = 0; out->offers != NULL && o < p->parts.offer_count; o++) {
        cost_question q = { .graph = &p->snapshot,
                            .provider = &p->env->providers[p->parts.offers[o].provider],
                            .offer = &p->parts.offers[o],
                            .values = g->values,
                            .max_threads = p->env->max_threads,
                            .priced_threads = COST_THREADS,
                            .weight_bytes = p->parts.weight_bytes };
        out->offers[o] = p->parts.offers[o];
        out->offers[o].cost_source = cost_of_offer(book, &q, &out->offers[o].cost, &out->offers[o].cost_error);
    }
    return out->offers != NULL;
}

/* What the session's own assignment costs at these prices. */
static double assignment_ns(const struct tuning *t, const cost_book *book, const struct partition *priced)
{
    const struct program *p = t->graphs[0].program;
    double ns = 0;

    for (uint32_t i = 0; i < p->parts.region_count; i++) {
        const part_region *r = &p->parts.regions[i];
        if (r->provider != INLAY_NONE)
            ns += cost_launch_ns(book, &p->env->providers[r->provider]);
        for (uint32_t k = 0; k < r->offer_count; k++)
            ns += priced->offers[r->offers[k]].cost.ns;
    }
    for (uint32_t i = 0; i < p->parts.copy_count; i++) {
        const part_copy *c = &p->parts.copies[i];
        ns += cost_copy_ns(book, p->env->providers, p->env->provider_count, c->from_domain, c->to_domain,
                           cost_value_bytes(&t->graphs[0].values[c->value]));
    }
    return ns;
}

/* [node_count] the offer that runs each node, INLAY_NONE for the host's. NULL: no memory. */
static uint32_t *offer_of_nodes(struct tuning *t, const struct partition *parts)
{
    uint32_t nodes = t->graphs[0].program->graph->node_count;
    uint32_t *offer = arena_array(&t->a, (size_t)nodes + 1, sizeof *offer);

    for (uint32_t n = 0; offer != NULL && n < nodes; n++)
        offer[n] = INLAY_NONE;
    for (uint32_t i = 0; offer != NULL && i < parts->region_count; i++) {
        const part_region *r = &parts->regions[i];
        for (uint32_t k = 0; k < r->offer_count; k++)
            for (uint32_t m = 0; m < parts->offers[r->offers[k]].node_count; m++)
                offer[parts->offers[r->offers[k]].nodes[m]] = r->offers[k];
    }
    return offer;
}

static inlay_status tell_changes(struct tuning *t, const struct partition *priced, const struct partition *after)
{
    const struct program *p = t->graphs[0].program;
    uint32_t *was = offer_of_nodes(t, &p->parts), *is = offer_of_nodes(t, after);

    if (was == NULL || is == NULL)
        return no_memory(t->diag, "to tune");
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        const part_offer *from = was[n] == INLAY_NONE ? NULL : &priced->offers[was[n]];
        const part_offer *to = is[n] == INLAY_NONE ? NULL : &priced->offers[is[n]];
        inlay_tune_change change = { .struct_size = sizeof change };

        if (from == NULL || to == NULL || from->provider == to->provider)
            continue;
        t->result.changed_count++;
        change.node = p->graph->nodes[n]->info.name.data;
        change.op_type = p->graph->nodes[n]->info.op_type.data;
        change.from = p->env->providers[from->provider].name;
        change.to = p->env->providers[to->provider].name;
        change.from_ns = from->cost.ns;
        change.to_ns = to->cost.ns;
        if (t->how.change != NULL)
            t->how.change(t->how.change_user, &change);
    }
    return INLAY_OK;
}

inlay_status tune_compare(struct tuning *t, const char *folder)
{
    const struct program *p = t->graphs[0].program;
    const program_env *env = p->env;
    cost_book_request open = { .folder = folder,
                               .providers = env->providers,
                               .provider_count = env->provider_count,
                               .max_threads = env->max_threads };
    part_request again = { .graph = p->graph,
                           .snapshot = &p->snapshot,
                           .providers = env->providers,
                           .provider_count = env->provider_count,
                           .max_threads = env->max_threads,
                           .rules = env->rules };
    struct partition before, now, after;
    cost_book *book = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(cost_book_open(&open, &book, t->diag));
    if (!price_again(t, env->costs, &before) || !price_again(t, book, &now)) {
        status = no_memory(t->diag, "to tune");
        goto done;
    }
    again.costs = book;
    t->result.before_ns = assignment_ns(t, env->costs, &before);
    t->result.measured_ns = assignment_ns(t, book, &now);
    INLAY_TRY(partition_again(&again, &now, &t->a, &after, t->diag));
    t->result.after_ns = after.cost_ns;
    INLAY_TRY(tell_changes(t, &now, &after));
done:
    cost_book_close(book);
    return status;
}
