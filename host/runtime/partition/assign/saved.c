/* Writes and follows saved plans. */
#include "base/json_text.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/order.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "partition/assign/saved.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1 };

struct saved_plan {
    json_t *root;
    const char *path;  /* of the file, for messages */
    char differs[200]; /* conditions that have changed since it was written; empty = none */
};

static const char *hash_text(uint64_t hash, char text[20])
{
    (void)snprintf(text, 20, "%016" PRIx64, hash);
    return text;
}

/* The index of an offer among those of its provider with the same nodes, which identifies it in a plan. */
static uint32_t variant_of(const struct partition *partition, uint32_t offer)
{
    const partition_offer *key = &partition->offers[offer];
    uint32_t before = 0;

    INLAY_CHECK(offer < partition->offer_count);
    for (uint32_t i = 0; i < offer; i++)
        before += partition->offers[i].provider == key->provider &&
                  partition->offers[i].node_count == key->node_count &&
                  memcmp(partition->offers[i].nodes, key->nodes, key->node_count * sizeof *key->nodes) == 0;
    return before;
}

static json_t *offer_json(const partition_job *job, uint32_t region, uint32_t offer)
{
    const partition_offer *chosen = &job->out->offers[offer];
    json_t *nodes = json_array(), *all;
    uint32_t variant = variant_of(job->out, offer);

    for (uint32_t k = 0; k < chosen->node_count; k++)
        if (json_array_append_new(nodes, json_string(job->request.graph->nodes[chosen->nodes[k]]->info.name.data)) !=
            0) {
            json_decref(nodes);
            return NULL;
        }
    all = json_pack("{s:s, s:i, s:o, s:f, s:s}", "provider", job->request.providers[chosen->provider].name, "region",
                    (int)region, "nodes", nodes, "ns", chosen->cost.ns, "price", cost_source_name(chosen->cost_source));
    if (all != NULL && variant > 0 && json_object_set_new(all, "variant", json_integer(variant)) != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static json_t *graph_json(const partition_job *job)
{
    json_t *offers = json_array();
    const struct partition *partition = job->out;
    char hash[20];

    for (uint32_t i = 0; i < partition->region_count; i++)
        for (uint32_t k = 0; k < partition->regions[i].offer_count; k++)
            if (json_array_append_new(offers, offer_json(job, i, partition->regions[i].offers[k])) != 0) {
                json_decref(offers);
                return NULL;
            }
    return json_pack("{s:s, s:s, s:f, s:i, s:i, s:o}", "graph", job->path, "hash",
                     hash_text(job->request.snapshot->content_hash, hash), "cost_ns", partition->cost_ns, "partitions",
                     (int)partition->partition_count, "copies", (int)partition->copy_count, "offers", offers);
}

struct sink {
    partition_write_fn write;
    void *user;
};

static int dump_piece(const char *text, size_t bytes, void *ctx)
{
    const struct sink *sink = ctx;

    sink->write(sink->user, text, bytes);
    return 0;
}

inlay_status partition_plan_save(const partition_job *jobs, uint32_t count, partition_write_fn write, void *user,
                                 inlay_diag *diag)
{
    const partition_request *request = &jobs[0].request;
    json_t *providers = json_array(), *graphs = json_array(), *all = NULL;
    struct sink out = { write, user };
    bool ok = providers != NULL && graphs != NULL;

    for (uint32_t i = 0; ok && i < request->provider_count; i++) {
        const partition_provider *provider = &request->providers[i];
        ok = json_array_append_new(providers,
                                   json_pack("{s:s, s:s, s:s}", "name", provider->name, "version",
                                             provider->plugin_version != NULL ? provider->plugin_version : "",
                                             "build_id", provider->build_id != NULL ? provider->build_id : "")) == 0;
    }
    for (uint32_t j = 0; ok && j < count; j++)
        ok = json_array_append_new(graphs, graph_json(&jobs[j])) == 0;
    if (ok) {
        all = json_pack("{s:i, s:i, s:O, s:O}", "inlay_plan", FORMAT, "threads", (int)request->max_threads, "providers",
                        providers, "graphs", graphs);
        ok = all != NULL && json_dump_callback(all, dump_piece, &out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
    }
    json_decref(providers);
    json_decref(graphs);
    json_decref(all);
    if (ok)
        write(user, "\n", 1);
    return ok ? INLAY_OK : no_memory(diag, "to save the plan");
}

static void add_difference(saved_plan *plan, const char *what, const char *was, const char *is)
{
    size_t used = strlen(plan->differs);

    (void)snprintf(plan->differs + used, sizeof plan->differs - used, "%s%s %.40s, now %.40s", used > 0 ? "; " : "",
                   what, was, is);
}

/* Compares the conditions recorded in the plan with the current ones. */
static void compare_conditions(saved_plan *plan, const partition_job *job)
{
    const partition_request *request = &job->request;
    const json_t *saved;
    size_t i;
    char was[32], is[32];

    json_array_foreach(json_object_get(plan->root, "graphs"), i, saved)
        if (strcmp(json_text_of(saved, "graph"), job->path) == 0 &&
            strcmp(json_text_of(saved, "hash"), hash_text(request->snapshot->content_hash, is)) != 0)
            add_difference(plan, "model", json_text_of(saved, "hash"), is);
    json_array_foreach(json_object_get(plan->root, "providers"), i, saved) {
        for (uint32_t provider = 0; provider < request->provider_count; provider++) {
            const partition_provider *current = &request->providers[provider];
            const char *version = current->plugin_version != NULL ? current->plugin_version : "";
            const char *build_id = current->build_id != NULL ? current->build_id : "";

            if (strcmp(current->name, json_text_of(saved, "name")) != 0)
                continue;
            if (strcmp(version, json_text_of(saved, "version")) != 0)
                add_difference(plan, current->name, json_text_of(saved, "version"), version);
            else if (strcmp(build_id, json_text_of(saved, "build_id")) != 0)
                add_difference(plan, current->name, json_text_of(saved, "build_id"), build_id);
        }
    }
    (void)snprintf(was, sizeof was, "%lld", (long long)json_integer_value(json_object_get(plan->root, "threads")));
    (void)snprintf(is, sizeof is, "%u", request->max_threads);
    if (strcmp(was, is) != 0)
        add_difference(plan, "threads", was, is);
}

inlay_status saved_plan_open(const partition_job *main_job, saved_plan **out_plan, inlay_diag *diag)
{
    const char *path = main_job->request.rules->saved_plan;
    saved_plan *plan = calloc(1, sizeof *plan);
    json_error_t error;

    *out_plan = plan;
    if (plan == NULL)
        return no_memory(diag, "for plan %s", path);
    plan->path = path;
    plan->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (plan->root == NULL && json_error_code(&error) == json_error_cannot_open_file)
        return inlay_fail(diag, INLAY_NOT_FOUND, "option plan: %s", error.text);
    if (plan->root == NULL && json_error_code(&error) == json_error_out_of_memory)
        return no_memory(diag, "for plan %s", path);
    if (plan->root == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option plan: %s, line %d: %s", path, error.line, error.text);
    if (json_integer_value(json_object_get(plan->root, "inlay_plan")) != FORMAT ||
        !json_is_array(json_object_get(plan->root, "graphs")))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "option plan: %s is not a plan of format %d; write one with `inlay partition --save`", path,
                          FORMAT);
    compare_conditions(plan, main_job);
    if (plan->differs[0] != '\0' && main_job->request.log != NULL) {
        char line[400];
        (void)snprintf(line, sizeof line, "plan %.100s was made under other conditions: %s", path, plan->differs);
        main_job->request.log(main_job->request.log_ctx, INLAY_LOG_WARNING, line);
    }
    return INLAY_OK;
}

void saved_plan_close(saved_plan *plan)
{
    if (plan == NULL)
        return;
    json_decref(plan->root);
    free(plan);
}

bool saved_plan_names(const saved_plan *plan, const char *path, names_table *out)
{
    const json_t *saved_graph, *saved, *name;
    size_t i, k, m;
    bool added = true;

    json_array_foreach(json_object_get(plan->root, "graphs"), i, saved_graph) {
        if (strcmp(json_text_of(saved_graph, "graph"), path) != 0)
            continue;
        json_array_foreach(json_object_get(saved_graph, "offers"), k, saved)
            json_array_foreach(json_object_get(saved, "nodes"), m, name)
                if (added && json_string_value(name) != NULL)
                    added = names_add(out, json_string_value(name), strlen(json_string_value(name)), (uint32_t)m, NULL);
    }
    return added;
}

struct follower {
    const saved_plan *plan;
    const partition_request *request;
    const char *graph_path;
    struct partition *partition;
    uint32_t *choice;       /* [nodes] */
    uint32_t *first, *next; /* offers by their first node: [nodes], [offers] */
    uint32_t *nodes;        /* [nodes] scratch */
    names_table names;
    inlay_diag *diag;
};

/* Reports an entry that does not fit, and the conditions that have changed. */
static inlay_status report_misfit(const struct follower *follower, const char *node, const char *what,
                                  const char *detail)
{
    return inlay_fail(follower->diag, INLAY_INVALID_ARGUMENT, "option plan: %s: node '%s' of graph '%s' %s%s%s%s",
                      follower->plan->path, node, follower->graph_path[0] != '\0' ? follower->graph_path : "main", what,
                      detail, follower->plan->differs[0] != '\0' ? "; the plan was made with " : "",
                      follower->plan->differs);
}

/* The provider's reason for not offering the node. */
static const char *refusal_of(const struct follower *follower, const char *provider, uint32_t node)
{
    for (uint32_t i = 0; i < follower->partition->refusal_count; i++)
        if (follower->partition->refusals[i].node == node &&
            strcmp(follower->request->providers[follower->partition->refusals[i].provider].name, provider) == 0)
            return follower->partition->refusals[i].text;
    for (uint32_t i = 0; i < follower->request->provider_count; i++)
        if (strcmp(follower->request->providers[i].name, provider) == 0)
            return "it does not offer these nodes together";
    return "it is not in use";
}

static uint32_t find_offer(const struct follower *follower, const char *provider, uint32_t count, uint32_t variant)
{
    for (uint32_t offer = follower->first[follower->nodes[0]]; offer != INLAY_NONE; offer = follower->next[offer]) {
        const partition_offer *candidate = &follower->partition->offers[offer];
        if (candidate->node_count == count &&
            memcmp(candidate->nodes, follower->nodes, count * sizeof *candidate->nodes) == 0 &&
            strcmp(follower->request->providers[candidate->provider].name, provider) == 0 && variant-- == 0)
            return offer;
    }
    return INLAY_NONE;
}

static inlay_status follow_offer(struct follower *follower, const json_t *saved)
{
    const char *provider = json_text_of(saved, "provider"), *source = json_text_of(saved, "price");
    const json_t *names = json_object_get(saved, "nodes"), *name;
    uint32_t count = 0, offer;
    size_t i;

    json_array_foreach(names, i, name) {
        const char *text = json_string_value(name) != NULL ? json_string_value(name) : "";
        uint32_t node = names_find(&follower->names, text, strlen(text));

        if (node == NAMES_NONE)
            return report_misfit(follower, text, "is not in the model", "");
        if (follower->choice[node] != INLAY_NONE || count == follower->request->graph->node_count)
            return report_misfit(follower, text, "is assigned twice", "");
        follower->nodes[count++] = node;
    }
    if (count == 0)
        return report_misfit(follower, "", "is named by an entry without nodes", "");
    qsort(follower->nodes, count, sizeof *follower->nodes, order_numbers);
    offer = find_offer(follower, provider, count, (uint32_t)json_integer_value(json_object_get(saved, "variant")));
    if (offer == INLAY_NONE) {
        char detail[220];
        (void)snprintf(detail, sizeof detail, "%.40s, which says: %.150s", provider,
                       refusal_of(follower, provider, follower->nodes[0]));
        return report_misfit(follower, follower->request->graph->nodes[follower->nodes[0]]->info.name.data,
                             "is not offered by ", detail);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (follower->choice[follower->nodes[k]] != INLAY_NONE)
            return report_misfit(follower, follower->request->graph->nodes[follower->nodes[k]]->info.name.data,
                                 "is assigned twice", "");
        follower->choice[follower->nodes[k]] = offer;
    }
    follower->partition->offers[offer].cost.ns = json_number_value(json_object_get(saved, "ns"));
    for (uint32_t k = COST_NONE; k <= COST_MEASURED; k++)
        if (strcmp(cost_source_name(k), source) == 0)
            follower->partition->offers[offer].cost_source = k;
    return INLAY_OK;
}

static bool follower_init(struct follower *follower, struct arena *scratch)
{
    const struct graph *graph = follower->request->graph;

    follower->first = arena_array(scratch, (size_t)graph->node_count + 1, sizeof *follower->first);
    follower->next = arena_array(scratch, (size_t)follower->partition->offer_count + 1, sizeof *follower->next);
    follower->nodes = arena_array(scratch, (size_t)graph->node_count + 1, sizeof *follower->nodes);
    if (follower->first == NULL || follower->next == NULL || follower->nodes == NULL)
        return false;
    memset(follower->first, 0xff, graph->node_count * sizeof *follower->first);
    memset(follower->choice, 0xff, graph->node_count * sizeof *follower->choice);
    for (uint32_t offer = follower->partition->offer_count; offer-- > 0;) {
        uint32_t node = follower->partition->offers[offer].nodes[0];
        INLAY_CHECK(node < graph->node_count);
        follower->next[offer] = follower->first[node];
        follower->first[node] = offer;
    }
    for (uint32_t node = 0; node < graph->node_count; node++) {
        const inlay_str *name = &graph->nodes[node]->info.name;
        if (!names_add(&follower->names, name->data, strlen(name->data), node, NULL))
            return false;
    }
    return true;
}

inlay_status saved_plan_follow(const saved_plan *plan, const partition_job *job, const uint8_t *candidates,
                               struct arena *scratch, uint32_t *choice, inlay_diag *diag)
{
    struct follower follower = { .plan = plan,
                                 .request = &job->request,
                                 .graph_path = job->path,
                                 .partition = job->out,
                                 .choice = choice,
                                 .diag = diag };
    const struct graph *graph = job->request.graph;
    inlay_status status = INLAY_OK;
    const json_t *saved_graph, *saved;
    size_t i, k;

    if (!follower_init(&follower, scratch)) {
        status = no_memory(diag, "to follow plan %s", plan->path);
        goto done;
    }
    json_array_foreach(json_object_get(plan->root, "graphs"), i, saved_graph) {
        if (strcmp(json_text_of(saved_graph, "graph"), job->path) != 0)
            continue;
        json_array_foreach(json_object_get(saved_graph, "offers"), k, saved)
            INLAY_TRY(follow_offer(&follower, saved));
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        if (candidates[node] && choice[node] == INLAY_NONE) {
            status = report_misfit(&follower, graph->nodes[node]->info.name.data, "is not in the plan", "");
            goto done;
        }
done:
    names_deinit(&follower.names);
    return status;
}
