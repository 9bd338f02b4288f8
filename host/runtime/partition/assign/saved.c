/* Plans written down and followed. */
#include "base/memory.h"
#include "base/names.h"
#include "partition/assign/saved.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1 };

struct saved_plan {
    json_t *root;
    const char *path;  /* of the file, for messages */
    char differs[200]; /* what it was made with and is no more; empty = nothing */
};

static const char *hash_text(uint64_t hash, char text[20])
{
    (void)snprintf(text, 20, "%016" PRIx64, hash);
    return text;
}

/* ------------------------------------------------------------------ writing */

/* Offers of a provider with the same nodes are told apart by their place among them. */
static uint32_t variant_of(const struct partition *p, uint32_t offer)
{
    const part_offer *o = &p->offers[offer];
    uint32_t before = 0;

    for (uint32_t i = 0; i < offer; i++)
        before += p->offers[i].provider == o->provider && p->offers[i].node_count == o->node_count &&
                  memcmp(p->offers[i].nodes, o->nodes, o->node_count * sizeof *o->nodes) == 0;
    return before;
}

static json_t *offer_json(const part_job *job, uint32_t region, uint32_t offer)
{
    const part_offer *o = &job->out->offers[offer];
    json_t *nodes = json_array(), *all;
    uint32_t variant = variant_of(job->out, offer);

    for (uint32_t k = 0; k < o->node_count; k++)
        if (json_array_append_new(nodes, json_string(job->request.graph->nodes[o->nodes[k]]->info.name.data)) != 0) {
            json_decref(nodes);
            return NULL;
        }
    all = json_pack("{s:s, s:i, s:o, s:f, s:s}", "provider", job->request.providers[o->provider].name, "region",
                    (int)region, "nodes", nodes, "ns", o->cost.ns, "price", cost_source_name(o->cost_source));
    if (all != NULL && variant > 0 && json_object_set_new(all, "variant", json_integer(variant)) != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static json_t *graph_json(const part_job *job)
{
    json_t *offers = json_array();
    const struct partition *p = job->out;
    char hash[20];

    for (uint32_t i = 0; i < p->region_count; i++)
        for (uint32_t k = 0; k < p->regions[i].offer_count; k++)
            if (json_array_append_new(offers, offer_json(job, i, p->regions[i].offers[k])) != 0) {
                json_decref(offers);
                return NULL;
            }
    return json_pack("{s:s, s:s, s:f, s:i, s:i, s:o}", "graph", job->path, "hash",
                     hash_text(job->request.snapshot->content_hash, hash), "cost_ns", p->cost_ns, "partitions",
                     (int)p->stretch_count, "copies", (int)p->copy_count, "offers", offers);
}

struct sink {
    part_write_fn write;
    void *user;
};

static int dump_piece(const char *text, size_t bytes, void *ctx)
{
    const struct sink *s = ctx;

    s->write(s->user, text, bytes);
    return 0;
}

inlay_status part_plan_save(const part_job *jobs, uint32_t count, part_write_fn write, void *user, inlay_diag *diag)
{
    const part_request *r = &jobs[0].request;
    json_t *providers = json_array(), *graphs = json_array(), *all = NULL;
    struct sink out = { write, user };
    bool ok = providers != NULL && graphs != NULL;

    for (uint32_t i = 0; ok && i < r->provider_count; i++) {
        const part_provider *p = &r->providers[i];
        ok = json_array_append_new(providers, json_pack("{s:s, s:s, s:s}", "name", p->name, "version",
                                                        p->plugin_version != NULL ? p->plugin_version : "", "build_id",
                                                        p->build_id != NULL ? p->build_id : "")) == 0;
    }
    for (uint32_t j = 0; ok && j < count; j++)
        ok = json_array_append_new(graphs, graph_json(&jobs[j])) == 0;
    if (ok) {
        all = json_pack("{s:i, s:i, s:O, s:O}", "inlay_plan", FORMAT, "threads", (int)r->max_threads, "providers",
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

/* ------------------------------------------------------------------ reading */

/* The text of a member, "" if it is none. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static void note_difference(saved_plan *s, const char *what, const char *was, const char *is)
{
    size_t used = strlen(s->differs);

    (void)snprintf(s->differs + used, sizeof s->differs - used, "%s%s %.40s, now %.40s", used > 0 ? "; " : "", what,
                   was, is);
}

/* What the plan was made with against what there is. */
static void compare(saved_plan *s, const part_job *job)
{
    const part_request *r = &job->request;
    const json_t *saved;
    size_t i;
    char was[32], is[32];

    json_array_foreach(json_object_get(s->root, "graphs"), i, saved)
        if (strcmp(text_of(saved, "graph"), job->path) == 0 &&
            strcmp(text_of(saved, "hash"), hash_text(r->snapshot->content_hash, is)) != 0)
            note_difference(s, "model", text_of(saved, "hash"), is);
    json_array_foreach(json_object_get(s->root, "providers"), i, saved) {
        for (uint32_t p = 0; p < r->provider_count; p++) {
            const part_provider *now = &r->providers[p];
            if (strcmp(now->name, text_of(saved, "name")) != 0)
                continue;
            if (strcmp(now->plugin_version != NULL ? now->plugin_version : "", text_of(saved, "version")) != 0)
                note_difference(s, now->name, text_of(saved, "version"), now->plugin_version);
            else if (strcmp(now->build_id != NULL ? now->build_id : "", text_of(saved, "build_id")) != 0)
                note_difference(s, now->name, text_of(saved, "build_id"), now->build_id);
        }
    }
    (void)snprintf(was, sizeof was, "%lld", (long long)json_integer_value(json_object_get(s->root, "threads")));
    (void)snprintf(is, sizeof is, "%u", r->max_threads);
    if (strcmp(was, is) != 0)
        note_difference(s, "threads", was, is);
}

inlay_status saved_plan_open(const part_job *main_job, saved_plan **out_plan, inlay_diag *diag)
{
    const char *path = main_job->request.rules->saved_plan;
    saved_plan *s = calloc(1, sizeof *s);
    json_error_t error;

    *out_plan = s;
    if (s == NULL)
        return no_memory(diag, "for plan %s", path);
    s->path = path;
    s->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (s->root == NULL && json_error_code(&error) == json_error_cannot_open_file)
        return inlay_fail(diag, INLAY_NOT_FOUND, "option plan: %s", error.text);
    if (s->root == NULL && json_error_code(&error) == json_error_out_of_memory)
        return no_memory(diag, "for plan %s", path);
    if (s->root == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option plan: %s, line %d: %s", path, error.line, error.text);
    if (json_integer_value(json_object_get(s->root, "inlay_plan")) != FORMAT ||
        !json_is_array(json_object_get(s->root, "graphs")))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "option plan: %s is no plan that `inlay partition --save` wrote, of format %d", path, FORMAT);
    compare(s, main_job);
    if (s->differs[0] != '\0' && main_job->request.log != NULL) {
        char line[400];
        (void)snprintf(line, sizeof line, "plan %.100s was made with something else: %s", path, s->differs);
        main_job->request.log(main_job->request.log_ctx, INLAY_LOG_WARNING, line);
    }
    return INLAY_OK;
}

void saved_plan_close(saved_plan *s)
{
    if (s == NULL)
        return;
    json_decref(s->root);
    free(s);
}

bool saved_plan_names(const saved_plan *s, const char *path, names_table *out)
{
    const json_t *graph_json_of, *saved, *name;
    size_t i, k, m;
    bool added = true;

    json_array_foreach(json_object_get(s->root, "graphs"), i, graph_json_of) {
        if (strcmp(text_of(graph_json_of, "graph"), path) != 0)
            continue;
        json_array_foreach(json_object_get(graph_json_of, "offers"), k, saved)
            json_array_foreach(json_object_get(saved, "nodes"), m, name)
                if (added && json_string_value(name) != NULL)
                    added = names_add(out, json_string_value(name), strlen(json_string_value(name)), (uint32_t)m, NULL);
    }
    return added;
}

/* ------------------------------------------------------------------ following */

struct follower {
    const saved_plan *s;
    const part_request *r;
    const char *graph_path;
    struct partition *p;
    uint32_t *choice;       /* [nodes] */
    uint32_t *first, *next; /* offers by their first node: [nodes], [offers] */
    uint32_t *nodes;        /* [nodes] scratch */
    names_table names;
    inlay_diag *diag;
};

/* "plan F: <what>" and, where something differs, what. */
static inlay_status misfit(const struct follower *f, const char *node, const char *what, const char *detail)
{
    return inlay_fail(f->diag, INLAY_INVALID_ARGUMENT, "option plan: %s: node '%s' of graph '%s' %s%s%s%s", f->s->path,
                      node, f->graph_path[0] != '\0' ? f->graph_path : "main", what, detail,
                      f->s->differs[0] != '\0' ? "; the plan was made with " : "", f->s->differs);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* The provider's answer for the node, why it is not offered. */
static const char *refusal_of(const struct follower *f, const char *provider, uint32_t node)
{
    for (uint32_t i = 0; i < f->p->refusal_count; i++)
        if (f->p->refusals[i].node == node && strcmp(f->r->providers[f->p->refusals[i].provider].name, provider) == 0)
            return f->p->refusals[i].text;
    for (uint32_t i = 0; i < f->r->provider_count; i++)
        if (strcmp(f->r->providers[i].name, provider) == 0)
            return "it does not offer these nodes together";
    return "it is not in use";
}

static uint32_t find_offer(const struct follower *f, const char *provider, uint32_t count, uint32_t variant)
{
    for (uint32_t o = f->first[f->nodes[0]]; o != INLAY_NONE; o = f->next[o]) {
        const part_offer *x = &f->p->offers[o];
        if (x->node_count == count && memcmp(x->nodes, f->nodes, count * sizeof *x->nodes) == 0 &&
            strcmp(f->r->providers[x->provider].name, provider) == 0 && variant-- == 0)
            return o;
    }
    return INLAY_NONE;
}

static inlay_status follow_offer(struct follower *f, const json_t *saved)
{
    const char *provider = text_of(saved, "provider"), *source = text_of(saved, "price");
    const json_t *names = json_object_get(saved, "nodes"), *name;
    uint32_t count = 0, offer;
    size_t i;

    json_array_foreach(names, i, name) {
        const char *text = json_string_value(name) != NULL ? json_string_value(name) : "";
        uint32_t n = names_find(&f->names, text, strlen(text));

        if (n == NAMES_NONE)
            return misfit(f, text, "is not in the model", "");
        if (f->choice[n] != INLAY_NONE || count == f->r->graph->node_count)
            return misfit(f, text, "is assigned twice", "");
        f->nodes[count++] = n;
    }
    if (count == 0)
        return misfit(f, "", "is meant by an entry without nodes", "");
    qsort(f->nodes, count, sizeof *f->nodes, by_number);
    offer = find_offer(f, provider, count, (uint32_t)json_integer_value(json_object_get(saved, "variant")));
    if (offer == INLAY_NONE) {
        char detail[220];
        (void)snprintf(detail, sizeof detail, "%.40s, which says: %.150s", provider,
                       refusal_of(f, provider, f->nodes[0]));
        return misfit(f, f->r->graph->nodes[f->nodes[0]]->info.name.data, "is not offered by ", detail);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (f->choice[f->nodes[k]] != INLAY_NONE)
            return misfit(f, f->r->graph->nodes[f->nodes[k]]->info.name.data, "is assigned twice", "");
        f->choice[f->nodes[k]] = offer;
    }
    f->p->offers[offer].cost.ns = json_number_value(json_object_get(saved, "ns"));
    for (uint32_t k = COST_NONE; k <= COST_MEASURED; k++)
        if (strcmp(cost_source_name(k), source) == 0)
            f->p->offers[offer].cost_source = k;
    return INLAY_OK;
}

static bool start_follower(struct follower *f, struct arena *scratch)
{
    const struct graph *g = f->r->graph;

    f->first = arena_array(scratch, (size_t)g->node_count + 1, sizeof *f->first);
    f->next = arena_array(scratch, (size_t)f->p->offer_count + 1, sizeof *f->next);
    f->nodes = arena_array(scratch, (size_t)g->node_count + 1, sizeof *f->nodes);
    if (f->first == NULL || f->next == NULL || f->nodes == NULL)
        return false;
    memset(f->first, 0xff, g->node_count * sizeof *f->first);
    memset(f->choice, 0xff, g->node_count * sizeof *f->choice);
    for (uint32_t o = f->p->offer_count; o-- > 0;) {
        uint32_t n = f->p->offers[o].nodes[0];
        f->next[o] = f->first[n];
        f->first[n] = o;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        const inlay_str *name = &g->nodes[n]->info.name;
        if (!names_add(&f->names, name->data, strlen(name->data), n, NULL))
            return false;
    }
    return true;
}

inlay_status saved_plan_follow(const saved_plan *s, const part_job *job, const uint8_t *candidates,
                               struct arena *scratch, uint32_t *choice, inlay_diag *diag)
{
    struct follower f = {
        .s = s, .r = &job->request, .graph_path = job->path, .p = job->out, .choice = choice, .diag = diag
    };
    const struct graph *g = job->request.graph;
    inlay_status status = INLAY_OK;
    const json_t *graph_json_of, *saved;
    size_t i, k;

    if (!start_follower(&f, scratch)) {
        status = no_memory(diag, "to follow plan %s", s->path);
        goto done;
    }
    json_array_foreach(json_object_get(s->root, "graphs"), i, graph_json_of) {
        if (strcmp(text_of(graph_json_of, "graph"), job->path) != 0)
            continue;
        json_array_foreach(json_object_get(graph_json_of, "offers"), k, saved)
            INLAY_TRY(follow_offer(&f, saved));
    }
    for (uint32_t n = 0; n < g->node_count; n++)
        if (candidates[n] && choice[n] == INLAY_NONE) {
            status = misfit(&f, g->nodes[n]->info.name.data, "is not in the plan", "");
            goto done;
        }
done:
    names_deinit(&f.names);
    return status;
}
