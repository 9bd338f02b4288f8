#include "passes/rewrite.h"
#include "inlay/check.h"
#include "base/element.h"
#include "graph/history.h"
#include "passes/type_guard.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

inlay_status rw_no_memory(const struct rewrite *rewrite)
{
    return no_memory(rewrite->ctx->diag, "to optimise graph '%s' (pass %s)", rewrite->graph->name, rewrite->ctx->pass);
}

/* ------------------------------------------------------------------ the books of a visit */

/* Room for all values of the graph; where there is none the books stay as they are. */
static bool reserve(struct rewrite *rewrite)
{
    uint32_t had = rewrite->capacity, capacity = had, *uses, *maker, *forward;
    bool *is_output;

    if (rewrite->graph->value_count <= had && had > 0)
        return true;
    while (capacity < rewrite->graph->value_count + 1)
        capacity = capacity < 64 ? rewrite->graph->value_count + 64 : capacity * 2;
    uses = arena_grown(&rewrite->own, rewrite->uses, had, capacity, sizeof *uses);
    maker = arena_grown(&rewrite->own, rewrite->maker, had, capacity, sizeof *maker);
    forward = arena_grown(&rewrite->own, rewrite->forward, had, capacity, sizeof *forward);
    is_output = arena_grown(&rewrite->own, rewrite->is_output, had, capacity, sizeof *is_output);
    if (uses == NULL || maker == NULL || forward == NULL || is_output == NULL)
        return false;
    memset(maker + had, 0xff, (capacity - had) * sizeof *maker);
    memset(forward + had, 0xff, (capacity - had) * sizeof *forward);
    rewrite->uses = uses;
    rewrite->maker = maker;
    rewrite->forward = forward;
    rewrite->is_output = is_output;
    rewrite->capacity = capacity;
    return true;
}

static bool open_books(struct rewrite *rewrite)
{
    const struct graph *graph = rewrite->graph;

    if (!reserve(rewrite))
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
                rewrite->maker[node->info.outputs[k]] = i;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i] == INLAY_NONE)
            continue;
        rewrite->uses[graph->outputs[i]]++;
        rewrite->is_output[graph->outputs[i]] = true;
    }
    return true;
}

uint32_t rw_resolve(const struct rewrite *rewrite, uint32_t value)
{
    while (value != INLAY_NONE && rewrite->forward[value] != INLAY_NONE)
        value = rewrite->forward[value];
    return value;
}

/* The node's place in g->nodes; INLAY_NONE: it is not in the graph, or no longer. */
static uint32_t place_of(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (node->info.outputs[i] != INLAY_NONE && rewrite->maker[node->info.outputs[i]] != INLAY_NONE &&
            rewrite->graph->nodes[rewrite->maker[node->info.outputs[i]]] == node)
            return rewrite->maker[node->info.outputs[i]];
    return INLAY_NONE;
}

static bool all_unused(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.output_count; i++)
        if (!rw_is_unused(rewrite, node, i))
            return false;
    return true;
}

INLAY_PRINTF(3, 4)
static void note(const struct rewrite *rewrite, const graph_node *node, const char *format, ...)
{
    char text[256];
    va_list args;

    if (rewrite->ctx->note == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rewrite->ctx->note(rewrite->ctx->note_ctx, rewrite->ctx->pass, rewrite->ctx->rewrites + 1, rewrite->graph, node,
                       text);
}

/* One reader of value less. Its maker goes when nobody reads anything of it; so do, in turn, the makers of what it
 * read: a chain as long as the model, hence no recursion. */
static void release(struct rewrite *rewrite, uint32_t value)
{
    uint32_t at, *stack = NULL, depth = 0, room = 0;

    for (;;) {
        graph_node *node;

        value = rw_resolve(rewrite, value);
        if (value != INLAY_NONE && rewrite->uses[value] > 0 && --rewrite->uses[value] == 0 &&
            (at = rewrite->maker[value]) != INLAY_NONE && (node = rewrite->graph->nodes[at]) != NULL &&
            all_unused(rewrite, node)) {
            uint32_t reads = node->info.input_count + node->capture_count;

            note(rewrite, node, "%s is no longer needed", node->info.op_type.data);
            history_removed(rewrite->graph, node);
            rewrite->graph->nodes[at] = NULL;
            if (depth + reads > room) {
                room = (depth + reads) * 2 + 16;
                stack = arena_grown(&rewrite->own, stack, depth, room, sizeof *stack);
                if (stack == NULL)
                    return; /* what stays behind is dead code, which another pass removes */
            }
            for (uint32_t i = 0; i < reads; i++)
                stack[depth++] =
                    i < node->info.input_count ? node->info.inputs[i] : node->captures[i - node->info.input_count];
        }
        if (depth == 0)
            return;
        value = stack[--depth];
    }
}

static void use(struct rewrite *rewrite, uint32_t value)
{
    value = rw_resolve(rewrite, value);
    if (value != INLAY_NONE)
        rewrite->uses[value]++;
}

static void close_books(struct rewrite *rewrite)
{
    struct graph *graph = rewrite->graph;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i] != NULL)
            graph->nodes[kept++] = graph->nodes[i];
    graph->node_count = kept;
    /* A value that found no room in the books is read by nobody: whoever made it has failed, and the model goes. */
    if ((rewrite->changed || rewrite->changed_constants) && graph->value_count <= rewrite->capacity)
        pass_replace_uses(graph, rewrite->forward);
}

/* Takes out what was inserted at this node and nobody reads, as if it had never been there. */
static void drop_inserted(struct rewrite *rewrite)
{
    bool dropped = true;

    while (dropped) {
        dropped = false;
        for (uint32_t i = rewrite->first_fresh; i < rewrite->graph->node_count; i++) {
            graph_node *node = rewrite->graph->nodes[i];

            if (node == NULL || !all_unused(rewrite, node))
                continue;
            for (uint32_t k = 0; k < node->info.input_count; k++)
                if (node->info.inputs[k] != INLAY_NONE)
                    rewrite->uses[node->info.inputs[k]]--;
            for (uint32_t k = 0; k < node->capture_count; k++)
                rewrite->uses[node->captures[k]]--;
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

    if (!open_books(&rewrite)) {
        status = rw_no_memory(&rewrite);
        goto done;
    }
    for (uint32_t i = 0; status == INLAY_OK && i < nodes && pass_may(ctx); i++) {
        if (graph->nodes[i] == NULL)
            continue;
        rewrite.changed = rewrite.inserted = false;
        rewrite.first_fresh = graph->node_count;
        status = fn(&rewrite, graph->nodes[i]);
        if (rewrite.inserted && !rewrite.changed)
            drop_inserted(&rewrite);
        if (rewrite.changed)
            pass_count(ctx, graph, NULL, NULL);
        any |= rewrite.changed;
        arena_reset(&rewrite.scratch);
    }
    rewrite.changed = any;
    close_books(&rewrite);
    *out_changed |= any;
done:
    arena_deinit(&rewrite.scratch);
    arena_deinit(&rewrite.own);
    for (uint32_t i = 0; status == INLAY_OK && i < graph->node_count; i++)
        for (uint32_t b = 0; status == INLAY_OK && b < graph->nodes[i]->body_count; b++)
            status = rewrite_graph(ctx, graph->nodes[i]->bodies[b].graph, fn, out_changed);
    return status;
}

inlay_status rewrite_each_graph(pass_ctx *ctx, rewrite_fn fn, bool *out_changed)
{
    return rewrite_graph(ctx, ctx->model->main, fn, out_changed);
}

/* ------------------------------------------------------------------ looking */

uint32_t rw_input(const struct rewrite *rewrite, const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? rw_resolve(rewrite, node->info.inputs[i]) : INLAY_NONE;
}

graph_node *rw_maker(const struct rewrite *rewrite, uint32_t value)
{
    value = rw_resolve(rewrite, value);
    return value == INLAY_NONE || rewrite->maker[value] == INLAY_NONE ? NULL
                                                                      : rewrite->graph->nodes[rewrite->maker[value]];
}

graph_node *rw_maker_op(const struct rewrite *rewrite, uint32_t value, const char *op_type)
{
    graph_node *node = rw_maker(rewrite, value);

    return node != NULL && pass_is_op(node, op_type) && node->info.outputs[0] == rw_resolve(rewrite, value) ? node
                                                                                                            : NULL;
}

/* Marks the values of which a reader quantizes, or makes such values. What leaves a body may be quantized outside of
 * it, and what enters one inside. */
static bool find_quantized(struct rewrite *rewrite)
{
    const struct graph *graph = rewrite->graph;
    bool *marks = arena_array(&rewrite->own, (size_t)graph->value_count + 1, sizeof *marks);

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
            if (rw_input(rewrite, node, k) != INLAY_NONE)
                marks[rw_input(rewrite, node, k)] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            marks[rw_resolve(rewrite, node->captures[k])] = true;
    }
    return true;
}

bool rw_is_quantized_later(struct rewrite *rewrite, uint32_t value)
{
    if (!rewrite->ctx->quantizes || (rewrite->quantized == NULL && !find_quantized(rewrite)))
        return false;
    return value >= rewrite->quantized_count || rewrite->quantized[value];
}

bool rw_is_only_use(const struct rewrite *rewrite, uint32_t value)
{
    value = rw_resolve(rewrite, value);
    return value != INLAY_NONE && rewrite->uses[value] == 1 && !rewrite->is_output[value];
}

bool rw_is_unused(const struct rewrite *rewrite, const graph_node *node, uint32_t i)
{
    uint32_t value = i < node->info.output_count ? node->info.outputs[i] : INLAY_NONE;

    return value == INLAY_NONE || rewrite->uses[value] == 0;
}

static bool same_dim(const inlay_dim *a, const inlay_dim *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == INLAY_DIM_FIXED ? a->value == b->value : a->kind == INLAY_DIM_SYMBOLIC && a->symbol == b->symbol;
}

bool rw_same_type(const struct rewrite *rewrite, uint32_t a, uint32_t b)
{
    const inlay_value_info *input = rw_info(rewrite, a), *output = rw_info(rewrite, b);

    if (input == NULL || output == NULL || input->kind != output->kind || input->dtype != output->dtype ||
        input->dtype == INLAY_UNDEFINED || input->rank != output->rank || input->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < input->rank; d++)
        if (!same_dim(&input->dims[d], &output->dims[d]))
            return false;
    return true;
}

/* Is value made of input and of constants of rank 0 alone, as far as visits go? */
static bool made_of_scalars(const struct rewrite *rewrite, uint32_t value, uint32_t input, uint32_t *visits)
{
    const graph_node *node = rw_maker(rewrite, value);

    if (value == input || value == INLAY_NONE)
        return true;
    if (rw_is_constant(rewrite, value))
        return rw_info(rewrite, value)->rank == 0;
    if (node == NULL || *visits == 0)
        return false;
    --*visits;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (!made_of_scalars(rewrite, rw_input(rewrite, node, i), input, visits))
            return false;
    return true;
}

bool rw_keeps_rank(const struct rewrite *rewrite, uint32_t output, uint32_t input)
{
    const uint32_t rank = rw_info(rewrite, input)->rank;
    uint32_t visits = 64;

    if (rank != INLAY_RANK_UNKNOWN && rw_info(rewrite, output)->rank != INLAY_RANK_UNKNOWN)
        return rank == rw_info(rewrite, output)->rank;
    return made_of_scalars(rewrite, output, input, &visits);
}

int64_t rw_dim(const inlay_value_info *value, int64_t d)
{
    if (value == NULL || value->rank == INLAY_RANK_UNKNOWN)
        return -1;
    d = d < 0 ? d + (int64_t)value->rank : d;
    return d < 0 || d >= (int64_t)value->rank || value->dims[d].kind != INLAY_DIM_FIXED ? -1 : value->dims[d].value;
}

bool rw_is_constant(const struct rewrite *rewrite, uint32_t value)
{
    return value != INLAY_NONE && (rewrite->graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

static int64_t elements_of(const inlay_value_info *value)
{
    int64_t n = 1;

    for (uint32_t d = 0; d < value->rank; d++)
        n *= value->dims[d].value; /* of a constant: the loader has checked the product */
    return n;
}

bool rw_scalar(const struct rewrite *rewrite, uint32_t value, double *out)
{
    const inlay_value_info *info = rw_info(rewrite, value);

    return rw_is_constant(rewrite, value) && element_is_float(info->dtype) && elements_of(info) == 1 &&
           element_number(info->dtype, info->data, 0, out, NULL);
}

bool rw_is_near(const struct rewrite *rewrite, uint32_t value_index, double is, double value)
{
    /* the spacing of the type's numbers, where it is widest beside them */
    const inlay_dtype dtype = rw_info(rewrite, value_index)->dtype;
    const double spacing = dtype == INLAY_BFLOAT16  ? 0x1p-7
                           : dtype == INLAY_FLOAT16 ? 0x1p-10
                           : dtype == INLAY_FLOAT   ? 0x1p-23
                                                    : 0x1p-52;

    return fabs(is - value) <= 2 * spacing * fabs(value);
}

bool rw_is_scalar(const struct rewrite *rewrite, uint32_t value_index, double value)
{
    double is;

    if (!rw_scalar(rewrite, value_index, &is))
        return false;
    return value == floor(value) || is == value ? is == value : rw_is_near(rewrite, value_index, is, value);
}

bool rw_ints(struct rewrite *rewrite, uint32_t value, const int64_t **out, uint32_t *out_count)
{
    const inlay_value_info *info = rw_info(rewrite, value);
    int64_t count, *list;

    *out = NULL;
    *out_count = 0;
    if (!rw_is_constant(rewrite, value) || info->rank > 1 || (info->dtype != INLAY_INT64 && info->dtype != INLAY_INT32))
        return false;
    count = elements_of(info);
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

const float *rw_floats(struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *info = rw_info(rewrite, value);
    float *copy;

    if (!rw_is_constant(rewrite, value) || info->dtype != INLAY_FLOAT)
        return NULL;
    if ((uintptr_t)info->data % _Alignof(float) == 0)
        return info->data;
    copy = arena_alloc(&rewrite->scratch, (size_t)info->data_bytes + 1);
    if (copy != NULL)
        memcpy(copy, info->data, (size_t)info->data_bytes);
    return copy;
}

int64_t rw_attr_int(const graph_node *node, const char *name, int64_t otherwise)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_INT ? attribute->i : otherwise;
}

double rw_attr_float(const graph_node *node, const char *name, double otherwise)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_FLOAT ? attribute->f : otherwise;
}

bool rw_attr_is(const graph_node *node, const char *name, const char *text)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return strcmp(attribute != NULL && attribute->kind == INLAY_ATTR_STRING ? attribute->s.data : "", text) == 0;
}

const int64_t *rw_attr_ints(const graph_node *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *attribute = graph_attr(node, name);
    bool has = attribute != NULL && attribute->kind == INLAY_ATTR_INTS;

    *out_count = has ? attribute->count : 0;
    return has ? attribute->ints : NULL;
}

/* ------------------------------------------------------------------ changing */

graph_node *rw_make(struct rewrite *rewrite, const char *op_type, int64_t opset, const graph_node *like,
                    const uint32_t *inputs, uint32_t input_count, uint32_t output_count)
{
    graph_node *node = graph_add_node(rewrite->graph, op_type, NULL, like != NULL ? like->info.name.data : NULL,
                                      input_count, output_count);

    if (node == NULL)
        return NULL;
    rewrite->graph->nodes[rewrite->graph->node_count - 1] = NULL; /* a place, but it is not in the graph yet */
    if (opset != 0)
        node->opset = opset;
    for (uint32_t i = 0; i < input_count; i++)
        ((uint32_t *)(uintptr_t)node->info.inputs)[i] = rw_resolve(rewrite, inputs[i]);
    return node;
}

graph_node *rw_copy(struct rewrite *rewrite, const graph_node *node)
{
    graph_node *copy = rw_make(rewrite, node->info.op_type.data, node->opset, node, node->info.inputs,
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

void rw_set_input(const struct rewrite *rewrite, graph_node *fresh, uint32_t i, uint32_t value)
{
    const bool is_in_graph = place_of(rewrite, fresh) != INLAY_NONE;

    INLAY_CHECK(!is_in_graph || rewrite->graph->model->trusts_file);
    if (!is_in_graph)
        ((uint32_t *)(uintptr_t)fresh->info.inputs)[i] = rw_resolve(rewrite, value);
}

/* Infers what was inserted at this node so far. Nodes with bodies stay unknown, and so does what cannot be inferred:
 * when the pass has ended, that is an error which says why. */
static bool infer_inserted(struct rewrite *rewrite)
{
    for (uint32_t i = rewrite->first_fresh; i < rewrite->graph->node_count; i++) {
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
            status = graph_infer_apart(rewrite->graph, node, out, &rewrite->graph->model->arena, NULL);
        if (status == INLAY_OUT_OF_MEMORY)
            return false;
        for (uint32_t o = 0; o < node->info.output_count; o++) {
            if (out[o] == NULL)
                continue;
            if (status != INLAY_OK)
                out[o]->info.rank = INLAY_RANK_UNKNOWN;
            if (out[o]->info.dtype == INLAY_UNDEFINED)
                out[o]->info.dtype = dtype; /* as rw_insert had it */
        }
    }
    return true;
}

/* Does an output of `fresh` differ from that of `old`, or is its inference an error? An error is the model's mistake,
 * which the old nodes may have hidden until the run: elements of a sequence that do not fit together. */
static inlay_status check_fresh(struct rewrite *rewrite, const graph_node *old, graph_node *fresh, uint32_t outputs,
                                bool *out_refused)
{
    graph_value *made = arena_array(&rewrite->scratch, (size_t)fresh->info.output_count + 1, sizeof *made);
    graph_value **out = arena_array(&rewrite->scratch, (size_t)fresh->info.output_count + 1, sizeof(graph_value *));
    bool differs = false;
    inlay_status status;

    *out_refused = false;
    if (made == NULL || out == NULL || !infer_inserted(rewrite))
        return rw_no_memory(rewrite);
    status = graph_bind_node(rewrite->graph, fresh, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return rw_no_memory(rewrite);
    if (status != INLAY_OK || fresh->body_count > 0)
        return INLAY_OK; /* binding says what is wrong when the pass has ended */
    for (uint32_t output = 0; output < outputs; output++)
        out[output] = old->info.outputs[output] == INLAY_NONE ? NULL : &made[output];
    status = graph_infer_apart(rewrite->graph, fresh, out, &rewrite->scratch, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return rw_no_memory(rewrite);
    for (uint32_t output = 0; status == INLAY_OK && output < outputs; output++)
        differs |=
            out[output] != NULL && type_guard_differs(out[output], &rewrite->graph->values[old->info.outputs[output]]);
    *out_refused = status != INLAY_OK || type_guard_refuses(rewrite->graph->model, differs);
    return INLAY_OK;
}

inlay_status rw_replace(struct rewrite *rewrite, graph_node *old, graph_node *fresh)
{
    uint32_t at = place_of(rewrite, old), reads = old->info.input_count + old->capture_count;
    uint32_t both =
        old->info.output_count < fresh->info.output_count ? old->info.output_count : fresh->info.output_count;
    bool refused;
    inlay_status status = check_fresh(rewrite, old, fresh, both, &refused);

    if (status != INLAY_OK || refused)
        return status;
    note(rewrite, old, "%s becomes %s", old->info.op_type.data, fresh->info.op_type.data);
    for (uint32_t i = 0; i < both; i++)
        ((uint32_t *)(uintptr_t)fresh->info.outputs)[i] = old->info.outputs[i];
    history_removed(rewrite->graph, old);
    rewrite->graph->nodes[at] = fresh;
    for (uint32_t i = 0; i < fresh->info.input_count; i++)
        use(rewrite, fresh->info.inputs[i]);
    for (uint32_t i = 0; i < reads; i++)
        release(rewrite, i < old->info.input_count ? old->info.inputs[i] : old->captures[i - old->info.input_count]);
    rewrite->changed = true;
    return INLAY_OK;
}

inlay_status rw_take_over(struct rewrite *rewrite, graph_node *old, const uint32_t *values, uint32_t count)
{
    uint32_t at = place_of(rewrite, old), reads = old->info.input_count + old->capture_count;
    bool differs = false;

    if (!infer_inserted(rewrite))
        return rw_no_memory(rewrite);
    for (uint32_t output = 0; output < count && output < old->info.output_count; output++)
        if (values[output] != 0 && old->info.outputs[output] != INLAY_NONE)
            differs |= type_guard_differs(&rewrite->graph->values[values[output] - 1],
                                          &rewrite->graph->values[old->info.outputs[output]]);
    if (type_guard_refuses(rewrite->graph->model, differs))
        return INLAY_OK;
    note(rewrite, old, "%s is spelled out", old->info.op_type.data);
    for (uint32_t output = 0; output < count && output < old->info.output_count; output++) {
        const uint32_t from = old->info.outputs[output], to = values[output] - 1;
        graph_node *source;

        if (values[output] == 0 || from == INLAY_NONE)
            continue;
        source = rw_maker(rewrite, to);
        for (uint32_t i = 0; i < source->info.output_count; i++)
            if (source->info.outputs[i] == to)
                ((uint32_t *)(uintptr_t)source->info.outputs)[i] = from;
        rewrite->maker[from] = rewrite->maker[to];
        rewrite->uses[from] += rewrite->uses[to];
        rewrite->forward[to] = from;
    }
    history_removed(rewrite->graph, old);
    rewrite->graph->nodes[at] = NULL;
    for (uint32_t i = 0; i < reads; i++)
        release(rewrite, i < old->info.input_count ? old->info.inputs[i] : old->captures[i - old->info.input_count]);
    rewrite->changed = true;
    return INLAY_OK;
}

inlay_status rw_insert(struct rewrite *rewrite, graph_node *fresh, inlay_dtype dtype)
{
    struct graph *graph = rewrite->graph;
    uint32_t at = graph->node_count;

    while (graph->nodes[--at] != NULL)
        ; /* rw_make has left a place; sorting moves the node to right before its first reader */
    for (uint32_t i = 0; i < fresh->info.output_count; i++) {
        uint32_t value = graph_add_value(graph, NULL, 0);

        if (value == INLAY_NONE || !reserve(rewrite))
            return rw_no_memory(rewrite);
        graph->values[value].info.kind = INLAY_VALUE_TENSOR;
        graph->values[value].info.dtype = dtype;
        graph->values[value].info.rank = INLAY_RANK_UNKNOWN;
        graph->values[value].info.producer = INLAY_NONE;
        ((uint32_t *)(uintptr_t)fresh->info.outputs)[i] = value;
        rewrite->maker[value] = at;
    }
    for (uint32_t i = 0; i < fresh->info.input_count; i++)
        use(rewrite, fresh->info.inputs[i]);
    for (uint32_t i = 0; i < fresh->capture_count; i++)
        use(rewrite, fresh->captures[i]);
    graph->nodes[at] = fresh;
    rewrite->inserted = true;
    return INLAY_OK;
}

inlay_status rw_forward(struct rewrite *rewrite, uint32_t from, uint32_t to, bool *out_done)
{
    graph_node *maker = rw_maker(rewrite, from), *source;
    uint32_t at;

    to = rw_resolve(rewrite, to);
    *out_done = false;
    if (from == INLAY_NONE || to == INLAY_NONE || from == to ||
        (maker == NULL && (!rw_is_constant(rewrite, from) || rewrite->is_output[from])))
        return INLAY_OK;
    if (!infer_inserted(rewrite))
        return rw_no_memory(rewrite);
    if (type_guard_refuses(rewrite->graph->model,
                           type_guard_differs(&rewrite->graph->values[from], &rewrite->graph->values[to])))
        return INLAY_OK;
    if (maker == NULL) {
        rewrite->forward[from] = to;
        rewrite->uses[to] += rewrite->uses[from];
        rewrite->uses[from] = 0;
        rewrite->changed_constants = *out_done = true;
        return INLAY_OK;
    }
    if (!rewrite->is_output[from]) {
        note(rewrite, maker, "%s is not needed for '%s'", maker->info.op_type.data,
             rewrite->graph->values[from].info.name.data);
        rewrite->forward[from] = to;
        rewrite->uses[to] += rewrite->uses[from];
        rewrite->uses[from] = 1; /* the one that is released now, so that its maker goes */
        rewrite->forward[from] = INLAY_NONE;
        release(rewrite, from);
        rewrite->forward[from] = to;
    } else {
        source = rw_maker(rewrite, to);
        if (source == NULL || rewrite->is_output[to] || maker->info.output_count != 1)
            return INLAY_OK;
        note(rewrite, maker, "%s is not needed for '%s'", maker->info.op_type.data,
             rewrite->graph->values[from].info.name.data);
        for (uint32_t i = 0; i < source->info.output_count; i++)
            if (source->info.outputs[i] == to)
                ((uint32_t *)(uintptr_t)source->info.outputs)[i] = from;
        at = rewrite->maker[from];
        rewrite->maker[from] = rewrite->maker[to];
        rewrite->uses[from] += rewrite->uses[to];
        rewrite->forward[to] = from;
        history_removed(rewrite->graph, maker);
        rewrite->graph->nodes[at] = NULL;
        for (uint32_t i = 0; i < maker->info.input_count; i++)
            release(rewrite, maker->info.inputs[i]);
    }
    *out_done = true;
    rewrite->changed = true;
    return INLAY_OK;
}

uint32_t rw_constant(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                     uint64_t bytes)
{
    void *copy = graph_blob_alloc(rewrite->graph->model, bytes > 0 ? (size_t)bytes : 1);

    if (copy == NULL)
        return INLAY_NONE;
    if (bytes > 0)
        memcpy(copy, data, (size_t)bytes);
    return rw_constant_blob(rewrite, dtype, rank, dims, copy, bytes);
}

uint32_t rw_constant_blob(struct rewrite *rewrite, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                          const void *data, uint64_t bytes)
{
    uint32_t value = graph_add_value(rewrite->graph, NULL, 0);

    if (value == INLAY_NONE || !reserve(rewrite) ||
        graph_set_constant(rewrite->graph, value, dtype, rank, dims, data, bytes) != INLAY_OK)
        return INLAY_NONE;
    return value;
}

uint32_t rw_constant_ints(struct rewrite *rewrite, const int64_t *values, uint32_t count)
{
    int64_t dims[1] = { count };

    return rw_constant(rewrite, INLAY_INT64, 1, dims, values, (uint64_t)count * sizeof *values);
}
