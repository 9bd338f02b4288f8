/* Assesses, compiles and specialises a case. */
#include "check/harness.h"
#include "base/provider_calls.h"
#include "base/hash.h"
#include "check/engines.h"
#include "base/sized_struct.h"
#include "base/checked.h"
#include "threads/run.h"
#include "inlay/check.h"
#include <string.h>

enum { ALIGN = 64, MAX_WORKSPACE = 1 << 30, MAX_ALIGN = 1 << 21 };

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    harness_answer *answer = ctx;

    if (offer == NULL || !INLAY_HAS(offer, node_count) || offer->node_count != 1 || offer->nodes == NULL ||
        offer->nodes[0] != answer->node || answer->kind == HARNESS_OFFERED)
        return INLAY_OK;
    answer->kind = HARNESS_OFFERED;
    memcpy(&answer->offer, offer,
           offer->struct_size < sizeof answer->offer ? (size_t)offer->struct_size : sizeof answer->offer);
    answer->offer.struct_size = sizeof answer->offer;
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
        answer->code = refusal->code;
        (void)snprintf(answer->reason, sizeof answer->reason, "%s", refusal->text != NULL ? refusal->text : "");
    }
    return INLAY_OK;
}

void harness_assess(const loaded_provider *provider, const case_instance *built, harness_answer *out)
{
    uint8_t candidates[2] = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = out, .offer = take_offer, .refuse = take_refusal
    };

    INLAY_CHECK(built->node < sizeof candidates);
    candidates[built->node] = 1;
    *out = (harness_answer){ .kind = HARNESS_SILENT, .node = built->node };
    if (call_assess(provider->table, provider->state, &built->snapshot, candidates, &sink, &diag) != INLAY_OK) {
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

    inlay_diag diag = INLAY_DIAG_INIT;

    offer.nodes = &answer->node;
    offer.placements = answer->placements;
    *out = (inlay_cost){ .struct_size = sizeof *out };
    return provider->table->cost(provider->state, &request, out, &diag);
}

void harness_check_answer(struct check *check, const loaded_provider *provider, const char *function,
                          inlay_status status, const inlay_diag *diag)
{
    if (status == INLAY_OK || status == INLAY_CANCELLED || !provider->is_own)
        return;
    if (strcmp(inlay_status_text(status), inlay_status_text(INT32_MAX)) == 0)
        check_rule(check, "a status of inlay/status.h", "return INLAY_INTERNAL if no other one fits",
                   "%s returned the unknown status %d", function, (int)status);
    if (diag->text[0] == '\0')
        check_rule(check, "a message with every failure", "fill in diag with inlay_fail",
                   "%s returned '%s' without a message", function, inlay_status_text(status));
}

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    return constants_align(ctx, value, alignment);
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
        if (placement->dtype == INLAY_UNDEFINED &&
            (placement->domain == INLAY_DOMAIN_HOST ||
             (placement->domain >= own->first_domain &&
              placement->domain - own->first_domain < own->table->domain_count))) {
            out->domain = placement->domain;
            return true;
        }
    }
    return !named;
}

/* Identifies the case in the engine cache. */
static uint64_t key_of(const struct harness *harness, const inlay_compile_request *request)
{
    const inlay_graph *graph = &harness->built->snapshot;
    char text[400];
    uint64_t hash = hash_u64(graph->content_hash, request->max_threads);

    (void)case_text(harness->entry, text, sizeof text);
    hash = hash_bytes(text, strlen(text), hash);
    for (uint32_t i = 0; i < graph->value_count; i++)
        hash = hash_u64(hash, inlay_graph_value(graph, i)->content_hash);
    hash = hash_bytes(request->nodes, request->node_count * sizeof *request->nodes, hash);
    hash = hash_bytes(request->cookies, request->offer_count * sizeof *request->cookies, hash);
    for (uint32_t i = 0; i < request->input_count + request->output_count; i++)
        hash = hash_u64(hash, request->placements[i].domain - harness->provider->first_domain);
    return hash;
}

/* Calls compile with arguments that are inaccessible afterwards. */
static inlay_status call_compile(struct harness *harness, const inlay_compile_request *request, inlay_diag *diag)
{
    const uint32_t values = request->graph->value_count;
    struct shown *shown = &harness->compile_args;
    inlay_compile_request *mine;
    inlay_status status;

    if (!shown_open(
            shown_bytes(sizeof *request, 1, 0) + shown_bytes(sizeof *request->nodes, request->node_count, 0) +
                shown_bytes(sizeof *request->cookies, request->offer_count, 0) +
                shown_bytes(sizeof *request->inputs, request->input_count, 0) +
                shown_bytes(sizeof *request->outputs, request->output_count, 0) +
                shown_bytes(sizeof *request->placements, request->input_count + request->output_count, SHOWN_LATER) +
                shown_bytes(1, values, 0) + shown_bytes(sizeof *request->profile, values, SHOWN_LATER) +
                shown_bytes(sizeof *request->resident_bytes, 1, 0),
            shown))
        return no_memory(diag, "to compile a case");
    mine = shown_put(shown, request, sizeof *request, 1, 0);
    mine->nodes = shown_put(shown, request->nodes, sizeof *request->nodes, request->node_count, 0);
    mine->cookies = shown_put(shown, request->cookies, sizeof *request->cookies, request->offer_count, 0);
    mine->inputs = shown_put(shown, request->inputs, sizeof *request->inputs, request->input_count, 0);
    mine->outputs = shown_put(shown, request->outputs, sizeof *request->outputs, request->output_count, 0);
    mine->placements = shown_put(shown, request->placements, sizeof *request->placements,
                                 request->input_count + request->output_count, SHOWN_LATER);
    mine->placement_stride = (uint32_t)sizeof *request->placements + SHOWN_LATER;
    mine->constants = shown_put(shown, NULL, 1, values, 0);
    if (request->profile != NULL) {
        mine->profile = shown_put(shown, request->profile, sizeof *request->profile, values, SHOWN_LATER);
        mine->profile_stride = (uint32_t)sizeof *request->profile + SHOWN_LATER;
    } else {
        mine->resident_bytes = shown_put(shown, NULL, sizeof *request->resident_bytes, 1, 0);
    }
    status = harness->provider->table->compile(harness->provider->state, mine, &harness->compiled, diag);
    for (uint32_t i = 0; i < values; i++) {
        request->constants[i] = mine->constants[i];
        if (mine->constants[i] > INLAY_CONST_PACKED && harness->provider->is_own)
            check_rule(harness->check, "INLAY_CONST_* for each constant", "write one of the three numbers",
                       "compile wrote %u for value %u", mine->constants[i], i);
    }
    shown_hide(shown, "of the arguments of compile, after compile returned");
    return status;
}

static inlay_status compile(struct harness *harness, inlay_diag *diag)
{
    const case_instance *built = harness->built;
    const uint32_t total = built->input_count + built->output_count;
    inlay_placement *placements = arena_array(&harness->arena, total + (size_t)1, sizeof *placements);
    run_compile_hooks *hooks = arena_alloc(&harness->arena, sizeof *hooks);
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = hooks,
                                      .graph = &built->snapshot,
                                      .nodes = &built->node,
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
    struct engine_call engine;
    inlay_status status;

    INLAY_CHECK(built->input_count <= CASE_INPUTS && built->output_count <= CASE_OUTPUTS);
    harness->constant_decisions = arena_alloc(&harness->arena, built->snapshot.value_count + (size_t)1);
    /* For several threads the constants are misaligned, so that both kinds of address are tried. */
    if (placements == NULL || hooks == NULL || harness->constant_decisions == NULL ||
        !constants_create(&built->snapshot, harness->threads > 1, &harness->arena, &harness->constants))
        return no_memory(diag, "to compile a case");
    *hooks = (run_compile_hooks){ .ctx = &harness->constants, .align_constant = align_constant };
    for (uint32_t i = 0; i < total; i++) {
        const bool is_input = i < built->input_count;

        if (!negotiate(harness, is_input ? built->inputs[i] : built->outputs[i - built->input_count], &placements[i]))
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "the offer requires placements that the checker does not provide");
        *(is_input ? &harness->in_domains[i] : &harness->out_domains[i - built->input_count]) = placements[i].domain;
    }
    request.constants = harness->constant_decisions;
    if (harness->region != NULL) {
        request.nodes = harness->region->nodes;
        request.node_count = harness->region->node_count;
        request.cookies = harness->region->cookies;
        request.offer_count = harness->region->offer_count;
    }
    if (!frozen_create(&harness->constants.graph, 0, true, &harness->snapshot))
        return no_memory(diag, "to compile a case");
    request.graph = harness->snapshot.graph;
    engines_begin(harness->check, harness->provider, key_of(harness, &request), &harness->arena, &engine, &request);
    if (harness->threads > 1) /* so that compile is called with and without the optional members */
        request.profile = NULL;
    status = call_compile(harness, &request, diag);
    engines_end(&engine);
    harness_check_answer(harness->check, harness->provider, "compile", status, diag);
    frozen_hide(&harness->snapshot);
    if (status == INLAY_OK)
        constants_settle(&harness->constants, harness->constant_decisions);
    return status;
}

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
    const inlay_value_state *states = harness->built->states;
    const uint32_t values = harness->built->snapshot.value_count, outputs = harness->built->output_count;
    struct shown *shown = &harness->specialize_args;
    struct engine_call engine = { .check = harness->check, .provider = harness->provider };
    inlay_specialize_request *request;
    inlay_status status;

    shown_close(shown); /* of an earlier call */
    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        harness->plans[o] = (inlay_output_plan){ .alias = INLAY_NONE };
    if (!shown_open(shown_bytes(sizeof *request, 1, 0) + shown_bytes(sizeof *states, values, SHOWN_LATER) +
                        shown_bytes(sizeof harness->plans[0], outputs, SHOWN_LATER),
                    shown))
        return no_memory(diag, "to specialize a case");
    request = shown_put(shown, NULL, sizeof *request, 1, 0);
    *request = (inlay_specialize_request){ .struct_size = sizeof *request,
                                           .values = shown_put(shown, states, sizeof *states, values, SHOWN_LATER),
                                           .value_count = values,
                                           .value_stride = (uint32_t)sizeof *states + SHOWN_LATER,
                                           .max_threads = harness->threads,
                                           .workspace_alignment = ALIGN,
                                           .outputs = shown_put(shown, harness->plans, sizeof harness->plans[0],
                                                                outputs, SHOWN_LATER),
                                           .output_count = outputs,
                                           .output_stride = (uint32_t)sizeof harness->plans[0] + SHOWN_LATER,
                                           .ctx = &engine,
                                           .progress = harness->check->bare ? NULL : engines_progress,
                                           .poll = harness->check->bare ? NULL : engines_poll };
    status = harness->provider->table->specialize(harness->provider->state, harness->compiled, request,
                                                  &harness->instance, diag);
    for (uint32_t o = 0; o < outputs; o++)
        harness->plans[o] = *INLAY_AT(inlay_output_plan, request->outputs, request->output_stride, o);
    if (shown_is_damaged(request->outputs, sizeof harness->plans[0], outputs, SHOWN_LATER) && harness->provider->is_own)
        check_rule(harness->check, "output plans at their stride",
                   "use INLAY_AT_OUT(inlay_output_plan, request->outputs, request->output_stride, i)",
                   "specialize wrote between the elements of outputs");
    harness->workspace_bytes = request->workspace_bytes;
    harness->workspace_alignment = request->workspace_alignment < ALIGN ? ALIGN : request->workspace_alignment;
    shown_hide(shown, "of the arguments of specialize, after specialize returned");
    harness_check_answer(harness->check, harness->provider, "specialize", status, diag);
    return status == INLAY_OK ? check_plans(harness, diag) : status;
}

/* Calls compile and specialize for the offer in harness->answer. */
static inlay_status prepare(struct harness *harness, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    harness->phase = "budget";
    if (!engines_may_compile(harness->check, harness->provider)) {
        status = inlay_fail(diag, INLAY_BUSY, "skipped: the compiles of this check took all of their time");
        goto done;
    }
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

inlay_status harness_specialize_again(struct harness *harness, inlay_diag *diag)
{
    inlay_status status;

    harness->provider->table->release_instance(harness->provider->state, harness->compiled, harness->instance);
    harness->instance = NULL;
    status = specialize(harness, diag);
    if (status != INLAY_OK)
        harness_close(harness);
    return status;
}

inlay_status harness_open_instance(const struct harness *of, const case_instance *built, const op_case *entry,
                                   struct harness *out, inlay_diag *diag)
{
    inlay_status status;

    *out = *of;
    out->built = built;
    out->entry = entry;
    out->instance = NULL;
    out->specialize_args = (struct shown){ .used = 0 };
    status = specialize(out, diag);
    if (status != INLAY_OK)
        harness_close_instance(out);
    return status;
}

void harness_close_instance(struct harness *harness)
{
    if (harness->instance != NULL)
        harness->provider->table->release_instance(harness->provider->state, harness->compiled, harness->instance);
    shown_close(&harness->specialize_args);
    harness->instance = NULL;
    harness->compiled = NULL; /* harness *of releases it */
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
    shown_close(&harness->compile_args);
    shown_close(&harness->specialize_args);
    frozen_destroy(&harness->snapshot);
    constants_destroy(&harness->constants);
    arena_deinit(&harness->arena);
    check_phase(harness->check, "the checker");
}
