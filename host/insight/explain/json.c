/* The explanation as JSON, also the source of the HTML page; README.md of this folder has the schema. */
#include "explain/internal.h"
#include "partition/cost/cost_profile.h"
#include "inlay/check.h"

enum { SHOWN_NODES = 8 };

struct json_writer {
    const struct facts *facts;
    json_out *json;
    bool all;
};

static void write_known_ns(json_out *json, const char *key, double ns)
{
    if (ns >= 0)
        json_number(json, key, ns);
}

void json_value(json_out *json, const char *key, const facts_graph *graph, uint32_t value, bool more)
{
    const inlay_value_info *info = &graph->program->graph->values[value].info;

    json_open(json, key, '{', true);
    json_text(json, "name", info->name.data);
    json_text(json, "dtype", inlay_dtype_name(info->dtype));
    if (info->rank != INLAY_RANK_UNKNOWN) {
        json_open(json, "shape", '[', true);
        for (uint32_t d = 0; d < info->rank; d++) {
            const inlay_dim *dim = &info->dims[d];
            if (dim->kind == INLAY_DIM_FIXED)
                json_number(json, NULL, (double)dim->value);
            else
                json_text(json, NULL,
                          dim->kind == INLAY_DIM_SYMBOLIC ? graph->program->model->symbols[dim->symbol].name.data
                                                          : "?");
        }
        json_close(json);
    }
    if (info->kind != INLAY_VALUE_TENSOR && info->kind != 0)
        json_text(json, "kind",
                  info->kind == INLAY_VALUE_SEQUENCE ? "sequence"
                  : info->kind == INLAY_VALUE_MAP    ? "map"
                                                     : "optional");
    json_whole(json, "bytes", facts_value_bytes(graph, value));
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
        json_bool(json, "constant", true);
    if (!more)
        json_close(json);
}

static void write_indexes(json_out *json, const char *key, const uint32_t *list, uint32_t count)
{
    json_open(json, key, '[', true);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == INLAY_NONE)
            json_number(json, NULL, -1);
        else
            json_whole(json, NULL, list[i]);
    }
    json_close(json);
}

static void write_node(struct json_writer *json_writer, const facts_graph *graph, uint32_t index)
{
    const graph_node *info = graph->program->graph->nodes[index];
    const facts_node *node = &graph->nodes[index];
    const struct partition *parts = graph->parts;
    json_out *json = json_writer->json;

    json_open(json, NULL, '{', true);
    json_text(json, "name", info->info.name.data);
    json_text(json, "op", info->info.op_type.data);
    json_text(json, "domain", info->info.domain.data);
    if (info->source != NULL)
        json_text(json, "source", info->source);
    if (graph_node_module(info) != NULL)
        json_text(json, "module", graph_node_module(info));
    json_whole(json, "since_version", info->info.since_version);
    json_whole(json, "region", node->region);
    json_text(json, "provider", facts_provider_name(json_writer->facts, graph->regions[node->region].region->provider));
    write_indexes(json, "inputs", info->info.inputs, info->info.input_count);
    write_indexes(json, "outputs", info->info.outputs, info->info.output_count);
    if (info->capture_count > 0)
        write_indexes(json, "captures", info->captures, info->capture_count);
    json_open(json, "offers", '[', true);
    for (uint32_t i = 0; i < node->offer_count; i++) {
        uint32_t offer = graph->offers_of[node->first_offer + i];
        json_open(json, NULL, '{', true);
        json_text(json, "provider", facts_provider_name(json_writer->facts, parts->offers[offer].provider));
        if (parts->offers[offer].cost_source != COST_NONE) {
            json_number(json, "cost_ns", facts_displayed_ns(&parts->offers[offer], parts->offers[offer].cost.ns));
            json_number(json, "compared_ns", parts->offers[offer].cost.ns);
        }
        json_text(json, "price", cost_source_name(parts->offers[offer].cost_source));
        if (parts->offers[offer].region_price)
            json_bool(json, "region_price", true);
        if (parts->offers[offer].node_count > 1)
            json_whole(json, "nodes", parts->offers[offer].node_count);
        if (offer == node->offer) {
            json_bool(json, "chosen", true);
            json_number(json, "flops", parts->offers[offer].cost.flops);
            json_whole(json, "bytes_moved",
                       parts->offers[offer].cost.bytes_read + parts->offers[offer].cost.bytes_written);
        }
        json_close(json);
    }
    json_close(json);
    if (node->kernel != NULL)
        json_kernel(json, node->kernel);
    if (node->refusal_count > 0) {
        json_open(json, "refused_by", '[', true);
        for (uint32_t i = 0; i < node->refusal_count; i++) {
            const partition_refusal *refusal = &parts->refusals[graph->refusals_of[node->first_refusal + i]];
            json_open(json, NULL, '{', true);
            json_text(json, "provider", facts_provider_name(json_writer->facts, refusal->provider));
            json_text(json, "text", refusal->text);
            if (refusal->accepted_if != NULL)
                json_text(json, "accepted_if", refusal->accepted_if);
            json_close(json);
        }
        json_close(json);
    }
    json_close(json);
}

static void write_graph(struct json_writer *json_writer, const char *key, const facts_graph *graph);

static void write_weights(json_out *json, stream_sizes sizes)
{
    json_open(json, "weights", '{', true);
    json_whole(json, "in_memory_bytes", sizes.resident);
    json_whole(json, "read_bytes", sizes.streamed);
    json_whole(json, "table_bytes", sizes.on_demand);
    json_close(json);
}

static void write_region(struct json_writer *json_writer, const facts_region *region)
{
    json_out *json = json_writer->json;

    json_open(json, NULL, '{', region->body_count == 0);
    json_text(json, "provider", facts_provider_name(json_writer->facts, region->region->provider));
    write_indexes(json, "nodes", region->region->nodes, region->region->node_count);
    json_number(json, "cost_ns", region->ns);
    if (region->region->launch_ns > 0)
        json_number(json, "launch_ns", region->region->launch_ns);
    if (region->region->border_ns > 0)
        json_number(json, "border_ns", region->region->border_ns);
    write_known_ns(json, "measured_ns", region->measured_ns);
    if (region->measured_ns >= 0)
        json_whole(json, "calls", region->calls);
    json_text(json, "price", region->region->provider == INLAY_NONE ? "bodies" : cost_source_name(region->source));
    if (region->region_price)
        json_bool(json, "region_price", true);
    json_number(json, "flops", region->flops);
    json_number(json, "bytes_moved", region->bytes_moved);
    json_whole(json, "bytes_in", region->bytes_in);
    json_whole(json, "bytes_out", region->bytes_out);
    json_whole(json, "resident_bytes", region->resident_bytes);
    json_whole(json, "workspace_bytes", region->workspace_bytes);
    if (region->step->weights != NULL)
        write_weights(json, region->weights);
    if (region->body_count > 0) {
        json_open(json, "bodies", '{', false);
        for (uint32_t b = 0; b < region->body_count; b++)
            write_graph(json_writer, region->step->node->bodies[b].attr, region->bodies[b]);
        json_close(json);
    }
    json_close(json);
}

static void write_stretch(struct json_writer *json_writer, const facts_stretch *stretch)
{
    static const char *const kinds[] = { "none", "about", "exact", "no price" };
    json_out *json = json_writer->json;

    json_open(json, NULL, '{', true);
    json_text(json, "provider", facts_provider_name(json_writer->facts, stretch->provider));
    json_whole(json, "first_region", stretch->first);
    json_whole(json, "regions", stretch->count);
    json_whole(json, "nodes", stretch->node_count);
    json_number(json, "cost_ns", stretch->ns);
    write_known_ns(json, "measured_ns", stretch->measured_ns);
    json_text(json, "price", stretch->provider == INLAY_NONE ? "bodies" : cost_source_name(stretch->source));
    if (stretch->region_price)
        json_bool(json, "region_price", true);
    json_whole(json, "bytes_in", stretch->bytes_in);
    json_whole(json, "bytes_out", stretch->bytes_out);
    json_whole(json, "resident_bytes", stretch->resident_bytes);
    json_whole(json, "workspace_bytes", stretch->workspace_bytes);
    if (stretch->runner_up.kind != RUNNER_UP_NONE && stretch->runner_up.provider != INLAY_NONE) {
        json_open(json, "runner_up", '{', true);
        json_text(json, "provider", facts_provider_name(json_writer->facts, stretch->runner_up.provider));
        json_whole(json, "nodes", stretch->runner_up.node_count);
        INLAY_CHECK(stretch->runner_up.kind <= RUNNER_UP_UNPRICED);
        if (stretch->runner_up.kind != RUNNER_UP_UNPRICED)
            json_number(json, "extra_ns", stretch->runner_up.extra_ns);
        json_text(json, "kind", kinds[stretch->runner_up.kind]);
        if (stretch->runner_up.why != NULL)
            json_text(json, "why", stretch->runner_up.why);
        json_close(json);
    }
    json_close(json);
}

static void write_copy(struct json_writer *json_writer, const facts_graph *graph, const partition_copy *copy)
{
    json_out *json = json_writer->json;

    json_open(json, NULL, '{', true);
    json_whole(json, "value", copy->value);
    json_text(json, "name", facts_value_name(graph, copy->value));
    if (copy->from_region != INLAY_NONE)
        json_whole(json, "from_region", copy->from_region);
    if (copy->to_region != INLAY_NONE)
        json_whole(json, "to_region", copy->to_region);
    if (facts_copy_producer(graph, copy) != INLAY_NONE)
        json_text(json, "from_node", facts_node_info(graph, facts_copy_producer(graph, copy))->name.data);
    if (facts_copy_reader(graph, copy) != INLAY_NONE)
        json_text(json, "to_node", facts_node_info(graph, facts_copy_reader(graph, copy))->name.data);
    json_text(json, "from", facts_domain_name(json_writer->facts, copy->from_domain));
    json_text(json, "to", facts_domain_name(json_writer->facts, copy->to_domain));
    json_whole(json, "bytes", copy->bytes);
    json_number(json, "cost_ns", copy->ns);
    if (copy->link != LINK_HOST)
        json_text(json, "link", link_name(copy->link));
    if (copy->once)
        json_bool(json, "once", true);
    if (json_writer->facts->timings != NULL)
        write_known_ns(json, "measured_ns", timings_copy_ns(json_writer->facts->timings, graph->program, copy->value));
    json_close(json);
}

static void write_graph(struct json_writer *json_writer, const char *key, const facts_graph *graph)
{
    const struct graph *model_graph = graph->program->graph;
    json_out *json = json_writer->json;

    json_open(json, key, '{', false);
    json_text(json, "graph", model_graph->name);
    json_text(json, "path", graph->path);
    json_number(json, "times", graph->times);
    json_bool(json, "times_known", graph->times_known);
    json_number(json, "cost_ns", graph->ns);
    json_number(json, "copies_ns", graph->copies_ns);
    write_indexes(json, "inputs", model_graph->inputs, model_graph->input_count);
    write_indexes(json, "captured", model_graph->captured, model_graph->captured_count);
    write_indexes(json, "outputs", model_graph->outputs, model_graph->output_count);
    json_open(json, "nodes", '[', false);
    for (uint32_t i = 0; i < model_graph->node_count; i++)
        write_node(json_writer, graph, i);
    json_close(json);
    json_open(json, "values", '[', false);
    for (uint32_t v = 0; v < model_graph->value_count; v++)
        json_value(json, NULL, graph, v, false);
    json_close(json);
    json_open(json, "regions", '[', false);
    for (uint32_t i = 0; i < graph->region_count; i++)
        write_region(json_writer, &graph->regions[i]);
    json_close(json);
    json_open(json, "stretches", '[', false);
    for (uint32_t i = 0; i < graph->partition_count; i++)
        write_stretch(json_writer, &graph->stretches[i]);
    json_close(json);
    json_open(json, "copies", '[', false);
    for (uint32_t i = 0; i < graph->parts->copy_count; i++)
        write_copy(json_writer, graph, &graph->parts->copies[i]);
    json_close(json);
    json_close(json);
}

static void write_providers(struct json_writer *json_writer)
{
    const inlay_session *session = json_writer->facts->session;
    json_out *json = json_writer->json;

    json_open(json, "providers", '[', false);
    for (uint32_t i = 0; i < json_writer->facts->provider_count; i++) {
        const facts_provider *provider = &json_writer->facts->providers[i];
        json_open(json, NULL, '{', true);
        json_text(json, "name", provider->name);
        json_text(json, "plugin", session->providers[i].plugin_path);
        json_text(json, "version", session->open[i]->version);
        json_whole(json, "nodes", provider->node_count);
        json_bool(json, "offered", provider->offered);
        json_whole(json, "regions", provider->region_count);
        json_whole(json, "stretches", provider->partition_count);
        json_number(json, "cost_ns", provider->ns);
        if (json_writer->facts->timings != NULL && json_writer->facts->instead == NULL)
            json_number(json, "measured_ns", provider->measured_ns);
        json_whole(json, "resident_bytes", provider->resident_bytes);
        json_whole(json, "peak_bytes", provider->peak_bytes);
        if (provider->limit_bytes > 0)
            json_whole(json, "limit_bytes", provider->limit_bytes);
        if (session->rules.left_out != NULL && session->rules.left_out[i])
            json_bool(json, "left_out", true);
        json_close(json);
    }
    json_close(json);
    json_open(json, "not_used", '[', false);
    for (const session_skipped *skipped = session->skipped; skipped != NULL; skipped = skipped->next) {
        json_open(json, NULL, '{', true);
        json_text(json, "provider", skipped->name);
        json_text(json, "reason", skipped->reason);
        json_close(json);
    }
    json_close(json);
    json_open(json, "not_loaded", '[', false);
    for (uint32_t i = 0; i < plugin_set_file_count(session->plugins); i++) {
        const plugin_file *file = plugin_set_file(session->plugins, i);
        if (file->loaded)
            continue;
        json_open(json, NULL, '{', true);
        json_text(json, "file", file->path);
        json_text(json, "reason", file->reason);
        json_close(json);
    }
    json_close(json);
}

static void write_refusals(struct json_writer *json_writer)
{
    const struct facts *facts = json_writer->facts;
    json_out *json = json_writer->json;

    json_open(json, "refusals", '[', false);
    for (uint32_t i = 0; i < facts->refusals_count; i++) {
        const facts_refusals *refusals = &facts->refusals[i];
        json_open(json, NULL, '{', true);
        json_text(json, "provider", facts_provider_name(facts, refusals->provider));
        json_whole(json, "code", refusals->code);
        json_bool(json, "could_run", refusals->could_run);
        json_text(json, "text", refusals->text);
        json_text(json, "accepted_if", refusals->accepted_if);
        json_whole(json, "count", refusals->count);
        json_open(json, "nodes", '[', true);
        for (uint32_t k = 0; k < refusals->count && (json_writer->all || k < SHOWN_NODES); k++) {
            const facts_refused *refused = &facts->refused[refusals->first + k];
            json_text(
                json, NULL,
                facts_node_info(refused->graph, refused->graph->parts->refusals[refused->refusal].node)->name.data);
        }
        json_close(json);
        json_close(json);
    }
    json_close(json);
}

static void write_declined_shapes(void *ctx, const char *shapes, const char *text)
{
    json_out *json = ctx;

    json_open(json, NULL, '{', true);
    json_text(json, "inputs", shapes);
    json_text(json, "text", text);
    json_close(json);
}

/* Shapes that providers declined during runs. */
static void write_declined(struct json_writer *json_writer)
{
    json_open(json_writer->json, "declined", '[', false);
    for (uint32_t i = 0; i < json_writer->facts->graph_count; i++)
        (void)declined_list((struct program *)(uintptr_t)json_writer->facts->graphs[i]->program, UINT32_MAX,
                            write_declined_shapes, json_writer->json);
    json_close(json_writer->json);
}

static void write_outcome(struct json_writer *json_writer, const explain_view *view)
{
    const facts_outcome *outcome = view->outcome;
    json_out *json = json_writer->json;

    json_open(json, "what_if", '{', false);
    json_open(json, "rules", '[', true);
    for (uint32_t i = 0; i < view->what_if_count; i++)
        json_text(json, NULL, view->what_ifs[i]);
    json_close(json);
    json_bool(json, "possible", outcome->impossible == NULL);
    if (outcome->impossible != NULL) {
        json_text(json, "reason", outcome->impossible);
    } else {
        json_number(json, "cost_ns", outcome->ns);
        json_number(json, "copies_ns", outcome->copies_ns);
        json_whole(json, "copies", outcome->copy_count);
        json_whole(json, "moved", outcome->moved_count);
    }
    json_open(json, "moves", '[', false);
    for (uint32_t i = 0; i < outcome->move_count; i++) {
        json_open(json, NULL, '{', true);
        json_text(json, "from", facts_provider_name(json_writer->facts, outcome->moves[i].from));
        json_text(json, "to", facts_provider_name(json_writer->facts, outcome->moves[i].to));
        json_whole(json, "count", outcome->moves[i].count);
        json_open(json, "nodes", '[', true);
        for (size_t k = 0; k < sizeof outcome->moves[i].names / sizeof outcome->moves[i].names[0]; k++)
            if (outcome->moves[i].names[k] != NULL)
                json_text(json, NULL, outcome->moves[i].names[k]);
        json_close(json);
        json_close(json);
    }
    json_close(json);
    json_close(json);
}

static void write_objectives(struct json_writer *json_writer, const explain_view *view)
{
    json_out *json = json_writer->json;

    json_open(json, "objectives", '[', false);
    for (uint32_t i = 0; i < OBJECTIVE_COUNT; i++) {
        const facts_outcome *outcome = view->objectives[i];

        json_open(json, NULL, '{', true);
        json_text(json, "objective", partition_objective_name(i));
        json_bool(json, "possible", outcome->impossible == NULL);
        if (outcome->impossible != NULL) {
            json_text(json, "reason", outcome->impossible);
        } else {
            json_number(json, "cost_ns", outcome->ns);
            if (outcome->energy_nj > 0)
                json_number(json, "energy_nj", outcome->energy_nj);
            json_number(json, "kept_bytes", outcome->kept_bytes);
            json_whole(json, "moved", outcome->moved_count);
        }
        json_close(json);
    }
    json_close(json);
}

void json_session(const struct facts *facts, const explain_view *view)
{
    json_out json = { .sink = view->sink };
    struct json_writer json_writer = { .facts = facts, .json = &json, .all = view->all };
    const char *name;
    char cpu[160];
    int64_t size;

    profile_cpu(cpu, sizeof cpu);
    json_open(&json, NULL, '{', false);
    json_whole(&json, "version", 1);
    json_text(&json, "model", facts->session->model->source.path);
    json_text(&json, "policy", facts->session->rules.by_priority ? "priority" : "cost");
    json_text(&json, "objective", partition_objective_name(facts->session->rules.objective));
    json_text(&json, "cpu", cpu);
    json_whole(&json, "threads", profile_threads(facts->session->env.max_threads));
    json_open(&json, "priced_threads", '[', true);
    json_whole(&json, NULL, COST_FEW_THREADS);
    json_whole(&json, NULL, COST_THREADS);
    json_close(&json);
    json_whole(&json, "nodes_in_file", facts->session->loading.nodes_in_file);
    json_whole(&json, "nodes", facts->node_count);
    json_whole(&json, "regions", facts->region_count);
    json_open(&json, "assumed", '[', false);
    for (uint32_t i = 0; facts_assumed(facts, &i, &name, &size); i++) {
        json_open(&json, NULL, '{', true);
        json_text(&json, "name", name);
        json_number(&json, "size", (double)size);
        json_close(&json);
    }
    json_close(&json);
    json_number(&json, "cost_ns", facts->ns);
    json_number(&json, "copies_ns", facts->copies_ns);
    json_number(&json, "kept_back_ns", facts->kept_back_ns);
    json_number(&json, "flops", facts->flops);
    json_number(&json, "bytes_moved", facts->bytes_moved);
    if (facts->session->env.stream != NULL)
        write_weights(&json, weight_stream_sizes(facts->session->env.stream));
    if (facts->timings != NULL) {
        json_number(&json, "measured_ns", facts->measured_ns);
        json_whole(&json, "measured_runs", timings_runs(facts->timings));
        if (facts->instead != NULL)
            json_text(&json, "ran_instead", facts->instead->fallback.why);
    }
    if (view->outcome != NULL)
        write_outcome(&json_writer, view);
    if (view->objectives != NULL)
        write_objectives(&json_writer, view);
    if (view->scaling != NULL)
        json_scaling(&json, view->scaling);
    write_providers(&json_writer);
    write_refusals(&json_writer);
    write_declined(&json_writer);
    write_graph(&json_writer, "main", facts->graphs[0]);
    json_close(&json);
}
