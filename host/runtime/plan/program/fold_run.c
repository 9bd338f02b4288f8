/* plan/program/fold_run.c - runs a region once on host tensors, for constant folding. */
#include "base/among.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "plan/program/compile.h"
#include "threads/run.h"
#include <stdlib.h>
#include <string.h>

enum { FOLD_ALIGN = 64 };

/* A run in progress, with the bytes that outputs may still use. */
typedef struct fold_state {
    const fold_run *run;
    uint64_t bytes_left;
} fold_state;

static void *aligned_alloc_from(struct arena *arena, uint64_t bytes, uint64_t alignment)
{
    char *memory = bytes < SIZE_MAX - alignment ? arena_alloc(arena, (size_t)(bytes + alignment)) : NULL;

    return memory == NULL ? NULL : memory + (alignment - (uintptr_t)memory % alignment) % alignment;
}

static inlay_status allocate_tensor(fold_state *state, uint32_t i, uint32_t rank, const int64_t *dims)
{
    const fold_run *run = state->run;
    fold_tensor *tensor = &run->outputs[i];
    int64_t count;
    size_t bytes;

    INLAY_CHECK(i < run->output_count);
    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) || !dtype_bytes(tensor->dtype, count, &bytes))
        return INLAY_SHAPE_MISMATCH;
    if (bytes > state->bytes_left)
        return INLAY_LIMIT_EXCEEDED;
    state->bytes_left -= bytes;
    tensor->rank = rank;
    tensor->bytes = bytes;
    tensor->dims = arena_copy(run->arena, dims, rank * sizeof *dims);
    tensor->data = run->owner != NULL && bytes >= GRAPH_LARGE_CONSTANT
                       ? graph_blob_alloc(run->owner, bytes)
                       : aligned_alloc_from(run->arena, bytes, FOLD_ALIGN);
    return tensor->dims == NULL || tensor->data == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
}

static inlay_status allocate_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    fold_state *state = ctx;
    inlay_status status;

    if (output >= state->run->output_count)
        return INLAY_INVALID_ARGUMENT;
    status = allocate_tensor(state, output, rank, dims);
    if (status == INLAY_OK)
        *out = (inlay_buffer){ .handle = (uintptr_t)state->run->outputs[output].data,
                               .bytes = state->run->outputs[output].bytes };
    return status;
}

static char *allocate_string(void *ctx, uint64_t bytes)
{
    fold_state *state = ctx;

    if (bytes > state->bytes_left)
        return NULL;
    state->bytes_left -= bytes;
    return arena_alloc(state->run->arena, (size_t)bytes);
}

static void fill_arg(inlay_tensor_arg *arg, const fold_tensor *tensor)
{
    arg->buffer = (inlay_buffer){ .handle = (uintptr_t)tensor->data, .bytes = tensor->bytes };
    arg->dims = (int64_t *)(uintptr_t)tensor->dims;
    arg->rank = tensor->rank;
    arg->dtype = tensor->dtype;
}

inlay_status program_fold_region(const fold_run *fold, inlay_diag *diag)
{
    static const uint32_t never;
    const inlay_provider *table = fold->provider->table;
    fold_state state = { fold, fold->max_bytes };
    const fold_tensor *outputs = fold->outputs;
    inlay_run run = { .cancel = &never,
                      .max_threads = fold->max_threads,
                      .ctx = &state,
                      .output_alloc = allocate_output,
                      .string_alloc = allocate_string };
    inlay_output_plan *plans = arena_array(fold->arena, (size_t)fold->output_count + 1, sizeof *plans);
    inlay_tensor_arg *args = arena_array(fold->arena, (size_t)fold->input_count + fold->output_count + 1, sizeof *args);
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = fold->values,
                                         .value_count = fold->value_count,
                                         .value_stride = sizeof *fold->values,
                                         .max_threads = fold->max_threads,
                                         .workspace_alignment = FOLD_ALIGN,
                                         .outputs = plans,
                                         .output_count = fold->output_count,
                                         .output_stride = sizeof *plans };
    inlay_exec_args exec = { .struct_size = sizeof exec,
                             .run = &run,
                             .inputs = args,
                             .input_count = fold->input_count,
                             .output_count = fold->output_count,
                             .arg_stride = sizeof *args,
                             .cancel = &never,
                             .diag = diag };
    inlay_instance *instance = NULL;
    inlay_status status = INLAY_OK;

    if (plans == NULL || args == NULL)
        return no_memory(diag, "to fold a node");
    for (uint32_t i = 0; i < fold->output_count; i++)
        plans[i].alias = INLAY_NONE;
    for (uint32_t i = 0; i < fold->output_count; i++) {
        int64_t elements;
        bool known = outputs[i].rank <= INLAY_MAX_RANK;
        for (uint32_t d = 0; known && d < outputs[i].rank; d++)
            known = outputs[i].dims[d] >= 0;
        if (known && !dims_count(outputs[i].dims, outputs[i].rank, &elements)) {
            status = INLAY_LIMIT_EXCEEDED;
            goto done;
        }
    }
    INLAY_TRY(table->specialize(fold->provider->state, fold->compiled, &request, &instance, diag));
    exec.outputs = args + fold->input_count;
    for (uint32_t i = 0; i < fold->input_count; i++)
        fill_arg(&args[i], &fold->inputs[i]);
    for (uint32_t i = 0; i < fold->output_count; i++) {
        if (plans[i].kind == INLAY_OUTPUT_KNOWN) {
            INLAY_TRY(allocate_tensor(&state, i, outputs[i].rank, outputs[i].dims));
        } else if (plans[i].kind == INLAY_OUTPUT_BOUNDED) {
            status = INLAY_UNSUPPORTED; /* too rare to support */
            goto done;
        }
        fill_arg(&exec.outputs[i], &outputs[i]);
    }
    if (request.workspace_bytes > 0) {
        uint64_t alignment = request.workspace_alignment > FOLD_ALIGN ? request.workspace_alignment : FOLD_ALIGN;
        void *room = NULL;
        if (request.workspace_bytes <= fold->max_bytes + (1u << 20) && program_workspace_status(&request) == INLAY_OK)
            room = aligned_alloc_from(fold->arena, request.workspace_bytes, alignment);
        if (room == NULL) {
            status = INLAY_LIMIT_EXCEEDED;
            goto done;
        }
        exec.workspace = (inlay_buffer){ .handle = (uintptr_t)room, .bytes = request.workspace_bytes };
    }
    status = table->execute(fold->provider->state, fold->compiled, instance, &exec);
done:
    if (instance != NULL)
        table->release_instance(fold->provider->state, fold->compiled, instance);
    return status;
}

/* ------------------------------------------------------------------ one node of a graph */

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
 * a value yet. */
static inlay_status single_node_graph(const struct graph *graph, const graph_node *original,
                                      const inlay_value_info *made, struct arena *arena, inlay_graph *out)
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
        values[count] = value == INLAY_NONE ? *made : graph->values[value].info;
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

    if (single_node_graph(graph, node, made, &arena, &single) == INLAY_OK)
        for (uint32_t i = 0; !fold.offered && i < count; i++)
            if ((accepts == NULL || accepts(&providers[i])) &&
                partition_knows_types(graph, node, providers[i].abi_minor))
                (void)call_assess(providers[i].table, providers[i].state, &single, &candidate, &sink, NULL);
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

/* Selects the provider: the first in the user's order, as in a run. For operators that only move data the result is the
 * same with all providers, so the last and simplest one is used; others may pack their inputs, which only pays for many
 * runs. */
static const partition_provider *find_offer(const program_env *env, const struct graph *graph, const graph_node *node,
                                            const inlay_graph *single, uint64_t *out_cookie)
{
    static const uint8_t candidate = 1;
    bool backwards = program_only_moves(inlay_graph_node(single, 0));

    for (uint32_t i = 0; i < env->provider_count; i++) {
        const partition_provider *provider = &env->providers[backwards ? env->provider_count - 1 - i : i];
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
    }
    return NULL;
}

inlay_status program_fold_node(void *fold_ctx, struct graph *graph, graph_node *node, uint64_t max_bytes,
                               inlay_tensor_view *results, struct arena *arena, inlay_diag *diag)
{
    static const uint32_t node_zero;
    program_folder *folder = fold_ctx;
    const program_env *env = folder->env;
    inlay_status status = INLAY_OK;
    inlay_graph single;
    const partition_provider *provider;
    inlay_compiled *compiled = NULL;
    inlay_value_state *states;
    fold_tensor *made;
    uint32_t *outputs, count = 0;
    uint64_t cookie = 0;
    uint8_t *fates;
    fold_constants constants;
    run_compile_hooks hooks = { .ctx = &constants, .align_constant = align_constant };
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = &hooks,
                                      .graph = &single,
                                      .nodes = &node_zero,
                                      .node_count = 1,
                                      .cookies = &cookie,
                                      .offer_count = 1,
                                      .max_threads = env->max_threads };

    if (folder->copied_bytes > MAX_COPIED)
        program_folder_deinit(folder);
    if (env->room != NULL) {
        const uint64_t room = env->room(env->room_ctx, 0, 0, NULL);

        if (room == 0)
            return INLAY_UNSUPPORTED;
        max_bytes = room < max_bytes ? room : max_bytes;
    }
    if (single_node_graph(graph, node, NULL, arena, &single) != INLAY_OK)
        return no_memory(diag, "to fold node '%s'", node->info.name.data);
    provider = find_offer(env, graph, node, &single, &cookie);
    if (provider == NULL)
        return INLAY_UNSUPPORTED;
    constants =
        (fold_constants){ folder, single.values, arena_array(arena, (size_t)single.value_count + 1, sizeof(void *)),
                          single.value_count, arena };
    states = arena_array(arena, (size_t)single.value_count + 1, sizeof *states);
    outputs = arena_array(arena, (size_t)node->info.output_count + 1, sizeof *outputs);
    made = arena_array(arena, (size_t)node->info.output_count + 1, sizeof *made);
    fates = arena_alloc(arena, (size_t)single.value_count + 1);
    request.placements = arena_array(arena, (size_t)node->info.output_count + 1, sizeof *request.placements);
    if (states == NULL || outputs == NULL || made == NULL || fates == NULL || request.placements == NULL ||
        constants.aligned == NULL)
        return no_memory(diag, "to fold node '%s'", node->info.name.data);
    for (uint32_t value = 0; value < single.value_count; value++) {
        const inlay_value_info *info = &single.values[value];
        int64_t *dims = info->rank == INLAY_RANK_UNKNOWN ? NULL : arena_array(arena, info->rank, sizeof *dims);
        for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
            dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
        states[value] = (inlay_value_state){
            .dims = dims, .rank = info->rank, .dtype = info->dtype, .data_bytes = info->data_bytes
        };
        states[value].data = info->data == NULL ? NULL : align_constant(&constants, value, COPY_ALIGN);
    }
    for (uint32_t i = 0; i < node->info.output_count; i++) {
        uint32_t value = ((const inlay_node_info *)single.nodes)->outputs[i];
        if (value == INLAY_NONE)
            continue;
        ((inlay_placement *)(uintptr_t)request.placements)[count].value = value;
        made[count] =
            (fold_tensor){ .dtype = states[value].dtype, .rank = states[value].rank, .dims = states[value].dims };
        outputs[count++] = value;
    }
    request.outputs = outputs;
    request.output_count = count;
    request.placement_stride = sizeof *request.placements;
    request.constants = fates;
    INLAY_TRY(provider->table->compile(provider->state, &request, &compiled, diag));
    status = program_fold_region(&(fold_run){ .provider = provider,
                                              .compiled = compiled,
                                              .values = states,
                                              .value_count = single.value_count,
                                              .outputs = made,
                                              .output_count = count,
                                              .max_threads = env->max_threads,
                                              .max_bytes = max_bytes,
                                              .owner = graph->model,
                                              .arena = arena },
                                 diag);
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
        results[i] = (inlay_tensor_view){ .data = made[i].data,
                                          .bytes = made[i].bytes,
                                          .dims = made[i].dims,
                                          .rank = made[i].rank,
                                          .dtype = made[i].dtype };
done:
    if (compiled != NULL)
        provider->table->release_compiled(provider->state, compiled);
    return status;
}
