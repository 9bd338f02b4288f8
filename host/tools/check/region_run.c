#include "check/certify.h"
#include "check/region_run.h"
#include "base/order.h"
#include "base/provider_calls.h"
#include "check/compare_results.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static inlay_status collect_offer(void *ctx, const inlay_offer *offer)
{
    struct regions *regions = ctx;
    struct region_offer *offered = &regions->offers[regions->offer_count];

    if (regions->offer_count == MAX_OFFERS || offer->node_count == 0 || offer->node_count > MAX_PARTS)
        return INLAY_OK;
    *offered = (struct region_offer){ .cookie = offer->cookie, .node_count = offer->node_count, .flags = offer->flags };
    memcpy(offered->nodes, offer->nodes, offer->node_count * sizeof *offer->nodes);
    for (uint32_t i = 0; INLAY_HAS(offer, placement_stride) && i < offer->placement_count; i++)
        if (offered->placement_count < CASE_INPUTS + CASE_OUTPUTS)
            offered->placements[offered->placement_count++] =
                *INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i);
    if (INLAY_HAS(offer, max_outputs)) {
        offered->max_nodes = offer->max_nodes;
        offered->max_inputs = offer->max_inputs;
        offered->max_outputs = offer->max_outputs;
    }
    regions->offer_count++;
    return INLAY_OK;
}

static inlay_status collect_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx, (void)refusal;
    return INLAY_OK;
}

/* The part with this node index in the snapshot; NULL: none. */
static struct part *part_at(struct regions *regions, uint32_t index)
{
    for (uint32_t j = 0; j < regions->part_count; j++)
        if (regions->parts[j].index == index)
            return &regions->parts[j];
    return NULL;
}

/* Does no path leave the region and come back? The parts are in topological order. */
static bool is_convex(const struct regions *regions)
{
    bool behind[MAX_PARTS] = { false }; /* outside of the region, but depends on it */

    for (uint32_t j = 0; j < regions->part_count; j++) {
        const struct part *part = &regions->parts[j];

        for (uint32_t i = 0; i < part->entry.in_count; i++) {
            if (part->producer[i] == INLAY_NONE)
                continue;
            INLAY_CHECK(part->producer[i] < j);
            behind[j] |= behind[part->producer[i]] || (regions->parts[part->producer[i]].inside && !part->inside);
        }
        if (behind[j] && part->inside)
            return false;
    }
    return true;
}

/* Does part b read an output of part a? */
static bool linked(const struct regions *regions, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < regions->parts[b].entry.in_count; i++)
        if (regions->parts[b].producer[i] == a)
            return true;
    return false;
}

/* Finds the parts connected with part `first`; returns whether these are the whole region. */
static bool find_connected(const struct regions *regions, uint32_t first, bool *in)
{
    bool changed = true, all = true;

    memset(in, 0, MAX_PARTS * sizeof *in);
    in[first] = true;
    while (changed) {
        changed = false;
        for (uint32_t a = 0; a < regions->part_count; a++)
            for (uint32_t b = a + 1; b < regions->part_count; b++)
                if (regions->parts[a].inside && regions->parts[b].inside && in[a] != in[b] && linked(regions, a, b))
                    in[a] = in[b] = changed = true;
    }
    for (uint32_t j = 0; j < regions->part_count; j++)
        all &= in[j] || !regions->parts[j].inside;
    return all;
}

static void set_inside(struct regions *regions, struct region_offer *offer, bool inside)
{
    offer->used = inside;
    for (uint32_t k = 0; k < offer->node_count; k++)
        part_at(regions, offer->nodes[k])->inside = inside;
}

/* If one of the offers requires connected regions, removes the offers that are not connected with the first part. */
static void keep_connected(struct regions *regions)
{
    uint32_t first = 0;
    bool in[MAX_PARTS], wants_connected = false;

    while (first < regions->part_count && !regions->parts[first].inside)
        first++;
    if (first == regions->part_count || find_connected(regions, first, in))
        return;
    for (uint32_t i = 0; i < regions->offer_count; i++)
        wants_connected |= regions->offers[i].used && (regions->offers[i].flags & INLAY_OFFER_CONNECTED) != 0;
    regions->unconnected += !wants_connected;
    for (uint32_t i = 0; wants_connected && i < regions->offer_count; i++) {
        struct region_offer *offer = &regions->offers[i];
        bool keep = true;

        for (uint32_t k = 0; k < offer->node_count; k++)
            keep &= in[part_at(regions, offer->nodes[k]) - regions->parts];
        if (offer->used && !keep)
            set_inside(regions, offer, false);
    }
}

static bool has_known_sizes(const inlay_graph *graph, const struct part *part)
{
    for (uint32_t output = 0; output < part->node->info.output_count; output++)
        if (!graph_has_sizes(inlay_graph_value(graph, part->node->info.outputs[output])))
            return false;
    return true;
}

/* Can the offer be part of the region: are its nodes parts of known sizes that no other offer covers? */
static bool is_free(struct regions *regions, const inlay_graph *graph, const struct region_offer *offer)
{
    for (uint32_t k = 0; k < offer->node_count; k++) {
        const struct part *part = part_at(regions, offer->nodes[k]);

        if (part == NULL || part->inside || !has_known_sizes(graph, part))
            return false;
    }
    return true;
}

bool region_choose(struct regions *regions, const inlay_graph *graph, uint32_t group_odds)
{
    uint32_t inside = 0;

    for (uint32_t j = 0; j < regions->part_count; j++)
        regions->parts[j].inside = false;
    for (int single = 0; single < 2; single++) {
        for (uint32_t i = 0; i < regions->offer_count; i++) {
            struct region_offer *offer = &regions->offers[i];

            if (!single)
                offer->used = false;
            if ((offer->node_count == 1) != (bool)single || (offer->flags & INLAY_OFFER_MERGE) == 0 ||
                region_roll(regions, single ? 6 : group_odds) == (single ? 0 : 1) || !is_free(regions, graph, offer))
                continue;
            set_inside(regions, offer, true);
            if (!is_convex(regions))
                set_inside(regions, offer, false);
        }
    }
    keep_connected(regions);
    for (uint32_t j = 0; j < regions->part_count; j++)
        inside += regions->parts[j].inside;
    return inside >= 2;
}

bool region_choose_offer(struct regions *regions, const inlay_graph *graph, uint32_t index)
{
    INLAY_CHECK(index < regions->offer_count);
    for (uint32_t j = 0; j < regions->part_count; j++)
        regions->parts[j].inside = false;
    for (uint32_t i = 0; i < regions->offer_count; i++)
        regions->offers[i].used = false;
    if (!is_free(regions, graph, &regions->offers[index]))
        return false;
    set_inside(regions, &regions->offers[index], true);
    return is_convex(regions);
}

/* Collects the inputs of the region as inputs of a case, in the order of the host: by node, each value once. */
static bool find_inputs(struct regions *regions, case_instance *built, op_case *whole)
{
    for (uint32_t n = 0; n < built->snapshot.node_count; n++) {
        const struct part *part = part_at(regions, n);

        for (uint32_t i = 0; part != NULL && part->inside && i < part->entry.in_count; i++) {
            uint32_t value = part->node->info.inputs[i];

            if (value == INLAY_NONE || part->entry.in[i].constant ||
                is_listed(built->inputs, built->input_count, value) ||
                (part->producer[i] != INLAY_NONE && regions->parts[part->producer[i]].inside))
                continue;
            if (built->input_count == CASE_INPUTS)
                return false;
            whole->in[whole->in_count] = part->entry.in[i];
            built->input_of[built->input_count] = whole->in_count++;
            built->inputs[built->input_count++] = value;
        }
    }
    return true;
}

/* Collects the outputs of the region and their expected values. */
static bool find_outputs(struct regions *regions, case_instance *built, harness_result *want)
{
    const inlay_graph *graph = &built->snapshot;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct part *part = part_at(regions, n);

        for (uint32_t output = 0; part != NULL && part->inside && output < part->node->info.output_count; output++) {
            uint32_t value = part->node->info.outputs[output];
            bool leaves = (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0;

            for (uint32_t k = 0; k < regions->part_count; k++)
                for (uint32_t i = 0; !regions->parts[k].inside && i < regions->parts[k].entry.in_count; i++)
                    leaves |= regions->parts[k].node->info.inputs[i] == value;
            if (!leaves)
                continue;
            if (built->output_count == CASE_OUTPUTS || output >= part->result.out_count)
                return false;
            want->out[want->out_count++] = part->result.out[output];
            built->outputs[built->output_count++] = value;
        }
    }
    INLAY_CHECK(want->out_count == built->output_count);
    return true;
}

/* Describes the region for harness_open_region(). */
static bool describe(struct regions *regions, case_instance *built, harness_region *out, inlay_placement *placements,
                     uint32_t *count)
{
    uint32_t *nodes = arena_array(&built->arena, MAX_PARTS, sizeof *nodes);
    uint64_t *cookies = arena_array(&built->arena, MAX_OFFERS, sizeof *cookies);

    *out = (harness_region){ .nodes = nodes, .cookies = cookies };
    *count = 0;
    if (nodes == NULL || cookies == NULL)
        return false;
    for (uint32_t n = 0; n < built->snapshot.node_count; n++)
        if (part_at(regions, n) != NULL && part_at(regions, n)->inside)
            nodes[out->node_count++] = n;
    for (uint32_t offer = 0; offer < regions->offer_count; offer++) {
        const struct region_offer *offered = &regions->offers[offer];

        if (!offered->used)
            continue;
        cookies[out->offer_count++] = offered->cookie;
        for (uint32_t i = 0; i < offered->placement_count; i++)
            if (*count < CASE_INPUTS + CASE_OUTPUTS &&
                (is_listed(built->inputs, built->input_count, offered->placements[i].value) ||
                 is_listed(built->outputs, built->output_count, offered->placements[i].value)))
                placements[(*count)++] = offered->placements[i];
    }
    return true;
}

void region_name(const struct regions *regions, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t j = 0; j < regions->part_count && used < bytes; j++) {
        const struct part *part = &regions->parts[j];

        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s", j > 0 ? " " : "", part->inside ? "" : "(",
                                 part->entry.op_type);
        for (uint32_t i = 0; i < part->entry.in_count && used < bytes; i++)
            if (part->producer[i] != INLAY_NONE || part->shared[i] != INLAY_NONE)
                used += (size_t)snprintf(text + used, bytes - used, "%c%u", part->producer[i] != INLAY_NONE ? '<' : '=',
                                         part->producer[i] != INLAY_NONE ? part->producer[i] : part->shared[i]);
        if (!part->inside && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, ")");
    }
}

static void report_failure(struct regions *regions, const char *expected, const char *fix, const char *got)
{
    char nodes[160], cases[320] = "";
    size_t used = 0;

    regions->failed++;
    if (regions->failed > 2)
        return;
    region_name(regions, nodes, sizeof nodes);
    for (uint32_t j = 0; j < regions->part_count && used + 80 < sizeof cases; j++)
        if (regions->parts[j].inside) {
            (void)case_text(&regions->parts[j].entry, cases + used, sizeof cases - used);
            used = strlen(cases);
            used += (size_t)snprintf(cases + used, sizeof cases - used, "; ");
            used = used < sizeof cases ? used : sizeof cases - 1;
        }
    check_fail(regions->check, regions->name, regions->provider->name, expected, fix,
               "%s: %.260s (region: nodes without brackets; <k reads an output of node k, =k an input of it); %s",
               nodes, got, cases);
}

/* compare_results(); a fused QuantizeLinear may round a sum that is next to a tie to the other side. */
static bool same_results(const case_instance *built, const harness_result *got, const harness_result *want, char *text,
                         size_t bytes)
{
    for (uint32_t o = 0; o < want->out_count && o < got->out_count; o++) {
        const inlay_value_info *value = inlay_graph_value(&built->snapshot, built->outputs[o]);
        const inlay_node_info *node = inlay_graph_node(&built->snapshot, value->producer);

        if (!compare_one_result(got, want, o, strcmp(node->op_type.data, "QuantizeLinear") == 0, text, bytes))
            return false;
    }
    return true;
}

/* Records the nodes of a region that is one group. */
static void certify_region(const struct regions *regions, const case_instance *built, const harness_region *region,
                           bool agreed)
{
    const struct certify_group group = { built, region->nodes, region->node_count };

    if (region->offer_count != 1 || region->node_count < 2)
        return;
    for (uint32_t j = 0; j < regions->part_count; j++)
        if (regions->parts[j].inside)
            certify_group(regions->check, regions->provider, &group, regions->parts[j].index, &regions->parts[j].entry,
                          agreed);
}

static void run_region(struct regions *regions, const case_instance *built, const op_case *whole,
                       const harness_region *region, const inlay_placement *placements, uint32_t placement_count,
                       const harness_result *want)
{
    const harness_options variants[2] = { { 0 }, { .tight = true, .fill = 0xff } };
    const uint32_t failed = regions->failed;
    inlay_diag diag = INLAY_DIAG_INIT;
    char text[400];
    struct harness harness;
    inlay_status status = harness_open_region(regions->check, regions->provider, built, whole, region, placements,
                                              placement_count, &harness, &diag);

    if (status != INLAY_OK && strcmp(harness.phase, "budget") == 0)
        return;
    regions->tried++;
    if (status == INLAY_UNSUPPORTED) {
        regions->declined++;
        return;
    }
    if (status != INLAY_OK) {
        (void)snprintf(text, sizeof text, "%s returned '%s': %.300s", harness.phase, inlay_status_text(status),
                       diag.text);
        report_failure(regions, "a region of merged offers compiles, or is declined with INLAY_UNSUPPORTED",
                       "see \"Regions\" in inlay/plugin.h; INLAY_OFFER_CONNECTED restricts them to connected ones",
                       text);
        return;
    }
    for (int i = 0; i < 2 && regions->failed < 4; i++) {
        harness_result got;

        status = harness_run(&harness, &variants[i], &got, &diag);
        if (got.fault[0] != '\0')
            report_failure(regions, "the contract of execute is kept", got.fault_fix, got.fault);
        else if (status != INLAY_OK)
            report_failure(regions, "a compiled region runs", "decline in compile what cannot be run", diag.text);
        else if (!same_results(built, &got, want, text, sizeof text))
            report_failure(regions, "the results of its nodes, run one by one",
                           "see \"Regions\" in inlay/plugin.h for the possible shapes of a region", text);
        else
            regions->compared++;
        harness_result_deinit(&got);
    }
    harness_close(&harness);
    certify_region(regions, built, region, regions->failed == failed);
}

/* Does the region keep the limits of its offers? The host forms no other regions. */
static bool within_limits(const struct regions *regions, const case_instance *built, const harness_region *region)
{
    for (uint32_t i = 0; i < regions->offer_count; i++) {
        const struct region_offer *offer = &regions->offers[i];

        if (offer->used && ((offer->max_nodes != 0 && region->node_count > offer->max_nodes) ||
                            (offer->max_inputs != 0 && built->input_count > offer->max_inputs) ||
                            (offer->max_outputs != 0 && built->output_count > offer->max_outputs)))
            return false;
    }
    return true;
}

/* cost_region returns a number that depends on the region only, or INLAY_UNSUPPORTED. */
static void check_cost(struct regions *regions, const case_instance *built, const harness_region *region)
{
    const loaded_provider *provider = regions->provider;
    const inlay_region_cost_request request = { .struct_size = sizeof request,
                                                .graph = &built->snapshot,
                                                .nodes = region->nodes,
                                                .cookies = region->cookies,
                                                .inputs = built->inputs,
                                                .outputs = built->outputs,
                                                .node_count = region->node_count,
                                                .offer_count = region->offer_count,
                                                .input_count = built->input_count,
                                                .output_count = built->output_count,
                                                .values = built->states,
                                                .value_count = built->snapshot.value_count,
                                                .value_stride = sizeof *built->states,
                                                .max_threads = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    double first = -1;

    for (int again = 0; again < 2 && provider->table->cost_region != NULL && region->offer_count > 1; again++) {
        inlay_cost cost = { .struct_size = sizeof cost };
        inlay_status status;
        char got[200];

        check_phase(regions->check, "cost_region");
        status = provider->table->cost_region(provider->state, &request, &cost, &diag);
        check_phase(regions->check, "the checker");
        if (status == INLAY_UNSUPPORTED)
            return;
        harness_check_answer(regions->check, provider, "cost_region", status, &diag);
        (void)snprintf(got, sizeof got, "'%s', %g ns, and %g ns before", inlay_status_text(status), cost.ns, first);
        if (status == INLAY_OK && (!isfinite(cost.ns) || cost.ns < 0))
            report_failure(regions, "a finite time of at least 0 ns from cost_region, or INLAY_UNSUPPORTED",
                           "estimate the time of the whole region", got);
        else if (again > 0 && status == INLAY_OK && cost.ns != first && cost.confidence != INLAY_CONFIDENCE_MEASURED)
            report_failure(regions, "the same cost for the same region", "compute the cost from the request only", got);
        first = cost.ns;
    }
}

/* cost returns a number for an offer of several nodes, too, unless the provider has no price for it. */
static void check_offer_cost(struct regions *regions, const case_instance *built, const struct region_offer *offer)
{
    const inlay_offer shown = { .struct_size = sizeof shown,
                                .nodes = offer->nodes,
                                .node_count = offer->node_count,
                                .flags = offer->flags,
                                .cookie = offer->cookie,
                                .placements = offer->placements,
                                .placement_count = offer->placement_count,
                                .placement_stride = sizeof offer->placements[0] };
    const inlay_cost_request request = { .struct_size = sizeof request,
                                         .graph = &built->snapshot,
                                         .offer = &shown,
                                         .values = built->states,
                                         .value_count = built->snapshot.value_count,
                                         .value_stride = sizeof *built->states,
                                         .max_threads = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_cost cost = { .struct_size = sizeof cost };
    inlay_status status;
    char got[400];

    check_phase(regions->check, "cost");
    status = regions->provider->table->cost(regions->provider->state, &request, &cost, &diag);
    check_phase(regions->check, "the checker");
    if (status == INLAY_UNSUPPORTED)
        return;
    (void)snprintf(got, sizeof got, "'%s', %g ns, for a group of %u nodes", inlay_status_text(status), cost.ns,
                   offer->node_count);
    if (status != INLAY_OK || !isfinite(cost.ns) || cost.ns < 0)
        report_failure(regions, "a finite time of at least 0 ns from cost, or INLAY_UNSUPPORTED",
                       "estimate the time of all nodes of the group", got);
}

bool region_assess(struct regions *regions, const case_instance *built)
{
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = regions, .offer = collect_offer, .refuse = collect_refusal
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t candidates[MAX_PARTS];
    inlay_status status;

    INLAY_CHECK(built->snapshot.node_count <= MAX_PARTS);
    memset(candidates, 1, sizeof candidates);
    regions->offer_count = 0;
    check_phase(regions->check, "assess");
    status =
        call_assess(regions->provider->table, regions->provider->state, &built->snapshot, candidates, &sink, &diag);
    check_phase(regions->check, "the checker");
    return status == INLAY_OK;
}

void region_run(struct regions *regions, case_instance *built)
{
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS];
    harness_result *want = calloc(1, sizeof *want);
    op_case *whole = calloc(1, sizeof *whole);
    uint32_t placement_count;
    harness_region region;

    built->input_count = built->output_count = 0;
    if (want != NULL && whole != NULL) {
        case_init(whole, "", "region", 0);
        if (find_inputs(regions, built, whole) && find_outputs(regions, built, want) && built->output_count > 0 &&
            describe(regions, built, &region, placements, &placement_count) && within_limits(regions, built, &region)) {
            for (uint32_t i = 0; i < regions->offer_count; i++)
                if (regions->offers[i].used && regions->offers[i].node_count > 1)
                    check_offer_cost(regions, built, &regions->offers[i]);
            check_cost(regions, built, &region);
            run_region(regions, built, whole, &region, placements, placement_count, want);
        }
    }
    free(want);
    free(whole);
}
