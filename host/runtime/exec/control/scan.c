/* exec/control/scan.c - Scan (opset 8, 9, ...). */
#include "base/memory.h"
#include "exec/control/body.h"
#include "inlay/check.h"
#include <string.h>

typedef struct scan_input {
    run_value whole;
    run_value slice;
    int64_t dims[INLAY_MAX_RANK];
    int64_t outer, length;
    size_t inner;
    bool reverse;
    char *memory; /* a copy of the slice, if the elements of a slice are not contiguous; otherwise NULL */
} scan_input;

static inlay_status scan_prepare(host_call *call, scan_input *input, int64_t axis, bool reverse)
{
    int64_t rank = input->whole.rank;

    if (input->whole.kind != INLAY_KIND_TENSOR || rank == 0 || axis < -rank || axis >= rank ||
        inlay_dtype_bits(input->whole.dtype) < 8)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "Scan node '%s' can't scan axis %lld of a tensor of rank %lld", call->node->info.name.data,
                          (long long)axis, (long long)rank);
    axis += axis < 0 ? rank : 0;
    input->outer = 1;
    input->length = input->whole.dims[axis];
    input->inner = inlay_dtype_bits(input->whole.dtype) / 8;
    input->reverse = reverse;
    input->slice = input->whole;
    input->slice.owner = NULL;
    input->slice.dims = input->dims;
    input->slice.rank = (uint32_t)rank - 1;
    for (int64_t d = 0, k = 0; d < rank; d++) {
        if (d < axis)
            input->outer *= input->whole.dims[d];
        else if (d > axis)
            input->inner *= (size_t)input->whole.dims[d];
        if (d != axis)
            input->dims[k++] = input->whole.dims[d];
    }
    if (input->outer != 1 || input->inner % plan_alignment(call->runner->prog->env, input->whole.alias.domain) != 0)
        input->slice.alias = (inlay_buffer){ 0 }; /* slices begin at addresses that the device cannot use */
    input->slice.buffer.bytes = (uint64_t)input->outer * input->inner;
    if (input->outer != 1) {
        input->memory = arena_alloc(&call->bound->dynamic.scratch, (size_t)input->slice.buffer.bytes);
        if (input->memory == NULL)
            return no_memory(call->diag, "for a slice in node '%s'", call->node->info.name.data);
    }
    return INLAY_OK;
}

static void scan_slice(scan_input *input, int64_t step)
{
    int64_t at = input->reverse ? input->length - 1 - step : step;
    char *whole = inlay_buffer_host(&input->whole.buffer);

    INLAY_CHECK(at >= 0 && at < input->length);
    input->slice.buffer.offset = 0;
    if (input->memory == NULL) {
        input->slice.buffer.handle = (uintptr_t)(whole + (size_t)at * input->inner);
        input->slice.alias.offset = input->whole.alias.offset + (uint64_t)at * input->inner;
        input->slice.alias.bytes = input->slice.buffer.bytes;
    } else {
        move_slice(whole, input->memory, input->outer, input->length, at, input->inner, true);
        input->slice.buffer.handle = (uintptr_t)input->memory;
    }
}

/* Runs the body on one slice after another. loop->in holds the states. All scan inputs have the same length. */
static inlay_status scan_pass(struct loop *loop, scan_input *scans, uint32_t scan_count, int64_t length)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < scan_count; i++)
        loop->in[loop->carried + i] = scans[i].slice; /* gives the shape, also if there is no slice */
    for (int64_t step = 0; step < length; step++) {
        for (uint32_t i = 0; i < scan_count; i++) {
            scan_slice(&scans[i], step);
            loop->in[loop->carried + i] = scans[i].slice;
        }
        status = run_poll(&loop->call->runner->shared->run);
        if (status == INLAY_OK)
            status = loop_run(loop);
        if (status == INLAY_OK)
            status = loop_advance(loop, 0, 0);
        if (status != INLAY_OK)
            break;
    }
    return status;
}

static inlay_status scan_outputs(struct loop *loop)
{
    host_call *call = loop->call;

    for (uint32_t i = 0; i < loop->scans; i++) {
        uint32_t value_index = call->node->info.outputs[loop->carried + i];
        int64_t axis = graph_attr_int_at(call->node, "scan_output_axes", i);
        bool reverse = graph_attr_int_at(call->node, "scan_output_directions", i) != 0;
        inlay_value *value = NULL;
        inlay_status status;

        if (loop->stacks[i].count == 0)
            loop_set_inferred_shape(loop, i, loop->carried + i);
        axis += axis < 0 ? (int64_t)loop->stacks[i].rank + 1 : 0;
        if (axis < 0 || axis > (int64_t)loop->stacks[i].rank)
            return inlay_fail(call->diag, INLAY_INVALID_MODEL, "scan_output_axes of node '%s' is out of range",
                              call->node->info.name.data);
        status = stack_pop(call, &loop->stacks[i], (uint32_t)axis, reverse, value_index, &value);
        if (status != INLAY_OK)
            return status;
        host_set_value(call, value_index, value);
    }
    return INLAY_OK;
}

/* Returns whether all results are stacked forwards along the first axis. */
static bool stacks_in_order(const host_call *call, uint32_t scans)
{
    for (uint32_t i = 0; i < scans; i++)
        if (graph_attr_int_at(call->node, "scan_output_axes", i) != 0 ||
            graph_attr_int_at(call->node, "scan_output_directions", i) != 0)
            return false;
    return true;
}

/* Scan-9 and later: no batch axis. */
inlay_status run_scan(host_call *call)
{
    const inlay_node_info *node = &call->node->info;
    const inlay_attr_info *attr = graph_attr(call->node, "num_scan_inputs");
    uint32_t count = attr != NULL && attr->i > 0 && attr->i <= node->input_count ? (uint32_t)attr->i : 0;
    uint32_t states = node->input_count - count, outs = node->output_count > states ? node->output_count - states : 0;
    scan_input *scans = arena_array(&call->bound->dynamic.scratch, (size_t)count + 1, sizeof *scans);
    inlay_status status = INLAY_OK;
    struct loop loop = { .call = call };

    if (count == 0 || scans == NULL) {
        status = count == 0 ? inlay_fail(call->diag, INLAY_INVALID_MODEL,
                                         "num_scan_inputs of node '%s' is out of range", node->name.data)
                            : no_memory(call->diag, "to enter node '%s'", node->name.data);
        goto done;
    }
    INLAY_TRY(loop_init(&loop, call, states, outs));
    INLAY_TRY(body_arity(call, loop.graph, states + count, states + outs));
    for (uint32_t i = 0; i < states; i++)
        loop.in[i] = host_value(call, node->inputs[i]);
    for (uint32_t i = 0; i < count; i++) {
        scans[i].whole = host_value(call, node->inputs[states + i]);
        INLAY_TRY(scan_prepare(call, &scans[i], graph_attr_int_at(call->node, "scan_input_axes", i),
                               graph_attr_int_at(call->node, "scan_input_directions", i) != 0));
        if (scans[i].length != scans[0].length) {
            status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "Scan node '%s' scans inputs of %lld and %lld steps",
                                node->name.data, (long long)scans[0].length, (long long)scans[i].length);
            goto done;
        }
    }
    loop_choose_residency(&loop, 0, 0, stacks_in_order(call, outs));
    INLAY_TRY(scan_pass(&loop, scans, count, scans[0].length));
    INLAY_TRY(loop_finish_carried(&loop, 0));
    INLAY_TRY(scan_outputs(&loop));
done:
    loop_deinit(&loop);
    return status;
}

/* Scan-8.
 *
 * Inputs have a leading batch axis, and each batch entry has its own sequence length. Each entry is scanned
 * separately. */

/* Entry `index` of a tensor with a leading batch axis. */
static run_value batch_entry(const run_value *value, int64_t index)
{
    run_value entry = *value;
    size_t bytes = value->dims[0] > 0 ? (size_t)value->buffer.bytes / (size_t)value->dims[0] : 0;

    INLAY_CHECK(index >= 0 && index < value->dims[0]);
    entry.owner = NULL;
    entry.dims = value->dims + 1;
    entry.rank = value->rank - 1;
    entry.buffer.offset += (uint64_t)index * bytes;
    entry.buffer.bytes = bytes;
    entry.alias = (inlay_buffer){ 0 };
    return entry;
}

/* Writes a batch entry of an output. The first entry allocates the output. first_dim: the length of the entry's first
 * axis in the output, where shorter entries are padded with zeros; -1: no padding. */
static inlay_status put_entry(host_call *call, uint32_t output, int64_t index, int64_t batch, const inlay_value *entry,
                              int64_t first_dim)
{
    uint32_t value = call->node->info.outputs[output];
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *whole = call->bound->dynamic.values[value].owner;
    size_t stride;
    bool fits;

    if (entry->kind != INLAY_KIND_TENSOR || entry->rank >= INLAY_MAX_RANK || inlay_dtype_bits(entry->dtype) < 8 ||
        (first_dim >= 0 && entry->rank == 0))
        return inlay_fail(call->diag, INLAY_INVALID_MODEL,
                          "output %u of Scan node '%s' is not a tensor that can be stacked", output,
                          call->node->info.name.data);
    INLAY_CHECK(index < batch);
    if (index == 0) {
        inlay_status status;
        dims[0] = batch;
        memcpy(dims + 1, entry->dims, entry->rank * sizeof *dims);
        if (first_dim >= 0)
            dims[1] = first_dim;
        status = value_create_from(call->runner->shared->tensors.memory, entry->dtype, entry->rank + 1, dims, true,
                                   &whole, call->diag);
        if (status != INLAY_OK)
            return status;
        runner_set(call->runner, call->bound, value, whole);
    }
    stride = (size_t)whole->buffer.bytes / (size_t)batch;
    fits = entry->dtype == whole->dtype && entry->rank + 1 == whole->rank && entry->dtype != INLAY_STRING;
    for (uint32_t d = 0; fits && d < entry->rank; d++)
        fits = d == 0 && first_dim >= 0 ? entry->dims[d] <= first_dim : entry->dims[d] == whole->dims[d + 1];
    if (!fits)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "output %u of Scan node '%s' changes its shape in the batch", output,
                          call->node->info.name.data);
    memcpy((char *)value_data(whole) + (size_t)index * stride, value_data(entry), (size_t)entry->buffer.bytes);
    return INLAY_OK;
}

static inlay_status scan8_entry(host_call *call, int64_t index, int64_t batch, uint32_t states, uint32_t count,
                                int64_t length, int64_t longest)
{
    const inlay_node_info *node = &call->node->info;
    uint32_t outs = node->output_count > states ? node->output_count - states : 0;
    scan_input *scans = arena_array(&call->bound->dynamic.scratch, (size_t)count + 1, sizeof *scans);
    run_value *wholes = arena_array(&call->bound->dynamic.scratch, (size_t)count + 1, sizeof *wholes);
    inlay_status status = INLAY_OK;
    struct loop loop = { .call = call };

    if (scans == NULL || wholes == NULL) {
        status = no_memory(call->diag, "to enter node '%s'", node->name.data);
        goto done;
    }
    INLAY_TRY(loop_init(&loop, call, states, outs));
    INLAY_TRY(body_arity(call, loop.graph, states + count, states + outs));
    for (uint32_t i = 0; i < states; i++) {
        run_value whole = host_value(call, node->inputs[1 + i]);
        if (whole.kind != INLAY_KIND_TENSOR || whole.rank == 0 || whole.dims[0] != batch) {
            status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "state %u of Scan node '%s' has another batch size",
                                i, node->name.data);
            goto done;
        }
        loop.in[i] = batch_entry(&whole, index);
    }
    for (uint32_t i = 0; i < count; i++) {
        wholes[i] = host_value(call, node->inputs[1 + states + i]);
        if (wholes[i].kind != INLAY_KIND_TENSOR || wholes[i].rank < 2 || wholes[i].dims[0] != batch ||
            wholes[i].dims[1] != longest) {
            status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                                "scan input %u of Scan node '%s' has another batch or "
                                "sequence than the first",
                                i, node->name.data);
            goto done;
        }
        scans[i].whole = batch_entry(&wholes[i], index);
        INLAY_TRY(scan_prepare(call, &scans[i], 0, graph_attr_int_at(call->node, "directions", i) != 0));
        if (scans[i].reverse)
            scans[i].length = length; /* reversed within the entry's own length */
    }
    INLAY_TRY(scan_pass(&loop, scans, count, length));
    for (uint32_t i = 0; i < states + outs; i++) {
        inlay_value *value = NULL;
        if (node->outputs[i] == INLAY_NONE)
            continue;
        if (i < states) {
            status = pool_value(call->runner->shared, &loop.in[i], &value, call->diag);
        } else {
            if (loop.stacks[i - states].count == 0)
                loop_set_inferred_shape(&loop, i - states, i);
            status = stack_pop(call, &loop.stacks[i - states], 0, false, INLAY_NONE, &value);
        }
        if (status == INLAY_OK)
            status = put_entry(call, i, index, batch, value, i < states ? -1 : longest);
        pool_give(call->runner->shared, value);
        if (status != INLAY_OK)
            goto done;
    }
done:
    loop_deinit(&loop);
    return status;
}

inlay_status run_scan8(host_call *call)
{
    const inlay_node_info *node = &call->node->info;
    const inlay_attr_info *attr = graph_attr(call->node, "num_scan_inputs");
    uint32_t count = attr != NULL && attr->i > 0 && attr->i < node->input_count ? (uint32_t)attr->i : 0;
    run_value lens = host_value(call, node->inputs[0]), first;
    uint32_t states;

    if (count == 0)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL, "num_scan_inputs of node '%s' is out of range",
                          node->name.data);
    states = node->input_count - 1 - count;
    first = host_value(call, node->inputs[1 + states]);
    if (first.kind != INLAY_KIND_TENSOR || first.rank < 2 || first.dims[0] == 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "Scan node '%s' (version 8) scans [batch, sequence, ...]",
                          node->name.data);
    if (lens.kind != 0 && (lens.dtype != INLAY_INT64 || run_value_count(&lens) != first.dims[0]))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "sequence_lens of Scan node '%s' must have %lld elements",
                          node->name.data, (long long)first.dims[0]);
    for (int64_t index = 0; index < first.dims[0]; index++) {
        int64_t length = first.dims[1];
        inlay_status status;

        if (lens.kind != 0)
            memcpy(&length, (const char *)inlay_buffer_host(&lens.buffer) + (size_t)index * sizeof length,
                   sizeof length);
        if (length < 0 || length > first.dims[1])
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                              "sequence_lens of Scan node '%s' holds %lld of %lld steps", node->name.data,
                              (long long)length, (long long)first.dims[1]);
        status = scan8_entry(call, index, first.dims[0], states, count, length, first.dims[1]);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}
