/* Assesses, compiles and specialises a case. */
#include "check/harness.h"
#include "base/sized_struct.h"
#include "base/checked.h"
#include "threads/run.h"
#include "inlay/check.h"
#include <string.h>

enum { ALIGN = 64, MAX_WORKSPACE = 1 << 30, MAX_ALIGN = 1 << 21 };

/* ------------------------------------------------------------------ assess and cost */

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    harness_answer *answer = ctx;

    if (offer == NULL || !INLAY_HAS(offer, node_count) || offer->node_count != 1 || offer->nodes == NULL ||
        offer->nodes[0] != 0 || answer->kind == HARNESS_OFFERED)
        return INLAY_OK;
    answer->kind = HARNESS_OFFERED;
    memcpy(&answer->offer, offer,
           offer->struct_size < sizeof answer->offer ? (size_t)offer->struct_size : sizeof answer->offer);
    answer->offer.struct_size = sizeof answer->offer;
    answer->node = 0;
    if (answer->offer.placement_count > CASE_INPUTS + CASE_OUTPUTS)
        answer->offer.placement_count = CASE_INPUTS + CASE_OUTPUTS;
    for (uint32_t i = 0; i < answer->offer.placement_count; i++)
        sized_struct_read(&answer->placements[i], sizeof answer->placements[i],
                          INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i),
                          offer->placement_stride);
    answer->offer.placement_stride = sizeof answer->placements[0];
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    harness_answer *answer = ctx;

    if (answer->kind == HARNESS_SILENT) {
        answer->kind = HARNESS_REFUSED;
        (void)snprintf(answer->reason, sizeof answer->reason, "%s", refusal->text != NULL ? refusal->text : "");
    }
    return INLAY_OK;
}

void harness_assess(const loaded_provider *provider, const case_instance *built, harness_answer *out)
{
    static const uint8_t candidate = 1;
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = out, .offer = take_offer, .refuse = take_refusal
    };

    *out = (harness_answer){ .kind = HARNESS_SILENT };
    if (provider->table->assess(provider->state, &built->snapshot, &candidate, &sink, &diag) != INLAY_OK) {
        out->kind = HARNESS_FAILED;
        (void)snprintf(out->reason, sizeof out->reason, "%.250s", diag.text);
    }
    out->offer.nodes = &out->node;
    out->offer.placements = out->placements;
}

inlay_status harness_cost(const loaded_provider *provider, const case_instance *built, const harness_answer *answer,
                          uint32_t threads, inlay_cost *out)
{
    inlay_offer offer = answer->offer;
    const inlay_cost_request request = { .struct_size = sizeof request,
                                         .graph = &built->snapshot,
                                         .offer = &offer,
                                         .values = built->states,
                                         .value_count = built->snapshot.value_count,
                                         .value_stride = sizeof *built->states,
                                         .max_threads = threads };

    offer.nodes = &answer->node;
    offer.placements = answer->placements;
    *out = (inlay_cost){ .struct_size = sizeof *out };
    return provider->table->cost(provider->state, &request, out);
}

/* ------------------------------------------------------------------ compile */

struct constants {
    const inlay_graph *graph;
    struct arena *arena;
};

/* Hook of compile: copies a constant to a multiple of alignment. NULL: not a constant, or no memory. */
static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    const struct constants *constants = ctx;
    const inlay_value_info *info =
        value < constants->graph->value_count ? inlay_graph_value(constants->graph, value) : NULL;
    char *copy;

    if (info == NULL || info->data == NULL)
        return NULL;
    copy = arena_alloc(constants->arena, info->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    return memcpy(copy, info->data, info->data_bytes);
}

uint32_t harness_default_domain(const loaded_provider *provider)
{
    const uint32_t domain = provider->table->default_domain;

    /* A default_domain that does not exist is reported by group `open`. */
    return domain == 0 || domain > provider->table->domain_count ? INLAY_DOMAIN_HOST
                                                                 : provider->first_domain + domain - 1;
}

/* Chooses the first row-major placement that the offer names for the value, in host memory or in a domain of the
 * provider. If the offer names no placement for the value, chooses the provider's default domain. False: the offer
 * names placements for the value, but none of this kind. */
static bool negotiate(const struct harness *harness, uint32_t value, inlay_placement *out)
{
    const loaded_provider *own = harness->provider;
    bool named = false;

    *out = (inlay_placement){ .value = value, .domain = harness_default_domain(own) };
    for (uint32_t i = 0; i < harness->answer.offer.placement_count; i++) {
        const inlay_placement *placement = &harness->answer.placements[i];

        if (placement->value != value)
            continue;
        named = true;
        if (placement->layout.kind == INLAY_LAYOUT_ROW_MAJOR && placement->dtype == INLAY_UNDEFINED &&
            (placement->domain == INLAY_DOMAIN_HOST ||
             (placement->domain >= own->first_domain &&
              placement->domain - own->first_domain < own->table->domain_count))) {
            out->domain = placement->domain;
            return true;
        }
    }
    return !named;
}

static inlay_status compile(struct harness *harness, inlay_diag *diag)
{
    static const uint32_t node;
    const case_instance *built = harness->built;
    const uint32_t total = built->input_count + built->output_count;
    inlay_placement *placements = arena_array(&harness->arena, total + (size_t)1, sizeof *placements);
    struct constants *constants = arena_alloc(&harness->arena, sizeof *constants);
    run_compile_hooks *hooks = arena_alloc(&harness->arena, sizeof *hooks);
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = hooks,
                                      .graph = &built->snapshot,
                                      .nodes = &node,
                                      .node_count = 1,
                                      .cookies = &harness->answer.offer.cookie,
                                      .offer_count = 1,
                                      .inputs = built->inputs,
                                      .input_count = built->input_count,
                                      .outputs = built->outputs,
                                      .output_count = built->output_count,
                                      .placements = placements,
                                      .placement_stride = sizeof *placements,
                                      .profile = built->states,
                                      .profile_stride = sizeof *built->states,
                                      .max_threads = harness->threads };
    inlay_status status;

    INLAY_CHECK(built->input_count <= CASE_INPUTS && built->output_count <= CASE_OUTPUTS);
    harness->constant_decisions = arena_alloc(&harness->arena, built->snapshot.value_count + (size_t)1);
    if (placements == NULL || constants == NULL || hooks == NULL || harness->constant_decisions == NULL)
        return no_memory(diag, "to compile a case");
    *constants = (struct constants){ &built->snapshot, &harness->arena };
    *hooks = (run_compile_hooks){ .ctx = constants, .align_constant = align_constant };
    for (uint32_t i = 0; i < total; i++) {
        const bool is_input = i < built->input_count;

        if (!negotiate(harness, is_input ? built->inputs[i] : built->outputs[i - built->input_count], &placements[i]))
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "the offer requires placements or layouts that the checker does not provide");
        *(is_input ? &harness->in_domains[i] : &harness->out_domains[i - built->input_count]) = placements[i].domain;
    }
    request.constants = harness->constant_decisions;
    if (harness->region != NULL) {
        request.nodes = harness->region->nodes;
        request.node_count = harness->region->node_count;
        request.cookies = harness->region->cookies;
        request.offer_count = harness->region->offer_count;
    }
    if (!frozen_create(&built->snapshot, 0, true, &harness->snapshot))
        return no_memory(diag, "to compile a case");
    request.graph = harness->snapshot.graph;
    status = harness->provider->table->compile(harness->provider->state, &request, &harness->compiled, diag);
    frozen_hide(&harness->snapshot);
    return status;
}

/* ------------------------------------------------------------------ specialize */

/* Validates the output plans and the workspace that specialize returned. */
static inlay_status check_plans(const struct harness *harness, inlay_diag *diag)
{
    for (uint32_t output = 0; output < harness->built->output_count; output++) {
        const inlay_value_state *state = &harness->built->states[harness->built->outputs[output]];
        const inlay_output_plan *plan = &harness->plans[output];
        bool known = state->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; known && d < state->rank; d++)
            known = state->dims[d] >= 0;
        if (plan->kind > INLAY_OUTPUT_ALLOCATED)
            return inlay_fail(diag, INLAY_INTERNAL, "output %u has the unknown kind %u", output, plan->kind);
        if (plan->kind == INLAY_OUTPUT_KNOWN && !known)
            return inlay_fail(diag, INLAY_INTERNAL,
                              "output %u has kind KNOWN, but its shape depends on data: it "
                              "must be BOUNDED or ALLOCATED",
                              output);
        if (plan->alias != INLAY_NONE && plan->alias >= harness->built->input_count)
            return inlay_fail(diag, INLAY_INTERNAL, "output %u may share the buffer of input %u, which does not exist",
                              output, plan->alias);
    }
    if (harness->workspace_bytes > MAX_WORKSPACE || harness->workspace_alignment > MAX_ALIGN ||
        harness->workspace_alignment == 0 || (harness->workspace_alignment & (harness->workspace_alignment - 1)) != 0)
        return inlay_fail(diag, INLAY_INTERNAL, "the workspace has %llu bytes, aligned to %llu",
                          (unsigned long long)harness->workspace_bytes,
                          (unsigned long long)harness->workspace_alignment);
    return INLAY_OK;
}

static inlay_status specialize(struct harness *harness, inlay_diag *diag)
{
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = harness->built->states,
                                         .value_count = harness->built->snapshot.value_count,
                                         .value_stride = sizeof *harness->built->states,
                                         .max_threads = harness->threads,
                                         .workspace_alignment = ALIGN,
                                         .outputs = harness->plans,
                                         .output_count = harness->built->output_count,
                                         .output_stride = sizeof harness->plans[0] };
    inlay_status status;

    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        harness->plans[o] = (inlay_output_plan){ .alias = INLAY_NONE };
    status = harness->provider->table->specialize(harness->provider->state, harness->compiled, &request,
                                                  &harness->instance, diag);
    harness->workspace_bytes = request.workspace_bytes;
    harness->workspace_alignment = request.workspace_alignment < ALIGN ? ALIGN : request.workspace_alignment;
    return status == INLAY_OK ? check_plans(harness, diag) : status;
}

/* Calls compile and specialize for the offer in harness->answer. */
static inlay_status prepare(struct harness *harness, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    harness->phase = "compile";
    check_phase(harness->check, "compile");
    INLAY_TRY(compile(harness, diag));
    harness->phase = "specialize";
    check_phase(harness->check, "specialize");
    INLAY_TRY(specialize(harness, diag));
    check_phase(harness->check, "the checker");
done:
    if (status != INLAY_OK)
        harness_close(harness);
    return status;
}

inlay_status harness_open(struct check *check, const loaded_provider *provider, const case_instance *built,
                          const op_case *entry, uint32_t threads, struct harness *harness, inlay_diag *diag)
{
    *harness = (struct harness){
        .check = check, .provider = provider, .built = built, .entry = entry, .threads = threads, .phase = "assess"
    };
    INLAY_CHECK(threads > 0);
    check_phase(check, "assess");
    harness_assess(provider, built, &harness->answer);
    if (harness->answer.kind == HARNESS_OFFERED)
        return prepare(harness, diag);
    check_phase(check, "the checker");
    return inlay_fail(diag, harness->answer.kind == HARNESS_FAILED ? INLAY_INTERNAL : INLAY_UNSUPPORTED, "%s",
                      harness->answer.reason);
}

inlay_status harness_open_region(struct check *check, const loaded_provider *provider, const case_instance *built,
                                 const op_case *entry, const harness_region *region, const inlay_placement *placements,
                                 uint32_t placement_count, struct harness *harness, inlay_diag *diag)
{
    *harness = (struct harness){
        .check = check, .provider = provider, .built = built, .entry = entry, .threads = 1, .region = region
    };
    INLAY_CHECK(region->node_count > 0 && region->offer_count > 0);
    INLAY_CHECK(placement_count <= CASE_INPUTS + CASE_OUTPUTS);
    harness->answer.kind = HARNESS_OFFERED;
    if (placement_count > 0)
        memcpy(harness->answer.placements, placements, placement_count * sizeof *placements);
    harness->answer.offer.placement_count = placement_count;
    harness->answer.offer.placement_stride = sizeof *placements;
    return prepare(harness, diag);
}

void harness_close(struct harness *harness)
{
    if (harness->instance != NULL) {
        check_phase(harness->check, "release_instance");
        harness->provider->table->release_instance(harness->provider->state, harness->compiled, harness->instance);
    }
    if (harness->compiled != NULL) {
        check_phase(harness->check, "release_compiled");
        harness->provider->table->release_compiled(harness->provider->state, harness->compiled);
    }
    harness->instance = NULL;
    harness->compiled = NULL;
    frozen_destroy(&harness->snapshot);
    arena_deinit(&harness->arena);
    check_phase(harness->check, "the checker");
}
