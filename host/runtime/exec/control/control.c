/* exec/control/control.c - If (ONNX 1, 11, ...), Loop (1, 11, ...), Scan (8, 9, ...; in scan.c) and SequenceMap (17):
 * bodies are programs of their own, run by runners that live as long as the context. */
#include "base/memory.h"
#include "exec/control/body.h"
#include <stdlib.h>
#include <string.h>

/* A one-element tensor for a body: iteration number, condition. Exporters declare them as [] or as [1]. */
static rt_value one_element(const struct graph *g, uint32_t input, inlay_dtype dtype, const void *element)
{
    static const int64_t one = 1;
    const graph_value *v = &g->values[g->inputs[input]];
    bool vector = v->declared && v->declared_rank == 1;

    return (rt_value){ .kind = INLAY_KIND_TENSOR,
                       .dtype = dtype,
                       .rank = vector,
                       .dims = &one,
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
    rt_value cond = host_value(c, c->node->info.inputs[0]);
    struct loop l = { .c = c };
    uint32_t index;
    bool yes = false;

    status = read_bool(c, &cond, "condition", &yes);
    if (status != INLAY_OK)
        return status;
    index = find_body(c, yes ? "then_branch" : "else_branch");
    if (index == INLAY_NONE)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "If node '%s' lacks a branch", c->node->info.name.data);
    INLAY_TRY(loop_enter(&l, index, 0, 0));
    INLAY_TRY(body_arity(c, l.g, 0, c->node->info.output_count));
    branch_stay(&l);
    INLAY_TRY(loop_run(&l));
    for (uint32_t o = 0; o < c->node->info.output_count; o++)
        pass_output(c, o, l.body, o);
done:
    loop_deinit(&l);
    return status;
}

/* ------------------------------------------------------------------ Loop */

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
    struct loop l = { .c = c };

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
    loop_stay(&l, 2, 1, true);
    for (iteration = 0; go && iteration < most; iteration++) {
        rt_value again;

        go_byte = 1;
        l.in[0] = one_element(l.g, 0, INLAY_INT64, &iteration);
        l.in[1] = one_element(l.g, 1, INLAY_BOOL, &go_byte);
        INLAY_TRY(run_poll(&c->r->shared->run));
        INLAY_TRY(loop_run(&l));
        again = rt_from_value(l.body->out.values[0]);
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
        INLAY_TRY(stack_pop(c, &l.stacks[i], 0, false, v, &value));
        runner_set(c->r, c->b, v, value);
    }
done:
    loop_deinit(&l);
    return status;
}

/* ------------------------------------------------------------------ SequenceMap */

static inlay_status map_collect(host_call *c, const struct loop *l, inlay_value **items, int64_t at, int64_t length)
{
    for (uint32_t o = 0; o < l->g->output_count; o++) {
        inlay_value *v = l->body->out.values[o];
        if (v == NULL)
            return inlay_fail(c->diag, INLAY_INVALID_MODEL, "the body of node '%s' leaves output %u empty",
                              c->node->info.name.data, o);
        items[(int64_t)o * length + at] = value_ref(v);
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
    struct loop l = { .c = c };

    if (first.kind != INLAY_KIND_SEQUENCE)
        return inlay_fail(c->diag, INLAY_INVALID_MODEL, "the first input of node '%s' must be a sequence",
                          n->name.data);
    length = first.owner->count;
    INLAY_TRY(loop_init(&l, c, 0, 0));
    INLAY_TRY(body_arity(c, l.g, n->input_count, n->output_count));
    items = calloc((size_t)length * n->output_count + 1, sizeof(inlay_value *));
    if (items == NULL) {
        status = no_memory(c->diag, "to enter node '%s'", n->name.data);
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
        INLAY_TRY(loop_run(&l));
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
        value_unref(items[i]);
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
