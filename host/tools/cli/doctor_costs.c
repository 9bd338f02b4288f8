#include "cli/doctor_costs.h"
#include "base/json_text.h"
#include "cli/measured.h"
#include <math.h>
#include <string.h>

/* A split region is reported if it takes at least this fraction of all regions and copies. */
#define LEAST_SHARE 0.02
/* If the costs of two providers differ by at most this factor, the split follows from the costs alone and is not
 * reported as a problem of the model. */
#define CLOSE_COSTS 2

static double number_of(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* The time of the node according to the chosen offer. */
static double chosen_ns(const json_t *node)
{
    const json_t *offer;
    size_t i;

    json_array_foreach(json_object_get(node, "offers"), i, offer)
        if (json_is_true(json_object_get(offer, "chosen")))
            return number_of(offer, "cost_ns", 0);
    return 0;
}

/* Adds the time of each node of the graph and its bodies to `times`, keyed by the path of the graph and then by name,
 * which is unique only within a graph. The time of a region is divided among its nodes in proportion to their predicted
 * times. */
static void collect_times(const json_t *graph, json_t *times)
{
    const json_t *nodes = json_object_get(graph, "nodes"), *region, *index, *body;
    json_t *own = json_object();
    size_t i, k;

    json_array_foreach(json_object_get(graph, "regions"), i, region) {
        const json_t *list = json_object_get(region, "nodes");
        const double whole = number_of(region, "measured_ns", number_of(region, "cost_ns", 0));
        const char *key;
        double sum = 0;

        json_array_foreach(list, k, index)
            sum += chosen_ns(json_array_get(nodes, (size_t)json_integer_value(index)));
        json_array_foreach(list, k, index) {
            const json_t *node = json_array_get(nodes, (size_t)json_integer_value(index));
            const double share = sum > 0 ? chosen_ns(node) / sum : 1.0 / (double)json_array_size(list);

            (void)json_object_set_new(own, json_text_of(node, "name"), json_real(whole * share));
        }
        json_object_foreach((json_t *)(uintptr_t)json_object_get(region, "bodies"), key, body)
            collect_times(body, times);
    }
    (void)json_object_set_new(times, json_text_of(graph, "path"), own);
}

/* Assigns times to the findings in the graph and its bodies. path: as in the explanation; NULL: out of memory. */
static void assign_times(struct doctor *doctor, const struct graph *graph, const char *path, const json_t *times,
                         bool measured)
{
    const json_t *own = path != NULL ? json_object_get(times, path) : NULL;

    if (own == NULL)
        return;
    for (doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next) {
        for (uint32_t i = 0; finding->graph == graph && i < finding->node_count; i++) {
            const json_t *ns = json_object_get(own, finding->nodes[i]->info.name.data);

            if (!json_is_number(ns))
                continue;
            finding->cost_ms = (finding->cost_ms < 0 ? 0 : finding->cost_ms) + json_number_value(ns) * 1e-6;
            finding->measured = measured;
        }
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            assign_times(doctor, graph->nodes[i]->bodies[b].graph,
                         arena_format(&doctor->model->arena, "%s/%s.%s", path, graph->nodes[i]->info.name.data,
                                      graph->nodes[i]->bodies[b].attr),
                         times, measured);
}

/* Finds operators that the model expands, because they are newer than its opset, and that the optimiser has fused. */
static void check_opset(struct doctor *doctor, const json_t *nodes)
{
    const int64_t opset = graph_model_opset(doctor->model, "ai.onnx");
    json_t *seen = json_object(), *entry;
    const json_t *node;
    const char *op;
    size_t i;

    json_array_foreach(nodes, i, node) {
        uint32_t since = 0;

        if (strcmp(json_text_of(node, "domain"), "ai.onnx") != 0 ||
            op_find("ai.onnx", json_text_of(node, "op"), opset, &since) != NULL || since <= opset)
            continue;
        entry = json_object_get(seen, json_text_of(node, "op"));
        if (entry == NULL)
            (void)json_object_set_new(seen, json_text_of(node, "op"),
                                      json_pack("{s:i, s:i}", "since", (int)since, "count", 1));
        else
            (void)json_object_set_new(entry, "count",
                                      json_integer(json_integer_value(json_object_get(entry, "count")) + 1));
    }
    json_object_foreach(seen, op, entry)
        (void)doctor_add(doctor, DOCTOR_OPSET_OLD, doctor->model->main, NULL, INLAY_NONE,
                         "the model expands %.60s %d times: opset %lld does not have it, opset %d does", op,
                         (int)json_integer_value(json_object_get(entry, "count")), (long long)opset,
                         (int)json_integer_value(json_object_get(entry, "since")));
    json_decref(seen);
}

static graph_node *find_node(const struct graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i]->info.name.data, name) == 0)
            return graph->nodes[i];
    return NULL;
}

/* The refusal of the node by `provider`; NULL: it accepts the node. */
static const json_t *refusal_by(const json_t *node, const char *provider)
{
    const json_t *refusal;
    size_t i;

    json_array_foreach(json_object_get(node, "refused_by"), i, refusal)
        if (strcmp(json_text_of(refusal, "provider"), provider) == 0)
            return refusal;
    return NULL;
}

/* Time of the copies to and from a region. */
static double copies_ns(const json_t *graph, size_t region)
{
    const json_t *copy;
    double sum = 0;
    size_t i;

    json_array_foreach(json_object_get(graph, "copies"), i, copy)
        if (number_of(copy, "from_region", -1) == (double)region || number_of(copy, "to_region", -1) == (double)region)
            sum += number_of(copy, "measured_ns", number_of(copy, "cost_ns", 0));
    return sum;
}

/* The cost of the region's nodes on `provider`, offered one by one; infinite if it refuses a node. Uses the costs that
 * the assignment compared, because times measured in this process do not influence it. */
static double cost_on(const json_t *nodes, const json_t *region, const char *provider)
{
    const json_t *index, *offer;
    double sum = 0;
    size_t i, k;

    json_array_foreach(json_object_get(region, "nodes"), i, index) {
        double least = INFINITY;

        json_array_foreach(json_object_get(json_array_get(nodes, (size_t)json_integer_value(index)), "offers"), k,
                           offer)
            if (strcmp(json_text_of(offer, "provider"), provider) == 0 && json_object_get(offer, "nodes") == NULL)
                least = fmin(least, number_of(offer, "compared_ns", INFINITY));
        sum += least;
    }
    return sum;
}

/* Could the provider of the region also run the two neighbour regions, which run on `theirs`, at a similar cost? */
static bool is_by_cost(const json_t *graph, size_t at, const char *own, const char *theirs)
{
    const json_t *nodes = json_object_get(graph, "nodes"), *regions = json_object_get(graph, "regions");
    double own_cost = 0, their_cost = 0;

    for (size_t side = 0; side < 2; side++) {
        const json_t *region = json_array_get(regions, side == 0 ? at - 1 : at + 1);

        own_cost += cost_on(nodes, region, own);
        their_cost += cost_on(nodes, region, theirs);
    }
    return own_cost <= CLOSE_COSTS * their_cost;
}

/* Reports a region of one provider between two regions of another that refuses it. by_cost: the session chooses
 * providers by cost, not by their order. */
static void check_split(struct doctor *doctor, const json_t *graph, size_t at, double least_ns, bool by_cost,
                        bool measured)
{
    const json_t *regions = json_object_get(graph, "regions"), *region = json_array_get(regions, at);
    const char *before = json_text_of(json_array_get(regions, at - 1), "provider");
    const char *after = json_text_of(json_array_get(regions, at + 1), "provider"),
               *own = json_text_of(region, "provider");
    const json_t *node =
        json_array_get(json_object_get(graph, "nodes"),
                       (size_t)json_integer_value(json_array_get(json_object_get(region, "nodes"), 0)));
    const json_t *why = refusal_by(node, before);
    const double ns = number_of(region, "measured_ns", number_of(region, "cost_ns", 0)) + copies_ns(graph, at);
    graph_node *split_node = find_node(doctor->model->main, json_text_of(node, "name"));
    doctor_finding *finding;

    if (strcmp(before, after) != 0 || strcmp(before, own) == 0 || why == NULL || ns < least_ns ||
        (by_cost && is_by_cost(graph, at, own, before)))
        return;
    finding =
        doctor_add(doctor, DOCTOR_REGION_SPLIT, doctor->model->main, split_node, INLAY_NONE,
                   "%.40s runs %zu node%s between two regions of %.40s, which refuses %s: %.200s%s%.120s", own,
                   json_array_size(json_object_get(region, "nodes")),
                   json_array_size(json_object_get(region, "nodes")) > 1 ? "s" : "", before, json_text_of(node, "op"),
                   json_text_of(why, "text"), json_text_of(why, "accepted_if")[0] != '\0' ? "; it accepts it if " : "",
                   json_text_of(why, "accepted_if"));
    if (finding != NULL) {
        finding->cost_ms = ns * 1e-6;
        finding->measured = measured;
    }
}

/* The time of all regions and copies. Measured times are medians of each of them, so that other processes have less
 * effect than on those of whole runs. */
static double steps_ns(const json_t *graph)
{
    const json_t *step;
    double sum = 0;
    size_t i;

    json_array_foreach(json_object_get(graph, "regions"), i, step)
        sum += number_of(step, "measured_ns", number_of(step, "cost_ns", 0));
    json_array_foreach(json_object_get(graph, "copies"), i, step)
        sum += number_of(step, "measured_ns", number_of(step, "cost_ns", 0));
    return sum;
}

struct near_misses {
    struct doctor *doctor;
    json_t *times; /* as collect_times() collects them for the main graph */
    const doctor_costs *costs;
};

static void on_near_miss(void *user, const inlay_optimize_event *event)
{
    const struct near_misses *near = user;
    doctor_finding *finding;
    const json_t *ns;

    if (event->node == NULL || event->rewrite != 0 || strcmp(event->pass, "attention") != 0)
        return;
    finding = doctor_add(near->doctor, DOCTOR_ATTENTION_SPELLED, near->doctor->model->main,
                         find_node(near->doctor->model->main, event->node), INLAY_NONE, "%.300s", event->text);
    ns = json_object_get(near->times, event->node);
    if (finding != NULL && json_is_number(ns)) {
        finding->cost_ms = json_number_value(ns) * 1e-6;
        finding->measured = near->costs->measured;
    }
}

/* Reports attention that the optimiser does not recognise. */
static inlay_status find_spelled_attention(struct doctor *doctor, const char *path, const cli_common *common,
                                           json_t *times, const doctor_costs *costs, inlay_diag *diag)
{
    struct near_misses near = { doctor, json_object_get(times, "main"), costs };
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;

    args.with_costs = 1;
    args.event = on_near_miss;
    args.user = &near;
    return inlay_optimize(path, common->options, &args, diag);
}

inlay_status doctor_costs_find(struct doctor *doctor, const char *path, const struct feed *given, double seconds,
                               cli_common *common, doctor_costs *out, inlay_diag *diag)
{
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    json_t *explanation = NULL, *times = json_object();
    const json_t *main_graph;
    double run_ns;
    inlay_status status;

    *out = (doctor_costs){ .run_ms = -1 };
    INLAY_TRY(cli_open(common, path, &session, diag));
    if (seconds > 0) {
        INLAY_TRY(inlay_context_create(session, &context, diag));
        INLAY_TRY(measured_runs(given, seconds, common, session, context, diag));
    }
    INLAY_TRY(measured_explain(session, context, &explanation, diag));
    run_ns = number_of(explanation, "measured_ns", number_of(explanation, "cost_ns", -1));
    *out = (doctor_costs){ .run_ms = run_ns < 0 ? -1 : run_ns * 1e-6, .measured = seconds > 0 };
    main_graph = json_object_get(explanation, "main");
    collect_times(main_graph, times);
    assign_times(doctor, doctor->model->main, "main", times, out->measured);
    check_opset(doctor, json_object_get(main_graph, "nodes"));
    for (size_t i = 1; i + 1 < json_array_size(json_object_get(main_graph, "regions")); i++)
        check_split(doctor, main_graph, i, steps_ns(main_graph) * LEAST_SHARE,
                    strcmp(json_text_of(explanation, "policy"), "cost") == 0, out->measured);
    INLAY_TRY(find_spelled_attention(doctor, path, common, times, out, diag));
done:
    json_decref(times);
    json_decref(explanation);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    return status;
}
