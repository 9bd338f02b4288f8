#include "explain/internal.h"
#include "measure/attribute.h"
#include "inlay/plugin.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *facts_provider_name(const struct facts *facts, uint32_t index)
{
    return index < facts->provider_count ? facts->session->providers[index].name : "host";
}

const char *facts_domain_name(const struct facts *facts, uint32_t domain)
{
    for (uint32_t i = 0; domain != INLAY_DOMAIN_HOST && i < facts->provider_count; i++) {
        const partition_provider *provider = &facts->session->providers[i];
        if (domain >= provider->first_domain && domain - provider->first_domain < provider->table->domain_count)
            return INLAY_AT(inlay_domain_info, provider->table->domains, provider->table->domain_stride,
                            domain - provider->first_domain)
                ->name;
    }
    return "host";
}

bool facts_assumed(const struct facts *facts, uint32_t *at, const char **out_name, int64_t *out_size)
{
    const cost_sizes *sizes = &facts->session->costs.sizes;
    const graph_model *model = facts->session->model;

    for (; *at < sizes->symbol_count && *at < model->symbol_count; (*at)++) {
        const char *name = model->symbols[*at].name.data;
        /* Sizes of expressions follow from the names in them. */
        if (sizes->symbols[*at] < 0 || name == NULL || name[0] == '\0' || strpbrk(name, "()+*/") != NULL)
            continue;
        *out_name = name;
        *out_size = sizes->symbols[*at];
        return true;
    }
    return false;
}

partition_request facts_request(const facts_graph *graph)
{
    const struct program *program = graph->program;

    return (partition_request){ .graph = program->graph,
                                .snapshot = &program->snapshot,
                                .providers = program->env->providers,
                                .provider_count = program->env->provider_count,
                                .max_threads = program->env->max_threads,
                                .rules = program->env->rules,
                                .costs = program->env->costs,
                                .used_bytes = graph->used_bytes,
                                .max_partitions = graph->max_partitions,
                                .must_run = graph->must_run };
}

bool facts_may_run(const facts_graph *graph, uint32_t node, uint32_t provider)
{
    const partition_request request = facts_request(graph);
    const uint8_t *left_out = request.rules != NULL ? request.rules->left_out : NULL;

    return (left_out == NULL || !left_out[provider]) && partition_ban(&request, node, provider) == NULL;
}

uint64_t facts_value_bytes(const facts_graph *graph, uint32_t value)
{
    return value == INLAY_NONE ? 0 : cost_value_bytes(&graph->parts->profile[value]);
}

/* The region that produces the value, INLAY_NONE for inputs and constants. */
static uint32_t facts_producer_region(const facts_graph *graph, uint32_t value)
{
    uint32_t producer = graph->program->graph->values[value].info.producer;

    return producer == INLAY_NONE ? INLAY_NONE : graph->nodes[producer].region;
}

bool facts_reads(const facts_graph *graph, uint32_t node, uint32_t value)
{
    return graph_node_reads(graph->program->graph->nodes[node], value);
}

uint32_t facts_copy_producer(const facts_graph *graph, const partition_copy *copy)
{
    return copy->from_region == INLAY_NONE ? INLAY_NONE : graph->program->graph->values[copy->value].info.producer;
}

uint32_t facts_copy_reader(const facts_graph *graph, const partition_copy *copy)
{
    const partition_region *region = copy->to_region == INLAY_NONE ? NULL : graph->regions[copy->to_region].region;

    for (uint32_t i = 0; region != NULL && i < region->node_count; i++)
        if (facts_reads(graph, region->nodes[i], copy->value))
            return region->nodes[i];
    return INLAY_NONE;
}

uint32_t facts_cheapest_other(const facts_graph *graph, uint32_t node, uint32_t excluded)
{
    const partition_request request = facts_request(graph);
    const partition_offer *offers = graph->parts->offers;
    uint32_t best = INLAY_NONE;

    for (uint32_t i = 0; i < graph->nodes[node].offer_count; i++) {
        uint32_t offer = graph->offers_of[graph->nodes[node].first_offer + i];
        if (offers[offer].provider != excluded && offers[offer].node_count == 1 &&
            (best == INLAY_NONE || offers[offer].cost.ns < offers[best].cost.ns) &&
            partition_ban(&request, node, offers[offer].provider) == NULL)
            best = offer;
    }
    return best;
}

/* Turns the counts of the nodes into offsets of their lists; returns the length of all offer lists. */
static size_t assign_offsets(facts_node *nodes, uint32_t node_count)
{
    uint32_t offers = 0, refusals = 0;

    for (uint32_t node = 0; node < node_count; node++) {
        nodes[node].first_offer = offers;
        nodes[node].first_refusal = refusals;
        offers += nodes[node].offer_count;
        refusals += nodes[node].refusal_count;
        nodes[node].offer_count = nodes[node].refusal_count = 0;
    }
    return offers;
}

static bool list_offers_and_refusals(struct facts *facts, facts_graph *graph)
{
    const struct partition *parts = graph->parts;
    uint32_t nodes = graph->program->graph->node_count;

    graph->nodes = arena_array(&facts->arena, (size_t)nodes + 1, sizeof *graph->nodes);
    if (graph->nodes == NULL)
        return false;
    /* Offers that were declined at compile time are shown as refusals. */
    for (uint32_t offer = 0; offer < parts->offer_count; offer++)
        for (uint32_t k = 0; !parts->offers[offer].declined && k < parts->offers[offer].node_count; k++)
            graph->nodes[parts->offers[offer].nodes[k]].offer_count++;
    for (uint32_t refusal = 0; refusal < parts->refusal_count; refusal++)
        graph->nodes[parts->refusals[refusal].node].refusal_count++;
    graph->offers_of = arena_array(&facts->arena, assign_offsets(graph->nodes, nodes) + 1, sizeof *graph->offers_of);
    graph->refusals_of = arena_array(&facts->arena, (size_t)parts->refusal_count + 1, sizeof *graph->refusals_of);
    if (graph->offers_of == NULL || graph->refusals_of == NULL)
        return false;
    for (uint32_t offer = 0; offer < parts->offer_count; offer++) {
        for (uint32_t k = 0; !parts->offers[offer].declined && k < parts->offers[offer].node_count; k++) {
            facts_node *node = &graph->nodes[parts->offers[offer].nodes[k]];
            graph->offers_of[node->first_offer + node->offer_count++] = offer;
        }
    }
    for (uint32_t refusal = 0; refusal < parts->refusal_count; refusal++) {
        facts_node *node = &graph->nodes[parts->refusals[refusal].node];
        graph->refusals_of[node->first_refusal + node->refusal_count++] = refusal;
    }
    for (uint32_t i = 0; i < parts->region_count; i++)
        for (uint32_t k = 0; k < parts->regions[i].node_count; k++)
            graph->nodes[parts->regions[i].nodes[k]] =
                (facts_node){ .region = i,
                              .offer = INLAY_NONE,
                              .first_offer = graph->nodes[parts->regions[i].nodes[k]].first_offer,
                              .offer_count = graph->nodes[parts->regions[i].nodes[k]].offer_count,
                              .first_refusal = graph->nodes[parts->regions[i].nodes[k]].first_refusal,
                              .refusal_count = graph->nodes[parts->regions[i].nodes[k]].refusal_count };
    for (uint32_t i = 0; i < parts->region_count; i++)
        for (uint32_t k = 0; k < parts->regions[i].offer_count; k++) {
            const partition_offer *o = &parts->offers[parts->regions[i].offers[k]];
            for (uint32_t m = 0; m < o->node_count; m++)
                graph->nodes[o->nodes[m]].offer = parts->regions[i].offers[k];
        }
    return true;
}

/* The executions of bodies: as measured; otherwise the slower branch of an If, and the known trip count of loops. */
static void set_body_times(const facts_graph *graph, facts_region *region)
{
    const graph_node *node = region->step->node;
    bool known = true, is_if = strcmp(node->info.op_type.data, "If") == 0;
    double times = is_if ? 1 : partition_iterations(&graph->program->parts, node, &known);
    uint32_t slowest = 0;

    for (uint32_t b = 1; b < region->body_count; b++)
        if (region->bodies[b]->ns > region->bodies[slowest]->ns)
            slowest = b;
    for (uint32_t b = 0; b < region->body_count; b++) {
        facts_graph *body = region->bodies[b];
        body->times = is_if && b != slowest ? 0 : times;
        body->times_known = known;
        if (region->calls > 0) {
            body->times = (double)body->executions / region->calls;
            body->times_known = true;
        }
    }
}

static bool gather_graph(struct facts *facts, const struct program *program, facts_graph *parent, const char *path,
                         facts_graph **out);

/* Collects the bodies of a node that the host runs; their times make the node's price. */
static bool gather_bodies(struct facts *facts, facts_graph *graph, facts_region *region)
{
    const graph_node *node = region->step->node;

    region->body_count = region->step->bodies == NULL ? 0 : node->body_count;
    region->bodies = arena_array(&facts->arena, (size_t)region->body_count + 1, sizeof(facts_graph *));
    if (region->bodies == NULL)
        return false;
    for (uint32_t b = 0; b < region->body_count; b++) {
        const char *path =
            arena_format(&facts->arena, "%s/%s.%s", graph->path, node->info.name.data, node->bodies[b].attr);

        if (path == NULL || !gather_graph(facts, region->step->bodies[b], graph, path, &region->bodies[b]))
            return false;
    }
    set_body_times(graph, region);
    for (uint32_t b = 0; b < region->body_count; b++)
        region->ns += facts_repeated_ns(region->bodies[b], region->bodies[b]->ns, region->bodies[b]->parts->once_ns);
    graph->bodies_ns += region->ns;
    return true;
}

double facts_displayed_ns(const partition_offer *offer, double ns)
{
    if (offer->cost_source == COST_NONE)
        return 0;
    return ns * offer->threads_factor;
}

double facts_displayed_region_ns(const struct partition *partition, const partition_region *region)
{
    double ns = 0, displayed = 0;

    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &partition->offers[region->offers[k]];

        ns += offer->cost.ns;
        displayed += facts_displayed_ns(offer, offer->cost.ns);
    }
    return region->cost_ns * (ns > 0 ? displayed / ns : 1) + region->run_border_ns;
}

double facts_displayed_sum(const struct partition *partition)
{
    double ns = partition->cost_ns;

    for (uint32_t i = 0; i < partition->region_count; i++)
        ns += facts_displayed_region_ns(partition, &partition->regions[i]) - partition->regions[i].cost_ns -
              partition->regions[i].border_ns;
    return ns;
}

double facts_displayed_energy(const struct facts *facts, const struct partition *partition)
{
    double nj = partition->energy_nj;

    for (uint32_t i = 0; nj > 0 && i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i];

        if (region->provider != INLAY_NONE)
            nj += (facts_displayed_region_ns(partition, region) - region->cost_ns - region->border_ns) *
                  facts->session->providers[region->provider].watts;
    }
    return nj;
}

double facts_sum_of_copies(const struct partition *partition)
{
    double ns = 0;

    for (uint32_t i = 0; i < partition->copy_count; i++)
        ns += partition->copies[i].ns;
    return ns;
}

/* Replaces the predictions by those for the sizes of the last run, if there was a run. */
static bool apply_run_sizes(struct facts *facts, facts_graph *graph)
{
    const struct program *program = graph->program;
    const struct runner *runner = runner_of(facts->runner, program);
    const inlay_value_state *sizes;

    if (runner == NULL || runner->plans.now == NULL)
        return true;
    sizes = observed_states(runner, &facts->arena);
    graph->ns = graph->bodies_ns + graph->copies_ns;
    for (uint32_t i = 0; sizes != NULL && i < graph->region_count; i++) {
        facts_region *region = &graph->regions[i];

        if (region->region->provider == INLAY_NONE)
            continue;
        region->ns = cost_launch_ns(program->env->costs, region->step->provider) +
                     attribute_price(program, region->region, sizes);
        graph->ns += region->ns;
    }
    return sizes != NULL;
}

static bool gather_regions(struct facts *facts, facts_graph *graph)
{
    const struct program *program = graph->program;

    graph->region_count = program->step_count;
    graph->regions = arena_array(&facts->arena, (size_t)program->step_count + 1, sizeof *graph->regions);
    for (uint32_t i = 0; graph->regions != NULL && i < program->step_count; i++) {
        facts_region *r = &graph->regions[i];
        const partition_region *region = program->steps[i].region;

        *r = (facts_region){ .region = region,
                             .step = &program->steps[i],
                             .measured_ns = -1,
                             .weights = weight_stream_sizes_of(program->env->stream, program->steps[i].weights),
                             .source = region->offer_count > 0 ? COST_MEASURED : COST_NONE };
        for (uint32_t k = 0; k < region->input_count; k++)
            r->bytes_in += facts_value_bytes(graph, region->inputs[k]);
        for (uint32_t k = 0; k < region->output_count; k++)
            r->bytes_out += facts_value_bytes(graph, region->outputs[k]);
        for (uint32_t k = 0; k < region->offer_count; k++) {
            const partition_offer *offer = &graph->parts->offers[region->offers[k]];
            r->resident_bytes += offer->resident_bytes;
            r->flops += offer->cost.flops;
            r->bytes_moved += (double)offer->cost.bytes_read + (double)offer->cost.bytes_written;
            r->workspace_bytes =
                offer->workspace_bytes > r->workspace_bytes ? offer->workspace_bytes : r->workspace_bytes;
            if (offer->cost.ns > 0 || region->cost_ns == 0) /* an offer of cost 0 does not lower the reliability */
                r->source = offer->cost_source < r->source ? offer->cost_source : r->source;
            r->region_price |= offer->region_price;
        }
        r->ns = facts_displayed_region_ns(graph->parts, region) + region->launch_ns;
        if (facts->timings != NULL && facts->instead == NULL)
            r->measured_ns = timings_step_ns(facts->timings, program, i, &r->calls);
        graph->executions = r->calls > graph->executions ? r->calls : graph->executions;
        if (region->provider == INLAY_NONE && !gather_bodies(facts, graph, r))
            return false;
    }
    for (uint32_t i = 0; graph->regions != NULL && graph->executions > 1 && i < program->step_count; i++)
        graph->regions[i].measured_ns /= graph->executions;
    return graph->regions != NULL;
}

/* Sums the bytes of values that enter and leave regions [first, first + count), each value once. mark holds, per
 * value, the number of the stretch that last counted it. */
static void find_border(facts_graph *graph, facts_stretch *stretch, uint32_t number, uint32_t *mark)
{
    const struct program *program = graph->program;

    for (uint32_t i = stretch->first; i < stretch->first + stretch->count; i++) {
        const partition_region *region = graph->regions[i].region;
        for (uint32_t k = 0; k < region->input_count; k++) {
            uint32_t v = region->inputs[k], producer = facts_producer_region(graph, v);
            if (mark[v] == number || (producer != INLAY_NONE && producer >= stretch->first))
                continue;
            mark[v] = number;
            stretch->bytes_in += facts_value_bytes(graph, v);
        }
        for (uint32_t k = 0; k < region->output_count; k++) {
            uint32_t v = region->outputs[k];
            if (program->uses.last[v] != INLAY_NONE && program->uses.last[v] >= stretch->first + stretch->count)
                stretch->bytes_out += facts_value_bytes(graph, v);
        }
    }
}

static bool gather_stretches(struct facts *facts, facts_graph *graph)
{
    uint32_t *mark = arena_array(&facts->arena, (size_t)graph->program->graph->value_count + 1, sizeof *mark);

    graph->stretches = arena_array(&facts->arena, (size_t)graph->region_count + 1, sizeof *graph->stretches);
    if (mark == NULL || graph->stretches == NULL)
        return false;
    for (uint32_t i = 0; i < graph->region_count; i++) {
        const facts_region *region = &graph->regions[i];
        facts_stretch *stretch = graph->partition_count > 0 ? &graph->stretches[graph->partition_count - 1] : NULL;

        /* A node with bodies is a stretch by itself. */
        if (stretch == NULL || stretch->provider != region->region->provider || region->body_count > 0 ||
            graph->regions[i - 1].body_count > 0) {
            stretch = &graph->stretches[graph->partition_count++];
            *stretch = (facts_stretch){ .first = i,
                                        .provider = region->region->provider,
                                        .source = COST_MEASURED,
                                        .measured_ns = region->measured_ns < 0 ? -1 : 0 };
        }
        stretch->count++;
        stretch->node_count += region->region->node_count;
        stretch->ns += region->ns;
        if (region->measured_ns >= 0)
            stretch->measured_ns += region->measured_ns;
        stretch->source = region->source < stretch->source ? region->source : stretch->source;
        stretch->region_price |= region->region_price;
        stretch->resident_bytes += region->resident_bytes;
        stretch->workspace_bytes =
            region->workspace_bytes > stretch->workspace_bytes ? region->workspace_bytes : stretch->workspace_bytes;
    }
    for (uint32_t i = 0; i < graph->partition_count; i++)
        find_border(graph, &graph->stretches[i], i + 1, mark);
    return true;
}

/* A session with a saved plan has computed prices only for the plan's offers; this computes the others. */
static const struct partition *price_remaining_offers(struct facts *facts, const facts_graph *graph)
{
    partition_request request = facts_request(graph);
    struct partition *priced = arena_copy(&facts->arena, &graph->program->parts, sizeof *priced);

    if (priced == NULL)
        return NULL;
    priced->unpriced = false;
    if (priced->offer_count == 0)
        return priced;
    priced->offers = arena_copy(&facts->arena, priced->offers, priced->offer_count * sizeof *priced->offers);
    for (uint32_t i = 0; priced->offers != NULL && i < priced->offer_count; i++) {
        partition_offer *offer = &priced->offers[i];
        cost_question question = { .graph = request.snapshot,
                                   .provider = &request.providers[offer->provider],
                                   .offer = offer,
                                   .values = priced->profile,
                                   .max_threads = request.max_threads,
                                   .weight_bytes = priced->weight_bytes };
        if (!offer->chosen)
            cost_price_offer(request.costs, &question, offer);
    }
    return priced->offers == NULL ? NULL : priced;
}

static bool gather_graph(struct facts *facts, const struct program *program, facts_graph *parent, const char *path,
                         facts_graph **out)
{
    facts_graph *graph = arena_alloc(&facts->arena, sizeof *graph);

    if (graph == NULL)
        return false;
    *graph = (facts_graph){
        .program = program, .index = facts->graph_count, .parent = parent, .path = path, .times = 1, .times_known = true
    };
    facts->graphs[facts->graph_count++] = graph;
    graph->parts = program->parts.unpriced ? price_remaining_offers(facts, graph) : &program->parts;
    if (graph->parts == NULL || !list_offers_and_refusals(facts, graph) || !gather_regions(facts, graph))
        return false;
    graph->copies_ns = facts_sum_of_copies(graph->parts);
    graph->ns = facts_displayed_sum(graph->parts) + graph->bodies_ns;
    if (!apply_run_sizes(facts, graph) || !gather_stretches(facts, graph))
        return false;
    *out = graph;
    return true;
}

double facts_repeated_ns(const facts_graph *graph, double ns, double once_ns)
{
    return graph->times * (ns - once_ns) + fmin(graph->times, 1) * once_ns;
}

double facts_copies_per_run(const facts_graph *graph, double ns, double once_ns)
{
    return facts_times_per_run(graph->parent) * facts_repeated_ns(graph, ns, once_ns);
}

double facts_times_per_run(const facts_graph *graph)
{
    double times = 1;

    for (; graph != NULL; graph = graph->parent)
        times *= graph->times;
    return times;
}

/* Sets what the other graphs leave of the session's limits. False: out of memory. */
static bool share_limits(struct facts *facts, facts_graph *graph)
{
    const partition_rules *rules = &facts->session->rules;
    uint32_t others = 0;

    for (uint32_t i = 0; i < rules->require_count; i++) {
        uint32_t count = 0, provider = 0;

        while (strcmp(facts->providers[provider].name, rules->requires[i]) != 0)
            provider++;
        for (uint32_t k = 0; k < graph->partition_count; k++)
            count += graph->stretches[k].provider == provider ? graph->stretches[k].node_count : 0;
        if (count > 0 && count == facts->providers[provider].node_count)
        graph->must_run = rules->requires[i];
    }
    if (facts->graph_count == 1)
        return true;
    graph->used_bytes = arena_array(&facts->arena, (size_t)facts->provider_count + 1, sizeof *graph->used_bytes);
    for (uint32_t i = 0; graph->used_bytes != NULL && i < facts->graph_count; i++) {
        const struct partition *parts = facts->graphs[i]->parts;

        others += facts->graphs[i] != graph ? parts->partition_count : 0;
        for (uint32_t k = 0; facts->graphs[i] != graph && parts->memory != NULL && k < facts->provider_count; k++)
            graph->used_bytes[k] += parts->memory[k].resident_bytes + parts->memory[k].peak_bytes;
    }
    if (rules->max_partitions > others)
        graph->max_partitions = rules->max_partitions - others;
    return graph->used_bytes != NULL;
}

/* The program that made the last run. */
static const struct program *find_instead(const struct runner *runner)
{
    const struct runner *last = runner;

    while (last != NULL && last->plans.now == NULL) {
        const struct runner *next = last->fallback.runners;

        while (next != NULL && next->plans.now == NULL && next->fallback.runners == NULL)
            next = next->fallback.next;
        last = next;
    }
    return last != NULL && last != runner ? last->prog : NULL;
}

const char *facts_no_price(struct facts *facts, const facts_graph *graph, uint32_t offer)
{
    const partition_request request = facts_request(graph);
    const cost_question question = { .graph = request.snapshot,
                                     .provider = &request.providers[graph->parts->offers[offer].provider],
                                     .offer = &graph->parts->offers[offer],
                                     .values = graph->parts->profile,
                                     .max_threads = request.max_threads,
                                     .weight_bytes = graph->parts->weight_bytes };
    inlay_diag why = INLAY_DIAG_INIT;

    cost_missing(&question, &why);
    return arena_string(&facts->arena, why.text);
}

static void add_graph(struct facts *facts, const facts_graph *graph)
{
    double times = facts_times_per_run(graph);
    const struct partition *parts = graph->parts;

    facts->node_count += graph->program->graph->node_count;
    facts->region_count += graph->region_count;
    facts->copy_count += parts->copy_count - parts->import_count;
    facts->import_count += parts->import_count;
    facts->copies_ns += facts_copies_per_run(graph, graph->copies_ns, parts->once_ns);
    for (uint32_t i = 0; i < graph->partition_count; i++) {
        const facts_stretch *stretch = &graph->stretches[i];
        facts_provider *provider =
            &facts->providers[stretch->provider < facts->provider_count ? stretch->provider : facts->provider_count];
        bool host = stretch->provider == INLAY_NONE; /* its bodies are counted at their providers */

        provider->partition_count++;
        provider->region_count += stretch->count;
        provider->node_count += stretch->node_count;
        provider->ns += host ? 0 : times * stretch->ns;
        provider->measured_ns += host || stretch->measured_ns < 0 ? 0 : stretch->measured_ns * graph->executions;
        provider->resident_bytes += stretch->resident_bytes;
    }
    for (uint32_t i = 0; i < parts->offer_count; i++)
        if (!parts->offers[i].declined)
            facts->providers[parts->offers[i].provider].offered = true;
    for (uint32_t i = 0; i < parts->offer_count; i++)
        facts->unpriced_count += parts->offers[i].chosen && parts->offers[i].cost_source == COST_NONE;
    for (uint32_t i = 0; i < graph->region_count; i++) {
        facts->flops += times * graph->regions[i].flops;
        facts->bytes_moved += times * graph->regions[i].bytes_moved;
    }
    for (uint32_t i = 0; parts->memory != NULL && i < facts->provider_count; i++) {
        facts_provider *provider = &facts->providers[i];
        provider->peak_bytes =
            parts->memory[i].peak_bytes > provider->peak_bytes ? parts->memory[i].peak_bytes : provider->peak_bytes;
        provider->limit_bytes = parts->memory[i].limit_bytes > 0 ? parts->memory[i].limit_bytes : provider->limit_bytes;
    }
}

inlay_status facts_create(const inlay_session *session, const struct timings *timings, const struct runner *runner,
                          struct facts **out_facts, inlay_diag *diag)
{
    struct facts *facts = calloc(1, sizeof *facts);
    facts_graph *main_graph = NULL;

    *out_facts = NULL;
    if (facts == NULL)
        goto no_memory;
    facts->session = session;
    facts->timings = timings != NULL && timings_runs(timings) > 0 ? timings : NULL;
    facts->runner = facts->timings != NULL ? runner : NULL;
    facts->instead = find_instead(facts->runner);
    facts->provider_count = session->env.provider_count;
    facts->measured_ns = facts->timings != NULL ? timings_run_ns(timings) : -1;
    facts->graphs = arena_array(&facts->arena, program_count(session->main), sizeof(facts_graph *));
    facts->providers = arena_array(&facts->arena, (size_t)facts->provider_count + 1, sizeof *facts->providers);
    if (facts->graphs == NULL || facts->providers == NULL ||
        !gather_graph(facts, session->main, NULL, "main", &main_graph))
        goto no_memory;
    for (uint32_t i = 0; i <= facts->provider_count; i++)
        facts->providers[i].name = facts_provider_name(facts, i);
    for (uint32_t i = 0; i < facts->graph_count; i++)
        add_graph(facts, facts->graphs[i]);
    for (uint32_t i = 0; i < facts->graph_count; i++)
        if (!share_limits(facts, facts->graphs[i]))
            goto no_memory;
    facts->ns = main_graph->ns;
    *out_facts = facts;
    return INLAY_OK;
no_memory:
    facts_destroy(facts);
    return no_memory(diag, "to explain the session");
}

void facts_destroy(struct facts *facts)
{
    if (facts == NULL)
        return;
    arena_deinit(&facts->arena);
    free(facts);
}
