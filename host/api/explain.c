/* api/explain.c - who runs what and why, as text and as JSON. */
#include "exec/session.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ facts */

static const char *region_provider(const inlay_session *s, const part_region *r)
{
    return r->provider == INLAY_NONE ? "host" : s->providers[r->provider].name;
}

static uint64_t value_bytes(const graph *g, uint32_t v)
{
    const inlay_value_info *info = &g->values[v].info;
    uint64_t n = inlay_dtype_bits(info->dtype);

    if (info->rank == INLAY_RANK_UNKNOWN)
        return 0;
    for (uint32_t d = 0; d < info->rank; d++)
        n *= info->dims[d].kind == INLAY_DIM_FIXED ? (uint64_t)info->dims[d].value : 1;
    return (n + 7) / 8;
}

static uint64_t boundary_bytes(const graph *g, const uint32_t *values, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += value_bytes(g, values[i]);
    return sum;
}

/* The cheapest offer of another provider for the region's first node; NULL if there is none. */
static const part_offer *runner_up(const partition *p, const part_region *r)
{
    const part_offer *best = NULL;

    for (uint32_t i = 0; i < p->offer_count; i++) {
        const part_offer *o = &p->offers[i];
        if (o->provider != r->provider && o->node_count == 1 && o->nodes[0] == r->nodes[0] &&
            (best == NULL || o->cost.ns < best->cost.ns))
            best = o;
    }
    return best;
}

/* ------------------------------------------------------------------ JSON */

static json_t *refusals_json(const inlay_session *s, const program *p)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->parts.refusal_count; i++) {
        const part_refusal *f = &p->parts.refusals[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:i, s:s, s:s?}", "node",
                                              p->graph->nodes[f->node]->info.name.data, "op",
                                              p->graph->nodes[f->node]->info.op_type.data, "provider",
                                              s->providers[f->provider].name, "code", (int)f->code, "text", f->text,
                                              "accepted_if", f->accepted_if));
    }
    return list;
}

static json_t *program_json(const inlay_session *s, const program *p);

static json_t *region_json(const inlay_session *s, const program *p, const program_step *step)
{
    const part_region *r = step->region;
    const part_offer *second = runner_up(&p->parts, r);
    json_t *nodes = json_array(), *region;

    for (uint32_t k = 0; k < r->node_count; k++) {
        const graph_node *n = p->graph->nodes[r->nodes[k]];
        json_array_append_new(nodes, json_pack("{s:s, s:s, s:s, s:i}", "name", n->info.name.data, "op",
                                               n->info.op_type.data, "domain", n->info.domain.data, "since_version",
                                               (int)n->info.since_version));
    }
    region = json_pack("{s:s, s:o, s:f, s:I, s:I}", "provider", region_provider(s, r), "nodes", nodes, "cost_ns",
                       r->cost_ns, "bytes_in", (json_int_t)boundary_bytes(p->graph, r->inputs, r->input_count),
                       "bytes_out", (json_int_t)boundary_bytes(p->graph, r->outputs, r->output_count));
    if (second != NULL)
        json_object_set_new(region, "runner_up", json_pack("{s:s, s:f}", "provider",
                                                           s->providers[second->provider].name, "cost_ns",
                                                           second->cost.ns));
    if (step->bodies != NULL) {
        json_t *bodies = json_object();
        for (uint32_t b = 0; b < step->node->body_count; b++)
            json_object_set_new(bodies, step->node->bodies[b].attr, program_json(s, step->bodies[b]));
        json_object_set_new(region, "bodies", bodies);
    }
    return region;
}

static json_t *program_json(const inlay_session *s, const program *p)
{
    json_t *regions = json_array();

    for (uint32_t i = 0; i < p->step_count; i++)
        json_array_append_new(regions, region_json(s, p, &p->steps[i]));
    return json_pack("{s:s, s:i, s:f, s:o, s:o}", "graph", p->graph->name, "nodes", (int)p->graph->node_count,
                     "cost_ns", p->parts.cost_ns, "regions", regions, "refusals", refusals_json(s, p));
}

static int dump_piece(const char *text, size_t bytes, void *ctx)
{
    const explain_sink *sink = ctx;

    sink->write(sink->user, text, bytes);
    return 0;
}

inlay_status session_explain_json(const inlay_session *s, const explain_sink *sink)
{
    json_t *providers = json_array(), *files = json_array(), *all;
    int failed;

    for (uint32_t i = 0; i < s->env.provider_count; i++)
        json_array_append_new(providers, json_pack("{s:s, s:s?}", "name", s->providers[i].name, "plugin",
                                                   s->providers[i].plugin_path));
    for (uint32_t i = 0; i < plugin_set_file_count(s->plugins); i++) {
        const plugin_file *f = plugin_set_file(s->plugins, i);
        if (!f->loaded)
            json_array_append_new(files, json_pack("{s:s, s:s?}", "file", f->path, "reason", f->reason));
    }
    all = json_pack("{s:s, s:i, s:o, s:o, s:o}", "policy", s->rules.by_priority ? "priority" : "cost", "threads",
                    (int)s->env.max_threads, "providers", providers, "not_loaded", files, "main",
                    program_json(s, s->main));
    if (all == NULL)
        return INLAY_OUT_OF_MEMORY;
    failed = json_dump_callback(all, dump_piece, (void *)(uintptr_t)sink, JSON_INDENT(2));
    json_decref(all);
    return failed != 0 ? INLAY_OUT_OF_MEMORY : INLAY_OK;
}

/* ------------------------------------------------------------------ text */

INLAY_PRINTF(2, 3)
static void put(const explain_sink *sink, const char *format, ...)
{
    char line[1024];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0)
        sink->write(sink->user, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static const char *nice_ns(double ns, char text[32])
{
    if (ns < 1e3)
        (void)snprintf(text, 32, "%.0f ns", ns);
    else if (ns < 1e6)
        (void)snprintf(text, 32, "%.1f us", ns / 1e3);
    else
        (void)snprintf(text, 32, "%.2f ms", ns / 1e6);
    return text;
}

static const char *nice_bytes(uint64_t bytes, char text[32])
{
    if (bytes < 1024)
        (void)snprintf(text, 32, "%" PRIu64 " B", bytes);
    else if (bytes < 1024 * 1024)
        (void)snprintf(text, 32, "%.1f KiB", (double)bytes / 1024);
    else
        (void)snprintf(text, 32, "%.1f MiB", (double)bytes / (1024 * 1024));
    return text;
}

/* Steps next to each other with one provider are told as one line: single-node regions would be a page each. */
static uint32_t run_length(const program *p, uint32_t from)
{
    uint32_t n = 1;

    while (from + n < p->step_count && p->steps[from + n].region->provider == p->steps[from].region->provider &&
           p->steps[from].bodies == NULL && p->steps[from + n].bodies == NULL)
        n++;
    return n;
}

static void text_program(const inlay_session *s, const program *p, const explain_sink *sink, int indent)
{
    for (uint32_t i = 0, n; i < p->step_count; i += n) {
        const part_region *first = p->steps[i].region;
        double ns = 0, second_ns = 0;
        uint32_t nodes = 0;
        const char *second = NULL;
        char a[32], b[32], c[32];

        n = run_length(p, i);
        for (uint32_t k = 0; k < n; k++) {
            const part_offer *o = runner_up(&p->parts, p->steps[i + k].region);
            ns += p->steps[i + k].region->cost_ns;
            nodes += p->steps[i + k].region->node_count;
            if (o != NULL) {
                second = s->providers[o->provider].name;
                second_ns += o->cost.ns;
            }
        }
        put(sink, "%*spart %u -> %-10s %4u node%s (%s%s%s)  est %s  in %s  out %s\n", indent, "", i,
            region_provider(s, first), nodes, nodes == 1 ? " " : "s", p->steps[i].node->info.op_type.data,
            nodes > 1 ? " .. " : "", nodes > 1 ? p->steps[i + n - 1].node->info.op_type.data : "", nice_ns(ns, a),
            nice_bytes(boundary_bytes(p->graph, first->inputs, first->input_count), b),
            nice_bytes(boundary_bytes(p->graph, p->steps[i + n - 1].region->outputs,
                                      p->steps[i + n - 1].region->output_count), c));
        if (second != NULL)
            put(sink, "%*s  runner-up %s %s\n", indent, "", second, nice_ns(second_ns, a));
        for (uint32_t k = 0; p->steps[i].bodies != NULL && k < p->steps[i].node->body_count; k++) {
            put(sink, "%*s  %s of node '%s':\n", indent, "", p->steps[i].node->bodies[k].attr,
                p->steps[i].node->info.name.data);
            text_program(s, p->steps[i].bodies[k], sink, indent + 4);
        }
    }
    for (uint32_t i = 0; i < p->parts.refusal_count; i++) {
        const part_refusal *f = &p->parts.refusals[i];
        put(sink, "%*srefused  %s: %s '%s': %s%s%s\n", indent, "", s->providers[f->provider].name,
            p->graph->nodes[f->node]->info.op_type.data, p->graph->nodes[f->node]->info.name.data, f->text,
            f->accepted_if != NULL ? "; accepted if: " : "", f->accepted_if != NULL ? f->accepted_if : "");
    }
}

static uint32_t count_nodes(const program *p)
{
    uint32_t n = p->graph->node_count;

    for (uint32_t i = 0; i < p->step_count; i++)
        for (uint32_t b = 0; p->steps[i].bodies != NULL && b < p->steps[i].node->body_count; b++)
            n += count_nodes(p->steps[i].bodies[b]);
    return n;
}

inlay_status session_explain_text(const inlay_session *s, const explain_sink *sink)
{
    char a[32];

    put(sink, "policy %s, %u thread%s, providers:", s->rules.by_priority ? "priority" : "cost", s->env.max_threads,
        s->env.max_threads == 1 ? "" : "s");
    for (uint32_t i = 0; i < s->env.provider_count; i++)
        put(sink, " %s", s->providers[i].name);
    put(sink, "\n%u nodes in the file, %u after optimisation, estimated %s\n", s->nodes_in_file,
        count_nodes(s->main), nice_ns(s->main->parts.cost_ns, a));
    text_program(s, s->main, sink, 0);
    for (uint32_t i = 0; i < plugin_set_file_count(s->plugins); i++) {
        const plugin_file *f = plugin_set_file(s->plugins, i);
        if (!f->loaded)
            put(sink, "not loaded  %s: %s\n", f->path, f->reason != NULL ? f->reason : "no reason");
    }
    return INLAY_OK;
}
