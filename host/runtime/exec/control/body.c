#include "exec/control/body.h"
#include "base/memory.h"
#include "exec/device/stay.h"
#include "exec/loop/runner.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ bodies */

inlay_status body_runner(host_call *c, uint32_t body, struct runner **out_runner)
{
    uint32_t index = (uint32_t)(c->s->plan->step - c->r->prog->steps);
    const program_step *ps = c->s->plan->step;

    if (c->r->children[index] == NULL)
        c->r->children[index] = calloc((size_t)ps->node->body_count + 1, sizeof(struct runner *));
    if (c->r->children[index] == NULL)
        return no_memory(c->diag, "for the body of node '%s'", c->node->info.name.data);
    *out_runner = c->r->children[index][body];
    if (*out_runner != NULL)
        return INLAY_OK;
    if (runner_create(ps->bodies[body], c->r->shared, &c->r->children[index][body], c->diag) != INLAY_OK)
        return INLAY_OUT_OF_MEMORY;
    *out_runner = c->r->children[index][body];
    return INLAY_OK;
}

uint32_t find_body(const host_call *c, const char *attr)
{
    const graph_body *body = graph_body_named(c->node, attr);

    return body == NULL ? INLAY_NONE : (uint32_t)(body - c->node->bodies);
}

rt_value *body_inputs(host_call *c, uint32_t body)
{
    const graph_body *b = &c->node->bodies[body];
    const struct graph *g = b->graph;
    rt_value *in = arena_array(&c->b->made.scratch, (size_t)g->input_count + g->captured_count + 1, sizeof *in);

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

void pass_output(host_call *c, uint32_t o, const struct runner *body, uint32_t body_output)
{
    uint32_t v = o < c->node->info.output_count ? c->node->info.outputs[o] : INLAY_NONE;

    if (v != INLAY_NONE)
        runner_set(c->r, c->b, v, value_ref(body->out.values[body_output]));
}

inlay_status body_arity(const host_call *c, const struct graph *g, uint32_t inputs, uint32_t outputs)
{
    if (g->input_count == inputs && g->output_count == outputs)
        return INLAY_OK;
    return inlay_fail(c->diag, INLAY_INVALID_MODEL,
                      "the body of %s node '%s' has %u inputs and %u outputs; the node calls for %u and %u",
                      c->node->info.op_type.data, c->node->info.name.data, g->input_count, g->output_count, inputs,
                      outputs);
}

/* ------------------------------------------------------------------ stacking results */

static char *stack_bytes(const struct stack *s)
{
    return s->room == NULL ? NULL : value_data(s->room);
}

static uint32_t stack_domain(const struct stack *s)
{
    return s->room == NULL ? (uint32_t)INLAY_DOMAIN_HOST : s->room->buffer.domain;
}

/* Copies v to offset `at` of the stack's room. */
static inlay_status stack_put(host_call *c, const inlay_value *room, uint64_t at, const inlay_value *v, uint64_t bytes)
{
    inlay_buffer to = room->buffer, from = v->buffer;

    to.offset += at;
    to.bytes -= at;
    from.bytes = bytes;
    if (to.domain != INLAY_DOMAIN_HOST || from.domain != INLAY_DOMAIN_HOST)
        return stay_copy(c->r, &from, &to, c->diag);
    if (bytes > 0)
        memcpy(inlay_buffer_host(&to), inlay_buffer_host(&from), (size_t)bytes);
    return INLAY_OK;
}

/* Where results like v are stacked: on their device, if each begins where that can begin. */
static uint32_t stacks_in(const host_call *c, const inlay_value *v)
{
    const uint32_t domain = v->buffer.domain;

    return domain == INLAY_DOMAIN_HOST || v->buffer.bytes % plan_alignment(c->r->prog->env, domain) != 0
               ? (uint32_t)INLAY_DOMAIN_HOST
               : domain;
}

/* Room in the domain; of the host's where a device has none. */
static inlay_status stack_take(host_call *c, uint32_t domain, const int64_t *bytes, inlay_value **out)
{
    inlay_status status;

    if (domain != INLAY_DOMAIN_HOST) {
        status = stay_make(c->r, domain, INLAY_UINT8, 1, bytes, out, c->diag);
        if (!stay_lacks_room(status))
            return status;
        c->r->failed = NULL;
    }
    return pool_take(c->r->shared, INLAY_UINT8, 1, bytes, out, c->diag);
}

static inlay_status stack_grow(host_call *c, struct stack *s, uint32_t domain, size_t more)
{
    int64_t capacity = (int64_t)((s->used + more) * 2 + 64);
    inlay_value *bigger = NULL;
    inlay_status status = INLAY_OK;

    if (s->room != NULL && s->used + more <= s->room->buffer.bytes)
        return INLAY_OK;
    status = stack_take(c, domain, &capacity, &bigger);
    if (status == INLAY_OK && s->used > 0)
        status = stack_put(c, bigger, 0, s->room, s->used);
    if (status != INLAY_OK) {
        pool_give(c->r->shared, bigger);
        return status;
    }
    pool_give(c->r->shared, s->room);
    s->room = bigger;
    return INLAY_OK;
}

static inlay_status stack_push(host_call *c, struct stack *s, const inlay_value *v)
{
    size_t more = v == NULL ? 0 : (size_t)v->buffer.bytes;
    inlay_status status;

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
    status = stack_grow(c, s, s->room != NULL ? stack_domain(s) : stacks_in(c, v), more);
    if (status == INLAY_OK)
        status = stack_put(c, s->room, s->used, v, more);
    if (status != INLAY_OK)
        return status;
    if (v->dtype == INLAY_STRING) {
        /* The texts belong to a value that the next iteration overwrites. */
        inlay_str *texts = (inlay_str *)(void *)(stack_bytes(s) + s->used);
        for (int64_t i = 0; i < v->count; i++) {
            char *copy = c->r->shared->run.string_alloc(c->r->shared, texts[i].bytes + 1);
            if (copy == NULL)
                return no_memory(c->diag, "for texts of node '%s'", c->node->info.name.data);
            if (texts[i].bytes > 0)
                memcpy(copy, texts[i].data, texts[i].bytes);
            texts[i].data = copy;
        }
    }
    s->used += more;
    s->count++;
    return INLAY_OK;
}

void stack_shape_unseen(struct stack *s, const struct graph *body, uint32_t output)
{
    const inlay_value_info *info = &body->values[body->outputs[output]].info;

    s->dtype = info->dtype;
    s->rank = info->rank < INLAY_MAX_RANK ? info->rank : 0;
    for (uint32_t d = 0; d < s->rank; d++)
        s->dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : 0;
}

void move_slice(char *whole, char *slice, int64_t outer, int64_t length, int64_t at, size_t inner, bool to_slice)
{
    for (int64_t o = 0; o < outer; o++) {
        char *in_whole = whole + ((size_t)(o * length + at)) * inner, *in_slice = slice + (size_t)o * inner;
        memcpy(to_slice ? in_slice : in_whole, to_slice ? in_whole : in_slice, inner);
    }
}

inlay_status stack_pop(host_call *c, struct stack *s, uint32_t axis, bool reverse, uint32_t v, inlay_value **out_value)
{
    int64_t dims[INLAY_MAX_RANK], outer = 1;
    size_t inner;
    inlay_status status;

    for (uint32_t d = 0; d <= s->rank; d++)
        dims[d] = d < axis ? s->dims[d] : d == axis ? s->count : s->dims[d - 1];
    if (stack_domain(s) != INLAY_DOMAIN_HOST) { /* along the first axis, see loop_stay() */
        (void)value_reshape(s->room, s->dtype, s->rank + 1, dims);
        *out_value = s->room;
        s->room = NULL;
        return INLAY_OK;
    }
    status = stay_make_home(c->r, v, s->dtype, s->rank + 1, dims, out_value, c->diag);
    if (status != INLAY_OK || s->count == 0 || s->used == 0)
        return status;
    for (uint32_t d = 0; d < axis; d++)
        outer *= s->dims[d];
    inner = s->used / (size_t)s->count / (size_t)outer;
    for (int64_t i = 0; i < s->count; i++)
        move_slice(value_data(*out_value), stack_bytes(s) + (size_t)i * (size_t)outer * inner, outer, s->count,
                   reverse ? s->count - 1 - i : i, inner, false);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ loops */

inlay_status loop_run(struct loop *l)
{
    inlay_status status = l->lifts ? loop_lift(l) : INLAY_OK;

    if (status == INLAY_OK)
        status = runner_run(l->body, l->in, l->c->diag);
    if (l->body->out.homes != NULL && stay_lacks_room(status)) {
        status = loop_ground(l);
        if (status == INLAY_OK)
            status = runner_run(l->body, l->in, l->c->diag);
    }
    l->body->in.same_captures = status == INLAY_OK; /* until the loop ends */
    if (status != INLAY_OK && l->body->failed != NULL)
        l->c->r->failed = l->body->failed;
    return status;
}

void loop_deinit(struct loop *l)
{
    if (l->body != NULL) {
        l->body->in.same_captures = false;
        l->body->out.homes = NULL;
    }
    for (uint32_t i = 0; l->held != NULL && i < l->carried; i++)
        pool_give(l->c->r->shared, l->held[i]);
    for (uint32_t i = 0; l->stacks != NULL && i < l->scans; i++)
        pool_give(l->c->r->shared, l->stacks[i].room);
}

inlay_status loop_advance(struct loop *l, uint32_t first_input, uint32_t first_output)
{
    for (uint32_t i = 0; i < l->carried; i++) {
        inlay_value *v = l->body->out.values[first_output + i];
        if (v == NULL)
            return inlay_fail(l->c->diag, INLAY_INVALID_MODEL, "the body of node '%s' leaves output %u empty",
                              l->c->node->info.name.data, first_output + i);
        value_ref(v);
        pool_give(l->c->r->shared, l->held[i]);
        l->held[i] = v;
        l->in[first_input + i] = rt_from_value(v);
    }
    for (uint32_t i = 0; i < l->scans; i++) {
        const inlay_value *v = l->body->out.values[first_output + l->carried + i];
        inlay_status status = stack_push(l->c, &l->stacks[i], v);
        if (status != INLAY_OK)
            return status;
        if (stack_domain(&l->stacks[i]) == INLAY_DOMAIN_HOST && l->homes != NULL)
            l->homes[l->carried + i] = INLAY_DOMAIN_HOST;
    }
    return INLAY_OK;
}

inlay_status loop_finish_carried(struct loop *l, uint32_t first_input)
{
    for (uint32_t i = 0; i < l->carried; i++) {
        uint32_t v = i < l->c->node->info.output_count ? l->c->node->info.outputs[i] : INLAY_NONE;
        rt_value *x = &l->in[first_input + i];
        inlay_value *value = NULL;
        inlay_status status;

        if (v == INLAY_NONE || x->kind == 0)
            continue;
        if (x->buffer.domain == INLAY_DOMAIN_HOST || (x->owner != NULL && stay_domain(l->c->r, v) == x->buffer.domain))
            status = pool_value(l->c->r->shared, x, &value, l->c->diag);
        else
            status = stay_move(l->body, x, INLAY_DOMAIN_HOST, &value, l->c->diag);
        if (status != INLAY_OK)
            return status;
        runner_set(l->c->r, l->c->b, v, value);
    }
    return INLAY_OK;
}

inlay_status loop_enter(struct loop *l, uint32_t body, uint32_t carried, uint32_t scans)
{
    host_call *c = l->c;
    inlay_status status;

    *l = (struct loop){ .c = c, .carried = carried, .scans = scans };
    status = body_runner(c, body, &l->body);
    if (status != INLAY_OK)
        return status;
    l->g = l->body->prog->graph;
    l->in = body_inputs(c, body);
    l->held = arena_array(&c->b->made.scratch, (size_t)carried + 1, sizeof(inlay_value *));
    l->stacks = arena_array(&c->b->made.scratch, (size_t)scans + 1, sizeof *l->stacks);
    if (l->in == NULL || l->held == NULL || l->stacks == NULL)
        return no_memory(c->diag, "to enter node '%s'", c->node->info.name.data);
    return INLAY_OK;
}

inlay_status loop_init(struct loop *l, host_call *c, uint32_t carried, uint32_t scans)
{
    uint32_t body = find_body(c, "body");

    *l = (struct loop){ .c = c };
    if (body == INLAY_NONE)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "%s node '%s' has no body", c->node->info.op_type.data,
                          c->node->info.name.data);
    return loop_enter(l, body, carried, scans);
}
