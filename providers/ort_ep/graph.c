/* The view of a graph, or of some of its nodes, that a library gets. */
#include "ort_ep/provider.h"
#include <stdlib.h>
#include <string.h>

static const OrtValueInfo *use_value(OrtGraph *view, uint32_t value)
{
    OrtValueInfo *use;

    if (value == INLAY_NONE)
        return NULL;
    use = &view->values[value];
    if (use->value != INLAY_NONE)
        return use;
    use->graph = view;
    use->info = inlay_graph_value(view->graph, value);
    use->type = ort_type_of_value(use->info);
    if (use->type == NULL)
        return NULL;
    use->value = value;
    return use;
}

void ep_node_deinit(OrtNode *node)
{
    for (size_t i = 0; i < node->attr_count; i++)
        ort_ReleaseOpAttr(node->attrs[i]);
    free(node->attrs);
    free(node->inputs);
    free(node->outputs);
    *node = (OrtNode){ 0 };
}

/* The uses of values; false: no memory. */
static bool use_values(OrtGraph *view, const uint32_t *values, size_t count, const OrtValueInfo ***out)
{
    *out = calloc(count + 1, sizeof **out);
    for (size_t i = 0; *out != NULL && i < count; i++) {
        (*out)[i] = use_value(view, values[i]);
        if ((*out)[i] == NULL && values[i] != INLAY_NONE)
            return false;
    }
    return *out != NULL;
}

static OrtStatus *init_node(OrtGraph *view, uint32_t index, OrtNode *node)
{
    const inlay_node_info *info = inlay_graph_node(view->graph, index);

    node->graph = view;
    node->info = info;
    node->id = index;
    node->ep_name = "";
    node->attrs = calloc((size_t)info->attr_count + 1, sizeof(OrtOpAttr *));
    if (node->attrs == NULL || !use_values(view, info->inputs, info->input_count, &node->inputs) ||
        !use_values(view, info->outputs, info->output_count, &node->outputs))
        return ort_no_memory();
    node->input_count = info->input_count;
    node->output_count = info->output_count;
    for (uint32_t i = 0; i < info->attr_count; i++) {
        node->attrs[node->attr_count] = ort_attr_copy(INLAY_AT(inlay_attr_info, info->attrs, info->attr_stride, i));
        if (node->attrs[node->attr_count++] == NULL)
            return ort_no_memory();
    }
    return NULL;
}

static bool is_constant(const OrtValueInfo *value)
{
    return (value->info->flags & INLAY_VALUE_CONSTANT) != 0;
}

static int compare_to_node(const void *index, const void *node)
{
    const size_t a = *(const uint32_t *)index, b = ((const OrtNode *)node)->id;

    return (a > b) - (a < b);
}

/* The node of the view that produces the value; NULL: none. */
static const OrtNode *producer_in(const OrtGraph *view, uint32_t value)
{
    const uint32_t producer = inlay_graph_value(view->graph, value)->producer;

    return producer == INLAY_NONE
               ? NULL
               : bsearch(&producer, view->nodes, view->node_count, sizeof *view->nodes, compare_to_node);
}

/* The inputs and outputs of a part of a graph; both lists have room for all values. */
static void find_ends(OrtGraph *view)
{
    const inlay_graph *graph = view->graph;
    bool *leaves = calloc((size_t)graph->value_count + 1, sizeof *leaves);
    size_t next = 0;

    for (uint32_t n = 0; leaves != NULL && n < graph->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);

        if (next < view->node_count && view->nodes[next].id == n) {
            next++;
            continue;
        }
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->inputs[i] != INLAY_NONE)
                leaves[node->inputs[i]] = true;
    }
    for (size_t n = 0; n < view->node_count; n++) {
        const OrtNode *node = &view->nodes[n];

        for (size_t i = 0; i < node->input_count; i++) {
            OrtValueInfo *value = (OrtValueInfo *)(uintptr_t)node->inputs[i];

            if (value == NULL || value->is_input || producer_in(view, value->value) != NULL)
                continue;
            value->is_input = true;
            view->inputs[view->input_count++] = value;
        }
        for (size_t i = 0; i < node->output_count; i++) {
            OrtValueInfo *value = (OrtValueInfo *)(uintptr_t)node->outputs[i];

            if (value == NULL ||
                (leaves != NULL && !leaves[value->value] && (value->info->flags & INLAY_VALUE_GRAPH_OUTPUT) == 0))
                continue;
            value->is_output = true;
            view->outputs[view->output_count++] = value;
        }
    }
    free(leaves);
}

static OrtStatus *use_graph_ends(OrtGraph *view)
{
    const inlay_graph *graph = view->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        OrtValueInfo *value = (OrtValueInfo *)(uintptr_t)use_value(view, graph->inputs[i]);

        if (value == NULL)
            return ort_no_memory();
        value->is_input = true;
        view->inputs[view->input_count++] = value;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        OrtValueInfo *value = (OrtValueInfo *)(uintptr_t)use_value(view, graph->outputs[i]);

        if (value == NULL)
            return ort_no_memory();
        value->is_output = true;
        view->outputs[view->output_count++] = value;
    }
    return NULL;
}

static OrtStatus *init_view(OrtGraph *view, const uint32_t *nodes, size_t node_count)
{
    const inlay_graph *graph = view->graph;

    view->is_whole = nodes == NULL;
    node_count = nodes == NULL ? graph->node_count : node_count;
    view->nodes = calloc(node_count + 1, sizeof *view->nodes);
    view->values = calloc((size_t)graph->value_count + 1, sizeof *view->values);
    view->inputs = calloc((size_t)graph->value_count + graph->input_count + 1, sizeof(OrtValueInfo *));
    view->outputs = calloc((size_t)graph->value_count + graph->output_count + 1, sizeof(OrtValueInfo *));
    view->constants = calloc((size_t)graph->value_count + 1, sizeof(OrtValueInfo *));
    if (view->nodes == NULL || view->values == NULL || view->inputs == NULL || view->outputs == NULL ||
        view->constants == NULL)
        return ort_no_memory();
    for (uint32_t i = 0; i < graph->value_count; i++)
        view->values[i].value = INLAY_NONE;
    for (size_t i = 0; i < node_count; i++) {
        view->node_count = i + 1;
        ORT_TRY(init_node(view, nodes != NULL ? nodes[i] : (uint32_t)i, &view->nodes[i]));
    }
    if (view->is_whole)
        ORT_TRY(use_graph_ends(view));
    else
        find_ends(view);
    for (uint32_t i = 0; i < graph->value_count; i++)
        if (view->values[i].value != INLAY_NONE && is_constant(&view->values[i]))
            view->constants[view->constant_count++] = &view->values[i];
    return NULL;
}

OrtStatus *ep_graph_create(const inlay_graph *graph, const uint32_t *nodes, size_t node_count, const inlay_host *host,
                           void *compile, OrtGraph **out)
{
    OrtGraph *view = calloc(1, sizeof *view);
    OrtStatus *failed;

    *out = NULL;
    if (view == NULL)
        return ort_no_memory();
    view->graph = graph;
    view->host = host;
    view->compile = compile;
    failed = init_view(view, nodes, node_count);
    if (failed != NULL)
        ort_ReleaseGraph(view);
    else
        *out = view;
    return failed;
}

void ort_ReleaseGraph(OrtGraph *view)
{
    if (view == NULL)
        return;
    for (size_t i = 0; i < view->node_count; i++)
        ep_node_deinit(&view->nodes[i]);
    for (uint32_t i = 0; view->values != NULL && i < view->graph->value_count; i++) {
        ort_ReleaseTypeInfo(view->values[i].type);
        ort_ReleaseValue(view->values[i].constant);
    }
    free(view->nodes);
    free(view->values);
    free(view->inputs);
    free(view->outputs);
    free(view->constants);
    free(view);
}

OrtStatus *ep_fused_init(const OrtGraph *view, const char *name, const char *ep_name, bool drop_constants,
                         inlay_node_info *out_info, OrtNode *out)
{
    size_t lists = view->input_count + view->output_count;
    uint32_t *indices = calloc(lists + 1, sizeof *indices);

    *out = (OrtNode){ .graph = view, .info = out_info, .id = view->graph->node_count, .ep_name = ep_name };
    *out_info = (inlay_node_info){ .name = { name, strlen(name) },
                                   .domain = { ep_name, strlen(ep_name) },
                                   .op_type = { ep_name, strlen(ep_name) },
                                   .since_version = 1,
                                   .inputs = indices,
                                   .attr_stride = sizeof(inlay_attr_info) };
    out->inputs = calloc(view->input_count + 1, sizeof(OrtValueInfo *));
    out->outputs = calloc(view->output_count + 1, sizeof(OrtValueInfo *));
    if (indices == NULL || out->inputs == NULL || out->outputs == NULL) {
        free(indices);
        ep_node_deinit(out);
        return ort_no_memory();
    }
    for (size_t i = 0; i < view->input_count; i++) {
        if (drop_constants && is_constant(view->inputs[i]))
            continue;
        indices[out_info->input_count++] = view->inputs[i]->value;
        out->inputs[out->input_count++] = view->inputs[i];
    }
    out_info->outputs = indices + out_info->input_count;
    for (size_t i = 0; i < view->output_count; i++) {
        indices[out_info->input_count + out_info->output_count++] = view->outputs[i]->value;
        out->outputs[out->output_count++] = view->outputs[i];
    }
    return NULL;
}

bool ep_value_has_type(const OrtValueInfo *value, uint64_t types)
{
    return value != NULL && value->type->tensor != NULL && (types >> value->type->tensor->type & 1) != 0;
}

ORT_GETTER(ort_GetValueInfoName, const OrtValueInfo *, value_info, const char *, name, value_info->info->name.data)
ORT_GETTER(ort_GetValueInfoTypeInfo, const OrtValueInfo *, value_info, const OrtTypeInfo *, type_info, value_info->type)

OrtStatus *ort_ValueInfo_GetValueProducer(const OrtValueInfo *value_info, const OrtNode **producer_node,
                                          size_t *producer_output_index)
{
    ORT_NEED(value_info);
    ORT_NEED(producer_node);
    *producer_node = producer_in(value_info->graph, value_info->value);
    for (size_t i = 0; producer_output_index != NULL && *producer_node != NULL && i < (*producer_node)->output_count;
         i++)
        if ((*producer_node)->outputs[i] == value_info)
            *producer_output_index = i;
    return NULL;
}

/* Calls with nodes NULL count. */
static size_t list_consumers(const OrtValueInfo *value_info, const OrtNode **nodes, int64_t *input_indices, size_t most)
{
    const OrtGraph *view = value_info->graph;
    size_t count = 0;

    for (size_t n = 0; n < view->node_count; n++)
        for (size_t i = 0; i < view->nodes[n].input_count; i++) {
            if (view->nodes[n].inputs[i] != value_info)
                continue;
            if (nodes != NULL && count < most) {
                nodes[count] = &view->nodes[n];
                input_indices[count] = (int64_t)i;
            }
            count++;
        }
    return count;
}

ORT_GETTER(ort_ValueInfo_GetValueNumConsumers, const OrtValueInfo *, value_info, size_t, num_consumers,
           list_consumers(value_info, NULL, NULL, 0))

static OrtStatus *check_room(size_t room, size_t count, const char *what)
{
    return room >= count ? NULL
                         : ort_fail(ORT_INVALID_ARGUMENT, "room for %zu %s, but there are %zu", room, what, count);
}

OrtStatus *ort_ValueInfo_GetValueConsumers(const OrtValueInfo *value_info, const OrtNode **nodes,
                                           int64_t *input_indices, size_t num_consumers)
{
    ORT_NEED(value_info);
    ORT_NEED(nodes);
    ORT_NEED(input_indices);
    return check_room(num_consumers, list_consumers(value_info, nodes, input_indices, num_consumers), "consumers");
}

/* The elements of a constant; those of a graph that is only assessed may be misaligned in the file. */
static OrtStatus *make_constant(const OrtValueInfo *value_info, OrtValue **out)
{
    const inlay_value_info *info = value_info->info;
    const OrtGraph *view = value_info->graph;
    size_t alignment = inlay_dtype_bits(info->dtype) / 8;
    inlay_diag diag = INLAY_DIAG_INIT;
    const void *data = info->data;
    inlay_value *value = NULL;
    inlay_status status;
    int64_t dims[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < info->rank; d++)
        dims[d] = info->dims[d].value;
    if (info->dtype == INLAY_STRING) {
        status = inlay_value_create_strings(info->rank, dims, data, &value, &diag);
    } else if (info->data_bytes > 0 && view->compile != NULL) {
        data = view->host->align_constant(view->host->ctx, view->compile, value_info->value, 64);
        if (data == NULL)
            return ort_no_memory();
        status =
            inlay_value_borrow(info->dtype, info->rank, dims, (void *)(uintptr_t)data, info->data_bytes, &value, &diag);
    } else if (alignment > 1 && (uintptr_t)data % (alignment > 8 ? 8 : alignment) != 0) {
        status = inlay_value_create(info->dtype, info->rank, dims, &value, &diag);
        if (status == INLAY_OK)
            memcpy(inlay_value_data(value), data, (size_t)info->data_bytes);
    } else {
        status =
            inlay_value_borrow(info->dtype, info->rank, dims, (void *)(uintptr_t)data, info->data_bytes, &value, &diag);
    }
    return status == INLAY_OK ? ort_value_wrap(value, out) : ort_from(status, &diag);
}

OrtStatus *ort_ValueInfo_GetInitializerValue(const OrtValueInfo *value_info, const OrtValue **initializer_value)
{
    OrtValueInfo *writable = (OrtValueInfo *)(uintptr_t)value_info;
    OrtValue *value, *first = NULL;

    ORT_NEED(value_info);
    ORT_NEED(initializer_value);
    *initializer_value = NULL;
    if (!is_constant(value_info))
        return NULL;
    value = __atomic_load_n(&writable->constant, __ATOMIC_ACQUIRE);
    if (value == NULL) {
        ORT_TRY(make_constant(value_info, &value));
        if (!__atomic_compare_exchange_n(&writable->constant, &first, value, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            ort_ReleaseValue(value); /* another thread was faster */
            value = first;
        }
    }
    *initializer_value = value;
    return NULL;
}

/* The elements are in memory. */
ORT_GETTER(ort_ValueInfo_GetExternalInitializerInfo, const OrtValueInfo *, value_info, OrtExternalInitializerInfo *,
           info, NULL)
ORT_GETTER(ort_ValueInfo_IsRequiredGraphInput, const OrtValueInfo *, value_info, bool, is_required_graph_input,
           value_info->is_input && !is_constant(value_info))
/* The graphs of inlay have constants instead. */
ORT_GETTER(ort_ValueInfo_IsOptionalGraphInput, const OrtValueInfo *, value_info, bool, is_optional_graph_input, false)
ORT_GETTER(ort_ValueInfo_IsGraphOutput, const OrtValueInfo *, value_info, bool, is_graph_output, value_info->is_output)
ORT_GETTER(ort_ValueInfo_IsConstantInitializer, const OrtValueInfo *, value_info, bool, is_constant_initializer,
           is_constant(value_info))
/* The host runs control flow; values of outer graphs are inputs. */
ORT_GETTER(ort_ValueInfo_IsFromOuterScope, const OrtValueInfo *, value_info, bool, is_from_outer_scope, false)
ORT_GETTER(ort_Graph_GetName, const OrtGraph *, graph, const char *, graph_name,
           graph->graph->name.data != NULL ? graph->graph->name.data : "")
/* The model is in memory. */
ORT_GETTER(ort_Graph_GetModelPath, const OrtGraph *, graph, const char *, model_path, "")
/* The graph has the form of this version, whichever the file has. */
ORT_GETTER(ort_Graph_GetOnnxIRVersion, const OrtGraph *, graph, int64_t, onnx_ir_version, 10)

/* ONNX's own domain is "" there. */
static const char *domain_of(const inlay_node_info *node)
{
    return strcmp(node->domain.data, "ai.onnx") == 0 ? "" : node->domain.data;
}

/* The domains of a graph's operators, each with the newest version of an operator. Returns the number; writes up to
 * `most`. */
static size_t list_domains(const OrtGraph *view, const char **domains, int64_t *versions, size_t most)
{
    const inlay_graph *graph = view->graph;
    size_t count = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);
        bool is_first = true;

        for (uint32_t before = 0; is_first && before < n; before++)
            is_first = strcmp(inlay_graph_node(graph, before)->domain.data, node->domain.data) != 0;
        if (!is_first)
            continue;
        if (count < most) {
            domains[count] = domain_of(node);
            versions[count] = 0;
            for (uint32_t other = n; other < graph->node_count; other++) {
                const inlay_node_info *info = inlay_graph_node(graph, other);

                if (strcmp(info->domain.data, node->domain.data) == 0 && info->since_version > versions[count])
                    versions[count] = info->since_version;
            }
        }
        count++;
    }
    return count;
}

ORT_GETTER(ort_Graph_GetNumOperatorSets, const OrtGraph *, graph, size_t, num_operator_sets,
           list_domains(graph, NULL, NULL, 0))

OrtStatus *ort_Graph_GetOperatorSets(const OrtGraph *graph, const char **domains, int64_t *opset_versions,
                                     size_t num_operator_sets)
{
    ORT_NEED(graph);
    ORT_NEED(domains);
    ORT_NEED(opset_versions);
    return check_room(num_operator_sets, list_domains(graph, domains, opset_versions, num_operator_sets), "opsets");
}

/* Copies a list of pointers to objects of a view. */
static OrtStatus *give_values(const void *object, const OrtValueInfo *const *list, size_t count,
                              const OrtValueInfo **out, size_t room)
{
    ORT_NEED(object);
    if (count > 0)
        ORT_NEED(out);
    ORT_TRY(check_room(room, count, "values"));
    for (size_t i = 0; i < count; i++)
        out[i] = list[i];
    return NULL;
}

ORT_GETTER(ort_Graph_GetNumInputs, const OrtGraph *, graph, size_t, num_inputs, graph->input_count)

OrtStatus *ort_Graph_GetInputs(const OrtGraph *graph, const OrtValueInfo **inputs, size_t num_inputs)
{
    ORT_NEED(graph);
    return give_values(graph, graph->inputs, graph->input_count, inputs, num_inputs);
}

ORT_GETTER(ort_Graph_GetNumOutputs, const OrtGraph *, graph, size_t, num_outputs, graph->output_count)

OrtStatus *ort_Graph_GetOutputs(const OrtGraph *graph, const OrtValueInfo **outputs, size_t num_outputs)
{
    ORT_NEED(graph);
    return give_values(graph, graph->outputs, graph->output_count, outputs, num_outputs);
}

ORT_GETTER(ort_Graph_GetNumInitializers, const OrtGraph *, graph, size_t, num_initializers, graph->constant_count)

OrtStatus *ort_Graph_GetInitializers(const OrtGraph *graph, const OrtValueInfo **initializers, size_t num_initializers)
{
    ORT_NEED(graph);
    return give_values(graph, graph->constants, graph->constant_count, initializers, num_initializers);
}

ORT_GETTER(ort_Graph_GetNumNodes, const OrtGraph *, graph, size_t, num_nodes, graph->node_count)

OrtStatus *ort_Graph_GetNodes(const OrtGraph *graph, const OrtNode **nodes, size_t num_nodes)
{
    ORT_NEED(graph);
    if (graph->node_count > 0)
        ORT_NEED(nodes);
    ORT_TRY(check_room(num_nodes, graph->node_count, "nodes"));
    for (size_t i = 0; i < graph->node_count; i++)
        nodes[i] = &graph->nodes[i];
    return NULL;
}

ORT_GETTER(ort_Graph_GetParentNode, const OrtGraph *, graph, const OrtNode *, node, NULL)

OrtStatus *ort_Graph_GetGraphView(const OrtGraph *src_graph, const OrtNode **nodes, size_t num_nodes,
                                  OrtGraph **dst_graph)
{
    uint32_t *indices;
    OrtStatus *failed;

    ORT_NEED(src_graph);
    ORT_NEED(nodes);
    ORT_NEED(dst_graph);
    *dst_graph = NULL;
    indices = calloc(num_nodes + 1, sizeof *indices);
    if (indices == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < num_nodes; i++)
        indices[i] = (uint32_t)nodes[i]->id;
    qsort(indices, num_nodes, sizeof *indices, ep_compare_indices);
    failed = ep_graph_create(src_graph->graph, indices, num_nodes, src_graph->host, src_graph->compile, dst_graph);
    free(indices);
    return failed;
}

ORT_GETTER(ort_Node_GetId, const OrtNode *, node, size_t, node_id, node->id)
ORT_GETTER(ort_Node_GetName, const OrtNode *, node, const char *, node_name, node->info->name.data)
ORT_GETTER(ort_Node_GetOperatorType, const OrtNode *, node, const char *, operator_type, node->info->op_type.data)
ORT_GETTER(ort_Node_GetDomain, const OrtNode *, node, const char *, domain_name, domain_of(node->info))
ORT_GETTER(ort_Node_GetSinceVersion, const OrtNode *, node, int, since_version, (int)node->info->since_version)
ORT_GETTER(ort_Node_GetNumInputs, const OrtNode *, node, size_t, num_inputs, node->input_count)

OrtStatus *ort_Node_GetInputs(const OrtNode *node, const OrtValueInfo **inputs, size_t num_inputs)
{
    ORT_NEED(node);
    return give_values(node, node->inputs, node->input_count, inputs, num_inputs);
}

ORT_GETTER(ort_Node_GetNumOutputs, const OrtNode *, node, size_t, num_outputs, node->output_count)

OrtStatus *ort_Node_GetOutputs(const OrtNode *node, const OrtValueInfo **outputs, size_t num_outputs)
{
    ORT_NEED(node);
    return give_values(node, node->outputs, node->output_count, outputs, num_outputs);
}

/* Nodes have no bodies here, so they have neither implicit inputs nor subgraphs. */
ORT_GETTER(ort_Node_GetNumImplicitInputs, const OrtNode *, node, size_t, num_implicit_inputs, 0)

OrtStatus *ort_Node_GetImplicitInputs(const OrtNode *node, const OrtValueInfo **implicit_inputs,
                                      size_t num_implicit_inputs)
{
    (void)implicit_inputs, (void)num_implicit_inputs;
    ORT_NEED(node);
    return NULL;
}

ORT_GETTER(ort_Node_GetNumSubgraphs, const OrtNode *, node, size_t, num_subgraphs, 0)

OrtStatus *ort_Node_GetSubgraphs(const OrtNode *node, const OrtGraph **subgraphs, size_t num_subgraphs,
                                 const char **attribute_names)
{
    (void)subgraphs, (void)num_subgraphs, (void)attribute_names;
    ORT_NEED(node);
    return NULL;
}

ORT_GETTER(ort_Node_GetNumAttributes, const OrtNode *, node, size_t, num_attributes, node->attr_count)

OrtStatus *ort_Node_GetAttributes(const OrtNode *node, const OrtOpAttr **attributes, size_t num_attributes)
{
    ORT_NEED(node);
    if (node->attr_count > 0)
        ORT_NEED(attributes);
    ORT_TRY(check_room(num_attributes, node->attr_count, "attributes"));
    for (size_t i = 0; i < node->attr_count; i++)
        attributes[i] = node->attrs[i];
    return NULL;
}

OrtStatus *ort_Node_GetAttributeByName(const OrtNode *node, const char *attribute_name, const OrtOpAttr **attribute)
{
    ORT_NEED(node);
    ORT_NEED(attribute_name);
    ORT_NEED(attribute);
    *attribute = NULL;
    for (size_t i = 0; i < node->attr_count; i++)
        if (strcmp(node->attrs[i]->name, attribute_name) == 0)
            *attribute = node->attrs[i];
    if (*attribute == NULL)
        return ort_fail(ORT_NOT_FOUND, "node %s has no attribute %s", node->info->name.data, attribute_name);
    return NULL;
}

ORT_GETTER(ort_Node_GetGraph, const OrtNode *, node, const OrtGraph *, graph, node->graph)
ORT_GETTER(ort_Node_GetEpName, const OrtNode *, node, const char *, out, node->ep_name)
