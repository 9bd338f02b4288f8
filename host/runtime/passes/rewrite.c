#include "passes/rewrite.h"
#include "base/check.h"
#include "base/element.h"
#include "graph/history.h"
#include "passes/type_guard.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

inlay_status rw_no_memory(const struct rewrite *w)
{
    return no_memory(w->ctx->diag, "to optimise graph '%s' (pass %s)", w->g->name, w->ctx->pass);
}

/* ------------------------------------------------------------------ the books of a visit */

/* Room for all values of the graph; where there is none the books stay as they are. */
static bool reserve(struct rewrite *w)
{
    uint32_t had = w->capacity, capacity = had, *uses, *maker, *forward;
    bool *is_output;

    if (w->g->value_count <= had && had > 0)
        return true;
    while (capacity < w->g->value_count + 1)
        capacity = capacity < 64 ? w->g->value_count + 64 : capacity * 2;
    uses = arena_grown(&w->own, w->uses, had, capacity, sizeof *uses);
    maker = arena_grown(&w->own, w->maker, had, capacity, sizeof *maker);
    forward = arena_grown(&w->own, w->forward, had, capacity, sizeof *forward);
    is_output = arena_grown(&w->own, w->is_output, had, capacity, sizeof *is_output);
    if (uses == NULL || maker == NULL || forward == NULL || is_output == NULL)
        return false;
    memset(maker + had, 0xff, (capacity - had) * sizeof *maker);
    memset(forward + had, 0xff, (capacity - had) * sizeof *forward);
    w->uses = uses;
    w->maker = maker;
    w->forward = forward;
    w->is_output = is_output;
    w->capacity = capacity;
    return true;
}

static bool open_books(struct rewrite *w)
{
    const struct graph *g = w->g;

    if (!reserve(w))
        return false;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                w->uses[n->info.inputs[k]]++;
        for (uint32_t k = 0; k < n->capture_count; k++)
            w->uses[n->captures[k]]++;
        for (uint32_t k = 0; k < n->info.output_count; k++)
            if (n->info.outputs[k] != INLAY_NONE)
                w->maker[n->info.outputs[k]] = i;
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (g->outputs[i] == INLAY_NONE)
            continue;
        w->uses[g->outputs[i]]++;
        w->is_output[g->outputs[i]] = true;
    }
    return true;
}

uint32_t rw_resolve(const struct rewrite *w, uint32_t v)
{
    while (v != INLAY_NONE && w->forward[v] != INLAY_NONE)
        v = w->forward[v];
    return v;
}

/* The node's place in g->nodes; INLAY_NONE: it is not in the graph, or no longer. */
static uint32_t place_of(const struct rewrite *w, const graph_node *n)
{
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && w->maker[n->info.outputs[i]] != INLAY_NONE &&
            w->g->nodes[w->maker[n->info.outputs[i]]] == n)
            return w->maker[n->info.outputs[i]];
    return INLAY_NONE;
}

static bool all_unused(const struct rewrite *w, const graph_node *n)
{
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (!rw_is_unused(w, n, i))
            return false;
    return true;
}

INLAY_PRINTF(3, 4)
static void note(const struct rewrite *w, const graph_node *n, const char *format, ...)
{
    char text[256];
    va_list args;

    if (w->ctx->note == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    w->ctx->note(w->ctx->note_ctx, w->ctx->pass, w->ctx->rewrites + 1, w->g, n, text);
}

/* One reader of v less. Its maker goes when nobody reads anything of it; so do, in turn, the makers of what it read: a
 * chain as long as the model, hence no recursion. */
static void release(struct rewrite *w, uint32_t v)
{
    uint32_t at, *stack = NULL, depth = 0, room = 0;

    for (;;) {
        graph_node *n;

        v = rw_resolve(w, v);
        if (v != INLAY_NONE && w->uses[v] > 0 && --w->uses[v] == 0 && (at = w->maker[v]) != INLAY_NONE &&
            (n = w->g->nodes[at]) != NULL && all_unused(w, n)) {
            uint32_t reads = n->info.input_count + n->capture_count;

            note(w, n, "%s is no longer needed", n->info.op_type.data);
            history_removed(w->g, n);
            w->g->nodes[at] = NULL;
            if (depth + reads > room) {
                room = (depth + reads) * 2 + 16;
                stack = arena_grown(&w->own, stack, depth, room, sizeof *stack);
                if (stack == NULL)
                    return; /* what stays behind is dead code, which another pass removes */
            }
            for (uint32_t i = 0; i < reads; i++)
                stack[depth++] = i < n->info.input_count ? n->info.inputs[i] : n->captures[i - n->info.input_count];
        }
        if (depth == 0)
            return;
        v = stack[--depth];
    }
}

static void use(struct rewrite *w, uint32_t v)
{
    v = rw_resolve(w, v);
    if (v != INLAY_NONE)
        w->uses[v]++;
}

static void close_books(struct rewrite *w)
{
    struct graph *g = w->g;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->nodes[i] != NULL)
            g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
    /* A value that found no room in the books is read by nobody: whoever made it has failed, and the model goes. */
    if ((w->changed || w->changed_constants) && g->value_count <= w->capacity)
        pass_replace_uses(g, w->forward);
}

/* Takes out what was inserted at this node and nobody reads, as if it had never been there. */
static void drop_inserted(struct rewrite *w)
{
    bool dropped = true;

    while (dropped) {
        dropped = false;
        for (uint32_t i = w->first_fresh; i < w->g->node_count; i++) {
            graph_node *n = w->g->nodes[i];

            if (n == NULL || !all_unused(w, n))
                continue;
            for (uint32_t k = 0; k < n->info.input_count; k++)
                if (n->info.inputs[k] != INLAY_NONE)
                    w->uses[n->info.inputs[k]]--;
            for (uint32_t k = 0; k < n->capture_count; k++)
                w->uses[n->captures[k]]--;
            w->g->nodes[i] = NULL;
            dropped = true;
        }
    }
}

static inlay_status rewrite_graph(pass_ctx *ctx, struct graph *g, rewrite_fn fn, bool *out_changed)
{
    struct rewrite w = { .ctx = ctx, .g = g };
    uint32_t nodes = g->node_count;
    inlay_status status = INLAY_OK;
    bool any = false;

    if (!open_books(&w)) {
        status = rw_no_memory(&w);
        goto done;
    }
    for (uint32_t i = 0; status == INLAY_OK && i < nodes && pass_may(ctx); i++) {
        if (g->nodes[i] == NULL)
            continue;
        w.changed = w.inserted = false;
        w.first_fresh = g->node_count;
        status = fn(&w, g->nodes[i]);
        if (w.inserted && !w.changed)
            drop_inserted(&w);
        if (w.changed)
            pass_count(ctx, g, NULL, NULL);
        any |= w.changed;
        arena_reset(&w.scratch);
    }
    w.changed = any;
    close_books(&w);
    *out_changed |= any;
done:
    arena_deinit(&w.scratch);
    arena_deinit(&w.own);
    for (uint32_t i = 0; status == INLAY_OK && i < g->node_count; i++)
        for (uint32_t b = 0; status == INLAY_OK && b < g->nodes[i]->body_count; b++)
            status = rewrite_graph(ctx, g->nodes[i]->bodies[b].graph, fn, out_changed);
    return status;
}

inlay_status rewrite_each_graph(pass_ctx *ctx, rewrite_fn fn, bool *out_changed)
{
    return rewrite_graph(ctx, ctx->model->main, fn, out_changed);
}

/* ------------------------------------------------------------------ looking */

uint32_t rw_input(const struct rewrite *w, const graph_node *n, uint32_t i)
{
    return i < n->info.input_count ? rw_resolve(w, n->info.inputs[i]) : INLAY_NONE;
}

graph_node *rw_maker(const struct rewrite *w, uint32_t v)
{
    v = rw_resolve(w, v);
    return v == INLAY_NONE || w->maker[v] == INLAY_NONE ? NULL : w->g->nodes[w->maker[v]];
}

graph_node *rw_maker_op(const struct rewrite *w, uint32_t v, const char *op_type)
{
    graph_node *n = rw_maker(w, v);

    return n != NULL && pass_is_op(n, op_type) && n->info.outputs[0] == rw_resolve(w, v) ? n : NULL;
}

/* Marks the values of which a reader quantizes, or makes such values. What leaves a body may be quantized outside of
 * it, and what enters one inside. */
static bool find_quantized(struct rewrite *w)
{
    const struct graph *g = w->g;
    bool *marks = arena_array(&w->own, (size_t)g->value_count + 1, sizeof *marks);

    if (marks == NULL)
        return false;
    w->quantized = marks;
    w->quantized_count = g->value_count;
    for (uint32_t i = 0; g->parent != NULL && i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            marks[g->outputs[i]] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const graph_node *n = g->nodes[i];
        bool later = n != NULL && (n->body_count > 0 || pass_is_op(n, "DynamicQuantizeLinear"));

        for (uint32_t k = 0; n != NULL && !later && k < n->info.output_count; k++)
            later = n->info.outputs[k] != INLAY_NONE && marks[n->info.outputs[k]];
        if (!later || pass_is_op(n, "Shape") || pass_is_op(n, "Size"))
            continue;
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (rw_input(w, n, k) != INLAY_NONE)
                marks[rw_input(w, n, k)] = true;
        for (uint32_t k = 0; k < n->capture_count; k++)
            marks[rw_resolve(w, n->captures[k])] = true;
    }
    return true;
}

bool rw_is_quantized_later(struct rewrite *w, uint32_t v)
{
    if (!w->ctx->quantizes || (w->quantized == NULL && !find_quantized(w)))
        return false;
    return v >= w->quantized_count || w->quantized[v];
}

bool rw_is_only_use(const struct rewrite *w, uint32_t v)
{
    v = rw_resolve(w, v);
    return v != INLAY_NONE && w->uses[v] == 1 && !w->is_output[v];
}

bool rw_is_unused(const struct rewrite *w, const graph_node *n, uint32_t i)
{
    uint32_t v = i < n->info.output_count ? n->info.outputs[i] : INLAY_NONE;

    return v == INLAY_NONE || w->uses[v] == 0;
}

static bool same_dim(const inlay_dim *a, const inlay_dim *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == INLAY_DIM_FIXED ? a->value == b->value : a->kind == INLAY_DIM_SYMBOLIC && a->symbol == b->symbol;
}

bool rw_same_type(const struct rewrite *w, uint32_t a, uint32_t b)
{
    const inlay_value_info *x = rw_info(w, a), *y = rw_info(w, b);

    if (x == NULL || y == NULL || x->kind != y->kind || x->dtype != y->dtype || x->dtype == INLAY_UNDEFINED ||
        x->rank != y->rank || x->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        if (!same_dim(&x->dims[d], &y->dims[d]))
            return false;
    return true;
}

/* Is v made of x and of constants of rank 0 alone, as far as visits go? */
static bool made_of_scalars(const struct rewrite *w, uint32_t v, uint32_t x, uint32_t *visits)
{
    const graph_node *n = rw_maker(w, v);

    if (v == x || v == INLAY_NONE)
        return true;
    if (rw_is_constant(w, v))
        return rw_info(w, v)->rank == 0;
    if (n == NULL || *visits == 0)
        return false;
    --*visits;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (!made_of_scalars(w, rw_input(w, n, i), x, visits))
            return false;
    return true;
}

bool rw_keeps_rank(const struct rewrite *w, uint32_t y, uint32_t x)
{
    const uint32_t rank = rw_info(w, x)->rank;
    uint32_t visits = 64;

    if (rank != INLAY_RANK_UNKNOWN && rw_info(w, y)->rank != INLAY_RANK_UNKNOWN)
        return rank == rw_info(w, y)->rank;
    return made_of_scalars(w, y, x, &visits);
}

int64_t rw_dim(const inlay_value_info *v, int64_t d)
{
    if (v == NULL || v->rank == INLAY_RANK_UNKNOWN)
        return -1;
    d = d < 0 ? d + (int64_t)v->rank : d;
    return d < 0 || d >= (int64_t)v->rank || v->dims[d].kind != INLAY_DIM_FIXED ? -1 : v->dims[d].value;
}

bool rw_is_constant(const struct rewrite *w, uint32_t v)
{
    return v != INLAY_NONE && (w->g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

static int64_t elements_of(const inlay_value_info *v)
{
    int64_t n = 1;

    for (uint32_t d = 0; d < v->rank; d++)
        n *= v->dims[d].value; /* of a constant: the loader has checked the product */
    return n;
}

bool rw_scalar(const struct rewrite *w, uint32_t v, double *out)
{
    const inlay_value_info *info = rw_info(w, v);

    return rw_is_constant(w, v) && element_is_float(info->dtype) && elements_of(info) == 1 &&
           element_number(info->dtype, info->data, 0, out, NULL);
}

bool rw_is_near(const struct rewrite *w, uint32_t v, double is, double value)
{
    /* the spacing of the type's numbers, where it is widest beside them */
    const inlay_dtype dtype = rw_info(w, v)->dtype;
    const double spacing = dtype == INLAY_BFLOAT16  ? 0x1p-7
                           : dtype == INLAY_FLOAT16 ? 0x1p-10
                           : dtype == INLAY_FLOAT   ? 0x1p-23
                                                    : 0x1p-52;

    return fabs(is - value) <= 2 * spacing * fabs(value);
}

bool rw_is_scalar(const struct rewrite *w, uint32_t v, double value)
{
    double is;

    if (!rw_scalar(w, v, &is))
        return false;
    return value == floor(value) || is == value ? is == value : rw_is_near(w, v, is, value);
}

bool rw_ints(struct rewrite *w, uint32_t v, const int64_t **out, uint32_t *out_count)
{
    const inlay_value_info *info = rw_info(w, v);
    int64_t count, *list;

    *out = NULL;
    *out_count = 0;
    if (!rw_is_constant(w, v) || info->rank > 1 || (info->dtype != INLAY_INT64 && info->dtype != INLAY_INT32))
        return false;
    count = elements_of(info);
    list = count > (1 << 20) ? NULL : arena_array(&w->scratch, (size_t)count + 1, sizeof *list);
    for (int64_t i = 0; list != NULL && i < count; i++)
        if (!element_integer(info->dtype, info->data, i, &list[i]))
            list = NULL;
    if (list == NULL)
        return false;
    *out = list;
    *out_count = (uint32_t)count;
    return true;
}

const float *rw_floats(struct rewrite *w, uint32_t v)
{
    const inlay_value_info *info = rw_info(w, v);
    float *copy;

    if (!rw_is_constant(w, v) || info->dtype != INLAY_FLOAT)
        return NULL;
    if ((uintptr_t)info->data % _Alignof(float) == 0)
        return info->data;
    copy = arena_alloc(&w->scratch, (size_t)info->data_bytes + 1);
    if (copy != NULL)
        memcpy(copy, info->data, (size_t)info->data_bytes);
    return copy;
}

int64_t rw_attr_int(const graph_node *n, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

double rw_attr_float(const graph_node *n, const char *name, double otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_FLOAT ? a->f : otherwise;
}

bool rw_attr_is(const graph_node *n, const char *name, const char *text)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return strcmp(a != NULL && a->kind == INLAY_ATTR_STRING ? a->s.data : "", text) == 0;
}

const int64_t *rw_attr_ints(const graph_node *n, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *a = graph_attr(n, name);
    bool has = a != NULL && a->kind == INLAY_ATTR_INTS;

    *out_count = has ? a->count : 0;
    return has ? a->ints : NULL;
}

/* ------------------------------------------------------------------ changing */

graph_node *rw_make(struct rewrite *w, const char *op_type, int64_t opset, const graph_node *like,
                    const uint32_t *inputs, uint32_t input_count, uint32_t output_count)
{
    graph_node *n =
        graph_add_node(w->g, op_type, NULL, like != NULL ? like->info.name.data : NULL, input_count, output_count);

    if (n == NULL)
        return NULL;
    w->g->nodes[w->g->node_count - 1] = NULL; /* a place, but it is not in the graph yet */
    if (opset != 0)
        n->opset = opset;
    for (uint32_t i = 0; i < input_count; i++)
        ((uint32_t *)(uintptr_t)n->info.inputs)[i] = rw_resolve(w, inputs[i]);
    return n;
}

graph_node *rw_copy(struct rewrite *w, const graph_node *n)
{
    graph_node *copy =
        rw_make(w, n->info.op_type.data, n->opset, n, n->info.inputs, n->info.input_count, n->info.output_count);

    if (copy == NULL)
        return NULL;
    copy->info.domain = n->info.domain;
    copy->info.attrs = n->info.attrs; /* binding adds the defaults again */
    copy->info.attr_stride = n->info.attr_stride;
    copy->info.attr_count = copy->own_attr_count = n->own_attr_count;
    copy->doc = n->doc;
    copy->extra = n->extra;
    copy->place = n->place;
    return copy;
}

void rw_set_input(const struct rewrite *w, graph_node *fresh, uint32_t i, uint32_t v)
{
    const bool is_in_graph = place_of(w, fresh) != INLAY_NONE;

    INLAY_CHECK(!is_in_graph || w->g->model->trusts_file);
    if (!is_in_graph)
        ((uint32_t *)(uintptr_t)fresh->info.inputs)[i] = rw_resolve(w, v);
}

/* Infers what was inserted at this node so far. Nodes with bodies stay unknown, and so does what cannot be inferred:
 * when the pass has ended, that is an error which says why. */
static bool infer_inserted(struct rewrite *w)
{
    for (uint32_t i = w->first_fresh; i < w->g->node_count; i++) {
        graph_node *n = w->g->nodes[i];
        graph_value **out;
        inlay_dtype dtype;
        inlay_status status;

        if (n == NULL || n->schema != NULL || n->body_count > 0)
            continue;
        out = arena_array(&w->scratch, (size_t)n->info.output_count + 1, sizeof(graph_value *));
        if (out == NULL)
            return false;
        for (uint32_t o = 0; o < n->info.output_count; o++)
            out[o] = n->info.outputs[o] == INLAY_NONE ? NULL : &w->g->values[n->info.outputs[o]];
        dtype = out[0] == NULL ? INLAY_UNDEFINED : out[0]->info.dtype;
        status = graph_bind_node(w->g, n, NULL);
        if (status == INLAY_OK)
            status = graph_infer_apart(w->g, n, out, &w->g->model->arena, NULL);
        if (status == INLAY_OUT_OF_MEMORY)
            return false;
        for (uint32_t o = 0; o < n->info.output_count; o++) {
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
static inlay_status check_fresh(struct rewrite *w, const graph_node *old, graph_node *fresh, uint32_t outputs,
                                bool *out_refused)
{
    graph_value *made = arena_array(&w->scratch, (size_t)fresh->info.output_count + 1, sizeof *made);
    graph_value **out = arena_array(&w->scratch, (size_t)fresh->info.output_count + 1, sizeof(graph_value *));
    bool differs = false;
    inlay_status status;

    *out_refused = false;
    if (made == NULL || out == NULL || !infer_inserted(w))
        return rw_no_memory(w);
    status = graph_bind_node(w->g, fresh, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return rw_no_memory(w);
    if (status != INLAY_OK || fresh->body_count > 0)
        return INLAY_OK; /* binding says what is wrong when the pass has ended */
    for (uint32_t o = 0; o < outputs; o++)
        out[o] = old->info.outputs[o] == INLAY_NONE ? NULL : &made[o];
    status = graph_infer_apart(w->g, fresh, out, &w->scratch, NULL);
    if (status == INLAY_OUT_OF_MEMORY)
        return rw_no_memory(w);
    for (uint32_t o = 0; status == INLAY_OK && o < outputs; o++)
        differs |= out[o] != NULL && type_guard_differs(out[o], &w->g->values[old->info.outputs[o]]);
    *out_refused = status != INLAY_OK || type_guard_refuses(w->g->model, differs);
    return INLAY_OK;
}

inlay_status rw_replace(struct rewrite *w, graph_node *old, graph_node *fresh)
{
    uint32_t at = place_of(w, old), reads = old->info.input_count + old->capture_count;
    uint32_t both =
        old->info.output_count < fresh->info.output_count ? old->info.output_count : fresh->info.output_count;
    bool refused;
    inlay_status status = check_fresh(w, old, fresh, both, &refused);

    if (status != INLAY_OK || refused)
        return status;
    note(w, old, "%s becomes %s", old->info.op_type.data, fresh->info.op_type.data);
    for (uint32_t i = 0; i < both; i++)
        ((uint32_t *)(uintptr_t)fresh->info.outputs)[i] = old->info.outputs[i];
    history_removed(w->g, old);
    w->g->nodes[at] = fresh;
    for (uint32_t i = 0; i < fresh->info.input_count; i++)
        use(w, fresh->info.inputs[i]);
    for (uint32_t i = 0; i < reads; i++)
        release(w, i < old->info.input_count ? old->info.inputs[i] : old->captures[i - old->info.input_count]);
    w->changed = true;
    return INLAY_OK;
}

inlay_status rw_take_over(struct rewrite *w, graph_node *old, const uint32_t *values, uint32_t count)
{
    uint32_t at = place_of(w, old), reads = old->info.input_count + old->capture_count;
    bool differs = false;

    if (!infer_inserted(w))
        return rw_no_memory(w);
    for (uint32_t o = 0; o < count && o < old->info.output_count; o++)
        if (values[o] != 0 && old->info.outputs[o] != INLAY_NONE)
            differs |= type_guard_differs(&w->g->values[values[o] - 1], &w->g->values[old->info.outputs[o]]);
    if (type_guard_refuses(w->g->model, differs))
        return INLAY_OK;
    note(w, old, "%s is spelled out", old->info.op_type.data);
    for (uint32_t o = 0; o < count && o < old->info.output_count; o++) {
        const uint32_t from = old->info.outputs[o], to = values[o] - 1;
        graph_node *source;

        if (values[o] == 0 || from == INLAY_NONE)
            continue;
        source = rw_maker(w, to);
        for (uint32_t i = 0; i < source->info.output_count; i++)
            if (source->info.outputs[i] == to)
                ((uint32_t *)(uintptr_t)source->info.outputs)[i] = from;
        w->maker[from] = w->maker[to];
        w->uses[from] += w->uses[to];
        w->forward[to] = from;
    }
    history_removed(w->g, old);
    w->g->nodes[at] = NULL;
    for (uint32_t i = 0; i < reads; i++)
        release(w, i < old->info.input_count ? old->info.inputs[i] : old->captures[i - old->info.input_count]);
    w->changed = true;
    return INLAY_OK;
}

inlay_status rw_insert(struct rewrite *w, graph_node *fresh, inlay_dtype dtype)
{
    struct graph *g = w->g;
    uint32_t at = g->node_count;

    while (g->nodes[--at] != NULL)
        ; /* rw_make has left a place; sorting moves the node to right before its first reader */
    for (uint32_t i = 0; i < fresh->info.output_count; i++) {
        uint32_t v = graph_add_value(g, NULL, 0);

        if (v == INLAY_NONE || !reserve(w))
            return rw_no_memory(w);
        g->values[v].info.kind = INLAY_VALUE_TENSOR;
        g->values[v].info.dtype = dtype;
        g->values[v].info.rank = INLAY_RANK_UNKNOWN;
        g->values[v].info.producer = INLAY_NONE;
        ((uint32_t *)(uintptr_t)fresh->info.outputs)[i] = v;
        w->maker[v] = at;
    }
    for (uint32_t i = 0; i < fresh->info.input_count; i++)
        use(w, fresh->info.inputs[i]);
    for (uint32_t i = 0; i < fresh->capture_count; i++)
        use(w, fresh->captures[i]);
    g->nodes[at] = fresh;
    w->inserted = true;
    return INLAY_OK;
}

inlay_status rw_forward(struct rewrite *w, uint32_t from, uint32_t to, bool *out_done)
{
    graph_node *maker = rw_maker(w, from), *source;
    uint32_t at;

    to = rw_resolve(w, to);
    *out_done = false;
    if (from == INLAY_NONE || to == INLAY_NONE || from == to ||
        (maker == NULL && (!rw_is_constant(w, from) || w->is_output[from])))
        return INLAY_OK;
    if (!infer_inserted(w))
        return rw_no_memory(w);
    if (type_guard_refuses(w->g->model, type_guard_differs(&w->g->values[from], &w->g->values[to])))
        return INLAY_OK;
    if (maker == NULL) {
        w->forward[from] = to;
        w->uses[to] += w->uses[from];
        w->uses[from] = 0;
        w->changed_constants = *out_done = true;
        return INLAY_OK;
    }
    if (!w->is_output[from]) {
        note(w, maker, "%s is not needed for '%s'", maker->info.op_type.data, w->g->values[from].info.name.data);
        w->forward[from] = to;
        w->uses[to] += w->uses[from];
        w->uses[from] = 1; /* the one that is released now, so that its maker goes */
        w->forward[from] = INLAY_NONE;
        release(w, from);
        w->forward[from] = to;
    } else {
        source = rw_maker(w, to);
        if (source == NULL || w->is_output[to] || maker->info.output_count != 1)
            return INLAY_OK;
        note(w, maker, "%s is not needed for '%s'", maker->info.op_type.data, w->g->values[from].info.name.data);
        for (uint32_t i = 0; i < source->info.output_count; i++)
            if (source->info.outputs[i] == to)
                ((uint32_t *)(uintptr_t)source->info.outputs)[i] = from;
        at = w->maker[from];
        w->maker[from] = w->maker[to];
        w->uses[from] += w->uses[to];
        w->forward[to] = from;
        history_removed(w->g, maker);
        w->g->nodes[at] = NULL;
        for (uint32_t i = 0; i < maker->info.input_count; i++)
            release(w, maker->info.inputs[i]);
    }
    *out_done = true;
    w->changed = true;
    return INLAY_OK;
}

uint32_t rw_constant(struct rewrite *w, inlay_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                     uint64_t bytes)
{
    void *copy = graph_blob_alloc(w->g->model, bytes > 0 ? (size_t)bytes : 1);

    if (copy == NULL)
        return INLAY_NONE;
    if (bytes > 0)
        memcpy(copy, data, (size_t)bytes);
    return rw_constant_blob(w, dtype, rank, dims, copy, bytes);
}

uint32_t rw_constant_blob(struct rewrite *w, inlay_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                          uint64_t bytes)
{
    uint32_t v = graph_add_value(w->g, NULL, 0);

    if (v == INLAY_NONE || !reserve(w) || graph_set_constant(w->g, v, dtype, rank, dims, data, bytes) != INLAY_OK)
        return INLAY_NONE;
    return v;
}

uint32_t rw_constant_ints(struct rewrite *w, const int64_t *values, uint32_t count)
{
    int64_t dims[1] = { count };

    return rw_constant(w, INLAY_INT64, 1, dims, values, (uint64_t)count * sizeof *values);
}
