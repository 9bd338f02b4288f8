/* Partitions all graphs of a session, the main one and every body. The graphs are partitioned one after another; then
 * the rules that concern all of them together are enforced. */
#include "base/memory.h"
#include "base/nearest.h"
#include "inlay/check.h"
#include "partition/assign/saved.h"
#include <string.h>

struct session_graphs {
    partition_job *jobs;
    uint32_t count;
    const partition_rules *rules;
    const partition_request *common; /* the common part of all requests */
    graph_tree tree;
    /* [provider_count] device memory that all graphs need together, without the graphs that are being assigned */
    uint64_t *total;
    uint64_t *used;      /* [provider_count] scratch */
    bool has_boundaries; /* see partition_has_boundaries() */
    inlay_diag *diag;
};

static inlay_status session_no_memory(const struct session_graphs *session)
{
    return no_memory(session->diag, "to partition graph '%s'", session->common->graph->name);
}

static const char *provider_at(const void *ctx, uint32_t i)
{
    return ((const partition_request *)ctx)->providers[i].name;
}

static inlay_status check_provider(const struct session_graphs *session, const char *rule, const char *name)
{
    const char *nearest;

    for (uint32_t i = 0; i < session->common->provider_count; i++)
        if (strcmp(session->common->providers[i].name, name) == 0)
            return INLAY_OK;
    nearest = nearest_name(name, provider_at, session->common, session->common->provider_count);
    return inlay_fail(session->diag, INLAY_INVALID_ARGUMENT, "option %s: provider '%s' is not in use%s%s%s", rule, name,
                      nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "'?" : "");
}

/* All nodes of all graphs, numbered consecutively. */
typedef struct node_names {
    const struct session_graphs *session;
    bool op_types;
} node_names;

static const char *node_name_at(const void *ctx, uint32_t i)
{
    const node_names *names = ctx;

    for (uint32_t j = 0; j < names->session->count; j++) {
        const struct graph *graph = names->session->jobs[j].request.graph;
        if (i < graph->node_count)
            return names->op_types ? graph->nodes[i]->info.op_type.data : graph->nodes[i]->info.name.data;
        i -= graph->node_count;
    }
    return "";
}

/* A pattern without a match is treated as a typing error. */
static inlay_status check_pattern(const struct session_graphs *session, const char *rule, const node_rule *wish)
{
    bool by_type = strncmp(wish->pattern, "op:", 3) == 0, on_host = false;
    node_names names = { .session = session, .op_types = by_type };
    const char *nearest;
    uint32_t total = 0;

    for (uint32_t j = 0; j < session->count; j++) {
        const struct graph *graph = session->jobs[j].request.graph;
        total += graph->node_count;
        for (uint32_t node = 0; node < graph->node_count; node++) {
            if (!graph_node_matches(wish->pattern, &graph->nodes[node]->info))
                continue;
            if (!graph_node_is_host(graph, graph->nodes[node]))
                return INLAY_OK;
            for (uint32_t provider = 0; provider < session->common->provider_count; provider++)
                if (partition_takes_bodies(&session->common->providers[provider], graph, graph->nodes[node]))
                    return INLAY_OK;
            on_host = true;
        }
    }
    if (strcmp(wish->pattern, "*") == 0)
        return INLAY_OK;
    if (on_host)
        return inlay_fail(session->diag, INLAY_INVALID_ARGUMENT,
                          "option %s: '%s' matches only nodes that the host runs "
                          "itself; name nodes of their bodies",
                          rule, wish->pattern);
    nearest = nearest_name(wish->pattern + (by_type ? 3 : 0), node_name_at, &names, total);
    return inlay_fail(session->diag, INLAY_INVALID_ARGUMENT,
                      "option %s: no node of the optimised model matches '%s'%s%s%s%s", rule, wish->pattern,
                      nearest != NULL ? "; did you mean '" : "", nearest != NULL && by_type ? "op:" : "",
                      nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static inlay_status check_names(const struct session_graphs *session)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < session->rules->pin_count; i++) {
        INLAY_TRY(check_provider(session, "pin", session->rules->pins[i].provider));
        INLAY_TRY(check_pattern(session, "pin", &session->rules->pins[i]));
    }
    for (uint32_t i = 0; i < session->rules->forbid_count; i++) {
        INLAY_TRY(check_provider(session, "forbid", session->rules->forbids[i].provider));
        INLAY_TRY(check_pattern(session, "forbid", &session->rules->forbids[i]));
    }
    for (uint32_t i = 0; i < session->rules->require_count; i++)
        INLAY_TRY(check_provider(session, "require", session->rules->requires[i]));
    for (uint32_t i = 0; i < session->rules->limit_count; i++)
        INLAY_TRY(check_provider(session, "memory_limit", session->rules->limits[i].provider));
done:
    return status;
}

/* The device memory of the provider that one graph needs. Weights are resident, and a context holds the slabs of all
 * graphs. It is limited so that the sum over all graphs does not overflow. */
static uint64_t need_of(const struct session_graphs *session, const struct partition *partition, uint32_t provider)
{
    const partition_memory *memory = partition->memory == NULL ? NULL : &partition->memory[provider];
    const uint64_t most = UINT64_MAX / session->count;
    uint64_t need = 0;

    return memory == NULL                                                                             ? 0
           : __builtin_add_overflow(memory->resident_bytes, memory->peak_bytes, &need) || need > most ? most
                                                                                                      : need;
}

/* The device memory of each provider that all other graphs need. */
static const uint64_t *used_by_others(struct session_graphs *session, uint32_t job)
{
    for (uint32_t provider = 0; provider < session->common->provider_count; provider++)
        session->used[provider] = session->total[provider] - need_of(session, session->jobs[job].out, provider);
    return session->used;
}

/* Counts the memory of a new partition of the job, which replaces `before` (zeroed: none). */
static void count_memory(struct session_graphs *session, uint32_t job, const struct partition *before)
{
    for (uint32_t provider = 0; provider < session->common->provider_count; provider++)
        session->total[provider] +=
            need_of(session, session->jobs[job].out, provider) - need_of(session, before, provider);
}

static void set_partition(struct session_graphs *session, uint32_t job, const struct partition *chosen)
{
    const struct partition before = *session->jobs[job].out;

    *session->jobs[job].out = *chosen;
    count_memory(session, job, &before);
}

/* Chooses again for one graph under additional limits; does not change the job's own partition. */
static inlay_status choose_again(struct session_graphs *session, uint32_t job, uint32_t max_partitions,
                                 const char *must_run, struct partition *out, inlay_diag *diag)
{
    partition_request request = session->jobs[job].request;

    INLAY_CHECK(job < session->count);
    request.used_bytes = used_by_others(session, job);
    request.max_partitions = max_partitions;
    request.must_run = must_run;
    return partition_again(&request, session->jobs[job].out, session->jobs[job].arena, out, diag);
}

/* Each graph was partitioned before its bodies, without their boundary placements: chooses again where these differ. */
static inlay_status choose_with_boundaries(struct session_graphs *session)
{
    for (uint32_t j = 0; j < session->count; j++) {
        const boundary_placement *before = session->jobs[j].request.boundaries;
        const size_t bytes = session->jobs[j].request.graph->value_count * sizeof *before;
        struct partition again;
        inlay_status status;

        if (session->jobs[j].out->idle)
            continue;
        if (!partition_find_boundaries(&session->tree, j, false))
            return session_no_memory(session);
        if (before != NULL && memcmp(before, session->jobs[j].request.boundaries, bytes) == 0)
            continue;
        status = choose_again(session, j, session->rules != NULL && session->rules->max_partitions > 0 ? UINT32_MAX : 0,
                              NULL, &again, NULL);
        if (status == INLAY_OUT_OF_MEMORY)
            return session_no_memory(session);
        if (status == INLAY_OK) /* otherwise the first choice stays */
            set_partition(session, j, &again);
    }
    return INLAY_OK;
}

/* All providers are chosen, so the boundary placements are final: updates the copies. */
static inlay_status update_boundaries(struct session_graphs *session)
{
    for (uint32_t j = 0; j < session->count; j++) {
        const boundary_placement *before = session->jobs[j].out->boundaries;
        const size_t bytes = session->jobs[j].request.graph->value_count * sizeof *before;
        inlay_status status;

        if (session->jobs[j].out->idle)
            continue;
        if (!partition_find_boundaries(&session->tree, j, true))
            return session_no_memory(session);
        if (before != NULL && memcmp(before, session->jobs[j].request.boundaries, bytes) == 0)
            continue;
        status = partition_form_again(&session->jobs[j], session->diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status partition_each(struct session_graphs *session)
{
    for (uint32_t j = 0; j < session->count; j++) {
        const struct partition none = { 0 };
        partition_request request;
        inlay_status status;

        session->jobs[j].out->idle = graph_tree_is_idle(&session->tree, j);
        if (session->jobs[j].out->idle)
            continue;
        if (session->has_boundaries && !partition_find_boundaries(&session->tree, j, false))
            return session_no_memory(session);
        request = session->jobs[j].request;
        request.used_bytes = used_by_others(session, j);
        if (session->count > 1 && session->rules != NULL && session->rules->max_partitions > 0)
            request.max_partitions = UINT32_MAX; /* distributed below */
        status = partition_graph(&request, session->jobs[j].arena, session->jobs[j].out, session->diag);
        if (status != INLAY_OK)
            return status;
        count_memory(session, j, &none);
    }
    return session->has_boundaries && !partition_by_priority(session->common) ? choose_with_boundaries(session)
                                                                              : INLAY_OK;
}

static inlay_status follow_each(struct session_graphs *session)
{
    saved_plan *plan = NULL;
    inlay_status status = saved_plan_open(&session->jobs[0], &plan, session->diag);

    for (uint32_t j = 0; j < session->count && status == INLAY_OK; j++) {
        const struct partition none = { 0 };
        partition_job job = session->jobs[j];

        job.out->idle = graph_tree_is_idle(&session->tree, j);
        if (job.out->idle)
            continue;
        job.request.used_bytes = used_by_others(session, j);
        status = partition_follow(plan, &job, session->diag);
        if (status == INLAY_OK)
            count_memory(session, j, &none);
    }
    saved_plan_close(plan);
    return status;
}

/* Gives every graph the minimum of one partition, and a share of the rest in proportion to its unlimited number. */
static inlay_status share_partitions(struct session_graphs *session)
{
    uint32_t most = session->rules->max_partitions;
    uint64_t total = 0, graphs = 0;

    INLAY_CHECK(most > 0);
    for (uint32_t j = 0; j < session->count; j++) {
        total += session->jobs[j].out->partition_count;
        graphs += session->jobs[j].out->partition_count > 0;
    }
    if (total <= most || session->count == 1)
        return INLAY_OK;
    if (graphs > most)
        return inlay_fail(session->diag, INLAY_LIMIT_EXCEEDED,
                          "max_partitions: the model has %llu graphs, bodies included, "
                          "that providers run; raise the limit of %u partitions",
                          (unsigned long long)graphs, most);
    for (uint32_t j = 0; j < session->count; j++) {
        uint32_t has = session->jobs[j].out->partition_count, share;
        struct partition again;
        inlay_status status;

        if (has == 0)
            continue;
        INLAY_CHECK(has >= 1 && total > graphs);
        share = 1 + (uint32_t)((uint64_t)(has - 1) * (most - graphs) / (total - graphs));
        if (share >= has)
            continue;
        status = choose_again(session, j, share, NULL, &again, session->diag);
        if (status != INLAY_OK)
            return status;
        set_partition(session, j, &again);
    }
    return INLAY_OK;
}

static bool runs_something(const struct session_graphs *session, const char *name)
{
    for (uint32_t j = 0; j < session->count; j++) {
        const struct partition *partition = session->jobs[j].out;
        for (uint32_t i = 0; i < partition->region_count; i++)
            if (partition->regions[i].provider != INLAY_NONE &&
                strcmp(session->common->providers[partition->regions[i].provider].name, name) == 0)
                return true;
    }
    return false;
}

/* Reports why a required provider is not used: its first refusal. */
static inlay_status report_unmet(const struct session_graphs *session, const char *name, const inlay_diag *why)
{
    for (uint32_t j = 0; j < session->count; j++) {
        const partition_job *job = &session->jobs[j];
        for (uint32_t i = 0; i < job->out->refusal_count; i++) {
            const partition_refusal *refusal = &job->out->refusals[i];
            const inlay_node_info *node = &job->request.graph->nodes[refusal->node]->info;
            if (strcmp(session->common->providers[refusal->provider].name, name) == 0)
                return inlay_fail(session->diag, INLAY_UNSUPPORTED,
                                  "require: provider %s runs nothing of the model; of %s "
                                  "node '%s' it says: %s",
                                  name, node->op_type.data, node->name.data, refusal->text);
        }
    }
    return inlay_fail(session->diag, INLAY_UNSUPPORTED, "require: provider %s runs nothing of the model: %s", name,
                      why->code != INLAY_OK ? why->text : "it offers no node");
}

/* Makes the provider run at least one node, in the graph where that costs least. */
static inlay_status enforce_require(struct session_graphs *session, const char *name)
{
    inlay_diag why = INLAY_DIAG_INIT;
    uint32_t best = INLAY_NONE;
    struct partition kept = { 0 };
    uint32_t partitions = 0;
    double least = 0;

    if (runs_something(session, name))
        return INLAY_OK;
    for (uint32_t j = 0; j < session->count; j++)
        partitions += session->jobs[j].out->partition_count;
    for (uint32_t j = 0; j < session->count; j++) {
        struct partition again;
        uint32_t most = session->rules->max_partitions > 0
                            ? session->jobs[j].out->partition_count + session->rules->max_partitions - partitions
                            : 0;
        inlay_status status;

        if (session->jobs[j].out->idle)
            continue;
        status = choose_again(session, j, most, name, &again, &why);
        if (status == INLAY_OUT_OF_MEMORY)
            return session_no_memory(session);
        if (status == INLAY_OK && (best == INLAY_NONE || again.cost_ns - session->jobs[j].out->cost_ns < least)) {
            best = j;
            least = again.cost_ns - session->jobs[j].out->cost_ns;
            kept = again;
        }
    }
    if (best == INLAY_NONE)
        return report_unmet(session, name, &why);
    set_partition(session, best, &kept);
    return INLAY_OK;
}

inlay_status partition_all(partition_job *jobs, uint32_t count, inlay_diag *diag)
{
    struct session_graphs session = {
        .jobs = jobs, .count = count, .rules = jobs[0].request.rules, .common = &jobs[0].request, .diag = diag
    };
    inlay_status status = INLAY_OK;
    struct arena scratch = { 0 };

    INLAY_CHECK(count > 0);
    for (uint32_t j = 0; j < count; j++)
        *jobs[j].out = (struct partition){ 0 };
    session.used = arena_array(&scratch, (size_t)session.common->provider_count + 1, sizeof *session.used);
    session.total = arena_array(&scratch, (size_t)session.common->provider_count + 1, sizeof *session.total);
    if (!graph_tree_init(&session.tree, jobs, count) || session.used == NULL || session.total == NULL) {
        status = session_no_memory(&session);
        goto done;
    }
    if (session.rules != NULL && !session.common->again)
        INLAY_TRY(check_names(&session));
    session.has_boundaries = partition_has_boundaries(jobs, count);
    if (session.rules != NULL && session.rules->saved_plan != NULL) {
        INLAY_TRY(follow_each(&session));
        status = session.has_boundaries ? update_boundaries(&session) : INLAY_OK;
        goto done;
    }
    INLAY_TRY(partition_each(&session));
    if (session.rules != NULL && session.rules->max_partitions > 0)
        INLAY_TRY(share_partitions(&session));
    for (uint32_t i = 0; session.rules != NULL && i < session.rules->require_count; i++)
        INLAY_TRY(enforce_require(&session, session.rules->requires[i]));
    /* A later requirement may have displaced an earlier one. */
    for (uint32_t i = 0; session.rules != NULL && i < session.rules->require_count; i++)
        if (!runs_something(&session, session.rules->requires[i])) {
            status = inlay_fail(diag, INLAY_UNSUPPORTED,
                                "require: %s and the providers required after it displace "
                                "each other; pin a node to each",
                                session.rules->requires[i]);
            goto done;
        }
    if (session.has_boundaries)
        status = update_boundaries(&session);
done:
    graph_tree_deinit(&session.tree);
    arena_deinit(&scratch);
    return status;
}
