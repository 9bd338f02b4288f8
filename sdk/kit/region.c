/* A copy of a region that stays valid after compile has returned. */
#include "inlay/check.h"
#include "inlay/kit_region.h"
#include <stddef.h>

struct block {
    struct block *next;
    max_align_t bytes[];
};

void *kit_region_take(kit_region *region, uint64_t bytes)
{
    struct block *block = bytes < SIZE_MAX / 2 ? calloc(1, sizeof *block + bytes + 1) : NULL;

    if (block == NULL)
        return NULL;
    block->next = region->memory;
    region->memory = block;
    return block->bytes;
}

void kit_region_free(kit_region *region)
{
    for (struct block *block = region->memory, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    *region = (kit_region){ 0 };
}

static void *copy_of(kit_region *region, const void *data, uint64_t bytes)
{
    void *copy = kit_region_take(region, bytes);

    if (copy != NULL && bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

static bool copy_attr(kit_region *region, const inlay_attr_info *from, uint64_t small_bytes, inlay_attr_info *to)
{
    bool ok = (to->name.data = copy_of(region, from->name.data, from->name.bytes)) != NULL;

    to->kind = from->kind;
    to->name.bytes = from->name.bytes;
    to->i = from->i;
    to->f = from->f;
    to->count = from->count;
    to->s.bytes = from->s.bytes;
    if (from->kind == INLAY_ATTR_STRING)
        ok &= (to->s.data = copy_of(region, from->s.data, from->s.bytes)) != NULL;
    else if (from->kind == INLAY_ATTR_INTS)
        ok &= (to->ints = copy_of(region, from->ints, from->count * sizeof *from->ints)) != NULL;
    else if (from->kind == INLAY_ATTR_FLOATS)
        ok &= (to->floats = copy_of(region, from->floats, from->count * sizeof *from->floats)) != NULL;
    if (from->kind == INLAY_ATTR_TENSOR && from->tensor->bytes <= small_bytes) {
        inlay_tensor_view *view = copy_of(region, from->tensor, sizeof *view);

        if (view == NULL || (view->data = copy_of(region, from->tensor->data, view->bytes)) == NULL ||
            (view->dims = copy_of(region, from->tensor->dims, view->rank * sizeof *view->dims)) == NULL)
            return false;
        to->tensor = view;
    }
    return ok;
}

struct region_copier {
    const inlay_compile_request *request;
    kit_region *region;
    uint64_t small_bytes;
    uint32_t *number_of; /* [graph->value_count] the value's number in the region, or INLAY_NONE */
};

/* Stores the number that a value of the graph has in the region; a new value gets the next one. Returns false if memory
 * is exhausted. */
static bool number_value(struct region_copier *copier, uint32_t snapshot, uint32_t *out)
{
    const inlay_value_info *info = inlay_graph_value(copier->request->graph, snapshot);
    kit_region_value *value = &copier->region->values[copier->region->value_count];

    *out = info != NULL ? copier->number_of[snapshot] : INLAY_NONE;
    if (info == NULL || *out != INLAY_NONE)
        return true;
    INLAY_CHECK(snapshot < copier->request->graph->value_count);
    value->snapshot = snapshot;
    value->dtype = info->dtype;
    value->constant = (info->flags & INLAY_VALUE_CONSTANT) != 0;
    if (info->data != NULL && info->data_bytes <= copier->small_bytes && info->dtype != INLAY_STRING) {
        value->data = copy_of(copier->region, info->data, info->data_bytes);
        value->data_bytes = info->data_bytes;
        if (value->data == NULL)
            return false;
    }
    *out = copier->number_of[snapshot] = copier->region->value_count++;
    return true;
}

static bool copy_node(struct region_copier *copier, const inlay_node_info *from, inlay_node_info *to)
{
    const uint32_t count = from->input_count + from->output_count;
    inlay_attr_info *attrs = kit_region_take(copier->region, from->attr_count * sizeof *attrs);
    uint32_t *numbers = kit_region_take(copier->region, count * sizeof *numbers);

    *to = *from;
    to->name.data = copy_of(copier->region, from->name.data, from->name.bytes);
    to->op_type.data = copy_of(copier->region, from->op_type.data, from->op_type.bytes);
    to->domain.data = "";
    to->domain.bytes = 0;
    if (attrs == NULL || numbers == NULL || to->name.data == NULL || to->op_type.data == NULL)
        return false;
    to->attrs = attrs;
    to->attr_stride = sizeof *attrs;
    to->inputs = numbers;
    to->outputs = numbers + from->input_count;
    for (uint32_t i = 0; i < from->attr_count; i++)
        if (!copy_attr(copier->region, INLAY_AT(inlay_attr_info, from->attrs, from->attr_stride, i),
                       copier->small_bytes, &attrs[i]))
            return false;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_in = i < from->input_count;

        if (!number_value(copier, is_in ? from->inputs[i] : from->outputs[i - from->input_count], &numbers[i]))
            return false;
        if (is_in && numbers[i] != INLAY_NONE)
            copier->region->values[numbers[i]].uses++;
    }
    return true;
}

static bool copy_nodes_and_values(struct region_copier *copier, uint32_t own_values)
{
    const inlay_compile_request *request = copier->request;
    kit_region *region = copier->region;
    uint64_t value_capacity = own_values;

    for (uint32_t node = 0; node < request->node_count; node++) {
        const inlay_node_info *info = inlay_graph_node(request->graph, request->nodes[node]);

        value_capacity += info->input_count + info->output_count;
    }
    region->nodes = kit_region_take(region, request->node_count * sizeof *region->nodes);
    region->values = kit_region_take(region, (value_capacity + 1) * sizeof *region->values);
    if (region->nodes == NULL || region->values == NULL || copier->number_of == NULL)
        return false;
    memset(copier->number_of, 0xff, ((size_t)request->graph->value_count + 1) * sizeof *copier->number_of);
    for (uint64_t value = 0; value <= value_capacity; value++)
        region->values[value] = (kit_region_value){ .snapshot = INLAY_NONE, .input = INLAY_NONE, .output = INLAY_NONE };
    for (uint32_t node = 0; node < request->node_count; node++, region->node_count++)
        if (!copy_node(copier, inlay_graph_node(request->graph, request->nodes[node]), &region->nodes[node]))
            return false;
    INLAY_CHECK(region->value_count + own_values <= value_capacity);
    region->input_count = request->input_count;
    region->output_count = request->output_count;
    for (uint32_t i = 0; i < request->input_count; i++)
        if (copier->number_of[request->inputs[i]] != INLAY_NONE)
            region->values[copier->number_of[request->inputs[i]]].input = i;
    for (uint32_t i = 0; i < request->output_count; i++)
        if (copier->number_of[request->outputs[i]] != INLAY_NONE) {
            region->values[copier->number_of[request->outputs[i]]].output = i;
            region->values[copier->number_of[request->outputs[i]]].uses++;
        }
    return true;
}

inlay_status kit_region_keep(const inlay_compile_request *request, uint64_t small_bytes, uint32_t own_values,
                             kit_region *out, inlay_diag *diag)
{
    struct region_copier copier = { .request = request, .region = out, .small_bytes = small_bytes };
    bool complete;

    *out = (kit_region){ 0 };
    copier.number_of = malloc(((size_t)request->graph->value_count + 1) * sizeof *copier.number_of);
    complete = copy_nodes_and_values(&copier, own_values);
    free(copier.number_of);
    if (complete)
        return INLAY_OK;
    kit_region_free(out);
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", request->node_count);
}

inlay_status kit_assess_each(const kit_node *like, const inlay_graph *graph, const uint8_t *candidates,
                             const inlay_assess_sink *sink, kit_fits_fn fits, void *ctx)
{
    inlay_status status = INLAY_OK;

    for (uint32_t n = 0; status == INLAY_OK && n < graph->node_count; n++) {
        inlay_offer offer = { .struct_size = sizeof offer, .nodes = &n, .node_count = 1 };
        kit_refusal why = { 0, "", "" };
        kit_node node = *like;

        node.graph = graph;
        node.info = inlay_graph_node(graph, n);
        if (candidates != NULL && candidates[n] == 0)
            continue;
        if (fits(ctx, &node, n, &offer, &why)) {
            status = sink->offer(sink->ctx, &offer);
        } else {
            const inlay_refusal refusal = { .struct_size = sizeof refusal,
                                            .node = n,
                                            .code = why.code != 0 ? why.code : INLAY_REFUSE_ATTRIBUTE,
                                            .text = why.text[0] != '\0' ? why.text : "the kernel refused the node",
                                            .accepted_if = why.accepted_if[0] != '\0' ? why.accepted_if : NULL };
            status = sink->refuse(sink->ctx, &refusal);
        }
    }
    return status;
}
