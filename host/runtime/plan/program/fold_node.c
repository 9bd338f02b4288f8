/* plan/program/fold_node.c - runs a single node once on host tensors: for constant folding, and to check results. */
#include "base/among.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "plan/program/fold_node.h"
#include "threads/run.h"
#include <stdlib.h>
#include <string.h>

/* The answer of a provider that is queried for one node. */
struct fold {
    bool offered;
    uint64_t cookie;
};

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    struct fold *fold = ctx;

    if (!fold->offered && offer->node_count == 1) {
        fold->offered = true;
        fold->cookie = offer->cookie;
    }
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx;
    (void)refusal;
    return INLAY_OK;
}

enum { COPY_ALIGN = 64, MAX_ALIGN = 4096, MAX_COPY_BYTES = 1 << 20, MAX_COPIED = 4 << 20 };

typedef struct aligned_copy {
    struct aligned_copy *next;
    const void *of; /* data of a constant, at a fixed address as long as the model exists */
    uint64_t bytes;
    void *data; /* aligned to COPY_ALIGN; owned */
} aligned_copy;

void program_folder_deinit(program_folder *folder)
{
    while (folder->copies != NULL) {
        aligned_copy *copy = folder->copies;

        folder->copies = copy->next;
        free(copy->data);
        free(copy);
    }
    folder->copied_bytes = 0;
}

/* The cached copy of a constant, created if there is none yet; NULL: too large, or out of memory. */
static const void *keep_copy(program_folder *folder, const inlay_value_info *value)
{
    aligned_copy *copy;

    for (copy = folder->copies; copy != NULL; copy = copy->next)
        if (copy->of == value->data && copy->bytes == value->data_bytes)
            return copy->data;
    if (value->data_bytes > MAX_COPY_BYTES || (copy = malloc(sizeof *copy)) == NULL)
        return NULL;
    *copy = (aligned_copy){ .next = folder->copies, .of = value->data, .bytes = value->data_bytes };
    if (posix_memalign(&copy->data, COPY_ALIGN, value->data_bytes > 0 ? (size_t)value->data_bytes : 1) != 0) {
        free(copy);
        return NULL;
    }
    if (value->data_bytes > 0)
        memcpy(copy->data, value->data, (size_t)value->data_bytes);
    folder->copies = copy;
    folder->copied_bytes += copy->bytes;
    return copy->data;
}

typedef struct fold_constants {
    program_folder *folder;
    const inlay_value_info *values;
    const void **aligned; /* [count] aligned copies passed to the provider, valid while this node is folded */
    uint32_t count;
    struct arena *arena;
} fold_constants;

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    fold_constants *constants = ctx;
    const inlay_value_info *info;
    char *copy;

    if (value >= constants->count || constants->values[value].data == NULL || alignment == 0 || alignment > MAX_ALIGN)
        return NULL;
    info = &constants->values[value];
    if ((uintptr_t)info->data % alignment == 0)
        return info->data;
    if (constants->aligned[value] != NULL && (uintptr_t)constants->aligned[value] % alignment == 0)
        return constants->aligned[value];
    if (alignment <= COPY_ALIGN && (constants->aligned[value] = keep_copy(constants->folder, info)) != NULL)
        return constants->aligned[value];
    copy = arena_alloc(constants->arena, info->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    memcpy(copy, info->data, info->data_bytes);
    constants->aligned[value] = copy;
    return copy;
}

/* Creates a graph with one node: its inputs, then its outputs, renumbered from 0. made: describes output 0 if it is not
 * a value yet. given: [value_count] describes the values instead of the graph, in which elements of inputs are no
 * constants; NULL: none. operand: a constant that is an input like those of a run; INLAY_NONE: none. */
static inlay_status single_node_graph(const struct graph *graph, const graph_node *original,
                                      const inlay_value_info *given, uint32_t operand, const inlay_value_info *made,
                                      struct arena *arena, inlay_graph *out)
{
    uint32_t ins = original->info.input_count, outs = original->info.output_count;
    inlay_value_info *values = arena_array(arena, (size_t)ins + outs + 1, sizeof *values);
    uint32_t *index = arena_array(arena, (size_t)ins + outs + 1, sizeof *index);
    inlay_node_info *node = arena_copy(arena, &original->info, sizeof original->info);
    uint32_t count = 0;

    if (values == NULL || index == NULL || node == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < ins + outs; i++) {
        uint32_t value = i < ins ? original->info.inputs[i] : original->info.outputs[i - ins];
        index[i] = INLAY_NONE;
        if (value == INLAY_NONE && (made == NULL || i != ins))
            continue;
        index[i] = count;
        values[count] = value == INLAY_NONE ? *made : given != NULL ? given[value] : graph->values[value].info;
        if (value != INLAY_NONE && value == operand)
            values[count].flags &= ~(uint32_t)INLAY_VALUE_CONSTANT;
        if ((given != NULL || value == operand) && (values[count].flags & INLAY_VALUE_CONSTANT) == 0)
            values[count].data = NULL;
        values[count].producer = i < ins ? INLAY_NONE : 0;
        count++;
    }
    node->inputs = index;
    node->outputs = index + ins;
    *out = (inlay_graph){ .struct_size = sizeof *out,
                          .name = { "fold", 4 },
                          .nodes = node,
                          .node_count = 1,
                          .node_stride = sizeof *node,
                          .values = values,
                          .value_count = count,
                          .value_stride = sizeof *values,
                          .symbols = graph->model->symbols,
                          .symbol_count = graph->model->symbol_count,
                          .symbol_stride = sizeof *graph->model->symbols };
    return INLAY_OK;
}

bool program_has_integers(const partition_provider *provider)
{
    const inlay_ext_integers *integers =
        provider->table->extension == NULL ? NULL : provider->table->extension(provider->state, INLAY_EXT_INTEGERS);

    return integers != NULL && INLAY_HAS(integers, fast_products) && integers->fast_products != 0;
}

uint32_t program_has_weights(const partition_provider *provider)
{
    const inlay_ext_weights *weights =
        provider->table->extension == NULL ? NULL : provider->table->extension(provider->state, INLAY_EXT_WEIGHTS);

    return weights != NULL && INLAY_HAS(weights, packed_products) ? weights->packed_products : 0;
}

/* Returns whether one of the providers offers the node. accepts: selects the providers; NULL: all. */
static bool any_offers(const partition_provider *providers, uint32_t count, bool (*accepts)(const partition_provider *),
                       const struct graph *graph, const graph_node *node, const inlay_value_info *made)
{
    static const uint8_t candidate = 1;
    struct arena arena = { 0 };
    inlay_graph single;
    struct fold fold = { 0 };
    inlay_assess_sink sink = { .struct_size = sizeof sink, .ctx = &fold, .offer = take_offer, .refuse = take_refusal };

    if (single_node_graph(graph, node, NULL, INLAY_NONE, made, &arena, &single) == INLAY_OK)
        for (uint32_t i = 0; !fold.offered && i < count; i++)
            if ((accepts == NULL || accepts(&providers[i])) &&
                partition_knows_types(graph, node, providers[i].abi_minor)) {
                (void)call_assess(providers[i].table, providers[i].state, &single, &candidate, &sink, NULL);
                call_forget(providers[i].table, providers[i].state, &single);
            }
    arena_deinit(&arena);
    return fold.offered;
}

bool program_offers_integers(void *fold_ctx, const struct graph *graph, const graph_node *node,
                             const inlay_value_info *made)
{
    const program_env *env = ((const program_folder *)fold_ctx)->env;

    return any_offers(env->providers, env->provider_count, program_has_integers, graph, node, made);
}

static bool reads_weights(const partition_provider *provider)
{
    return program_has_weights(provider) != 0;
}

bool program_offers_sparse(void *fold_ctx, const struct graph *graph, const graph_node *node,
                           const inlay_value_info *made)
{
    const program_env *env = ((const program_folder *)fold_ctx)->env;

    return any_offers(env->providers, env->provider_count, reads_weights, graph, node, made);
}

bool program_offers(const partition_provider *provider, const struct graph *graph, const graph_node *node)
{
    return any_offers(provider, 1, NULL, graph, node, NULL);
}

bool program_only_moves(const inlay_node_info *node)
{
    return strcmp(node->domain.data, "ai.onnx") == 0 &&
           is_among(node->op_type.data,
                    "Slice Transpose Reshape Concat Unsqueeze Squeeze Split Gather Flatten Identity Expand");
}

/* Returns whether the operator's results are exact or rounded once, and thus the same with all providers. */
static bool is_exact(const inlay_node_info *node)
{
    return strcmp(node->domain.data, "ai.onnx") == 0 &&
           is_among(node->op_type.data, "Add Sub Mul Div Neg Abs Max Min Clip Where Trilu Not And Or Xor");
}

/* Selects the provider: the first in the user's order, as in a run. For operators that only move data the result is the
 * same with all providers, so the last and simplest provider is used; others may pack their inputs, which only pays for
 * many runs. in_place: the result should be in an input's memory, which the simplest provider allows most often. */
static const partition_provider *find_offer(const partition_provider *providers, uint32_t count,
                                            const struct graph *graph, const graph_node *node,
                                            const inlay_graph *single, bool in_place, uint64_t *out_cookie)
{
    static const uint8_t candidate = 1;
    const inlay_node_info *info = inlay_graph_node(single, 0);
    const bool backwards = program_only_moves(info) || (in_place && is_exact(info));

    for (uint32_t i = 0; i < count; i++) {
        const partition_provider *provider = &providers[backwards ? count - 1 - i : i];
        struct fold fold = { 0 };
        inlay_assess_sink sink = {
            .struct_size = sizeof sink, .ctx = &fold, .offer = take_offer, .refuse = take_refusal
        };
        if (partition_default_domain(provider) != INLAY_DOMAIN_HOST ||
            (provider->table->flags & INLAY_PROVIDER_ASYNC) != 0 ||
            !partition_knows_types(graph, node, provider->abi_minor))
            continue;
        if (call_assess(provider->table, provider->state, single, &candidate, &sink, NULL) == INLAY_OK &&
            fold.offered) {
            *out_cookie = fold.cookie;
            return provider;
        }
        call_forget(provider->table, provider->state, single);
    }
    return NULL;
}

/* The state of a value for specialize; its elements, if they are known. */
static bool fill_state(const inlay_value_info *info, const void *data, struct arena *arena, inlay_value_state *out)
{
    int64_t *dims = info->rank == INLAY_RANK_UNKNOWN ? NULL : arena_array(arena, (size_t)info->rank + 1, sizeof *dims);

    for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
        dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
    *out = (inlay_value_state){
        .dims = dims, .rank = info->rank, .dtype = info->dtype, .data = data, .data_bytes = info->data_bytes
    };
    return dims != NULL || info->rank == INLAY_RANK_UNKNOWN;
}

/* The arrays of a graph that has one node alone. Values have the indexes of the node's graph. */
typedef struct node_parts {
    inlay_value_state *states; /* [value_count] */
    uint32_t *inputs, *outputs;
    inlay_placement *placements; /* [inputs, then outputs] */
    fold_tensor *in, *out;
    uint32_t input_count, output_count;
} node_parts;

static bool make_parts(const node_run *run, const inlay_graph *single, fold_constants *constants, node_parts *out)
{
    const inlay_node_info *node = inlay_graph_node(single, 0);
    const size_t ins = node->input_count, outs = node->output_count;
    struct arena *arena = run->arena;
    uint32_t at = 0;

    *out = (node_parts){ .states = arena_array(arena, (size_t)single->value_count + 1, sizeof *out->states),
                         .inputs = arena_array(arena, ins + 1, sizeof *out->inputs),
                         .outputs = arena_array(arena, outs + 1, sizeof *out->outputs),
                         .placements = arena_array(arena, ins + outs + 1, sizeof *out->placements),
                         .in = arena_array(arena, ins + 1, sizeof *out->in),
                         .out = arena_array(arena, outs + 1, sizeof *out->out) };
    constants->aligned = arena_array(arena, (size_t)single->value_count + 1, sizeof(void *));
    if (out->states == NULL || out->inputs == NULL || out->outputs == NULL || out->placements == NULL ||
        out->in == NULL || out->out == NULL || constants->aligned == NULL)
        return false;
    for (uint32_t i = 0; i < ins + outs; i++) {
        const uint32_t original = i < ins ? run->node->info.inputs[i] : run->node->info.outputs[i - ins];
        const uint32_t value = i < ins ? node->inputs[i] : node->outputs[i - ins];
        const inlay_value_info *info = value != INLAY_NONE ? inlay_graph_value(single, value) : NULL;
        inlay_value_state *state = &out->states[value != INLAY_NONE ? value : 0];
        const void *data;

        if (info == NULL)
            continue;
        data = info->data != NULL ? align_constant(constants, value, COPY_ALIGN) : NULL;
        if (i < ins && run->values != NULL && info->data == NULL)
            data = graph_constant_may_set_shapes(info) ? run->values[original].data : NULL;
        if (!fill_state(info, data, arena, state))
            return false;
        if (i < ins && (info->data != NULL || (run->values == NULL && original != run->dying)))
            continue;
        out->placements[at++].value = value;
        if (i < ins) {
            data = run->values != NULL ? run->values[original].data : run->graph->values[original].info.data;
            out->in[out->input_count] =
                (fold_tensor){ state->dtype, state->rank, state->dims, (void *)(uintptr_t)data, info->data_bytes };
            out->inputs[out->input_count++] = value;
        } else {
            out->out[out->output_count] =
                (fold_tensor){ .dtype = state->dtype, .rank = state->rank, .dims = state->dims };
            out->outputs[out->output_count++] = value;
        }
    }
    return true;
}

inlay_status program_run_node(const node_run *run, inlay_tensor_view *results, inlay_diag *diag)
{
    static const uint32_t node_zero;
    program_folder *folder = run->folder;
    const program_env *env = folder->env;
    inlay_status status = INLAY_OK;
    inlay_graph single;
    const partition_provider *provider;
    inlay_compiled *compiled = NULL;
    uint64_t cookie = 0;
    fold_constants constants;
    node_parts parts;
    run_compile_hooks hooks = { .ctx = &constants, .align_constant = align_constant };
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = &hooks,
                                      .graph = &single,
                                      .nodes = &node_zero,
                                      .node_count = 1,
                                      .cookies = &cookie,
                                      .offer_count = 1,
                                      .max_threads = run->max_threads };

    if (folder->copied_bytes > MAX_COPIED)
        program_folder_deinit(folder);
    if (single_node_graph(run->graph, run->node, run->values, run->dying, NULL, run->arena, &single) != INLAY_OK)
        return no_memory(diag, "to run node '%s'", run->node->info.name.data);
    provider = find_offer(run->provider != NULL ? run->provider : env->providers,
                          run->provider != NULL ? 1 : env->provider_count, run->graph, run->node, &single,
                          run->dying != INLAY_NONE, &cookie);
    if (provider == NULL)
        return INLAY_UNSUPPORTED;
    constants = (fold_constants){ folder, single.values, NULL, single.value_count, run->arena };
    request.constants = arena_alloc(run->arena, (size_t)single.value_count + 1);
    if (request.constants == NULL || !make_parts(run, &single, &constants, &parts)) {
        status = no_memory(diag, "to run node '%s'", run->node->info.name.data);
        goto done;
    }
    request.inputs = parts.inputs;
    request.input_count = parts.input_count;
    request.outputs = parts.outputs;
    request.output_count = parts.output_count;
    request.placements = parts.placements;
    request.placement_stride = sizeof *request.placements;
    INLAY_TRY(provider->table->compile(provider->state, &request, &compiled, diag));
    status = program_fold_region(&(fold_run){ .provider = provider,
                                              .compiled = compiled,
                                              .values = parts.states,
                                              .value_count = single.value_count,
                                              .inputs = parts.in,
                                              .input_count = parts.input_count,
                                              .outputs = parts.out,
                                              .output_count = parts.output_count,
                                              .max_threads = run->max_threads,
                                              .max_bytes = run->max_bytes,
                                              .cancel = run->cancel,
                                              .owner = run->owner,
                                              .overwrites = run->dying != INLAY_NONE,
                                              .arena = run->arena },
                                 diag);
    for (uint32_t i = 0; status == INLAY_OK && i < parts.output_count; i++)
        results[i] = (inlay_tensor_view){ .data = parts.out[i].data,
                                          .bytes = parts.out[i].bytes,
                                          .dims = parts.out[i].dims,
                                          .rank = parts.out[i].rank,
                                          .dtype = parts.out[i].dtype };
done:
    if (compiled != NULL)
        provider->table->release_compiled(provider->state, compiled);
    call_forget(provider->table, provider->state, &single);
    return status;
}

inlay_status program_fold_node(void *fold_ctx, struct graph *graph, graph_node *node, uint32_t dying,
                               uint64_t max_bytes, inlay_tensor_view *results, struct arena *arena, inlay_diag *diag)
{
    program_folder *folder = fold_ctx;
    const program_env *env = folder->env;

    if (env->memory.room != NULL) {
        const uint64_t room = env->memory.room(env->memory.room_ctx, 0, 0, NULL);

        if (room == 0)
            return INLAY_UNSUPPORTED;
        max_bytes = room < max_bytes ? room : max_bytes;
    }
    return program_run_node(&(node_run){ .folder = folder,
                                         .graph = graph,
                                         .node = node,
                                         .dying = dying,
                                         .max_threads = env->max_threads,
                                         .max_bytes = max_bytes,
                                         .owner = graph->model,
                                         .arena = arena },
                            results, diag);
}
