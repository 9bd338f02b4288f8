/* Combines two providers. The cookie of an offer and the compiled region record which of them made it. */
#include "cpu/operators/operators.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include <stdlib.h>

enum { REGIONS, OPERATORS, PARTS };

typedef struct combined_state {
    inlay_provider parts[PARTS];
    void *states[PARTS];
    /* Extensions of the parts, which the functions of this file forward to. NULL: not supported. */
    const inlay_ext_kernels *kernels;
    const inlay_ext_states *in_place;
    const inlay_ext_branches *branches[PARTS];
    const inlay_ext_control *control;
} combined_state;

/* A compiled region: the part that compiled it, and its result. */
typedef struct combined_region {
    uint32_t part;
    inlay_compiled *compiled;
} combined_region;

static void destroy(void *state_)
{
    combined_state *state = state_;

    if (state == NULL)
        return;
    for (uint32_t part = 0; part < PARTS; part++)
        if (state->states[part] != NULL)
            state->parts[part].destroy(state->states[part]);
    free(state);
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    const inlay_provider *regions = ctx;
    combined_state *state = calloc(1, sizeof *state);
    inlay_status status = INLAY_OK;

    *out_state = NULL;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider %s", regions->name);
    state->parts[REGIONS] = *regions;
    for (uint32_t part = 0; part < PARTS && status == INLAY_OK; part++) {
        if (part == OPERATORS) /* the tables of operators depend on options that `regions` has read before */
            state->parts[part] = kit_describe_provider(cpu_operators());
        status = state->parts[part].create(state->parts[part].ctx, host, args, &state->states[part], diag);
        if (status == INLAY_OK)
            state->branches[part] = state->parts[part].extension(state->states[part], INLAY_EXT_BRANCHES);
    }
    if (status != INLAY_OK) {
        destroy(state);
        return status;
    }
    state->kernels = regions->extension(state->states[REGIONS], INLAY_EXT_KERNELS);
    state->in_place = regions->extension(state->states[REGIONS], INLAY_EXT_STATES);
    state->control = regions->extension(state->states[REGIONS], INLAY_EXT_CONTROL);
    *out_state = state;
    return INLAY_OK;
}

/* Forwards the answers of a part to the host's sink. */
struct relay {
    const inlay_assess_sink *to;
    uint8_t *open; /* [node_count] candidates without an offer */
};

static inlay_status forward_region(void *ctx, const inlay_offer *offer)
{
    const struct relay *relay = ctx;

    for (uint32_t node = 0; node < offer->node_count; node++)
        relay->open[offer->nodes[node]] = 0;
    return relay->to->offer(relay->to->ctx, offer);
}

static inlay_status forward_operator(void *ctx, const inlay_offer *offer)
{
    const struct relay *relay = ctx;
    inlay_offer marked = *offer;

    for (uint32_t node = 0; node < offer->node_count; node++)
        relay->open[offer->nodes[node]] = 0;
    marked.cookie |= CPU_COOKIE_OPERATOR;
    return relay->to->offer(relay->to->ctx, &marked);
}

static inlay_status forward_refusal(void *ctx, const inlay_refusal *refusal)
{
    const struct relay *relay = ctx;

    return relay->to->refuse(relay->to->ctx, refusal);
}

static inlay_status drop_offer(void *ctx, const inlay_offer *offer)
{
    (void)ctx, (void)offer;
    return INLAY_OK;
}

static inlay_status drop_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx, (void)refusal;
    return INLAY_OK;
}

/* Regions are assessed first, then operators. A second round over `regions` collects the reasons why it refuses the
 * nodes that neither part supports. */
static inlay_status assess(void *state_, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    combined_state *state = state_;
    inlay_assess_request forwarded = *request;
    struct relay relay = { .to = request->sink, .open = malloc((size_t)graph->node_count + 1) };
    const struct {
        uint32_t part;
        inlay_assess_sink sink;
    } rounds[] = {
        { REGIONS, { sizeof(inlay_assess_sink), &relay, forward_region, drop_refusal } },
        { OPERATORS, { sizeof(inlay_assess_sink), &relay, forward_operator, drop_refusal } },
        { REGIONS, { sizeof(inlay_assess_sink), &relay, drop_offer, forward_refusal } },
    };
    inlay_status status = INLAY_OK;

    if (relay.open == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %u nodes", graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        relay.open[n] = request->candidates[n] != 0;
    forwarded.candidates = relay.open;
    for (size_t i = 0; i < KIT_COUNT(rounds) && status == INLAY_OK; i++) {
        const uint32_t part_index = rounds[i].part;

        forwarded.sink = &rounds[i].sink;
        status = state->parts[part_index].assess(state->states[part_index], &forwarded, diag);
    }
    free(relay.open);
    return status;
}

static inlay_status cost(void *state_, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    combined_state *state = state_;
    const uint32_t part = (request->offer->cookie & CPU_COOKIE_OPERATOR) != 0 ? OPERATORS : REGIONS;
    inlay_cost_request forwarded = *request;
    inlay_offer offer = *request->offer;

    offer.cookie &= ~CPU_COOKIE_OPERATOR;
    forwarded.offer = &offer;
    return state->parts[part].cost(state->states[part], &forwarded, out, diag);
}

/* Offers of operators do not merge, so each of them is compiled alone. */
static inlay_status compile(void *state_, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    combined_state *state = state_;
    combined_region *region = calloc(1, sizeof *region);
    inlay_compile_request forwarded = *request;
    uint64_t cookie = 0;
    inlay_status status;

    *out_compiled = NULL;
    if (region == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", request->node_count);
    if (request->offer_count == 1 && request->cookies != NULL && (request->cookies[0] & CPU_COOKIE_OPERATOR) != 0) {
        region->part = OPERATORS;
        cookie = request->cookies[0] & ~CPU_COOKIE_OPERATOR;
        forwarded.cookies = &cookie;
    }
    status = state->parts[region->part].compile(state->states[region->part], &forwarded, &region->compiled, diag);
    if (status != INLAY_OK) {
        free(region);
        return status;
    }
    *out_compiled = (inlay_compiled *)(void *)region;
    return INLAY_OK;
}

/* The part that compiled a region; *out_compiled: its result. */
static uint32_t part_of(const inlay_compiled *compiled, inlay_compiled **out_compiled)
{
    const combined_region *region = (const combined_region *)(const void *)compiled;

    INLAY_CHECK(region->part < PARTS);
    *out_compiled = region->compiled;
    return region->part;
}

static void release_compiled(void *state_, inlay_compiled *compiled)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    uint32_t part;

    if (compiled == NULL)
        return;
    part = part_of(compiled, &inner);
    state->parts[part].release_compiled(state->states[part], inner);
    free(compiled);
}

static inlay_status specialize(void *state_, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    return state->parts[part].specialize(state->states[part], inner, request, out_instance, diag);
}

static void release_instance(void *state_, inlay_compiled *compiled, inlay_instance *instance)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    state->parts[part].release_instance(state->states[part], inner, instance);
}

static inlay_status execute(void *state_, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    return state->parts[part].execute(state->states[part], inner, instance, args);
}

static inlay_status list_kernels(void *state_, const inlay_kernel_list *request, inlay_diag *diag)
{
    combined_state *state = state_;
    inlay_kernel_list of_part = {
        .struct_size = sizeof of_part, .instance = request->instance, .ctx = request->ctx, .kernel = request->kernel
    };
    const uint32_t part = part_of(request->compiled, &of_part.compiled);

    return part == REGIONS ? state->kernels->list(state->states[part], &of_part, diag) : INLAY_OK;
}

static inlay_status time_kernels(void *state_, inlay_compiled *compiled, const inlay_kernel_trial *trial,
                                 inlay_diag *diag)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    return part == REGIONS ? state->kernels->time(state->states[part], inner, trial, diag) : INLAY_OK;
}

static uint32_t appends(void *state_, inlay_compiled *compiled, uint32_t input, uint32_t output, uint32_t *out_axis)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    return part == REGIONS ? state->in_place->appends(state->states[part], inner, input, output, out_axis) : 0;
}

static uint32_t reads(void *state_, inlay_compiled *compiled, uint32_t input, uint32_t axis)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    return part == REGIONS ? state->in_place->reads(state->states[part], inner, input, axis) : 0;
}

static uint32_t may_branch(void *state_, inlay_compiled *compiled, inlay_instance *instance)
{
    combined_state *state = state_;
    inlay_compiled *inner;
    const uint32_t part = part_of(compiled, &inner);

    return state->branches[part] != NULL ? state->branches[part]->may(state->states[part], inner, instance) : 0;
}

static inlay_status control(void *state_, inlay_control_args *args, inlay_diag *diag)
{
    const combined_state *state = state_;

    return state->control->control(state->states[REGIONS], args, diag);
}

static const void *extension(void *state_, const char *name)
{
    static const inlay_ext_kernels kernels = { .struct_size = sizeof kernels,
                                               .list = list_kernels,
                                               .time = time_kernels };
    static const inlay_ext_states in_place = { .struct_size = sizeof in_place, .appends = appends, .reads = reads };
    static const inlay_ext_branches branches = { .struct_size = sizeof branches, .may = may_branch };
    static const inlay_ext_control controls = { .struct_size = sizeof controls, .control = control };
    const combined_state *state = state_;

    if (strcmp(name, INLAY_EXT_CONTROL) == 0)
        return state->control != NULL ? &controls : NULL;
    if (strcmp(name, INLAY_EXT_KERNELS) == 0)
        return state->kernels != NULL ? &kernels : NULL;
    if (strcmp(name, INLAY_EXT_STATES) == 0)
        return state->in_place != NULL ? &in_place : NULL;
    if (strcmp(name, INLAY_EXT_BRANCHES) == 0)
        return &branches;
    return state->parts[REGIONS].extension(state->states[REGIONS], name);
}

inlay_provider cpu_combine(const inlay_provider *regions)
{
    inlay_provider combined = *regions;

    INLAY_CHECK(regions->extension != NULL && regions->create != NULL);
    combined.ctx = (void *)(uintptr_t)regions;
    combined.create = create;
    combined.destroy = destroy;
    combined.assess = assess;
    combined.cost = cost;
    combined.compile = compile;
    combined.release_compiled = release_compiled;
    combined.specialize = specialize;
    combined.release_instance = release_instance;
    combined.execute = execute;
    combined.extension = extension;
    return combined;
}
