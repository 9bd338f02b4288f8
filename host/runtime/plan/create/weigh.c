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

/* ------------------------------------------------------------------ what is in bodies */

/* Undoes all that passes made in the bodies of node and of their nodes. */
static bool undo_bodies(struct program *program, const graph_node *node, struct arena *arena)
{
    bool any = false;

    for (uint32_t b = 0; b < node->body_count; b++) {
        struct graph *graph = node->bodies[b].graph;
        const uint32_t count = graph->node_count;
        graph_node **nodes = arena_copy(arena, graph->nodes, ((size_t)count + 1) * sizeof(graph_node *));

        for (uint32_t i = 0; nodes != NULL && i < count; i++) {
            any |= undo_bodies(program, nodes[i], arena);
            if (!history_undo(graph, nodes[i]->rewrite))
                continue;
            undo_report(program, nodes[i], "a provider that may take the node around it does not know it");
            any = true;
        }
    }
    return any;
}

/* Does the host run a node that a provider would take, had its bodies what that knows? */
static bool is_left_out(const struct program *program, const partition_region *region)
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

/* accept_fn: does a provider take one of the nodes now? */
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

/* Shows the bodies of nodes that no provider took as the file has them; stays with that where a provider then takes
 * one.
 */
static inlay_status weigh_bodies(struct program **inout_program, inlay_diag *diag)
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
            if (is_left_out(all.list[i], &all.list[i]->parts.regions[region]))
                left.nodes[left.count++] = all.list[i]->graph->nodes[all.list[i]->parts.regions[region].nodes[0]];
    for (uint32_t k = 0; k < left.count; k++)
        any |= undo_bodies(program, left.nodes[k], &all.arena);
    if (any)
        status = try_undone(&all, takes_any, &left, inout_program, diag);
done:
    arena_deinit(&all.arena);
    return status;
}

/* ------------------------------------------------------------------ what costs more than it replaced */

struct bound_query {
    const char *op_type, *domain;
    uint32_t provider;
    bool offered;
};

/* A rewrite that some provider would rather not have. */
struct contested {
    struct program *program;
    const graph_node *made; /* one of its nodes */
    double margin_ns;       /* what the prices of its nodes may be off by */
};

struct weighing {
    struct programs all;
    struct bound_query asked[MOST_ASKED];
    uint32_t asked_count;
    struct contested *list;
    uint32_t count;
    const char *passes[MOST_PASSES]; /* of the contested, in their order */
    uint32_t pass_count;
    uint8_t *idle; /* [providers] for what some rewrite made, not for what it replaced */
};

/* Would the provider take a node that was taken out? Its operator is what counts; nodes of one operator are asked for
 * once. */
static bool would_offer(struct weighing *weighing, const struct program *program, uint32_t provider,
                        const graph_node *node)
{
    struct bound_query *next = &weighing->asked[weighing->asked_count];

    for (uint32_t i = 0; i < weighing->asked_count; i++)
        if (weighing->asked[i].provider == provider &&
            strcmp(weighing->asked[i].op_type, node->info.op_type.data) == 0 &&
            strcmp(weighing->asked[i].domain, node->info.domain.data) == 0)
            return weighing->asked[i].offered;
    if (weighing->asked_count == MOST_ASKED || node->body_count > 0 || graph_node_is_host(program->graph, node))
        return false;
    *next = (struct bound_query){ node->info.op_type.data, node->info.domain.data, provider,
                                  program_offers(&program->env->providers[provider], program->graph, node) };
    weighing->asked_count++;
    return next->offered;
}

/* Does the provider stand idle for what the rewrite made, but not for what it replaced? covers: [nodes * providers]. */
static bool loses(struct weighing *weighing, const struct program *program, int64_t rewrite, uint32_t provider,
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
        offered = !program_only_moves(&node->info) && would_offer(weighing, program, provider, node);
    return offered;
}

static bool is_listed(const struct weighing *weighing, const struct program *program, int64_t rewrite)
{
    for (uint32_t i = weighing->count; i-- > 0;)
        if (weighing->list[i].program == program && weighing->list[i].made->rewrite == rewrite)
            return true;
    return false;
}

/* What the price of the chosen offers for the rewrite's nodes may be off by; of all nodes where rewrite is 0. */
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

static void note_contested(struct weighing *weighing, struct program *program, const graph_node *node)
{
    uint32_t i = 0;

    weighing->list[weighing->count++] = (struct contested){ program, node, margin_of(program, node->rewrite) };
    while (i < weighing->pass_count && strcmp(weighing->passes[i], node->made_by) != 0)
        i++;
    if (i == weighing->pass_count && i < MOST_PASSES)
        weighing->passes[weighing->pass_count++] = node->made_by;
}

/* Finds the contested rewrites of one graph. False: no memory. */
static bool find_contested(struct weighing *weighing, struct program *program)
{
    uint32_t providers = program->env->provider_count;
    uint8_t *covers =
        arena_array(&weighing->all.arena, (size_t)program->graph->node_count * providers + 1, sizeof *covers);
    const partition_request request = program_request(program);

    if (covers == NULL)
        return false;
    if (program->parts.idle)
        return true; /* only its provider's answers count */
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        for (uint32_t k = 0; k < program->parts.offers[offer].node_count; k++)
            covers[(size_t)program->parts.offers[offer].nodes[k] * providers + program->parts.offers[offer].provider] =
                1;
    for (uint32_t i = 0; i < program->graph->node_count; i++) {
        const graph_node *node = program->graph->nodes[i];
        bool lost = false;

        if (node->rewrite == 0 || program_only_moves(&node->info) || is_listed(weighing, program, node->rewrite))
            continue;
        for (uint32_t k = 0; k < providers; k++) {
            if (covers[(size_t)i * providers + k] != 0 || !partition_may_run(&request, i, k) ||
                !loses(weighing, program, node->rewrite, k, covers))
                continue;
            weighing->idle[k] = 1;
            lost = true;
        }
        if (lost)
            note_contested(weighing, program, node);
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

static bool was_there(const graph_saved *saved, const graph_node *node)
{
    for (uint32_t i = 0; i < saved->node_count; i++)
        if (saved->nodes[i] == node)
            return true;
    return false;
}

/* Does a provider that stood idle run something of what came back? Whatever else is cheaper then was not asked. */
static bool is_used(const struct weighing *weighing, const struct programs *others)
{
    for (uint32_t i = 0; i < others->count; i++) {
        const struct program *program = others->list[i];

        for (uint32_t k = 0; k < program->parts.region_count; k++) {
            const partition_region *region = &program->parts.regions[k];

            for (uint32_t m = 0;
                 region->provider != INLAY_NONE && weighing->idle[region->provider] && m < region->node_count; m++)
                if (!was_there(&weighing->all.saved[i], program->graph->nodes[region->nodes[m]]))
                    return true;
        }
    }
    return false;
}

/* How much must be promised before a rewrite is undone: what the prices of its nodes may be off by, and, as elsewhere
 * (steady.c), a tenth of that of all. */
static double threshold(const struct weighing *weighing, double margin_ns)
{
    for (uint32_t i = 0; i < weighing->all.count; i++)
        margin_ns += margin_of(weighing->all.list[i], 0) / 10;
    return margin_ns;
}

/* What one pass made of the contested nodes. */
struct trial {
    const struct weighing *weighing;
    const char *pass;
    double margin_ns; /* what the prices of its nodes may be off by */
};

/* accept_fn: is that cheaper? */
static bool is_cheaper(const void *ctx, const struct programs *now, const struct programs *undone)
{
    const struct trial *trial = ctx;
    char why[120];

    if (cost_of(undone) + threshold(trial->weighing, trial->margin_ns) >= cost_of(now) ||
        !is_used(trial->weighing, undone))
        return false;
    (void)snprintf(why, sizeof why, "%.3g ms are expected without it, %.3g ms with it", cost_of(undone) / 1e6,
                   cost_of(now) / 1e6);
    for (uint32_t i = 0; i < trial->weighing->count; i++)
        if (strcmp(trial->weighing->list[i].made->made_by, trial->pass) == 0)
            undo_report(trial->weighing->list[i].program, trial->weighing->list[i].made, why);
    return true;
}

/* Assigns the model without what the pass made of the contested nodes, and takes that if it is cheaper. */
static inlay_status try_without(const struct weighing *weighing, const char *pass, struct program **inout_program,
                                inlay_diag *diag)
{
    struct trial trial = { .weighing = weighing, .pass = pass };
    bool any = false;

    for (uint32_t i = 0; i < weighing->count; i++) {
        if (strcmp(weighing->list[i].made->made_by, pass) != 0 ||
            !history_undo(weighing->list[i].program->graph, weighing->list[i].made->rewrite))
            continue;
        trial.margin_ns += weighing->list[i].margin_ns;
        any = true;
    }
    return any ? try_undone(&weighing->all, is_cheaper, &trial, inout_program, diag) : INLAY_OK;
}

/* Makes the list of what is contested in *inout_program. False: no memory. */
static bool open_weighing(struct weighing *weighing, struct program *program)
{
    uint32_t nodes = 0;

    *weighing = (struct weighing){ 0 };
    if (!programs_open(&weighing->all, program))
        return false;
    for (uint32_t i = 0; i < weighing->all.count; i++)
        nodes += weighing->all.list[i]->graph->node_count;
    weighing->list = arena_array(&weighing->all.arena, (size_t)nodes + 1, sizeof *weighing->list);
    weighing->idle = arena_alloc(&weighing->all.arena, (size_t)program->env->provider_count + 1);
    if (weighing->list == NULL || weighing->idle == NULL)
        return false;
    for (uint32_t i = 0; i < weighing->all.count; i++)
        if (!find_contested(weighing, weighing->all.list[i]))
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
        struct weighing weighing;

        again = false;
        if (open_weighing(&weighing, *inout_program))
            for (uint32_t i = 0; !again && i < weighing.pass_count && tried_count < MOST_PASSES; i++) {
                uint32_t k = 0;

                while (k < tried_count && strcmp(tried[k], weighing.passes[i]) != 0)
                    k++;
                if (k < tried_count)
                    continue;
                tried[tried_count++] = weighing.passes[i];
                status = try_without(&weighing, weighing.passes[i], inout_program, diag);
                again = true;
            }
        arena_deinit(&weighing.all.arena);
    }
    return status;
}

/* Is there something to weigh by? Not where the order of providers or a plan decides, nor where guessed sizes do not go
 * together. */
static bool has_prices(const program_env *env)
{
    const partition_rules *rules = env->rules;

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
