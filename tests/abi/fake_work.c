/* The regions of the fake device: compiled, sized, bound to a context. */
#include "fake_work.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ regions */

static const char *const op_names[OP_COUNT] = { "Neg", "Relu", "Add", "Mul", "NonZero" };

int op_of(const inlay_node_info *node)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(node->op_type.data, op_names[op]) == 0 && strcmp(node->domain.data, "ai.onnx") == 0)
            return op;
    return -1;
}

uint32_t find(const uint32_t *list, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

void release_compiled(void *state, inlay_compiled *c)
{
    struct device *d = state;

    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->constant_count; i++)
        buffer_free(d, &c->constants[i]);
    free(c->constants);
    free(c->steps);
    free(c);
    count(&d->counters.live_regions, -1);
}

static inlay_status upload(struct device *d, const inlay_compile_request *r, inlay_compiled *c, uint32_t value,
                           struct operand *out, inlay_diag *diag)
{
    const inlay_value_info *v = inlay_graph_value(r->graph, value);
    inlay_buffer *b = &c->constants[c->constant_count];
    inlay_status status = buffer_alloc(d, d->domain, v->data_bytes, b, diag);

    if (status != INLAY_OK)
        return status;
    memcpy(d->buffers[b->handle - HANDLE_BASE].data, v->data, v->data_bytes);
    out->from = FROM_CONSTANT;
    out->index = c->constant_count++;
    r->constants[value] = INLAY_CONST_COPIED;
    return INLAY_OK;
}

static inlay_status read_operand(struct device *d, const inlay_compile_request *r, inlay_compiled *c, uint32_t value,
                                 struct operand *out, inlay_diag *diag)
{
    *out = (struct operand){ .value = value };
    if ((inlay_graph_value(r->graph, value)->flags & INLAY_VALUE_CONSTANT) != 0)
        return upload(d, r, c, value, out, diag);
    for (uint32_t s = 0; s < c->step_count; s++) {
        if (c->steps[s].out.value == value) {
            *out = c->steps[s].out;
            return INLAY_OK;
        }
    }
    out->from = FROM_INPUT;
    out->index = find(r->inputs, r->input_count, value);
    if (out->index == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "fake: a value that neither enters nor is made");
    return INLAY_OK;
}

inlay_status compile(void *state, const inlay_compile_request *r, inlay_compiled **out_compiled, inlay_diag *diag)
{
    struct device *d = state;
    inlay_compiled *c = calloc(1, sizeof *c);
    inlay_status status = INLAY_OK;

    *out_compiled = NULL;
    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: compile");
    count(&d->counters.live_regions, 1);
    c->steps = calloc(r->node_count, sizeof *c->steps);
    c->constants = calloc((size_t)2 * r->node_count, sizeof *c->constants);
    if (c->steps == NULL || c->constants == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: compile");
        goto done;
    }
    for (uint32_t n = 0; n < r->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(r->graph, r->nodes[n]);
        struct step *s = &c->steps[c->step_count];

        s->op = op_of(node);
        s->node = r->nodes[n];
        s->in_count = node->input_count;
        for (uint32_t i = 0; i < s->in_count; i++)
            INLAY_TRY(read_operand(d, r, c, node->inputs[i], &s->in[i], diag));
        s->out = (struct operand){ .from = FROM_OUTPUT, .value = node->outputs[0] };
        s->out.index = find(r->outputs, r->output_count, node->outputs[0]);
        if (s->out.index == INLAY_NONE)
            s->out = (struct operand){ .from = FROM_INNER, .index = c->inner_count++, .value = node->outputs[0] };
        c->step_count++;
    }
    count(&d->counters.compiled, 1);
    if (r->node_count > d->counters.largest)
        d->counters.largest = r->node_count;
    for (uint32_t o = 0; o < r->offer_count; o++)
        if (r->cookies[o] == 2)
            count(&d->counters.groups, 1);
    if (r->cache_blob != NULL && r->cache_bytes == 9 && memcmp(r->cache_blob, "fake blob", 9) == 0)
        count(&d->counters.seen_blobs, 1);
    else if (r->store_cache != NULL && r->store_cache(r->ctx, "fake blob", 9) == INLAY_OK)
        count(&d->counters.stored_blobs, 1);
    if (INLAY_HAS(r, resident_bytes) && r->resident_bytes != NULL) /* its offers say nothing of it */
        for (uint32_t i = 0; i < c->constant_count; i++)
            *r->resident_bytes += c->constants[i].bytes;
    *out_compiled = c;
    c = NULL;
done:
    release_compiled(d, c);
    return status;
}

inlay_status specialize(void *state, inlay_compiled *c, inlay_specialize_request *r, inlay_instance **out_instance,
                        inlay_diag *diag)
{
    struct device *d = state;
    inlay_instance *in = calloc(1, sizeof *in + c->step_count * sizeof in->counts[0]);
    const inlay_value_state *x = INLAY_AT(inlay_value_state, r->values, r->value_stride, c->steps[0].in[0].value);
    int64_t most = 0;

    *out_instance = NULL;
    if (in == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: specialize");
    in->rank = x->rank;
    memcpy(in->dims, x->dims, x->rank * sizeof *x->dims);
    for (uint32_t s = 0; s < c->step_count; s++) {
        const inlay_value_state *v = INLAY_AT(inlay_value_state, r->values, r->value_stride, c->steps[s].in[0].value);

        in->counts[s] = 1;
        for (uint32_t i = 0; i < v->rank; i++)
            in->counts[s] *= v->dims[i];
        most = in->counts[s] > most ? in->counts[s] : most;
    }
    in->inner_bytes = ((uint64_t)most * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    r->workspace_bytes = in->inner_bytes * c->inner_count;
    r->workspace_alignment = ALIGNMENT;
    if (c->steps[0].op == OP_NONZERO) {
        r->outputs[0].kind = d->bounded ? INLAY_OUTPUT_BOUNDED : INLAY_OUTPUT_ALLOCATED;
        r->outputs[0].max_bytes = (uint64_t)in->counts[0] * in->rank * sizeof(int64_t);
    } else if (d->in_place && c->step_count == 1 && c->steps[0].in[0].from == FROM_INPUT)
        r->outputs[0].alias = c->steps[0].in[0].index;
    count(&d->counters.live_regions, 1);
    *out_instance = in;
    return INLAY_OK;
}

void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)compiled;
    free(instance);
    count(&((struct device *)state)->counters.live_regions, -1);
}

/* ------------------------------------------------------------------ what is kept for one context */

struct inlay_binding {
    uint32_t count;
    inlay_buffer workspace;
    inlay_buffer buffers[]; /* of inputs and outputs; handle 0: another one in each run */
};

inlay_status bind(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_bind_args *args,
                  inlay_binding **out_binding, inlay_diag *diag)
{
    const uint32_t count_all = args->input_count + args->output_count;
    inlay_binding *b = calloc(1, sizeof *b + count_all * sizeof b->buffers[0]);

    (void)instance;
    if (compiled->steps[0].op == OP_NONZERO) {
        free(b);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "fake: nothing to keep");
    }
    if (b == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "fake: bind");
    if (args->struct_size < sizeof *args)
        count(&((struct device *)state)->counters.misuse, 1);
    b->workspace = args->workspace;
    for (uint32_t i = 0; i < count_all; i++)
        b->buffers[b->count++] =
            i < args->input_count
                ? INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i)->buffer
                : INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i - args->input_count)->buffer;
    count(&((struct device *)state)->counters.live_bindings, 1);
    *out_binding = b;
    return INLAY_OK;
}

void release_binding(void *state, inlay_compiled *compiled, inlay_instance *instance, inlay_binding *binding)
{
    (void)compiled, (void)instance;
    free(binding);
    count(&((struct device *)state)->counters.live_bindings, -1);
}

/* Are these the addresses that were promised to stay? */
void check_binding(struct device *d, const inlay_exec_args *args)
{
    const inlay_binding *b = args->binding;

    if (b == NULL)
        return;
    count(&d->counters.bound_runs, 1);
    if (args->workspace.handle != b->workspace.handle || args->workspace.offset != b->workspace.offset)
        count(&d->counters.misuse, 1);
    for (uint32_t i = 0; i < b->count; i++) {
        const inlay_buffer *now =
            i < args->input_count
                ? &INLAY_AT(inlay_tensor_arg, args->inputs, args->arg_stride, i)->buffer
                : &INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i - args->input_count)->buffer;

        if (b->buffers[i].handle != 0 && (now->handle != b->buffers[i].handle || now->offset != b->buffers[i].offset))
            count(&d->counters.misuse, 1);
    }
}
