/* plan/create/compare_rewrites.c - compares the model with and without rewrites.
 *
 * If a provider supports the original nodes but not their replacement, both variants are partitioned. The rewrite stays
 * unless undoing it saves more than the error of the prices. */
#include "plan/create/create.h"
#include "plan/create/undo.h"
#include "partition/cost/cost.h"
#include <stdio.h>
#include <string.h>

enum { MAX_QUERIES = 128, MAX_PASSES = 16 };

/* Decides whether the graphs without a rewrite, partitioned as in `undone`, are kept. */
typedef bool (*accept_fn)(const void *ctx, const struct programs *now, const struct programs *undone);

/* Partitions the graphs of `now`, in which rewrites were undone, and keeps both if `accept` says so; otherwise restores
 * everything. */
static inlay_status try_undone(const struct programs *now, accept_fn accept, const void *ctx,
                               struct program **inout_program, inlay_diag *diag)
{
    struct program *program = *inout_program, *other = NULL;
    inlay_diag quiet = INLAY_DIAG_INIT;
    struct programs undone = { 0 };
    inlay_status status;

    if (!programs_complete(now))
        return INLAY_OK;
    status = program_assign(program->graph, program->env, true, &other, &quiet);
    if (status == INLAY_OK && programs_open(&undone, other) && accept(ctx, now, &undone)) {
        *inout_program = other;
        other = program;
    } else {
        programs_restore(now);
    }
    arena_deinit(&undone.arena);
    program_destroy(other);
    return status == INLAY_OUT_OF_MEMORY || status == INLAY_CANCELLED ? inlay_fail(diag, status, "%s", quiet.text)
                                                                      : INLAY_OK;
}

/* Undoes all rewrites in the bodies of the node, recursively. */
static bool undo_bodies(struct program *program, const graph_node *node, struct arena *arena)
{
    bool any = false;

    for (uint32_t body = 0; body < node->body_count; body++) {
        struct graph *graph = node->bodies[body].graph;
        const uint32_t count = graph->node_count;
        graph_node **nodes = arena_copy(arena, graph->nodes, ((size_t)count + 1) * sizeof(graph_node *));

        for (uint32_t i = 0; nodes != NULL && i < count; i++) {
            any |= undo_bodies(program, nodes[i], arena);
            if (!history_undo(graph, nodes[i]->rewrite))
                continue;
            undo_report(program, nodes[i], "a provider that may run the surrounding node does not support it");
            any = true;
        }
    }
    return any;
}

/* Returns whether the host runs a node that a provider could run if it supported the operators in its bodies. */
static bool runs_on_host_only(const struct program *program, const partition_region *region)
{
    const graph_node *node = program->graph->nodes[region->nodes[0]];

    for (uint32_t i = 0; region->provider == INLAY_NONE && node->body_count > 0 && i < program->env->provider_count;
         i++)
        if (partition_takes_bodies(&program->env->providers[i], program->graph, node))
            return true;
    return false;
}

typedef struct node_list {
    const graph_node **nodes;
    uint32_t count;
} node_list;

/* accept_fn: returns whether a provider runs one of the nodes now. */
static bool takes_any(const void *ctx, const struct programs *now, const struct programs *undone)
{
    const node_list *left = ctx;

    (void)now;
    for (uint32_t i = 0; i < undone->count; i++) {
        const struct program *program = undone->list[i];

        for (uint32_t region = 0; region < program->parts.region_count; region++)
            for (uint32_t k = 0; program->parts.regions[region].provider != INLAY_NONE && k < left->count; k++)
                if (program->graph->nodes[program->parts.regions[region].nodes[0]] == left->nodes[k])
                    return true;
    }
    return false;
}

/* Restores the original bodies of nodes that no provider runs; keeps them if a provider then runs one of the nodes. */
static inlay_status compare_bodies(struct program **inout_program, inlay_diag *diag)
{
    struct program *program = *inout_program;
    inlay_status status = INLAY_OK;
    node_list left = { 0 };
    uint32_t regions = 0;
    bool any = false;
    struct programs all;

    if (!programs_open(&all, program))
        goto done;
    for (uint32_t i = 0; i < all.count; i++)
        regions += all.list[i]->parts.region_count;
    left.nodes = arena_array(&all.arena, (size_t)regions + 1, sizeof *left.nodes);
    for (uint32_t i = 0; left.nodes != NULL && i < all.count; i++)
        for (uint32_t region = 0; region < all.list[i]->parts.region_count; region++)
            if (runs_on_host_only(all.list[i], &all.list[i]->parts.regions[region]))
                left.nodes[left.count++] = all.list[i]->graph->nodes[all.list[i]->parts.regions[region].nodes[0]];
    for (uint32_t k = 0; k < left.count; k++)
        any |= undo_bodies(program, left.nodes[k], &all.arena);
    if (any)
        status = try_undone(&all, takes_any, &left, inout_program, diag);
done:
    arena_deinit(&all.arena);
    return status;
}

struct offer_query {
    const char *op_type, *domain;
    uint32_t provider;
    bool offered;
};

/* A rewrite that takes work from some provider: see makes_idle(). */
struct contested {
    struct program *program;
    const graph_node *made; /* one of the nodes that the rewrite created */
    double margin_ns;       /* error of the prices of its nodes */
};

struct comparison {
    struct programs all;
    struct offer_query queries[MAX_QUERIES];
    uint32_t query_count;
    struct contested *list;
    uint32_t count;
    const char *passes[MAX_PASSES]; /* passes of the contested rewrites, in their order */
    uint32_t pass_count;
    uint8_t *idle; /* [providers] supports the original nodes of some rewrite, but not their replacement */
};

/* Returns whether the provider would offer a removed node. Queries each operator only once. */
static bool would_offer(struct comparison *comparison, const struct program *program, uint32_t provider,
                        const graph_node *node)
{
    struct offer_query *next = &comparison->queries[comparison->query_count];

    for (uint32_t i = 0; i < comparison->query_count; i++)
        if (comparison->queries[i].provider == provider &&
            strcmp(comparison->queries[i].op_type, node->info.op_type.data) == 0 &&
            strcmp(comparison->queries[i].domain, node->info.domain.data) == 0)
            return comparison->queries[i].offered;
    if (comparison->query_count == MAX_QUERIES || node->body_count > 0 || graph_node_is_host(program->graph, node))
        return false;
    *next = (struct offer_query){ node->info.op_type.data, node->info.domain.data, provider,
                                  program_offers(&program->env->providers[provider], program->graph, node) };
    comparison->query_count++;
    return next->offered;
}

/* Returns true if the provider offers a node that the rewrite removed, but none of the nodes that it created. covers:
 * [nodes * providers]. */
static bool makes_idle(struct comparison *comparison, const struct program *program, int64_t rewrite, uint32_t provider,
                       const uint8_t *covers)
{
    const graph_node *node;
    bool offered = false;

    for (uint32_t i = 0; i < program->graph->node_count; i++) {
        node = program->graph->nodes[i];
        if (node->rewrite == rewrite && !program_only_moves(&node->info) &&
            covers[(size_t)i * program->env->provider_count + provider] != 0)
            return false;
    }
    for (uint32_t i = 0; !offered && (node = history_replaced(program->graph, rewrite, i)) != NULL; i++)
        offered = !program_only_moves(&node->info) && would_offer(comparison, program, provider, node);
    return offered;
}

static bool is_listed(const struct comparison *comparison, const struct program *program, int64_t rewrite)
{
    for (uint32_t i = comparison->count; i-- > 0;)
        if (comparison->list[i].program == program && comparison->list[i].made->rewrite == rewrite)
            return true;
    return false;
}

/* The error of the prices of the chosen offers for the rewrite's nodes; for all nodes if rewrite is 0. */
static double margin_of(const struct program *program, int64_t rewrite)
{
    double ns = 0;

    for (uint32_t offer_index = 0; offer_index < program->parts.offer_count; offer_index++) {
        const partition_offer *offer = &program->parts.offers[offer_index];
        bool means = offer->chosen && rewrite == 0;

        for (uint32_t k = 0; offer->chosen && k < offer->node_count; k++)
            means |= program->graph->nodes[offer->nodes[k]]->rewrite == rewrite;
        if (means)
            ns += offer->cost.ns * offer->cost_error;
    }
    return ns;
}

static void add_contested(struct comparison *comparison, struct program *program, const graph_node *node)
{
    uint32_t i = 0;

    comparison->list[comparison->count++] = (struct contested){ program, node, margin_of(program, node->rewrite) };
    while (i < comparison->pass_count && strcmp(comparison->passes[i], node->made_by) != 0)
        i++;
    if (i == comparison->pass_count && i < MAX_PASSES)
        comparison->passes[comparison->pass_count++] = node->made_by;
}

/* Finds the contested rewrites of one graph. False: out of memory. */
static bool find_contested(struct comparison *comparison, struct program *program)
{
    uint32_t providers = program->env->provider_count;
    uint8_t *covers =
        arena_array(&comparison->all.arena, (size_t)program->graph->node_count * providers + 1, sizeof *covers);
    const partition_request request = program_request(program);

    if (covers == NULL)
        return false;
    if (program->parts.idle)
        return true; /* a provider runs the node with this body, so offers for the body's nodes do not matter */
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        for (uint32_t k = 0; k < program->parts.offers[offer].node_count; k++)
            covers[(size_t)program->parts.offers[offer].nodes[k] * providers + program->parts.offers[offer].provider] =
                1;
    for (uint32_t i = 0; i < program->graph->node_count; i++) {
        const graph_node *node = program->graph->nodes[i];
        bool lost = false;

        if (node->rewrite == 0 || program_only_moves(&node->info) || is_listed(comparison, program, node->rewrite))
            continue;
        for (uint32_t k = 0; k < providers; k++) {
            if (covers[(size_t)i * providers + k] != 0 || partition_ban(&request, i, k) != NULL ||
                !makes_idle(comparison, program, node->rewrite, k, covers))
                continue;
            comparison->idle[k] = 1;
            lost = true;
        }
        if (lost)
            add_contested(comparison, program, node);
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

static bool was_in(const graph_saved *saved, const graph_node *node)
{
    for (uint32_t i = 0; i < saved->node_count; i++)
        if (saved->nodes[i] == node)
            return true;
    return false;
}

/* Returns whether an idle provider now runs a restored node. Other differences in cost are not considered. */
static bool is_used(const struct comparison *comparison, const struct programs *others)
{
    for (uint32_t i = 0; i < others->count; i++) {
        const struct program *program = others->list[i];

        for (uint32_t k = 0; k < program->parts.region_count; k++) {
            const partition_region *region = &program->parts.regions[k];

            for (uint32_t m = 0;
                 region->provider != INLAY_NONE && comparison->idle[region->provider] && m < region->node_count; m++)
                if (!was_in(&comparison->all.saved[i], program->graph->nodes[region->nodes[m]]))
                    return true;
        }
    }
    return false;
}

/* The saving required to undo a rewrite: the error of the prices of its nodes, plus, as in marginal_moves.c, a tenth of
 * the error of all prices. */
static double threshold(const struct comparison *comparison, double margin_ns)
{
    for (uint32_t i = 0; i < comparison->all.count; i++)
        margin_ns += margin_of(comparison->all.list[i], 0) / 10;
    return margin_ns;
}

/* Undoing the contested rewrites of one pass. */
struct rewrite_trial {
    const struct comparison *comparison;
    const char *pass;
    double margin_ns; /* error of the prices of the nodes concerned */
};

/* accept_fn: returns whether the model is cheaper without the rewrites of the trial. */
static bool is_cheaper(const void *ctx, const struct programs *now, const struct programs *undone)
{
    const struct rewrite_trial *trial = ctx;
    char why[120];

    if (cost_of(undone) + threshold(trial->comparison, trial->margin_ns) >= cost_of(now) ||
        !is_used(trial->comparison, undone))
        return false;
    (void)snprintf(why, sizeof why, "%.3g ms are expected without it, %.3g ms with it", cost_of(undone) / 1e6,
                   cost_of(now) / 1e6);
    for (uint32_t i = 0; i < trial->comparison->count; i++)
        if (strcmp(trial->comparison->list[i].made->made_by, trial->pass) == 0)
            undo_report(trial->comparison->list[i].program, trial->comparison->list[i].made, why);
    return true;
}

/* Partitions the model without the contested rewrites of the pass, and keeps the result if it is cheaper. */
static inlay_status try_without(const struct comparison *comparison, const char *pass, struct program **inout_program,
                                inlay_diag *diag)
{
    struct rewrite_trial trial = { .comparison = comparison, .pass = pass };
    bool any = false;

    for (uint32_t i = 0; i < comparison->count; i++) {
        if (strcmp(comparison->list[i].made->made_by, pass) != 0 ||
            !history_undo(comparison->list[i].program->graph, comparison->list[i].made->rewrite))
            continue;
        trial.margin_ns += comparison->list[i].margin_ns;
        any = true;
    }
    return any ? try_undone(&comparison->all, is_cheaper, &trial, inout_program, diag) : INLAY_OK;
}

/* Lists the contested rewrites of the program. False: out of memory. */
static bool open_comparison(struct comparison *comparison, struct program *program)
{
    uint32_t nodes = 0;

    *comparison = (struct comparison){ 0 };
    if (!programs_open(&comparison->all, program))
        return false;
    for (uint32_t i = 0; i < comparison->all.count; i++)
        nodes += comparison->all.list[i]->graph->node_count;
    comparison->list = arena_array(&comparison->all.arena, (size_t)nodes + 1, sizeof *comparison->list);
    comparison->idle = arena_alloc(&comparison->all.arena, (size_t)program->env->provider_count + 1);
    if (comparison->list == NULL || comparison->idle == NULL)
        return false;
    for (uint32_t i = 0; i < comparison->all.count; i++)
        if (!find_contested(comparison, comparison->all.list[i]))
            return false;
    return true;
}

static inlay_status compare_costs(struct program **inout_program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    const char *tried[MAX_PASSES];
    uint32_t tried_count = 0;
    bool again = true;

    /* One pass after another; each is compared with the best variant so far. */
    while (status == INLAY_OK && again) {
        struct comparison comparison;

        again = false;
        if (open_comparison(&comparison, *inout_program))
            for (uint32_t i = 0; !again && i < comparison.pass_count && tried_count < MAX_PASSES; i++) {
                uint32_t k = 0;

                while (k < tried_count && strcmp(tried[k], comparison.passes[i]) != 0)
                    k++;
                if (k < tried_count)
                    continue;
                tried[tried_count++] = comparison.passes[i];
                status = try_without(&comparison, comparison.passes[i], inout_program, diag);
                again = true;
            }
        arena_deinit(&comparison.all.arena);
    }
    return status;
}

/* Returns whether prices decide: not if the order of providers or a saved plan decides, or if the guessed sizes are
 * inconsistent. */
static bool has_prices(const program_env *env)
{
    const partition_rules *rules = env->rules;

    return (rules == NULL || (!rules->by_priority && rules->saved_plan == NULL)) &&
           (env->sizes == NULL || !env->sizes->conflict);
}

inlay_status program_compare_rewrites(struct program **inout_program, inlay_diag *diag)
{
    const program_env *env = (*inout_program)->env;
    inlay_status status = INLAY_OK;

    if (env->rules == NULL || env->rules->saved_plan == NULL)
        status = compare_bodies(inout_program, diag);
    if (status == INLAY_OK && has_prices(env))
        status = compare_costs(inout_program, diag);
    return status;
}
