/* From a case to a specialised instance. */
#include "check/bench.h"
#include "base/known.h"
#include "base/checked.h"
#include "threads/run.h"
#include <string.h>

enum { ALIGN = 64, MAX_WORKSPACE = 1 << 30, MAX_ALIGN = 1 << 21 };

/* ------------------------------------------------------------------ assess and cost */

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    bench_answer *answer = ctx;

    if (offer == NULL || !INLAY_HAS(offer, node_count) || offer->node_count != 1 || offer->nodes == NULL ||
        offer->nodes[0] != 0 || answer->kind == BENCH_OFFERED)
        return INLAY_OK;
    answer->kind = BENCH_OFFERED;
    memcpy(&answer->offer, offer,
           offer->struct_size < sizeof answer->offer ? (size_t)offer->struct_size : sizeof answer->offer);
    answer->offer.struct_size = sizeof answer->offer;
    answer->node = 0;
    if (answer->offer.placement_count > CASE_INPUTS + CASE_OUTPUTS)
        answer->offer.placement_count = CASE_INPUTS + CASE_OUTPUTS;
    for (uint32_t i = 0; i < answer->offer.placement_count; i++)
        known_take(&answer->placements[i], sizeof answer->placements[i],
                   INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i), offer->placement_stride);
    answer->offer.placement_stride = sizeof answer->placements[0];
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    bench_answer *answer = ctx;

    if (answer->kind == BENCH_SILENT) {
        answer->kind = BENCH_REFUSED;
        (void)snprintf(answer->why, sizeof answer->why, "%s", refusal->text != NULL ? refusal->text : "");
    }
    return INLAY_OK;
}

void bench_assess(const loaded_provider *provider, const case_one *one, bench_answer *out)
{
    static const uint8_t candidate = 1;
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = out, .offer = take_offer, .refuse = take_refusal
    };

    *out = (bench_answer){ .kind = BENCH_SILENT };
    if (provider->table->assess(provider->state, &one->snapshot, &candidate, &sink, &diag) != INLAY_OK) {
        out->kind = BENCH_FAILED;
        (void)snprintf(out->why, sizeof out->why, "%.250s", diag.text);
    }
    out->offer.nodes = &out->node;
    out->offer.placements = out->placements;
}

inlay_status bench_cost(const loaded_provider *provider, const case_one *one, const bench_answer *answer,
                        uint32_t threads, inlay_cost *out)
{
    inlay_offer offer = answer->offer;
    const inlay_cost_request request = { .struct_size = sizeof request,
                                         .graph = &one->snapshot,
                                         .offer = &offer,
                                         .values = one->states,
                                         .value_count = one->snapshot.value_count,
                                         .value_stride = sizeof *one->states,
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

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    const struct constants *constants = ctx;
    const inlay_value_info *v =
        value < constants->graph->value_count ? inlay_graph_value(constants->graph, value) : NULL;
    char *copy;

    if (v == NULL || v->data == NULL)
        return NULL;
    copy = arena_alloc(constants->arena, v->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    return memcpy(copy, v->data, v->data_bytes);
}

static uint32_t default_domain(const loaded_provider *provider)
{
    return provider->table->default_domain == 0 ? INLAY_DOMAIN_HOST
                                                : provider->first_domain + provider->table->default_domain - 1;
}

/* A case stands alone, so each value lies where the offer likes it best, row-major. False: the offer names places for
 * the value, and none that is row-major in host memory or in a domain of the provider's. */
static bool negotiate(const struct bench *bench, uint32_t value, inlay_placement *out)
{
    const loaded_provider *own = bench->provider;
    bool named = false;

    *out = (inlay_placement){ .value = value, .domain = default_domain(own) };
    for (uint32_t i = 0; i < bench->answer.offer.placement_count; i++) {
        const inlay_placement *placement = &bench->answer.placements[i];

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

static inlay_status compile(struct bench *bench, inlay_diag *diag)
{
    static const uint32_t node;
    const case_one *one = bench->one;
    const uint32_t total = one->input_count + one->output_count;
    inlay_placement *placements = arena_array(&bench->arena, total + (size_t)1, sizeof *placements);
    struct constants *constants = arena_alloc(&bench->arena, sizeof *constants);
    run_compile_hooks *hooks = arena_alloc(&bench->arena, sizeof *hooks);
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = hooks,
                                      .graph = &one->snapshot,
                                      .nodes = &node,
                                      .node_count = 1,
                                      .cookies = &bench->answer.offer.cookie,
                                      .offer_count = 1,
                                      .inputs = one->inputs,
                                      .input_count = one->input_count,
                                      .outputs = one->outputs,
                                      .output_count = one->output_count,
                                      .placements = placements,
                                      .placement_stride = sizeof *placements,
                                      .profile = one->states,
                                      .profile_stride = sizeof *one->states,
                                      .max_threads = bench->threads };
    inlay_status status;

    bench->fates = arena_alloc(&bench->arena, one->snapshot.value_count + (size_t)1);
    if (placements == NULL || constants == NULL || hooks == NULL || bench->fates == NULL)
        return no_memory(diag, "to compile a case");
    *constants = (struct constants){ &one->snapshot, &bench->arena };
    *hooks = (run_compile_hooks){ .ctx = constants, .align_constant = align_constant };
    for (uint32_t i = 0; i < total; i++) {
        const bool is_input = i < one->input_count;

        if (!negotiate(bench, is_input ? one->inputs[i] : one->outputs[i - one->input_count], &placements[i]))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "the offer stands for values in other places or layouts only");
        *(is_input ? &bench->in_domains[i] : &bench->out_domains[i - one->input_count]) = placements[i].domain;
    }
    request.constants = bench->fates;
    if (bench->region != NULL) {
        request.nodes = bench->region->nodes;
        request.node_count = bench->region->node_count;
        request.cookies = bench->region->cookies;
        request.offer_count = bench->region->offer_count;
    }
    if (!frozen_create(&one->snapshot, 0, true, &bench->seen))
        return no_memory(diag, "to compile a case");
    request.graph = bench->seen.graph;
    status = bench->provider->table->compile(bench->provider->state, &request, &bench->compiled, diag);
    frozen_hide(&bench->seen);
    return status;
}

/* ------------------------------------------------------------------ specialize */

/* Is what specialize said about the outputs within the rules? */
static inlay_status check_plans(const struct bench *bench, inlay_diag *diag)
{
    for (uint32_t output = 0; output < bench->one->output_count; output++) {
        const inlay_value_state *state = &bench->one->states[bench->one->outputs[output]];
        const inlay_output_plan *plan = &bench->plans[output];
        bool known = state->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; known && d < state->rank; d++)
            known = state->dims[d] >= 0;
        if (plan->kind > INLAY_OUTPUT_ALLOCATED)
            return inlay_fail(diag, INLAY_INTERNAL, "output %u is of kind %u, which there is not", output, plan->kind);
        if (plan->kind == INLAY_OUTPUT_KNOWN && !known)
            return inlay_fail(diag, INLAY_INTERNAL,
                              "output %u is of kind KNOWN, but its shape depends on data: it "
                              "must be BOUNDED or ALLOCATED",
                              output);
        if (plan->alias != INLAY_NONE && plan->alias >= bench->one->input_count)
            return inlay_fail(diag, INLAY_INTERNAL, "output %u may share the buffer of input %u, which there is not",
                              output, plan->alias);
    }
    if (bench->workspace_bytes > MAX_WORKSPACE || bench->workspace_alignment > MAX_ALIGN ||
        bench->workspace_alignment == 0 || (bench->workspace_alignment & (bench->workspace_alignment - 1)) != 0)
        return inlay_fail(diag, INLAY_INTERNAL, "the workspace is of %llu bytes, aligned to %llu",
                          (unsigned long long)bench->workspace_bytes, (unsigned long long)bench->workspace_alignment);
    return INLAY_OK;
}

static inlay_status specialize(struct bench *bench, inlay_diag *diag)
{
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = bench->one->states,
                                         .value_count = bench->one->snapshot.value_count,
                                         .value_stride = sizeof *bench->one->states,
                                         .max_threads = bench->threads,
                                         .workspace_alignment = ALIGN,
                                         .outputs = bench->plans,
                                         .output_count = bench->one->output_count,
                                         .output_stride = sizeof bench->plans[0] };
    inlay_status status;

    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        bench->plans[o] = (inlay_output_plan){ .alias = INLAY_NONE };
    status =
        bench->provider->table->specialize(bench->provider->state, bench->compiled, &request, &bench->instance, diag);
    bench->workspace_bytes = request.workspace_bytes;
    bench->workspace_alignment = request.workspace_alignment < ALIGN ? ALIGN : request.workspace_alignment;
    return status == INLAY_OK ? check_plans(bench, diag) : status;
}

/* compile and specialize, once the answers of assess are there. */
static inlay_status prepare(struct bench *bench, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    bench->phase = "compile";
    check_phase(bench->check, "compile");
    INLAY_TRY(compile(bench, diag));
    bench->phase = "specialize";
    check_phase(bench->check, "specialize");
    INLAY_TRY(specialize(bench, diag));
    check_phase(bench->check, "the checker");
done:
    if (status != INLAY_OK)
        bench_close(bench);
    return status;
}

inlay_status bench_open(struct check *check, const loaded_provider *provider, const case_one *one, const op_case *entry,
                        uint32_t threads, struct bench *bench, inlay_diag *diag)
{
    *bench = (struct bench){
        .check = check, .provider = provider, .one = one, .entry = entry, .threads = threads, .phase = "assess"
    };
    check_phase(check, "assess");
    bench_assess(provider, one, &bench->answer);
    if (bench->answer.kind == BENCH_OFFERED)
        return prepare(bench, diag);
    check_phase(check, "the checker");
    return inlay_fail(diag, bench->answer.kind == BENCH_FAILED ? INLAY_INTERNAL : INLAY_UNSUPPORTED, "%s",
                      bench->answer.why);
}

inlay_status bench_open_region(struct check *check, const loaded_provider *provider, const case_one *one,
                               const op_case *entry, const bench_region *region, const inlay_placement *placements,
                               uint32_t placement_count, struct bench *bench, inlay_diag *diag)
{
    *bench = (struct bench){
        .check = check, .provider = provider, .one = one, .entry = entry, .threads = 1, .region = region
    };
    bench->answer.kind = BENCH_OFFERED;
    if (placement_count > 0)
        memcpy(bench->answer.placements, placements, placement_count * sizeof *placements);
    bench->answer.offer.placement_count = placement_count;
    bench->answer.offer.placement_stride = sizeof *placements;
    return prepare(bench, diag);
}

void bench_close(struct bench *bench)
{
    if (bench->instance != NULL) {
        check_phase(bench->check, "release_instance");
        bench->provider->table->release_instance(bench->provider->state, bench->compiled, bench->instance);
    }
    if (bench->compiled != NULL) {
        check_phase(bench->check, "release_compiled");
        bench->provider->table->release_compiled(bench->provider->state, bench->compiled);
    }
    bench->instance = NULL;
    bench->compiled = NULL;
    frozen_destroy(&bench->seen);
    arena_deinit(&bench->arena);
    check_phase(bench->check, "the checker");
}
