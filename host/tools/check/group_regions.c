/* Compiles regions of unusual shape, for providers whose offers may be merged: unconnected parts, nodes of different
 * shapes, values with several consumers, many outputs, nodes outside of the region in between. The results of a region
 * are compared with the results of its nodes, run one by one on the same provider. */
#include "base/order.h"
#include "base/provider_calls.h"
#include "check/compare_results.h"
#include "check/region_graph.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REGIONS = 400, QUICK_REGIONS = 60 };

static inlay_status collect_offer(void *ctx, const inlay_offer *offer)
{
    struct regions *regions = ctx;
    struct region_offer *offered = &regions->offers[regions->offer_count];

    if (regions->offer_count == MAX_OFFERS || offer->node_count == 0 || offer->node_count > MAX_PARTS ||
        (offer->flags & INLAY_OFFER_MERGE) == 0)
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

/* The offer that covers this part alone; NULL: none. */
static struct region_offer *single_offer(struct regions *regions, const struct part *part)
{
    for (uint32_t offer = 0; offer < regions->offer_count; offer++)
        if (regions->offers[offer].node_count == 1 && regions->offers[offer].nodes[0] == part->index)
            return &regions->offers[offer];
    return NULL;
}

/* Makes the region convex: removes parts that depend on the region through a part outside of it. The parts are in
 * topological order. */
static void make_convex(struct regions *regions)
{
    bool behind[MAX_PARTS] = { false }; /* outside of the region, but depends on it */

    for (uint32_t j = 0; j < regions->part_count; j++) {
        struct part *part = &regions->parts[j];
        bool reads_behind = false, reads_inside = false;

        for (uint32_t i = 0; i < part->entry.in_count; i++) {
            if (part->producer[i] == INLAY_NONE)
                continue;
            INLAY_CHECK(part->producer[i] < j);
            reads_behind |= behind[part->producer[i]];
            reads_inside |= regions->parts[part->producer[i]].inside;
        }
        if (reads_behind)
            part->inside = false;
        behind[j] = reads_behind || (reads_inside && !part->inside);
    }
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

/* If one of the offers requires connected regions, removes the parts that are not connected with the first part. */
static void keep_connected(struct regions *regions)
{
    uint32_t first = 0;
    bool in[MAX_PARTS], wants_connected = false;

    while (first < regions->part_count && !regions->parts[first].inside)
        first++;
    if (first == regions->part_count || find_connected(regions, first, in))
        return;
    for (uint32_t j = 0; j < regions->part_count; j++)
        wants_connected |=
            regions->parts[j].inside && (single_offer(regions, &regions->parts[j])->flags & INLAY_OFFER_CONNECTED) != 0;
    regions->unconnected += !wants_connected;
    for (uint32_t j = 0; wants_connected && j < regions->part_count; j++)
        regions->parts[j].inside &= in[j];
}

static bool has_known_sizes(const inlay_graph *graph, const struct part *part)
{
    for (uint32_t output = 0; output < part->node->info.output_count; output++)
        if (!graph_has_sizes(inlay_graph_value(graph, part->node->info.outputs[output])))
            return false;
    return true;
}

/* Chooses the parts of the region and the offers that cover them. False: fewer than two parts. */
static bool choose_region(struct regions *regions, const inlay_graph *graph)
{
    bool taken[MAX_PARTS] = { false };
    uint32_t inside = 0;

    for (uint32_t j = 0; j < regions->part_count; j++)
        regions->parts[j].inside = single_offer(regions, &regions->parts[j]) != NULL &&
                                   has_known_sizes(graph, &regions->parts[j]) && region_roll(regions, 6) != 0;
    make_convex(regions);
    keep_connected(regions);
    for (uint32_t offer = 0; offer < regions->offer_count; offer++) {
        struct region_offer *offered = &regions->offers[offer];
        bool fits = offered->node_count > 1 && region_roll(regions, 2) == 0;

        for (uint32_t k = 0; fits && k < offered->node_count; k++) {
            const struct part *part = part_at(regions, offered->nodes[k]);

            fits = part != NULL && part->inside && !taken[part - regions->parts];
        }
        offered->used = fits;
        for (uint32_t k = 0; fits && k < offered->node_count; k++)
            taken[part_at(regions, offered->nodes[k]) - regions->parts] = true;
    }
    for (uint32_t j = 0; j < regions->part_count; j++) {
        inside += regions->parts[j].inside;
        if (regions->parts[j].inside && !taken[j])
            single_offer(regions, &regions->parts[j])->used = true;
    }
    return inside >= 2;
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

/* Writes the operators of the parts; those outside of the region are in parentheses. */
static void name_nodes(const struct regions *regions, char *text, size_t bytes)
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
    char nodes[200];

    regions->failed++;
    if (regions->failed > 2)
        return;
    name_nodes(regions, nodes, sizeof nodes);
    check_fail(regions->check, "regions", regions->provider->name, expected, fix,
               "%s: %.400s (region: nodes without brackets; <k reads an "
               "output of node k, =k an input of it)",
               nodes, got);
}

static void run_region(struct regions *regions, const case_instance *built, const op_case *whole,
                       const harness_region *region, const inlay_placement *placements, uint32_t placement_count,
                       const harness_result *want)
{
    const harness_options variants[2] = { { 0 }, { .tight = true, .fill = 0xff } };
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
        else if (!compare_results(&got, want, text, sizeof text))
            report_failure(regions, "the results of its nodes, run one by one",
                           "see \"Regions\" in inlay/plugin.h for the possible shapes of a region", text);
        harness_result_deinit(&got);
    }
    harness_close(&harness);
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

static void try_region(struct regions *regions)
{
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = regions, .offer = collect_offer, .refuse = collect_refusal
    };
    static const uint8_t candidates[MAX_PARTS] = { 1, 1, 1, 1, 1, 1, 1 };
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS];
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result *want = calloc(1, sizeof *want);
    op_case *whole = calloc(1, sizeof *whole);
    const uint32_t parts = 2 + region_roll(regions, MAX_PARTS - 1);
    uint32_t placement_count;
    harness_region region;
    case_instance built = { .model = NULL };

    while (want != NULL && whole != NULL && regions->part_count < parts && region_add_part(regions))
        continue;
    regions->offer_count = 0;
    if (regions->part_count >= 2 && region_make_model(regions, &built) && region_make_states(&built)) {
        check_phase(regions->check, "assess");
        if (call_assess(regions->provider->table, regions->provider->state, &built.snapshot, candidates, &sink,
                        &diag) == INLAY_OK &&
            choose_region(regions, &built.snapshot)) {
            case_init(whole, "", "region", 0);
            if (find_inputs(regions, &built, whole) && find_outputs(regions, &built, want) && built.output_count > 0 &&
                describe(regions, &built, &region, placements, &placement_count) &&
                within_limits(regions, &built, &region)) {
                check_cost(regions, &built, &region);
                run_region(regions, &built, whole, &region, placements, placement_count, want);
            }
        }
        check_phase(regions->check, "the checker");
    }
    case_instance_deinit(&built);
    region_drop_parts(regions);
    free(want);
    free(whole);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct regions *regions = calloc(1, sizeof *regions);
    const uint32_t count = check->args->quick ? QUICK_REGIONS : REGIONS;

    if (regions == NULL)
        return;
    *regions = (struct regions){
        .check = check, .fixture = fixture, .provider = provider, .pool = calloc(MAX_POOL, sizeof *regions->pool)
    };
    if (regions->pool != NULL)
        generate_sources(custom, custom_count, check->args->op, true, region_take_source, regions);
    for (uint32_t i = 0; regions->count > 0 && i < count && regions->failed < 4; i++) {
        regions->state = check->args->seed * 1000 + i;
        if (check_unit(check, "%s: region %u", provider->name, i))
            try_region(regions);
    }
    if (regions->count == 0)
        check_skip(check, "regions", provider->name, "no offer may be merged: each is compiled alone");
    else if (regions->tried > 0 && regions->declined == regions->tried)
        check_warn(check, "regions", provider->name, "a region of several offers compiles",
                   "do not set INLAY_OFFER_MERGE on offers that can only be compiled alone",
                   "all %u regions were declined", regions->tried);
    else if (regions->failed == 0 && regions->tried > 0)
        check_pass(check, "regions", provider->name,
                   "%u regions of %u kinds of node, %u of them not connected, %u declined: same "
                   "results as the nodes alone",
                   regions->tried, regions->count, regions->unconnected, regions->declined);
    for (uint32_t i = 0; i < regions->count; i++)
        case_deinit(&regions->pool[i]);
    free(regions->pool);
    free(regions);
}

void check_group_regions(struct check *check)
{
    fixture_each(check, "regions", try_provider);
}
