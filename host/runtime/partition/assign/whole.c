/* The graphs of a session together: the main one and every body. Most of it is one graph after the other; what is left
 * are the rules that only hold, or only fail, over all of them. */
#include "base/memory.h"
#include "base/nearest.h"
#include "partition/assign/saved.h"
#include <string.h>

struct whole {
    part_job *jobs;
    uint32_t count;
    const part_rules *rules;
    const part_request *any; /* what all requests have in common */
    uint64_t *used;          /* [providers] scratch */
    bool has_homes;          /* see part_has_homes() */
    inlay_diag *diag;
};

static inlay_status whole_no_memory(const struct whole *w)
{
    return no_memory(w->diag, "to partition graph '%s'", w->any->graph->name);
}

/* ------------------------------------------------------------------ names in rules */

static const char *provider_at(const void *ctx, uint32_t i)
{
    return ((const part_request *)ctx)->providers[i].name;
}

static inlay_status check_provider(const struct whole *w, const char *rule, const char *name)
{
    const char *nearest;

    for (uint32_t i = 0; i < w->any->provider_count; i++)
        if (strcmp(w->any->providers[i].name, name) == 0)
            return INLAY_OK;
    nearest = nearest_name(name, provider_at, w->any, w->any->provider_count);
    return inlay_fail(w->diag, INLAY_INVALID_ARGUMENT, "option %s: provider '%s' is not in use%s%s%s", rule, name,
                      nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "'?" : "");
}

/* All nodes of all graphs, numbered through. */
typedef struct node_names {
    const struct whole *w;
    bool op_types;
} node_names;

static const char *node_name_at(const void *ctx, uint32_t i)
{
    const node_names *names = ctx;

    for (uint32_t j = 0; j < names->w->count; j++) {
        const struct graph *g = names->w->jobs[j].request.graph;
        if (i < g->node_count)
            return names->op_types ? g->nodes[i]->info.op_type.data : g->nodes[i]->info.name.data;
        i -= g->node_count;
    }
    return "";
}

/* A pattern that means nobody is a slip of the pen. */
static inlay_status check_pattern(const struct whole *w, const char *rule, const part_wish *wish)
{
    bool by_type = strncmp(wish->pattern, "op:", 3) == 0, on_host = false;
    node_names names = { .w = w, .op_types = by_type };
    const char *nearest;
    uint32_t total = 0;

    for (uint32_t j = 0; j < w->count; j++) {
        const struct graph *g = w->jobs[j].request.graph;
        total += g->node_count;
        for (uint32_t n = 0; n < g->node_count; n++) {
            if (!part_matches(wish, &g->nodes[n]->info))
                continue;
            if (!graph_node_is_host(g, g->nodes[n]))
                return INLAY_OK;
            for (uint32_t p = 0; p < w->any->provider_count; p++)
                if (part_takes_bodies(&w->any->providers[p], g, g->nodes[n]))
                    return INLAY_OK;
            on_host = true;
        }
    }
    if (strcmp(wish->pattern, "*") == 0)
        return INLAY_OK;
    if (on_host)
        return inlay_fail(w->diag, INLAY_INVALID_ARGUMENT,
                          "option %s: '%s' means only nodes that the host runs "
                          "itself; name nodes of their bodies",
                          rule, wish->pattern);
    nearest = nearest_name(wish->pattern + (by_type ? 3 : 0), node_name_at, &names, total);
    return inlay_fail(w->diag, INLAY_INVALID_ARGUMENT, "option %s: no node of the optimised model matches '%s'%s%s%s%s",
                      rule, wish->pattern, nearest != NULL ? "; did you mean '" : "",
                      nearest != NULL && by_type ? "op:" : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "'?" : "");
}

static inlay_status check_names(const struct whole *w)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < w->rules->pin_count; i++) {
        INLAY_TRY(check_provider(w, "pin", w->rules->pins[i].provider));
        INLAY_TRY(check_pattern(w, "pin", &w->rules->pins[i]));
    }
    for (uint32_t i = 0; i < w->rules->forbid_count; i++) {
        INLAY_TRY(check_provider(w, "forbid", w->rules->forbids[i].provider));
        INLAY_TRY(check_pattern(w, "forbid", &w->rules->forbids[i]));
    }
    for (uint32_t i = 0; i < w->rules->require_count; i++)
        INLAY_TRY(check_provider(w, "require", w->rules->requires[i]));
    for (uint32_t i = 0; i < w->rules->limit_count; i++)
        INLAY_TRY(check_provider(w, "memory_limit", w->rules->limits[i].provider));
done:
    return status;
}

/* ------------------------------------------------------------------ one graph after the other */

/* What all graphs but one need of each provider's memory. Weights stay, and a context keeps the slabs of all graphs. */
static const uint64_t *used_by_others(struct whole *w, uint32_t job)
{
    memset(w->used, 0, w->any->provider_count * sizeof *w->used);
    for (uint32_t j = 0; j < w->count; j++) {
        for (uint32_t p = 0; j != job && w->jobs[j].out->memory != NULL && p < w->any->provider_count; p++) {
            const part_memory *m = &w->jobs[j].out->memory[p];
            uint64_t need;
            if (__builtin_add_overflow(m->resident_bytes, m->peak_bytes, &need) ||
                __builtin_add_overflow(w->used[p], need, &w->used[p]))
                w->used[p] = UINT64_MAX;
        }
    }
    return w->used;
}

/* Chooses again for one graph, under more than the rules; *out is not yet the job's. */
static inlay_status choose_again(struct whole *w, uint32_t job, uint32_t max_partitions, const char *must_run,
                                 struct partition *out, inlay_diag *diag)
{
    part_request r = w->jobs[job].request;

    r.used_bytes = used_by_others(w, job);
    r.max_partitions = max_partitions;
    r.must_run = must_run;
    return partition_again(&r, w->jobs[job].out, w->jobs[job].a, out, diag);
}

/* Is the graph within a node that a provider runs, bodies included? Jobs stand behind those of the graphs around them.
 */
static bool is_idle(const struct whole *w, uint32_t job)
{
    const struct graph *g = w->jobs[job].request.graph;

    for (uint32_t j = 0; j < job; j++)
        if (w->jobs[j].request.graph == g->parent)
            return w->jobs[j].out->idle || part_holds_body(g->parent, w->jobs[j].out, g);
    return false;
}

/* Each graph was assigned before its bodies were, and did not know what they would do with its values. */
static inlay_status reconsider(struct whole *w)
{
    for (uint32_t j = 0; j < w->count; j++) {
        const part_home *before = w->jobs[j].request.homes;
        const size_t bytes = w->jobs[j].request.graph->value_count * sizeof *before;
        struct partition again;
        inlay_status status;

        if (w->jobs[j].out->idle)
            continue;
        if (!part_find_homes(w->jobs, w->count, j, false))
            return whole_no_memory(w);
        if (before != NULL && memcmp(before, w->jobs[j].request.homes, bytes) == 0)
            continue;
        status =
            choose_again(w, j, w->rules != NULL && w->rules->max_partitions > 0 ? UINT32_MAX : 0, NULL, &again, NULL);
        if (status == INLAY_OUT_OF_MEMORY)
            return whole_no_memory(w);
        if (status == INLAY_OK) /* otherwise it stays as it is */
            *w->jobs[j].out = again;
    }
    return INLAY_OK;
}

/* All is chosen: what is copied, and by whom, is known. */
static inlay_status settle_homes(struct whole *w)
{
    for (uint32_t j = 0; j < w->count; j++) {
        const part_home *before = w->jobs[j].out->homes;
        const size_t bytes = w->jobs[j].request.graph->value_count * sizeof *before;
        inlay_status status;

        if (w->jobs[j].out->idle)
            continue;
        if (!part_find_homes(w->jobs, w->count, j, true))
            return whole_no_memory(w);
        if (before != NULL && memcmp(before, w->jobs[j].request.homes, bytes) == 0)
            continue;
        status = part_form_again(&w->jobs[j], w->diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status partition_each(struct whole *w)
{
    for (uint32_t j = 0; j < w->count; j++) {
        part_request r;
        inlay_status status;

        w->jobs[j].out->idle = is_idle(w, j);
        if (w->jobs[j].out->idle)
            continue;
        if (w->has_homes && !part_find_homes(w->jobs, w->count, j, false))
            return whole_no_memory(w);
        r = w->jobs[j].request;
        r.used_bytes = used_by_others(w, j);
        if (w->count > 1 && w->rules != NULL && w->rules->max_partitions > 0)
            r.max_partitions = UINT32_MAX; /* shared out below */
        status = partition_graph(&r, w->jobs[j].a, w->jobs[j].out, w->diag);
        if (status != INLAY_OK)
            return status;
    }
    return w->has_homes && !part_by_priority(w->any) ? reconsider(w) : INLAY_OK;
}

static inlay_status follow_each(struct whole *w)
{
    saved_plan *plan = NULL;
    inlay_status status = saved_plan_open(&w->jobs[0], &plan, w->diag);

    for (uint32_t j = 0; j < w->count && status == INLAY_OK; j++) {
        part_job job = w->jobs[j];

        job.out->idle = is_idle(w, j);
        if (job.out->idle)
            continue;
        job.request.used_bytes = used_by_others(w, j);
        status = part_follow(plan, &job, w->diag);
    }
    saved_plan_close(plan);
    return status;
}

/* ------------------------------------------------------------------ max_partitions */

/* Every graph gets as many as it needs at least, one, and of the rest its share of what it would take. */
static inlay_status share_partitions(struct whole *w)
{
    uint32_t most = w->rules->max_partitions;
    uint64_t total = 0, graphs = 0;

    for (uint32_t j = 0; j < w->count; j++) {
        total += w->jobs[j].out->stretch_count;
        graphs += w->jobs[j].out->stretch_count > 0;
    }
    if (total <= most || w->count == 1)
        return INLAY_OK;
    if (graphs > most)
        return inlay_fail(w->diag, INLAY_LIMIT_EXCEEDED,
                          "max_partitions: the model has %llu graphs, bodies included, "
                          "that providers run, so that %u partitions are too few",
                          (unsigned long long)graphs, most);
    for (uint32_t j = 0; j < w->count; j++) {
        uint32_t has = w->jobs[j].out->stretch_count, share;
        struct partition again;
        inlay_status status;

        if (has == 0)
            continue;
        share = 1 + (uint32_t)((uint64_t)(has - 1) * (most - graphs) / (total - graphs));
        if (share >= has)
            continue;
        status = choose_again(w, j, share, NULL, &again, w->diag);
        if (status != INLAY_OK)
            return status;
        *w->jobs[j].out = again;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ require */

static bool runs_something(const struct whole *w, const char *name)
{
    for (uint32_t j = 0; j < w->count; j++) {
        const struct partition *p = w->jobs[j].out;
        for (uint32_t i = 0; i < p->region_count; i++)
            if (p->regions[i].provider != INLAY_NONE &&
                strcmp(w->any->providers[p->regions[i].provider].name, name) == 0)
                return true;
    }
    return false;
}

/* Why not: the first thing that the provider said. */
static inlay_status unmet(const struct whole *w, const char *name, const inlay_diag *why)
{
    for (uint32_t j = 0; j < w->count; j++) {
        const part_job *job = &w->jobs[j];
        for (uint32_t i = 0; i < job->out->refusal_count; i++) {
            const part_refusal *f = &job->out->refusals[i];
            const inlay_node_info *n = &job->request.graph->nodes[f->node]->info;
            if (strcmp(w->any->providers[f->provider].name, name) == 0)
                return inlay_fail(w->diag, INLAY_UNSUPPORTED,
                                  "require: provider %s runs nothing of the model; of %s "
                                  "node '%s' it says: %s",
                                  name, n->op_type.data, n->name.data, f->text);
        }
    }
    return inlay_fail(w->diag, INLAY_UNSUPPORTED, "require: provider %s runs nothing of the model: %s", name,
                      why->code != INLAY_OK ? why->text : "it offers no node");
}

/* Has the provider run something, in the graph where that costs least. */
static inlay_status require(struct whole *w, const char *name)
{
    inlay_diag why = INLAY_DIAG_INIT;
    uint32_t best = INLAY_NONE;
    struct partition kept = { 0 };
    double least = 0;

    if (runs_something(w, name))
        return INLAY_OK;
    for (uint32_t j = 0; j < w->count; j++) {
        struct partition again;
        uint32_t most = w->rules->max_partitions > 0 ? w->jobs[j].out->stretch_count + w->rules->max_partitions : 0;
        inlay_status status;

        if (w->jobs[j].out->idle)
            continue;
        for (uint32_t k = 0; w->rules->max_partitions > 0 && k < w->count; k++)
            most -= w->jobs[k].out->stretch_count;
        status = choose_again(w, j, most, name, &again, &why);
        if (status == INLAY_OUT_OF_MEMORY)
            return whole_no_memory(w);
        if (status == INLAY_OK && (best == INLAY_NONE || again.cost_ns - w->jobs[j].out->cost_ns < least)) {
            best = j;
            least = again.cost_ns - w->jobs[j].out->cost_ns;
            kept = again;
        }
    }
    if (best == INLAY_NONE)
        return unmet(w, name, &why);
    *w->jobs[best].out = kept;
    return INLAY_OK;
}

inlay_status partition_all(part_job *jobs, uint32_t count, inlay_diag *diag)
{
    struct whole w = {
        .jobs = jobs, .count = count, .rules = jobs[0].request.rules, .any = &jobs[0].request, .diag = diag
    };
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };

    for (uint32_t j = 0; j < count; j++)
        *jobs[j].out = (struct partition){ 0 };
    w.used = arena_array(&scratch, (size_t)w.any->provider_count + 1, sizeof *w.used);
    if (w.used == NULL) {
        status = whole_no_memory(&w);
        goto done;
    }
    if (w.rules != NULL && !w.any->again)
        INLAY_TRY(check_names(&w));
    w.has_homes = part_has_homes(jobs, count);
    if (w.rules != NULL && w.rules->saved_plan != NULL) {
        INLAY_TRY(follow_each(&w));
        status = w.has_homes ? settle_homes(&w) : INLAY_OK;
        goto done;
    }
    INLAY_TRY(partition_each(&w));
    if (w.rules != NULL && w.rules->max_partitions > 0)
        INLAY_TRY(share_partitions(&w));
    for (uint32_t i = 0; w.rules != NULL && i < w.rules->require_count; i++)
        INLAY_TRY(require(&w, w.rules->requires[i]));
    /* A second requirement may have displaced what the first one asked for. */
    for (uint32_t i = 0; w.rules != NULL && i < w.rules->require_count; i++)
        if (!runs_something(&w, w.rules->requires[i])) {
            status = inlay_fail(diag, INLAY_UNSUPPORTED,
                                "require: %s and the providers required after it displace "
                                "each other; pin a node to each",
                                w.rules->requires[i]);
            goto done;
        }
    if (w.has_homes)
        status = settle_homes(&w);
done:
    arena_deinit(&scratch);
    return status;
}
