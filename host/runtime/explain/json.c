/* The explanation for programs, and what the page is drawn from; README.md of this folder has the schema. */
#include "explain/internal.h"
#include <string.h>

enum { SHOWN_NODES = 8 };

struct teller {
    const struct facts *f;
    json_out *j;
    bool all;
};

static void tell_ns(json_out *j, const char *key, double ns)
{
    if (ns >= 0)
        json_number(j, key, ns);
}

/* ------------------------------------------------------------------ values and nodes */

void json_value(json_out *j, const char *key, const facts_graph *g, uint32_t v, bool more)
{
    const inlay_value_info *info = &g->program->graph->values[v].info;

    json_open(j, key, '{', true);
    json_text(j, "name", info->name.data);
    json_text(j, "dtype", inlay_dtype_name(info->dtype));
    if (info->rank != INLAY_RANK_UNKNOWN) {
        json_open(j, "shape", '[', true);
        for (uint32_t d = 0; d < info->rank; d++) {
            const inlay_dim *dim = &info->dims[d];
            if (dim->kind == INLAY_DIM_FIXED)
                json_number(j, NULL, (double)dim->value);
            else
                json_text(j, NULL,
                          dim->kind == INLAY_DIM_SYMBOLIC ? g->program->model->symbols[dim->symbol].name.data : "?");
        }
        json_close(j);
    }
    if (info->kind != INLAY_VALUE_TENSOR && info->kind != 0)
        json_text(j, "kind",
                  info->kind == INLAY_VALUE_SEQUENCE ? "sequence"
                  : info->kind == INLAY_VALUE_MAP    ? "map"
                                                     : "optional");
    json_whole(j, "bytes", facts_value_bytes(g, v));
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
        json_bool(j, "constant", true);
    if (!more)
        json_close(j);
}

static void tell_indexes(json_out *j, const char *key, const uint32_t *list, uint32_t count)
{
    json_open(j, key, '[', true);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == INLAY_NONE)
            json_number(j, NULL, -1);
        else
            json_whole(j, NULL, list[i]);
    }
    json_close(j);
}

static void tell_node(struct teller *t, const facts_graph *g, uint32_t index)
{
    const graph_node *n = g->program->graph->nodes[index];
    const facts_node *node = &g->nodes[index];
    const struct partition *parts = g->parts;
    json_out *j = t->j;

    json_open(j, NULL, '{', true);
    json_text(j, "name", n->info.name.data);
    json_text(j, "op", n->info.op_type.data);
    json_text(j, "domain", n->info.domain.data);
    json_whole(j, "since_version", n->info.since_version);
    json_whole(j, "region", node->region);
    json_text(j, "provider", facts_provider_name(t->f, g->regions[node->region].region->provider));
    tell_indexes(j, "inputs", n->info.inputs, n->info.input_count);
    tell_indexes(j, "outputs", n->info.outputs, n->info.output_count);
    if (n->capture_count > 0)
        tell_indexes(j, "captures", n->captures, n->capture_count);
    json_open(j, "offers", '[', true);
    for (uint32_t i = 0; i < node->offer_count; i++) {
        uint32_t o = g->offers_of[node->first_offer + i];
        json_open(j, NULL, '{', true);
        json_text(j, "provider", facts_provider_name(t->f, parts->offers[o].provider));
        json_number(j, "cost_ns", facts_told(t->f, &parts->offers[o], parts->offers[o].cost.ns));
        json_number(j, "compared_ns", parts->offers[o].cost.ns);
        json_text(j, "price", cost_source_name(parts->offers[o].cost_source));
        if (parts->offers[o].node_count > 1)
            json_whole(j, "nodes", parts->offers[o].node_count);
        if (o == node->offer) {
            json_bool(j, "chosen", true);
            json_number(j, "flops", parts->offers[o].cost.flops);
            json_whole(j, "bytes_moved", parts->offers[o].cost.bytes_read + parts->offers[o].cost.bytes_written);
        }
        json_close(j);
    }
    json_close(j);
    if (node->kernel != NULL)
        json_kernel(j, node->kernel);
    if (node->refusal_count > 0) {
        json_open(j, "refused_by", '[', true);
        for (uint32_t i = 0; i < node->refusal_count; i++) {
            const part_refusal *r = &parts->refusals[g->refusals_of[node->first_refusal + i]];
            json_open(j, NULL, '{', true);
            json_text(j, "provider", facts_provider_name(t->f, r->provider));
            json_text(j, "text", r->text);
            if (r->accepted_if != NULL)
                json_text(j, "accepted_if", r->accepted_if);
            json_close(j);
        }
        json_close(j);
    }
    json_close(j);
}

/* ------------------------------------------------------------------ regions, stretches, copies */

static void tell_graph(struct teller *t, const char *key, const facts_graph *g);

static void tell_region(struct teller *t, const facts_region *r)
{
    json_out *j = t->j;

    json_open(j, NULL, '{', r->body_count == 0);
    json_text(j, "provider", facts_provider_name(t->f, r->region->provider));
    tell_indexes(j, "nodes", r->region->nodes, r->region->node_count);
    json_number(j, "cost_ns", r->ns);
    if (r->region->launch_ns > 0)
        json_number(j, "launch_ns", r->region->launch_ns);
    if (r->region->border_ns > 0)
        json_number(j, "border_ns", r->region->border_ns);
    tell_ns(j, "measured_ns", r->measured_ns);
    if (r->measured_ns >= 0)
        json_whole(j, "calls", r->calls);
    json_text(j, "price", r->region->provider == INLAY_NONE ? "bodies" : cost_source_name(r->source));
    json_number(j, "flops", r->flops);
    json_number(j, "bytes_moved", r->bytes_moved);
    json_whole(j, "bytes_in", r->bytes_in);
    json_whole(j, "bytes_out", r->bytes_out);
    json_whole(j, "resident_bytes", r->resident_bytes);
    json_whole(j, "workspace_bytes", r->workspace_bytes);
    if (r->body_count > 0) {
        json_open(j, "bodies", '{', false);
        for (uint32_t b = 0; b < r->body_count; b++)
            tell_graph(t, r->step->node->bodies[b].attr, r->bodies[b]);
        json_close(j);
    }
    json_close(j);
}

static void tell_stretch(struct teller *t, const facts_stretch *s)
{
    static const char *const kinds[] = { "none", "about", "exact" };
    json_out *j = t->j;

    json_open(j, NULL, '{', true);
    json_text(j, "provider", facts_provider_name(t->f, s->provider));
    json_whole(j, "first_region", s->first);
    json_whole(j, "regions", s->count);
    json_whole(j, "nodes", s->node_count);
    json_number(j, "cost_ns", s->ns);
    tell_ns(j, "measured_ns", s->measured_ns);
    json_text(j, "price", s->provider == INLAY_NONE ? "bodies" : cost_source_name(s->source));
    json_whole(j, "bytes_in", s->bytes_in);
    json_whole(j, "bytes_out", s->bytes_out);
    json_whole(j, "resident_bytes", s->resident_bytes);
    json_whole(j, "workspace_bytes", s->workspace_bytes);
    if (s->rival.kind != RIVAL_NONE && s->rival.provider != INLAY_NONE) {
        json_open(j, "runner_up", '{', true);
        json_text(j, "provider", facts_provider_name(t->f, s->rival.provider));
        json_whole(j, "nodes", s->rival.node_count);
        json_number(j, "extra_ns", s->rival.extra_ns);
        json_text(j, "kind", kinds[s->rival.kind]);
        json_close(j);
    }
    json_close(j);
}

static void tell_copy(struct teller *t, const facts_graph *g, const part_copy *c)
{
    json_out *j = t->j;

    json_open(j, NULL, '{', true);
    json_whole(j, "value", c->value);
    json_text(j, "name", facts_value_name(g, c->value));
    if (c->from_region != INLAY_NONE)
        json_whole(j, "from_region", c->from_region);
    if (c->to_region != INLAY_NONE)
        json_whole(j, "to_region", c->to_region);
    if (facts_copy_maker(g, c) != INLAY_NONE)
        json_text(j, "from_node", facts_node_info(g, facts_copy_maker(g, c))->name.data);
    if (facts_copy_reader(g, c) != INLAY_NONE)
        json_text(j, "to_node", facts_node_info(g, facts_copy_reader(g, c))->name.data);
    json_text(j, "from", facts_domain_name(t->f, c->from_domain));
    json_text(j, "to", facts_domain_name(t->f, c->to_domain));
    json_whole(j, "bytes", c->bytes);
    json_number(j, "cost_ns", c->ns);
    if (c->once)
        json_bool(j, "once", true);
    if (t->f->timings != NULL)
        tell_ns(j, "measured_ns", timings_copy_ns(t->f->timings, g->program, c->value));
    json_close(j);
}

static void tell_graph(struct teller *t, const char *key, const facts_graph *g)
{
    const struct graph *of = g->program->graph;
    json_out *j = t->j;

    json_open(j, key, '{', false);
    json_text(j, "graph", of->name);
    json_text(j, "path", g->path);
    json_number(j, "times", g->times);
    json_bool(j, "times_known", g->times_known);
    json_number(j, "cost_ns", g->ns);
    json_number(j, "copies_ns", g->copies_ns);
    tell_indexes(j, "inputs", of->inputs, of->input_count);
    tell_indexes(j, "captured", of->captured, of->captured_count);
    tell_indexes(j, "outputs", of->outputs, of->output_count);
    json_open(j, "nodes", '[', false);
    for (uint32_t i = 0; i < of->node_count; i++)
        tell_node(t, g, i);
    json_close(j);
    json_open(j, "values", '[', false);
    for (uint32_t v = 0; v < of->value_count; v++)
        json_value(j, NULL, g, v, false);
    json_close(j);
    json_open(j, "regions", '[', false);
    for (uint32_t i = 0; i < g->region_count; i++)
        tell_region(t, &g->regions[i]);
    json_close(j);
    json_open(j, "stretches", '[', false);
    for (uint32_t i = 0; i < g->stretch_count; i++)
        tell_stretch(t, &g->stretches[i]);
    json_close(j);
    json_open(j, "copies", '[', false);
    for (uint32_t i = 0; i < g->parts->copy_count; i++)
        tell_copy(t, g, &g->parts->copies[i]);
    json_close(j);
    json_close(j);
}

/* ------------------------------------------------------------------ the whole */

static void tell_providers(struct teller *t)
{
    const inlay_session *s = t->f->session;
    json_out *j = t->j;

    json_open(j, "providers", '[', false);
    for (uint32_t i = 0; i < t->f->provider_count; i++) {
        const facts_provider *p = &t->f->providers[i];
        json_open(j, NULL, '{', true);
        json_text(j, "name", p->name);
        json_text(j, "plugin", s->providers[i].plugin_path);
        json_text(j, "version", s->open[i]->version);
        json_whole(j, "nodes", p->node_count);
        json_whole(j, "regions", p->region_count);
        json_whole(j, "stretches", p->stretch_count);
        json_number(j, "cost_ns", p->ns);
        if (t->f->timings != NULL)
            json_number(j, "measured_ns", p->measured_ns);
        json_whole(j, "resident_bytes", p->resident_bytes);
        json_whole(j, "peak_bytes", p->peak_bytes);
        if (p->limit_bytes > 0)
            json_whole(j, "limit_bytes", p->limit_bytes);
        json_close(j);
    }
    json_close(j);
    json_open(j, "not_used", '[', false);
    for (const session_skipped *x = s->skipped; x != NULL; x = x->next) {
        json_open(j, NULL, '{', true);
        json_text(j, "provider", x->name);
        json_text(j, "reason", x->reason);
        json_close(j);
    }
    json_close(j);
    json_open(j, "not_loaded", '[', false);
    for (uint32_t i = 0; i < plugin_set_file_count(s->plugins); i++) {
        const plugin_file *file = plugin_set_file(s->plugins, i);
        if (file->loaded)
            continue;
        json_open(j, NULL, '{', true);
        json_text(j, "file", file->path);
        json_text(j, "reason", file->reason);
        json_close(j);
    }
    json_close(j);
}

static void tell_refusals(struct teller *t)
{
    const struct facts *f = t->f;
    json_out *j = t->j;

    json_open(j, "refusals", '[', false);
    for (uint32_t i = 0; i < f->refusals_count; i++) {
        const facts_refusals *r = &f->refusals[i];
        json_open(j, NULL, '{', true);
        json_text(j, "provider", facts_provider_name(f, r->provider));
        json_whole(j, "code", r->code);
        json_text(j, "text", r->text);
        json_text(j, "accepted_if", r->accepted_if);
        json_whole(j, "count", r->count);
        json_open(j, "nodes", '[', true);
        for (uint32_t k = 0; k < r->count && (t->all || k < SHOWN_NODES); k++) {
            const facts_refused *x = &f->refused[r->first + k];
            json_text(j, NULL, facts_node_info(x->graph, x->graph->parts->refusals[x->refusal].node)->name.data);
        }
        json_close(j);
        json_close(j);
    }
    json_close(j);
}

static void tell_late(void *ctx, const char *shapes, const char *text)
{
    json_out *j = ctx;

    json_open(j, NULL, '{', true);
    json_text(j, "inputs", shapes);
    json_text(j, "text", text);
    json_close(j);
}

/* What providers declined in runs, for some shapes. */
static void tell_declined(struct teller *t)
{
    json_open(t->j, "declined", '[', false);
    for (uint32_t i = 0; i < t->f->graph_count; i++)
        (void)declined_list((struct program *)(uintptr_t)t->f->graphs[i]->program, UINT32_MAX, tell_late, t->j);
    json_close(t->j);
}

static void tell_outcome(struct teller *t, const explain_view *view)
{
    const facts_outcome *o = view->outcome;
    json_out *j = t->j;

    json_open(j, "what_if", '{', false);
    json_open(j, "rules", '[', true);
    for (uint32_t i = 0; i < view->what_if_count; i++)
        json_text(j, NULL, view->what_ifs[i]);
    json_close(j);
    json_bool(j, "possible", o->impossible == NULL);
    if (o->impossible != NULL) {
        json_text(j, "reason", o->impossible);
    } else {
        json_number(j, "cost_ns", o->ns);
        json_number(j, "copies_ns", o->copies_ns);
        json_whole(j, "copies", o->copy_count);
        json_whole(j, "moved", o->moved_count);
    }
    json_open(j, "moves", '[', false);
    for (uint32_t i = 0; i < o->move_count; i++) {
        json_open(j, NULL, '{', true);
        json_text(j, "from", facts_provider_name(t->f, o->moves[i].from));
        json_text(j, "to", facts_provider_name(t->f, o->moves[i].to));
        json_whole(j, "count", o->moves[i].count);
        json_open(j, "nodes", '[', true);
        for (size_t k = 0; k < sizeof o->moves[i].names / sizeof o->moves[i].names[0]; k++)
            if (o->moves[i].names[k] != NULL)
                json_text(j, NULL, o->moves[i].names[k]);
        json_close(j);
        json_close(j);
    }
    json_close(j);
    json_close(j);
}

void json_session(const struct facts *f, const explain_view *view)
{
    json_out j = { .sink = view->sink };
    struct teller t = { .f = f, .j = &j, .all = view->all };
    const char *name;
    int64_t size;

    json_open(&j, NULL, '{', false);
    json_whole(&j, "version", 1);
    json_text(&j, "model", f->session->model->path);
    json_text(&j, "policy", f->session->rules.by_priority ? "priority" : "cost");
    json_whole(&j, "threads", f->session->env.max_threads);
    json_whole(&j, "priced_threads", COST_THREADS);
    json_whole(&j, "nodes_in_file", f->session->nodes_in_file);
    json_whole(&j, "nodes", f->node_count);
    json_whole(&j, "regions", f->region_count);
    json_open(&j, "assumed", '[', false);
    for (uint32_t i = 0; facts_assumed(f, &i, &name, &size); i++) {
        json_open(&j, NULL, '{', true);
        json_text(&j, "name", name);
        json_number(&j, "size", (double)size);
        json_close(&j);
    }
    json_close(&j);
    json_number(&j, "cost_ns", f->ns);
    json_number(&j, "copies_ns", f->copies_ns);
    json_number(&j, "flops", f->flops);
    json_number(&j, "bytes_moved", f->bytes_moved);
    if (f->timings != NULL) {
        json_number(&j, "measured_ns", f->measured_ns);
        json_whole(&j, "measured_runs", timings_runs(f->timings));
    }
    if (view->outcome != NULL)
        tell_outcome(&t, view);
    tell_providers(&t);
    tell_refusals(&t);
    tell_declined(&t);
    tell_graph(&t, "main", f->graphs[0]);
    json_close(&j);
}
