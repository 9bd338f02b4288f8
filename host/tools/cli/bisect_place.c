/* Finds the node, or region, of a provider that causes a difference.
 *
 * The session assigns each node to a provider, and each node can also run on the base providers. A plan, as
 * `inlay partition --save` writes it, lists the provider of every node. Suppose that the first k offers keep their
 * provider and all later nodes run on the base providers. The result is right for k = 0 and wrong if k is the number of
 * offers, so for some k the last of the k offers makes it wrong. The method also works in bodies, for any input shapes,
 * and for nodes that a provider fuses: the search runs the offer that it found alone, then together with earlier
 * offers, and finally node by node. */
#include "base/strbuf.h"
#include "cli/bisect.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One offer of the session's plan. */
struct unit {
    const json_t *offer; /* borrowed from assignment.plan or .split */
    uint32_t graph;      /* index in the plan's graphs */
    uint32_t region;     /* number in execution order, over all graphs */
    bool kept;           /* runs on the session's provider; otherwise on the base providers */
};

struct assignment {
    struct search *search;
    const struct trial *good;
    json_t *plan;       /* the session's plan; owned */
    json_t *split;      /* offers of one node each that replace one offer of the plan; owned; may be NULL */
    json_t *base;       /* for each graph of the plan, {node: provider} on the base providers; owned */
    struct unit *units; /* [count] in execution order */
    uint32_t count, regions;
    char providers[600]; /* of both plans, the base providers first */
    char limit[32];      /* maximum number of rewrites */
    char path[300];      /* of the temporary plan file */
};

static inlay_status read_plan(const inlay_session *session, json_t **out, inlay_diag *diag)
{
    struct strbuf text = { 0 };
    inlay_status status = inlay_session_plan_save(session, strbuf_write, &text, diag);

    if (status == INLAY_OK) {
        *out = text.failed ? NULL : json_loadb(text.data, text.size, 0, NULL);
        if (*out == NULL)
            status = no_memory(diag, "for the plan of a run");
    }
    strbuf_deinit(&text);
    return status;
}

static uint32_t find_graph_index(const json_t *saved, const char *path)
{
    json_t *g;
    size_t i;

    json_array_foreach(json_object_get(saved, "graphs"), i, g)
        if (strcmp(json_string_value(json_object_get(g, "graph")), path) == 0)
            return (uint32_t)i;
    return INLAY_NONE;
}

/* Appends the offers of a graph in execution order; offers of bodies come at their node. In a plan, offers are in the
 * order of its regions. */
static bool order_units(struct assignment *assignment, struct program *program)
{
    uint32_t index = find_graph_index(assignment->plan, program->path);
    const json_t *offers =
                     json_object_get(json_array_get(json_object_get(assignment->plan, "graphs"), index), "offers"),
                 *object;
    size_t *first = calloc((size_t)program->parts.region_count + 1, sizeof *first), i;
    bool ok = first != NULL;

    for (i = json_array_size(offers); ok && i-- > 0;) {
        json_int_t region = json_integer_value(json_object_get(json_array_get(offers, i), "region"));
        if (region >= 0 && region < program->parts.region_count)
            first[region] = i;
    }
    for (uint32_t k = 0; ok && k < program->step_count; k++) {
        const program_step *step = &program->steps[k];
        json_int_t region = step->region - program->parts.regions;
        INLAY_CHECK(region >= 0 && region < program->parts.region_count);

        for (uint32_t b = 0; ok && step->provider == NULL && b < step->node->body_count; b++)
            ok = order_units(assignment, step->bodies[b]);
        if (step->provider == NULL)
            continue;
        for (i = first[region]; (object = json_array_get(offers, i)) != NULL; i++) {
            if (json_integer_value(json_object_get(object, "region")) != region)
                break;
            assignment->units[assignment->count++] = (struct unit){ object, index, assignment->regions, true };
        }
        assignment->regions++;
    }
    free(first);
    return ok;
}

/* For each graph of the plan, an object {node: provider}. NULL: no memory. */
static json_t *providers_by_node(const json_t *saved)
{
    json_t *all = json_array(), *g, *object, *node;
    size_t i, k, n;

    json_array_foreach(json_object_get(saved, "graphs"), i, g) {
        json_t *where = json_object();

        json_array_foreach(json_object_get(g, "offers"), k, object)
            json_array_foreach(json_object_get(object, "nodes"), n, node)
                (void)json_object_set(where, json_string_value(node), json_object_get(object, "provider"));
        if (json_array_append_new(all, where) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static void add_names(char *list, size_t bytes, const inlay_session *session)
{
    for (uint32_t i = 0; i < session->env.provider_count; i++) {
        const char *name = session->providers[i].name, *at = list;
        size_t length = strlen(name), used = strlen(list);
        bool there = false;

        while (*at != '\0' && !there) {
            size_t n = strcspn(at, ",");
            there = n == length && memcmp(at, name, n) == 0;
            at += n + (at[n] == ',');
        }
        if (!there)
            (void)snprintf(list + used, bytes - used, "%s%s", used > 0 ? "," : "", name);
    }
}

/* Reads both plans and creates the units. */
static inlay_status read_plans(struct assignment *assignment, const char *base, inlay_diag *diag)
{
    const struct setting limit = { "rewrite_limit", assignment->limit };
    struct trial trial = { 0 };
    json_t *saved = NULL, *g;
    size_t offers = 0, i;
    inlay_status status = INLAY_OK;

    INLAY_TRY(trial_run(assignment->search, &limit, 1, &trial, diag));
    INLAY_TRY(read_plan(trial.session, &assignment->plan, diag));
    json_array_foreach(json_object_get(assignment->plan, "graphs"), i, g)
        offers += json_array_size(json_object_get(g, "offers"));
    assignment->units = calloc(offers + 1, sizeof *assignment->units);
    if (assignment->units == NULL || !order_units(assignment, trial.session->main)) {
        status = no_memory(diag, "for the plan of a run");
        goto done;
    }
    (void)snprintf(assignment->providers, sizeof assignment->providers, "%s", base);
    add_names(assignment->providers, sizeof assignment->providers, trial.session);
    trial_end(&trial);
    INLAY_TRY(
        trial_run(assignment->search,
                  (const struct setting[]){ limit, { "providers", assignment->providers }, { "policy", "priority" } },
                  3, &trial, diag));
    INLAY_TRY(read_plan(trial.session, &saved, diag));
    assignment->base = providers_by_node(saved);
    if (assignment->base == NULL)
        status = no_memory(diag, "for the plan of a run");
done:
    json_decref(saved);
    trial_end(&trial);
    return status;
}

/* Adds one offer for each node of the unit, on the provider that the base plan assigns to it. */
static bool add_base(const struct assignment *assignment, const struct unit *unit, json_t *offers)
{
    const json_t *where = json_array_get(assignment->base, unit->graph), *name;
    size_t i;

    json_array_foreach(json_object_get(unit->offer, "nodes"), i, name)
        if (json_array_append_new(offers, json_pack("{s:O, s:[O]}", "provider",
                                                    json_object_get(where, json_string_value(name)), "nodes", name)) !=
            0)
            return false;
    return true;
}

/* The plan in which kept units run on the session's provider. NULL: no memory. */
static json_t *mixed_plan(const struct assignment *assignment)
{
    json_t *saved = json_deep_copy(assignment->plan), *graphs = json_object_get(saved, "graphs"), *g;
    size_t i;
    bool ok = saved != NULL;

    json_array_foreach(graphs, i, g)
        ok = ok && json_object_set_new(g, "offers", json_array()) == 0;
    for (uint32_t unit = 0; ok && unit < assignment->count; unit++) {
        json_t *offers = json_object_get(json_array_get(graphs, assignment->units[unit].graph), "offers");
        json_t *copy = assignment->units[unit].kept ? json_deep_copy(assignment->units[unit].offer) : NULL;

        ok = assignment->units[unit].kept ? json_array_append_new(offers, copy) == 0
                                          : add_base(assignment, &assignment->units[unit], offers);
    }
    if (!ok)
        json_decref(saved);
    return ok ? saved : NULL;
}

static inlay_status write_mixed_plan(struct assignment *assignment, inlay_diag *diag)
{
    const char *folder = getenv("TMPDIR");
    json_t *saved = mixed_plan(assignment);
    inlay_status status = INLAY_OK;
    int fd;

    if (saved == NULL)
        return no_memory(diag, "for a plan");
    (void)snprintf(assignment->path, sizeof assignment->path, "%s/inlay-bisect-XXXXXX",
                   folder != NULL ? folder : "/tmp");
    fd = mkstemp(assignment->path);
    if (fd < 0 || json_dumpfd(saved, fd, 0) != 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: %s; set TMPDIR to a folder that can be written",
                            assignment->path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    if (fd >= 0 && status != INLAY_OK)
        (void)unlink(assignment->path);
    json_decref(saved);
    return status;
}

/* Runs the mixed plan, with value `tap` as an additional output (NULL: none). The caller ends *out. */
static inlay_status run_mixed_plan(struct assignment *assignment, const char *tap, struct trial *out, inlay_diag *diag)
{
    const struct setting list[] = { { "rewrite_limit", assignment->limit },
                                    { "providers", assignment->providers },
                                    { "plan", assignment->path } };
    inlay_status status = write_mixed_plan(assignment, diag);

    *out = (struct trial){ 0 };
    if (status == INLAY_OK) {
        assignment->search->tap = tap;
        status = trial_run(assignment->search, list, sizeof list / sizeof list[0], out, diag);
        assignment->search->tap = NULL;
        (void)unlink(assignment->path);
    }
    return status;
}

static inlay_status mixed_plan_differs(struct assignment *assignment, struct difference *difference, inlay_diag *diag)
{
    struct trial trial;
    inlay_status status = run_mixed_plan(assignment, NULL, &trial, diag);

    if (status == INLAY_OK)
        status = trial_compare(assignment->search, &trial, assignment->good, 0, difference, diag);
    trial_end(&trial);
    return status;
}

/* Marks the units [from, to) as kept and all others as not kept. */
static void keep_only(struct assignment *assignment, uint32_t from, uint32_t to)
{
    for (uint32_t unit = 0; unit < assignment->count; unit++)
        assignment->units[unit].kept = unit >= from && unit < to;
}

/* A run in which the units [low, high) are kept differs. Finds the last unit of their shortest prefix that differs. */
static inlay_status find_last(struct assignment *assignment, uint32_t low, uint32_t high, uint32_t *out_unit,
                              struct difference *found, inlay_diag *diag)
{
    const uint32_t first = low;
    struct difference difference;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(low < high && high <= assignment->count);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        keep_only(assignment, first, middle);
        INLAY_TRY(mixed_plan_differs(assignment, &difference, diag));
        if (difference.found) {
            high = middle;
            *found = difference;
        } else {
            low = middle;
        }
    }
    *out_unit = high - 1;
done:
    return status;
}

/* A run in which the units `low` to `last` are kept differs. Finds a minimal subset that differs; its units stay marked
 * as kept. */
static inlay_status find_minimal_subset(struct assignment *assignment, uint32_t low, uint32_t last,
                                        struct difference *found, inlay_diag *diag)
{
    enum { MOST_SINGLE = 64 }; /* units that are tested one by one */
    uint32_t high = last;
    struct difference difference;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(low <= last && last < assignment->count);
    keep_only(assignment, last, last + 1);
    INLAY_TRY(mixed_plan_differs(assignment, &difference, diag));
    if (difference.found) {
        *found = difference;
        goto done;
    }
    while (high - low > 1) { /* [low, last] differs, [high, last] does not */
        uint32_t middle = low + (high - low) / 2;

        keep_only(assignment, middle, last + 1);
        INLAY_TRY(mixed_plan_differs(assignment, &difference, diag));
        low = difference.found ? middle : low;
        high = difference.found ? high : middle;
        *found = difference.found ? difference : *found;
    }
    keep_only(assignment, low, last + 1);
    for (uint32_t unit = low + 1; unit < last && last - low <= MOST_SINGLE; unit++) {
        assignment->units[unit].kept = false;
        INLAY_TRY(mixed_plan_differs(assignment, &difference, diag));
        assignment->units[unit].kept = !difference.found;
        *found = difference.found ? difference : *found;
    }
done:
    return status;
}

/* Replaces unit `unit` with one unit per node, on the same provider. */
static inlay_status split_unit(struct assignment *assignment, uint32_t unit, inlay_diag *diag)
{
    const struct unit old = assignment->units[unit];
    const json_t *names = json_object_get(old.offer, "nodes"), *name;
    uint32_t more = (uint32_t)json_array_size(names) - 1;
    struct unit *units = calloc((size_t)assignment->count + more + 1, sizeof *units);
    bool ok = units != NULL;
    size_t i;
    INLAY_CHECK(unit < assignment->count && json_array_size(names) > 0);

    json_decref(assignment->split);
    assignment->split = json_array();
    if (ok) {
        memcpy(units, assignment->units, unit * sizeof *units);
        memcpy(units + unit + 1 + more, assignment->units + unit + 1, (assignment->count - unit - 1) * sizeof *units);
    }
    json_array_foreach(names, i, name) {
        ok = ok && json_array_append_new(assignment->split,
                                         json_pack("{s:O, s:[O]}", "provider", json_object_get(old.offer, "provider"),
                                                   "nodes", name)) == 0;
        if (ok)
            units[unit + i] = (struct unit){ json_array_get(assignment->split, i), old.graph, old.region, true };
    }
    if (!ok) {
        free(units);
        return no_memory(diag, "for the plan of a run");
    }
    free(assignment->units);
    assignment->units = units;
    assignment->count += more;
    return INLAY_OK;
}

/* A run in which only `unit` is kept differs. If the unit is an offer of several nodes, and the run also differs when
 * these nodes are offered one by one, narrows the search to the responsible nodes. Otherwise keeps the offer as one
 * unit. */
static inlay_status narrow_within_unit(struct assignment *assignment, uint32_t unit, struct difference *found,
                                       inlay_diag *diag)
{
    uint32_t count = (uint32_t)json_array_size(json_object_get(assignment->units[unit].offer, "nodes")), last = 0;
    inlay_diag ignored = INLAY_DIAG_INIT;
    struct difference difference = { 0 };
    struct unit *whole;
    inlay_status status = INLAY_OK;

    if (count < 2)
        return INLAY_OK;
    whole = calloc(assignment->count, sizeof *whole);
    if (whole == NULL)
        return no_memory(diag, "for the plan of a run");
    memcpy(whole, assignment->units, assignment->count * sizeof *whole);
    INLAY_TRY(split_unit(assignment, unit, diag));
    status = mixed_plan_differs(assignment, &difference, &ignored);
    if (status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY) {
        *diag = ignored;
        goto done;
    }
    /* No offer consists of these nodes alone, or the result is right with these. */
    if (status != INLAY_OK || !difference.found) {
        struct unit *parts = assignment->units;

        assignment->units = whole;
        assignment->count -= count - 1;
        whole = parts;
        status = INLAY_OK;
        goto done;
    }
    *found = difference;
    INLAY_TRY(find_last(assignment, unit, unit + count, &last, found, diag));
    INLAY_TRY(find_minimal_subset(assignment, unit, last, found, diag));
done:
    free(whole);
    return status;
}

static const struct graph *find_graph(const struct program *program, const char *path)
{
    const struct graph *found = strcmp(program->path, path) == 0 ? program->graph : NULL;

    for (uint32_t b = 0; b < program->body_count && found == NULL; b++)
        found = find_graph(program->bodies[b], path);
    return found;
}

/* Writes the names of the kept nodes to *out. *out_value is the first output of the last kept node, if that node is in
 * the main graph. */
static inlay_status describe(struct assignment *assignment, const struct program *main, struct place *out,
                             const char **out_value, inlay_diag *diag)
{
    uint32_t region = INLAY_NONE;

    out->one_region = true;
    out->nodes = json_array();
    for (uint32_t unit = 0; unit < assignment->count; unit++) {
        const json_t *g = json_array_get(json_object_get(assignment->plan, "graphs"), assignment->units[unit].graph),
                     *name;
        const char *path = json_string_value(json_object_get(g, "graph"));
        const struct graph *graph = assignment->units[unit].kept ? find_graph(main, path) : NULL;
        size_t i;

        if (graph == NULL)
            continue;
        out->one_region = out->one_region && (region == INLAY_NONE || region == assignment->units[unit].region);
        region = assignment->units[unit].region;
        (void)snprintf(out->graph, sizeof out->graph, "%s", path);
        (void)snprintf(out->provider, sizeof out->provider, "%s",
                       json_string_value(json_object_get(assignment->units[unit].offer, "provider")));
        json_array_foreach(json_object_get(assignment->units[unit].offer, "nodes"), i, name) {
            const graph_node *node = NULL;

            for (uint32_t k = 0; k < graph->node_count && node == NULL; k++)
                if (strcmp(graph->nodes[k]->info.name.data, json_string_value(name)) == 0)
                    node = graph->nodes[k];
            if (node == NULL || json_array_append_new(out->nodes, json_pack("{s:s, s:s}", "op", node->info.op_type.data,
                                                                            "name", node->info.name.data)) != 0)
                return no_memory(diag, "for the names of nodes");
            *out_value = path[0] == '\0' && node->info.output_count > 0 && node->info.outputs[0] != INLAY_NONE
                             ? graph->values[node->info.outputs[0]].info.name.data
                             : NULL;
        }
    }
    return INLAY_OK;
}

/* Reports the difference at an output of the kept nodes instead of an output of the model. Values that the optimiser
 * has created cannot be tapped; for them the difference found so far stays. */
static inlay_status compare_at_value(struct assignment *assignment, const char *value, struct difference *found,
                                     inlay_diag *diag)
{
    struct trial bad = { 0 }, right = { 0 };
    struct difference difference = { 0 };
    inlay_diag ignored = INLAY_DIAG_INIT;
    inlay_status status = run_mixed_plan(assignment, value, &bad, &ignored);

    if (status == INLAY_OK) {
        keep_only(assignment, 0, 0);
        status = run_mixed_plan(assignment, value, &right, &ignored);
    }
    if (status == INLAY_OK && inlay_session_find_output(bad.session, value) != INLAY_NONE)
        status = trial_compare(assignment->search, &bad, &right, inlay_session_find_output(bad.session, value),
                               &difference, &ignored);
    if (status == INLAY_OK && difference.found)
        *found = difference;
    trial_end(&bad);
    trial_end(&right);
    if (status == INLAY_CANCELLED)
        *diag = ignored;
    return status == INLAY_CANCELLED ? status : INLAY_OK;
}

inlay_status place_find(struct search *search, const char *base, int64_t limit, const struct trial *good,
                        struct place *out, bool *out_base_differs, inlay_diag *diag)
{
    struct assignment assignment = { .search = search, .good = good };
    struct trial trial = { 0 };
    struct difference difference;
    uint32_t last = 0, kept = 0;
    const char *value = NULL;
    inlay_status status = INLAY_OK;

    *out = (struct place){ 0 };
    *out_base_differs = false;
    (void)snprintf(assignment.limit, sizeof assignment.limit, "%lld", (long long)limit);
    INLAY_TRY(read_plans(&assignment, base, diag));
    keep_only(&assignment, 0, 0);
    INLAY_TRY(mixed_plan_differs(&assignment, &difference, diag));
    *out_base_differs = difference.found;
    if (difference.found)
        goto done;
    keep_only(&assignment, 0, assignment.count);
    INLAY_TRY(run_mixed_plan(&assignment, NULL, &trial, diag));
    INLAY_TRY(trial_compare(search, &trial, good, 0, &out->difference, diag));
    if (!out->difference.found)
        goto done;
    INLAY_TRY(find_last(&assignment, 0, assignment.count, &last, &out->difference, diag));
    INLAY_TRY(find_minimal_subset(&assignment, 0, last, &out->difference, diag));
    for (uint32_t unit = 0; unit < assignment.count; unit++)
        kept += assignment.units[unit].kept;
    if (kept == 1)
        INLAY_TRY(narrow_within_unit(&assignment, last, &out->difference, diag));
    INLAY_TRY(describe(&assignment, trial.session->main, out, &value, diag));
    out->found = true;
    if (value != NULL)
        INLAY_TRY(compare_at_value(&assignment, value, &out->difference, diag));
done:
    trial_end(&trial);
    json_decref(assignment.plan);
    json_decref(assignment.split);
    json_decref(assignment.base);
    free(assignment.units);
    return status;
}

void place_deinit(struct place *place)
{
    json_decref(place->nodes);
    *place = (struct place){ 0 };
}
