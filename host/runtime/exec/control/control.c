/* exec/control/control.c - If (opset 1, 11, ...), Loop (1, 11, ...), Scan (8, 9, ...; in scan.c) and SequenceMap (17).
 * Bodies are programs with their own runners, which live as long as the context. */
#include "base/memory.h"
#include "exec/control/body.h"
#include <stdlib.h>
#include <string.h>

/* A one-element tensor for a body: the iteration number or the condition. Exporters declare the shape [] or [1]. */
static run_value one_element(const struct graph *graph, uint32_t input, inlay_dtype dtype, const void *element)
{
    static const int64_t one = 1;
    const graph_value *value = &graph->values[graph->inputs[input]];
    bool vector = value->declared && value->declared_rank == 1;

    return (run_value){ .kind = INLAY_KIND_TENSOR,
                        .dtype = dtype,
                        .rank = vector,
                        .dims = &one,
                        .buffer = { .handle = (uintptr_t)element, .bytes = inlay_dtype_bits(dtype) / 8 } };
}

static inlay_status read_bool(const host_call *call, const run_value *value, const char *what, bool *out)
{
    if (value->kind != INLAY_KIND_TENSOR || value->dtype != INLAY_BOOL || run_value_count(value) != 1) {
        char text[128];
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the %s of %s node '%s' must be one bool, not %s", what,
                          call->node->info.op_type.data, call->node->info.name.data, run_value_describe(value, text));
    }
    *out = *(const uint8_t *)inlay_buffer_host(&value->buffer) != 0;
    return INLAY_OK;
}

static inlay_status run_if(host_call *call)
{
    inlay_status status;
    run_value cond = host_value(call, call->node->info.inputs[0]);
    struct loop loop = { .call = call };
    uint32_t index;
    bool yes = false;

    status = read_bool(call, &cond, "condition", &yes);
    if (status != INLAY_OK)
        return status;
    index = find_body(call, yes ? "then_branch" : "else_branch");
    if (index == INLAY_NONE)
        return inlay_fail(
            call->diag, INLAY_INVALID_MODEL,
            "If node '%s' has no branch for this condition; export the model with then_branch and else_branch",
            call->node->info.name.data);
    INLAY_TRY(loop_enter(&loop, index, 0, 0));
    INLAY_TRY(body_arity(call, loop.graph, 0, call->node->info.output_count));
    branch_choose_residency(&loop);
    INLAY_TRY(loop_run(&loop));
    for (uint32_t output = 0; output < call->node->info.output_count; output++)
        pass_output(call, output, loop.body, output);
done:
    loop_deinit(&loop);
    return status;
}

static inlay_status run_loop(host_call *call)
{
    const inlay_node_info *node = &call->node->info;
    inlay_status status = INLAY_OK;
    uint32_t carried = node->input_count > 2 ? node->input_count - 2 : 0;
    uint32_t scans = node->output_count > carried ? node->output_count - carried : 0;
    run_value limit = host_value(call, node->input_count > 0 ? node->inputs[0] : INLAY_NONE);
    run_value cond = host_value(call, node->input_count > 1 ? node->inputs[1] : INLAY_NONE);
    int64_t most = INT64_MAX, iteration;
    uint8_t go_byte = 1;
    bool go = true;
    struct loop loop = { .call = call };

    INLAY_TRY(loop_init(&loop, call, carried, scans));
    /* Trailing scan outputs that the node does not name are computed and dropped. */
    scans = loop.graph->output_count > carried ? loop.graph->output_count - carried - 1 : 0;
    INLAY_TRY(body_arity(call, loop.graph, carried + 2, carried + 1 + (scans > loop.scans ? scans : loop.scans)));
    if (limit.kind != 0) {
        if (limit.dtype != INLAY_INT64 || run_value_count(&limit) != 1) {
            status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the trip count of Loop node '%s' must be one int64",
                                node->name.data);
            goto done;
        }
        memcpy(&most, inlay_buffer_host(&limit.buffer), sizeof most);
    }
    if (cond.kind != 0)
        INLAY_TRY(read_bool(call, &cond, "condition", &go));
    for (uint32_t i = 0; i < carried; i++)
        loop.in[2 + i] = host_value(call, node->inputs[2 + i]);
    loop_choose_residency(&loop, 2, 1, true);
    iteration = 0;
    loop.in[0] = one_element(loop.graph, 0, INLAY_INT64, &iteration);
    loop.in[1] = one_element(loop.graph, 1, INLAY_BOOL, &go_byte);
    for (iteration = 0; go && iteration < most; iteration++) {
        run_value again;

        go_byte = 1;
        loop.in[0] = one_element(loop.graph, 0, INLAY_INT64, &iteration);
        loop.in[1] = one_element(loop.graph, 1, INLAY_BOOL, &go_byte);
        INLAY_TRY(run_poll(&call->runner->shared->run));
        INLAY_TRY(loop_run(&loop));
        again = run_value_of(loop.body->out.values[0]);
        INLAY_TRY(read_bool(call, &again, "body's condition", &go));
        INLAY_TRY(loop_advance(&loop, 2, 1));
    }
    INLAY_TRY(loop_finish_carried(&loop, 2));
    for (uint32_t i = 0; i < loop.scans; i++) {
        uint32_t value_index = node->outputs[carried + i];
        inlay_value *value = NULL;
        if (value_index == INLAY_NONE || 1 + carried + i >= loop.graph->output_count)
            continue;
        if (loop.stacks[i].count == 0)
            loop_set_inferred_shape(&loop, i, 1 + carried + i);
        INLAY_TRY(stack_pop(call, &loop.stacks[i], 0, false, value_index, &value));
        runner_set(call->runner, call->bound, value_index, value);
    }
done:
    loop_deinit(&loop);
    return status;
}

static inlay_status map_collect(host_call *call, const struct loop *loop, inlay_value **items, int64_t at,
                                int64_t length)
{
    for (uint32_t output = 0; output < loop->graph->output_count; output++) {
        inlay_value *value = loop->body->out.values[output];
        if (value == NULL)
            return inlay_fail(call->diag, INLAY_INVALID_MODEL, "the body of node '%s' leaves output %u empty",
                              call->node->info.name.data, output);
        items[(int64_t)output * length + at] = value_ref(value);
    }
    return INLAY_OK;
}

static inlay_status run_sequence_map(host_call *call)
{
    const inlay_node_info *node = &call->node->info;
    run_value first = host_value(call, node->inputs[0]);
    inlay_status status = INLAY_OK;
    inlay_value **items = NULL;
    int64_t length = 0;
    struct loop loop = { .call = call };

    if (first.kind != INLAY_KIND_SEQUENCE)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL, "the first input of node '%s' must be a sequence",
                          node->name.data);
    length = first.owner->count;
    INLAY_TRY(loop_init(&loop, call, 0, 0));
    INLAY_TRY(body_arity(call, loop.graph, node->input_count, node->output_count));
    items = calloc((size_t)length * node->output_count + 1, sizeof(inlay_value *));
    if (items == NULL) {
        status = no_memory(call->diag, "to enter node '%s'", node->name.data);
        goto done;
    }
    for (int64_t item = 0; item < length; item++) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            run_value value = host_value(call, node->inputs[i]);
            if (value.kind == INLAY_KIND_SEQUENCE && value.owner->count != length) {
                status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                                    "node '%s' maps sequences of unequal lengths, %lld and %lld", node->name.data,
                                    (long long)length, (long long)value.owner->count);
                goto done;
            }
            loop.in[i] = value.kind == INLAY_KIND_SEQUENCE ? run_value_of(value.owner->items[item]) : value;
        }
        INLAY_TRY(run_poll(&call->runner->shared->run));
        INLAY_TRY(loop_run(&loop));
        INLAY_TRY(map_collect(call, &loop, items, item, length));
    }
    for (uint32_t output = 0; output < node->output_count; output++) {
        inlay_value *list = NULL;
        if (node->outputs[output] == INLAY_NONE)
            continue;
        INLAY_TRY(value_create_list(INLAY_KIND_SEQUENCE, loop.graph->values[loop.graph->outputs[output]].info.dtype,
                                    items + (int64_t)output * length, (uint32_t)length, &list, call->diag));
        runner_set(call->runner, call->bound, node->outputs[output], list);
    }
done:
    for (int64_t i = 0; items != NULL && i < length * node->output_count; i++)
        value_unref(items[i]);
    free(items);
    loop_deinit(&loop);
    return status;
}

inlay_status control_run(host_call *call, bool *out_handled)
{
    const char *op = call->node->info.op_type.data;

    *out_handled = true;
    if (strcmp(op, "If") == 0)
        return run_if(call);
    if (strcmp(op, "Loop") == 0)
        return run_loop(call);
    if (strcmp(op, "Scan") == 0)
        return call->node->info.since_version < 9 ? run_scan8(call) : run_scan(call);
    if (strcmp(op, "SequenceMap") == 0)
        return run_sequence_map(call);
    *out_handled = false;
    return INLAY_OK;
}
