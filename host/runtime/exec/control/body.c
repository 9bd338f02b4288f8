#include "exec/control/body.h"
#include "base/memory.h"
#include "exec/device/residency.h"
#include "exec/loop/runner.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

/* Returns the runner of a body, and creates it on first use; the context owns it. */
static inlay_status body_runner(host_call *call, uint32_t body, struct runner **out_runner)
{
    uint32_t index = (uint32_t)(call->step->plan->step - call->runner->prog->steps);
    const program_step *step = call->step->plan->step;

    INLAY_CHECK(index < call->runner->prog->step_count && body < step->node->body_count);
    if (call->runner->children[index] == NULL)
        call->runner->children[index] = calloc((size_t)step->node->body_count + 1, sizeof(struct runner *));
    if (call->runner->children[index] == NULL)
        return no_memory(call->diag, "for the body of node '%s'", call->node->info.name.data);
    *out_runner = call->runner->children[index][body];
    if (*out_runner != NULL)
        return INLAY_OK;
    if (runner_create(step->bodies[body], call->runner->shared, &call->runner->children[index][body], call->diag) !=
        INLAY_OK)
        return INLAY_OUT_OF_MEMORY;
    *out_runner = call->runner->children[index][body];
    return INLAY_OK;
}

uint32_t find_body(const host_call *call, const char *attr)
{
    const graph_body *body = graph_body_named(call->node, attr);

    return body == NULL ? INLAY_NONE : (uint32_t)(body - call->node->bodies);
}

/* Allocates the inputs of a body from the node's scratch memory and fills in the captured ones. NULL: out of memory. */
static run_value *body_inputs(host_call *call, uint32_t body)
{
    const graph_body *definition = &call->node->bodies[body];
    const struct graph *graph = definition->graph;
    run_value *in =
        arena_array(&call->bound->dynamic.scratch, (size_t)graph->input_count + graph->captured_count + 1, sizeof *in);

    for (uint32_t i = 0; in != NULL && i < graph->captured_count; i++) {
        uint32_t k = i;
        if (k >= definition->capture_count || definition->capture_inner[k] != graph->captured[i])
            for (k = 0; k < definition->capture_count && definition->capture_inner[k] != graph->captured[i]; k++)
                ;
        if (k < definition->capture_count)
            in[graph->input_count + i] = host_value(call, definition->capture_outer[k]);
    }
    return in;
}

void pass_output(host_call *call, uint32_t output, const struct runner *body, uint32_t body_output)
{
    uint32_t value = output < call->node->info.output_count ? call->node->info.outputs[output] : INLAY_NONE;

    if (value != INLAY_NONE)
        runner_set(call->runner, call->bound, value, value_ref(body->out.values[body_output]));
}

inlay_status body_arity(const host_call *call, const struct graph *graph, uint32_t inputs, uint32_t outputs)
{
    if (graph->input_count == inputs && graph->output_count == outputs)
        return INLAY_OK;
    return inlay_fail(call->diag, INLAY_INVALID_MODEL,
                      "the body of %s node '%s' has %u inputs and %u outputs; the node requires %u and %u",
                      call->node->info.op_type.data, call->node->info.name.data, graph->input_count,
                      graph->output_count, inputs, outputs);
}

static char *stack_bytes(const struct stack *stack)
{
    return stack->memory == NULL ? NULL : value_data(stack->memory);
}

static uint32_t stack_domain(const struct stack *stack)
{
    return stack->memory == NULL ? (uint32_t)INLAY_DOMAIN_HOST : stack->memory->buffer.domain;
}

/* Copies the value to offset `at` of `room`. */
static inlay_status stack_put(host_call *call, const inlay_value *room, uint64_t at, const inlay_value *value,
                              uint64_t bytes)
{
    inlay_buffer to = room->buffer, from = value->buffer;

    to.offset += at;
    to.bytes -= at;
    from.bytes = bytes;
    INLAY_CHECK(at + bytes <= room->buffer.bytes);
    if (to.domain != INLAY_DOMAIN_HOST || from.domain != INLAY_DOMAIN_HOST)
        return copy_between_domains(call->runner, &from, &to, call->diag);
    if (bytes > 0)
        memcpy(inlay_buffer_host(&to), inlay_buffer_host(&from), (size_t)bytes);
    return INLAY_OK;
}

/* The domain for stacking results like `value`: the domain of `value`, if the size of one result is a multiple of its
 * alignment, otherwise host memory. */
static uint32_t choose_stack_domain(const host_call *call, const inlay_value *value)
{
    const uint32_t domain = value->buffer.domain;

    return domain == INLAY_DOMAIN_HOST || value->buffer.bytes % plan_alignment(call->runner->prog->env, domain) != 0
               ? (uint32_t)INLAY_DOMAIN_HOST
               : domain;
}

/* Allocates in the domain, or in host memory if the device is full. */
static inlay_status stack_alloc(host_call *call, uint32_t domain, const int64_t *bytes, inlay_value **out)
{
    inlay_status status;

    if (domain != INLAY_DOMAIN_HOST) {
        status = device_value_create(call->runner, domain, INLAY_USE_INNER, INLAY_UINT8, 1, bytes, out, call->diag);
        if (!is_out_of_room(status))
            return status;
        call->runner->failed = NULL;
    }
    return pool_take(call->runner->shared, INLAY_UINT8, 1, bytes, out, call->diag);
}

static inlay_status stack_grow(host_call *call, struct stack *stack, uint32_t domain, size_t more)
{
    int64_t capacity = (int64_t)((stack->used + more) * 2 + 64);
    inlay_value *bigger = NULL;
    inlay_status status = INLAY_OK;

    if (stack->memory != NULL && stack->used + more <= stack->memory->buffer.bytes)
        return INLAY_OK;
    status = stack_alloc(call, domain, &capacity, &bigger);
    if (status == INLAY_OK && stack->used > 0)
        status = stack_put(call, bigger, 0, stack->memory, stack->used);
    if (status != INLAY_OK) {
        pool_give(call->runner->shared, bigger);
        return status;
    }
    pool_give(call->runner->shared, stack->memory);
    stack->memory = bigger;
    return INLAY_OK;
}

static inlay_status stack_push(host_call *call, struct stack *stack, const inlay_value *value)
{
    size_t more = value == NULL ? 0 : (size_t)value->buffer.bytes;
    inlay_status status;

    if (value == NULL || value->kind != INLAY_KIND_TENSOR || value->rank >= INLAY_MAX_RANK ||
        inlay_dtype_bits(value->dtype) < 8)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL,
                          "a scan output of node '%s' is not a tensor that can be stacked", call->node->info.name.data);
    if (stack->count == 0) {
        stack->dtype = value->dtype;
        stack->rank = value->rank;
        memcpy(stack->dims, value->dims, value->rank * sizeof *value->dims);
    } else if (value->dtype != stack->dtype || value->rank != stack->rank ||
               memcmp(value->dims, stack->dims, value->rank * sizeof *value->dims) != 0) {
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "a scan output of node '%s' changes its shape in iteration %lld", call->node->info.name.data,
                          (long long)stack->count);
    }
    status =
        stack_grow(call, stack, stack->memory != NULL ? stack_domain(stack) : choose_stack_domain(call, value), more);
    if (status == INLAY_OK)
        status = stack_put(call, stack->memory, stack->used, value, more);
    if (status != INLAY_OK)
        return status;
    if (value->dtype == INLAY_STRING) {
        /* The text belongs to a value that the next iteration overwrites. */
        inlay_str *texts = (inlay_str *)(void *)(stack_bytes(stack) + stack->used);
        for (int64_t i = 0; i < value->count; i++) {
            char *copy = call->runner->shared->run.string_alloc(call->runner->shared, texts[i].bytes + 1);
            if (copy == NULL)
                return no_memory(call->diag, "for texts of node '%s'", call->node->info.name.data);
            if (texts[i].bytes > 0)
                memcpy(copy, texts[i].data, texts[i].bytes);
            texts[i].data = copy;
        }
    }
    stack->used += more;
    stack->count++;
    return INLAY_OK;
}

void move_slice(char *whole, char *slice, int64_t outer, int64_t length, int64_t at, size_t inner, bool to_slice)
{
    INLAY_CHECK(at >= 0 && at < length);
    for (int64_t block = 0; block < outer; block++) {
        char *in_whole = whole + ((size_t)(block * length + at)) * inner, *in_slice = slice + (size_t)block * inner;
        memcpy(to_slice ? in_slice : in_whole, to_slice ? in_whole : in_slice, inner);
    }
}

inlay_status stack_pop(host_call *call, struct stack *stack, uint32_t axis, bool reverse, uint32_t value,
                       inlay_value **out_value)
{
    int64_t dims[INLAY_MAX_RANK], outer = 1;
    size_t inner;
    inlay_status status;

    INLAY_CHECK(axis <= stack->rank && stack->rank < INLAY_MAX_RANK);
    for (uint32_t d = 0; d <= stack->rank; d++)
        dims[d] = d < axis ? stack->dims[d] : d == axis ? stack->count : stack->dims[d - 1];
    if (stack_domain(stack) != INLAY_DOMAIN_HOST) { /* along the first axis, see loop_choose_residency() */
        (void)value_reshape(stack->memory, stack->dtype, stack->rank + 1, dims);
        *out_value = stack->memory;
        stack->memory = NULL;
        return INLAY_OK;
    }
    status = create_host_value(call->runner, value, stack->dtype, stack->rank + 1, dims, out_value, call->diag);
    if (status != INLAY_OK || stack->count == 0 || stack->used == 0)
        return status;
    for (uint32_t d = 0; d < axis; d++)
        outer *= stack->dims[d];
    inner = stack->used / (size_t)stack->count / (size_t)outer;
    for (int64_t i = 0; i < stack->count; i++)
        move_slice(value_data(*out_value), stack_bytes(stack) + (size_t)i * (size_t)outer * inner, outer, stack->count,
                   reverse ? stack->count - 1 - i : i, inner, false);
    return INLAY_OK;
}

inlay_status loop_run(struct loop *loop)
{
    inlay_status status = loop->needs_upload ? loop_upload_carried(loop) : INLAY_OK;

    if (status == INLAY_OK)
        status = runner_run(loop->body, loop->in, loop->call->diag);
    if (loop->body->out.domains != NULL && is_out_of_room(status)) {
        status = loop_download_carried(loop);
        if (status == INLAY_OK)
            status = runner_run(loop->body, loop->in, loop->call->diag);
    }
    loop->body->in.same_captures = status == INLAY_OK; /* until the loop ends */
    if (status != INLAY_OK && loop->body->failed != NULL)
        loop->call->runner->failed = loop->body->failed;
    return status;
}

void loop_deinit(struct loop *loop)
{
    if (loop->body != NULL) {
        loop->body->in.same_captures = false;
        loop->body->out.domains = NULL;
    }
    for (uint32_t i = 0; loop->held != NULL && i < loop->carried; i++)
        pool_give(loop->call->runner->shared, loop->held[i]);
    for (uint32_t i = 0; loop->stacks != NULL && i < loop->scans; i++)
        pool_give(loop->call->runner->shared, loop->stacks[i].memory);
}

inlay_status loop_advance(struct loop *loop, uint32_t first_input, uint32_t first_output)
{
    for (uint32_t i = 0; i < loop->carried; i++) {
        inlay_value *value = loop->body->out.values[first_output + i];
        if (value == NULL)
            return inlay_fail(loop->call->diag, INLAY_INVALID_MODEL, "the body of node '%s' leaves output %u empty",
                              loop->call->node->info.name.data, first_output + i);
        value_ref(value);
        pool_give(loop->call->runner->shared, loop->held[i]);
        loop->held[i] = value;
        loop->in[first_input + i] = run_value_of(value);
    }
    for (uint32_t i = 0; i < loop->scans; i++) {
        const inlay_value *value = loop->body->out.values[first_output + loop->carried + i];
        inlay_status status = stack_push(loop->call, &loop->stacks[i], value);
        if (status != INLAY_OK)
            return status;
        if (stack_domain(&loop->stacks[i]) == INLAY_DOMAIN_HOST && loop->domains != NULL)
            loop->domains[loop->carried + i] = INLAY_DOMAIN_HOST;
    }
    return INLAY_OK;
}

void loop_set_inferred_shape(struct loop *loop, uint32_t scan, uint32_t output)
{
    struct stack *stack = &loop->stacks[scan];
    const inlay_value_info *info = &loop->graph->values[loop->graph->outputs[output]].info;

    stack->dtype = info->dtype;
    if (runner_output_shape(loop->body, loop->in, output, &stack->rank, stack->dims))
        return;
    stack->rank = info->rank < INLAY_MAX_RANK ? info->rank : 0;
    for (uint32_t d = 0; d < stack->rank; d++)
        stack->dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : 0;
}

inlay_status loop_finish_carried(struct loop *loop, uint32_t first_input)
{
    for (uint32_t i = 0; i < loop->carried; i++) {
        uint32_t value_index = i < loop->call->node->info.output_count ? loop->call->node->info.outputs[i] : INLAY_NONE;
        run_value *current = &loop->in[first_input + i];
        inlay_value *value = NULL;
        inlay_status status;

        if (value_index == INLAY_NONE || current->kind == 0)
            continue;
        if (current->buffer.domain == INLAY_DOMAIN_HOST ||
            (current->owner != NULL && residency_domain(loop->call->runner, value_index) == current->buffer.domain))
            status = pool_value(loop->call->runner->shared, current, &value, loop->call->diag);
        else
            status = copy_to_domain(loop->body, current, INLAY_DOMAIN_HOST, &value, loop->call->diag);
        if (status != INLAY_OK)
            return status;
        runner_set(loop->call->runner, loop->call->bound, value_index, value);
    }
    return INLAY_OK;
}

inlay_status loop_enter(struct loop *loop, uint32_t body, uint32_t carried, uint32_t scans)
{
    host_call *call = loop->call;
    inlay_status status;

    *loop = (struct loop){ .call = call, .carried = carried, .scans = scans };
    status = body_runner(call, body, &loop->body);
    if (status != INLAY_OK)
        return status;
    INLAY_CHECK(loop->body->prog->graph == call->node->bodies[body].graph);
    loop->graph = loop->body->prog->graph;
    loop->in = body_inputs(call, body);
    loop->held = arena_array(&call->bound->dynamic.scratch, (size_t)carried + 1, sizeof(inlay_value *));
    loop->stacks = arena_array(&call->bound->dynamic.scratch, (size_t)scans + 1, sizeof *loop->stacks);
    if (loop->in == NULL || loop->held == NULL || loop->stacks == NULL)
        return no_memory(call->diag, "to enter node '%s'", call->node->info.name.data);
    return INLAY_OK;
}

inlay_status loop_init(struct loop *loop, host_call *call, uint32_t carried, uint32_t scans)
{
    uint32_t body = find_body(call, "body");

    *loop = (struct loop){ .call = call };
    if (body == INLAY_NONE)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL, "%s node '%s' has no body", call->node->info.op_type.data,
                          call->node->info.name.data);
    return loop_enter(loop, body, carried, scans);
}
