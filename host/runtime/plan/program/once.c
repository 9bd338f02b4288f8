/* plan/program/once.c - a region run once on host tensors, for folding. */
#include "base/among.h"
#include "base/checked.h"
#include "base/memory.h"
#include "inlay/extensions.h"
#include "plan/program.h"
#include "threads/run.h"
#include <stdlib.h>
#include <string.h>

enum { ONCE_ALIGN = 64, ONCE_MAX_ALIGN = 1 << 21 };

/* A run in progress: what its outputs may still take. */
struct once {
    const once_run *run;
    uint64_t bytes_left;
};

static void *aligned_room(struct arena *a, uint64_t bytes, uint64_t alignment)
{
    char *p = bytes < SIZE_MAX - alignment ? arena_alloc(a, (size_t)(bytes + alignment)) : NULL;

    return p == NULL ? NULL : p + (alignment - (uintptr_t)p % alignment) % alignment;
}

static inlay_status give_output(struct once *o, uint32_t i, uint32_t rank, const int64_t *dims)
{
    const once_run *r = o->run;
    once_tensor *t = &r->outputs[i];
    int64_t count;
    size_t bytes;

    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) || !dtype_bytes(t->dtype, count, &bytes))
        return INLAY_SHAPE_MISMATCH;
    if (bytes > o->bytes_left)
        return INLAY_LIMIT_EXCEEDED;
    o->bytes_left -= bytes;
    t->rank = rank;
    t->bytes = bytes;
    t->dims = arena_copy(r->a, dims, rank * sizeof *dims);
    t->data = r->owner != NULL && bytes >= GRAPH_LARGE_CONSTANT ? graph_blob_alloc(r->owner, bytes)
                                                                : aligned_room(r->a, bytes, ONCE_ALIGN);
    return t->dims == NULL || t->data == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
}

static inlay_status hook_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct once *o = ctx;
    inlay_status status;

    if (output >= o->run->output_count)
        return INLAY_INVALID_ARGUMENT;
    status = give_output(o, output, rank, dims);
    if (status == INLAY_OK)
        *out =
            (inlay_buffer){ .handle = (uintptr_t)o->run->outputs[output].data, .bytes = o->run->outputs[output].bytes };
    return status;
}

static char *hook_string(void *ctx, uint64_t bytes)
{
    struct once *o = ctx;
    return bytes > o->bytes_left ? NULL : arena_alloc(o->run->a, (size_t)bytes);
}

static void fill_arg(inlay_tensor_arg *arg, const once_tensor *t)
{
    arg->buffer = (inlay_buffer){ .handle = (uintptr_t)t->data, .bytes = t->bytes };
    arg->dims = (int64_t *)(uintptr_t)t->dims;
    arg->rank = t->rank;
    arg->dtype = t->dtype;
}

inlay_status program_run_once(const once_run *r, inlay_diag *diag)
{
    static const uint32_t never;
    const inlay_provider *table = r->provider->table;
    struct once o = { r, r->max_bytes };
    const once_tensor *outputs = r->outputs;
    inlay_run run = { .cancel = &never,
                      .max_threads = r->max_threads,
                      .ctx = &o,
                      .output_alloc = hook_output,
                      .string_alloc = hook_string };
    inlay_output_plan *plans = arena_array(r->a, (size_t)r->output_count + 1, sizeof *plans);
    inlay_tensor_arg *args = arena_array(r->a, (size_t)r->input_count + r->output_count + 1, sizeof *args);
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = r->values,
                                         .value_count = r->value_count,
                                         .value_stride = sizeof *r->values,
                                         .max_threads = r->max_threads,
                                         .workspace_alignment = ONCE_ALIGN,
                                         .outputs = plans,
                                         .output_count = r->output_count,
                                         .output_stride = sizeof *plans };
    inlay_exec_args exec = { .struct_size = sizeof exec,
                             .run = &run,
                             .inputs = args,
                             .input_count = r->input_count,
                             .output_count = r->output_count,
                             .arg_stride = sizeof *args,
                             .cancel = &never,
                             .diag = diag };
    inlay_instance *instance = NULL;
    inlay_status status = INLAY_OK;

    if (plans == NULL || args == NULL)
        return no_memory(diag, "to fold a node");
    for (uint32_t i = 0; i < r->output_count; i++)
        plans[i].alias = INLAY_NONE;
    for (uint32_t i = 0; i < r->output_count; i++) {
        int64_t elements;
        bool known = outputs[i].rank <= INLAY_MAX_RANK;
        for (uint32_t d = 0; known && d < outputs[i].rank; d++)
            known = outputs[i].dims[d] >= 0;
        if (known && !dims_count(outputs[i].dims, outputs[i].rank, &elements)) {
            status = INLAY_LIMIT_EXCEEDED;
            goto done;
        }
    }
    INLAY_TRY(table->specialize(r->provider->state, r->compiled, &request, &instance, diag));
    exec.outputs = args + r->input_count;
    for (uint32_t i = 0; i < r->input_count; i++)
        fill_arg(&args[i], &r->inputs[i]);
    for (uint32_t i = 0; i < r->output_count; i++) {
        if (plans[i].kind == INLAY_OUTPUT_KNOWN) {
            INLAY_TRY(give_output(&o, i, outputs[i].rank, outputs[i].dims));
        } else if (plans[i].kind == INLAY_OUTPUT_BOUNDED) {
            status = INLAY_UNSUPPORTED; /* rare enough not to be folded */
            goto done;
        }
        fill_arg(&exec.outputs[i], &outputs[i]);
    }
    if (request.workspace_bytes > 0) {
        uint64_t alignment = request.workspace_alignment > ONCE_ALIGN ? request.workspace_alignment : ONCE_ALIGN;
        void *room = NULL;
        if (request.workspace_bytes <= r->max_bytes + (1u << 20) && alignment <= ONCE_MAX_ALIGN)
            room = aligned_room(r->a, request.workspace_bytes, alignment);
        if (room == NULL) {
            status = INLAY_LIMIT_EXCEEDED;
            goto done;
        }
        exec.workspace = (inlay_buffer){ .handle = (uintptr_t)room, .bytes = request.workspace_bytes };
    }
    status = table->execute(r->provider->state, r->compiled, instance, &exec);
done:
    if (instance != NULL)
        table->release_instance(r->provider->state, r->compiled, instance);
    return status;
}

/* ------------------------------------------------------------------ one node of a graph */

struct fold {
    bool offered;
    uint64_t cookie;
};

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    struct fold *f = ctx;

    if (!f->offered && offer->node_count == 1) {
        f->offered = true;
        f->cookie = offer->cookie;
    }
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx;
    (void)refusal;
    return INLAY_OK;
}

enum { COPY_ALIGN = 64, MOST_ALIGN = 4096, LARGEST_COPY = 1 << 20, MAX_COPIED = 4 << 20 };

typedef struct aligned_copy {
    struct aligned_copy *next;
    const void *of; /* a constant's, which stays where it is as long as the model */
    uint64_t bytes;
    void *data; /* aligned to COPY_ALIGN; owned */
} aligned_copy;

void program_folder_deinit(program_folder *f)
{
    while (f->copies != NULL) {
        aligned_copy *c = f->copies;

        f->copies = c->next;
        free(c->data);
        free(c);
    }
    f->copied_bytes = 0;
}

/* A copy that is kept for the next node; NULL: too large, or no memory. */
static const void *keep_copy(program_folder *f, const inlay_value_info *v)
{
    aligned_copy *c;

    for (c = f->copies; c != NULL; c = c->next)
        if (c->of == v->data && c->bytes == v->data_bytes)
            return c->data;
    if (v->data_bytes > LARGEST_COPY || (c = malloc(sizeof *c)) == NULL)
        return NULL;
    *c = (aligned_copy){ .next = f->copies, .of = v->data, .bytes = v->data_bytes };
    if (posix_memalign(&c->data, COPY_ALIGN, v->data_bytes > 0 ? (size_t)v->data_bytes : 1) != 0) {
        free(c);
        return NULL;
    }
    if (v->data_bytes > 0)
        memcpy(c->data, v->data, (size_t)v->data_bytes);
    f->copies = c;
    f->copied_bytes += c->bytes;
    return c->data;
}

typedef struct fold_constants {
    program_folder *folder;
    const inlay_value_info *values;
    const void **aligned; /* [count] what was shown of them, as long as this node is folded */
    uint32_t count;
    struct arena *a;
} fold_constants;

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    fold_constants *f = ctx;
    const inlay_value_info *v;
    char *copy;

    if (value >= f->count || f->values[value].data == NULL || alignment == 0 || alignment > MOST_ALIGN)
        return NULL;
    v = &f->values[value];
    if ((uintptr_t)v->data % alignment == 0)
        return v->data;
    if (f->aligned[value] != NULL && (uintptr_t)f->aligned[value] % alignment == 0)
        return f->aligned[value];
    if (alignment <= COPY_ALIGN && (f->aligned[value] = keep_copy(f->folder, v)) != NULL)
        return f->aligned[value];
    copy = arena_alloc(f->a, v->data_bytes + alignment);
    if (copy == NULL)
        return NULL;
    copy += (alignment - (uintptr_t)copy % alignment) % alignment;
    memcpy(copy, v->data, v->data_bytes);
    f->aligned[value] = copy;
    return copy;
}

/* The graph of one node: its inputs, then its outputs, renumbered from 0. made: output 0, where it is no value yet. */
static inlay_status single_node_graph(const struct graph *g, const graph_node *n, const inlay_value_info *made,
                                      struct arena *a, inlay_graph *out)
{
    uint32_t ins = n->info.input_count, outs = n->info.output_count;
    inlay_value_info *values = arena_array(a, (size_t)ins + outs + 1, sizeof *values);
    uint32_t *index = arena_array(a, (size_t)ins + outs + 1, sizeof *index);
    inlay_node_info *node = arena_copy(a, &n->info, sizeof n->info);
    uint32_t count = 0;

    if (values == NULL || index == NULL || node == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < ins + outs; i++) {
        uint32_t v = i < ins ? n->info.inputs[i] : n->info.outputs[i - ins];
        index[i] = INLAY_NONE;
        if (v == INLAY_NONE && (made == NULL || i != ins))
            continue;
        index[i] = count;
        values[count] = v == INLAY_NONE ? *made : g->values[v].info;
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
                          .symbols = g->model->symbols,
                          .symbol_count = g->model->symbol_count,
                          .symbol_stride = sizeof *g->model->symbols };
    return INLAY_OK;
}

bool program_has_integers(const part_provider *p)
{
    const inlay_ext_integers *e =
        p->table->extension == NULL ? NULL : p->table->extension(p->state, INLAY_EXT_INTEGERS);

    return e != NULL && INLAY_HAS(e, fast_products) && e->fast_products != 0;
}

uint32_t program_has_weights(const part_provider *p)
{
    const inlay_ext_weights *e = p->table->extension == NULL ? NULL : p->table->extension(p->state, INLAY_EXT_WEIGHTS);

    return e != NULL && INLAY_HAS(e, packed_products) ? e->packed_products : 0;
}

/* Does one of the providers offer to run the node? asked: leaves some of them out; NULL: none. */
static bool any_offers(const part_provider *providers, uint32_t count, bool (*asked)(const part_provider *),
                       const struct graph *g, const graph_node *n, const inlay_value_info *made)
{
    static const uint8_t candidate = 1;
    struct arena a = { 0 };
    inlay_graph single;
    struct fold f = { 0 };
    inlay_assess_sink sink = { .struct_size = sizeof sink, .ctx = &f, .offer = take_offer, .refuse = take_refusal };

    if (single_node_graph(g, n, made, &a, &single) == INLAY_OK)
        for (uint32_t i = 0; !f.offered && i < count; i++)
            if (asked == NULL || asked(&providers[i]))
                (void)providers[i].table->assess(providers[i].state, &single, &candidate, &sink, NULL);
    arena_deinit(&a);
    return f.offered;
}

bool program_offers_integers(void *fold_ctx, const struct graph *g, const graph_node *n, const inlay_value_info *made)
{
    const program_env *env = ((const program_folder *)fold_ctx)->env;

    return any_offers(env->providers, env->provider_count, program_has_integers, g, n, made);
}

static bool reads_weights(const part_provider *p)
{
    return program_has_weights(p) != 0;
}

bool program_offers_sparse(void *fold_ctx, const struct graph *g, const graph_node *n, const inlay_value_info *made)
{
    const program_env *env = ((const program_folder *)fold_ctx)->env;

    return any_offers(env->providers, env->provider_count, reads_weights, g, n, made);
}

bool program_offers(const part_provider *p, const struct graph *g, const graph_node *n)
{
    return any_offers(p, 1, NULL, g, n, NULL);
}

bool program_only_moves(const inlay_node_info *n)
{
    return strcmp(n->domain.data, "ai.onnx") == 0 &&
           is_among(n->op_type.data,
                    "Slice Transpose Reshape Concat Unsqueeze Squeeze Split Gather Flatten Identity Expand");
}

/* The first in the user's order, as in a run; the last, which is the simplest, where that makes no difference: results
 * do not depend on who moves data, and some providers lay out and pack what they read, which is for many runs. */
static const part_provider *find_offer(const program_env *env, const inlay_graph *single, uint64_t *out_cookie)
{
    static const uint8_t candidate = 1;
    bool backwards = program_only_moves(inlay_graph_node(single, 0));

    for (uint32_t i = 0; i < env->provider_count; i++) {
        const part_provider *p = &env->providers[backwards ? env->provider_count - 1 - i : i];
        struct fold f = { 0 };
        inlay_assess_sink sink = { .struct_size = sizeof sink, .ctx = &f, .offer = take_offer, .refuse = take_refusal };
        if (part_default_domain(p) != INLAY_DOMAIN_HOST || (p->table->flags & INLAY_PROVIDER_ASYNC) != 0)
            continue;
        if (p->table->assess(p->state, single, &candidate, &sink, NULL) == INLAY_OK && f.offered) {
            *out_cookie = f.cookie;
            return p;
        }
    }
    return NULL;
}

inlay_status program_fold_node(void *fold_ctx, struct graph *g, graph_node *n, uint64_t max_bytes,
                               inlay_tensor_view *results, struct arena *a, inlay_diag *diag)
{
    static const uint32_t node_zero;
    program_folder *folder = fold_ctx;
    const program_env *env = folder->env;
    inlay_status status = INLAY_OK;
    inlay_graph single;
    const part_provider *provider;
    inlay_compiled *compiled = NULL;
    inlay_value_state *states;
    once_tensor *made;
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
    if (single_node_graph(g, n, NULL, a, &single) != INLAY_OK)
        return no_memory(diag, "to fold node '%s'", n->info.name.data);
    provider = find_offer(env, &single, &cookie);
    if (provider == NULL)
        return INLAY_UNSUPPORTED;
    constants = (fold_constants){ folder, single.values, arena_array(a, (size_t)single.value_count + 1, sizeof(void *)),
                                  single.value_count, a };
    states = arena_array(a, (size_t)single.value_count + 1, sizeof *states);
    outputs = arena_array(a, (size_t)n->info.output_count + 1, sizeof *outputs);
    made = arena_array(a, (size_t)n->info.output_count + 1, sizeof *made);
    fates = arena_alloc(a, (size_t)single.value_count + 1);
    request.placements = arena_array(a, (size_t)n->info.output_count + 1, sizeof *request.placements);
    if (states == NULL || outputs == NULL || made == NULL || fates == NULL || request.placements == NULL ||
        constants.aligned == NULL)
        return no_memory(diag, "to fold node '%s'", n->info.name.data);
    for (uint32_t v = 0; v < single.value_count; v++) {
        const inlay_value_info *info = &single.values[v];
        int64_t *dims = info->rank == INLAY_RANK_UNKNOWN ? NULL : arena_array(a, info->rank, sizeof *dims);
        for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
            dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
        states[v] = (inlay_value_state){
            .dims = dims, .rank = info->rank, .dtype = info->dtype, .data_bytes = info->data_bytes
        };
        states[v].data = info->data == NULL ? NULL : align_constant(&constants, v, COPY_ALIGN);
    }
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        uint32_t v = ((const inlay_node_info *)single.nodes)->outputs[i];
        if (v == INLAY_NONE)
            continue;
        ((inlay_placement *)(uintptr_t)request.placements)[count].value = v;
        made[count] = (once_tensor){ .dtype = states[v].dtype, .rank = states[v].rank, .dims = states[v].dims };
        outputs[count++] = v;
    }
    request.outputs = outputs;
    request.output_count = count;
    request.placement_stride = sizeof *request.placements;
    request.constants = fates;
    INLAY_TRY(provider->table->compile(provider->state, &request, &compiled, diag));
    status = program_run_once(&(once_run){ .provider = provider,
                                           .compiled = compiled,
                                           .values = states,
                                           .value_count = single.value_count,
                                           .outputs = made,
                                           .output_count = count,
                                           .max_threads = env->max_threads,
                                           .max_bytes = max_bytes,
                                           .owner = g->model,
                                           .a = a },
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
