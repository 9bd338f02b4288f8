/* Nodes of the runtime's graph as an ONNX file in memory. Weights are copied once: small parts of the file are written
 * first, so that its size is known before it is put together. */
#include "ort_ep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_ATTRIBUTE = 5, TENSOR_ATTRIBUTE = 4 }; /* AttributeProto.type */
/* Larger initializers are inputs of a model that only asks whether inlay supports it. */
enum { PROBE_BYTES = 1024 };
/* The text of a model has the constants up to this size. */
enum { TEXT_BYTES = 4096 };

#define EP_LIST(name, owner, type, list, count_of, fill)                                                               \
    OrtStatus *name(const ep_runtime *runtime, const owner *from, list *out)                                           \
    {                                                                                                                  \
        *out = (list){ 0 };                                                                                            \
        ORT_TRY(runtime->api->count_of(from, &out->count));                                                            \
        out->items = calloc(out->count + 1, sizeof *out->items);                                                       \
        if (out->items == NULL)                                                                                        \
            return ep_no_memory(runtime);                                                                              \
        return runtime->api->fill(from, out->items, out->count);                                                       \
    }
EP_LIST(ep_graph_nodes, OrtGraph, OrtNode, ep_nodes, Graph_GetNumNodes, Graph_GetNodes)
EP_LIST(ep_graph_outputs, OrtGraph, OrtValueInfo, ep_values, Graph_GetNumOutputs, Graph_GetOutputs)
EP_LIST(ep_node_inputs, OrtNode, OrtValueInfo, ep_values, Node_GetNumInputs, Node_GetInputs)
EP_LIST(ep_node_implicit_inputs, OrtNode, OrtValueInfo, ep_values, Node_GetNumImplicitInputs, Node_GetImplicitInputs)
EP_LIST(ep_node_outputs, OrtNode, OrtValueInfo, ep_values, Node_GetNumOutputs, Node_GetOutputs)
static EP_LIST(graph_inputs, OrtGraph, OrtValueInfo, ep_values, Graph_GetNumInputs,
               Graph_GetInputs) static EP_LIST(graph_initializers, OrtGraph, OrtValueInfo, ep_values,
                                               Graph_GetNumInitializers, Graph_GetInitializers)

    static OrtStatus *tensor_info(const ep_runtime *runtime, const OrtValueInfo *info,
                                  const OrtTensorTypeAndShapeInfo **out)
{
    const OrtTypeInfo *type = NULL;
    ONNXType kind = ONNX_TYPE_UNKNOWN;

    *out = NULL;
    ORT_TRY(runtime->api->GetValueInfoTypeInfo(info, &type));
    if (type == NULL)
        return NULL;
    ORT_TRY(runtime->api->GetOnnxTypeFromTypeInfo(type, &kind));
    return kind == ONNX_TYPE_TENSOR ? runtime->api->CastTypeInfoToTensorInfo(type, out) : NULL;
}

OrtStatus *ep_value_dtype(const ep_runtime *runtime, const OrtValueInfo *info, inlay_dtype *out)
{
    const OrtTensorTypeAndShapeInfo *tensor;
    ONNXTensorElementDataType type;

    *out = INLAY_UNDEFINED;
    ORT_TRY(tensor_info(runtime, info, &tensor));
    if (tensor == NULL)
        return NULL;
    ORT_TRY(runtime->api->GetTensorElementType(tensor, &type));
    *out = ep_dtype(type);
    return NULL;
}

/* TensorShapeProto. Version 23 does not tell a scalar from a tensor without a shape: neither has one then. */
static OrtStatus *put_shape(const ep_runtime *runtime, ort_writer *tensor, const OrtTensorTypeAndShapeInfo *from)
{
    const char *names[INLAY_MAX_RANK] = { NULL };
    int64_t dims[INLAY_MAX_RANK];
    ort_writer shape = { 0 };
    size_t rank = 0;

    ORT_TRY(runtime->api->GetDimensionsCount(from, &rank));
    if (rank > INLAY_MAX_RANK ||
        (rank == 0 && (runtime->version < 24 || !runtime->api->TensorTypeAndShape_HasShape(from))))
        return NULL;
    ORT_TRY(runtime->api->GetDimensions(from, dims, rank));
    ORT_TRY(runtime->api->GetSymbolicDimensions(from, names, rank));
    for (size_t d = 0; d < rank; d++) {
        ort_writer dim = { 0 };

        if (dims[d] >= 0)
            ort_put_number(&dim, 1, dims[d]);
        else if (names[d] != NULL && names[d][0] != '\0')
            ort_put_text(&dim, 2, names[d]);
        ort_put_message(&shape, 1, &dim);
    }
    ort_put_message(tensor, 2, &shape);
    return NULL;
}

/* The name under which a value is written: its place in `numbered` if this is not NULL, so that two models that differ
 * in names alone are equal. */
typedef struct written_name {
    char text[24]; /* the digits of a size_t */
    const char *name;
} written_name;
static const char *write_name(const ep_names *numbered, const char *name, written_name *out)
{
    const ep_name *item = numbered != NULL ? ep_names_find(numbered, name) : NULL;

    out->name = name;
    if (item != NULL) {
        (void)snprintf(out->text, sizeof out->text, "%zu", (size_t)(item - numbered->items));
        out->name = out->text;
    }
    return out->name;
}

/* ValueInfoProto. The type of a value that is not a tensor is left to inlay. */
static OrtStatus *put_value(const ep_runtime *runtime, ort_writer *graph, uint32_t field, const OrtValueInfo *info,
                            const ep_names *numbered)
{
    const OrtTensorTypeAndShapeInfo *from;
    ort_writer value = { 0 }, type = { 0 }, tensor = { 0 };
    ONNXTensorElementDataType element;
    OrtStatus *failed = NULL;
    written_name written;
    const char *name;

    ORT_TRY(runtime->api->GetValueInfoName(info, &name));
    ORT_TRY(tensor_info(runtime, info, &from));
    ort_put_text(&value, 1, write_name(numbered, name, &written));
    if (from != NULL) {
        failed = runtime->api->GetTensorElementType(from, &element);
        if (failed == NULL) {
            ort_put_number(&tensor, 1, ep_dtype(element));
            failed = put_shape(runtime, &tensor, from);
        }
        ort_put_message(&type, 1, &tensor);
        ort_put_message(&value, 2, &type);
    }
    ort_put_message(graph, field, &value);
    return failed;
}

/* The elements of a tensor, and the fields of its TensorProto before them. */
typedef struct tensor_part {
    size_t at, head_bytes; /* the fields in graph_parts.heads */
    const void *data;
    size_t bytes;
} tensor_part;

/* A graph that is being written. */
typedef struct graph_parts {
    ort_writer small; /* all but large initializers */
    ort_writer heads;
    tensor_part *large; /* [large_count] */
    size_t large_count;
} graph_parts;

static OrtStatus *put_string_tensor(const ep_runtime *runtime, ort_writer *tensor, const OrtValue *value, size_t count)
{
    OrtStatus *failed = NULL;

    for (size_t i = 0; failed == NULL && i < count; i++) {
        size_t bytes = 0;
        char *text;

        ORT_TRY(runtime->api->GetStringTensorElementLength(value, i, &bytes));
        text = malloc(bytes + 1);
        if (text == NULL)
            return ep_no_memory(runtime);
        failed = runtime->api->GetStringTensorElement(value, bytes, i, text);
        if (failed == NULL)
            ort_put_blob(tensor, TENSOR_STRINGS, text, bytes);
        free(text);
    }
    return failed;
}

/* Dims, type and name of a TensorProto; the strings as well. *out_bytes: the size of the elements that follow. */
static OrtStatus *put_tensor_head(const ep_runtime *runtime, ort_writer *tensor, const char *name,
                                  const OrtValue *value, const void **out_data, size_t *out_bytes)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    ONNXTensorElementDataType type = 0;
    int64_t dims[INLAY_MAX_RANK];
    size_t rank = 0, count = 0;
    OrtStatus *failed;

    *out_data = NULL;
    *out_bytes = 0;
    ORT_TRY(runtime->api->GetTensorTypeAndShape(value, &info));
    failed = runtime->api->GetTensorElementType(info, &type);
    if (failed == NULL)
        failed = runtime->api->GetDimensionsCount(info, &rank);
    if (failed == NULL && rank > INLAY_MAX_RANK)
        failed = ep_fail(runtime, ORT_EP_FAIL, name, "the rank of the constant is above 16");
    if (failed == NULL)
        failed = runtime->api->GetDimensions(info, dims, rank);
    if (failed == NULL)
        failed = runtime->api->GetTensorShapeElementCount(info, &count);
    runtime->api->ReleaseTensorTypeAndShapeInfo(info);
    ORT_TRY(failed);
    for (size_t d = 0; d < rank; d++)
        ort_put_number(tensor, TENSOR_DIMS, dims[d]);
    ort_put_number(tensor, TENSOR_TYPE, ep_dtype(type));
    ort_put_text(tensor, TENSOR_NAME, name);
    if (ep_dtype(type) == INLAY_STRING)
        return put_string_tensor(runtime, tensor, value, count);
    ORT_TRY(runtime->api->GetTensorData(value, out_data));
    return runtime->api->GetTensorSizeInBytes(value, out_bytes);
}

static OrtStatus *put_small_tensor(const ep_runtime *runtime, ort_writer *to, uint32_t field, const char *name,
                                   const OrtValue *value)
{
    ort_writer tensor = { 0 };
    const void *data;
    size_t bytes;
    OrtStatus *failed = put_tensor_head(runtime, &tensor, name, value, &data, &bytes);

    if (bytes > 0)
        ort_put_blob(&tensor, TENSOR_RAW, data, bytes);
    ort_put_message(to, field, &tensor);
    return failed;
}

static OrtStatus *put_initializer(const ep_runtime *runtime, graph_parts *graph, const char *name,
                                  const OrtValueInfo *info, bool probe, const ep_names *numbered)
{
    const OrtValue *value = NULL;
    written_name written;
    size_t bytes = 0;
    tensor_part part;
    tensor_part *more;
    inlay_dtype dtype;

    ORT_TRY(ep_value_dtype(runtime, info, &dtype));
    ORT_TRY(runtime->api->ValueInfo_GetInitializerValue(info, &value));
    if (value == NULL)
        return ep_fail(runtime, ORT_EP_FAIL, name, "the constant has no value");
    if (dtype != INLAY_STRING)
        ORT_TRY(runtime->api->GetTensorSizeInBytes(value, &bytes));
    if (probe && bytes > PROBE_BYTES)
        return put_value(runtime, &graph->small, GRAPH_INPUT, info, numbered);
    if (bytes <= TEXT_BYTES)
        return put_small_tensor(runtime, &graph->small, GRAPH_INITIALIZER, write_name(numbered, name, &written), value);
    part.at = graph->heads.count;
    ORT_TRY(put_tensor_head(runtime, &graph->heads, name, value, &part.data, &part.bytes));
    part.head_bytes = graph->heads.count - part.at;
    more = realloc(graph->large, (graph->large_count + 1) * sizeof *more);
    if (more == NULL)
        return ep_no_memory(runtime);
    graph->large = more;
    graph->large[graph->large_count++] = part;
    return NULL;
}

static OrtStatus *put_body(const ep_runtime *runtime, ort_writer *to, uint32_t field, const OrtGraph *body);

/* An attribute other than a graph. */
static OrtStatus *put_attribute(const ep_runtime *runtime, ort_writer *node, const OrtOpAttr *from)
{
    /* AttributeProto.type and the field of the value */
    static const struct {
        int type;
        uint32_t field;
    } kinds[] = { [ORT_OP_ATTR_INT] = { 2, 3 },    [ORT_OP_ATTR_INTS] = { 7, 8 },
                  [ORT_OP_ATTR_FLOAT] = { 1, 2 },  [ORT_OP_ATTR_FLOATS] = { 6, 7 },
                  [ORT_OP_ATTR_STRING] = { 3, 4 }, [ORT_OP_ATTR_STRINGS] = { 8, 9 },
                  [ORT_OP_ATTR_GRAPH] = { 0, 0 },  [ORT_OP_ATTR_TENSOR] = { TENSOR_ATTRIBUTE, 5 } };
    OrtStatus *failed = NULL;
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    ort_writer attr = { 0 };
    OrtValue *tensor = NULL;
    size_t bytes = 0;
    uint32_t field;
    char *data;
    const char *name;

    ORT_TRY(runtime->api->OpAttr_GetName(from, &name));
    ORT_TRY(runtime->api->OpAttr_GetType(from, &type));
    if (type == ORT_OP_ATTR_GRAPH)
        return NULL; /* Node_GetSubgraphs has it */
    if (type <= ORT_OP_ATTR_UNDEFINED || type > ORT_OP_ATTR_TENSOR)
        return ep_fail(runtime, ORT_NOT_IMPLEMENTED, name, "the type of the attribute is not known");
    field = kinds[type].field;
    ort_put_text(&attr, 1, name);
    ort_put_number(&attr, 20, kinds[type].type);
    if (type == ORT_OP_ATTR_TENSOR) {
        failed = runtime->api->OpAttr_GetTensorAttributeAsOrtValue(from, &tensor);
        if (failed == NULL && tensor != NULL)
            failed = put_small_tensor(runtime, &attr, field, name, tensor);
        runtime->api->ReleaseValue(tensor);
        ort_put_message(node, NODE_ATTRIBUTE, &attr);
        return failed;
    }
    /* The first call fails if there are elements, and returns their size. */
    runtime->api->ReleaseStatus(runtime->api->ReadOpAttr(from, type, NULL, 0, &bytes));
    data = calloc(1, bytes + sizeof(int64_t));
    if (data == NULL)
        failed = ep_no_memory(runtime);
    else if (bytes > 0)
        failed = runtime->api->ReadOpAttr(from, type, data, bytes, &bytes);
    if (failed == NULL && (type == ORT_OP_ATTR_INT || type == ORT_OP_ATTR_INTS))
        for (size_t i = 0; i < bytes / sizeof(int64_t); i++)
            ort_put_number(&attr, field, ((const int64_t *)(const void *)data)[i]);
    else if (failed == NULL && (type == ORT_OP_ATTR_FLOAT || type == ORT_OP_ATTR_FLOATS))
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            ort_put_float(&attr, field, ((const float *)(const void *)data)[i]);
    else if (failed == NULL && type == ORT_OP_ATTR_STRING)
        ort_put_blob(&attr, field, data, bytes);
    else if (failed == NULL) /* texts, each with its NUL */
        for (size_t at = 0; at < bytes; at += strlen(data + at) + 1)
            ort_put_text(&attr, field, data + at);
    free(data);
    ort_put_message(node, NODE_ATTRIBUTE, &attr);
    return failed;
}

static OrtStatus *put_attributes(const ep_runtime *runtime, ort_writer *node, const OrtNode *from)
{
    const OrtOpAttr **attributes;
    OrtStatus *failed;
    size_t count = 0;

    ORT_TRY(runtime->api->Node_GetNumAttributes(from, &count));
    attributes = calloc(count + 1, sizeof *attributes);
    if (attributes == NULL)
        return ep_no_memory(runtime);
    failed = runtime->api->Node_GetAttributes(from, attributes, count);
    for (size_t i = 0; failed == NULL && i < count; i++)
        failed = put_attribute(runtime, node, attributes[i]);
    free(attributes);
    return failed;
}

static OrtStatus *put_bodies(const ep_runtime *runtime, ort_writer *node, const OrtNode *from)
{
    const OrtGraph **bodies;
    const char **names;
    OrtStatus *failed;
    size_t count = 0;

    ORT_TRY(runtime->api->Node_GetNumSubgraphs(from, &count));
    bodies = calloc(count + 1, sizeof *bodies);
    names = calloc(count + 1, sizeof *names);
    if (bodies == NULL || names == NULL)
        failed = ep_no_memory(runtime);
    else
        failed = runtime->api->Node_GetSubgraphs(from, bodies, count, names);
    for (size_t i = 0; failed == NULL && i < count; i++) {
        ort_writer attr = { 0 };

        ort_put_text(&attr, 1, names[i]);
        ort_put_number(&attr, 20, GRAPH_ATTRIBUTE);
        failed = put_body(runtime, &attr, 6, bodies[i]);
        ort_put_message(node, NODE_ATTRIBUTE, &attr);
    }
    free(bodies);
    free(names);
    return failed;
}

static OrtStatus *put_names(const ep_runtime *runtime, ort_writer *node, uint32_t field, const ep_values *values,
                            const ep_names *numbered)
{
    for (size_t i = 0; i < values->count; i++) {
        const char *name = "";
        written_name written;

        if (values->items[i] != NULL)
            ORT_TRY(runtime->api->GetValueInfoName(values->items[i], &name));
        ort_put_text(node, field, write_name(numbered, name, &written));
    }
    return NULL;
}

static OrtStatus *put_node(const ep_runtime *runtime, ort_writer *graph, const OrtNode *from, const ep_names *numbered)
{
    const char *name = "", *op = "", *domain = "";
    ep_values inputs = { 0 }, outputs = { 0 };
    ort_writer node = { 0 };
    OrtStatus *failed = ep_node_inputs(runtime, from, &inputs);

    if (failed == NULL)
        failed = ep_node_outputs(runtime, from, &outputs);
    if (failed == NULL)
        failed = put_names(runtime, &node, NODE_INPUT, &inputs, numbered);
    if (failed == NULL)
        failed = put_names(runtime, &node, NODE_OUTPUT, &outputs, numbered);
    if (failed == NULL)
        failed = runtime->api->Node_GetName(from, &name);
    if (failed == NULL)
        failed = runtime->api->Node_GetOperatorType(from, &op);
    if (failed == NULL)
        failed = runtime->api->Node_GetDomain(from, &domain);
    ort_put_text(&node, NODE_NAME, numbered != NULL ? "" : name);
    ort_put_text(&node, NODE_OPERATOR, op);
    ort_put_text(&node, NODE_DOMAIN, domain);
    if (failed == NULL)
        failed = put_attributes(runtime, &node, from);
    if (failed == NULL)
        failed = put_bodies(runtime, &node, from);
    ort_put_message(graph, GRAPH_NODE, &node);
    free(inputs.items);
    free(outputs.items);
    return failed;
}

static OrtStatus *put_values(const ep_runtime *runtime, ort_writer *graph, uint32_t field, const ep_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        ORT_TRY(put_value(runtime, graph, field, values->items[i], NULL));
    return NULL;
}

static OrtStatus *put_body_initializers(const ep_runtime *runtime, ort_writer *graph, const ep_values *values)
{
    for (size_t i = 0; i < values->count; i++) {
        const OrtValue *value = NULL;
        const char *name;

        ORT_TRY(runtime->api->GetValueInfoName(values->items[i], &name));
        ORT_TRY(runtime->api->ValueInfo_GetInitializerValue(values->items[i], &value));
        if (value != NULL)
            ORT_TRY(put_small_tensor(runtime, graph, GRAPH_INITIALIZER, name, value));
    }
    return NULL;
}

/* The body of a control-flow node, as a GraphProto. */
static OrtStatus *put_body(const ep_runtime *runtime, ort_writer *to, uint32_t field, const OrtGraph *body)
{
    ep_values inputs = { 0 }, outputs = { 0 }, initializers = { 0 };
    ep_nodes nodes = { 0 };
    ort_writer graph = { 0 };
    OrtStatus *failed = ep_graph_nodes(runtime, body, &nodes);

    ort_put_text(&graph, GRAPH_NAME, "body");
    for (size_t i = 0; failed == NULL && i < nodes.count; i++)
        failed = put_node(runtime, &graph, nodes.items[i], NULL);
    if (failed == NULL)
        failed = graph_inputs(runtime, body, &inputs);
    if (failed == NULL)
        failed = ep_graph_outputs(runtime, body, &outputs);
    if (failed == NULL)
        failed = graph_initializers(runtime, body, &initializers);
    if (failed == NULL)
        failed = put_body_initializers(runtime, &graph, &initializers);
    if (failed == NULL)
        failed = put_values(runtime, &graph, GRAPH_INPUT, &inputs);
    if (failed == NULL)
        failed = put_values(runtime, &graph, GRAPH_OUTPUT, &outputs);
    ort_put_message(to, field, &graph);
    free(nodes.items);
    free(inputs.items);
    free(outputs.items);
    free(initializers.items);
    return failed;
}

static OrtStatus *add_names(const ep_runtime *runtime, ep_names *names, const ep_values *values, bool produced)
{
    for (size_t i = 0; i < values->count; i++) {
        const char *name;
        ep_name *item;

        if (values->items[i] == NULL)
            continue;
        ORT_TRY(runtime->api->GetValueInfoName(values->items[i], &name));
        if (name[0] == '\0')
            continue;
        item = ep_names_add(names, name, values->items[i]);
        if (item == NULL)
            return ep_no_memory(runtime);
        item->produced |= produced;
    }
    return NULL;
}

/* Every value that the nodes read or compute. */
static OrtStatus *collect_names(const ep_runtime *runtime, const ep_group *group, ep_names *names)
{
    OrtStatus *(*const lists[])(const ep_runtime *, const OrtNode *,
                                ep_values *) = { ep_node_inputs, ep_node_implicit_inputs, ep_node_outputs };

    for (size_t i = 0; i < group->count; i++)
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
            ep_values values;
            OrtStatus *failed = lists[k](runtime, group->nodes[i], &values);

            if (failed == NULL)
                failed = add_names(runtime, names, &values, lists[k] == ep_node_outputs);
            free(values.items);
            ORT_TRY(failed);
        }
    return NULL;
}

static OrtStatus *is_bindable(const ep_runtime *runtime, const OrtValueInfo *info, bool *bindable)
{
    inlay_dtype dtype;

    ORT_TRY(ep_value_dtype(runtime, info, &dtype));
    *bindable &= dtype != INLAY_UNDEFINED && dtype != INLAY_STRING;
    return NULL;
}

/* No node has a body, whose nodes would read values by name. */
static OrtStatus *has_no_bodies(const ep_runtime *runtime, const ep_group *group, bool *out)
{
    size_t count = 0;

    for (size_t i = 0; count == 0 && i < group->count; i++)
        ORT_TRY(runtime->api->Node_GetNumSubgraphs(group->nodes[i], &count));
    *out = count == 0;
    return NULL;
}

static OrtStatus *put_graph(const ep_runtime *runtime, const ep_group *group, const ep_names *names, graph_parts *graph,
                            bool *bindable)
{
    const ep_names *numbered;
    bool may_number;

    ORT_TRY(has_no_bodies(runtime, group, &may_number));
    numbered = group->probe && may_number ? names : NULL;
    ort_put_text(&graph->small, GRAPH_NAME, "inlay");
    for (size_t i = 0; i < names->count; i++) {
        const ep_name *item = &names->items[i];
        bool constant = false;

        if (item->produced)
            continue;
        ORT_TRY(runtime->api->ValueInfo_IsConstantInitializer(item->info, &constant));
        if (constant) {
            ORT_TRY(put_initializer(runtime, graph, item->name, item->info, group->probe, numbered));
            continue;
        }
        ORT_TRY(is_bindable(runtime, item->info, bindable));
        ORT_TRY(put_value(runtime, &graph->small, GRAPH_INPUT, item->info, numbered));
    }
    for (size_t i = 0; i < group->output_count; i++) {
        const ep_name *item;
        const char *name;

        if (group->outputs[i] == NULL)
            continue;
        ORT_TRY(runtime->api->GetValueInfoName(group->outputs[i], &name));
        item = ep_names_find(names, name);
        if (item == NULL || !item->produced)
            continue; /* the runtime passes it on */
        ORT_TRY(is_bindable(runtime, group->outputs[i], bindable));
        ORT_TRY(put_value(runtime, &graph->small, GRAPH_OUTPUT, group->outputs[i], numbered));
    }
    for (size_t i = 0; *bindable && i < group->count; i++)
        ORT_TRY(put_node(runtime, &graph->small, group->nodes[i], numbered));
    return NULL;
}

static OrtStatus *put_header(const ep_runtime *runtime, ort_writer *file, const OrtGraph *graph)
{
    size_t count = 0;
    int64_t ir_version = 0;
    const char **domains;
    int64_t *versions;
    OrtStatus *failed;

    ORT_TRY(runtime->api->Graph_GetOnnxIRVersion(graph, &ir_version));
    ORT_TRY(runtime->api->Graph_GetNumOperatorSets(graph, &count));
    domains = calloc(count + 1, sizeof *domains);
    versions = calloc(count + 1, sizeof *versions);
    if (domains == NULL || versions == NULL)
        failed = ep_no_memory(runtime);
    else
        failed = runtime->api->Graph_GetOperatorSets(graph, domains, versions, count);
    ort_put_number(file, MODEL_IR_VERSION, ir_version);
    for (size_t i = 0; failed == NULL && i < count; i++) {
        ort_writer opset = { 0 };

        ort_put_text(&opset, OPSET_DOMAIN, domains[i]);
        ort_put_number(&opset, OPSET_VERSION, versions[i]);
        ort_put_message(file, MODEL_OPSET, &opset);
    }
    free(domains);
    free(versions);
    return failed;
}

static size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;

    while (value > 0x7f) {
        value >>= 7;
        bytes++;
    }
    return bytes;
}

/* The payload of a large initializer's TensorProto. */
static size_t tensor_bytes(const tensor_part *part)
{
    return part->head_bytes + 1 + varint_bytes(part->bytes) + part->bytes;
}

static void assemble(ort_writer *file, const graph_parts *graph)
{
    size_t bytes = graph->small.count, room;

    for (size_t i = 0; i < graph->large_count; i++)
        bytes += 1 + varint_bytes(tensor_bytes(&graph->large[i])) + tensor_bytes(&graph->large[i]);
    room = file->count + 1 + varint_bytes(bytes) + bytes;
    {
        unsigned char *data = realloc(file->data, room);

        if (data == NULL) {
            file->failed = true;
            return;
        }
        file->data = data;
        file->capacity = room;
    }
    ort_put_varint(file, MODEL_GRAPH << 3 | WIRE_BYTES);
    ort_put_varint(file, bytes);
    ort_put(file, graph->small.data, graph->small.count);
    for (size_t i = 0; i < graph->large_count; i++) {
        const tensor_part *part = &graph->large[i];

        ort_put_varint(file, GRAPH_INITIALIZER << 3 | WIRE_BYTES);
        ort_put_varint(file, tensor_bytes(part));
        ort_put(file, graph->heads.data + part->at, part->head_bytes);
        ort_put_blob(file, TENSOR_RAW, part->data, part->bytes);
    }
}

OrtStatus *ep_model_write(const ep_runtime *runtime, const ep_group *group, ep_model *out, bool *bindable)
{
    graph_parts graph = { 0 };
    ep_names names = { 0 };
    OrtStatus *failed;

    *out = (ep_model){ 0 };
    *bindable = true;
    failed = collect_names(runtime, group, &names);
    if (failed == NULL)
        failed = put_graph(runtime, group, &names, &graph, bindable);
    if (failed == NULL && *bindable)
        failed = put_header(runtime, &out->file, group->graph);
    if (failed == NULL && *bindable) {
        assemble(&out->file, &graph);
        if (graph.small.failed || graph.heads.failed || out->file.failed)
            failed = ep_no_memory(runtime);
    }
    ep_names_deinit(&names);
    free(graph.heads.data);
    free(graph.large);
    out->text = graph.small;
    out->node_count = group->count;
    return failed;
}

OrtStatus *ep_model_create(const struct ep *self, const ep_group *group, ep_model **out, inlay_diag *diag)
{
    ep_model *model = malloc(sizeof *model);
    inlay_status status = INLAY_OK;
    OrtStatus *failed;
    bool bindable;

    *out = NULL;
    if (model == NULL)
        return ep_no_memory(&self->runtime);
    failed = ep_model_write(&self->runtime, group, model, &bindable);
    if (failed == NULL && bindable)
        status =
            inlay_session_create_from_bytes(model->file.data, model->file.count, self->options, &model->session, diag);
    if (failed == NULL && !bindable)
        (void)snprintf(diag->text, sizeof diag->text, "an input or output is not a tensor of numbers");
    /* What inlay cannot run is not a failure: the runtime has other providers. */
    if (failed == NULL && status != INLAY_UNSUPPORTED && status != INLAY_INVALID_MODEL)
        failed = ep_from(&self->runtime, status, diag);
    if (model->session == NULL)
        ep_model_destroy(model);
    else
        *out = model;
    return failed;
}

void ep_model_destroy(ep_model *model)
{
    if (model == NULL)
        return;
    inlay_session_destroy(model->session);
    free(model->file.data);
    free(model->text.data);
    free(model);
}
