/* plan/create/weigh.c - rewrites that one provider would run, and another one would rather not have.
 *
 * Where a provider runs what was replaced but not what replaced it, both are assigned, and the cheaper stays: what the
 * pass made, unless going back promises more than prices may be off. */
#include "plan/create/create.h"
#include "plan/create/undo.h"
#include "partition/cost/cost.h"
#include <stdio.h>
#include <string.h>

enum { MOST_ASKED = 128, MOST_PASSES = 16 };

/* Are graphs without a rewrite, assigned as in `undone`, to stay? */
typedef bool (*accept_fn)(const void *ctx, const struct programs *now, const struct programs *undone);

/* Assigns the graphs of `now`, in which something was undone, and keeps both where accept says so; otherwise all is as
 * it was. */
static inlay_status try_undone(const struct programs *now, accept_fn accept, const void *ctx,
                               struct program **inout_program, inlay_diag *diag)
{
    struct program *p = *inout_program, *other = NULL;
    inlay_diag quiet = INLAY_DIAG_INIT;
    struct programs undone = { 0 };
    inlay_status status;

    if (!programs_complete(now))
        return INLAY_OK;
    status = program_assign(p->graph, p->env, true, &other, &quiet);
    if (status == INLAY_OK && programs_open(&undone, other) && accept(ctx, now, &undone)) {
        *inout_program = other;
        other = p;
    } else {
        programs_restore(now);
    }
    arena_deinit(&undone.a);
    program_destroy(other);
    return status == INLAY_OUT_OF_MEMORY || status == INLAY_CANCELLED ? inlay_fail(diag, status, "%s", quiet.text)
                                                                      : INLAY_OK;
}

/* ------------------------------------------------------------------ what is in bodies */

/* Undoes all that passes made in the bodies of n and of their nodes. */
static bool undo_bodies(struct program *p, const graph_node *n, struct arena *a)
{
    bool any = false;

    for (uint32_t b = 0; b < n->body_count; b++) {
        struct graph *g = n->bodies[b].graph;
        const uint32_t count = g->node_count;
        graph_node **nodes = arena_copy(a, g->nodes, ((size_t)count + 1) * sizeof(graph_node *));

        for (uint32_t i = 0; nodes != NULL && i < count; i++) {
            any |= undo_bodies(p, nodes[i], a);
            if (!history_undo(g, nodes[i]->rewrite))
                continue;
            undo_report(p, nodes[i], "a provider that may take the node around it does not know it");
            any = true;
        }
    }
    return any;
}

/* Does the host run a node that a provider would take, had its bodies what that knows? */
static bool is_left_out(const struct program *p, const part_region *r)
{
    const graph_node *n = p->graph->nodes[r->nodes[0]];

    for (uint32_t i = 0; r->provider == INLAY_NONE && n->body_count > 0 && i < p->env->provider_count; i++)
        if (part_takes_bodies(&p->env->providers[i], p->graph, n))
            return true;
    return false;
}

typedef struct node_list {
    const graph_node **nodes;
    uint32_t count;
} node_list;

/* accept_fn: does a provider take one of the nodes now? */
static bool takes_any(const void *ctx, const struct programs *now, const struct programs *undone)
{
    const node_list *left = ctx;

    (void)now;
    for (uint32_t i = 0; i < undone->count; i++) {
        const struct program *p = undone->list[i];

        for (uint32_t r = 0; r < p->parts.region_count; r++)
            for (uint32_t k = 0; p->parts.regions[r].provider != INLAY_NONE && k < left->count; k++)
                if (p->graph->nodes[p->parts.regions[r].nodes[0]] == left->nodes[k])
                    return true;
    }
    return false;
}

/* Shows the bodies of nodes that no provider took as the file has them; stays with that where a provider then takes
 * one.
 */
static inlay_status weigh_bodies(struct program **inout_program, inlay_diag *diag)
{
    struct program *p = *inout_program;
    inlay_status status = INLAY_OK;
    node_list left = { 0 };
    uint32_t regions = 0;
    bool any = false;
    struct programs all;

    if (!programs_open(&all, p))
        goto done;
    for (uint32_t i = 0; i < all.count; i++)
        regions += all.list[i]->parts.region_count;
    left.nodes = arena_array(&all.a, (size_t)regions + 1, sizeof *left.nodes);
    for (uint32_t i = 0; left.nodes != NULL && i < all.count; i++)
        for (uint32_t r = 0; r < all.list[i]->parts.region_count; r++)
            if (is_left_out(all.list[i], &all.list[i]->parts.regions[r]))
                left.nodes[left.count++] = all.list[i]->graph->nodes[all.list[i]->parts.regions[r].nodes[0]];
    for (uint32_t k = 0; k < left.count; k++)
        any |= undo_bodies(p, left.nodes[k], &all.a);
    if (any)
        status = try_undone(&all, takes_any, &left, inout_program, diag);
done:
    arena_deinit(&all.a);
    return status;
}

/* ------------------------------------------------------------------ what costs more than it replaced */

struct asked {
    const char *op_type, *domain;
    uint32_t provider;
    bool offered;
};

/* A rewrite that some provider would rather not have. */
struct contested {
    struct program *p;
    const graph_node *made; /* one of its nodes */
    double margin_ns;       /* what the prices of its nodes may be off by */
};

struct weighing {
    struct programs all;
    struct asked asked[MOST_ASKED];
    uint32_t asked_count;
    struct contested *list;
    uint32_t count;
    const char *passes[MOST_PASSES]; /* of the contested, in their order */
    uint32_t pass_count;
    uint8_t *idle; /* [providers] for what some rewrite made, not for what it replaced */
};

/* Would the provider take a node that was taken out? Its operator is what counts; nodes of one operator are asked for
 * once. */
static bool would_offer(struct weighing *w, const struct program *p, uint32_t provider, const graph_node *n)
{
    struct asked *next = &w->asked[w->asked_count];

    for (uint32_t i = 0; i < w->asked_count; i++)
        if (w->asked[i].provider == provider && strcmp(w->asked[i].op_type, n->info.op_type.data) == 0 &&
            strcmp(w->asked[i].domain, n->info.domain.data) == 0)
            return w->asked[i].offered;
    if (w->asked_count == MOST_ASKED || n->body_count > 0 || graph_node_is_host(p->graph, n))
        return false;
    *next = (struct asked){ n->info.op_type.data, n->info.domain.data, provider,
                            program_offers(&p->env->providers[provider], p->graph, n) };
    w->asked_count++;
    return next->offered;
}

/* Does the provider stand idle for what the rewrite made, but not for what it replaced? covers: [nodes * providers]. */
static bool loses(struct weighing *w, const struct program *p, int64_t rewrite, uint32_t provider,
                  const uint8_t *covers)
{
    const graph_node *n;
    bool offered = false;

    for (uint32_t i = 0; i < p->graph->node_count; i++) {
        n = p->graph->nodes[i];
        if (n->rewrite == rewrite && !program_only_moves(&n->info) &&
            covers[(size_t)i * p->env->provider_count + provider] != 0)
            return false;
    }
    for (uint32_t i = 0; !offered && (n = history_replaced(p->graph, rewrite, i)) != NULL; i++)
        offered = !program_only_moves(&n->info) && would_offer(w, p, provider, n);
    return offered;
}

static bool is_listed(const struct weighing *w, const struct program *p, int64_t rewrite)
{
    for (uint32_t i = w->count; i-- > 0;)
        if (w->list[i].p == p && w->list[i].made->rewrite == rewrite)
            return true;
    return false;
}

/* What the price of the chosen offers for the rewrite's nodes may be off by; of all nodes where rewrite is 0. */
static double margin_of(const struct program *p, int64_t rewrite)
{
    double ns = 0;

    for (uint32_t o = 0; o < p->parts.offer_count; o++) {
        const part_offer *offer = &p->parts.offers[o];
        bool means = offer->chosen && rewrite == 0;

        for (uint32_t k = 0; offer->chosen && k < offer->node_count; k++)
            means |= p->graph->nodes[offer->nodes[k]]->rewrite == rewrite;
        if (means)
            ns += offer->cost.ns * offer->cost_error;
    }
    return ns;
}

static void note_contested(struct weighing *w, struct program *p, const graph_node *n)
{
    uint32_t i = 0;

    w->list[w->count++] = (struct contested){ p, n, margin_of(p, n->rewrite) };
    while (i < w->pass_count && strcmp(w->passes[i], n->made_by) != 0)
        i++;
    if (i == w->pass_count && i < MOST_PASSES)
        w->passes[w->pass_count++] = n->made_by;
}

/* Finds the contested rewrites of one graph. False: no memory. */
static bool find_contested(struct weighing *w, struct program *p)
{
    uint32_t providers = p->env->provider_count;
    uint8_t *covers = arena_array(&w->all.a, (size_t)p->graph->node_count * providers + 1, sizeof *covers);
    const part_request request = program_request(p);

    if (covers == NULL)
        return false;
    if (p->parts.idle)
        return true; /* only its provider's answers count */
    for (uint32_t o = 0; o < p->parts.offer_count; o++)
        for (uint32_t k = 0; k < p->parts.offers[o].node_count; k++)
            covers[(size_t)p->parts.offers[o].nodes[k] * providers + p->parts.offers[o].provider] = 1;
    for (uint32_t i = 0; i < p->graph->node_count; i++) {
        const graph_node *n = p->graph->nodes[i];
        bool lost = false;

        if (n->rewrite == 0 || program_only_moves(&n->info) || is_listed(w, p, n->rewrite))
            continue;
        for (uint32_t k = 0; k < providers; k++) {
            if (covers[(size_t)i * providers + k] != 0 || !part_may_run(&request, i, k) ||
                !loses(w, p, n->rewrite, k, covers))
                continue;
            w->idle[k] = 1;
            lost = true;
        }
        if (lost)
            note_contested(w, p, n);
    }
    return true;
}

static double cost_of(const struct programs *all)
{
    double ns = 0;

    for (uint32_t i = 0; i < all->count; i++)
        ns += all->list[i]->parts.cost_ns;
    return ns;
}

static bool was_there(const graph_saved *saved, const graph_node *n)
{
    for (uint32_t i = 0; i < saved->node_count; i++)
        if (saved->nodes[i] == n)
            return true;
    return false;
}

/* Does a provider that stood idle run something of what came back? Whatever else is cheaper then was not asked. */
static bool is_used(const struct weighing *w, const struct programs *others)
{
    for (uint32_t i = 0; i < others->count; i++) {
        const struct program *p = others->list[i];

        for (uint32_t k = 0; k < p->parts.region_count; k++) {
            const part_region *r = &p->parts.regions[k];

            for (uint32_t m = 0; r->provider != INLAY_NONE && w->idle[r->provider] && m < r->node_count; m++)
                if (!was_there(&w->all.saved[i], p->graph->nodes[r->nodes[m]]))
                    return true;
        }
    }
    return false;
}

/* How much must be promised before a rewrite is undone: what the prices of its nodes may be off by, and, as elsewhere
 * (steady.c), a tenth of that of all. */
static double threshold(const struct weighing *w, double margin_ns)
{
    for (uint32_t i = 0; i < w->all.count; i++)
        margin_ns += margin_of(w->all.list[i], 0) / 10;
    return margin_ns;
}

/* What one pass made of the contested nodes. */
struct trial {
    const struct weighing *w;
    const char *pass;
    double margin_ns; /* what the prices of its nodes may be off by */
};

/* accept_fn: is that cheaper? */
static bool is_cheaper(const void *ctx, const struct programs *now, const struct programs *undone)
{
    const struct trial *t = ctx;
    char why[120];

    if (cost_of(undone) + threshold(t->w, t->margin_ns) >= cost_of(now) || !is_used(t->w, undone))
        return false;
    (void)snprintf(why, sizeof why, "%.3g ms are expected without it, %.3g ms with it", cost_of(undone) / 1e6,
                   cost_of(now) / 1e6);
    for (uint32_t i = 0; i < t->w->count; i++)
        if (strcmp(t->w->list[i].made->made_by, t->pass) == 0)
            undo_report(t->w->list[i].p, t->w->list[i].made, why);
    return true;
}

/* Assigns the model without what the pass made of the contested nodes, and takes that if it is cheaper. */
static inlay_status try_without(const struct weighing *w, const char *pass, struct program **inout_program,
                                inlay_diag *diag)
{
    struct trial t = { .w = w, .pass = pass };
    bool any = false;

    for (uint32_t i = 0; i < w->count; i++) {
        if (strcmp(w->list[i].made->made_by, pass) != 0 || !history_undo(w->list[i].p->graph, w->list[i].made->rewrite))
            continue;
        t.margin_ns += w->list[i].margin_ns;
        any = true;
    }
    return any ? try_undone(&w->all, is_cheaper, &t, inout_program, diag) : INLAY_OK;
}

/* Makes the list of what is contested in *inout_program. False: no memory. */
static bool open_weighing(struct weighing *w, struct program *p)
{
    uint32_t nodes = 0;

    *w = (struct weighing){ 0 };
    if (!programs_open(&w->all, p))
        return false;
    for (uint32_t i = 0; i < w->all.count; i++)
        nodes += w->all.list[i]->graph->node_count;
    w->list = arena_array(&w->all.a, (size_t)nodes + 1, sizeof *w->list);
    w->idle = arena_alloc(&w->all.a, (size_t)p->env->provider_count + 1);
    if (w->list == NULL || w->idle == NULL)
        return false;
    for (uint32_t i = 0; i < w->all.count; i++)
        if (!find_contested(w, w->all.list[i]))
            return false;
    return true;
}

static inlay_status weigh_costs(struct program **inout_program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    const char *tried[MOST_PASSES];
    uint32_t tried_count = 0;
    bool again = true;

    /* One pass after the other; each against what is best so far. */
    while (status == INLAY_OK && again) {
        struct weighing w;

        again = false;
        if (open_weighing(&w, *inout_program))
            for (uint32_t i = 0; !again && i < w.pass_count && tried_count < MOST_PASSES; i++) {
                uint32_t k = 0;

                while (k < tried_count && strcmp(tried[k], w.passes[i]) != 0)
                    k++;
                if (k < tried_count)
                    continue;
                tried[tried_count++] = w.passes[i];
                status = try_without(&w, w.passes[i], inout_program, diag);
                again = true;
            }
        arena_deinit(&w.all.a);
    }
    return status;
}

/* Is there something to weigh by? Not where the order of providers or a plan decides, nor where guessed sizes do not go
 * together. */
static bool has_prices(const program_env *env)
{
    const part_rules *rules = env->rules;

    return (rules == NULL || (!rules->by_priority && rules->saved_plan == NULL)) &&
           (env->sizes == NULL || !env->sizes->conflict);
}

inlay_status program_weigh_rewrites(struct program **inout_program, inlay_diag *diag)
{
    const program_env *env = (*inout_program)->env;
    inlay_status status = INLAY_OK;

    if (env->rules == NULL || env->rules->saved_plan == NULL)
        status = weigh_bodies(inout_program, diag);
    if (status == INLAY_OK && has_prices(env))
        status = weigh_costs(inout_program, diag);
    return status;
}
