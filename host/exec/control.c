/* exec/control.c - If (ONNX 1, 11, ...), Loop (1, 11, ...), Scan (8, 9, ...) and SequenceMap (17): bodies are programs
 * of their own, run by runners that live as long as the context. */
#include "base/checked.h"
#include "exec/host_node.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ bodies */

static inlay_status body_runner(host_call *c, uint32_t body, runner **out_runner)
{
    uint32_t index = (uint32_t)(c->s->plan->step - c->r->prog->steps);
    const program_step *ps = c->s->plan->step;

    if (c->r->children[index] == NULL)
        c->r->children[index] = calloc((size_t)ps->node->body_count + 1, sizeof(runner *));
    if (c->r->children[index] == NULL)
        return inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory for the body of node '%s'", c->node->info.name.data);
    *out_runner = c->r->children[index][body];
    if (*out_runner != NULL)
        return INLAY_OK;
    if (runner_create(ps->bodies[body], c->r->shared, &c->r->children[index][body], c->diag) != INLAY_OK)
        return INLAY_OUT_OF_MEMORY;
    *out_runner = c->r->children[index][body];
    return INLAY_OK;
}

static uint32_t find_body(const host_call *c, const char *attr)
{
    for (uint32_t i = 0; i < c->node->body_count; i++)
        if (strcmp(c->node->bodies[i].attr, attr) == 0)
            return i;
    return INLAY_NONE;
}

/* Scratch of the node for the inputs of a body, with the captured ones filled in. */
static rt_value *body_inputs(host_call *c, uint32_t body)
{
    const graph_body *b = &c->node->bodies[body];
    const graph *g = b->graph;
    rt_value *in = arena_array(&c->b->scratch, (size_t)g->input_count + g->captured_count + 1, sizeof *in);

    for (uint32_t i = 0; in != NULL && i < g->captured_count; i++) {
        uint32_t k = i;
        if (k >= b->capture_count || b->capture_inner[k] != g->captured[i])
            for (k = 0; k < b->capture_count && b->capture_inner[k] != g->captured[i]; k++)
                ;
        if (k < b->capture_count)
            in[g->input_count + i] = host_value(c, b->capture_outer[k]);
    }
    return in;
}

/* Passes the body's result on as output o of the node. */
static void pass_output(host_call *c, uint32_t o, const runner *body, uint32_t body_output)
{
    uint32_t v = o < c->node->info.output_count ? c->node->info.outputs[o] : INLAY_NONE;

    if (v != INLAY_NONE)
        runner_set(c->r, c->b, v, inlay_value_ref(body->outputs[body_output]));
}

static inlay_status body_arity(const host_call *c, const graph *g, uint32_t inputs, uint32_t outputs)
{
    if (g->input_count == inputs && g->output_count == outputs)
        return INLAY_OK;
    return inlay_fail(c->diag, INLAY_INVALID_MODEL,
                      "the body of %s node '%s' has %u inputs and %u outputs; the node calls for %u and %u",
                      c->node->info.op_type.data, c->node->info.name.data, g->input_count, g->output_count, inputs,
                      outputs);
}

/* A one-element tensor for a body: iteration number, condition. Exporters declare them as [] or as [1]. */
static rt_value one_element(const graph *g, uint32_t input, inlay_dtype dtype, const void *element)
{
    static const int64_t one = 1;
    const graph_value *v = &g->values[g->inputs[input]];
    bool vector = v->declared && v->declared_rank == 1;

    return (rt_value){ .kind = INLAY_KIND_TENSOR, .dtype = dtype, .rank = vector, .dims = &one,
                       .buffer = { .handle = (uintptr_t)element, .bytes = inlay_dtype_bits(dtype) / 8 } };
}

static inlay_status read_bool(const host_call *c, const rt_value *x, const char *what, bool *out)
{
    if (x->kind != INLAY_KIND_TENSOR || x->dtype != INLAY_BOOL || rt_count(x) != 1) {
        char text[128];
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "the %s of %s node '%s' must be one bool, not %s", what,
                          c->node->info.op_type.data, c->node->info.name.data, rt_describe(x, text));
    }
    *out = *(const uint8_t *)inlay_buffer_host(&x->buffer) != 0;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ If */

static inlay_status run_if(host_call *c)
{
    inlay_status status;
    rt_value cond = host_value(c, c->node->info.inputs[0]), *in = NULL;
    runner *body = NULL;
    uint32_t index;
    bool yes = false;

    status = read_bool(c, &cond, "condition", &yes);
    if (status != INLAY_OK)
        return status;
    index = find_body(c, yes ? "then_branch" : "else_branch");
    if (index == INLAY_NONE)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "If node '%s' lacks a branch", c->node->info.name.data);
    INLAY_TRY(body_runner(c, index, &body));
    INLAY_TRY(body_arity(c, body->prog->graph, 0, c->node->info.output_count));
    in = body_inputs(c, index);
    if (in == NULL) {
        status = inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory to enter node '%s'", c->node->info.name.data);
        goto done;
    }
    INLAY_TRY(runner_run(body, in, c->diag));
    for (uint32_t o = 0; o < c->node->info.output_count; o++)
        pass_output(c, o, body, o);
done:
    return status;
}

/* ------------------------------------------------------------------ stacking results */

/* Results of iterations, laid one after the other along a new axis. */
typedef struct stack {
    inlay_dtype dtype;
    uint32_t rank; /* of one result */
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *room; /* a tensor of bytes from the pool, taken anew when it gets too small; NULL at first */
    size_t used;
    int64_t count;
} stack;

static char *stack_bytes(const stack *s)
{
    return s->room == NULL ? NULL : inlay_value_data(s->room);
}

static inlay_status stack_grow(host_call *c, stack *s, size_t more)
{
    int64_t capacity = (int64_t)((s->used + more) * 2 + 64);
    inlay_value *bigger = NULL;
    inlay_status status;

    if (s->room != NULL && s->used + more <= s->room->buffer.bytes)
        return INLAY_OK;
    status = pool_take(c->r->shared, INLAY_UINT8, 1, &capacity, &bigger, c->diag);
    if (status != INLAY_OK)
        return status;
    if (s->used > 0)
        memcpy(inlay_value_data(bigger), stack_bytes(s), s->used);
    pool_give(c->r->shared, s->room);
    s->room = bigger;
    return INLAY_OK;
}

static inlay_status stack_push(host_call *c, stack *s, const inlay_value *v)
{
    size_t more = v == NULL ? 0 : (size_t)inlay_value_bytes(v);
    inlay_status status;
    char *top;

    if (v == NULL || v->kind != INLAY_KIND_TENSOR || v->rank >= INLAY_MAX_RANK || inlay_dtype_bits(v->dtype) < 8)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "a scan output of node '%s' is no tensor that can be stacked",
                          c->node->info.name.data);
    if (s->count == 0) {
        s->dtype = v->dtype;
        s->rank = v->rank;
        memcpy(s->dims, v->dims, v->rank * sizeof *v->dims);
    } else if (v->dtype != s->dtype || v->rank != s->rank || memcmp(v->dims, s->dims, v->rank * sizeof *v->dims) != 0) {
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH,
                          "a scan output of node '%s' changes its shape in iteration %lld", c->node->info.name.data,
                          (long long)s->count);
    }
    status = stack_grow(c, s, more);
    if (status != INLAY_OK)
        return status;
    top = stack_bytes(s) + s->used;
    memcpy(top, inlay_value_data(v), more);
    if (v->dtype == INLAY_STRING) {
        /* The texts belong to a value that the next iteration overwrites. */
        inlay_str *texts = (inlay_str *)(void *)top;
        for (int64_t i = 0; i < v->count; i++) {
            char *copy = c->r->shared->run.string_alloc(c->r->shared, texts[i].bytes + 1);
            if (copy == NULL)
                return inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory for texts of node '%s'",
                                  c->node->info.name.data);
            if (texts[i].bytes > 0)
                memcpy(copy, texts[i].data, texts[i].bytes);
            texts[i].data = copy;
        }
    }
    s->used += more;
    s->count++;
    return INLAY_OK;
}

/* No iteration: what inference knows of one result, with 0 where it knows nothing. */
static void stack_shape_unseen(stack *s, const graph *body, uint32_t output)
{
    const inlay_value_info *info = &body->values[body->outputs[output]].info;

    s->dtype = info->dtype;
    s->rank = info->rank < INLAY_MAX_RANK ? info->rank : 0;
    for (uint32_t d = 0; d < s->rank; d++)
        s->dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : 0;
}

/* Moves elements between [outer, length, inner] and one slice [outer, inner] of it. */
static void move_slice(char *whole, char *slice, int64_t outer, int64_t length, int64_t at, size_t inner, bool to_slice)
{
    for (int64_t o = 0; o < outer; o++) {
        char *in_whole = whole + ((size_t)(o * length + at)) * inner, *in_slice = slice + (size_t)o * inner;
        memcpy(to_slice ? in_slice : in_whole, to_slice ? in_whole : in_slice, inner);
    }
}

/* The stack as a tensor with the new axis at `axis` (of the result's rank), in reverse order on request. */
static inlay_status stack_pop(host_call *c, stack *s, uint32_t axis, bool reverse, inlay_value **out_value)
{
    int64_t dims[INLAY_MAX_RANK], outer = 1;
    size_t inner;
    inlay_status status;

    for (uint32_t d = 0; d <= s->rank; d++)
        dims[d] = d < axis ? s->dims[d] : d == axis ? s->count : s->dims[d - 1];
    status = pool_take(c->r->shared, s->dtype, s->rank + 1, dims, out_value, c->diag);
    if (status != INLAY_OK || s->count == 0 || s->used == 0)
        return status;
    for (uint32_t d = 0; d < axis; d++)
        outer *= s->dims[d];
    inner = s->used / (size_t)s->count / (size_t)outer;
    for (int64_t i = 0; i < s->count; i++)
        move_slice(inlay_value_data(*out_value), stack_bytes(s) + (size_t)i * (size_t)outer * inner, outer, s->count,
                   reverse ? s->count - 1 - i : i, inner, false);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ Loop */

typedef struct loop {
    host_call *c;
    runner *body;
    const graph *g;
    rt_value *in;
    uint32_t carried;      /* loop-carried values */
    uint32_t scans;        /* scan outputs */
    inlay_value **held;    /* [carried] references to what `in` shows, NULL for the node's own inputs */
    stack *stacks;         /* [scans] */
} loop;

static void loop_deinit(loop *l)
{
    for (uint32_t i = 0; l->held != NULL && i < l->carried; i++)
        pool_give(l->c->r->shared, l->held[i]);
    for (uint32_t i = 0; l->stacks != NULL && i < l->scans; i++)
        pool_give(l->c->r->shared, l->stacks[i].room);
}

/* The body's results become the next iteration's inputs. */
static inlay_status loop_advance(loop *l, uint32_t first_input, uint32_t first_output)
{
    for (uint32_t i = 0; i < l->carried; i++) {
        inlay_value *v = l->body->outputs[first_output + i];
        if (v == NULL)
            return inlay_fail(l->c->diag, INLAY_INVALID_MODEL, "the body of node '%s' leaves output %u empty",
                              l->c->node->info.name.data, first_output + i);
        inlay_value_ref(v);
        pool_give(l->c->r->shared, l->held[i]);
        l->held[i] = v;
        l->in[first_input + i] = rt_from_value(v);
    }
    for (uint32_t i = 0; i < l->scans; i++) {
        inlay_status status = stack_push(l->c, &l->stacks[i], l->body->outputs[first_output + l->carried + i]);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* Carried values as they are now become the node's outputs. */
static inlay_status loop_finish_carried(loop *l, uint32_t first_input)
{
    for (uint32_t i = 0; i < l->carried; i++) {
        uint32_t v = i < l->c->node->info.output_count ? l->c->node->info.outputs[i] : INLAY_NONE;
        inlay_value *value = NULL;
        inlay_status status;

        if (v == INLAY_NONE || l->in[first_input + i].kind == 0)
            continue;
        status = pool_value(l->c->r->shared, &l->in[first_input + i], &value, l->c->diag);
        if (status != INLAY_OK)
            return status;
        runner_set(l->c->r, l->c->b, v, value);
    }
    return INLAY_OK;
}

static inlay_status loop_init(loop *l, host_call *c, uint32_t carried, uint32_t scans)
{
    uint32_t body = find_body(c, "body");
    inlay_status status;

    *l = (loop){ .c = c, .carried = carried, .scans = scans };
    if (body == INLAY_NONE)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "%s node '%s' has no body", c->node->info.op_type.data,
                          c->node->info.name.data);
    status = body_runner(c, body, &l->body);
    if (status != INLAY_OK)
        return status;
    l->g = l->body->prog->graph;
    l->in = body_inputs(c, body);
    l->held = arena_array(&c->b->scratch, (size_t)carried + 1, sizeof(inlay_value *));
    l->stacks = arena_array(&c->b->scratch, (size_t)scans + 1, sizeof *l->stacks);
    if (l->in == NULL || l->held == NULL || l->stacks == NULL)
        return inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory to enter node '%s'", c->node->info.name.data);
    return INLAY_OK;
}

static inlay_status run_loop(host_call *c)
{
    const inlay_node_info *n = &c->node->info;
    inlay_status status = INLAY_OK;
    uint32_t carried = n->input_count > 2 ? n->input_count - 2 : 0;
    uint32_t scans = n->output_count > carried ? n->output_count - carried : 0;
    rt_value limit = host_value(c, n->input_count > 0 ? n->inputs[0] : INLAY_NONE);
    rt_value cond = host_value(c, n->input_count > 1 ? n->inputs[1] : INLAY_NONE);
    int64_t most = INT64_MAX, iteration;
    uint8_t go_byte = 1;
    bool go = true;
    loop l = { .c = c };

    INLAY_TRY(loop_init(&l, c, carried, scans));
    /* Trailing scan outputs that the node does not name are computed and dropped. */
    scans = l.g->output_count > carried ? l.g->output_count - carried - 1 : 0;
    INLAY_TRY(body_arity(c, l.g, carried + 2, carried + 1 + (scans > l.scans ? scans : l.scans)));
    if (limit.kind != 0) {
        if (limit.dtype != INLAY_INT64 || rt_count(&limit) != 1) {
            status = inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "the trip count of Loop node '%s' must be one int64",
                                n->name.data);
            goto done;
        }
        memcpy(&most, inlay_buffer_host(&limit.buffer), sizeof most);
    }
    if (cond.kind != 0)
        INLAY_TRY(read_bool(c, &cond, "condition", &go));
    for (uint32_t i = 0; i < carried; i++)
        l.in[2 + i] = host_value(c, n->inputs[2 + i]);
    for (iteration = 0; go && iteration < most; iteration++) {
        rt_value again;

        go_byte = 1;
        l.in[0] = one_element(l.g, 0, INLAY_INT64, &iteration);
        l.in[1] = one_element(l.g, 1, INLAY_BOOL, &go_byte);
        INLAY_TRY(run_poll(&c->r->shared->run));
        INLAY_TRY(runner_run(l.body, l.in, c->diag));
        again = rt_from_value(l.body->outputs[0]);
        INLAY_TRY(read_bool(c, &again, "body's condition", &go));
        INLAY_TRY(loop_advance(&l, 2, 1));
    }
    INLAY_TRY(loop_finish_carried(&l, 2));
    for (uint32_t i = 0; i < l.scans; i++) {
        uint32_t v = n->outputs[carried + i];
        inlay_value *value = NULL;
        if (v == INLAY_NONE || 1 + carried + i >= l.g->output_count)
            continue;
        if (l.stacks[i].count == 0)
            stack_shape_unseen(&l.stacks[i], l.g, 1 + carried + i);
        INLAY_TRY(stack_pop(c, &l.stacks[i], 0, false, &value));
        runner_set(c->r, c->b, v, value);
    }
done:
    loop_deinit(&l);
    return status;
}

/* ------------------------------------------------------------------ Scan */

typedef struct scan_input {
    rt_value whole;
    rt_value slice;
    int64_t dims[INLAY_MAX_RANK];
    int64_t outer, length;
    size_t inner;
    bool reverse;
    char *memory; /* for axes other than the first */
} scan_input;

static int64_t int_at(const graph_node *n, const char *name, uint32_t i, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_INTS && i < a->count ? a->ints[i] : otherwise;
}

static inlay_status scan_prepare(host_call *c, scan_input *s, int64_t axis, bool reverse)
{
    int64_t rank = s->whole.rank;

    if (s->whole.kind != INLAY_KIND_TENSOR || rank == 0 || axis < -rank || axis >= rank ||
        inlay_dtype_bits(s->whole.dtype) < 8)
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "Scan node '%s' can't scan axis %lld of a tensor of rank %lld",
                          c->node->info.name.data, (long long)axis, (long long)rank);
    axis += axis < 0 ? rank : 0;
    s->outer = 1;
    s->length = s->whole.dims[axis];
    s->inner = inlay_dtype_bits(s->whole.dtype) / 8;
    s->reverse = reverse;
    s->slice = s->whole;
    s->slice.owner = NULL;
    s->slice.dims = s->dims;
    s->slice.rank = (uint32_t)rank - 1;
    for (int64_t d = 0, k = 0; d < rank; d++) {
        if (d < axis)
            s->outer *= s->whole.dims[d];
        else if (d > axis)
            s->inner *= (size_t)s->whole.dims[d];
        if (d != axis)
            s->dims[k++] = s->whole.dims[d];
    }
    s->slice.buffer.bytes = (uint64_t)s->outer * s->inner;
    if (s->outer != 1) {
        s->memory = arena_alloc(&c->b->scratch, (size_t)s->slice.buffer.bytes);
        if (s->memory == NULL)
            return inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory for a slice in node '%s'",
                              c->node->info.name.data);
    }
    return INLAY_OK;
}

static void scan_slice(scan_input *s, int64_t step)
{
    int64_t at = s->reverse ? s->length - 1 - step : step;
    char *whole = inlay_buffer_host(&s->whole.buffer);

    s->slice.buffer.offset = 0;
    if (s->memory == NULL) {
        s->slice.buffer.handle = (uintptr_t)(whole + (size_t)at * s->inner);
    } else {
        move_slice(whole, s->memory, s->outer, s->length, at, s->inner, true);
        s->slice.buffer.handle = (uintptr_t)s->memory;
    }
}

/* One pass over the sequence. l->in holds the states; scans the inputs; length what every scan input must have. */
static inlay_status scan_pass(loop *l, scan_input *scans, uint32_t scan_count, int64_t length)
{
    inlay_status status = INLAY_OK;

    for (int64_t t = 0; t < length; t++) {
        for (uint32_t i = 0; i < scan_count; i++) {
            scan_slice(&scans[i], t);
            l->in[l->carried + i] = scans[i].slice;
        }
        status = run_poll(&l->c->r->shared->run);
        if (status == INLAY_OK)
            status = runner_run(l->body, l->in, l->c->diag);
        if (status == INLAY_OK)
            status = loop_advance(l, 0, 0);
        if (status != INLAY_OK)
            break;
    }
    return status;
}

static inlay_status scan_outputs(loop *l)
{
    host_call *c = l->c;

    for (uint32_t i = 0; i < l->scans; i++) {
        uint32_t v = c->node->info.outputs[l->carried + i];
        int64_t axis = int_at(c->node, "scan_output_axes", i, 0);
        bool reverse = int_at(c->node, "scan_output_directions", i, 0) != 0;
        inlay_value *value = NULL;
        inlay_status status;

        if (l->stacks[i].count == 0)
            stack_shape_unseen(&l->stacks[i], l->g, l->carried + i);
        axis += axis < 0 ? (int64_t)l->stacks[i].rank + 1 : 0;
        if (axis < 0 || axis > (int64_t)l->stacks[i].rank)
            return inlay_fail(c->diag, INLAY_INVALID_MODEL, "scan_output_axes of node '%s' is out of range",
                              c->node->info.name.data);
        status = stack_pop(c, &l->stacks[i], (uint32_t)axis, reverse, &value);
        if (status != INLAY_OK)
            return status;
        if (v == INLAY_NONE)
            inlay_value_unref(value);
        else
            runner_set(c->r, c->b, v, value);
    }
    return INLAY_OK;
}

/* Scan-9 and later: no batch. */
static inlay_status run_scan(host_call *c)
{
    const inlay_node_info *n = &c->node->info;
    const inlay_attr_info *attr = graph_attr(c->node, "num_scan_inputs");
    uint32_t count = attr != NULL && attr->i > 0 && attr->i <= n->input_count ? (uint32_t)attr->i : 0;
    uint32_t states = n->input_count - count, outs = n->output_count > states ? n->output_count - states : 0;
    scan_input *scans = arena_array(&c->b->scratch, (size_t)count + 1, sizeof *scans);
    inlay_status status = INLAY_OK;
    loop l = { .c = c };

    if (count == 0 || scans == NULL) {
        status = count == 0 ? inlay_fail(c->diag, INLAY_INVALID_MODEL, "num_scan_inputs of node '%s' is out of range",
                                         n->name.data)
                            : inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory to enter node '%s'", n->name.data);
        goto done;
    }
    INLAY_TRY(loop_init(&l, c, states, outs));
    INLAY_TRY(body_arity(c, l.g, states + count, states + outs));
    for (uint32_t i = 0; i < states; i++)
        l.in[i] = host_value(c, n->inputs[i]);
    for (uint32_t i = 0; i < count; i++) {
        scans[i].whole = host_value(c, n->inputs[states + i]);
        INLAY_TRY(scan_prepare(c, &scans[i], int_at(c->node, "scan_input_axes", i, 0),
                               int_at(c->node, "scan_input_directions", i, 0) != 0));
        if (scans[i].length != scans[0].length) {
            status = inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "Scan node '%s' scans inputs of %lld and %lld steps",
                                n->name.data, (long long)scans[0].length, (long long)scans[i].length);
            goto done;
        }
    }
    INLAY_TRY(scan_pass(&l, scans, count, scans[0].length));
    INLAY_TRY(loop_finish_carried(&l, 0));
    INLAY_TRY(scan_outputs(&l));
done:
    loop_deinit(&l);
    return status;
}

/* ---- Scan-8: a batch axis first, and per-entry lengths. Each entry of the batch is a pass of its own. */

/* Entry b of a tensor with a leading batch axis. */
static rt_value batch_entry(const rt_value *x, int64_t b)
{
    rt_value e = *x;
    size_t bytes = x->dims[0] > 0 ? (size_t)x->buffer.bytes / (size_t)x->dims[0] : 0;

    e.owner = NULL;
    e.dims = x->dims + 1;
    e.rank = x->rank - 1;
    e.buffer.offset += (uint64_t)b * bytes;
    e.buffer.bytes = bytes;
    return e;
}

/* Puts entry b of an output that is made when the first entry is known; shorter entries are padded with zeroes. */
static inlay_status put_entry(host_call *c, uint32_t o, int64_t b, int64_t batch, const inlay_value *entry,
                              int64_t first_dim)
{
    uint32_t v = c->node->info.outputs[o];
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *whole = c->b->dynamic[v].owner;
    size_t stride;
    bool fits;

    if (entry->kind != INLAY_KIND_TENSOR || entry->rank >= INLAY_MAX_RANK || inlay_dtype_bits(entry->dtype) < 8 ||
        (first_dim >= 0 && entry->rank == 0))
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "output %u of Scan node '%s' is no tensor that can be stacked",
                          o, c->node->info.name.data);
    if (b == 0) {
        inlay_status status;
        dims[0] = batch;
        memcpy(dims + 1, entry->dims, entry->rank * sizeof *dims);
        if (first_dim >= 0)
            dims[1] = first_dim;
        status = value_create(entry->dtype, entry->rank + 1, dims, true, &whole, c->diag);
        if (status != INLAY_OK)
            return status;
        runner_set(c->r, c->b, v, whole);
    }
    stride = (size_t)inlay_value_bytes(whole) / (size_t)batch;
    fits = entry->dtype == whole->dtype && entry->rank + 1 == whole->rank && entry->dtype != INLAY_STRING;
    for (uint32_t d = 0; fits && d < entry->rank; d++)
        fits = d == 0 && first_dim >= 0 ? entry->dims[d] <= first_dim : entry->dims[d] == whole->dims[d + 1];
    if (!fits)
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "output %u of Scan node '%s' changes its shape in the batch",
                          o, c->node->info.name.data);
    memcpy((char *)inlay_value_data(whole) + (size_t)b * stride, inlay_value_data(entry),
           (size_t)inlay_value_bytes(entry));
    return INLAY_OK;
}

static inlay_status scan8_entry(host_call *c, int64_t b, int64_t batch, uint32_t states, uint32_t count, int64_t length,
                                int64_t longest)
{
    const inlay_node_info *n = &c->node->info;
    uint32_t outs = n->output_count > states ? n->output_count - states : 0;
    scan_input *scans = arena_array(&c->b->scratch, (size_t)count + 1, sizeof *scans);
    rt_value *wholes = arena_array(&c->b->scratch, (size_t)count + 1, sizeof *wholes);
    inlay_status status = INLAY_OK;
    loop l = { .c = c };

    if (scans == NULL || wholes == NULL) {
        status = inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory to enter node '%s'", n->name.data);
        goto done;
    }
    INLAY_TRY(loop_init(&l, c, states, outs));
    INLAY_TRY(body_arity(c, l.g, states + count, states + outs));
    for (uint32_t i = 0; i < states; i++) {
        rt_value x = host_value(c, n->inputs[1 + i]);
        if (x.kind != INLAY_KIND_TENSOR || x.rank == 0 || x.dims[0] != batch) {
            status = inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "state %u of Scan node '%s' has another batch size", i,
                                n->name.data);
            goto done;
        }
        l.in[i] = batch_entry(&x, b);
    }
    for (uint32_t i = 0; i < count; i++) {
        wholes[i] = host_value(c, n->inputs[1 + states + i]);
        if (wholes[i].kind != INLAY_KIND_TENSOR || wholes[i].rank < 2 || wholes[i].dims[0] != batch ||
            wholes[i].dims[1] != longest) {
            status = inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "scan input %u of Scan node '%s' has another batch or "
                                "sequence than the first", i, n->name.data);
            goto done;
        }
        scans[i].whole = batch_entry(&wholes[i], b);
        INLAY_TRY(scan_prepare(c, &scans[i], 0, int_at(c->node, "directions", i, 0) != 0));
        if (scans[i].reverse)
            scans[i].length = length; /* reversed within the entry's own length */
    }
    INLAY_TRY(scan_pass(&l, scans, count, length));
    for (uint32_t i = 0; i < states + outs; i++) {
        inlay_value *value = NULL;
        if (n->outputs[i] == INLAY_NONE)
            continue;
        if (i < states) {
            status = pool_value(c->r->shared, &l.in[i], &value, c->diag);
        } else {
            if (l.stacks[i - states].count == 0)
                stack_shape_unseen(&l.stacks[i - states], l.g, i);
            status = stack_pop(c, &l.stacks[i - states], 0, false, &value);
        }
        if (status == INLAY_OK)
            status = put_entry(c, i, b, batch, value, i < states ? -1 : longest);
        pool_give(c->r->shared, value);
        if (status != INLAY_OK)
            goto done;
    }
done:
    loop_deinit(&l);
    return status;
}

static inlay_status run_scan8(host_call *c)
{
    const inlay_node_info *n = &c->node->info;
    const inlay_attr_info *attr = graph_attr(c->node, "num_scan_inputs");
    uint32_t count = attr != NULL && attr->i > 0 && attr->i < n->input_count ? (uint32_t)attr->i : 0;
    rt_value lens = host_value(c, n->inputs[0]), first;
    uint32_t states;

    if (count == 0)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "num_scan_inputs of node '%s' is out of range", n->name.data);
    states = n->input_count - 1 - count;
    first = host_value(c, n->inputs[1 + states]);
    if (first.kind != INLAY_KIND_TENSOR || first.rank < 2 || first.dims[0] == 0)
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "Scan node '%s' (version 8) scans [batch, sequence, ...]",
                          n->name.data);
    if (lens.kind != 0 && (lens.dtype != INLAY_INT64 || rt_count(&lens) != first.dims[0]))
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "sequence_lens of Scan node '%s' must have %lld elements",
                          n->name.data, (long long)first.dims[0]);
    for (int64_t b = 0; b < first.dims[0]; b++) {
        int64_t length = first.dims[1];
        inlay_status status;

        if (lens.kind != 0)
            memcpy(&length, (const char *)inlay_buffer_host(&lens.buffer) + (size_t)b * sizeof length, sizeof length);
        if (length < 0 || length > first.dims[1])
            return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "sequence_lens of Scan node '%s' holds %lld of %lld steps",
                              n->name.data, (long long)length, (long long)first.dims[1]);
        status = scan8_entry(c, b, first.dims[0], states, count, length, first.dims[1]);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ SequenceMap */

static inlay_status map_collect(host_call *c, const loop *l, inlay_value **items, int64_t at, int64_t length)
{
    for (uint32_t o = 0; o < l->g->output_count; o++) {
        inlay_value *v = l->body->outputs[o];
        if (v == NULL)
            return inlay_fail(c->diag, INLAY_INVALID_MODEL, "the body of node '%s' leaves output %u empty",
                              c->node->info.name.data, o);
        items[(int64_t)o * length + at] = inlay_value_ref(v);
    }
    return INLAY_OK;
}

static inlay_status run_sequence_map(host_call *c)
{
    const inlay_node_info *n = &c->node->info;
    rt_value first = host_value(c, n->inputs[0]);
    inlay_status status = INLAY_OK;
    inlay_value **items = NULL;
    int64_t length = 0;
    loop l = { .c = c };

    if (first.kind != INLAY_KIND_SEQUENCE)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "the first input of node '%s' must be a sequence",
                          n->name.data);
    length = first.owner->count;
    INLAY_TRY(loop_init(&l, c, 0, 0));
    INLAY_TRY(body_arity(c, l.g, n->input_count, n->output_count));
    items = calloc((size_t)length * n->output_count + 1, sizeof(inlay_value *));
    if (items == NULL) {
        status = inlay_fail(c->diag, INLAY_OUT_OF_MEMORY, "no memory to enter node '%s'", n->name.data);
        goto done;
    }
    for (int64_t t = 0; t < length; t++) {
        for (uint32_t i = 0; i < n->input_count; i++) {
            rt_value x = host_value(c, n->inputs[i]);
            if (x.kind == INLAY_KIND_SEQUENCE && x.owner->count != length) {
                status = inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "node '%s' maps sequences of %lld and %lld items",
                                    n->name.data, (long long)length, (long long)x.owner->count);
                goto done;
            }
            l.in[i] = x.kind == INLAY_KIND_SEQUENCE ? rt_from_value(x.owner->items[t]) : x;
        }
        INLAY_TRY(run_poll(&c->r->shared->run));
        INLAY_TRY(runner_run(l.body, l.in, c->diag));
        INLAY_TRY(map_collect(c, &l, items, t, length));
    }
    for (uint32_t o = 0; o < n->output_count; o++) {
        inlay_value *list = NULL;
        if (n->outputs[o] == INLAY_NONE)
            continue;
        INLAY_TRY(value_create_list(INLAY_KIND_SEQUENCE, l.g->values[l.g->outputs[o]].info.dtype,
                                    items + (int64_t)o * length, (uint32_t)length, &list, c->diag));
        runner_set(c->r, c->b, n->outputs[o], list);
    }
done:
    for (int64_t i = 0; items != NULL && i < length * n->output_count; i++)
        inlay_value_unref(items[i]);
    free(items);
    loop_deinit(&l);
    return status;
}

inlay_status control_run(host_call *c, bool *out_handled)
{
    const char *op = c->node->info.op_type.data;

    *out_handled = true;
    if (strcmp(op, "If") == 0)
        return run_if(c);
    if (strcmp(op, "Loop") == 0)
        return run_loop(c);
    if (strcmp(op, "Scan") == 0)
        return c->node->info.since_version < 9 ? run_scan8(c) : run_scan(c);
    if (strcmp(op, "SequenceMap") == 0)
        return run_sequence_map(c);
    *out_handled = false;
    return INLAY_OK;
}
