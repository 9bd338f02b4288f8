#include "plan/create/settle.h"
#include "graph/history.h"
#include "partition/cost/cost.h"
#include "partition/assign/saved.h"
#include <string.h>

enum { MOST_ASKED = 128, MOST_PASSES = 16 };

/* ------------------------------------------------------------------ all graphs of a model */

/* The programs of a model: the main one, then those of its bodies, to any depth. */
typedef struct programs {
    program **list;     /* [count] */
    graph_saved *saved; /* [count] */
    uint32_t count;
    arena a;
} programs;

static void list_programs(programs *all, program *p)
{
    all->list[all->count++] = p;
    for (uint32_t i = 0; i < p->body_count; i++)
        list_programs(all, p->bodies[i]);
}

/* Lists them and saves their graphs; false: no memory. */
static bool open_programs(programs *all, program *p)
{
    uint32_t count = program_count(p);
    bool saved = true;

    *all = (programs){ 0 };
    all->list = arena_array(&all->a, count, sizeof(program *));
    all->saved = arena_array(&all->a, count, sizeof *all->saved);
    if (all->list == NULL || all->saved == NULL)
        return false;
    list_programs(all, p);
    for (uint32_t i = 0; saved && i < count; i++)
        saved = history_save(all->list[i]->graph, &all->a, &all->saved[i]);
    return saved;
}

static void restore(const programs *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        history_restore(all->list[i]->graph, &all->saved[i]);
}

/* After something was undone: orders and shapes anew. False: it does not hold together, and all is as it was. */
static bool complete(const programs *all)
{
    graph_model *model = all->list[0]->model;

    if (graph_finish(model->main, NULL) == INLAY_OK && graph_infer(model, NULL) == INLAY_OK)
        return true;
    restore(all);
    return false;
}

static void say(const program *p, const graph_node *n, const char *why)
{
    char text[320];

    if (p->env->log == NULL)
        return;
    (void)snprintf(text, sizeof text, "what pass %s made of '%.100s' (%.40s) was undone: %.120s", n->made_by,
                   n->info.name.data, n->info.op_type.data, why);
    p->env->log(p->env->log_ctx, INLAY_LOG_INFO, text);
}

/* ------------------------------------------------------------------ what nobody may run */

/* Undoes the rewrites that made the nodes in open [node_count]; NULL: none. */
static bool undo_listed(program *p, const uint8_t *open, const char *why, arena *a)
{
    uint32_t count = p->graph->node_count;
    graph_node **nodes = arena_copy(a, p->graph->nodes, ((size_t)count + 1) * sizeof(graph_node *));
    bool any = false;

    for (uint32_t n = 0; open != NULL && nodes != NULL && n < count; n++) {
        if (!open[n] || nodes[n]->rewrite == 0 || !history_undo(p->graph, nodes[n]->rewrite))
            continue;
        say(p, nodes[n], why);
        any = true;
    }
    return any;
}

static bool undo_uncovered(program *p, arena *a)
{
    const part_request request = { .graph = p->graph,
                                   .snapshot = &p->snapshot,
                                   .providers = p->env->providers,
                                   .provider_count = p->env->provider_count,
                                   .rules = p->env->rules };
    const uint8_t *open = p->parts.profile != NULL ? part_uncovered(&request, &p->parts, a) : NULL;

    return undo_listed(p, open, "no provider that may run it knows it", a);
}

static bool undo_unrunnable(program *p)
{
    programs all;
    bool any = false;

    if (open_programs(&all, p))
        for (uint32_t i = 0; i < all.count; i++)
            any |= undo_uncovered(all.list[i], &all.a);
    any = any && complete(&all);
    arena_deinit(&all.a);
    return any;
}

/* ------------------------------------------------------------------ what is in bodies */

/* Undoes all that passes made in the bodies of n and of their nodes. */
static bool undo_bodies(program *p, const graph_node *n, arena *a)
{
    bool any = false;

    for (uint32_t b = 0; b < n->body_count; b++) {
        graph *g = n->bodies[b].graph;
        uint32_t count = g->node_count;
        graph_node **nodes = arena_copy(a, g->nodes, ((size_t)count + 1) * sizeof(graph_node *));

        for (uint32_t i = 0; nodes != NULL && i < count; i++) {
            any |= undo_bodies(p, nodes[i], a);
            if (nodes[i]->rewrite == 0 || !history_undo(g, nodes[i]->rewrite))
                continue;
            say(p, nodes[i], "a provider that may take the node around it does not know it");
            any = true;
        }
    }
    return any;
}

/* Does the host run a node that a provider would take, had its bodies what that knows? */
static bool is_left_out(const program *p, const part_region *r)
{
    const graph_node *n = p->graph->nodes[r->nodes[0]];

    for (uint32_t i = 0; r->provider == INLAY_NONE && n->body_count > 0 && i < p->env->provider_count; i++)
        if (part_takes_bodies(&p->env->providers[i], p->graph, n))
            return true;
    return false;
}

static bool takes_any(const programs *all, const graph_node *const *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const program *p = all->list[i];

        for (uint32_t r = 0; r < p->parts.region_count; r++)
            for (uint32_t k = 0; p->parts.regions[r].provider != INLAY_NONE && k < count; k++)
                if (p->graph->nodes[p->parts.regions[r].nodes[0]] == nodes[k])
                    return true;
    }
    return false;
}

/* Shows the bodies of nodes that nobody took as the file has them; stays with that where it makes somebody take one. */
static inlay_status settle_bodies(program **inout_program, inlay_diag *diag)
{
    program *p = *inout_program, *other = NULL;
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    programs all, others = { 0 };
    const graph_node **left = NULL;
    uint32_t count = 0, regions = 0;
    bool any = false;

    if (!open_programs(&all, p))
        goto done;
    for (uint32_t i = 0; i < all.count; i++)
        regions += all.list[i]->parts.region_count;
    left = arena_array(&all.a, (size_t)regions + 1, sizeof *left);
    for (uint32_t i = 0; left != NULL && i < all.count; i++)
        for (uint32_t r = 0; r < all.list[i]->parts.region_count; r++)
            if (is_left_out(all.list[i], &all.list[i]->parts.regions[r]))
                left[count++] = all.list[i]->graph->nodes[all.list[i]->parts.regions[r].nodes[0]];
    for (uint32_t k = 0; k < count; k++)
        any |= undo_bodies(p, left[k], &all.a);
    if (!any || !complete(&all))
        goto done;
    status = program_assign(p->graph, p->env, true, &other, &quiet);
    if (status == INLAY_OK && open_programs(&others, other) && takes_any(&others, left, count)) {
        *inout_program = other;
        other = p;
    } else {
        restore(&all);
    }
    arena_deinit(&others.a);
    program_destroy(other);
    status = status == INLAY_OUT_OF_MEMORY || status == INLAY_CANCELLED ? inlay_fail(diag, status, "%s", quiet.text)
                                                                        : INLAY_OK;
done:
    arena_deinit(&all.a);
    return status;
}

/* ------------------------------------------------------------------ what a plan names */

/* Undoes what passes made of nodes that the plan names, and what they made that it does not. */
static bool undo_unplanned(program *p, const names_table *planned, arena *a)
{
    uint32_t count = p->graph->node_count;
    graph_node **nodes = arena_copy(a, p->graph->nodes, ((size_t)count + 1) * sizeof(graph_node *));
    bool any = false;

    for (uint32_t n = 0; nodes != NULL && n < count; n++) {
        const inlay_str *name = &nodes[n]->info.name;
        const graph_node *was;
        bool wanted = graph_node_is_host(p->graph, nodes[n]) ||
                      names_find(planned, name->data, (size_t)name->bytes) != NAMES_NONE;

        for (uint32_t i = 0; wanted && (was = history_replaced(p->graph, nodes[n]->rewrite, i)) != NULL; i++)
            wanted = strcmp(was->info.name.data, name->data) == 0 ||
                     names_find(planned, was->info.name.data, (size_t)was->info.name.bytes) == NAMES_NONE;
        if (nodes[n]->rewrite == 0 || wanted || !history_undo(p->graph, nodes[n]->rewrite))
            continue;
        say(p, nodes[n], "the saved plan names the nodes that were there before");
        any = true;
    }
    return any;
}

static bool undo_for_plan(program *p)
{
    const part_job job = { .path = p->path,
                           .request = { .graph = p->graph,
                                        .snapshot = &p->snapshot,
                                        .providers = p->env->providers,
                                        .provider_count = p->env->provider_count,
                                        .rules = p->env->rules } };
    saved_plan *plan = NULL;
    programs all = { 0 };
    bool any = false;

    if (saved_plan_open(&job, &plan, NULL) == INLAY_OK && open_programs(&all, p))
        for (uint32_t i = 0; i < all.count; i++) {
            names_table planned = { 0 };

            if (saved_plan_names(plan, all.list[i]->path, &planned))
                any |= undo_unplanned(all.list[i], &planned, &all.a);
            names_deinit(&planned);
        }
    any = any && complete(&all);
    arena_deinit(&all.a);
    saved_plan_close(plan);
    return any;
}

/* ------------------------------------------------------------------ what costs more than it replaced */

typedef struct asked {
    const char *op_type, *domain;
    uint32_t provider;
    bool offered;
} asked;

/* A rewrite that some provider would rather not have. */
typedef struct contested {
    program *p;
    const graph_node *made; /* one of its nodes */
    double margin_ns;       /* what the prices of its nodes may be off by */
} contested;

typedef struct weighing {
    programs all;
    asked asked[MOST_ASKED];
    uint32_t asked_count;
    contested *list;
    uint32_t count;
    const char *passes[MOST_PASSES]; /* of the contested, in their order */
    uint32_t pass_count;
    uint8_t *idle; /* [providers] for what some rewrite made, not for what it replaced */
} weighing;

/* Would the provider take a node that was taken out? Its operator is what counts; nodes of one operator are asked for
 * once. */
static bool would_offer(weighing *w, const program *p, uint32_t provider, const graph_node *n)
{
    asked *next = &w->asked[w->asked_count];

    for (uint32_t i = 0; i < w->asked_count; i++)
        if (w->asked[i].provider == provider && strcmp(w->asked[i].op_type, n->info.op_type.data) == 0 &&
            strcmp(w->asked[i].domain, n->info.domain.data) == 0)
            return w->asked[i].offered;
    if (w->asked_count == MOST_ASKED || n->body_count > 0 || graph_node_is_host(p->graph, n))
        return false;
    *next = (asked){ n->info.op_type.data, n->info.domain.data, provider,
                     program_offers(&p->env->providers[provider], p->graph, n) };
    w->asked_count++;
    return next->offered;
}

/* Does the provider stand idle for what the rewrite made, but not for what it replaced? covers: [nodes * providers]. */
static bool loses(weighing *w, const program *p, int64_t rewrite, uint32_t provider, const uint8_t *covers)
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

static bool is_listed(const weighing *w, const program *p, int64_t rewrite)
{
    for (uint32_t i = w->count; i-- > 0;)
        if (w->list[i].p == p && w->list[i].made->rewrite == rewrite)
            return true;
    return false;
}

/* What the price of the chosen offers for the rewrite's nodes may be off by; of all nodes where rewrite is 0. */
static double margin_of(const program *p, int64_t rewrite)
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

static void note_contested(weighing *w, program *p, const graph_node *n)
{
    uint32_t i = 0;

    w->list[w->count++] = (contested){ p, n, margin_of(p, n->rewrite) };
    while (i < w->pass_count && strcmp(w->passes[i], n->made_by) != 0)
        i++;
    if (i == w->pass_count && i < MOST_PASSES)
        w->passes[w->pass_count++] = n->made_by;
}

/* Finds the contested rewrites of one graph. False: no memory. */
static bool find_contested(weighing *w, program *p)
{
    uint32_t providers = p->env->provider_count;
    uint8_t *covers = arena_array(&w->all.a, (size_t)p->graph->node_count * providers + 1, sizeof *covers);
    const part_request request = { .graph = p->graph,
                                   .snapshot = &p->snapshot,
                                   .providers = p->env->providers,
                                   .provider_count = providers,
                                   .rules = p->env->rules };

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

static double cost_of(const programs *all)
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
static bool is_used(const weighing *w, const programs *others)
{
    for (uint32_t i = 0; i < others->count; i++) {
        const program *p = others->list[i];

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
static double threshold(const weighing *w, double margin_ns)
{
    for (uint32_t i = 0; i < w->all.count; i++)
        margin_ns += margin_of(w->all.list[i], 0) / 10;
    return margin_ns;
}

/* Assigns the model without what the pass made of the contested nodes, and takes that if it is cheaper. */
static inlay_status try_without(const weighing *w, const char *pass, program **inout_program, inlay_diag *diag)
{
    program *p = *inout_program, *other = NULL;
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    double margin_ns = 0;
    programs others = { 0 };
    bool any = false, better = false;
    char why[120];

    for (uint32_t i = 0; i < w->count; i++) {
        if (strcmp(w->list[i].made->made_by, pass) != 0 || !history_undo(w->list[i].p->graph, w->list[i].made->rewrite))
            continue;
        margin_ns += w->list[i].margin_ns;
        any = true;
    }
    if (!any || !complete(&w->all))
        return INLAY_OK;
    status = program_assign(p->graph, p->env, true, &other, &quiet);
    if (status == INLAY_OK && open_programs(&others, other))
        better = cost_of(&others) + threshold(w, margin_ns) < cost_of(&w->all) && is_used(w, &others);
    if (better) {
        (void)snprintf(why, sizeof why, "%.3g ms are expected without it, %.3g ms with it", cost_of(&others) / 1e6,
                       cost_of(&w->all) / 1e6);
        for (uint32_t i = 0; i < w->count; i++)
            if (strcmp(w->list[i].made->made_by, pass) == 0)
                say(p, w->list[i].made, why);
        *inout_program = other;
        other = p;
    } else {
        restore(&w->all);
    }
    arena_deinit(&others.a);
    program_destroy(other);
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_CANCELLED)
        return inlay_fail(diag, status, "%s", quiet.text);
    return INLAY_OK;
}

/* Makes the list of what is contested in *inout_program. False: no memory. */
static bool open_weighing(weighing *w, program *p)
{
    uint32_t nodes = 0;

    *w = (weighing){ 0 };
    if (!open_programs(&w->all, p))
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

static inlay_status weigh(program **inout_program, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    const char *tried[MOST_PASSES];
    uint32_t tried_count = 0;
    bool again = true;

    /* One pass after the other; each against what is best so far. */
    while (status == INLAY_OK && again) {
        weighing w;

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

/* Can such a failure be due to what passes made? */
static bool may_undo(inlay_status status, const program_env *env)
{
    return status == INLAY_UNSUPPORTED ||
           (status == INLAY_INVALID_ARGUMENT && env->rules != NULL && env->rules->saved_plan != NULL);
}

bool settle_stuck(program *p)
{
    programs all;
    bool any = false;

    if (open_programs(&all, p))
        for (uint32_t i = 0; i < all.count; i++)
            if (all.list[i]->stuck != NULL)
                any |= undo_listed(all.list[i], all.list[i]->stuck, "it was declined late, and nobody else runs it",
                                   &all.a);
    any = any && complete(&all);
    arena_deinit(&all.a);
    return any;
}

inlay_status settle(graph *g, const program_env *env, bool again, program **out_program, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = program_assign(g, env, again, out_program, &why);

    while (*out_program != NULL && may_undo(status, env) &&
           (status == INLAY_UNSUPPORTED ? undo_unrunnable(*out_program) : undo_for_plan(*out_program))) {
        program_destroy(*out_program);
        status = program_assign(g, env, true, out_program, &why);
    }
    if (status == INLAY_OK && (env->rules == NULL || env->rules->saved_plan == NULL))
        status = settle_bodies(out_program, &why);
    if (status == INLAY_OK && has_prices(env))
        status = weigh(out_program, &why);
    if (status != INLAY_OK) {
        program_destroy(*out_program);
        *out_program = NULL;
        *diag = why;
    }
    return status;
}
