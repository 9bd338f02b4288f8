/* exec/control/scan.c - Scan (ONNX 8, 9, ...). */
#include "base/memory.h"
#include "exec/control/body.h"
#include <string.h>

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
    if (s->outer != 1 || s->inner % plan_alignment(c->r->prog->env, s->whole.alias.domain) != 0)
        s->slice.alias = (inlay_buffer){ 0 }; /* slices begin where the device can't address it */
    s->slice.buffer.bytes = (uint64_t)s->outer * s->inner;
    if (s->outer != 1) {
        s->memory = arena_alloc(&c->b->made.scratch, (size_t)s->slice.buffer.bytes);
        if (s->memory == NULL)
            return no_memory(c->diag, "for a slice in node '%s'", c->node->info.name.data);
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
        s->slice.alias.offset = s->whole.alias.offset + (uint64_t)at * s->inner;
        s->slice.alias.bytes = s->slice.buffer.bytes;
    } else {
        move_slice(whole, s->memory, s->outer, s->length, at, s->inner, true);
        s->slice.buffer.handle = (uintptr_t)s->memory;
    }
}

/* One pass over the sequence. l->in holds the states; scans the inputs; length what every scan input must have. */
static inlay_status scan_pass(struct loop *l, scan_input *scans, uint32_t scan_count, int64_t length)
{
    inlay_status status = INLAY_OK;

    for (int64_t t = 0; t < length; t++) {
        for (uint32_t i = 0; i < scan_count; i++) {
            scan_slice(&scans[i], t);
            l->in[l->carried + i] = scans[i].slice;
        }
        status = run_poll(&l->c->r->shared->run);
        if (status == INLAY_OK)
            status = loop_run(l);
        if (status == INLAY_OK)
            status = loop_advance(l, 0, 0);
        if (status != INLAY_OK)
            break;
    }
    return status;
}

static inlay_status scan_outputs(struct loop *l)
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
        status = stack_pop(c, &l->stacks[i], (uint32_t)axis, reverse, v, &value);
        if (status != INLAY_OK)
            return status;
        host_give(c, v, value);
    }
    return INLAY_OK;
}

/* Are all results stacked forwards, along the first axis? */
static bool stacks_plainly(const host_call *c, uint32_t scans)
{
    for (uint32_t i = 0; i < scans; i++)
        if (int_at(c->node, "scan_output_axes", i, 0) != 0 || int_at(c->node, "scan_output_directions", i, 0) != 0)
            return false;
    return true;
}

/* Scan-9 and later: no batch. */
inlay_status run_scan(host_call *c)
{
    const inlay_node_info *n = &c->node->info;
    const inlay_attr_info *attr = graph_attr(c->node, "num_scan_inputs");
    uint32_t count = attr != NULL && attr->i > 0 && attr->i <= n->input_count ? (uint32_t)attr->i : 0;
    uint32_t states = n->input_count - count, outs = n->output_count > states ? n->output_count - states : 0;
    scan_input *scans = arena_array(&c->b->made.scratch, (size_t)count + 1, sizeof *scans);
    inlay_status status = INLAY_OK;
    struct loop l = { .c = c };

    if (count == 0 || scans == NULL) {
        status = count == 0 ? inlay_fail(c->diag, INLAY_INVALID_MODEL, "num_scan_inputs of node '%s' is out of range",
                                         n->name.data)
                            : no_memory(c->diag, "to enter node '%s'", n->name.data);
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
    loop_stay(&l, 0, 0, stacks_plainly(c, outs));
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
    e.alias = (inlay_buffer){ 0 };
    return e;
}

/* Puts entry b of an output that is made when the first entry is known; shorter entries are padded with zeroes. */
static inlay_status put_entry(host_call *c, uint32_t o, int64_t b, int64_t batch, const inlay_value *entry,
                              int64_t first_dim)
{
    uint32_t v = c->node->info.outputs[o];
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *whole = c->b->made.values[v].owner;
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
        status =
            value_create_from(c->r->shared->tensors.memory, entry->dtype, entry->rank + 1, dims, true, &whole, c->diag);
        if (status != INLAY_OK)
            return status;
        runner_set(c->r, c->b, v, whole);
    }
    stride = (size_t)whole->buffer.bytes / (size_t)batch;
    fits = entry->dtype == whole->dtype && entry->rank + 1 == whole->rank && entry->dtype != INLAY_STRING;
    for (uint32_t d = 0; fits && d < entry->rank; d++)
        fits = d == 0 && first_dim >= 0 ? entry->dims[d] <= first_dim : entry->dims[d] == whole->dims[d + 1];
    if (!fits)
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH, "output %u of Scan node '%s' changes its shape in the batch",
                          o, c->node->info.name.data);
    memcpy((char *)value_data(whole) + (size_t)b * stride, value_data(entry), (size_t)entry->buffer.bytes);
    return INLAY_OK;
}

static inlay_status scan8_entry(host_call *c, int64_t b, int64_t batch, uint32_t states, uint32_t count, int64_t length,
                                int64_t longest)
{
    const inlay_node_info *n = &c->node->info;
    uint32_t outs = n->output_count > states ? n->output_count - states : 0;
    scan_input *scans = arena_array(&c->b->made.scratch, (size_t)count + 1, sizeof *scans);
    rt_value *wholes = arena_array(&c->b->made.scratch, (size_t)count + 1, sizeof *wholes);
    inlay_status status = INLAY_OK;
    struct loop l = { .c = c };

    if (scans == NULL || wholes == NULL) {
        status = no_memory(c->diag, "to enter node '%s'", n->name.data);
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
            status = inlay_fail(c->diag, INLAY_SHAPE_MISMATCH,
                                "scan input %u of Scan node '%s' has another batch or "
                                "sequence than the first",
                                i, n->name.data);
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
            status = stack_pop(c, &l.stacks[i - states], 0, false, INLAY_NONE, &value);
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

inlay_status run_scan8(host_call *c)
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
