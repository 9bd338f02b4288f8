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
    bench_answer *a = ctx;

    if (offer == NULL || !INLAY_HAS(offer, node_count) || offer->node_count != 1 || offer->nodes == NULL ||
        offer->nodes[0] != 0 || a->kind == BENCH_OFFERED)
        return INLAY_OK;
    a->kind = BENCH_OFFERED;
    memcpy(&a->offer, offer, offer->struct_size < sizeof a->offer ? (size_t)offer->struct_size : sizeof a->offer);
    a->offer.struct_size = sizeof a->offer;
    a->node = 0;
    if (a->offer.placement_count > CASE_INPUTS + CASE_OUTPUTS)
        a->offer.placement_count = CASE_INPUTS + CASE_OUTPUTS;
    for (uint32_t i = 0; i < a->offer.placement_count; i++)
        known_take(&a->placements[i], sizeof a->placements[i],
                   INLAY_AT(inlay_placement, offer->placements, offer->placement_stride, i), offer->placement_stride);
    a->offer.placement_stride = sizeof a->placements[0];
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    bench_answer *a = ctx;

    if (a->kind == BENCH_SILENT) {
        a->kind = BENCH_REFUSED;
        (void)snprintf(a->why, sizeof a->why, "%s", refusal->text != NULL ? refusal->text : "");
    }
    return INLAY_OK;
}

void bench_assess(const loaded_provider *p, const case_one *one, bench_answer *out)
{
    static const uint8_t candidate = 1;
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_assess_sink sink = {
        .struct_size = sizeof sink, .ctx = out, .offer = take_offer, .refuse = take_refusal
    };

    *out = (bench_answer){ .kind = BENCH_SILENT };
    if (p->table->assess(p->state, &one->snapshot, &candidate, &sink, &diag) != INLAY_OK) {
        out->kind = BENCH_FAILED;
        (void)snprintf(out->why, sizeof out->why, "%.250s", diag.text);
    }
    out->offer.nodes = &out->node;
    out->offer.placements = out->placements;
}

inlay_status bench_cost(const loaded_provider *p, const case_one *one, const bench_answer *answer, uint32_t threads,
                        inlay_cost *out)
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
    return p->table->cost(p->state, &request, out);
}

/* ------------------------------------------------------------------ compile */

struct constants {
    const inlay_graph *graph;
    struct arena *a;
};

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    const struct constants *k = ctx;
    const inlay_value_info *v = value < k->graph->value_count ? inlay_graph_value(k->graph, value) : NULL;
    char *copy;

    if (v == NULL || v->data == NULL)
        return NULL;
    copy = arena_alloc(k->a, v->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    return memcpy(copy, v->data, v->data_bytes);
}

static uint32_t default_domain(const loaded_provider *p)
{
    return p->table->default_domain == 0 ? INLAY_DOMAIN_HOST : p->first_domain + p->table->default_domain - 1;
}

/* A case stands alone, so each value lies where the offer likes it best, row-major. False: the offer names places for
 * the value, and none that is row-major in host memory or in a domain of the provider's. */
static bool negotiate(const struct bench *b, uint32_t value, inlay_placement *out)
{
    const loaded_provider *own = b->p;
    bool named = false;

    *out = (inlay_placement){ .value = value, .domain = default_domain(own) };
    for (uint32_t i = 0; i < b->answer.offer.placement_count; i++) {
        const inlay_placement *p = &b->answer.placements[i];

        if (p->value != value)
            continue;
        named = true;
        if (p->layout.kind == INLAY_LAYOUT_ROW_MAJOR && p->dtype == INLAY_UNDEFINED &&
            (p->domain == INLAY_DOMAIN_HOST ||
             (p->domain >= own->first_domain && p->domain - own->first_domain < own->table->domain_count))) {
            out->domain = p->domain;
            return true;
        }
    }
    return !named;
}

static inlay_status compile(struct bench *b, inlay_diag *diag)
{
    static const uint32_t node;
    const case_one *one = b->one;
    const uint32_t total = one->input_count + one->output_count;
    inlay_placement *placements = arena_array(&b->a, total + (size_t)1, sizeof *placements);
    struct constants *k = arena_alloc(&b->a, sizeof *k);
    run_compile_hooks *hooks = arena_alloc(&b->a, sizeof *hooks);
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = hooks,
                                      .graph = &one->snapshot,
                                      .nodes = &node,
                                      .node_count = 1,
                                      .cookies = &b->answer.offer.cookie,
                                      .offer_count = 1,
                                      .inputs = one->inputs,
                                      .input_count = one->input_count,
                                      .outputs = one->outputs,
                                      .output_count = one->output_count,
                                      .placements = placements,
                                      .placement_stride = sizeof *placements,
                                      .profile = one->states,
                                      .profile_stride = sizeof *one->states,
                                      .max_threads = b->threads };
    inlay_status status;

    b->fates = arena_alloc(&b->a, one->snapshot.value_count + (size_t)1);
    if (placements == NULL || k == NULL || hooks == NULL || b->fates == NULL)
        return no_memory(diag, "to compile a case");
    *k = (struct constants){ &one->snapshot, &b->a };
    *hooks = (run_compile_hooks){ .ctx = k, .align_constant = align_constant };
    for (uint32_t i = 0; i < total; i++) {
        const bool is_input = i < one->input_count;

        if (!negotiate(b, is_input ? one->inputs[i] : one->outputs[i - one->input_count], &placements[i]))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "the offer stands for values in other places or layouts only");
        *(is_input ? &b->in_domains[i] : &b->out_domains[i - one->input_count]) = placements[i].domain;
    }
    request.constants = b->fates;
    if (b->region != NULL) {
        request.nodes = b->region->nodes;
        request.node_count = b->region->node_count;
        request.cookies = b->region->cookies;
        request.offer_count = b->region->offer_count;
    }
    if (!frozen_create(&one->snapshot, 0, true, &b->seen))
        return no_memory(diag, "to compile a case");
    request.graph = b->seen.graph;
    status = b->p->table->compile(b->p->state, &request, &b->compiled, diag);
    frozen_hide(&b->seen);
    return status;
}

/* ------------------------------------------------------------------ specialize */

/* Is what specialize said about the outputs within the rules? */
static inlay_status check_plans(const struct bench *b, inlay_diag *diag)
{
    for (uint32_t o = 0; o < b->one->output_count; o++) {
        const inlay_value_state *s = &b->one->states[b->one->outputs[o]];
        const inlay_output_plan *plan = &b->plans[o];
        bool known = s->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; known && d < s->rank; d++)
            known = s->dims[d] >= 0;
        if (plan->kind > INLAY_OUTPUT_ALLOCATED)
            return inlay_fail(diag, INLAY_INTERNAL, "output %u is of kind %u, which there is not", o, plan->kind);
        if (plan->kind == INLAY_OUTPUT_KNOWN && !known)
            return inlay_fail(diag, INLAY_INTERNAL,
                              "output %u is of kind KNOWN, but its shape depends on data: it "
                              "must be BOUNDED or ALLOCATED",
                              o);
        if (plan->alias != INLAY_NONE && plan->alias >= b->one->input_count)
            return inlay_fail(diag, INLAY_INTERNAL, "output %u may share the buffer of input %u, which there is not", o,
                              plan->alias);
    }
    if (b->workspace_bytes > MAX_WORKSPACE || b->workspace_alignment > MAX_ALIGN || b->workspace_alignment == 0 ||
        (b->workspace_alignment & (b->workspace_alignment - 1)) != 0)
        return inlay_fail(diag, INLAY_INTERNAL, "the workspace is of %llu bytes, aligned to %llu",
                          (unsigned long long)b->workspace_bytes, (unsigned long long)b->workspace_alignment);
    return INLAY_OK;
}

static inlay_status specialize(struct bench *b, inlay_diag *diag)
{
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = b->one->states,
                                         .value_count = b->one->snapshot.value_count,
                                         .value_stride = sizeof *b->one->states,
                                         .max_threads = b->threads,
                                         .workspace_alignment = ALIGN,
                                         .outputs = b->plans,
                                         .output_count = b->one->output_count,
                                         .output_stride = sizeof b->plans[0] };
    inlay_status status;

    for (uint32_t o = 0; o < CASE_OUTPUTS; o++)
        b->plans[o] = (inlay_output_plan){ .alias = INLAY_NONE };
    status = b->p->table->specialize(b->p->state, b->compiled, &request, &b->instance, diag);
    b->workspace_bytes = request.workspace_bytes;
    b->workspace_alignment = request.workspace_alignment < ALIGN ? ALIGN : request.workspace_alignment;
    return status == INLAY_OK ? check_plans(b, diag) : status;
}

/* compile and specialize, once the answers of assess are there. */
static inlay_status prepare(struct bench *b, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    b->phase = "compile";
    check_phase(b->c, "compile");
    INLAY_TRY(compile(b, diag));
    b->phase = "specialize";
    check_phase(b->c, "specialize");
    INLAY_TRY(specialize(b, diag));
    check_phase(b->c, "the checker");
done:
    if (status != INLAY_OK)
        bench_close(b);
    return status;
}

inlay_status bench_open(struct check *c, const loaded_provider *p, const case_one *one, const op_case *k,
                        uint32_t threads, struct bench *b, inlay_diag *diag)
{
    *b = (struct bench){ .c = c, .p = p, .one = one, .k = k, .threads = threads, .phase = "assess" };
    check_phase(c, "assess");
    bench_assess(p, one, &b->answer);
    if (b->answer.kind == BENCH_OFFERED)
        return prepare(b, diag);
    check_phase(c, "the checker");
    return inlay_fail(diag, b->answer.kind == BENCH_FAILED ? INLAY_INTERNAL : INLAY_UNSUPPORTED, "%s", b->answer.why);
}

inlay_status bench_open_region(struct check *c, const loaded_provider *p, const case_one *one, const op_case *k,
                               const bench_region *region, const inlay_placement *placements, uint32_t placement_count,
                               struct bench *b, inlay_diag *diag)
{
    *b = (struct bench){ .c = c, .p = p, .one = one, .k = k, .threads = 1, .region = region };
    b->answer.kind = BENCH_OFFERED;
    if (placement_count > 0)
        memcpy(b->answer.placements, placements, placement_count * sizeof *placements);
    b->answer.offer.placement_count = placement_count;
    b->answer.offer.placement_stride = sizeof *placements;
    return prepare(b, diag);
}

void bench_close(struct bench *b)
{
    if (b->instance != NULL) {
        check_phase(b->c, "release_instance");
        b->p->table->release_instance(b->p->state, b->compiled, b->instance);
    }
    if (b->compiled != NULL) {
        check_phase(b->c, "release_compiled");
        b->p->table->release_compiled(b->p->state, b->compiled);
    }
    b->instance = NULL;
    b->compiled = NULL;
    frozen_destroy(&b->seen);
    arena_deinit(&b->a);
    check_phase(b->c, "the checker");
}
