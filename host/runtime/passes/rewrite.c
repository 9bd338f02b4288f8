#include "passes/rewrite.h"
#include "inlay/check.h"
#include "base/element.h"
#include "graph/history.h"
#include "passes/type_guard.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

inlay_status rewrite_no_memory(const struct rewrite *rewrite)
{
    return no_memory(rewrite->ctx->diag, "to optimise graph '%s' (pass %s)", rewrite->graph->name,
                     rewrite->ctx->run.pass);
}

/* Grows the arrays to hold all values of the graph. On failure they stay unchanged. */
static bool reserve_values(struct rewrite *rewrite)
{
    uint32_t had = rewrite->capacity, capacity = had, *uses, *producer, *forward;
    bool *is_output;

    if (rewrite->graph->value_count <= had && had > 0)
        return true;
    while (capacity < rewrite->graph->value_count + 1)
        capacity = capacity < 64 ? rewrite->graph->value_count + 64 : capacity * 2;
    uses = arena_grown(&rewrite->arena, rewrite->uses, had, capacity, sizeof *uses);
    producer = arena_grown(&rewrite->arena, rewrite->producer, had, capacity, sizeof *producer);
    forward = arena_grown(&rewrite->arena, rewrite->forward, had, capacity, sizeof *forward);
    is_output = arena_grown(&rewrite->arena, rewrite->is_output, had, capacity, sizeof *is_output);
    if (uses == NULL || producer == NULL || forward == NULL || is_output == NULL)
        return false;
    memset(producer + had, 0xff, (capacity - had) * sizeof *producer);
    memset(forward + had, 0xff, (capacity - had) * sizeof *forward);
    rewrite->uses = uses;
    rewrite->producer = producer;
    rewrite->forward = forward;
    rewrite->is_output = is_output;
    rewrite->capacity = capacity;
    return true;
}

static bool count_uses(struct rewrite *rewrite)
{
    const struct graph *graph = rewrite->graph;

    if (!reserve_values(rewrite))
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                rewrite->uses[node->info.inputs[k]]++;
        for (uint32_t k = 0; k < node->capture_count; k++)
            rewrite->uses[node->captures[k]]++;
        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                rewrite->producer[node->info.outputs[k]] = i;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i] == INLAY_NONE)
            continue;
        rewrite->uses[graph->outputs[i]]++;
        rewrite->is_output[graph->outputs[i]] = true;
    }
    return true;
}

uint32_t rewrite_resolve(const struct rewrite *rewrite, uint32_t value)
{
    INLAY_CHECK(value == INLAY_NONE || value < rewrite->capacity);
    while (value != INLAY_NONE && rewrite->forward[value] != INLAY_NONE)
        value = rewrite->forward[value];
    return value;
}

/* Index of the node in graph->nodes; INLAY_NONE: the node is not in the graph (any more). */
static uint32_t node_index(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && rewrite->producer[node->info.outputs[i]] != INLAY_NONE &&
            rewrite->graph->nodes[rewrite->producer[node->info.outputs[i]]] == node)
            return rewrite->producer[node->info.outputs[i]];
    return INLAY_NONE;
}

static bool all_unused(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (!rewrite_is_unused(rewrite, node, i))
            return false;
    return true;
}

INLAY_PRINTF(3, 4)
static void note(const struct rewrite *rewrite, const graph_node *node, const char *format, ...)
{
    char text[256];
    va_list args;

    if (rewrite->ctx->report.note == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rewrite->ctx->report.note(rewrite->ctx->report.ctx, rewrite->ctx->run.pass, rewrite->ctx->run.rewrites + 1,
                              rewrite->graph, node, text);
}

void rewrite_near_miss(const struct rewrite *rewrite, const graph_node *node, const char *why, ...)
{
    char text[256];
    va_list args;

    if (!rewrite->ctx->run.at_end || rewrite->ctx->report.note == NULL)
        return;
    va_start(args, why);
    (void)vsnprintf(text, sizeof text, why, args);
    va_end(args);
    rewrite->ctx->report.note(rewrite->ctx->report.ctx, rewrite->ctx->run.pass, 0, rewrite->graph, node, text);
}

/* Removes one reader of value. A producer without readers left is removed, then the producers of its inputs, and so on.
 * The chain can be as long as the model, so an explicit stack replaces recursion. */
static void release_use(struct rewrite *rewrite, uint32_t value)
{
    uint32_t at, *stack = NULL, depth = 0, room = 0;

    for (;;) {
        graph_node *node;

        value = rewrite_resolve(rewrite, value);
        if (value != INLAY_NONE && rewrite->uses[value] > 0 && --rewrite->uses[value] == 0 &&
            (at = rewrite->producer[value]) != INLAY_NONE && (node = rewrite->graph->nodes[at]) != NULL &&
            all_unused(rewrite, node)) {
            uint32_t reads = graph_read_count(node);

            note(rewrite, node, "%s is no longer needed", node->info.op_type.data);
            history_removed(rewrite->graph, node);
            rewrite->graph->nodes[at] = NULL;
            if (depth + reads > room) {
                room = (depth + reads) * 2 + 16;
                stack = arena_grown(&rewrite->arena, stack, depth, room, sizeof *stack);
                if (stack == NULL)
                    return; /* the remaining dead nodes are left to pass_dead_code */
            }
            for (uint32_t i = 0; i < reads; i++)
                stack[depth++] = graph_read_at(node, i);
        }
        if (depth == 0)
            return;
        value = stack[--depth];
    }
}

static void add_use(struct rewrite *rewrite, uint32_t value)
{
    value = rewrite_resolve(rewrite, value);
    if (value != INLAY_NONE)
        rewrite->uses[value]++;
}

static void remove_use(struct rewrite *rewrite, uint32_t value)
{
    value = rewrite_resolve(rewrite, value);
    if (value != INLAY_NONE && rewrite->uses[value] > 0)
        rewrite->uses[value]--;
}

static void apply_forwards(struct rewrite *rewrite)
{
    struct graph *graph = rewrite->graph;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i] != NULL)
            graph->nodes[kept++] = graph->nodes[i];
    graph->node_count = kept;
    /* Values beyond capacity have no readers: the allocation failed, and the model will be discarded. */
    if ((rewrite->changed || rewrite->changed_constants) && graph->value_count <= rewrite->capacity)
        pass_replace_uses(graph, rewrite->forward);
}

/* Removes nodes that were inserted during this visit and have no readers. */
static void drop_inserted(struct rewrite *rewrite)
{
    bool dropped = true;

    while (dropped) {
        dropped = false;
        for (uint32_t i = rewrite->first_inserted; i < rewrite->graph->node_count; i++) {
            graph_node *node = rewrite->graph->nodes[i];

            if (node == NULL || !all_unused(rewrite, node))
                continue;
            for (uint32_t k = 0; k < node->info.input_count; k++)
                remove_use(rewrite, node->info.inputs[k]);
            for (uint32_t k = 0; k < node->capture_count; k++)
                remove_use(rewrite, node->captures[k]);
            rewrite->graph->nodes[i] = NULL;
            dropped = true;
        }
    }
}

static inlay_status rewrite_graph(pass_ctx *ctx, struct graph *graph, rewrite_fn fn, bool *out_changed)
{
    struct rewrite rewrite = { .ctx = ctx, .graph = graph };
    uint32_t nodes = graph->node_count;
    inlay_status status = INLAY_OK;
    bool any = false;

    if (!count_uses(&rewrite)) {
        status = rewrite_no_memory(&rewrite);
        goto done;
    }
    for (uint32_t i = 0; status == INLAY_OK && i < nodes && pass_may(ctx); i++) {
        if (graph->nodes[i] == NULL)
            continue;
        rewrite.changed = rewrite.inserted = rewrite.fails = false;
        rewrite.first_inserted = graph->node_count;
        status = fn(&rewrite, graph->nodes[i]);
        if (rewrite.inserted && (!rewrite.changed || rewrite.fails))
            drop_inserted(&rewrite);
        if (rewrite.changed)
            pass_count(ctx, graph, NULL, NULL);
        any |= rewrite.changed;
        arena_reset(&rewrite.scratch);
    }
    rewrite.changed = any;
    apply_forwards(&rewrite);
    *out_changed |= any;
done:
    arena_deinit(&rewrite.scratch);
    arena_deinit(&rewrite.arena);
    for (uint32_t i = 0; status == INLAY_OK && i < graph->node_count; i++)
        for (uint32_t b = 0; status == INLAY_OK && b < graph->nodes[i]->body_count; b++)
            status = rewrite_graph(ctx, graph->nodes[i]->bodies[b].graph, fn, out_changed);
    return status;
}

inlay_status rewrite_each_graph(pass_ctx *ctx, rewrite_fn fn, bool *out_changed)
{
    return rewrite_graph(ctx, ctx->model->main, fn, out_changed);
}

uint32_t rewrite_input(const struct rewrite *rewrite, const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? rewrite_resolve(rewrite, node->info.inputs[i]) : INLAY_NONE;
}

graph_node *rewrite_producer(const struct rewrite *rewrite, uint32_t value)
{
    value = rewrite_resolve(rewrite, value);
    return value == INLAY_NONE || rewrite->producer[value] == INLAY_NONE
               ? NULL
               : rewrite->graph->nodes[rewrite->producer[value]];
}

graph_node *rewrite_producer_op(const struct rewrite *rewrite, uint32_t value, const char *op_type)
{
    graph_node *node = rewrite_producer(rewrite, value);

    return node != NULL && pass_is_op(node, op_type) && node->info.outputs[0] == rewrite_resolve(rewrite, value) ? node
                                                                                                                 : NULL;
}

/* Marks the values that reach a DynamicQuantizeLinear. Outputs of a body may be quantized outside of it, and inputs of
 * a node with bodies inside. */
static bool find_quantized(struct rewrite *rewrite)
{
    const struct graph *graph = rewrite->graph;
    bool *marks = arena_array(&rewrite->arena, (size_t)graph->value_count + 1, sizeof *marks);

    if (marks == NULL)
        return false;
    rewrite->quantized = marks;
    rewrite->quantized_count = graph->value_count;
    for (uint32_t i = 0; graph->parent != NULL && i < graph->output_count; i++)
        if (graph->outputs[i] != INLAY_NONE)
            marks[graph->outputs[i]] = true;
    for (uint32_t i = graph->node_count; i-- > 0;) {
        const graph_node *node = graph->nodes[i];
        bool later = node != NULL && (node->body_count > 0 || pass_is_op(node, "DynamicQuantizeLinear"));

        for (uint32_t k = 0; node != NULL && !later && k < node->info.output_count; k++)
            later = node->info.outputs[k] != INLAY_NONE && marks[node->info.outputs[k]];
        if (!later || pass_is_op(node, "Shape") || pass_is_op(node, "Size"))
            continue;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (rewrite_input(rewrite, node, k) != INLAY_NONE)
                marks[rewrite_input(rewrite, node, k)] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            marks[rewrite_resolve(rewrite, node->captures[k])] = true;
    }
    return true;
}

bool rewrite_is_quantized_later(struct rewrite *rewrite, uint32_t value)
{
    if (!rewrite->ctx->run.quantizes || (rewrite->quantized == NULL && !find_quantized(rewrite)))
        return false;
    return value >= rewrite->quantized_count || rewrite->quantized[value];
}

bool rewrite_has_one_use(const struct rewrite *rewrite, uint32_t value)
{
    value = rewrite_resolve(rewrite, value);
    return value != INLAY_NONE && rewrite->uses[value] == 1 && !rewrite->is_output[value];
}

bool rewrite_is_unused(const struct rewrite *rewrite, const graph_node *node, uint32_t i)
{
    uint32_t value = i < node->info.output_count ? node->info.outputs[i] : INLAY_NONE;

    INLAY_CHECK(value == INLAY_NONE || value < rewrite->capacity);
    return value == INLAY_NONE || rewrite->uses[value] == 0;
}

bool rewrite_same_dim(const inlay_dim *a, const inlay_dim *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == INLAY_DIM_FIXED ? a->value == b->value : a->kind == INLAY_DIM_SYMBOLIC && a->symbol == b->symbol;
}

bool rewrite_same_type(const struct rewrite *rewrite, uint32_t a, uint32_t b)
{
    const inlay_value_info *first = rewrite_value_info(rewrite, a), *second = rewrite_value_info(rewrite, b);

    if (first == NULL || second == NULL || first->kind != second->kind || first->dtype != second->dtype ||
        first->dtype == INLAY_UNDEFINED || first->rank != second->rank || first->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < first->rank; d++)
        if (!rewrite_same_dim(&first->dims[d], &second->dims[d]))
            return false;
    return true;
}

/* Returns true if value is computed only from input and constants of rank 0. Gives up (false) after *visits nodes. */
static bool made_of_scalars(const struct rewrite *rewrite, uint32_t value, uint32_t input, uint32_t *visits)
{
    const graph_node *node = rewrite_producer(rewrite, value);

    if (value == input || value == INLAY_NONE)
        return true;
    if (rewrite_is_constant(rewrite, value))
        return rewrite_value_info(rewrite, value)->rank == 0;
    if (node == NULL || *visits == 0)
        return false;
    --*visits;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (!made_of_scalars(rewrite, rewrite_input(rewrite, node, i), input, visits))
            return false;
    return true;
}

bool rewrite_keeps_rank(const struct rewrite *rewrite, uint32_t output, uint32_t input)
{
    const uint32_t rank = rewrite_value_info(rewrite, input)->rank;
    uint32_t visits = 64;

    if (rank != INLAY_RANK_UNKNOWN && rewrite_value_info(rewrite, output)->rank != INLAY_RANK_UNKNOWN)
        return rank == rewrite_value_info(rewrite, output)->rank;
    return made_of_scalars(rewrite, output, input, &visits);
}

int64_t rewrite_dim(const inlay_value_info *value, int64_t d)
{
    if (value == NULL || value->rank == INLAY_RANK_UNKNOWN)
        return -1;
    d = d < 0 ? d + (int64_t)value->rank : d;
    return d < 0 || d >= (int64_t)value->rank || value->dims[d].kind != INLAY_DIM_FIXED ? -1 : value->dims[d].value;
}

bool rewrite_is_constant(const struct rewrite *rewrite, uint32_t value)
{
    INLAY_CHECK(value == INLAY_NONE || value < rewrite->graph->value_count);
    return value != INLAY_NONE && (rewrite->graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

bool rewrite_scalar(const struct rewrite *rewrite, uint32_t value, double *out)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);

    return rewrite_is_constant(rewrite, value) && element_is_float(info->dtype) && graph_constant_count(info) == 1 &&
           element_number(info->dtype, info->data, 0, out, NULL);
}

bool rewrite_is_near(const struct rewrite *rewrite, uint32_t value, double is, double expected)
{
    /* the widest relative spacing of the type's numbers */
    const inlay_dtype dtype = rewrite_value_info(rewrite, value)->dtype;
    const double spacing = dtype == INLAY_BFLOAT16  ? 0x1p-7
                           : dtype == INLAY_FLOAT16 ? 0x1p-10
                           : dtype == INLAY_FLOAT   ? 0x1p-23
                                                    : 0x1p-52;

    return fabs(is - expected) <= 2 * spacing * fabs(expected);
}

bool rewrite_is_scalar(const struct rewrite *rewrite, uint32_t value, double expected)
{
    double is;

    if (!rewrite_scalar(rewrite, value, &is))
        return false;
    return expected == floor(expected) || is == expected ? is == expected
                                                         : rewrite_is_near(rewrite, value, is, expected);
}

bool rewrite_integers(struct rewrite *rewrite, uint32_t value, const int64_t **out, uint32_t *out_count)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    int64_t count, *list;

    *out = NULL;
    *out_count = 0;
    if (!rewrite_is_constant(rewrite, value) || info->rank > 1 ||
        (info->dtype != INLAY_INT64 && info->dtype != INLAY_INT32))
        return false;
    count = graph_constant_count(info);
    list = count > (1 << 20) ? NULL : arena_array(&rewrite->scratch, (size_t)count + 1, sizeof *list);
    for (int64_t i = 0; list != NULL && i < count; i++)
        if (!element_integer(info->dtype, info->data, i, &list[i]))
            list = NULL;
    if (list == NULL)
        return false;
    *out = list;
    *out_count = (uint32_t)count;
    return true;
}

const float *rewrite_floats(struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    float *copy;

    if (!rewrite_is_constant(rewrite, value) || info->dtype != INLAY_FLOAT)
        return NULL;
    if ((uintptr_t)info->data % _Alignof(float) == 0)
        return info->data;
    copy = arena_alloc(&rewrite->scratch, (size_t)info->data_bytes + 1);
    if (copy != NULL)
        memcpy(copy, info->data, (size_t)info->data_bytes);
    return copy;
}

graph_node *rewrite_copy_attrs(struct rewrite *rewrite, const graph_node *from, graph_node *new_node)
{
    for (uint32_t i = 0; new_node != NULL && i < from->own_attr_count; i++)
        if (graph_set_attr(rewrite->graph, new_node,
                           INLAY_AT(inlay_attr_info, from->info.attrs, from->info.attr_stride, i)) != INLAY_OK)
            return NULL;
    return new_node;
}

bool rewrite_attr_is(const graph_node *node, const char *name, const char *text)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return strcmp(attribute != NULL && attribute->kind == INLAY_ATTR_STRING ? attribute->s.data : "", text) == 0;
}

const int64_t *rewrite_attr_ints(const graph_node *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *attribute = graph_attr(node, name);
    bool has = attribute != NULL && attribute->kind == INLAY_ATTR_INTS;

    *out_count = has ? attribute->count : 0;
    return has ? attribute->ints : NULL;
}

graph_node *rewrite_make_node(struct rewrite *rewrite, const char *op_type, int64_t opset, const graph_node *like,
                              const uint32_t *inputs, uint32_t input_count, uint32_t output_count)
{
    graph_node *node = graph_add_node(rewrite->graph, op_type, NULL, like != NULL ? like->info.name.data : NULL,
                                      input_count, output_count);

    if (node == NULL)
        return NULL;
    rewrite->graph->nodes[rewrite->graph->node_count - 1] = NULL; /* reserves a slot; rewrite_insert_node fills it */
    if (opset != 0)
        node->opset = opset;
    if (like != NULL)
        node->source = like->source;
    for (uint32_t i = 0; i < input_count; i++)
        ((uint32_t *)(uintptr_t)node->info.inputs)[i] = rewrite_resolve(rewrite, inputs[i]);
    return node;
}

graph_node *rewrite_copy_node(struct rewrite *rewrite, const graph_node *node)
{
    graph_node *copy = rewrite_make_node(rewrite, node->info.op_type.data, node->opset, node, node->info.inputs,
                                         node->info.input_count, node->info.output_count);

    if (copy == NULL)
        return NULL;
    copy->info.domain = node->info.domain;
    copy->info.attrs = node->info.attrs; /* binding adds the defaults again */
    copy->info.attr_stride = node->info.attr_stride;
    copy->info.attr_count = copy->own_attr_count = node->own_attr_count;
    copy->doc = node->doc;
    copy->extra = node->extra;
    copy->place = node->place;
    return copy;
}

void rewrite_set_input(const struct rewrite *rewrite, graph_node *new_node, uint32_t i, uint32_t value)
{
    const bool is_in_graph = node_index(rewrite, new_node) != INLAY_NONE;

    INLAY_CHECK(!is_in_graph || rewrite->graph->model->trusts_file);
    if (!is_in_graph) {
        INLAY_CHECK(i < new_node->info.input_count);
        ((uint32_t *)(uintptr_t)new_node->info.inputs)[i] = rewrite_resolve(rewrite, value);
    }
}

/* Infers the nodes inserted during this visit. Nodes with bodies, and nodes whose inference fails, get unknown
 * outputs. */
static bool infer_inserted(struct rewrite *rewrite)
{
    for (uint32_t i = rewrite->first_inserted; i < rewrite->graph->node_count; i++) {
        graph_node *node = rewrite->graph->nodes[i];
        graph_value **out;
        inlay_dtype dtype;
        inlay_status status;

        if (node == NULL || node->schema != NULL || node->body_count > 0)
            continue;
        out = arena_array(&rewrite->scratch, (size_t)node->info.output_count + 1, sizeof(graph_value *));
        if (out == NULL)
            return false;
        for (uint32_t output = 0; output < node->info.output_count; output++)
            out[output] =
                node->info.outputs[output] == INLAY_NONE ? NULL : &rewrite->graph->values[node->info.outputs[output]];
        dtype = out[0] == NULL ? INLAY_UNDEFINED : out[0]->info.dtype;
        status = graph_bind_node(rewrite->graph, node, NULL);
        if (status == INLAY_OK)
            status = graph_infer_detached_node(rewrite->graph, node, out, &rewrite->graph->model->arena, NULL);
        if (status == INLAY_OUT_OF_MEMORY)
            return false;
        rewrite->fails |= status != INLAY_OK;
        for (uint32_t o = 0; o < node->info.output_count; o++) {
            if (out[o] == NULL)
                continue;
            if (status != INLAY_OK)
                out[o]->info.rank = INLAY_RANK_UNKNOWN;
            if (out[o]->info.dtype == INLAY_UNDEFINED)
                out[o]->info.dtype = dtype; /* the type that rewrite_insert_node set */
        }
    }
    return true;
}

/* *out_refused: an output of `new_node` differs from the output of `old`, or inference fails for `new_node` or an
 * inserted node. Such a failure is an error of the model that the old nodes may have hidden until the run, e.g.
 * elements of a sequence that do not match, or an error of the pass. */
static inlay_status check_replacement(struct rewrite *rewrite, const graph_node *old, graph_node *new_node,
                                      uint32_t outputs, bool *out_refused)
{
    graph_value *made = arena_array(&rewrite->scratch, (size_t)new_node->info.output_count + 1, sizeof *made);
    graph_value **out = arena_array(&rewrite->scratch, (size_t)new_node->info.output_count + 1, sizeof(graph_value *));
    bool differs = false;
    inlay_status status;

    *out_refused = false;
    if (made == NULL || out == NULL || !infer_inserted(rewrite))
        return rewrite_no_memory(rewrite);
    status = graph_bind_node(rewrite->graph, new_node, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return rewrite_no_memory(rewrite);
    *out_refused = status != INLAY_OK || rewrite->fails;
    if (*out_refused || new_node->body_count > 0)
        return INLAY_OK;
    for (uint32_t output = 0; output < outputs; output++)
        out[output] = old->info.outputs[output] == INLAY_NONE ? NULL : &made[output];
    status = graph_infer_detached_node(rewrite->graph, new_node, out, &rewrite->scratch, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return rewrite_no_memory(rewrite);
    for (uint32_t output = 0; status == INLAY_OK && output < outputs; output++)
        differs |=
            out[output] != NULL && type_guard_differs(out[output], &rewrite->graph->values[old->info.outputs[output]]);
    *out_refused = status != INLAY_OK || type_guard_refuses(rewrite->graph->model, differs);
    return INLAY_OK;
}

inlay_status rewrite_replace_node(struct rewrite *rewrite, graph_node *old, graph_node *new_node)
{
    uint32_t at = node_index(rewrite, old), reads = graph_read_count(old);
    uint32_t both =
        old->info.output_count < new_node->info.output_count ? old->info.output_count : new_node->info.output_count;
    bool refused;
    inlay_status status = check_replacement(rewrite, old, new_node, both, &refused);

    INLAY_CHECK(at != INLAY_NONE && at < rewrite->graph->node_count);
    if (status != INLAY_OK || refused)
        return status;
    note(rewrite, old, "%s becomes %s", old->info.op_type.data, new_node->info.op_type.data);
    for (uint32_t i = 0; i < both; i++)
        ((uint32_t *)(uintptr_t)new_node->info.outputs)[i] = old->info.outputs[i];
    history_removed(rewrite->graph, old);
    rewrite->graph->nodes[at] = new_node;
    for (uint32_t i = 0; i < new_node->info.input_count; i++)
        add_use(rewrite, new_node->info.inputs[i]);
    for (uint32_t i = 0; i < reads; i++)
        release_use(rewrite, graph_read_at(old, i));
    rewrite->changed = true;
    return INLAY_OK;
}

inlay_status rewrite_replace_by_values(struct rewrite *rewrite, graph_node *old, const uint32_t *values, uint32_t count)
{
    uint32_t at = node_index(rewrite, old), reads = graph_read_count(old);
    bool differs = false;

    if (!infer_inserted(rewrite))
        return rewrite_no_memory(rewrite);
    for (uint32_t output = 0; output < count && output < old->info.output_count; output++)
        if (values[output] != 0 && old->info.outputs[output] != INLAY_NONE)
            differs |= type_guard_differs(&rewrite->graph->values[values[output] - 1],
                                          &rewrite->graph->values[old->info.outputs[output]]);
    if (type_guard_refuses(rewrite->graph->model, differs))
        return INLAY_OK;
    INLAY_CHECK(at != INLAY_NONE && at < rewrite->graph->node_count);
    note(rewrite, old, "%s is decomposed", old->info.op_type.data);
    for (uint32_t output = 0; output < count && output < old->info.output_count; output++) {
        const uint32_t from = old->info.outputs[output], to = values[output] - 1;
        graph_node *source;

        if (values[output] == 0 || from == INLAY_NONE)
            continue;
        source = rewrite_producer(rewrite, to);
        INLAY_CHECK(source != NULL);
        for (uint32_t i = 0; i < source->info.output_count; i++)
            if (source->info.outputs[i] == to)
                ((uint32_t *)(uintptr_t)source->info.outputs)[i] = from;
        rewrite->producer[from] = rewrite->producer[to];
        rewrite->uses[from] += rewrite->uses[to];
        rewrite->forward[to] = from;
    }
    history_removed(rewrite->graph, old);
    rewrite->graph->nodes[at] = NULL;
    for (uint32_t i = 0; i < reads; i++)
        release_use(rewrite, graph_read_at(old, i));
    rewrite->changed = true;
    return INLAY_OK;
}

inlay_status rewrite_insert_node(struct rewrite *rewrite, graph_node *new_node, inlay_dtype dtype)
{
    struct graph *graph = rewrite->graph;
    uint32_t at = graph->node_count;

    INLAY_CHECK(at > 0);
    while (graph->nodes[--at] != NULL)
        ; /* the slot that rewrite_make_node reserved; sorting later moves the node to just before its first reader */
    for (uint32_t i = 0; i < new_node->info.output_count; i++) {
        uint32_t value = graph_add_value(graph, NULL, 0);

        if (value == INLAY_NONE || !reserve_values(rewrite))
            return rewrite_no_memory(rewrite);
        graph->values[value].info.kind = INLAY_VALUE_TENSOR;
        graph->values[value].info.dtype = dtype;
        graph->values[value].info.rank = INLAY_RANK_UNKNOWN;
        graph->values[value].info.producer = INLAY_NONE;
        ((uint32_t *)(uintptr_t)new_node->info.outputs)[i] = value;
        rewrite->producer[value] = at;
    }
    for (uint32_t i = 0; i < new_node->info.input_count; i++)
        add_use(rewrite, new_node->info.inputs[i]);
    for (uint32_t i = 0; i < new_node->capture_count; i++)
        add_use(rewrite, new_node->captures[i]);
    graph->nodes[at] = new_node;
    rewrite->inserted = true;
    return INLAY_OK;
}

inlay_status rewrite_forward(struct rewrite *rewrite, uint32_t from, uint32_t to, bool *out_done)
{
    graph_node *producer = rewrite_producer(rewrite, from), *source;
    uint32_t at;

    to = rewrite_resolve(rewrite, to);
    *out_done = false;
    if (from == INLAY_NONE || to == INLAY_NONE || from == to ||
        (producer == NULL && (!rewrite_is_constant(rewrite, from) || rewrite->is_output[from])))
        return INLAY_OK;
    if (!infer_inserted(rewrite))
        return rewrite_no_memory(rewrite);
    if (rewrite->fails || type_guard_refuses(rewrite->graph->model, type_guard_differs(&rewrite->graph->values[from],
                                                                                       &rewrite->graph->values[to])))
        return INLAY_OK;
    if (producer == NULL) {
        rewrite->forward[from] = to;
        rewrite->uses[to] += rewrite->uses[from];
        rewrite->uses[from] = 0;
        rewrite->changed_constants = *out_done = true;
        return INLAY_OK;
    }
    if (!rewrite->is_output[from]) {
        note(rewrite, producer, "%s is not needed for '%s'", producer->info.op_type.data,
             rewrite->graph->values[from].info.name.data);
        rewrite->forward[from] = to;
        rewrite->uses[to] += rewrite->uses[from];
        rewrite->uses[from] = 1; /* the use released below, which removes the producer */
        rewrite->forward[from] = INLAY_NONE;
        release_use(rewrite, from);
        rewrite->forward[from] = to;
    } else {
        source = rewrite_producer(rewrite, to);
        if (source == NULL || rewrite->is_output[to] || producer->info.output_count != 1)
            return INLAY_OK;
        note(rewrite, producer, "%s is not needed for '%s'", producer->info.op_type.data,
             rewrite->graph->values[from].info.name.data);
        for (uint32_t i = 0; i < source->info.output_count; i++)
            if (source->info.outputs[i] == to)
                ((uint32_t *)(uintptr_t)source->info.outputs)[i] = from;
        at = rewrite->producer[from];
        rewrite->producer[from] = rewrite->producer[to];
        rewrite->uses[from] += rewrite->uses[to];
        rewrite->forward[to] = from;
        history_removed(rewrite->graph, producer);
        rewrite->graph->nodes[at] = NULL;
        for (uint32_t i = 0; i < producer->info.input_count; i++)
            release_use(rewrite, producer->info.inputs[i]);
    }
    *out_done = true;
    rewrite->changed = true;
    return INLAY_OK;
}

uint32_t rewrite_constant(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                          const void *data, uint64_t bytes)
{
    void *copy = graph_blob_alloc(rewrite->graph->model, bytes > 0 ? (size_t)bytes : 1);

    INLAY_CHECK(bytes == 0 || data != NULL);
    if (copy == NULL)
        return INLAY_NONE;
    if (bytes > 0)
        memcpy(copy, data, (size_t)bytes);
    return rewrite_constant_blob(rewrite, dtype, rank, dims, copy, bytes);
}

uint32_t rewrite_constant_blob(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                               const void *data, uint64_t bytes)
{
    uint32_t value = graph_add_value(rewrite->graph, NULL, 0);

    INLAY_CHECK(data != NULL);
    if (value == INLAY_NONE || !reserve_values(rewrite) ||
        graph_set_constant(rewrite->graph, value, dtype, rank, dims, data, bytes) != INLAY_OK)
        return INLAY_NONE;
    return value;
}

uint32_t rewrite_constant_ints(struct rewrite *rewrite, const int64_t *values, uint32_t count)
{
    int64_t dims[1] = { count };

    return rewrite_constant(rewrite, INLAY_INT64, 1, dims, values, (uint64_t)count * sizeof *values);
}
