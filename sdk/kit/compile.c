/* Compiles a region of the graph into units: the kernel of each node, its prepared state, and the sources of its
 * tensors.
 *
 * The host compiles single nodes and chains, since the kit's offers do not merge. Any region of several nodes works:
 * values that are used only inside the region are stored in the workspace. Searches are linear, because regions are
 * small. */
#include "internal.h"
#include <stdio.h>

/* Returns the index of a value in the list, or INLAY_NONE. */
static uint32_t index_in(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return i;
    return INLAY_NONE;
}

/* Finds the number of an inner value that a unit before `before` computes. */
static bool find_inner(const inlay_compiled *compiled, uint32_t before, uint32_t value, uint32_t *out_index)
{
    for (uint32_t unit_index = 0; unit_index < before; unit_index++) {
        const kit_unit *unit = &compiled->units[unit_index];

        for (uint32_t o = unit->in_count; o < unit->in_count + unit->out_count; o++) {
            if (unit->refs[o].kind == KIT_REF_INNER && unit->refs[o].value == value) {
                *out_index = unit->refs[o].index;
                return true;
            }
        }
    }
    return false;
}

static inlay_status resolve_input(const inlay_compile_request *request, const inlay_compiled *compiled,
                                  uint32_t unit_index, uint32_t value, kit_ref *ref, inlay_diag *diag)
{
    const inlay_value_info *info = inlay_graph_value(request->graph, value);

    *ref = (kit_ref){ .kind = KIT_REF_NONE, .value = value };
    if (info == NULL)
        return INLAY_OK;
    ref->dtype = info->dtype;
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0) {
        ref->kind = KIT_REF_FIXED; /* prepare_unit sets the address unless prepare drops the constant */
        return INLAY_OK;
    }
    if ((ref->index = index_in(request->inputs, request->input_count, value)) != INLAY_NONE) {
        ref->kind = KIT_REF_INPUT;
        return INLAY_OK;
    }
    /* A region output that is read again inside the region. */
    if (unit_index > 0 && (ref->index = index_in(request->outputs, request->output_count, value)) != INLAY_NONE) {
        ref->kind = KIT_REF_OUTPUT;
        return INLAY_OK;
    }
    if (find_inner(compiled, unit_index, value, &ref->index)) {
        ref->kind = KIT_REF_INNER;
        return INLAY_OK;
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "value '%s' is read in the region, but is neither an input of the region nor computed in it",
                      info->name.data);
}

static void resolve_output(const inlay_compile_request *request, inlay_compiled *compiled, uint32_t value, kit_ref *ref)
{
    const inlay_value_info *info = inlay_graph_value(request->graph, value);

    *ref = (kit_ref){ .kind = KIT_REF_NONE, .value = value };
    if (info == NULL)
        return;
    ref->dtype = info->dtype;
    ref->index = index_in(request->outputs, request->output_count, value);
    ref->kind = KIT_REF_OUTPUT;
    if (ref->index == INLAY_NONE) {
        ref->kind = KIT_REF_INNER;
        ref->index = compiled->inner_count++;
    }
}

/* Is the node the last consumer of the value? Then the node may overwrite the value's buffer. */
static bool is_last_consumer(const inlay_graph *graph, uint32_t node, uint32_t value)
{
    if ((inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t later = node + 1; later < graph->node_count; later++) {
        const inlay_node_info *info = inlay_graph_node(graph, later);

        if (index_in(info->inputs, info->input_count, value) != INLAY_NONE)
            return false;
    }
    return true;
}

static bool same_type_and_dims(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        if (a->dims[d].kind != b->dims[d].kind || a->dims[d].value != b->dims[d].value ||
            a->dims[d].symbol != b->dims[d].symbol)
            return false;
    }
    return true;
}

/* Chooses the input whose buffer output 0 shares if the shapes allow it (kit_specialize checks them). An input whose
 * last consumer is this node is preferred, because the host can reuse no other buffer. */
static void choose_alias(const inlay_compile_request *request, uint32_t node, kit_unit *unit)
{
    const inlay_value_info *output;
    uint32_t candidates[4], count = 0;

    unit->alias = INLAY_NONE;
    if ((unit->kernel->flags & (KIT_IN_PLACE | KIT_IN_PLACE_FIRST)) == 0 || unit->out_count == 0 ||
        unit->refs[unit->in_count].kind != KIT_REF_OUTPUT)
        return;
    if ((unit->kernel->flags & KIT_IN_PLACE_FIRST) != 0) {
        bool alone = unit->in_count > 0 && unit->refs[0].kind == KIT_REF_INPUT;

        /* ScatterND(input, indices, input) would overwrite elements that it still has to read. */
        for (uint32_t i = 1; alone && i < unit->in_count; i++)
            alone = unit->refs[i].value != unit->refs[0].value;
        unit->alias = alone ? 0 : INLAY_NONE;
        return;
    }
    output = inlay_graph_value(request->graph, unit->refs[unit->in_count].value);
    for (uint32_t i = 0; i < unit->in_count && count < 4; i++) {
        const kit_ref *ref = &unit->refs[i];

        if (ref->kind != KIT_REF_INPUT || ref->dtype != unit->refs[unit->in_count].dtype)
            continue;
        /* If an input is known to have the output's shape, such an input becomes the first candidate. */
        if (count > 0 && same_type_and_dims(inlay_graph_value(request->graph, ref->value), output) &&
            !same_type_and_dims(inlay_graph_value(request->graph, unit->refs[candidates[0]].value), output)) {
            candidates[count++] = candidates[0];
            candidates[0] = i;
        } else {
            candidates[count++] = i;
        }
    }
    if (count == 0)
        return;
    unit->alias = candidates[0];
    for (uint32_t i = 0; i < count && count > 1; i++) {
        const inlay_value_info *input = inlay_graph_value(request->graph, unit->refs[candidates[i]].value);

        if (same_type_and_dims(input, output) &&
            is_last_consumer(request->graph, node, unit->refs[candidates[i]].value)) {
            unit->alias = candidates[i];
            break;
        }
    }
}

/* Runs the kernel's prepare and fetches the constants that it does not drop. */
static inlay_status prepare_unit(const kit_state *state, const inlay_compile_request *request,
                                 const inlay_node_info *info, kit_unit *unit, inlay_diag *diag)
{
    uint8_t local[32] = { 0 }, *fate = local;
    kit_node node = { .host = state->host,
                      .graph = request->graph,
                      .info = info,
                      .provider = state->user,
                      .compile_handle = request->handle };
    inlay_status status = INLAY_OK;

    if (unit->in_count > sizeof local && (fate = calloc(unit->in_count, 1)) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "preparing node '%s'", unit->name);
    node.constant_fate = fate;
    if (unit->kernel->prepare != NULL)
        INLAY_TRY(unit->kernel->prepare(&node, &unit->state, diag));
    for (uint32_t i = 0; i < unit->in_count; i++) {
        kit_ref *ref = &unit->refs[i];

        if (ref->kind != KIT_REF_FIXED)
            continue;
        if (fate[i] != INLAY_CONST_BORROWED && fate[i] != KIT_CONST_UNALIGNED) {
            ref->kind = KIT_REF_NONE;
            continue;
        }
        ref->address = fate[i] == KIT_CONST_UNALIGNED ? kit_constant_unaligned(&node, i) : kit_constant(&node, i);
        if (ref->address == NULL) {
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "aligning constant '%s' of node '%s'",
                                kit_input(&node, i)->name.data, unit->name);
            goto done;
        }
    }
done:
    if (fate != local)
        free(fate);
    return status;
}

static inlay_status build_unit(const kit_state *state, const inlay_compile_request *request, inlay_compiled *compiled,
                               uint32_t unit_index, inlay_diag *diag)
{
    const inlay_node_info *info = inlay_graph_node(request->graph, request->nodes[unit_index]);
    const kit_node node = { .host = state->host, .graph = request->graph, .info = info, .provider = state->user };
    kit_unit *unit = &compiled->units[unit_index];
    uint32_t tensor_count = info->input_count + info->output_count;
    kit_refusal why;
    inlay_status status;

    INLAY_CHECK(unit_index < compiled->unit_count);
    (void)snprintf(unit->name, sizeof unit->name, "%s", info->name.data);
    unit->kernel = kit_match(state, &node, &why);
    if (unit->kernel == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': %s", unit->name, why.text);
    unit->refs = calloc(tensor_count > 0 ? tensor_count : 1, sizeof *unit->refs);
    if (unit->refs == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling node '%s'", unit->name);
    unit->in_count = info->input_count;
    unit->out_count = info->output_count;
    for (uint32_t i = 0; i < info->input_count; i++) {
        status = resolve_input(request, compiled, unit_index, info->inputs[i], &unit->refs[i], diag);
        if (status != INLAY_OK)
            return status;
    }
    for (uint32_t output = 0; output < info->output_count; output++)
        resolve_output(request, compiled, info->outputs[output], &unit->refs[info->input_count + output]);
    choose_alias(request, request->nodes[unit_index], unit);
    if (tensor_count > compiled->max_tensors)
        compiled->max_tensors = tensor_count;
    return prepare_unit(state, request, info, unit, diag);
}

/* Reports the constants that the host may drop: those that no unit of the region reads at run time. */
static void report_constants(const inlay_compile_request *request, const inlay_compiled *compiled)
{
    if (request->constants == NULL)
        return;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t unit = 0; unit < compiled->unit_count; unit++) {
            for (uint32_t i = 0; i < compiled->units[unit].in_count; i++) {
                const kit_ref *ref = &compiled->units[unit].refs[i];
                const inlay_value_info *value = inlay_graph_value(request->graph, ref->value);

                if (value == NULL || (value->flags & INLAY_VALUE_CONSTANT) == 0)
                    continue;
                if (pass == 0 && ref->kind == KIT_REF_NONE)
                    request->constants[ref->value] = INLAY_CONST_PACKED;
                if (pass == 1 && ref->kind == KIT_REF_FIXED)
                    request->constants[ref->value] = INLAY_CONST_BORROWED;
            }
        }
    }
}

inlay_status kit_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                         inlay_diag *diag)
{
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    inlay_status status = INLAY_OK;

    *out_compiled = NULL;
    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling a region of %u nodes", request->node_count);
    compiled->units = calloc(request->node_count > 0 ? request->node_count : 1, sizeof *compiled->units);
    if (compiled->units == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "compiling a region of %u nodes", request->node_count);
        goto done;
    }
    for (uint32_t unit_index = 0; unit_index < request->node_count; unit_index++) {
        compiled->unit_count = unit_index + 1;
        if (request->poll != NULL && unit_index > 0)
            INLAY_TRY(request->poll(request->ctx));
        INLAY_TRY(build_unit(state, request, compiled, unit_index, diag));
    }
    compiled->is_chain = request->offer_count == 1 && request->cookies != NULL &&
                         request->cookies[0] == KIT_COOKIE_CHAIN && request->node_count > 1;
    for (uint32_t unit = 0; unit < compiled->unit_count; unit++)
        compiled->is_chain = compiled->is_chain && compiled->units[unit].kernel->row != NULL;
    report_constants(request, compiled);
    *out_compiled = compiled;
    compiled = NULL;
done:
    kit_release_compiled(state, compiled);
    return status;
}

void kit_release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    if (compiled == NULL)
        return;
    for (uint32_t unit_index = 0; unit_index < compiled->unit_count; unit_index++) {
        kit_unit *unit = &compiled->units[unit_index];

        if (unit->state != NULL)
            (unit->kernel->release != NULL ? unit->kernel->release : free)(unit->state);
        free(unit->refs);
    }
    kit_free_instance(compiled->spare);
    free(compiled->units);
    free(compiled);
}
