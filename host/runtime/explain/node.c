/* All about a node, as text and as JSON: what goes in and out, who answered what, why the others do not run it. */
#include "explain/internal.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_READERS = 4 };

static const char *provider_of_node(const struct facts *f, const facts_graph *g, uint32_t node)
{
    return facts_provider_name(f, g->regions[g->nodes[node].region].region->provider);
}

/* Does the copy touch the node: one of its inputs on the way in, or an output on the way out? */
static bool at_edge(const facts_graph *g, const part_copy *c, uint32_t node)
{
    if (c->to_region == g->nodes[node].region && facts_reads(g, node, c->value))
        return true;
    return g->program->graph->values[c->value].info.producer == node;
}

/* ------------------------------------------------------------------ text */

static void say_neighbour(const explain_sink *sink, const struct facts *f, const facts_graph *g, uint32_t node)
{
    say(sink, "%s ", facts_node_info(g, node)->op_type.data);
    say_text(sink, facts_node_info(g, node)->name.data);
    say(sink, " (%s)", provider_of_node(f, g, node));
}

static void say_readers(const explain_sink *sink, const struct facts *f, const facts_graph *g, uint32_t v)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < g->program->graph->node_count; n++) {
        if (!facts_reads(g, n, v))
            continue;
        if (count < SHOWN_READERS) {
            say(sink, "%s", count == 0 ? "  to " : ", ");
            say_neighbour(sink, f, g, n);
        }
        count++;
    }
    if (count > SHOWN_READERS)
        say(sink, " and %" PRIu32 " more", count - SHOWN_READERS);
    if ((g->program->graph->values[v].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        say(sink, "%s an output of the graph", count > 0 ? "," : " ");
}

static void say_value(const explain_sink *sink, const struct facts *f, const facts_graph *g, uint32_t v,
                      const char *label, bool output)
{
    const inlay_value_info *info = &g->program->graph->values[v].info;
    char a[NICE_BYTES];

    say(sink, "  %-8s ", label);
    say_text(sink, info->name.data);
    say(sink, " %s", inlay_dtype_name(info->dtype));
    say(sink, "%s", info->rank == INLAY_RANK_UNKNOWN ? "[...]" : "[");
    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank; d++) {
        const inlay_dim *dim = &info->dims[d];
        if (dim->kind == INLAY_DIM_FIXED)
            say(sink, "%s%" PRId64, d > 0 ? "," : "", dim->value);
        else
            say(sink, "%s%.60s", d > 0 ? "," : "",
                dim->kind == INLAY_DIM_SYMBOLIC ? g->program->model->symbols[dim->symbol].name.data : "?");
    }
    say(sink, "%s %s", info->rank == INLAY_RANK_UNKNOWN ? "" : "]", nice_bytes(facts_value_bytes(g, v), a));
    if (output) {
        say_readers(sink, f, g, v);
    } else if (info->producer != INLAY_NONE) {
        say(sink, "  from ");
        say_neighbour(sink, f, g, info->producer);
    } else {
        say(sink, "  %s", (info->flags & INLAY_VALUE_CONSTANT) != 0 ? "constant" : "an input of the graph");
    }
    say(sink, "\n");
}

/* Why the provider does not run the node although it offers to. */
static void say_why_not(const explain_sink *sink, const struct facts *f, const facts_answer *x)
{
    char a[NICE_BYTES], b[NICE_BYTES], c[NICE_BYTES];

    if (!x->asked)
        return;
    if (x->impossible != NULL) {
        say(sink, "  can't be: ");
        say_text(sink, x->impossible);
        return;
    }
    if (x->extra_ns > -0.5) {
        if (x->extra_ns < 0.5)
            say(sink, "  would make no difference; the first provider in the list wins a tie");
        else
            say(sink, "  would cost %s more in all", nice_ns(x->extra_ns, a));
    } else {
        say(sink, "  would save %s", nice_ns(-x->extra_ns, a));
        say(sink, f->session->rules.by_priority ? ", but policy priority takes the first that can"
                                                : ", less than prices are sure of, or against a rule");
    }
    if (x->copies_ns > 0.5 || x->copies_ns < -0.5)
        say(sink, " (%s here, %s of copies)", nice_change(x->here_ns, b), nice_change(x->copies_ns, c));
}

static void say_answers(const explain_sink *sink, const struct facts *f, const facts_graph *g,
                        const facts_answer *answers)
{
    const struct partition *parts = g->parts;
    char a[NICE_BYTES];

    for (uint32_t i = 0; i < f->provider_count; i++) {
        const facts_answer *x = &answers[i];

        say(sink, "  %-8s %-14s", i == 0 ? "answers" : "", facts_provider_name(f, i));
        if (x->offer != INLAY_NONE) {
            const part_offer *o = &parts->offers[x->offer];
            say(sink, " %9s  %s", nice_ns(facts_told(f, o, o->cost.ns), a), cost_source_name(o->cost_source));
            if (o->node_count > 1)
                say(sink, ", for %" PRIu32 " nodes together", o->node_count);
            if (x->chosen)
                say(sink, "  chosen");
            say_why_not(sink, f, x);
        } else if (x->refusal != NULL) {
            say(sink, " refused: ");
            say_text(sink, x->refusal->text);
            if (x->refusal->accepted_if != NULL) {
                say(sink, "; accepted if: ");
                say_text(sink, x->refusal->accepted_if);
            }
        } else {
            say(sink, " was not asked: the host runs this node");
        }
        say(sink, "\n");
    }
}

static void say_node(const explain_sink *sink, const struct facts *f, const facts_graph *g, uint32_t node,
                     const facts_answer *answers)
{
    const graph_node *n = g->program->graph->nodes[node];
    const facts_region *r = &g->regions[g->nodes[node].region];
    char a[NICE_BYTES], b[NICE_BYTES];
    bool any = false;

    say(sink, "%s ", n->info.op_type.data);
    say_text(sink, n->info.name.data);
    say(sink, "  (%s-%" PRIu32 " of %s, region %" PRIu32 " of ", n->info.op_type.data, n->info.since_version,
        n->info.domain.data, g->nodes[node].region);
    say_text(sink, g->path);
    say(sink, ")\n  runs on  %s, predicted %s", facts_provider_name(f, r->region->provider), nice_ns(r->ns, a));
    if (r->measured_ns >= 0)
        say(sink, ", measured %s", nice_ns(r->measured_ns, a));
    if (r->region->node_count > 1)
        say(sink, ", with %" PRIu32 " other nodes", r->region->node_count - 1);
    if (r->resident_bytes > 0)
        say(sink, ", resident %s", nice_bytes(r->resident_bytes, a));
    if (r->workspace_bytes > 0)
        say(sink, ", workspace %s", nice_bytes(r->workspace_bytes, a));
    say(sink, "\n");
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE)
            say_value(sink, f, g, n->info.inputs[i], i == 0 ? "inputs" : "", false);
    for (uint32_t i = 0; i < n->capture_count; i++)
        say_value(sink, f, g, n->captures[i], i == 0 ? "captures" : "", false);
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE)
            say_value(sink, f, g, n->info.outputs[i], i == 0 ? "outputs" : "", true);
    for (uint32_t i = 0; i < g->parts->copy_count; i++) {
        const part_copy *c = &g->parts->copies[i];
        if (!at_edge(g, c, node))
            continue;
        say(sink, "  %-8s ", any ? "" : "copies");
        say_text(sink, facts_value_name(g, c->value));
        say(sink, " %s -> %s, %s, %s\n", facts_domain_name(f, c->from_domain), facts_domain_name(f, c->to_domain),
            nice_bytes(c->bytes, a), nice_ns(c->ns, b));
        any = true;
    }
    say_answers(sink, f, g, answers);
}

inlay_status text_nodes(struct facts *f, const char *pattern, const explain_view *view, inlay_diag *diag)
{
    uint32_t found = 0, most = view->all ? UINT32_MAX : NODES_SHOWN;

    for (uint32_t i = 0; i < f->graph_count; i++) {
        const facts_graph *g = f->graphs[i];
        for (uint32_t n = 0; n < g->program->graph->node_count; n++) {
            facts_answer *answers;
            inlay_status status;

            if (!facts_matches(pattern, facts_node_info(g, n)) || found++ >= most)
                continue;
            status = facts_ask_node(f, g, n, found <= NODES_ASKED, &answers, diag);
            if (status != INLAY_OK)
                return status;
            say(view->sink, "%s", found > 1 ? "\n" : "");
            say_node(view->sink, f, g, n, answers);
        }
    }
    if (found > most)
        say(view->sink, "\nand %" PRIu32 " other nodes (--all shows them)\n", found - most);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ JSON */

static void tell_value(json_out *j, const struct facts *f, const facts_graph *g, uint32_t v, bool output)
{
    uint32_t maker = g->program->graph->values[v].info.producer;

    json_value(j, NULL, g, v, true);
    if (!output && maker != INLAY_NONE) {
        json_text(j, "from", facts_node_info(g, maker)->name.data);
        json_text(j, "from_provider", provider_of_node(f, g, maker));
    }
    if (output) {
        json_open(j, "to", '[', true);
        for (uint32_t n = 0; n < g->program->graph->node_count; n++) {
            if (!facts_reads(g, n, v))
                continue;
            json_open(j, NULL, '{', true);
            json_text(j, "node", facts_node_info(g, n)->name.data);
            json_text(j, "provider", provider_of_node(f, g, n));
            json_close(j);
        }
        json_close(j);
    }
    json_close(j);
}

static void tell_answer(json_out *j, const struct facts *f, const facts_graph *g, const facts_answer *x)
{
    json_open(j, NULL, '{', true);
    json_text(j, "provider", facts_provider_name(f, x->provider));
    json_bool(j, "chosen", x->chosen);
    if (x->offer != INLAY_NONE) {
        const part_offer *o = &g->parts->offers[x->offer];
        json_number(j, "cost_ns", facts_told(f, o, o->cost.ns));
        json_text(j, "price", cost_source_name(o->cost_source));
        json_whole(j, "nodes", o->node_count);
    }
    if (x->refusal != NULL) {
        json_text(j, "refused", x->refusal->text);
        json_text(j, "accepted_if", x->refusal->accepted_if);
    }
    if (x->impossible != NULL) {
        json_text(j, "impossible", x->impossible);
    } else if (x->asked) {
        json_number(j, "extra_ns", x->extra_ns);
        json_number(j, "extra_here_ns", x->here_ns);
        json_number(j, "extra_copies_ns", x->copies_ns);
    }
    json_close(j);
}

static void tell_node(json_out *j, const struct facts *f, const facts_graph *g, uint32_t node,
                      const facts_answer *answers)
{
    const graph_node *n = g->program->graph->nodes[node];
    const facts_region *r = &g->regions[g->nodes[node].region];

    json_open(j, NULL, '{', false);
    json_text(j, "name", n->info.name.data);
    json_text(j, "op", n->info.op_type.data);
    json_text(j, "domain", n->info.domain.data);
    json_whole(j, "since_version", n->info.since_version);
    json_text(j, "graph", g->path);
    json_whole(j, "region", g->nodes[node].region);
    json_text(j, "provider", facts_provider_name(f, r->region->provider));
    json_number(j, "region_cost_ns", r->ns);
    if (r->measured_ns >= 0)
        json_number(j, "region_measured_ns", r->measured_ns);
    json_open(j, "inputs", '[', false);
    for (uint32_t i = 0; i < n->info.input_count + n->capture_count; i++) {
        uint32_t v = i < n->info.input_count ? n->info.inputs[i] : n->captures[i - n->info.input_count];
        if (v != INLAY_NONE)
            tell_value(j, f, g, v, false);
    }
    json_close(j);
    json_open(j, "outputs", '[', false);
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE)
            tell_value(j, f, g, n->info.outputs[i], true);
    json_close(j);
    json_open(j, "copies", '[', false);
    for (uint32_t i = 0; i < g->parts->copy_count; i++) {
        const part_copy *c = &g->parts->copies[i];
        if (!at_edge(g, c, node))
            continue;
        json_open(j, NULL, '{', true);
        json_text(j, "name", facts_value_name(g, c->value));
        json_text(j, "from", facts_domain_name(f, c->from_domain));
        json_text(j, "to", facts_domain_name(f, c->to_domain));
        json_whole(j, "bytes", c->bytes);
        json_number(j, "cost_ns", c->ns);
        json_close(j);
    }
    json_close(j);
    json_open(j, "answers", '[', false);
    for (uint32_t i = 0; i < f->provider_count; i++)
        tell_answer(j, f, g, &answers[i]);
    json_close(j);
    json_close(j);
}

inlay_status json_nodes(struct facts *f, const char *pattern, const explain_view *view, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    json_out j = { .sink = view->sink };
    uint32_t found = 0;

    json_open(&j, NULL, '{', false);
    json_whole(&j, "version", 1);
    json_text(&j, "pattern", pattern);
    json_open(&j, "nodes", '[', false);
    for (uint32_t i = 0; i < f->graph_count && status == INLAY_OK; i++) {
        const facts_graph *g = f->graphs[i];
        for (uint32_t n = 0; n < g->program->graph->node_count && status == INLAY_OK; n++) {
            facts_answer *answers;

            if (!facts_matches(pattern, facts_node_info(g, n)))
                continue;
            status = facts_ask_node(f, g, n, found++ < NODES_ASKED, &answers, diag);
            if (status == INLAY_OK)
                tell_node(&j, f, g, n, answers);
        }
    }
    json_close(&j);
    json_close(&j);
    return status;
}
