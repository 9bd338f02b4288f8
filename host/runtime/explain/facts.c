#include "explain/internal.h"
#include "measure/attribute.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ small questions */

const char *facts_provider_name(const struct facts *f, uint32_t index)
{
    return index < f->provider_count ? f->session->providers[index].name : "host";
}

const char *facts_domain_name(const struct facts *f, uint32_t domain)
{
    for (uint32_t i = 0; domain != INLAY_DOMAIN_HOST && i < f->provider_count; i++) {
        const part_provider *p = &f->session->providers[i];
        if (domain >= p->first_domain && domain - p->first_domain < p->table->domain_count)
            return INLAY_AT(inlay_domain_info, p->table->domains, p->table->domain_stride, domain - p->first_domain)
                ->name;
    }
    return "host";
}

bool facts_assumed(const struct facts *f, uint32_t *at, const char **out_name, int64_t *out_size)
{
    const cost_sizes *sizes = &f->session->sizes;
    const graph_model *model = f->session->model;

    for (; *at < sizes->symbol_count && *at < model->symbol_count; (*at)++) {
        const char *name = model->symbols[*at].name.data;
        /* Expressions follow from the names in them. */
        if (sizes->symbols[*at] < 0 || name == NULL || name[0] == '\0' || strpbrk(name, "()+*/") != NULL)
            continue;
        *out_name = name;
        *out_size = sizes->symbols[*at];
        return true;
    }
    return false;
}

part_request facts_request(const facts_graph *g)
{
    const struct program *p = g->program;

    return (part_request){ .graph = p->graph,
                           .snapshot = &p->snapshot,
                           .providers = p->env->providers,
                           .provider_count = p->env->provider_count,
                           .max_threads = p->env->max_threads,
                           .rules = p->env->rules,
                           .costs = p->env->costs };
}

uint64_t facts_value_bytes(const facts_graph *g, uint32_t v)
{
    return v == INLAY_NONE ? 0 : cost_value_bytes(&g->parts->profile[v]);
}

uint32_t facts_maker_region(const facts_graph *g, uint32_t v)
{
    uint32_t maker = g->program->graph->values[v].info.producer;

    return maker == INLAY_NONE ? INLAY_NONE : g->nodes[maker].region;
}

bool facts_reads(const facts_graph *g, uint32_t node, uint32_t v)
{
    const graph_node *n = g->program->graph->nodes[node];

    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] == v)
            return true;
    for (uint32_t i = 0; i < n->capture_count; i++)
        if (n->captures[i] == v)
            return true;
    return false;
}

uint32_t facts_copy_maker(const facts_graph *g, const part_copy *c)
{
    return c->from_region == INLAY_NONE ? INLAY_NONE : g->program->graph->values[c->value].info.producer;
}

uint32_t facts_copy_reader(const facts_graph *g, const part_copy *c)
{
    const part_region *r = c->to_region == INLAY_NONE ? NULL : g->regions[c->to_region].region;

    for (uint32_t i = 0; r != NULL && i < r->node_count; i++)
        if (facts_reads(g, r->nodes[i], c->value))
            return r->nodes[i];
    return INLAY_NONE;
}

uint32_t facts_cheapest_other(const facts_graph *g, uint32_t node, uint32_t but)
{
    const part_offer *offers = g->parts->offers;
    uint32_t best = INLAY_NONE;

    for (uint32_t i = 0; i < g->nodes[node].offer_count; i++) {
        uint32_t o = g->offers_of[g->nodes[node].first_offer + i];
        if (offers[o].provider != but && offers[o].node_count == 1 &&
            (best == INLAY_NONE || offers[o].cost.ns < offers[best].cost.ns))
            best = o;
    }
    return best;
}

/* ------------------------------------------------------------------ nodes: who offered, who refused, who won */

/* Turns counts in `count` fields into places of the nodes' lists; returns the length of all lists. */
static size_t lay_out(facts_node *nodes, uint32_t node_count)
{
    uint32_t offers = 0, refusals = 0;

    for (uint32_t n = 0; n < node_count; n++) {
        nodes[n].first_offer = offers;
        nodes[n].first_refusal = refusals;
        offers += nodes[n].offer_count;
        refusals += nodes[n].refusal_count;
        nodes[n].offer_count = nodes[n].refusal_count = 0;
    }
    return offers;
}

static bool list_answers(struct facts *f, facts_graph *g)
{
    const struct partition *parts = g->parts;
    uint32_t nodes = g->program->graph->node_count;

    g->nodes = arena_array(&f->a, (size_t)nodes + 1, sizeof *g->nodes);
    if (g->nodes == NULL)
        return false;
    /* Offers that were declined late are told as refusals. */
    for (uint32_t o = 0; o < parts->offer_count; o++)
        for (uint32_t k = 0; !parts->offers[o].declined && k < parts->offers[o].node_count; k++)
            g->nodes[parts->offers[o].nodes[k]].offer_count++;
    for (uint32_t r = 0; r < parts->refusal_count; r++)
        g->nodes[parts->refusals[r].node].refusal_count++;
    g->offers_of = arena_array(&f->a, lay_out(g->nodes, nodes) + 1, sizeof *g->offers_of);
    g->refusals_of = arena_array(&f->a, (size_t)parts->refusal_count + 1, sizeof *g->refusals_of);
    if (g->offers_of == NULL || g->refusals_of == NULL)
        return false;
    for (uint32_t o = 0; o < parts->offer_count; o++) {
        for (uint32_t k = 0; !parts->offers[o].declined && k < parts->offers[o].node_count; k++) {
            facts_node *n = &g->nodes[parts->offers[o].nodes[k]];
            g->offers_of[n->first_offer + n->offer_count++] = o;
        }
    }
    for (uint32_t r = 0; r < parts->refusal_count; r++) {
        facts_node *n = &g->nodes[parts->refusals[r].node];
        g->refusals_of[n->first_refusal + n->refusal_count++] = r;
    }
    for (uint32_t i = 0; i < parts->region_count; i++)
        for (uint32_t k = 0; k < parts->regions[i].node_count; k++)
            g->nodes[parts->regions[i].nodes[k]] =
                (facts_node){ .region = i,
                              .offer = INLAY_NONE,
                              .first_offer = g->nodes[parts->regions[i].nodes[k]].first_offer,
                              .offer_count = g->nodes[parts->regions[i].nodes[k]].offer_count,
                              .first_refusal = g->nodes[parts->regions[i].nodes[k]].first_refusal,
                              .refusal_count = g->nodes[parts->regions[i].nodes[k]].refusal_count };
    for (uint32_t i = 0; i < parts->region_count; i++)
        for (uint32_t k = 0; k < parts->regions[i].offer_count; k++) {
            const part_offer *o = &parts->offers[parts->regions[i].offers[k]];
            for (uint32_t m = 0; m < o->node_count; m++)
                g->nodes[o->nodes[m]].offer = parts->regions[i].offers[k];
        }
    return true;
}

/* ------------------------------------------------------------------ regions */

/* How often the bodies run: what was measured; otherwise of If the dearer branch, of the others what is known. */
static void reckon_times(const facts_graph *g, facts_region *r)
{
    const graph_node *n = r->step->node;
    bool known = true, is_if = strcmp(n->info.op_type.data, "If") == 0;
    double times = is_if ? 1 : part_iterations(&g->program->parts, n, &known);
    uint32_t dearest = 0;

    for (uint32_t b = 1; b < r->body_count; b++)
        if (r->bodies[b]->ns > r->bodies[dearest]->ns)
            dearest = b;
    for (uint32_t b = 0; b < r->body_count; b++) {
        facts_graph *body = r->bodies[b];
        body->times = is_if && b != dearest ? 0 : times;
        body->times_known = known;
        if (r->calls > 0) {
            body->times = (double)body->executions / r->calls;
            body->times_known = true;
        }
    }
}

static bool gather_graph(struct facts *f, const struct program *p, facts_graph *parent, const char *path,
                         facts_graph **out);

/* The bodies of a node of the host's, and with them its price. */
static bool gather_bodies(struct facts *f, facts_graph *g, facts_region *r)
{
    const graph_node *n = r->step->node;

    r->body_count = r->step->bodies == NULL ? 0 : n->body_count;
    r->bodies = arena_array(&f->a, (size_t)r->body_count + 1, sizeof(facts_graph *));
    if (r->bodies == NULL)
        return false;
    for (uint32_t b = 0; b < r->body_count; b++) {
        const char *path = arena_format(&f->a, "%s/%s.%s", g->path, n->info.name.data, n->bodies[b].attr);

        if (path == NULL || !gather_graph(f, r->step->bodies[b], g, path, &r->bodies[b]))
            return false;
    }
    reckon_times(g, r);
    for (uint32_t b = 0; b < r->body_count; b++)
        r->ns += facts_rounds(r->bodies[b], r->bodies[b]->ns, r->bodies[b]->parts->once_ns);
    g->bodies_ns += r->ns;
    return true;
}

double facts_told(const struct facts *f, const part_offer *offer, double ns)
{
    return ns * cost_told(&f->session->providers[offer->provider], offer->cost_source);
}

/* What the region takes without its launch. Values change their layout at the pace of what reads or makes them. */
static double told_region(const struct facts *f, const struct partition *p, const part_region *r)
{
    double ns = 0, told = 0;

    for (uint32_t k = 0; k < r->offer_count; k++) {
        const part_offer *o = &p->offers[r->offers[k]];

        ns += o->cost.ns;
        told += facts_told(f, o, o->cost.ns);
    }
    return ns > 0 ? (r->cost_ns + r->border_ns) * (told / ns) : r->cost_ns + r->border_ns;
}

double facts_told_sum(const struct facts *f, const struct partition *p)
{
    double ns = p->cost_ns;

    for (uint32_t i = 0; i < p->region_count; i++)
        ns += told_region(f, p, &p->regions[i]) - p->regions[i].cost_ns - p->regions[i].border_ns;
    return ns;
}

double facts_sum_of_copies(const struct partition *p)
{
    double ns = 0;

    for (uint32_t i = 0; i < p->copy_count; i++)
        ns += p->copies[i].ns;
    return ns;
}

/* What the regions were expected to take at the sizes of the last run, when there was one. */
static bool price_run(struct facts *f, facts_graph *g)
{
    const struct program *p = g->program;
    const struct runner *r = runner_of(f->runner, p);
    const inlay_value_state *sizes;

    if (r == NULL || r->plans.now == NULL)
        return true;
    sizes = seen_states(r, &f->a);
    g->ns = g->bodies_ns + g->copies_ns;
    for (uint32_t i = 0; sizes != NULL && i < g->region_count; i++) {
        facts_region *x = &g->regions[i];

        if (x->region->provider == INLAY_NONE)
            continue;
        x->ns = cost_launch_ns(p->env->costs, x->step->provider) + attribute_price(p, x->region, sizes);
        g->ns += x->ns;
    }
    return sizes != NULL;
}

static bool gather_regions(struct facts *f, facts_graph *g)
{
    const struct program *p = g->program;

    g->region_count = p->step_count;
    g->regions = arena_array(&f->a, (size_t)p->step_count + 1, sizeof *g->regions);
    for (uint32_t i = 0; g->regions != NULL && i < p->step_count; i++) {
        facts_region *r = &g->regions[i];
        const part_region *region = p->steps[i].region;

        *r = (facts_region){ .region = region,
                             .step = &p->steps[i],
                             .measured_ns = -1,
                             .source = region->offer_count > 0 ? COST_MEASURED : COST_NONE };
        for (uint32_t k = 0; k < region->input_count; k++)
            r->bytes_in += facts_value_bytes(g, region->inputs[k]);
        for (uint32_t k = 0; k < region->output_count; k++)
            r->bytes_out += facts_value_bytes(g, region->outputs[k]);
        for (uint32_t k = 0; k < region->offer_count; k++) {
            const part_offer *o = &g->parts->offers[region->offers[k]];
            r->resident_bytes += o->resident_bytes;
            r->flops += o->cost.flops;
            r->bytes_moved += (double)o->cost.bytes_read + (double)o->cost.bytes_written;
            r->workspace_bytes = o->workspace_bytes > r->workspace_bytes ? o->workspace_bytes : r->workspace_bytes;
            if (o->cost.ns > 0 || region->cost_ns == 0) /* what costs nothing needs no better source */
                r->source = o->cost_source < r->source ? o->cost_source : r->source;
        }
        r->ns = told_region(f, g->parts, region) + region->launch_ns;
        if (f->timings != NULL)
            r->measured_ns = timings_step_ns(f->timings, p, i, &r->calls);
        g->executions = r->calls > g->executions ? r->calls : g->executions;
        if (region->provider == INLAY_NONE && !gather_bodies(f, g, r))
            return false;
    }
    for (uint32_t i = 0; g->regions != NULL && g->executions > 1 && i < p->step_count; i++)
        g->regions[i].measured_ns /= g->executions;
    return g->regions != NULL;
}

/* ------------------------------------------------------------------ stretches */

/* What enters and leaves regions [first, first + count), each value once. mark holds, per value, the number of the
 * stretch that last counted it. */
static void find_border(facts_graph *g, facts_stretch *s, uint32_t number, uint32_t *mark)
{
    const struct program *p = g->program;

    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const part_region *r = g->regions[i].region;
        for (uint32_t k = 0; k < r->input_count; k++) {
            uint32_t v = r->inputs[k], maker = facts_maker_region(g, v);
            if (mark[v] == number || (maker != INLAY_NONE && maker >= s->first))
                continue;
            mark[v] = number;
            s->bytes_in += facts_value_bytes(g, v);
        }
        for (uint32_t k = 0; k < r->output_count; k++) {
            uint32_t v = r->outputs[k];
            if (p->uses.last[v] != INLAY_NONE && p->uses.last[v] >= s->first + s->count)
                s->bytes_out += facts_value_bytes(g, v);
        }
    }
}

static bool gather_stretches(struct facts *f, facts_graph *g)
{
    uint32_t *mark = arena_array(&f->a, (size_t)g->program->graph->value_count + 1, sizeof *mark);

    g->stretches = arena_array(&f->a, (size_t)g->region_count + 1, sizeof *g->stretches);
    if (mark == NULL || g->stretches == NULL)
        return false;
    for (uint32_t i = 0; i < g->region_count; i++) {
        const facts_region *r = &g->regions[i];
        facts_stretch *s = g->stretch_count > 0 ? &g->stretches[g->stretch_count - 1] : NULL;

        /* A node with bodies stands for itself. */
        if (s == NULL || s->provider != r->region->provider || r->body_count > 0 || g->regions[i - 1].body_count > 0) {
            s = &g->stretches[g->stretch_count++];
            *s = (facts_stretch){ .first = i,
                                  .provider = r->region->provider,
                                  .source = COST_MEASURED,
                                  .measured_ns = r->measured_ns < 0 ? -1 : 0 };
        }
        s->count++;
        s->node_count += r->region->node_count;
        s->ns += r->ns;
        if (r->measured_ns >= 0)
            s->measured_ns += r->measured_ns;
        s->source = r->source < s->source ? r->source : s->source;
        s->resident_bytes += r->resident_bytes;
        s->workspace_bytes = r->workspace_bytes > s->workspace_bytes ? r->workspace_bytes : s->workspace_bytes;
    }
    for (uint32_t i = 0; i < g->stretch_count; i++)
        find_border(g, &g->stretches[i], i + 1, mark);
    return true;
}

/* ------------------------------------------------------------------ graphs */

/* A session that follows a saved plan has asked for no price but the plan's. */
static const struct partition *price_rest(struct facts *f, const facts_graph *g)
{
    part_request r = facts_request(g);
    struct partition *priced = arena_copy(&f->a, &g->program->parts, sizeof *priced);

    if (priced == NULL)
        return NULL;
    priced->unpriced = false;
    if (priced->offer_count == 0)
        return priced;
    priced->offers = arena_copy(&f->a, priced->offers, priced->offer_count * sizeof *priced->offers);
    for (uint32_t i = 0; priced->offers != NULL && i < priced->offer_count; i++) {
        part_offer *o = &priced->offers[i];
        cost_question q = { .graph = r.snapshot,
                            .provider = &r.providers[o->provider],
                            .offer = o,
                            .values = priced->profile,
                            .max_threads = r.max_threads,
                            .priced_threads = COST_THREADS,
                            .weight_bytes = priced->weight_bytes };
        if (!o->chosen)
            o->cost_source = cost_of_offer(r.costs, &q, &o->cost, &o->cost_error);
    }
    return priced->offers == NULL ? NULL : priced;
}

static bool gather_graph(struct facts *f, const struct program *p, facts_graph *parent, const char *path,
                         facts_graph **out)
{
    facts_graph *g = arena_alloc(&f->a, sizeof *g);

    if (g == NULL)
        return false;
    *g = (facts_graph){
        .program = p, .index = f->graph_count, .parent = parent, .path = path, .times = 1, .times_known = true
    };
    f->graphs[f->graph_count++] = g;
    g->parts = p->parts.unpriced ? price_rest(f, g) : &p->parts;
    if (g->parts == NULL || !list_answers(f, g) || !gather_regions(f, g))
        return false;
    g->copies_ns = facts_sum_of_copies(g->parts);
    g->ns = facts_told_sum(f, g->parts) + g->bodies_ns;
    if (!price_run(f, g) || !gather_stretches(f, g))
        return false;
    *out = g;
    return true;
}

/* ------------------------------------------------------------------ sums */

double facts_rounds(const facts_graph *g, double ns, double once_ns)
{
    return g->times * (ns - once_ns) + fmin(g->times, 1) * once_ns;
}

double facts_copies_per_run(const facts_graph *g, double ns, double once_ns)
{
    return facts_times_per_run(g->parent) * facts_rounds(g, ns, once_ns);
}

double facts_times_per_run(const facts_graph *g)
{
    double times = 1;

    for (; g != NULL; g = g->parent)
        times *= g->times;
    return times;
}

static void add_graph(struct facts *f, const facts_graph *g)
{
    double times = facts_times_per_run(g);
    const struct partition *parts = g->parts;

    f->node_count += g->program->graph->node_count;
    f->region_count += g->region_count;
    f->copy_count += parts->copy_count;
    f->copies_ns += facts_copies_per_run(g, g->copies_ns, parts->once_ns);
    for (uint32_t i = 0; i < g->stretch_count; i++) {
        const facts_stretch *s = &g->stretches[i];
        facts_provider *p = &f->providers[s->provider < f->provider_count ? s->provider : f->provider_count];
        bool host = s->provider == INLAY_NONE; /* its bodies stand with their providers */

        p->stretch_count++;
        p->region_count += s->count;
        p->node_count += s->node_count;
        p->ns += host ? 0 : times * s->ns;
        p->measured_ns += host || s->measured_ns < 0 ? 0 : s->measured_ns * g->executions;
        p->resident_bytes += s->resident_bytes;
    }
    for (uint32_t i = 0; i < g->region_count; i++) {
        f->flops += times * g->regions[i].flops;
        f->bytes_moved += times * g->regions[i].bytes_moved;
    }
    for (uint32_t i = 0; parts->memory != NULL && i < f->provider_count; i++) {
        facts_provider *p = &f->providers[i];
        p->peak_bytes = parts->memory[i].peak_bytes > p->peak_bytes ? parts->memory[i].peak_bytes : p->peak_bytes;
        p->limit_bytes = parts->memory[i].limit_bytes > 0 ? parts->memory[i].limit_bytes : p->limit_bytes;
    }
}

inlay_status facts_create(const inlay_session *s, const struct timings *m, const struct runner *r,
                          struct facts **out_facts, inlay_diag *diag)
{
    struct facts *f = calloc(1, sizeof *f);
    facts_graph *main = NULL;

    *out_facts = NULL;
    if (f == NULL)
        goto no_memory;
    f->session = s;
    f->timings = m != NULL && timings_runs(m) > 0 ? m : NULL;
    f->runner = f->timings != NULL ? r : NULL;
    f->provider_count = s->env.provider_count;
    f->measured_ns = f->timings != NULL ? timings_run_ns(m) : -1;
    f->graphs = arena_array(&f->a, program_count(s->main), sizeof(facts_graph *));
    f->providers = arena_array(&f->a, (size_t)f->provider_count + 1, sizeof *f->providers);
    if (f->graphs == NULL || f->providers == NULL || !gather_graph(f, s->main, NULL, "main", &main) ||
        !facts_fold_refusals(f))
        goto no_memory;
    for (uint32_t i = 0; i <= f->provider_count; i++)
        f->providers[i].name = facts_provider_name(f, i);
    for (uint32_t i = 0; i < f->graph_count; i++)
        add_graph(f, f->graphs[i]);
    f->ns = main->ns;
    *out_facts = f;
    return INLAY_OK;
no_memory:
    facts_destroy(f);
    return no_memory(diag, "to explain the session");
}

void facts_destroy(struct facts *f)
{
    if (f == NULL)
        return;
    arena_deinit(&f->a);
    free(f);
}
